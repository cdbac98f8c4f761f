//! A packet in its flow: stream, application layer, detection, and what is forgotten afterwards.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use gauntlet_packet::flow::{Flow, FlowCore, FlowState, PacketFacts, Pseudo, flush_packets};
use gauntlet_packet::tcp::{self, DropReason, Outcome, RawPacket, Update};
use gauntlet_packet::{Direction, Link, Packet, PacketSource, Transport};
use gauntlet_protocols::{self as protocols, Carrier, Expectation, PacketEvent};

use super::agreements::Agreements;
use super::counters::Tally;
use super::fate::{DropCause, Fate};
use super::gate;
use super::learned::{Learned, moment};
use super::observer::{Anomaly, AnomalyLayer, Dropped, FlowFields, Moment};
use super::sink::Sink;
use super::{Event, Observer, Settings, Upper, Wishes, notify};
use crate::detect::{
    self, Counters, Detector, Facts, FlowActions, Profile, Program, Taken, Verdict,
};

/// Announced connections that have not come yet; the oldest is forgotten for a new one.
const EXPECTED_MAX: usize = 4_096;

/// Everything but the flows.
pub(super) struct Stages {
    program: Arc<Program>,
    detector: Detector,
    pub(super) streams: tcp::Engine,
    protocols: Arc<protocols::Settings>,
    /// Connections that others announced, with the addresses of the announcing flow.
    expected: VecDeque<(Expectation, [IpAddr; 2])>,
    /// Connections that flows have agreed on and that have not come yet, if there is a gate.
    pub(super) agreements: Agreements,
    /// Of the frame at hand.
    pub(super) fate: Fate,
    wishes: Wishes,
    /// A packet in the frame at hand is dropped, and with it what is around it.
    pub(super) inner_dropped: bool,
    /// What is counted.
    pub(super) tally: Tally,
    /// What the frame at hand begins with.
    pub(super) link: Option<Link>,
}

/// A part of the raw stream that is to be inspected with a packet.
struct RawPart<'a> {
    /// Its bytes, with their offsets.
    pieces: Vec<(u64, &'a [u8])>,
    /// How far the stream is inspected then.
    progress: u64,
}

impl Stages {
    pub(super) fn new(program: Arc<Program>, detector: Detector, settings: &Settings) -> Self {
        Self {
            program,
            detector,
            streams: tcp::Engine::new(settings.streams.clone()),
            protocols: Arc::new(settings.protocols.clone()),
            expected: VecDeque::new(),
            agreements: Agreements::default(),
            fate: Fate::default(),
            wishes: settings.wishes,
            inner_dropped: false,
            tally: Tally::default(),
            link: None,
        }
    }

    /// Drops are carried out.
    pub(super) fn is_inline(&self) -> bool {
        self.program.settings.inline
    }

    /// Other rules; what was counted, remembered of addresses and put into sets by rules stays.
    pub(super) fn reload(
        &mut self,
        program: Arc<Program>,
        detector: Detector,
        settings: &Settings,
    ) {
        self.detector.replace_lists(detector, &program);
        self.program = program;
        self.protocols = Arc::new(settings.protocols.clone());
        self.streams.settings.check_overlaps = settings.streams.check_overlaps;
    }

    /// What rules have cost.
    pub(super) fn profile(&self) -> Option<&Profile> {
        self.detector.profile.as_deref()
    }

    pub(super) fn take_costs(&mut self) -> Option<Taken> {
        self.detector.profile.as_deref_mut().map(Profile::take)
    }

    /// A packet that belongs to no flow.
    pub(super) fn without_flow(&mut self, packet: &Packet, observer: &mut dyn Observer) {
        let facts = Facts {
            no_payload_inspection: packet.no_payload_inspection,
            events: events(packet, &Outcome::default()),
            ..Facts::new(packet)
        };
        let verdict = detect::inspect(&self.program, &mut self.detector, &facts, None);
        if verdict.dropped_by.is_some() {
            self.fate.drop(DropCause::Rule);
        }
        let moment = Moment { packet, link: self.link, flow: None };
        self.tell(moment, FlowFields::default(), &verdict, observer);
        if self.wishes.anomalies {
            anomalies(moment, &Outcome::default(), &[], observer);
        }
        self.tell_drop(moment, &Outcome::default(), Some(&verdict), observer);
    }

    /// A packet of a flow.
    pub(super) fn in_flow(
        &mut self,
        flow: &mut Flow<Upper>,
        packet: &Packet,
        facts: PacketFacts,
        observer: &mut dyn Observer,
    ) {
        if flow.core.state == FlowState::Bypassed && facts.pseudo.is_none() {
            return;
        }
        let side = facts.direction.index();
        if std::mem::take(&mut flow.upper.updated_next[side]) {
            flow.upper.updated[side] = true;
        }
        let learned = match &packet.transport {
            Transport::Tcp(_) => self.stream(flow, packet, facts, observer),
            Transport::Udp(_) if !facts.drops => self.datagram(flow, packet, facts),
            _ => Learned::of(facts),
        };
        self.detect(flow, packet, &learned, observer);
        self.finish(flow, packet, &learned, observer);
    }

    /// Tells what is new of the flow, and forgets what all have seen.
    fn finish(
        &mut self,
        flow: &mut Flow<Upper>,
        packet: &Packet,
        learned: &Learned,
        observer: &mut dyn Observer,
    ) {
        if self.wishes.anomalies {
            let moment = moment(flow, packet, learned, self.link);
            anomalies(moment, &learned.outcome, &learned.events, observer);
        }
        if self.wishes.mail {
            notify::mail(flow, Some(packet), packet.time, observer);
        }
        notify::transactions(flow, packet, learned, (self.wishes, self.link), observer);
        if self.wishes.decides && observer.drops_flow() && self.is_inline() {
            self.drop_flow(flow, packet, learned, observer);
        }
        self.forget(flow, packet, learned);
    }

    /// The observer has decided that nothing more of the flow passes.
    fn drop_flow(
        &mut self,
        flow: &mut Flow<Upper>,
        packet: &Packet,
        learned: &Learned,
        observer: &mut dyn Observer,
    ) {
        flow.core.drops = true;
        flow.upper.detection.action = FlowActions::Drop;
        if learned.is_made() || self.fate.drop.is_some() {
            return;
        }
        self.fate.drop(DropCause::Observer);
        let reason = DropCause::Observer.name();
        self.count_drop(reason);
        if self.wishes.drops {
            let moment = moment(flow, packet, learned, self.link);
            observer.dropped(&Dropped { moment, reason, flow_drops: true, verdict: None });
        }
    }

    fn stream(
        &mut self,
        flow: &mut Flow<Upper>,
        packet: &Packet,
        mut facts: PacketFacts,
        observer: &mut dyn Observer,
    ) -> Learned {
        if facts.pseudo == Some(Pseudo::Flush) {
            return Learned::of(facts);
        }
        if flow.upper.conversation.is_none()
            && let Some(announced) = self.announced(&flow.core)
        {
            let ports = ports(&flow.core);
            let mut made = super::sink::conversation(&self.protocols, Carrier::Tcp, ports, false);
            made.expect(&announced);
            flow.upper.conversation = Some(made);
        }
        let upper = &mut flow.upper.conversation;
        let mut sink = Sink::new(upper, &self.protocols, ports(&flow.core));
        let inline = self.streams.settings.inline;
        // What is parsed with a packet is what it acknowledges, and inline what it brings.
        let handed = if inline { facts.direction } else { facts.direction.reverse() };
        let is_parsed = facts.pseudo.is_none() && sink.again(handed);
        let mut outcome = flow.core.handle_tcp(packet, &mut facts, &mut self.streams, &mut sink);
        if is_parsed && outcome.update == Update::None {
            outcome.update = if inline { Update::Packet } else { Update::Opposing };
        }
        let Sink { events, no_payload_inspection, no_inspection, expected, agreed, .. } = sink;
        flow.upper.note_update(facts.direction, outcome.update);
        self.expect(&flow.core, expected);
        self.agreements.add(&flow.core, &agreed);
        outcome.protocol_changes |= flow.upper.is_changing();
        if outcome.swapped {
            flow.upper.looked.reverse();
            flow.upper.decided_next.reverse();
        }
        let hides = no_inspection && !facts.no_payload_inspection;
        if outcome.protocol_changes || hides {
            if outcome.protocol_changes {
                flow.upper.original = flow.upper.protocol();
            }
            let made = flush_packets(&mut flow.core, packet, &facts, &mut self.streams);
            for (packet, facts) in made {
                let learned = Learned::of(facts);
                self.detect(flow, &packet, &learned, observer);
                self.finish(flow, &packet, &learned, observer);
            }
            flow.core.no_payload_inspection |= hides;
        }
        flow.core.no_payload_inspection |= no_payload_inspection;
        // A packet that is made up is not seen as one of the flow.
        let just_decided = facts.pseudo.is_none()
            && flow.upper.tells_protocol(facts.direction, self.program.settings.inline);
        Learned { facts, outcome, events, just_decided }
    }

    fn expect(&mut self, core: &FlowCore, expected: Vec<Expectation>) {
        let ends = [core.client().address, core.server().address];
        for expectation in expected {
            if self.expected.len() >= EXPECTED_MAX {
                self.expected.pop_front();
            }
            self.expected.push_back((expectation, ends));
        }
    }

    /// The announcement of a new flow, if there was one: both ends are those of the announcing
    /// flow, and it goes to the port that was named.
    fn announced(&mut self, core: &FlowCore) -> Option<Expectation> {
        let ends = [core.client().address, core.server().address];
        let port = core.server().port;
        let place = self.expected.iter().position(|(expectation, others)| {
            let same = *others == ends || *others == [ends[1], ends[0]];
            same && expectation.port == port
        })?;
        self.expected.remove(place).map(|(expectation, _)| expectation)
    }

    /// Counts a packet that is dropped, by reason.
    pub(super) fn count_drop(&mut self, reason: &'static str) {
        *self.tally.drops.entry(reason).or_default() += 1;
    }

    fn datagram(
        &mut self,
        flow: &mut Flow<Upper>,
        packet: &Packet,
        mut facts: PacketFacts,
    ) -> Learned {
        let new =
            || super::sink::conversation(&self.protocols, Carrier::Udp, ports(&flow.core), false);
        let conversation = flow.upper.conversation.get_or_insert_with(new);
        let done = conversation.datagram(facts.direction, packet.payload());
        if done.reverse {
            flow.core.swap();
            facts.direction = facts.direction.reverse();
        }
        let update = if done.updated { Update::Packet } else { Update::None };
        flow.upper.note_update(facts.direction, update);
        let just_decided = flow.upper.tells_protocol(facts.direction, true);
        let mut outcome = Outcome::default();
        if done.failed {
            let settings = &self.streams.settings;
            let policy = settings.parser_error_policy;
            outcome.apply_policy(policy, DropReason::Application, settings.ips);
            flow.core.obey(&outcome);
        }
        Learned { events: done.events, just_decided, outcome, ..Learned::of(facts) }
    }

    fn detect(
        &mut self,
        flow: &mut Flow<Upper>,
        packet: &Packet,
        learned: &Learned,
        observer: &mut dyn Observer,
    ) {
        self.fate.stream(packet, &learned.outcome);
        if flow.core.drops {
            self.fate.drop(DropCause::Flow);
            if flow.upper.detection.action == FlowActions::Drop {
                let moment = moment(flow, packet, learned, self.link);
                self.tell_drop(moment, &learned.outcome, None, observer);
            }
            return;
        }
        self.fate.passes |= flow.core.passes;
        let is_left_alone = !gate::may_look(&flow.core, gate::functions::RULES);
        if is_left_alone && let Some(session) = &mut flow.core.tcp {
            session.disable_raw(learned.facts.direction);
        }
        if learned.outcome.no_inspection || flow.core.passes || is_left_alone {
            self.tell_drop(
                moment(flow, packet, learned, self.link),
                &learned.outcome,
                None,
                observer,
            );
            if let Some(conversation) = &mut flow.upper.conversation {
                detect::skip(conversation, learned.facts.direction);
            }
            return;
        }
        let settings = &self.streams.settings;
        let direction = learned.facts.direction;
        let part = raw_part(&flow.core, packet, learned, settings);
        let progress = part.as_ref().map(|part| part.progress);
        let seen = (packet, learned);
        let facts = facts(&flow.core, &flow.upper, seen, part, settings.inline);
        let upper = &mut flow.upper;
        let of_flow = detect::InFlow {
            state: &mut upper.detection,
            conversation: upper.conversation.as_deref_mut(),
        };
        let verdict = detect::inspect(&self.program, &mut self.detector, &facts, Some(of_flow));
        drop(facts);
        if let (Some(progress), Some(session)) = (progress, &mut flow.core.tcp) {
            let asked = if self.program.looks_at_streams() { progress } else { 0 };
            session.raw_done(direction, asked);
        }
        self.note_first(flow, packet, direction);
        if learned.is_made() {
            // Only a captured packet takes its flow out of inspection (`bypass`).
            flow.upper.detection.bypassed = false;
        }
        self.act(flow, &verdict);
        if verdict.dropped_by.is_some() {
            self.fate.drop(DropCause::Rule);
        }
        self.fate.passes |= flow.core.passes;
        let moment = moment(flow, packet, learned, self.link);
        let fields = FlowFields {
            id: Some(flow.core.number),
            protocol: flow.upper.protocol_name(),
            to_server: Some(direction == Direction::ToServer),
            is_dropped: verdict.dropped_by.is_some(),
        };
        self.tell(moment, fields, &verdict, observer);
        self.tell_drop(moment, &learned.outcome, Some(&verdict), observer);
    }

    /// Raw streams that no rule could apply to are not kept for inspection.
    fn note_first(&self, flow: &mut Flow<Upper>, packet: &Packet, direction: Direction) {
        let Transport::Tcp(tcp) = &packet.transport else { return };
        let Some(looked) = flow.upper.looked.get_mut(direction.index()) else { return };
        let port = match direction {
            Direction::ToServer => tcp.destination,
            Direction::ToClient => tcp.source,
        };
        if !std::mem::replace(looked, true)
            && !self.program.looks_at_streams_of(direction, port)
            && let Some(session) = &mut flow.core.tcp
        {
            session.disable_raw(direction);
        }
    }

    fn act(&self, flow: &mut Flow<Upper>, verdict: &Verdict) {
        let count = u32::try_from(verdict.alerts.len()).unwrap_or(u32::MAX);
        flow.core.alerts = flow.core.alerts.saturating_add(count);
        match flow.upper.detection.action {
            FlowActions::Drop => flow.core.drops = true,
            FlowActions::Pass => flow.core.passes = true,
            FlowActions::None => {}
        }
        if flow.upper.detection.bypassed {
            flow.core.state = FlowState::Bypassed;
        }
    }

    fn tell(
        &mut self,
        moment: Moment<'_>,
        flow: FlowFields<'_>,
        verdict: &Verdict,
        observer: &mut dyn Observer,
    ) {
        let counts =
            [verdict.alerts.len(), verdict.discarded as usize, verdict.suppressed as usize];
        for (total, count) in self.tally.alerts.iter_mut().zip(counts) {
            *total += count as u64;
        }
        if !verdict.alerts.is_empty() || verdict.dropped_by.is_some() || verdict.tagged {
            let Moment { packet, link, flow: view, .. } = moment;
            let program = &self.program;
            observer.packet(&Event { packet, flow, verdict, view, link, program });
        }
    }

    /// Tells that a captured packet is dropped, if it is. The first reason counts.
    fn tell_drop(
        &mut self,
        moment: Moment<'_>,
        outcome: &Outcome,
        verdict: Option<&Verdict>,
        observer: &mut dyn Observer,
    ) {
        let made = matches!(moment.packet.source, PacketSource::FlowEnd | PacketSource::Flush);
        if !self.program.settings.inline || made {
            return;
        }
        let flow_drops = moment.flow.is_some_and(|flow| flow.core.drops);
        let by_rule = moment.flow.is_some_and(|flow| flow.state.action == FlowActions::Drop);
        let is_outer = moment.packet.tunnel.is_none();
        let reason = match (outcome.drop, verdict) {
            _ if is_outer && self.inner_dropped => "tunnel packet drop",
            (Some(reason), _) => reason.name(),
            (None, Some(verdict)) if verdict.dropped_by.is_some() => verdict.drop_reason(),
            (None, _) if flow_drops && by_rule => "flow drop",
            (None, _) if flow_drops => "exception policy flow drop",
            (None, _) => return,
        };
        self.inner_dropped |= !is_outer;
        self.count_drop(reason);
        self.tally.rejected += u64::from(verdict.is_some_and(|verdict| verdict.reject.is_some()));
        if !self.wishes.drops {
            return;
        }
        observer.dropped(&Dropped { moment, reason, flow_drops, verdict });
    }

    /// Forgets what all have seen.
    fn forget(&mut self, flow: &mut Flow<Upper>, packet: &Packet, learned: &Learned) {
        let direction = learned.facts.direction;
        let is_tcp = matches!(packet.transport, Transport::Tcp(_));
        let (is_made, in_session) = (learned.is_made(), learned.in_session());
        if is_tcp
            && in_session
            && let Some(session) = &mut flow.core.tcp
        {
            session.prune(direction, None, &self.streams.settings);
        }
        let Some(updated) = flow.upper.updated.get_mut(direction.index()) else { return };
        if !(is_made || *updated) || (is_tcp && !in_session) {
            return;
        }
        *updated = false;
        if let Some(conversation) = &mut flow.upper.conversation {
            conversation.clean(direction);
        }
    }
}

/// The part of the raw stream that is to be inspected with a packet, if there is one.
fn raw_part<'a>(
    core: &'a FlowCore,
    packet: &'a Packet,
    learned: &'a Learned,
    settings: &tcp::Settings,
) -> Option<RawPart<'a>> {
    let session = core.tcp.as_deref().filter(|_| learned.in_session())?;
    let raw = RawPacket::new(packet, learned.facts.direction, &learned.outcome);
    if !session.raw_ready(&raw, settings) {
        return None;
    }
    let mut pieces = Vec::new();
    let progress = session.raw_data(&raw, settings, false, &mut |offset, bytes| {
        pieces.push((offset, bytes));
    });
    Some(RawPart { pieces, progress })
}

/// What rules may ask of a packet of a flow.
fn facts<'a>(
    core: &FlowCore,
    upper: &Upper,
    (packet, learned): (&'a Packet, &'a Learned),
    part: Option<RawPart<'a>>,
    is_inline: bool,
) -> Facts<'a> {
    let direction = learned.facts.direction;
    let session = core.tcp.as_deref();
    let own_updated = upper.updated.get(direction.index()).copied().unwrap_or_default();
    // With the packet that ends parsing for good frames are looked at, and not afterwards.
    let is_last_parsed = core.no_payload_inspection && !learned.facts.no_payload_inspection;
    let is_parsed = session.is_some_and(|session| !session.is_app_disabled()) || is_last_parsed;
    Facts {
        direction: Some(direction),
        established: learned.facts.established,
        is_first: learned.facts.first,
        in_session: learned.in_session(),
        added_to_stream: learned.outcome.added,
        replaced: learned.outcome.replaced.as_deref(),
        is_made: learned.is_made(),
        is_flush: learned.facts.pseudo == Some(Pseudo::Flush),
        no_payload_inspection: packet.no_payload_inspection
            || learned.facts.no_payload_inspection
            || learned.outcome.no_payload_inspection,
        events: events(packet, &learned.outcome),
        detection_events: names(&learned.events),
        has_stream: part.is_some(),
        stream: part.map(|part| part.pieces).unwrap_or_default(),
        is_dropped: learned.outcome.drop.is_some(),
        counters: Counters {
            age: u64::try_from(core.last.seconds - core.first.seconds).unwrap_or(0),
            packets: core.packets,
            bytes: core.bytes,
        },
        stream_sizes: session
            .map(|session| [session.size(Direction::ToServer), session.size(Direction::ToClient)]),
        protocols: upper.known(learned.just_decided),
        updated: own_updated || learned.outcome.update != Update::None,
        has_new_frames: (is_parsed || learned.facts.pseudo == Some(Pseudo::Flush))
            && (own_updated || learned.is_made()),
        at_end: matches!(learned.facts.pseudo, Some(Pseudo::End { .. })),
        is_closed: session.is_some_and(|s| s.state() == tcp::State::Closed),
        is_inline,
        ..Facts::new(packet)
    }
}

/// Tells the events of a packet.
fn anomalies(
    moment: Moment<'_>,
    outcome: &Outcome,
    detection: &[PacketEvent],
    observer: &mut dyn Observer,
) {
    let mut tell = |layer, event| observer.anomaly(&Anomaly { moment, layer, event });
    for number in &moment.packet.events {
        let is_decoding = *number <= gauntlet_packet::event::DECODE_LAST;
        if let Some(event) = gauntlet_packet::event::name(*number) {
            tell(if is_decoding { AnomalyLayer::Decode } else { AnomalyLayer::Stream }, event);
        }
    }
    for event in &outcome.events {
        tell(AnomalyLayer::Stream, event.name());
    }
    for event in names(detection) {
        tell(AnomalyLayer::ProtocolDetection, event);
    }
}

/// Of client and server.
fn ports(core: &FlowCore) -> (u16, u16) {
    (core.client().port, core.server().port)
}

fn events(packet: &Packet, outcome: &Outcome) -> Vec<&'static str> {
    let decoding = packet.events.iter().filter_map(|number| gauntlet_packet::event::name(*number));
    decoding.chain(outcome.events.iter().map(|event| event.name())).collect()
}

fn names(events: &[PacketEvent]) -> Vec<&'static str> {
    let all = PacketEvent::NAMES;
    let name = |event: &PacketEvent| all.iter().find(|(e, _)| e == event).map(|(_, name)| *name);
    events.iter().filter_map(name).collect()
}
