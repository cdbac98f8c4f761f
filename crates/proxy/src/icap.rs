//! An ICAP service (RFC 3507): another proxy, such as Squid, asks what may pass.
//!
//! ```text
//! server ─▶ connection ─▶ codec, chunks, http_head   bytes to requests: pure, bounded
//! clients   one request   service ─▶ judge, inspect  as the forwarding proxy asks them
//!           after another answer                     requests' answers to bytes: pure
//! ```
//!
//! REQMOD asks about a request before it is sent, RESPMOD about a response (and its request once
//! more, so that RESPMOD alone blocks addresses, too). What may pass unchanged is answered by 204
//! where the client allows it, else sent back as it came; what may not is answered by the page that
//! the forwarding proxy would have sent. Bodies stream.

pub mod answer;
mod body;
pub mod chunks;
pub mod codec;
mod connection;
pub mod counters;
pub mod http_head;
mod server;
mod service;
mod transaction;

pub use server::IcapServer;
