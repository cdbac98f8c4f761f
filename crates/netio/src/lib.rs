//! Packets from the kernel and back: AF_PACKET rings, a bridge between two interfaces, NFQUEUE, the
//! end of a WireGuard tunnel.
//!
//! ```text
//! Plan::open -> sockets (kept by a supervisor, inherited by its worker)
//! Plan::ports -> a Port for each thread -> Port::turn: frames in, an Answer for each, frames out
//! ```
//!
//! Sockets outlive the process that reads them: whoever holds them too goes on where it ended, and
//! what came meanwhile waits in their buffers.
//!
//! All unsafe code is in `sys`: system calls and the memory that is shared with the kernel. What
//! is read there is parsed as bytes from outside.

mod answer;
mod bridge;
mod capture;
mod checksum;
mod error;
mod frame;
mod messages;
mod netlink;
mod nftables;
mod plan;
mod privileges;
mod queue;
pub mod reject;
mod settings;
mod signals;
mod statistics;
mod sys;
mod tunnel;

pub use answer::{Answer, Change, Port, Received, Reply, ReplyTo};
pub use error::Error;
pub use nftables::{BlockSet, SetVersion};
pub use plan::{Inputs, Plan, adopt, inheritable};
pub use privileges::{NET_ADMIN, keep_capabilities, limit_capabilities};
pub use settings::{QueueMode, Settings};
pub use signals::{Signal, Signals};
pub use statistics::{QueueDrops, Statistics};

/// The name of an interface by its number; none if there is no such interface.
pub fn interface_name(number: u32) -> Option<String> {
    sys::interface_name(number)
}

/// Parsers of what the kernel hands over, for tests and fuzzing.
pub mod parse {
    pub use crate::capture::walk_block;
    pub use crate::messages::control;
    pub use crate::netlink::{Queued, packets};
}
