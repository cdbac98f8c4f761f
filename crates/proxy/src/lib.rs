//! The web path: an explicit HTTP proxy that filters.
//!
//! ```text
//! server ─▶ service ─▶ judge ─▶ forward ─▶ pool ─▶ connect ─▶ resolve, destination
//! clients   checks     trait    tunnel     kept connections   addresses that may be reached
//! ```
//!
//! This is the forwarding core: what may pass is decided behind [`judge::Judge`]. HTTP itself is
//! hyper's. Everything is bounded by [`settings::Limits`] and [`settings::Times`]; each limit that
//! is reached has a name ([`refusal::Refusal`], [`counters::Counters`]).

pub mod access_log;
mod admission;
mod body;
mod client;
mod connect;
pub mod counters;
pub mod destination;
mod error_page;
mod exchange;
mod forward;
mod headers;
mod inspect;
pub mod judge;
pub mod policy_judge;
mod pool;
mod progress;
mod rate_limit;
mod reason;
pub mod refusal;
pub mod request;
pub mod resolve;
mod server;
mod service;
mod smuggling;
mod stop;
mod tunnel;
mod warnings;

pub use gauntlet_web::settings;
pub use server::{Parts, Server, StartError};
