//! Peers, and whose packets are whose.

use std::net::{IpAddr, SocketAddr};

use boringtun::noise::Tunn;
use boringtun::x25519::PublicKey;
use gauntlet_mail::Network;

/// A peer with its sessions.
pub(crate) struct Peer {
    pub(crate) public: PublicKey,
    pub(crate) tunn: Tunn,
    /// Where its last authentic datagram came from.
    pub(crate) endpoint: Option<SocketAddr>,
}

/// Which peer an address belongs to: the longest prefix counts.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Longest prefix first.
    networks: Vec<(u32, Network, usize)>,
}

impl Routes {
    /// Of networks and their peers. A network of two peers is the later one's, as in WireGuard.
    pub(crate) fn new(all: impl Iterator<Item = (Network, usize)>) -> Self {
        let mut networks: Vec<_> =
            all.map(|(network, peer)| (size(&network), network, peer)).collect();
        networks.reverse();
        networks.sort_by_key(|(size, ..)| *size);
        Self { networks }
    }

    pub(crate) fn peer(&self, address: IpAddr) -> Option<usize> {
        let found = self.networks.iter().find(|(_, network, _)| network.contains(address));
        found.map(|(.., peer)| *peer)
    }
}

/// Bits of an address that a network leaves open.
fn size(network: &Network) -> u32 {
    match network.bounds() {
        (IpAddr::V4(first), IpAddr::V4(last)) => (first.to_bits() ^ last.to_bits()).count_ones(),
        (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits() ^ last.to_bits()).count_ones(),
        _ => u32::MAX,
    }
}
