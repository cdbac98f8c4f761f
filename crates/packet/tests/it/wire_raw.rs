//! Real traces: raw inspection at the packets where Suricata's rules matched, for cases whose
//! rules have contents alone, on streams or packets without a known protocol.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use gauntlet_packet::flow::{FlowCore, FlowTable, Lookup, PacketFacts};
use gauntlet_packet::tcp::{Chunk, Engine, Orders, RawPacket, StreamSink};
use gauntlet_packet::{Capture, Decoder, Packet, PacketSource};
use serde_json::Value;

use super::wire::settings_of;
use super::wire_streams::stream_settings;

const CASES: &[&str] = &[
    "eve-overlap-payload-01",
    "eve-overlap-payload-02-policy-oldlinux",
    "eve-overlap-payload-04-partial-overlap",
    "eve-overlap-payload-05-gap",
    "eve-payload-01-tcp-exact-overlap",
    "eve-payload-02-tcp-exact-overlap-policy-oldlinux",
    "eve-payload-03-tcp-exact-overlap-ips",
    "eve-payload-04-partial-overlap",
    "eve-payload-05-tcp-data-gap",
    "tcp-fastopen-05",
    "tcp-fastopen-12",
    "tcp-split-handshake-02-5whs",
];

/// A protocol layer that never finds out which protocol it is.
#[derive(Default)]
struct Unknown;

impl StreamSink for Unknown {
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders {
        Orders { disable: chunk.end, ..Orders::default() }
    }
}

struct Rule {
    sid: u64,
    contents: Vec<Vec<u8>>,
    /// `tcp-pkt`: packets, not streams.
    packets: bool,
}

fn rules(text: &str) -> Vec<Rule> {
    let rule = |line: &str| Rule {
        sid: line.split_once("sid:").unwrap().1.split(';').next().unwrap().parse().unwrap(),
        contents: line
            .split("content:\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().as_bytes().to_vec())
            .collect(),
        packets: line.contains(" tcp-pkt "),
    };
    text.lines().filter(|line| line.contains("sid:") && !line.starts_with('#')).map(rule).collect()
}

impl Rule {
    fn matches(&self, bytes: &[u8]) -> bool {
        self.contents
            .iter()
            .all(|content| bytes.windows(content.len()).any(|window| window == content))
    }
}

/// Packet (none of one at the end of its flow), sid.
type Alerts = Vec<(Option<u64>, u64)>;

fn inspect(
    core: &mut FlowCore,
    packet: &Packet,
    facts: &mut PacketFacts,
    engine: &mut Engine,
    rules: &[Rule],
    alerts: &mut Alerts,
) {
    let at_end = packet.source == PacketSource::FlowEnd;
    let outcome = core.handle_tcp(packet, facts, engine, &mut Unknown);
    let payload = outcome.replaced.as_deref().unwrap_or(packet.payload());
    let mut pieces = Vec::new();
    let mut ready = false;
    if let Some(session) = &mut core.tcp {
        let raw = RawPacket::new(packet, facts.direction, &outcome);
        ready = outcome.established && session.raw_ready(&raw, &engine.settings);
        if ready {
            let progress = session.raw_data(&raw, &engine.settings, false, &mut |_, bytes| {
                pieces.push(bytes.to_vec());
            });
            session.raw_done(facts.direction, progress);
        }
        if outcome.established || at_end {
            session.prune(facts.direction, None, &engine.settings);
        }
    }
    if !ready && !outcome.added {
        pieces.push(payload.to_vec());
    }
    for rule in rules {
        let matches = if rule.packets {
            rule.matches(payload)
        } else {
            pieces.iter().any(|piece| rule.matches(piece))
        };
        if matches {
            alerts.push((packet.number.filter(|_| !at_end), rule.sid));
        }
    }
}

fn found(folder: &Path) -> Alerts {
    let case: Value = serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
    let rules = rules(&fs::read_to_string(folder.join("test.rules")).unwrap());
    let (flows, streams) = stream_settings(&case);
    let mut engine = Engine::new(streams);
    let mut table: FlowTable<()> = FlowTable::new(flows);
    let mut decoder = Decoder::new(settings_of(&case));
    let pcap = folder.join(case["pcap"]["file"].as_str().unwrap());
    let mut capture = Capture::open(File::open(pcap).unwrap()).unwrap();
    let (mut alerts, mut packets) = (Alerts::new(), Vec::new());
    while let Some(frame) = capture.next().unwrap() {
        packets.clear();
        decoder.decode(&frame, &mut packets);
        for packet in &packets {
            if let Lookup::Flow(id, mut facts) = table.handle(packet, &engine.settings) {
                let core = &mut table.get_mut(id).unwrap().core;
                inspect(core, packet, &mut facts, &mut engine, &rules, &mut alerts);
            }
        }
    }
    table.end();
    while let Some(mut ended) = table.next_ended() {
        for (packet, mut facts) in ended.final_packets([false; 2], table.now()) {
            let core = &mut ended.flow.core;
            inspect(core, &packet, &mut facts, &mut engine, &rules, &mut alerts);
        }
    }
    alerts.sort_unstable();
    alerts
}

#[test]
fn streams_are_looked_at_where_suricata_does() {
    let Some(wire) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    for name in CASES {
        let folder = wire.join("cases").join(name);
        let text = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        let mut expected: Alerts = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|alert| (alert["pcap_cnt"].as_u64(), alert["sid"].as_u64().unwrap()))
            .collect();
        expected.sort_unstable();
        assert_eq!(found(&folder), expected, "{name}");
    }
}
