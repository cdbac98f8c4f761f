//! What becomes of a frame, for whoever sends it on.

use std::ops::Range;

use gauntlet_packet::tcp::{ExceptionPolicy, Outcome};
use gauntlet_packet::{Packet, PacketSource, Transport};

/// Why a frame is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropCause {
    /// A rule said so with this packet.
    Rule,
    /// Its flow is dropped, by an earlier packet.
    Flow,
    /// The observer said so of what came with this packet ([`super::Observer::drops_flow`]).
    Observer,
    /// The gate refused it, for this reason ([`super::Gate`]).
    Policy(&'static str),
    /// The stream engine or an exception policy, by the name that EVE gives to the reason.
    Engine(&'static str),
}

impl DropCause {
    /// As EVE names the reason of a drop.
    pub fn name(self) -> &'static str {
        match self {
            DropCause::Rule => "rules",
            DropCause::Flow => "flow drop",
            DropCause::Observer => "content",
            DropCause::Engine(name) | DropCause::Policy(name) => name,
        }
    }
}

/// Payload that is to be sent on in place of the frame's own: overlapping segments that said
/// something else are brought in line with what was inspected (`stream.inline`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// Where the payload is in the frame.
    pub place: Range<usize>,
    /// As many bytes.
    pub bytes: Vec<u8>,
    /// Where TCP's checksum is in the frame.
    pub checksum_at: usize,
}

/// What becomes of a frame. It is dropped if one of the packets in it is (tunnels, fragments).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    /// Why it is dropped; none: it passes.
    pub drop: Option<DropCause>,
    /// What is to be changed before it is sent on.
    pub rewrite: Option<Rewrite>,
    /// A rule or a policy lets the whole flow pass: it is not inspected any more.
    pub passes: bool,
}

impl Fate {
    /// Drops the frame; the first cause is kept.
    pub(super) fn drop(&mut self, cause: DropCause) {
        self.drop.get_or_insert(cause);
    }

    /// What the stream engine says of a packet.
    pub(super) fn stream(&mut self, packet: &Packet, outcome: &Outcome) {
        if let Some(reason) = outcome.drop {
            self.drop(DropCause::Engine(reason.name()));
        }
        let (Some(bytes), Transport::Tcp(tcp)) = (&outcome.replaced, &packet.transport) else {
            return;
        };
        if packet.source == PacketSource::Wire && bytes.len() == packet.payload.len() {
            let place = packet.payload.clone();
            let checksum_at = tcp.header.start + CHECKSUM_OFFSET;
            self.rewrite = Some(Rewrite { place, bytes: bytes.clone(), checksum_at });
        }
    }

    /// There is no memory for the packet's flow.
    pub(super) fn refused(&mut self, policy: ExceptionPolicy) {
        let drops = matches!(
            policy,
            ExceptionPolicy::DropPacket
                | ExceptionPolicy::DropFlow
                | ExceptionPolicy::Reject
                | ExceptionPolicy::RejectBoth
        );
        if drops {
            self.drop(DropCause::Engine("flow memcap"));
        }
    }
}

/// In TCP's header (RFC 9293 section 3.1).
const CHECKSUM_OFFSET: usize = 16;
