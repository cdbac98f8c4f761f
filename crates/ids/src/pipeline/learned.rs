//! What was learned of a packet on its way to detection, and the moment that observers are told of.

use gauntlet_packet::flow::{Flow, PacketFacts};
use gauntlet_packet::tcp::Outcome;
use gauntlet_packet::{Link, Packet};
use gauntlet_protocols::PacketEvent;

use super::Upper;
use super::observer::{FlowView, Moment};

/// What was learned of a packet on its way to detection.
pub(super) struct Learned {
    pub(super) facts: PacketFacts,
    pub(super) outcome: Outcome,
    pub(super) events: Vec<PacketEvent>,
    /// A side's protocol was decided.
    pub(super) just_decided: bool,
}

impl Learned {
    pub(super) fn of(facts: PacketFacts) -> Self {
        Self { facts, outcome: Outcome::default(), events: Vec::new(), just_decided: false }
    }

    /// The packet was made up.
    pub(super) fn is_made(&self) -> bool {
        self.facts.pseudo.is_some()
    }

    /// The packet belongs to an established session.
    pub(super) fn in_session(&self) -> bool {
        self.outcome.established || self.is_made()
    }
}

/// The packet at hand, and its flow as observers see it.
pub(super) fn moment<'a>(
    flow: &'a Flow<Upper>,
    packet: &'a Packet,
    learned: &Learned,
    link: Option<Link>,
) -> Moment<'a> {
    let view = FlowView {
        core: &flow.core,
        direction: learned.facts.direction,
        state: &flow.upper.detection,
        conversation: flow.upper.conversation.as_deref(),
        original: flow.upper.original,
    };
    Moment { packet, link, flow: Some(view) }
}
