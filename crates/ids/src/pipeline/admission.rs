//! The gate before a pipeline: a frame is let in, let pass, or refused, before anything looks at
//! its packets.
//!
//! ```text
//! frame -> no IP: the link's protocols
//!       -> fragment: as its first one says
//!       -> flow that is known: what was decided
//!       -> error of ICMP: what was decided about the flow that it is about
//!       -> announced by a flow (FTP's data): as that one
//!       -> else the gate decides
//! ```
//!
//! The captured packet is what counts; packets in tunnels go with it.

use std::sync::Arc;

use gauntlet_packet::flow::{Admission, Basis, End, FlowCore, Lookup, Passage, icmp_counterpart};
use gauntlet_packet::{Frame, IpVersion, Link, Packet, PacketSource, TcpFlags, Transport};

use super::Pipeline;
use super::fate::DropCause;
use super::fragment::{self, Beginning};
use super::gate::{Decided, Gate, LinkKind, Question, Refusal, functions};
use super::observer::{GateDecision, Moment, Observer};

/// Addresses of Ethernet, behind which a type is.
const ADDRESSES_LEN: usize = 12;
/// VLAN tags behind which an EtherType is looked for.
const TAGS_MAX: usize = 16;

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its packets are looked at, with what was decided about its flow.
    Inspect(Option<Admission>),
    /// It passes, and nothing looks at it.
    Pass(Admission),
    /// It is refused; a flow that is there keeps the decision.
    Refuse(Refusal, Option<Admission>),
}

/// What becomes of a frame, and whether that was decided with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Course {
    way: Way,
    again: bool,
}

impl Course {
    fn inspect() -> Self {
        Course { way: Way::Inspect(None), again: true }
    }

    fn refuse(why: Refusal) -> Self {
        Course { way: Way::Refuse(why, None), again: false }
    }

    fn of(admission: Admission, again: bool) -> Self {
        let way = match admission.passage {
            Passage::Inspected => Way::Inspect(Some(admission)),
            Passage::Free => Way::Pass(admission),
            Passage::Dropped | Passage::Rejected => {
                Way::Refuse(Refusal::Rule(admission.rule), Some(admission))
            }
        };
        Course { way, again }
    }
}

impl Pipeline {
    /// Asks the gate about a frame, and does what it says. What its packets are to be looked at
    /// with; none: they are not.
    pub(super) fn enter(
        &mut self,
        gate: &Arc<dyn Gate>,
        frame: &Frame,
        packets: &[Packet],
        observer: &mut dyn Observer,
    ) -> Option<Option<Admission>> {
        self.began.get_or_insert(frame.time);
        let Some(captured) = packets.last() else {
            // Too long to be decoded.
            let refused = Decided::Refused(Refusal::Malformed);
            gate.count(refused, true, frame.time);
            self.drop_frame(Refusal::Malformed);
            return None;
        };
        let base = base(captured, packets);
        let course = self.course(gate.as_ref(), frame.link, captured, base);
        if let Way::Inspect(Some(Admission { basis: Basis::Announced, .. })) = course.way
            && !course.again
            && let Some(question) = Question::of(base, self.interfaces)
            && let Some((place, _)) = self.stages.agreements.by(&question)
        {
            self.stages.agreements.used(place);
        }
        self.tell_course(gate.as_ref(), base, course, observer);
        match course.way {
            Way::Inspect(admission) => Some(admission),
            Way::Pass(admission) => {
                self.pass(base, admission, observer);
                None
            }
            // It reaches its receiver all the same, so it is looked at.
            Way::Refuse(_, admission) if !self.stages.is_inline() => {
                Some(admission.map(|it| Admission { functions: functions::ALL, ..it }))
            }
            Way::Refuse(why, admission) => {
                self.remember(base, admission);
                self.drop_frame(why);
                None
            }
        }
    }

    fn tell_course(
        &self,
        gate: &dyn Gate,
        packet: &Packet,
        Course { way, again }: Course,
        observer: &mut dyn Observer,
    ) {
        let (decided, passage) = match way {
            Way::Inspect(None) => return,
            Way::Inspect(Some(admission)) | Way::Pass(admission) => {
                (Decided::Admitted(admission.rule), admission.passage)
            }
            Way::Refuse(why, admission) => {
                (Decided::Refused(why), admission.map_or(Passage::Dropped, |it| it.passage))
            }
        };
        let is_inline = self.stages.is_inline();
        let is_refused = !passage.is_open();
        if again && !(is_refused && is_inline) {
            return;
        }
        let is_recorded = gate.count(decided, !again, packet.time) && !again;
        let (number, reason) = match decided {
            Decided::Admitted(rule) => (Some(rule), ""),
            Decided::Refused(why @ Refusal::Rule(rule)) => (Some(rule), why.reason()),
            Decided::Refused(why) => (None, why.reason()),
        };
        let moment = Moment { packet, link: self.stages.link, flow: None };
        observer.decided(&GateDecision {
            moment,
            rule: number.map(|number| gate.name(number)),
            number,
            passage,
            reason,
            is_inline,
            is_recorded,
        });
    }

    fn drop_frame(&mut self, why: Refusal) {
        if self.stages.is_inline() {
            self.stages.fate.drop(DropCause::Policy(why.reason()));
            self.stages.count_drop(why.reason());
        }
    }

    /// A flow that is there keeps what was decided about it.
    fn remember(&mut self, packet: &Packet, admission: Option<Admission>) {
        if fragment::is_error(packet) {
            return;
        }
        let Some(id) = self.flows.current(packet, &self.stages.streams.settings) else { return };
        if let Some(flow) = self.flows.get_mut(id) {
            flow.core.admission = admission;
        }
    }

    /// Takes note of a packet that passes uninspected.
    fn pass(&mut self, packet: &Packet, admission: Admission, observer: &mut dyn Observer) {
        self.stages.fate.passes = true;
        if fragment::is_error(packet) {
            return;
        }
        let lookup = self.flows.handle(packet, &self.stages.streams.settings);
        if let Lookup::Flow(id, facts) = lookup
            && let Some(flow) = self.flows.get_mut(id)
        {
            flow.core.admission = Some(admission);
            flow.core.passes = true;
            flow.core.follow(packet, facts.direction);
        }
        self.ended(observer);
    }

    fn course(&self, gate: &dyn Gate, link: Link, captured: &Packet, base: &Packet) -> Course {
        if captured.ip.is_none() {
            return link_course(gate, link, captured);
        }
        if (captured.invalid || base.invalid) && !gate.takes_malformed() {
            return Course::refuse(Refusal::Malformed);
        }
        if is_neighbour_discovery(base) {
            return match gate.lets_pass(LinkKind::Ndp) {
                true => Course::inspect(),
                false => Course::refuse(Refusal::Link),
            };
        }
        if base.fragment {
            return self.fragment_course(gate, base);
        }
        if fragment::is_error(base) {
            if let Some(admission) = self.about(base) {
                return Course::of(admission, true);
            }
        } else if let Some(id) = self.flows.current(base, &self.stages.streams.settings)
            && let Some(flow) = self.flows.get(id)
        {
            return self.known_course(gate, base, &flow.core);
        }
        let Some(question) = Question::of(base, self.interfaces) else {
            return Course::refuse(Refusal::Malformed);
        };
        Course::of(self.decide(gate, &question, base), false)
    }

    /// A fragment of a packet that is not whole yet. The first one has the ports, and nothing can
    /// be put together without it.
    fn fragment_course(&self, gate: &dyn Gate, packet: &Packet) -> Course {
        let Some(ip) = packet.ip.as_ref().filter(|_| gate.takes_fragments()) else {
            return Course::refuse(Refusal::Fragment);
        };
        if ip.fragment_offset > 0 {
            return Course::inspect();
        }
        let Some(Beginning { protocol, ports, icmp }) = fragment::beginning(packet) else {
            return Course::refuse(Refusal::Fragment);
        };
        let source = End { address: ip.source, port: ports.0 };
        let destination = End { address: ip.destination, port: ports.1 };
        let question = Question {
            source,
            destination,
            protocol,
            icmp,
            interfaces: self.interfaces,
            time: packet.time,
        };
        let ends = match icmp {
            Some((kind, code)) => icmp_ends(&question, kind, code),
            None => [source, destination],
        };
        if let Some(flow) = self.flows.between(packet, ends, protocol)
            && let Some(admission) = flow.core.admission
            && admission.generation == gate.generation()
        {
            return inspected(Course::of(admission, true));
        }
        inspected(Course::of(gate.decide(&question), false))
    }

    /// A flow that is there: what was decided, once more if the policy changed.
    fn known_course(&self, gate: &dyn Gate, packet: &Packet, core: &FlowCore) -> Course {
        let decided = core.admission;
        if let Some(admission) = decided
            && (admission.generation == gate.generation() || admission.basis == Basis::Announced)
            // A new connection on the ports of one that nobody followed.
            && !(admission.passage == Passage::Free && is_opening(packet))
        {
            return Course::of(admission, true);
        }
        let is_forth = packet.ip.as_ref().is_some_and(|ip| ip.source == core.source.address);
        let interfaces = if is_forth { self.interfaces } else { self.interfaces.turned() };
        let question = Question::of_flow(core, interfaces, packet.time);
        let basis = decided.map_or(Basis::First, |admission| admission.basis);
        let asked = match basis {
            Basis::Answer => question.turned().unwrap_or(question),
            _ => question,
        };
        let admission = Admission { basis, ..gate.decide(&asked) };
        Course::of(admission, false)
    }

    /// Decides about a flow that begins.
    fn decide(&self, gate: &dyn Gate, question: &Question, packet: &Packet) -> Admission {
        if let Some((_, parent)) = self.stages.agreements.by(question) {
            return Admission { basis: Basis::Announced, ..parent };
        }
        let admission = gate.decide(question);
        if admission.passage.is_open() || !self.may_pick_up(gate, packet) {
            return admission;
        }
        let turned = question.turned().map(|turned| gate.decide(&turned));
        match turned.filter(|turned| turned.passage.is_open()) {
            Some(turned) => Admission { basis: Basis::Answer, ..turned },
            None => admission,
        }
    }

    /// Whether a packet may be the answer of a connection that nobody saw begin.
    fn may_pick_up(&self, gate: &dyn Gate, packet: &Packet) -> bool {
        let Transport::Tcp(tcp) = &packet.transport else { return false };
        let seconds = i64::from(gate.pick_up_seconds());
        let began = self.began.unwrap_or(packet.time);
        !tcp.flags.has(TcpFlags::SYN) && packet.time.seconds.saturating_sub(began.seconds) < seconds
    }

    /// What was decided about the flow that an ICMP error is about.
    fn about(&self, packet: &Packet) -> Option<Admission> {
        let (ends, protocol) = fragment::about(packet)?;
        self.flows.between(packet, ends, protocol)?.core.admission
    }
}

/// The packet that the gate decides about: the captured one, or what its fragments make up.
fn base<'a>(captured: &'a Packet, packets: &'a [Packet]) -> &'a Packet {
    let is_whole = |packet: &&Packet| {
        let tunnel = packet.tunnel.as_ref();
        packet.source == PacketSource::Defragmented && tunnel.is_some_and(|it| it.depth == 0)
    };
    match captured.fragment {
        true => packets.iter().rfind(is_whole).unwrap_or(captured),
        false => captured,
    }
}

/// A fragment that passes is inspected even if its flow is not: it waits for others in the decoder,
/// and what they make up is decided about with the last.
fn inspected(course: Course) -> Course {
    match course.way {
        Way::Inspect(_) | Way::Pass(_) => Course::inspect(),
        Way::Refuse(..) => course,
    }
}

/// SYN without ACK.
fn is_opening(packet: &Packet) -> bool {
    let Transport::Tcp(tcp) = &packet.transport else { return false };
    tcp.flags.has(TcpFlags::SYN) && !tcp.flags.has(TcpFlags::ACK)
}

/// The ends of a flow of ICMP, as the flow table has them.
fn icmp_ends(question: &Question, kind: u8, code: u8) -> [End; 2] {
    const ICMPV6: u8 = 58;
    let is_v6 = question.protocol == ICMPV6;
    let answer = icmp_counterpart(is_v6, kind).unwrap_or(0);
    let code = if is_v6 { u16::from(code) << 8 } else { 0 };
    [
        End { port: u16::from(kind) | code, ..question.source },
        End { port: u16::from(answer), ..question.destination },
    ]
}

/// Messages of RFC 4861, which no router sends on (hop limit 255), and of RFC 2710 and 3810, which
/// stay on their link (hop limit 1).
fn is_neighbour_discovery(packet: &Packet) -> bool {
    let (Some(ip), Transport::Icmp(icmp)) = (&packet.ip, &packet.transport) else { return false };
    ip.version == IpVersion::V6
        && match icmp.kind {
            133..=136 => ip.ttl == 255,
            130..=132 | 143 => ip.ttl == 1,
            _ => false,
        }
}

/// A frame without a packet of IP.
fn link_course(gate: &dyn Gate, link: Link, packet: &Packet) -> Course {
    let kind = match link {
        Link::Ethernet => link_kind(&packet.bytes),
        Link::Raw | Link::Ipv4 | Link::Ipv6 => None,
        _ => Some(LinkKind::Other),
    };
    match kind {
        None if gate.takes_malformed() => Course::inspect(),
        None => Course::refuse(Refusal::Malformed),
        Some(kind) if gate.lets_pass(kind) => Course::inspect(),
        Some(_) => Course::refuse(Refusal::Link),
    }
}

/// What a frame of Ethernet carries; none if it says that it is IP.
fn link_kind(bytes: &[u8]) -> Option<LinkKind> {
    let mut at = ADDRESSES_LEN;
    for _ in 0..TAGS_MAX {
        let kind = match bytes.get(at..at + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => return Some(LinkKind::Other),
        };
        return match kind {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => {
                at += 4;
                continue;
            }
            0x0800 | 0x86dd => None,
            0x0806 => Some(LinkKind::Arp),
            0x88cc => Some(LinkKind::Lldp),
            // A length: IEEE 802.3, with the access point of spanning tree (IEEE 802.1D).
            0..=1_500 if bytes.get(at + 2) == Some(&0x42) => Some(LinkKind::Stp),
            _ => Some(LinkKind::Other),
        };
    }
    None
}

/// A packet's flow is let in, with what was decided about the frame; none: there is no gate any
/// more. A flow that was passed by is inspected from here on then.
pub(super) fn admit(core: &mut FlowCore, packet: &Packet, admission: Option<Admission>) {
    if fragment::is_error(packet) {
        return;
    }
    let was_free = core.admission.is_some_and(|it| it.passage == Passage::Free);
    if was_free && admission.is_none_or(|it| it.passage == Passage::Inspected) {
        core.passes = false;
    }
    core.admission = admission;
}
