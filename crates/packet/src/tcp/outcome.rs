//! What the stream engine says of a packet.

use super::event::Event;
use super::settings::ExceptionPolicy;
use super::sink::Update;
use super::state::State;

/// Why the engine says that a packet is to be dropped, as EVE names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// `stream error`: the packet is invalid.
    Stream,
    /// `stream memcap`: there is no memory for another session.
    Memory,
    /// `stream midstream`.
    Midstream,
    /// `stream reassembly`: there is no memory for a segment.
    Reassembly,
    /// `stream urgent`: urgent data over the limit.
    Urgent,
    /// `applayer error`: the parser of the application protocol failed.
    Application,
}

impl DropReason {
    /// As EVE names it.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Stream => "stream error",
            DropReason::Memory => "stream memcap",
            DropReason::Midstream => "stream midstream",
            DropReason::Reassembly => "stream reassembly",
            DropReason::Urgent => "stream urgent",
            DropReason::Application => "applayer error",
        }
    }
}

/// What an exception policy wants of a flow beside dropping a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowAction {
    /// Drop all that follows.
    Drop,
    /// Pass all that follows, without inspection.
    Pass,
}

/// What the stream engine says of a packet.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Events, in the order of their discovery.
    pub events: Vec<Event>,
    /// Drop it (inline; otherwise a note for the log).
    pub drop: Option<DropReason>,
    /// What becomes of the flow (exception policies).
    pub flow: Option<FlowAction>,
    /// Neither packet nor payload is to be inspected (exception policies).
    pub no_inspection: bool,
    /// The payload is not to be inspected.
    pub no_payload_inspection: bool,
    /// The packet belongs to an established session (`PKT_STREAM_EST`).
    pub established: bool,
    /// Its payload went into the stream (`PKT_STREAM_ADD`): stream rules look at the stream's
    /// bytes, not at the packet's.
    pub added: bool,
    /// Inline: the payload with overlaps replaced by what came first.
    pub replaced: Option<Vec<u8>>,
    /// The directions whose application data changed.
    pub update: Update,
    /// The session's new state, if it is one that changes the flow's.
    pub state: Option<State>,
    /// The packet completed the handshake with data: it counts as of an established flow.
    pub flow_established: bool,
    /// Client and server were swapped: what is kept by direction is to be swapped, too.
    pub swapped: bool,
    /// The protocol layer said so with this packet ([`super::Orders::protocol_changes`]): detection
    /// and log should run for both directions before this packet (`flow::flush_packets`). Whether
    /// the change is still under way when no data came, the protocol layer knows.
    pub protocol_changes: bool,
    /// The flow is to be passed by.
    pub bypass: bool,
    /// The checksum is wrong: the packet was not looked at.
    pub bad_checksum: bool,
    /// The packet is a retransmission.
    pub retransmission: bool,
    /// The packet is an acknowledgement of what was not seen.
    pub acknowledges_unseen: bool,
}

impl Outcome {
    /// Does what an exception policy says. `ips`: packets can be dropped.
    pub fn apply_policy(&mut self, policy: ExceptionPolicy, reason: DropReason, ips: bool) {
        use ExceptionPolicy as P;
        match policy {
            P::Ignore => return,
            P::Reject | P::RejectBoth if !ips => {
                self.drop.get_or_insert(reason);
                return;
            }
            P::DropFlow | P::Reject | P::RejectBoth => {
                self.flow = Some(FlowAction::Drop);
                self.drop.get_or_insert(reason);
            }
            P::DropPacket => {
                self.drop.get_or_insert(reason);
            }
            P::Bypass => {
                self.bypass = true;
                self.flow.get_or_insert(FlowAction::Pass);
            }
            P::PassFlow => {
                self.flow.get_or_insert(FlowAction::Pass);
            }
            P::PassPacket => {}
        }
        self.no_inspection = true;
        self.no_payload_inspection = true;
    }
}
