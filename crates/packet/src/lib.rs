//! Packets, flows and streams: capture files are read, frames decoded, fragments put together,
//! packets sorted into flows, and TCP segments into streams. A pure core: no sockets, and time is
//! that of the packets.
//!
//! ```text
//! capture -> decode (tunnels: packets in packets) -> defrag -> flow -> tcp -> streams
//! ```
//!
//! Behaviour that rules can see (events, directions, when a stream's data counts as received) is
//! that of Suricata 8, whose rules run on it.

mod address;
pub mod capture;
mod checksum;
mod counters;
pub mod decode;
mod defrag;
pub mod event;
pub mod flow;
mod host;
mod link;
mod packet;
mod settings;
pub mod tcp;
pub mod units;

pub use address::{Direction, Time};
pub use capture::{Capture, Frame};
pub use counters::{Counter, Counters};
pub use decode::Decoder;
pub use host::{HostPolicies, Network, Os};
pub use link::Link;
pub use packet::{
    Arp, Embedded, Esp, Icmp, Ip, IpVersion, Packet, PacketSource, Sctp, Tcp, TcpFlags, Transport,
    Tunnel, Udp,
};
pub use settings::{Checksums, DefragSettings, HostTimeout, Settings, TunnelPorts};
