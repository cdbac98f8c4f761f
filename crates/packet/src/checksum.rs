//! The Internet checksum (RFC 1071), as headers of IPv4, TCP, UDP, ICMP and ICMPv6 use it.

use std::net::IpAddr;

/// A sum of words, not folded yet. They are taken as little-endian ones, which most machines read
/// at once, and the folded sum is swapped: the sum comes out the same (RFC 1071 section 2 B).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(u64);

/// Lanes that are added side by side.
const LANES: usize = 8;

impl Sum {
    /// Adds bytes that begin at an even place; an odd last byte counts as if 0 followed.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        // Words of 32 bits fold to the same sum as those of 16, and half as many are to be added.
        let (words, rest) = bytes.as_chunks::<4>();
        let (rows, row) = words.as_chunks::<LANES>();
        let mut lanes = [0u64; LANES];
        for row in rows {
            for (lane, word) in lanes.iter_mut().zip(row) {
                *lane += u64::from(u32::from_le_bytes(*word));
            }
        }
        let mut last = [0; 4];
        for (place, byte) in last.iter_mut().zip(rest) {
            *place = *byte;
        }
        let others = row.iter().chain([&last]);
        self.0 += lanes.iter().sum::<u64>();
        self.0 += others.map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>();
        self
    }

    /// Adds the pseudo-header of TCP, UDP and ICMPv6, for a payload of at most 65,535 bytes.
    pub(crate) fn pseudo(self, source: IpAddr, destination: IpAddr, proto: u8, len: usize) -> Self {
        let mut sum = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.bytes(&source.octets()).bytes(&destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.bytes(&source.octets()).bytes(&destination.octets())
            }
            _ => self,
        };
        sum.0 += u64::from(u16::from(proto).swap_bytes()) + u64::from((len as u16).swap_bytes());
        sum
    }

    fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        // Below 0x10000 by the loop.
        (sum as u16).swap_bytes()
    }

    /// Whether bytes that contain their checksum are as they were sent.
    pub(crate) fn is_right(self) -> bool {
        self.fold() == 0xffff
    }

    /// The checksum of bytes that do not contain it.
    pub(crate) fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// The checksum of a header whose words `old` (their sum) became `new`, all as a little-endian
/// machine has them. A carry of `old` is lost, as it is in Suricata, so that rules about wrong
/// checksums see the same of reassembled packets.
pub(crate) fn fix(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(checksum).wrapping_add(u32::from(old)).wrapping_sub(u32::from(new));
    (sum >> 16).wrapping_add(sum & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::Sum;

    #[test]
    fn the_example_of_rfc_1071_adds_up() {
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(Sum::default().bytes(&[1, 2, 3]).fold(), 0x0402);
        assert!(sum.bytes(&(!0xddf2u16).to_be_bytes()).is_right());
    }
}
