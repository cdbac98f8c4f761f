//! Real traces: with `GAUNTLET_WIRE` set to a folder of cases (`cases/*/case.json`), every capture
//! goes through flows and streams, and what was counted is compared with what Suricata counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gauntlet_packet::flow;
use gauntlet_packet::tcp;
use serde_json::Value;

use super::replay::Replay;
use super::wire::settings_of;

/// Cases whose counters depend on what the layers above do: rules that drop packets (verdict-03,
/// gap-simple-frames-ips), a protocol that lifts the depth (backoff-single-flow: SMB), and data
/// without a protocol, which waits until its end (the others).
const ABOVE: &[&str] = &[
    "bug-5464-verdict-03",
    "eve-overlap-payload-05-gap",
    "eve-payload-05-tcp-data-gap",
    "http-gap-simple-frames-ips",
    "threshold__threshold-rule-flow-backoff-single-flow",
];

pub(crate) fn stream_settings(case: &Value) -> (flow::Settings, tcp::Settings) {
    let absent: Vec<&str> = case["sections_absent"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut streams = if absent.contains(&"stream") {
        tcp::Settings::built_in()
    } else {
        tcp::Settings::default()
    };
    let mut flows = if absent.contains(&"flow-timeouts") {
        flow::Settings::built_in()
    } else {
        flow::Settings::default()
    };
    streams.hosts = settings_of(case).hosts;
    for (key, value) in case["overrides"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = streams.set(key, &value) || flows.set(key, &value);
    }
    if case["checksum"].as_str() == Some("none") {
        streams.validate_checksums = false;
    }
    streams.resolve(case["ips"].as_bool() == Some(true));
    flows.resolve(&streams);
    (flows, streams)
}

fn counted(replay: &Replay) -> BTreeMap<&'static str, u64> {
    let (flows, tcp) = (&replay.flows.counters, &replay.engine.counters);
    let pairs = [
        ("flow.total", flows.total),
        ("flow.tcp", flows.tcp),
        ("flow.udp", flows.udp),
        ("flow.icmpv4", flows.icmpv4),
        ("flow.icmpv6", flows.icmpv6),
        ("flow.tcp_reuse", flows.tcp_reuse),
        ("tcp.sessions", tcp.sessions),
        ("tcp.midstream_pickups", tcp.midstream_pickups),
        ("tcp.invalid_checksum", tcp.invalid_checksum),
        ("tcp.ack_unseen_data", tcp.ack_unseen_data),
        ("tcp.stream_depth_reached", tcp.stream_depth_reached),
        ("tcp.reassembly_gap", tcp.reassembly_gap),
        ("tcp.overlap", tcp.overlap),
        ("tcp.overlap_diff_data", tcp.overlap_different),
        ("tcp.urgent_oob_data", tcp.urgent),
    ];
    pairs.into_iter().collect()
}

fn differences(folder: &Path) -> Vec<String> {
    let case: Value = serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
    let pcap = folder.join(case["pcap"]["file"].as_str().unwrap());
    let (flows, streams) = stream_settings(&case);
    let mut replay = Replay::new(flows, streams);
    replay.file(&pcap, settings_of(&case));
    counted(&replay)
        .into_iter()
        .map(|(name, ours)| (name, ours, case["expected"]["stats"][name].as_u64().unwrap_or(0)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(name, ours, theirs)| format!("{name}: {ours}, expected {theirs}"))
        .collect()
}

#[test]
fn flows_and_sessions_are_those_of_suricata() {
    let Some(wire) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let mut cases: Vec<PathBuf> =
        fs::read_dir(wire.join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let mut wrong = 0;
    for folder in &cases {
        let name = folder.file_name().unwrap().to_string_lossy();
        if ABOVE.contains(&&*name) {
            continue;
        }
        let differences = differences(folder);
        if !differences.is_empty() {
            wrong += 1;
            eprintln!("{name}: {}", differences.join("; "));
        }
    }
    let compared = cases.len() - ABOVE.len();
    eprintln!("{} of {compared} cases are equal", compared - wrong);
    assert_eq!(wrong, 0, "counters differ");
}
