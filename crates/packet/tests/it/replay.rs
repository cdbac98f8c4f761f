//! A capture through decoder, flows and streams, as the detection loop does it, with a protocol
//! layer that takes all data and keeps it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use gauntlet_packet::flow::{self, FlowCore, FlowId, FlowTable, Lookup, PacketFacts};
use gauntlet_packet::tcp::{self, Chunk, Engine, Orders, Outcome, RawPacket, StreamSink};
use gauntlet_packet::{Capture, Decoder, Packet, Settings, Transport};

/// Bytes and gaps that came, by direction.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) bytes: [Vec<u8>; 2],
    pub(crate) gaps: [u64; 2],
    pub(crate) ends: [bool; 2],
}

impl StreamSink for Taken {
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders {
        let index = chunk.direction.index();
        self.bytes[index].extend_from_slice(chunk.bytes);
        self.gaps[index] += u64::from(chunk.gap.unwrap_or(0));
        self.ends[index] |= chunk.end;
        Orders {
            detection_completed: Some(true),
            first_data_handled: !chunk.bytes.is_empty(),
            ..Orders::consumed(chunk)
        }
    }
}

/// What a replay counted.
pub(crate) struct Replay {
    pub(crate) flows: FlowTable<Taken>,
    pub(crate) engine: Engine,
    pub(crate) events: BTreeMap<&'static str, u64>,
    pub(crate) made_up: u64,
    /// The flow of the last packet.
    pub(crate) last: Option<FlowId>,
}

impl Replay {
    pub(crate) fn new(flows: flow::Settings, streams: tcp::Settings) -> Self {
        Self {
            flows: FlowTable::new(flows),
            engine: Engine::new(streams),
            events: BTreeMap::new(),
            made_up: 0,
            last: None,
        }
    }

    /// All packets of a file.
    pub(crate) fn file(&mut self, path: &Path, settings: Settings) {
        let mut decoder = Decoder::new(settings);
        let mut capture = Capture::open(File::open(path).unwrap()).unwrap();
        let mut packets = Vec::new();
        while let Some(frame) = capture.next().unwrap() {
            packets.clear();
            decoder.decode(&frame, &mut packets);
            for packet in &packets {
                self.packet(packet);
            }
        }
        self.end();
    }

    /// The capture ends.
    pub(crate) fn end(&mut self) {
        self.flows.end();
        self.ended();
    }

    pub(crate) fn packet(&mut self, packet: &Packet) -> Option<(u64, PacketFacts, Outcome)> {
        let found = self.flows.handle(packet, &self.engine.settings);
        let mut said = None;
        if let Lookup::Flow(id, mut facts) = found
            && let Some(flow) = self.flows.get_mut(id)
        {
            self.last = Some(id);
            let outcome = if matches!(packet.transport, Transport::Tcp(_)) {
                let (core, upper) = (&mut flow.core, &mut flow.upper);
                tcp_packet(core, packet, &mut facts, &mut self.engine, upper)
            } else {
                Outcome::default()
            };
            for event in &outcome.events {
                *self.events.entry(event.name()).or_default() += 1;
            }
            said = Some((flow.core.number, facts, outcome));
        }
        self.ended();
        said
    }

    fn ended(&mut self) {
        while let Some(mut ended) = self.flows.next_ended() {
            for (packet, mut facts) in ended.final_packets([false; 2], self.flows.now()) {
                self.made_up += 1;
                let flow = &mut ended.flow;
                let (core, upper) = (&mut flow.core, &mut flow.upper);
                tcp_packet(core, &packet, &mut facts, &mut self.engine, upper);
            }
        }
    }
}

fn tcp_packet(
    core: &mut FlowCore,
    packet: &Packet,
    facts: &mut PacketFacts,
    engine: &mut Engine,
    sink: &mut Taken,
) -> Outcome {
    let outcome = core.handle_tcp(packet, facts, engine, sink);
    if let Some(session) = &mut core.tcp
        && outcome.established
    {
        let raw = RawPacket::new(packet, facts.direction, &outcome);
        if session.raw_ready(&raw, &engine.settings) {
            let progress = session.raw_data(&raw, &engine.settings, true, &mut |_, _| {});
            session.raw_done(facts.direction, progress);
        }
        session.prune(facts.direction, None, &engine.settings);
    }
    outcome
}
