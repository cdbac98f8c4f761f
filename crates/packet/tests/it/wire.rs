//! Real traces: with `GAUNTLET_WIRE` set to a folder of cases (`cases/*/case.json`), every
//! capture is decoded, and what was counted is compared with what Suricata counted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use gauntlet_packet::{
    Capture, Checksums, Decoder, IpVersion, Packet, PacketSource, Settings, Transport, event,
};
use serde_json::Value;

/// Counters that decoding and defragmentation keep.
fn is_ours(name: &str) -> bool {
    let tcp = matches!(name, "tcp.syn" | "tcp.synack" | "tcp.rst" | "tcp.urg");
    let sizes = name.contains("_size") || name.contains("max_mac") || name == "decoder.bytes";
    tcp || ((name.starts_with("decoder.") || name.starts_with("defrag.")) && !sizes)
}

pub(crate) fn settings_of(case: &Value) -> Settings {
    let mut settings = Settings::default();
    let absent = case["sections_absent"].as_array().cloned().unwrap_or_default();
    let absent: Vec<&str> = absent.iter().filter_map(Value::as_str).collect();
    let built_in = Settings::built_in();
    if absent.contains(&"host-os-policy") {
        settings.hosts = built_in.hosts;
    }
    if absent.contains(&"decoder") {
        settings.teredo = built_in.teredo;
    }
    if absent.contains(&"defrag") {
        settings.defrag = built_in.defrag;
    }
    settings.checksums = match case["checksum"].as_str() {
        Some("none") => Checksums::None,
        _ => Checksums::Auto,
    };
    for (key, value) in case["overrides"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        settings.set(key, &value);
    }
    settings
}

fn decode(path: &Path, settings: Settings) -> Decoder {
    let mut decoder = Decoder::new(settings);
    let mut capture = Capture::open(File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(frame) = capture.next().unwrap() {
        packets.clear();
        decoder.decode(&frame, &mut packets);
    }
    decoder
}

fn differences(folder: &Path) -> Vec<String> {
    let case: Value = serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
    let pcap = folder.join(case["pcap"]["file"].as_str().unwrap());
    let decoder = decode(&pcap, settings_of(&case));
    let ours: BTreeMap<String, u64> =
        decoder.counters().iter().filter(|(name, _)| is_ours(name)).collect();
    let theirs: BTreeMap<String, u64> = case["expected"]["stats"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_ours(name))
        .map(|(name, value)| (name.clone(), value.as_u64().unwrap_or_default()))
        .collect();
    let mut names: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    names.sort();
    names.dedup();
    let value = |of: &BTreeMap<String, u64>, name: &str| of.get(name).copied().unwrap_or_default();
    names
        .into_iter()
        .map(|name| (name, value(&ours, name), value(&theirs, name)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(name, ours, theirs)| format!("{name}: {ours}, expected {theirs}"))
        .collect()
}

#[test]
fn counters_are_those_of_suricata() {
    let Some(wire) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let mut cases: Vec<PathBuf> =
        fs::read_dir(wire.join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let mut wrong = Vec::new();
    for folder in &cases {
        let differences = differences(folder);
        if !differences.is_empty() {
            let name = folder.file_name().unwrap().display();
            wrong.push(format!("{name}: {}", differences.join("; ")));
        }
    }
    assert!(!cases.is_empty());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Rules that only look at events of decoding or at checksums: what they match, by their number.
fn event_rules(rules: &str) -> Vec<(u32, String)> {
    let option = |rule: &str, name: &str| {
        let (_, rest) = rule.split_once(&format!("{name}:"))?;
        Some(rest.split(';').next()?.trim().to_owned())
    };
    rules
        .lines()
        .filter(|rule| rule.starts_with("alert"))
        .filter_map(|rule| {
            let sid: u32 = option(rule, "sid")?.parse().ok()?;
            let what = option(rule, "decode-event").or_else(|| {
                let name = rule.split('(').nth(1)?.split("-csum:invalid").next()?;
                rule.contains("-csum:invalid")
                    .then(|| name.rsplit(' ').next().map(str::to_owned))?
            })?;
            (2_200_000..2_201_000).contains(&sid).then_some((sid, what))
        })
        .collect()
}

fn matches(packet: &Packet, what: &str) -> bool {
    let version = packet.ip.as_ref().map(|ip| ip.version);
    let (v4, v6) = (version == Some(IpVersion::V4), version == Some(IpVersion::V6));
    match (what, &packet.transport) {
        ("ipv4", _) => v4 && packet.ip.as_ref().is_some_and(|ip| !ip.checksum_ok),
        ("tcpv4", Transport::Tcp(tcp)) => v4 && !tcp.checksum_ok,
        ("tcpv6", Transport::Tcp(tcp)) => v6 && !tcp.checksum_ok,
        ("udpv4", Transport::Udp(udp)) => v4 && !udp.checksum_ok,
        ("udpv6", Transport::Udp(udp)) => v6 && !udp.checksum_ok,
        ("icmpv4", Transport::Icmp(icmp)) => v4 && !icmp.checksum_ok,
        ("icmpv6", Transport::Icmp(icmp)) => v6 && !icmp.checksum_ok,
        _ => event::number(what).is_some_and(|number| packet.events.contains(&number)),
    }
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    ruzstd::decoding::StreamingDecoder::new(File::open(path).unwrap())
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Number of the packet (0 of inner ones) and of the rule.
type Alerts = Vec<(u64, u32)>;

fn expected_alerts(wire: &Path, rules: &[(u32, String)]) -> BTreeMap<String, Alerts> {
    let mut expected: BTreeMap<String, Alerts> = BTreeMap::new();
    for line in unpacked(&wire.join("rulesets/expected-large-any.jsonl.zst")).lines() {
        let alert: Value = serde_json::from_str(line).unwrap();
        let sid = alert["sid"].as_u64().unwrap() as u32;
        if rules.iter().any(|(known, _)| *known == sid) {
            let number = alert["pcap_cnt"].as_u64().unwrap_or_default();
            let pcap = alert["pcap"].as_str().unwrap().to_owned();
            expected.entry(pcap).or_default().push((number, sid));
        }
    }
    for alerts in expected.values_mut() {
        alerts.sort_unstable();
    }
    expected
}

fn alerts_of(path: &Path, rules: &[(u32, String)]) -> Alerts {
    let settings = Settings { checksums: Checksums::All, ..Settings::default() };
    let mut decoder = Decoder::new(settings);
    let mut capture = Capture::open(File::open(path).unwrap()).unwrap();
    let (mut packets, mut alerts) = (Vec::new(), Vec::new());
    while let Some(frame) = capture.next().unwrap() {
        packets.clear();
        decoder.decode(&frame, &mut packets);
        for packet in &packets {
            let wire = packet.source == PacketSource::Wire;
            let number = packet.number.filter(|_| wire).unwrap_or_default();
            let met = rules.iter().filter(|(_, what)| matches(packet, what));
            alerts.extend(met.map(|(sid, _)| (number, *sid)));
        }
    }
    alerts.sort_unstable();
    alerts
}

/// A capture of which a `pass` rule of the large set passes two packets with wrong checksums.
const PASSED: &str = "390bc06ffc54eecc";

#[test]
fn rules_about_events_and_checksums_match_the_packets_that_they_match_in_suricata() {
    let Some(wire) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let rules = event_rules(&unpacked(&wire.join("rulesets/large.rules.zst")));
    let expected = expected_alerts(&wire, &rules);
    let mut files = BTreeMap::new();
    for folder in fs::read_dir(wire.join("cases")).unwrap() {
        let folder = folder.unwrap().path();
        let case: Value =
            serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
        let pcap = &case["pcap"];
        let hash = pcap["sha256"].as_str().unwrap()[..16].to_owned();
        files.insert(hash, folder.join(pcap["file"].as_str().unwrap()));
    }
    let (mut alerts, mut wrong) = (0, Vec::new());
    for (hash, path) in &files {
        let theirs = expected.get(hash).cloned().unwrap_or_default();
        let ours = alerts_of(path, &rules);
        alerts += theirs.len();
        if hash == PASSED && ours.len() == theirs.len() + 2 {
            continue;
        }
        if ours != theirs {
            let more: Vec<_> = ours.iter().filter(|alert| !theirs.contains(alert)).collect();
            let less: Vec<_> = theirs.iter().filter(|alert| !ours.contains(alert)).collect();
            wrong.push(format!("{hash} {}: more {more:?}, less {less:?}", path.display()));
        }
    }
    assert!(alerts > 0);
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}
