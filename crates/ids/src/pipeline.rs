//! The way of a packet: decoding, flow, stream, application layer, detection.
//!
//! ```text
//! frame -> packets (inner ones first) -> flow -> stream -> conversation -> detection -> alerts
//! ```

mod sink;
mod stages;

use std::sync::Arc;

use gauntlet_packet::flow::{self, Ended, Flow, FlowTable, Lookup};
use gauntlet_packet::{Decoder, Frame, Packet, Time, tcp};
use gauntlet_protocols::Conversation;

use crate::detect::{Alert, Detector, FlowState, Program, Verdict};
use crate::eve::FlowFields;
use stages::Stages;

/// Settings of all layers.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Decoding and defragmentation.
    pub packets: gauntlet_packet::Settings,
    /// Flows.
    pub flows: flow::Settings,
    /// Streams.
    pub streams: tcp::Settings,
    /// Application protocols.
    pub protocols: gauntlet_protocols::Settings,
}

impl Settings {
    /// Of one of several pipelines, which share the memory.
    #[must_use]
    pub fn share(mut self, count: usize) -> Self {
        self.packets = self.packets.share(count);
        self.flows = self.flows.share(count as u64);
        self.streams = self.streams.share(count as u64);
        self
    }
}

/// What upper layers keep of a flow.
#[derive(Default)]
pub(crate) struct Upper {
    detection: FlowState,
    conversation: Option<Box<Conversation>>,
    /// By direction: the application layer changed, and rules have not looked yet.
    updated: [bool; 2],
    /// By direction: the next packet of it counts as one that changed the application layer.
    updated_next: [bool; 2],
    /// The protocol before a change.
    original: Option<gauntlet_protocols::Protocol>,
    /// Alerts were given the name of the only transaction.
    named: Vec<(u64, u32)>,
}

/// What is told of a packet.
pub struct Event<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// Its flow.
    pub flow: FlowFields<'a>,
    /// When the flow began; without a flow, the packet's time.
    pub began: Time,
    /// What rules say.
    pub verdict: &'a Verdict,
    /// The program whose rules these are.
    pub program: &'a Program,
}

impl Event<'_> {
    /// The alerts, in order.
    pub fn alerts(&self) -> &[Alert] {
        &self.verdict.alerts
    }
}

/// All layers with their state, for one thread.
pub struct Pipeline {
    decoder: Decoder,
    flows: FlowTable<Upper>,
    stages: Stages,
    packets: Vec<Packet>,
    now: Time,
}

impl Pipeline {
    /// A pipeline that has seen nothing.
    pub fn new(program: Arc<Program>, detector: Detector, settings: &Settings) -> Self {
        Self {
            decoder: Decoder::new(settings.packets.clone()),
            flows: FlowTable::new(settings.flows.clone()),
            stages: Stages::new(program, detector, settings),
            packets: Vec::new(),
            now: Time::default(),
        }
    }

    /// Makes this one of `count` pipelines that share a capture: its flows have numbers that no
    /// other's have.
    #[must_use]
    pub fn one_of(mut self, place: u64, count: u64) -> Self {
        self.flows.number_from(place + 1, count);
        self
    }

    /// Takes a frame. What rules say of its packets goes to `tell`.
    pub fn frame(&mut self, frame: &Frame, tell: &mut dyn FnMut(&Event<'_>)) {
        let mut packets = std::mem::take(&mut self.packets);
        packets.clear();
        self.decoder.decode(frame, &mut packets);
        self.now = frame.time;
        for packet in &packets {
            self.packet(packet, tell);
        }
        self.packets = packets;
    }

    /// The capture has come to this time, with frames that others took.
    pub fn reached(&mut self, time: Time) {
        self.now = time;
    }

    /// The capture ends, and with it all flows.
    pub fn end(&mut self, tell: &mut dyn FnMut(&Event<'_>)) {
        self.flows.end();
        self.ended(tell);
    }

    fn packet(&mut self, packet: &Packet, tell: &mut dyn FnMut(&Event<'_>)) {
        let lookup = if packet.wants_flow && !packet.invalid {
            self.flows.handle(packet, &self.stages.streams.settings)
        } else {
            Lookup::None
        };
        match lookup {
            Lookup::Flow(id, facts) => {
                if let Some(flow) = self.flows.get_mut(id) {
                    self.stages.in_flow(flow, packet, facts, tell);
                }
            }
            Lookup::None | Lookup::Refused(_) => self.stages.without_flow(packet, tell),
        }
        self.ended(tell);
    }

    fn ended(&mut self, tell: &mut dyn FnMut(&Event<'_>)) {
        while let Some(mut ended) = self.flows.next_ended() {
            let waits = waits(&ended.flow);
            for (packet, facts) in ended.final_packets(waits, self.now) {
                let Ended { flow, .. } = &mut ended;
                self.stages.in_flow(flow, &packet, facts, tell);
            }
        }
    }
}

/// By direction: transactions that rules have not seen whole.
fn waits(flow: &Flow<Upper>) -> [bool; 2] {
    let Some(conversation) = &flow.upper.conversation else { return [false; 2] };
    let mut waits = [false; 2];
    for place in 0..conversation.count() {
        let Some(state) = conversation.state(place) else { continue };
        for (side, waits) in waits.iter_mut().enumerate() {
            let done = state.inspected.get(side).copied().unwrap_or_default();
            let skip = state.skip.get(side).copied().unwrap_or_default();
            *waits |= !done && !skip;
        }
    }
    waits
}
