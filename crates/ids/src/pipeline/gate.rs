//! Who decides about flows by their first packet, before anything looks at them, and what it is
//! asked.

use std::fmt::Debug;

use gauntlet_packet::flow::{Admission, End, FlowCore, icmp_counterpart};
use gauntlet_packet::{Packet, Time, Transport};

/// What can look at a flow: bits of [`Admission::functions`].
pub mod functions {
    /// Rules.
    pub const RULES: u8 = 1;
    /// Requests and names.
    pub const URLS: u8 = 2;
    /// Messages.
    pub const MAIL: u8 = 4;
    /// Files.
    pub const FILES: u8 = 8;
    /// Words of pages.
    pub const WORDS: u8 = 16;
    /// All of them.
    pub const ALL: u8 = 31;
}

/// Whether something may look at a flow: without a gate, all may.
pub fn may_look(core: &FlowCore, function: u8) -> bool {
    core.admission.is_none_or(|admission| admission.functions & function != 0)
}

/// Decides about flows. All pipelines of a process share it.
pub trait Gate: Debug + Send + Sync {
    /// Which version of the policy this is. Flows that another one decided about are asked about
    /// once more.
    fn generation(&self) -> u32;

    /// Decides about a flow that begins as the question says.
    fn decide(&self, question: &Question) -> Admission;

    /// Whether a frame that carries no IP passes, or neighbour discovery.
    fn lets_pass(&self, kind: LinkKind) -> bool;

    /// Whether fragments pass, as far as what they belong to does.
    fn takes_fragments(&self) -> bool;

    /// Whether packets pass whose headers contradict themselves, as far as they are understood.
    fn takes_malformed(&self) -> bool;

    /// For how long after the first frame either side of a connection may speak first.
    fn pick_up_seconds(&self) -> u32;

    /// The name of a rule of [`Admission::rule`].
    fn name(&self, rule: u16) -> &str;

    /// Counts what was decided. `is_first`: it is new, else a later packet of a refused flow.
    /// Whether a record of it is to be written.
    fn count(&self, decided: Decided, is_first: bool, time: Time) -> bool;
}

/// What was decided, to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// A flow is let in, by this rule.
    Admitted(u16),
    /// A packet is refused.
    Refused(Refusal),
}

/// What a link carries beside packets that rules can speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// RFC 826.
    Arp,
    /// RFC 4861.
    Ndp,
    /// IEEE 802.1D.
    Stp,
    /// IEEE 802.1AB.
    Lldp,
    /// Not IP.
    Other,
}

/// Why a packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// By a rule, or the default.
    Rule(u16),
    /// It is a fragment that is not taken.
    Fragment,
    /// Its headers contradict themselves.
    Malformed,
    /// It carries no IP, and the link does not need it.
    Link,
}

impl Refusal {
    /// As records have it.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::Rule(_) => "packet policy",
            Refusal::Fragment => "fragment",
            Refusal::Malformed => "malformed",
            Refusal::Link => "link protocol",
        }
    }
}

/// By which interfaces a frame came and goes on, by their numbers; none where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// By which it came.
    pub incoming: Option<u32>,
    /// By which it goes on.
    pub outgoing: Option<u32>,
}

impl Interfaces {
    /// Those of the other direction.
    pub(super) fn turned(self) -> Self {
        Self { incoming: self.outgoing, outgoing: self.incoming }
    }
}

/// What the first packet of a flow says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Who sent it; of ICMP the port is nothing.
    pub source: End,
    /// Whom it is for.
    pub destination: End,
    /// Protocol number.
    pub protocol: u8,
    /// Of ICMP: type and code.
    pub icmp: Option<(u8, u8)>,
    /// The way that it takes.
    pub interfaces: Interfaces,
    /// When it came.
    pub time: Time,
}

impl Question {
    /// About a packet; none of those that have no IP header.
    pub(super) fn of(packet: &Packet, interfaces: Interfaces) -> Option<Self> {
        let ip = packet.ip.as_ref()?;
        let (source, destination) = packet.ports();
        let icmp = match &packet.transport {
            Transport::Icmp(icmp) => Some((icmp.kind, icmp.code)),
            _ => None,
        };
        Some(Self {
            source: End { address: ip.source, port: source },
            destination: End { address: ip.destination, port: destination },
            protocol: ip.protocol,
            icmp,
            interfaces,
            time: packet.time,
        })
    }

    /// About a flow that is there, as its first packet was; `interfaces` are those of that way.
    pub(super) fn of_flow(core: &FlowCore, interfaces: Interfaces, time: Time) -> Self {
        Self {
            source: core.source,
            destination: core.destination,
            protocol: core.protocol,
            icmp: core.icmp,
            interfaces,
            time,
        }
    }

    /// As if the packet were an answer: about the flow that the other side would have begun. None
    /// where nobody can say how that began.
    pub(super) fn turned(self) -> Option<Self> {
        let icmp = match self.icmp {
            None => None,
            Some((kind, code)) => Some((icmp_counterpart(self.protocol == ICMPV6, kind)?, code)),
        };
        Some(Self {
            source: self.destination,
            destination: self.source,
            icmp,
            interfaces: self.interfaces.turned(),
            ..self
        })
    }
}

const ICMPV6: u8 = 58;
