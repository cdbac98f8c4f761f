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

    /// Whether a packet is the one that tells of its direction's protocol: the first one after it
    /// was decided, as bytes of a stream are read with packets of the other side. Datagrams, and
    /// packets that can be dropped, tell of what was decided with themselves, too.
    pub(super) fn tells_protocol(&mut self, direction: Direction, at_once: bool) -> bool {
        let side = direction.index();
        let tells = std::mem::take(&mut self.decided_next[side]);
        let Some(conversation) = &mut self.conversation else { return tells };
        let decided = conversation.take_decided();
        for (next, decided) in self.decided_next.iter_mut().zip(decided) {
            *next |= decided;
        }
        tells || (at_once && decided[side])
    }

    pub(super) fn known(&self, just_decided: bool) -> Protocols {
        let Some(conversation) = &self.conversation else { return Protocols::default() };
        let of = |protocol: Option<protocols::Protocol>, is_unknown| match protocol {
            Some(protocol) => Known::Is(protocol),
            None if is_unknown => Known::Failed,
            None => Known::Unknown,
        };
        let side = |direction| {
            let is_unknown = conversation.is_unknown() || conversation.is_unknown_of(direction);
            of(conversation.protocol_of(direction), is_unknown)
        };
        Protocols {
            flow: of(conversation.protocol(), conversation.is_unknown()),
            sides: [Direction::ToServer, Direction::ToClient].map(side),
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
