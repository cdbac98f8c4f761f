//! The first half of a rule: protocols, addresses, ports, direction.

use super::address::AddressSet;
use super::port::PortSet;

/// Whose data: of the client (to the server) or of the server (to the client).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// Protocols of the network and transport layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// IP protocol numbers, a bit each.
    pub bits: [u64; 4],
    /// `ip`: any, also packets that are not IP.
    pub is_any: bool,
    /// Restricted to IPv4 (`ipv4`, `ip4`).
    pub only_v4: bool,
    /// Restricted to IPv6.
    pub only_v6: bool,
    /// `pkthdr`: also packets whose headers are invalid.
    pub is_packet_header: bool,
    /// Not IP: `arp` and `ether`.
    pub link: Option<Link>,
}

/// Protocols beside IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Address resolution.
    Arp,
    /// Any frame.
    Ethernet,
}

impl Protocols {
    /// Whether this number is among them.
    pub fn contains(&self, protocol: u8) -> bool {
        let word = self.bits.get(usize::from(protocol >> 6)).copied().unwrap_or(0);
        self.is_any || word & (1 << (protocol & 63)) != 0
    }
}

/// The first half of a rule.
#[derive(Debug, Clone)]
pub struct Header {
    /// Below the application.
    pub protocols: Protocols,
    /// Senders.
    pub source: AddressSet,
    /// Ports of senders.
    pub source_ports: PortSet,
    /// Receivers.
    pub destination: AddressSet,
    /// Ports of receivers.
    pub destination_ports: PortSet,
    /// `source` is written `any`: also packets without addresses.
    pub source_is_any: bool,
    /// `destination` is written `any`.
    pub destination_is_any: bool,
    /// `source_ports` is written `any`: also packets without ports.
    pub source_ports_any: bool,
    /// `destination_ports` is written `any`.
    pub destination_ports_any: bool,
}

/// `PROTOCOL:HOOK` in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// The first packet of a flow (`tcp:flow_start`).
    FlowStart,
    /// Before the flow is looked up (firewall rules).
    PreFlow,
    /// Before the stream is updated (firewall rules).
    PreStream,
    /// All packets.
    All,
    /// Transactions at this progress.
    Transaction {
        /// Whose side.
        direction: Direction,
        /// Progress in Suricata's numbers.
        progress: u8,
    },
}

impl Protocols {
    /// These alone.
    pub(crate) fn of(numbers: &[u8]) -> Self {
        let mut protocols = Self {
            bits: [0; 4],
            is_any: false,
            only_v4: false,
            only_v6: false,
            is_packet_header: false,
            link: None,
        };
        for &number in numbers {
            protocols.insert(number);
        }
        protocols
    }

    /// Any, IP or not.
    pub(crate) fn any() -> Self {
        Self { bits: [u64::MAX; 4], is_any: true, ..Self::of(&[]) }
    }

    /// Adds one.
    pub(crate) fn insert(&mut self, number: u8) {
        if let Some(word) = self.bits.get_mut(usize::from(number >> 6)) {
            *word |= 1 << (number & 63);
        }
    }

    /// Takes one away.
    pub(crate) fn remove(&mut self, number: u8) {
        if let Some(word) = self.bits.get_mut(usize::from(number >> 6)) {
            *word &= !(1 << (number & 63));
        }
    }
}
