//! The web path: an HTTP proxy that filters, explicit and transparent.
//!
//! ```text
//! server ─▶ service ─▶ judge ─▶ forward ─▶ pool ─▶ connect ─▶ resolve, destination
//! clients   checks     trait    tunnel     kept connections   addresses that may be reached
//! ```
//!
//! [`tls`] is what happens to tunnels, and TLS to servers.
//!
//! This is the forwarding core: what may pass is decided behind [`judge::Judge`]. HTTP itself is
//! hyper's. Everything is bounded by [`settings::Limits`] and [`settings::Times`]; each limit that
//! is reached has a name ([`refusal::Refusal`], [`counters::Counters`]).

pub mod access_log;
mod admission;
mod asking;
pub mod auth;
mod body;
mod client;
pub mod client_hello;
mod connect;
mod connection;
pub mod content;
pub mod counters;
pub mod destination;
pub mod dns;
mod error_page;
mod exchange;
mod first_bytes;
mod forward;
mod headers;
pub mod icap;
mod inspect;
mod interception;
pub mod judge;
pub mod meter;
mod pac;
pub mod policy_judge;
mod pool;
mod progress;
pub mod quotas;
mod rate_limit;
mod reason;
mod recent;
pub mod refusal;
mod relay;
pub mod releases;
pub mod request;
#[doc(hidden)]
pub mod request_bytes;
pub mod resolve;
mod server;
mod service;
mod shared;
mod smuggling;
mod stop;
mod stream;
pub mod tls;
mod transparent;
mod tunnel;
mod warnings;

pub use gauntlet_web::settings;
pub use server::{Parts, Server, StartError};
pub use transparent::socket::listen as transparent_socket;
