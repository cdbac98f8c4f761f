//! Host names and addresses in the form of DNS questions.

use std::net::IpAddr;

/// Longest name that is looked up (RFC 1035 section 3.1).
const NAME_BYTES_MAX: usize = 253;

pub(super) fn host_of(address: &[u8]) -> Option<Vec<u8>> {
    memchr::memrchr(b'@', address).map(|at| address[at + 1..].to_vec())
}

/// A name that can be looked up, in lower case.
pub(super) fn host_name(host: &[u8]) -> Option<String> {
    let host = std::str::from_utf8(host).ok()?.trim_end_matches('.');
    let host = match host.is_ascii() {
        true => host.to_ascii_lowercase(),
        false => gauntlet_mail::address::ascii_domain(host)?,
    };
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let is_name = host.contains('.')
        && host.len() <= NAME_BYTES_MAX
        && host.bytes().all(fine)
        && host.split('.').all(|label| (1..=63).contains(&label.len()));
    is_name.then_some(host)
}

pub(super) fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for one in all {
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// The address as a label of DNS lists: its bytes, or hexadecimal digits, reversed.
pub(super) fn reversed(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(v6) => {
            let digits = format!("{:032x}", v6.to_bits());
            let backwards: Vec<String> = digits.chars().rev().map(String::from).collect();
            backwards.join(".")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        assert_eq!(host_name(b"A.Example."), Some("a.example".into()));
        for bad in [&b"example"[..], b"a..b", b"a b.example", b"", b"\xff.example"] {
            assert_eq!(host_name(bad), None);
        }
        assert_eq!(reversed("192.0.2.1".parse().unwrap()), "1.2.0.192");
        let six = reversed("2001:db8::1".parse().unwrap());
        assert!(six.starts_with("1.0.0.0.") && six.ends_with("8.b.d.0.1.0.0.2"), "{six}");
    }
}
