//! Flows: packets of one five-tuple, both ways, with state, time-outs and a limit to their memory.
//!
//! ```text
//! packet -> FlowTable::handle -> FlowId, PacketFacts (direction, first, established ...)
//!        -> FlowCore::handle_tcp (TCP) -> Outcome; data to a StreamSink
//!        -> upper layers
//!        -> FlowTable::next_ended: flows whose time is over -> Ended::final_packets
//! capture's end -> FlowTable::end, then next_ended
//! ```
//!
//! What belongs together, and when a flow ends, is as in Suricata 8: a flow times out when its
//! next packet comes too late; a few others are looked at with every packet, too.

mod admission;
mod core;
mod ended;
mod index;
mod key;
mod settings;
mod state;
mod table;

pub use admission::{Admission, Basis, Passage};
pub use core::{Flow, FlowCore, PacketFacts, Pseudo};
pub use ended::{EndReason, Ended, flush_packets};
pub use key::{End, icmp_counterpart};
pub use settings::{ProtocolTimeouts, Settings, Timeouts};
pub use state::FlowState;
pub use table::{Counters, FlowId, FlowTable, Lookup};
