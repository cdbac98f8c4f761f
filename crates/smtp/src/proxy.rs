//! PROXY protocol, version 2: the client's address as a load balancer reports it.
//!
//! The format is HAProxy's (*The PROXY protocol*, section 2.2): a signature of 12 bytes, version
//! and command, family, length, addresses, then extensions that are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the fixed header.
pub const HEAD_BYTES: usize = 16;
/// Largest variable part that is accepted, in bytes; addresses take 36 at most, the rest is
/// extensions (TLVs).
pub const REMAINING_BYTES_MAX: usize = 4_096;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Why a PROXY header is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Another protocol, or version 1.
    #[error("no PROXY header of version 2")]
    Signature,
    /// Neither PROXY nor LOCAL.
    #[error("unknown PROXY command")]
    Command,
    /// Neither TCP over IPv4 nor over IPv6.
    #[error("the PROXY header is not about TCP over IPv4 or IPv6")]
    Family,
    /// The length does not fit the addresses, or is over the limit.
    #[error("bad length of the PROXY header")]
    Length,
}

/// Length of the variable part that follows this fixed header.
///
/// # Errors
/// If it is not a header of version 2, or announces more than [`REMAINING_BYTES_MAX`].
pub fn remaining_bytes(head: &[u8; HEAD_BYTES]) -> Result<usize, ProxyError> {
    let [.., version, _, high, low] = *head;
    if !head.starts_with(SIGNATURE) || version >> 4 != 2 {
        return Err(ProxyError::Signature);
    }
    let bytes = usize::from(u16::from_be_bytes([high, low]));
    if bytes > REMAINING_BYTES_MAX { Err(ProxyError::Length) } else { Ok(bytes) }
}

/// The client's address and port. None for the load balancer's own connection (`LOCAL`: a health
/// check).
///
/// # Errors
/// If the header is malformed.
pub fn client(head: &[u8; HEAD_BYTES], rest: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
    if rest.len() != remaining_bytes(head)? {
        return Err(ProxyError::Length);
    }
    let [.., version, family, _, _] = *head;
    match version & 15 {
        0 => return Ok(None),
        1 => {}
        _ => return Err(ProxyError::Command),
    }
    let (address, port): (IpAddr, &[u8]) = match family {
        0x11 => {
            let address: [u8; 4] = part(rest, 0)?;
            (Ipv4Addr::from(address).into(), rest.get(8..10).ok_or(ProxyError::Length)?)
        }
        0x21 => {
            let address: [u8; 16] = part(rest, 0)?;
            (Ipv6Addr::from(address).into(), rest.get(32..34).ok_or(ProxyError::Length)?)
        }
        _ => return Err(ProxyError::Family),
    };
    let port = u16::from_be_bytes(part(port, 0)?);
    Ok(Some(SocketAddr::new(address, port)))
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ProxyError> {
    bytes.get(at..at + N).and_then(|b| b.try_into().ok()).ok_or(ProxyError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
        let (head, rest) = bytes.split_at(HEAD_BYTES);
        client(head.try_into().unwrap(), rest)
    }

    fn header(version: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[version, family], &length, rest].concat()
    }

    #[test]
    fn addresses_of_both_families() {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 25];
        assert_eq!(read(&header(0x21, 0x11, &v4)), Ok("192.0.2.1:4660".parse().ok()));
        let with_extension = [&v4[..], &[4, 0, 1, 0]].concat();
        assert_eq!(read(&header(0x21, 0x11, &with_extension)), Ok("192.0.2.1:4660".parse().ok()));
        let mut v6 = [0; 36];
        (v6[0], v6[1], v6[15], v6[33]) = (0x20, 0x01, 7, 25);
        assert_eq!(read(&header(0x21, 0x21, &v6)), Ok("[2001::7]:25".parse().ok()));
        assert_eq!(read(&header(0x20, 0, &[])), Ok(None), "the balancer's own check");
    }

    #[test]
    fn whatever_else_is_refused() {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 25];
        assert_eq!(read(&header(0x11, 0x11, &v4)), Err(ProxyError::Signature));
        assert_eq!(read(&header(0x22, 0x11, &v4)), Err(ProxyError::Command));
        assert_eq!(read(&header(0x21, 0x12, &v4)), Err(ProxyError::Family), "UDP");
        assert_eq!(read(&header(0x21, 0x31, &v4)), Err(ProxyError::Family), "a Unix socket");
        assert_eq!(read(&header(0x21, 0x21, &v4)), Err(ProxyError::Length));
        assert_eq!(read(b"EHLO client.example\r\n"), Err(ProxyError::Signature));
        let long = header(0x21, 0x11, &[0; REMAINING_BYTES_MAX + 1]);
        assert_eq!(read(&long), Err(ProxyError::Length));
        for cut in HEAD_BYTES..HEAD_BYTES + v4.len() {
            assert!(read(&header(0x21, 0x11, &v4)[..cut]).is_err());
        }
    }
}
