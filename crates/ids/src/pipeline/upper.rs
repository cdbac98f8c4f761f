//! What upper layers keep of a flow, asked and changed.

use gauntlet_packet::Direction;
use gauntlet_packet::tcp::Update;
use gauntlet_protocols::{self as protocols, Conversation};

use super::Upper;
use crate::detect::{Known, Protocols};

impl Upper {
    pub(super) fn protocol(&self) -> Option<protocols::Protocol> {
        self.conversation.as_deref().and_then(Conversation::protocol)
    }

    pub(super) fn is_changing(&self) -> bool {
        self.conversation.as_deref().is_some_and(Conversation::is_changing)
    }

    /// Which sides are decided.
    pub(super) fn decided(&self) -> [bool; 2] {
        let Some(conversation) = &self.conversation else { return [false; 2] };
        [Direction::ToServer, Direction::ToClient].map(|direction| {
            conversation.protocol_of(direction).is_some() || conversation.is_unknown()
        })
    }

    pub(super) fn known(&self, just_decided: bool) -> Protocols {
        let Some(conversation) = &self.conversation else { return Protocols::default() };
        let of = |protocol: Option<protocols::Protocol>| match protocol {
            Some(protocol) => Known::Is(protocol),
            None if conversation.is_unknown() => Known::Failed,
            None => Known::Unknown,
        };
        Protocols {
            flow: of(conversation.protocol()),
            sides: [Direction::ToServer, Direction::ToClient]
                .map(|direction| of(conversation.protocol_of(direction))),
            original: self.original.map_or(Known::Unknown, Known::Is),
            just_decided,
        }
    }

    pub(super) fn protocol_name(&self) -> Option<&'static str> {
        let conversation = self.conversation.as_ref()?;
        match conversation.protocol() {
            Some(protocol) => Some(protocol.eve_name()),
            None if conversation.is_unknown() => Some("failed"),
            None => None,
        }
    }

    /// Notes whose application data a packet changed.
    pub(super) fn note_update(&mut self, direction: Direction, update: Update) {
        let (own, other) = (direction.index(), direction.reverse().index());
        match update {
            Update::None => {}
            Update::Packet => self.updated[own] = true,
            Update::Opposing => {
                self.updated[other] = true;
                self.updated_next[own] = true;
            }
            Update::Both => {
                self.updated = [true; 2];
                self.updated_next = [true; 2];
            }
        }
    }
}
