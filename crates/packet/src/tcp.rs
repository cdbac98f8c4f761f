//! TCP sessions: the state machine, and the data of both directions in order.
//!
//! ```text
//! packet -> checks (checksum, keep-alives, windows, acknowledgements, timestamps) -> state
//!        -> segment stored (overlaps by the receiver's system) -> data in order -> StreamSink
//!                                                              -> raw inspection
//! ```
//!
//! What data is handed over, and when, is that of Suricata 8: at an acknowledgement, or inline at
//! once. The module `flow` calls this; what it says of a packet is an [`Outcome`].

mod app;
mod buffer;
mod close;
mod configure;
mod engine;
mod established;
mod event;
mod handle;
mod handshake;
mod insert;
mod job;
mod kept;
mod outcome;
mod overlap;
mod prune;
mod queue;
mod raw;
mod region;
mod reuse;
mod sack;
mod segments;
mod selective;
mod sequence;
mod session;
mod settings;
mod side;
mod signs;
mod sink;
mod start;
mod state;
mod timestamp;
mod validate;

pub(crate) use configure::choice;
pub use engine::{Counters, Engine};
pub use event::{Event, names};
pub use handle::handle;
pub use outcome::{DropReason, FlowAction, Outcome};
pub use raw::RawPacket;
pub(crate) use reuse::may_replace;
pub use session::Session;

pub use settings::{Choice, Chosen, ExceptionPolicy, Settings, UrgentPolicy};
pub use sink::{Chunk, Discard, Orders, SessionView, StreamSink, Update};
pub use state::State;
