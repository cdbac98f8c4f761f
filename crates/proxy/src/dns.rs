//! A DNS service (RFC 1035): the lists and the policy of the web path answer for names that may not
//! be reached, for programs that use no proxy. It resolves nothing itself: it asks other resolvers.
//!
//! ```text
//! server ─▶ service ─▶ judge ─▶ cache ─▶ upstream   UDP, by TCP what is too long for it
//! UDP, TCP, TLS         name    aliases of the answer
//! ```
//!
//! Messages are taken apart and put together by `hickory-proto`. OPT records, with whatever clients
//! put into them, end here (RFC 6891 section 6.1.1): upstream sees one of ours.

mod cache;
mod counters;
mod message;
mod server;
mod service;
mod upstream;

pub use counters::DnsCounters;
pub use message::answer_bytes;
pub use server::DnsServer;
