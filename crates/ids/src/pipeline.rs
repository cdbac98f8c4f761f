//! The way of a packet: decoding, flow, stream, application layer, detection.
//!
//! ```text
//! frame -> packets (inner ones first) -> flow -> stream -> conversation -> detection -> alerts
//! ```

mod admission;
mod agreements;
mod counters;
mod fate;
mod fragment;
pub mod gate;
mod learned;
mod notify;
pub mod observer;
mod sink;
mod stages;
mod upper;

use std::sync::Arc;

use gauntlet_packet::flow::{self, Admission, Ended, Flow, FlowTable, Lookup};
use gauntlet_packet::tcp::{self, ExceptionPolicy};
use gauntlet_packet::{Decoder, Direction, Frame, Link, Packet, Time};
use gauntlet_protocols::Conversation;

use crate::detect::{Alert, Detector, FlowState, Profile, Program, Taken, Verdict};
pub use counters::Counter;
pub use fate::{DropCause, Fate, Rewrite};
pub use gate::{Gate, Interfaces};
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
    /// Who decides about flows; without one, all are inspected.
    pub gate: Option<Arc<dyn Gate>>,
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
    /// By direction: the next packet of it tells that the protocol was decided.
    decided_next: [bool; 2],
    /// The protocol before a change.
    original: Option<gauntlet_protocols::Protocol>,
    /// By direction: rules have looked at a packet.
    looked: [bool; 2],
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
        Moment { packet: self.packet, link: self.link, flow: self.view }
    }

    /// The alerts, in order.
    pub fn alerts(&self) -> &[Alert] {
        &self.verdict.alerts
    }
}

/// How much a pipeline holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Flows.
    pub flows: usize,
    /// Bytes of sessions, of segments that wait, and of fragments that wait.
    pub bytes: u64,
}

/// All layers with their state, for one thread.
pub struct Pipeline {
    decoder: Decoder,
    flows: FlowTable<Upper>,
    stages: Stages,
    packets: Vec<Packet>,
    now: Time,
    wishes: Wishes,
    gate: Option<Arc<dyn Gate>>,
    /// What the gate said of the frame at hand.
    admission: Option<Admission>,
    /// The way of the frame at hand.
    interfaces: Interfaces,
    /// When the first frame came.
    began: Option<Time>,
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
            gate: settings.gate.clone(),
            admission: None,
            interfaces: Interfaces::default(),
            began: None,
        }
    }

    /// Makes this one of `count` pipelines that share a capture: its flows have numbers that no
    /// other's have.
    #[must_use]
    pub fn one_of(mut self, place: u64, count: u64) -> Self {
        self.flows.number_from(place + 1, count);
        self
    }

    /// Takes a frame, and says what becomes of it where drops are carried out. What happens is
    /// told to `observer`.
    pub fn frame(&mut self, frame: &Frame, observer: &mut dyn Observer) -> Fate {
        let mut packets = std::mem::take(&mut self.packets);
        packets.clear();
        self.decoder.decode(frame, &mut packets);
        self.now = frame.time;
        self.stages.inner_dropped = false;
        self.stages.link = Some(frame.link);
        self.stages.tally.packets += packets.len() as u64;
        if self.is_let_in(frame, &packets, observer) {
            for packet in &packets {
                self.packet(packet, observer);
            }
        }
        self.packets = packets;
        std::mem::take(&mut self.stages.fate)
    }

    /// By which interfaces the next frame came and goes on.
    pub fn arrived(&mut self, interfaces: Interfaces) {
        self.interfaces = interfaces;
    }

    fn is_let_in(
        &mut self,
        frame: &Frame,
        packets: &[Packet],
        observer: &mut dyn Observer,
    ) -> bool {
        let Some(gate) = self.gate.clone() else {
            self.admission = None;
            return true;
        };
        let entered = self.enter(&gate, frame, packets, observer);
        self.admission = entered.flatten();
        entered.is_some()
    }

    /// From now on, checksums of frames count as right, or as the settings say
    /// ([`Decoder::trust_checksums`]).
    pub fn trust_checksums(&mut self, trusted: bool) {
        self.decoder.trust_checksums(trusted);
    }

    /// Flows get numbers from this one on, so that those of several pipelines differ.
    pub fn number_flows_from(&mut self, first: u64) {
        self.flows.number_from(first, 1);
    }

    /// Ends flows whose time is over although no packets come; looks at so many at most.
    pub fn expire(&mut self, now: Time, flows_max: usize, observer: &mut dyn Observer) {
        self.now = self.now.max(now);
        self.flows.expire(now, flows_max);
        self.ended(observer);
    }

    /// Other rules from the next frame on. Flows keep their state; transactions that are under way
    /// are inspected from their beginning. `settings` are those of new flows and of streams as the
    /// rules want them; other settings stay.
    pub fn reload(&mut self, program: Arc<Program>, detector: Detector, settings: &Settings) {
        self.stages.reload(program, detector, settings);
        self.gate.clone_from(&settings.gate);
    }

    /// What rules have cost, if that is counted ([`Detector::profile`]).
    pub fn profile(&self) -> Option<&Profile> {
        self.stages.profile()
    }

    /// Takes what rules have cost since the last time.
    pub fn take_costs(&mut self) -> Option<Taken> {
        self.stages.take_costs()
    }

    /// What was decoded.
    pub fn decoded(&self) -> &gauntlet_packet::Counters {
        self.decoder.counters()
    }

    /// Flows, and the bytes that streams and fragments hold.
    pub fn load(&self) -> Load {
        let streams = &self.stages.streams;
        Load {
            flows: self.flows.len(),
            bytes: streams.session_bytes()
                + streams.reassembly_bytes()
                + self.decoder.memory() as u64,
        }
    }

    /// The capture has come to this time, with frames that others took.
    pub fn reached(&mut self, time: Time) {
        self.now = time;
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
        // A packet with bad options is invalid, and yet the receiver may take its payload.
        let lookup = if packet.wants_flow {
            self.flows.sweep_early(self.stages.streams.is_filling());
            self.flows.handle(packet, &self.stages.streams.settings)
        } else {
            Lookup::None
        };
        match lookup {
            Lookup::Flow(id, facts) => {
                if let Some(flow) = self.flows.get_mut(id) {
                    let is_decided = self.admission.is_some() || self.gate.is_none();
                    if is_decided && flow.core.admission != self.admission {
                        admission::admit(&mut flow.core, packet, self.admission);
                    }
                    self.stages.in_flow(flow, packet, facts, observer);
                }
            }
            Lookup::None if self.is_left_alone() => {}
            Lookup::None => self.stages.without_flow(packet, observer),
            Lookup::Refused(policy) => {
                self.stages.fate.refused(policy);
                // Exception policies other than `ignore` keep rules from looking at the packet.
                if policy == ExceptionPolicy::Ignore {
                    self.stages.without_flow(packet, observer);
                }
            }
        }
        self.ended(observer);
    }

    /// Rules do not look at a packet without a flow that was let in so.
    fn is_left_alone(&self) -> bool {
        let without = |admission: Admission| admission.functions & gate::functions::RULES == 0;
        self.admission.is_some_and(without)
    }

    fn ended(&mut self, observer: &mut dyn Observer) {
        // Packets made up at the end of another flow do not decide about this frame.
        let fate = std::mem::take(&mut self.stages.fate);
        while let Some(mut ended) = self.flows.next_ended() {
            let waits = waits(&ended.flow);
            for (packet, facts) in ended.final_packets(waits, self.now) {
                let Ended { flow, .. } = &mut ended;
                self.stages.in_flow(flow, &packet, facts, observer);
            }
            if self.wishes.mail {
                notify::mail(&mut ended.flow, None, self.now, observer);
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
                    conversation: flow.upper.conversation.as_deref(),
                    original: flow.upper.original,
                });
            }
        }
        self.stages.fate = fate;
    }
}

/// By direction: transactions that rules have not seen whole or that are not told, which waits for
/// both, and frames that are not over.
fn waits(flow: &Flow<Upper>) -> [bool; 2] {
    let Some(conversation) = &flow.upper.conversation else { return [false; 2] };
    let mut waits = [Direction::ToServer, Direction::ToClient]
        .map(|direction| conversation.frames(direction).next().is_some());
    for place in 0..conversation.count() {
        let Some(state) = conversation.state(place) else { continue };
        for (side, waits) in waits.iter_mut().enumerate() {
            let done = state.inspected.get(side).copied().unwrap_or_default();
            let skip = state.skip.get(side).copied().unwrap_or_default();
            *waits |= (!done && !skip) || !state.logged;
        }
    }
    waits
}
