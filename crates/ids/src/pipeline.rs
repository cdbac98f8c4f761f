//! The way of a packet: decoding, flow, stream, application layer, detection.
//!
//! ```text
//! frame -> packets (inner ones first) -> flow -> stream -> conversation -> detection -> alerts
//! ```

mod counters;
mod notify;
pub mod observer;
mod sink;
mod stages;

use std::sync::Arc;

use gauntlet_packet::flow::{self, Ended, Flow, FlowTable, Lookup};
use gauntlet_packet::{Decoder, Frame, Link, Packet, Time, tcp};
use gauntlet_protocols::Conversation;

use crate::detect::{Alert, Detector, FlowState, Program, Verdict};
pub use counters::Counter;
pub use observer::{FlowFields, Moment, Observer, Wishes, on_packet};
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
    /// What the observer wants to be told.
    pub wishes: Wishes,
}

/// What upper layers keep of a flow.
#[derive(Default)]
pub(crate) struct Upper {
    detection: FlowState,
    conversation: Option<Conversation>,
    /// By direction: the application layer changed, and rules have not looked yet.
    updated: [bool; 2],
    /// By direction: the next packet of it counts as one that changed the application layer.
    updated_next: [bool; 2],
    /// The protocol before a change.
    original: Option<gauntlet_protocols::Protocol>,
    /// Alerts were given the name of the only transaction.
    named: Vec<(u64, u32)>,
    /// Transactions that were seen.
    transactions: u64,
}

/// What is told of a packet.
pub struct Event<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// Its flow.
    pub flow: FlowFields<'a>,
    /// What rules say.
    pub verdict: &'a Verdict,
    /// The flow itself.
    pub view: Option<observer::FlowView<'a>>,
    /// What the captured frame begins with.
    pub link: Option<Link>,
    /// The program whose rules these are.
    pub program: &'a Program,
}

impl Event<'_> {
    /// The packet and its flow, as other events have them.
    pub fn moment(&self) -> Moment<'_> {
        Moment { packet: self.packet, source: self.flow.source, link: self.link, flow: self.view }
    }

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
    wishes: Wishes,
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
            wishes: settings.wishes,
        }
    }

    /// Takes a frame. What happens is told to `observer`.
    pub fn frame(&mut self, frame: &Frame, observer: &mut dyn Observer) {
        let mut packets = std::mem::take(&mut self.packets);
        packets.clear();
        self.decoder.decode(frame, &mut packets);
        self.now = frame.time;
        self.stages.inner_dropped = false;
        self.stages.link = Some(frame.link);
        self.stages.tally.packets += packets.len() as u64;
        for packet in &packets {
            self.packet(packet, observer);
        }
        self.packets = packets;
    }

    /// The capture ends, and with it all flows.
    pub fn end(&mut self, observer: &mut dyn Observer) {
        self.flows.end();
        self.ended(observer);
    }

    /// Counters of all layers; those of application protocols count flows that have ended.
    pub fn counters(&self) -> Vec<Counter> {
        let tally = (&self.stages.tally, self.stages.is_inline());
        counters::all(self.decoder.counters(), &self.flows, &self.stages.streams, tally)
    }

    fn packet(&mut self, packet: &Packet, observer: &mut dyn Observer) {
        let lookup = if packet.wants_flow && !packet.invalid {
            self.flows.handle(packet, &self.stages.streams.settings)
        } else {
            Lookup::None
        };
        match lookup {
            Lookup::Flow(id, facts) => {
                if let Some(flow) = self.flows.get_mut(id) {
                    self.stages.in_flow(flow, packet, facts, observer);
                }
            }
            Lookup::None | Lookup::Refused(_) => self.stages.without_flow(packet, observer),
        }
        self.ended(observer);
    }

    fn ended(&mut self, observer: &mut dyn Observer) {
        while let Some(mut ended) = self.flows.next_ended() {
            let waits = waits(&ended.flow);
            for (packet, facts) in ended.final_packets(waits, self.now) {
                let Ended { flow, .. } = &mut ended;
                self.stages.in_flow(flow, &packet, facts, observer);
            }
            self.stages.tally.flow(&ended.flow);
            if self.wishes.flows {
                let Ended { flow, reason } = &ended;
                observer.flow(&observer::FlowEnd {
                    core: &flow.core,
                    reason: *reason,
                    transactions: flow.upper.transactions,
                    now: self.now,
                    state: &flow.upper.detection,
                    conversation: flow.upper.conversation.as_ref(),
                    original: flow.upper.original,
                });
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
