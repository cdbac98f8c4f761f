//! WireGuard (<https://www.wireguard.com/papers/wireguard.pdf>) without sockets: datagrams of peers
//! in, packets out, and the other way.
//!
//! ```text
//! Config::read (wg-quick's file) -> Tunnel::new
//! Tunnel::receive(datagram)  -> packets of a peer, datagrams to answer with
//! Tunnel::send(packet)       -> datagrams to the peer that has its address
//! Tunnel::tick               -> handshakes and keep-alives that are due
//! ```
//!
//! The protocol is that of the crate `boringtun`, which has a clock of its own: timers of WireGuard
//! are relative, and end sessions though nothing is called.

mod config;
mod peers;
mod tunnel;

pub use config::{Config, ConfigError, FILE_BYTES_MAX, NETWORKS_MAX, PEERS_MAX, PeerConfig};
pub use tunnel::{Counters, Out, Tunnel};
