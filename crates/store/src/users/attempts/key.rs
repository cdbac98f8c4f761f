//! Keys of the counters: addresses, networks, logins; and their encoding in the database.

use std::net::IpAddr;
use std::time::Duration;

use super::limits::AttemptLimits;

/// Time after which failures of a login expire, if no pause is longer.
const ACCOUNT_FORGET: Duration = Duration::from_secs(2 * 60 * 60);
/// Time after which wrong codes expire, if no pause is longer.
const CODE_FORGET: Duration = Duration::from_secs(24 * 60 * 60);

/// Hash of a login, which an attacker chooses and may make long.
pub(super) type Login = [u8; 16];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Network {
    bits: u128,
    prefix: u8,
}

impl Network {
    fn of(address: IpAddr, v4: u8, v6: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(a) => {
                let bits = u128::from(u32::from(a) >> (32 - v4) << (32 - v4));
                Network { bits, prefix: v4 }
            }
            // The high bit distinguishes prefixes of IPv6.
            IpAddr::V6(a) => {
                Network { bits: u128::from(a) >> (128 - v6) << (128 - v6), prefix: 128 | v6 }
            }
        }
    }

    /// The addresses of one host: one of IPv4, or a /64.
    pub(super) fn host(address: IpAddr) -> Self {
        Network::of(address, 32, 64)
    }

    /// The addresses of one customer: a /24, or a /48.
    pub(super) fn subnet(address: IpAddr) -> Self {
        Network::of(address, 24, 48)
    }
}

/// Key of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Host(Network),
    Subnet(Network),
    LoginFrom(Login, Network),
    Login(Login),
    Code(Login),
    /// Not a counter: an address that is known for a login.
    Known(Login, Network),
}

impl Key {
    /// Time after which it expires, from the last (for windows, the first) failure.
    pub(super) fn lasts(self, limits: &AttemptLimits) -> Duration {
        match self {
            Key::Host(_) | Key::Subnet(_) | Key::LoginFrom(..) => limits.window,
            Key::Login(_) => ACCOUNT_FORGET.max(limits.account_pause_max.saturating_mul(2)),
            Key::Code(_) => CODE_FORGET.max(limits.code_pause_max.saturating_mul(2)),
            Key::Known(..) => limits.known_for,
        }
    }

    /// Encodes it: a letter for the kind, then the login, then the network.
    pub(super) fn bytes(self) -> Vec<u8> {
        let (kind, login, network) = match self {
            Key::Host(network) => (b'n', None, Some(network)),
            Key::Subnet(network) => (b'w', None, Some(network)),
            Key::LoginFrom(login, network) => (b'f', Some(login), Some(network)),
            Key::Login(login) => (b'l', Some(login), None),
            Key::Code(login) => (b'c', Some(login), None),
            Key::Known(login, network) => (b'k', Some(login), Some(network)),
        };
        let mut bytes = vec![kind];
        bytes.extend(login.into_iter().flatten());
        if let Some(network) = network {
            bytes.extend(network.bits.to_be_bytes());
            bytes.push(network.prefix);
        }
        bytes
    }

    /// Decodes [`Key::bytes`]; none if another version wrote them.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let login = |bytes: &[u8]| Login::try_from(bytes).ok();
        let network = |bytes: &[u8]| {
            let (prefix, bits) = bytes.split_last()?;
            let bits = u128::from_be_bytes(bits.try_into().ok()?);
            Some(Network { bits, prefix: *prefix })
        };
        let both = || {
            let (first, second) = rest.split_at_checked(size_of::<Login>())?;
            Some((login(first)?, network(second)?))
        };
        Some(match kind {
            b'n' => Key::Host(network(rest)?),
            b'w' => Key::Subnet(network(rest)?),
            b'f' => both().map(|(login, network)| Key::LoginFrom(login, network))?,
            b'l' => Key::Login(login(rest)?),
            b'c' => Key::Code(login(rest)?),
            b'k' => both().map(|(login, network)| Key::Known(login, network))?,
            _ => return None,
        })
    }
}

/// The first 16 bytes of the BLAKE3 hash; case and surrounding space do not count.
pub(super) fn hash_login(login: &str) -> Login {
    let mut out = [0; 16];
    let hash = blake3::hash(login.trim().to_ascii_lowercase().as_bytes());
    out.copy_from_slice(hash.as_bytes().get(..16).unwrap_or(&[0; 16]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written() {
        let (login, network) = ([7; 16], Network { bits: 5 << 100, prefix: 192 });
        for key in [
            Key::Host(network),
            Key::Subnet(network),
            Key::LoginFrom(login, network),
            Key::Login(login),
            Key::Code(login),
            Key::Known(login, network),
        ] {
            assert_eq!(Key::of(&key.bytes()), Some(key));
            let bytes = key.bytes();
            assert_eq!(Key::of(&bytes[..bytes.len() - 1]), None, "{key:?}");
        }
        assert_eq!(Key::of(b""), None);
    }
}
