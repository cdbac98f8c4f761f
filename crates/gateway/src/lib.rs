//! A node: receiver, scan pool, dispose, sender; [`node`] wires all.
//!
//! ```text
//! receiver ─▶ intake: scan_pool (judge) ─▶ answer ─▶ spool ─▶ 250
//!                                                      └─▶ queue ─▶ sender | maildir | hold ─▶ log
//! ```

pub mod admin;
pub mod adopt;
pub mod busy;
mod canonical;
pub mod clock;
pub mod config;
pub mod control;
pub mod current;
pub mod data_formats;
pub mod facts;
pub mod ids;
pub mod inbound;
pub mod limits;
pub mod memory;
pub mod message;
pub mod metrics;
pub mod net;
pub mod network;
pub mod node;
pub mod outbound;
pub mod priority;
pub mod privileges;
pub mod random;
pub mod reports;
pub mod scan;
pub mod secrets;
pub mod text_log;
pub mod trace_fields;
pub mod traces;
pub mod upgrade;
pub mod wire;

pub use gauntlet_smtp::text;
pub use node::{Listeners, Node, Release};
pub use scan::judge::Judge;
