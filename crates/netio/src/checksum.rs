//! The Internet checksum of packets that are made or changed here (RFC 1071, 1624).

use std::net::IpAddr;

/// The sum of big-endian words, not folded; an odd last byte counts as if 0 followed.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// The sum of the pseudo-header of a transport.
pub(crate) fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> u64 {
    let of = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    of(source) + of(destination) + u64::from(protocol) + len as u64
}

/// The checksum that belongs to a sum.
pub(crate) fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    // Below 0x10000 by the loop.
    !(sum as u16)
}

/// The checksum after bytes that begin at an even place were replaced (RFC 1624 equation 3).
pub(crate) fn update(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let mut old = sum(old);
    while old > 0xffff {
        old = (old >> 16) + (old & 0xffff);
    }
    finish(u64::from(!checksum) + (old ^ 0xffff) + sum(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_checksum_is_that_of_the_changed_bytes() {
        let mut bytes = (0..=200u8).collect::<Vec<u8>>();
        let before = finish(sum(&bytes));
        let new = [7u8; 33];
        let old = bytes[40..73].to_vec();
        bytes[40..73].copy_from_slice(&new);
        assert_eq!(update(before, &old, &new), finish(sum(&bytes)));
        assert_eq!(finish(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
    }
}
