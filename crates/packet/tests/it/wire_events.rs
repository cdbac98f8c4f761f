//! Real traces: stream events at the packets where Suricata had them, by the alerts of its event
//! rules (`GAUNTLET_WIRE/rulesets/expected-large-any.jsonl.zst`) over all captures of the cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use gauntlet_packet::{Capture, Checksums, Decoder, Settings, flow, tcp};
use serde_json::Value;

use super::replay::Replay;

/// Rules whose event needs no more than a packet of TCP, and after how many events of a flow the
/// rule alerts again.
const RULES: &[(u64, &str, u64)] = &[
    (2210002, "stream.3whs_right_seq_wrong_ack_evasion", 2),
    (2210003, "stream.3whs_synack_in_wrong_direction", 2),
    (2210005, "stream.3whs_synack_resend_with_diff_seq", 2),
    (2210006, "stream.3whs_synack_toserver_on_syn_recv", 2),
    (2210007, "stream.3whs_synack_with_wrong_ack", 2),
    (2210020, "stream.est_packet_out_of_window", 10),
    (2210024, "stream.est_synack_resend_with_diff_seq", 10),
    (2210026, "stream.est_syn_resend", 10),
    (2210027, "stream.est_syn_resend_diff_seq", 10),
    (2210029, "stream.est_invalid_ack", 10),
    (2210030, "stream.fin_invalid_ack", 10),
    (2210032, "stream.fin1_fin_wrong_seq", 10),
    (2210038, "stream.fin_out_of_window", 10),
    (2210042, "stream.timewait_ack_wrong_seq", 10),
    (2210044, "stream.pkt_invalid_timestamp", 10),
    (2210045, "stream.pkt_invalid_ack", 10),
    (2210046, "stream.rst_invalid_ack", 10),
    (2210050, "stream.reassembly_overlap_different_data", 2),
    (2210055, "stream.shutdown_syn_resend", 10),
    (2210056, "stream.pkt_bad_window_update", 10),
    (2210058, "stream.suspected_rst_inject", 2),
    (2210063, "stream.3whs_syn_flood", 2),
    (2210064, "stream.3whs_synack_tfo_data_ignored", 1),
];

type Alerts = BTreeSet<(u64, u64)>;

fn expected(wire: &Path) -> BTreeMap<String, Alerts> {
    let file = File::open(wire.join("rulesets/expected-large-any.jsonl.zst")).unwrap();
    let mut text = String::new();
    ruzstd::decoding::StreamingDecoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    let mut alerts: BTreeMap<String, Alerts> = BTreeMap::new();
    for line in text.lines() {
        let alert: Value = serde_json::from_str(line).unwrap();
        let sid = alert["sid"].as_u64().unwrap();
        if RULES.iter().any(|(rule, ..)| *rule == sid) {
            let packet = alert["pcap_cnt"].as_u64().unwrap_or(0);
            let capture = alert["pcap"].as_str().unwrap().to_owned();
            alerts.entry(capture).or_default().insert((packet, sid));
        }
    }
    alerts
}

/// `threshold: type backoff, count 1, multiplier N`.
fn alerts_at(count: u64, multiplier: u64) -> bool {
    let mut at = 1;
    while at < count && multiplier > 1 {
        at *= multiplier;
    }
    at == count || multiplier == 1
}

fn found(path: &Path) -> Alerts {
    let streams = tcp::Settings {
        validate_checksums: false,
        check_overlaps: true,
        ..tcp::Settings::default()
    };
    let mut replay = Replay::new(flow::Settings::default(), streams);
    let settings = Settings { checksums: Checksums::None, ..Settings::default() };
    let mut decoder = Decoder::new(settings);
    let mut capture = Capture::open(File::open(path).unwrap()).unwrap();
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut alerts = Alerts::new();
    let mut packets = Vec::new();
    while let Ok(Some(frame)) = capture.next() {
        packets.clear();
        decoder.decode(&frame, &mut packets);
        for packet in &packets {
            let Some((flow, _, outcome)) = replay.packet(packet) else { continue };
            for &(sid, name, multiplier) in RULES {
                if outcome.events.iter().any(|event| event.name() == name) {
                    let count = counts.entry((flow, sid)).or_default();
                    *count += 1;
                    if alerts_at(*count, multiplier) {
                        alerts.insert((packet.number.unwrap(), sid));
                    }
                }
            }
        }
    }
    alerts
}

#[test]
fn stream_events_are_where_suricata_has_them() {
    let Some(wire) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let expected = expected(&wire);
    let mut captures = BTreeMap::new();
    for entry in fs::read_dir(wire.join("cases")).unwrap() {
        let folder = entry.unwrap().path();
        let case: Value =
            serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
        let hash = case["pcap"]["sha256"].as_str().unwrap()[..16].to_owned();
        captures.insert(hash, folder.join(case["pcap"]["file"].as_str().unwrap()));
    }
    let mut wrong = 0;
    for (hash, path) in &captures {
        let theirs = expected.get(hash).cloned().unwrap_or_default();
        let ours = found(path);
        if ours != theirs {
            wrong += 1;
            let missing: Vec<_> = theirs.difference(&ours).collect();
            let extra: Vec<_> = ours.difference(&theirs).collect();
            eprintln!("{hash} {}: missing {missing:?}, extra {extra:?}", path.display());
        }
    }
    eprintln!("{} of {} captures are equal", captures.len() - wrong, captures.len());
    assert_eq!(wrong, 0, "stream events differ");
}
