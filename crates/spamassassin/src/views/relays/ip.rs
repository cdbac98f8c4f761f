//! IP addresses in text, as SpamAssassin finds and classifies them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::views::perl::{is_word, starts_no_case};

fn byte(text: &[u8], i: usize) -> Option<u8> {
    text.get(i).copied()
}

fn is_word_at(text: &[u8], i: usize) -> bool {
    byte(text, i).is_some_and(is_word)
}

/// The end of four decimal numbers below 256, without leading zeros, at `i`.
fn dotted_quad(text: &[u8], mut i: usize) -> Option<usize> {
    for part in 0..4 {
        if part > 0 {
            (byte(text, i) == Some(b'.')).then_some(())?;
            i += 1;
        }
        let digits = text.get(i..)?.iter().take(3).take_while(|b| b.is_ascii_digit()).count();
        i += (1..=digits).rev().find(|&n| {
            let value = text[i..i + n].iter().fold(0u32, |v, b| v * 10 + u32::from(b - b'0'));
            value < 256 && (n == 1 || text[i] != b'0')
        })?;
    }
    Some(i)
}

fn is_group_byte(b: u8) -> bool {
    b.is_ascii_hexdigit() || b == b':'
}

/// The end of an IP address that begins at `i`; an IPv6 one may have the prefix `IPv6:`.
pub(crate) fn address_at(text: &[u8], i: usize) -> Option<usize> {
    let before = i.checked_sub(1).and_then(|p| byte(text, p));
    if byte(text, i)?.is_ascii_digit() && !before.is_some_and(is_word) && before != Some(b':') {
        let end = dotted_quad(text, i).filter(|&end| !is_word_at(text, end));
        if end.is_some() {
            return end;
        }
    }
    if starts_no_case(&text[i..], b"ipv6:")
        && let Some(end) = groups(text, i + 5)
    {
        return Some(end);
    }
    if before.is_some_and(is_group_byte) { None } else { groups(text, i) }
}

/// The end of an IPv6 address at `i`.
fn groups(text: &[u8], i: usize) -> Option<usize> {
    let rest = text.get(i..)?;
    let run = rest.iter().take(64).take_while(|&&b| is_group_byte(b)).count();
    if run < 2 {
        return None;
    }
    let last = memchr::memrchr(b':', &rest[..run])? + 1;
    // A dotted quad may replace the last two groups.
    if byte(text, i + run) == Some(b'.')
        && let Some(end) = dotted_quad(text, i + last)
        && !byte(text, end).is_some_and(is_group_byte)
        && parse_v6(&text[i..end]).is_some()
    {
        return Some(end);
    }
    parse_v6(&rest[..run]).map(|_| i + run)
}

fn parse_v6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An address, perhaps with the prefix `IPv6:`; `None` if the text is no address.
pub(crate) fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = if starts_no_case(text, b"ipv6:") { &text[5..] } else { text };
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn may_begin(b: u8) -> bool {
    b.is_ascii_hexdigit() || matches!(b, b':' | b'i' | b'I')
}

/// The first address in a text without an adjacent dot or word character.
pub(crate) fn first_address(text: &[u8]) -> Option<&[u8]> {
    let before = |i: usize| i.checked_sub(1).and_then(|p| byte(text, p));
    let edge = |i: usize| before(i).is_some_and(is_word) != is_word_at(text, i);
    let starts =
        (0..text.len()).filter(|&i| may_begin(text[i]) && before(i) != Some(b'.') && edge(i));
    starts.into_iter().find_map(|i| {
        let end = address_at(text, i)?;
        (edge(end) && byte(text, end) != Some(b'.')).then(|| &text[i..end])
    })
}

/// The first address in a text, whatever is adjacent.
pub(crate) fn any_address(text: &[u8]) -> Option<&[u8]> {
    let starts = (0..text.len()).filter(|&i| may_begin(text[i]));
    starts.into_iter().find_map(|i| address_at(text, i).map(|end| &text[i..end]))
}

/// Every address in the text, in order.
pub(crate) fn addresses_in(text: &[u8]) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match may_begin(byte).then(|| address_at(text, at)).flatten() {
            Some(end) => {
                found.extend(text.get(at..end).and_then(parse));
                at = end.max(at + 1);
            }
            None => at += 1,
        }
    }
    found
}

/// Private, local, link-local or carrier-grade NAT: not on the public internet. IPv4 addresses
/// mapped into IPv6 count as what they are; unique local IPv6 addresses do not count.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.segments()[0] & 0xffc0 == 0xfe80
                || v6.to_ipv4_mapped().is_some_and(is_private_v4)
        }
    }
}

fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    v4.is_private() || a == 127 || (a, b) == (169, 254) || a == 100 && (64..128).contains(&b)
}

/// The ends of a name or address of this host at `i`: `localhost`, `127.0.0.1`, `::1`.
pub(crate) fn localhost_at(text: &[u8], i: usize) -> Vec<usize> {
    let (name, domain) = (b"localhost", b".localdomain");
    let rest = text.get(i..).unwrap_or_default();
    if starts_no_case(rest, name) {
        let end = i + name.len();
        let long = starts_no_case(&text[end..], domain).then(|| end + domain.len());
        return long.into_iter().chain([end]).collect();
    }
    let Some(end) = address_at(text, i) else { return Vec::new() };
    let local = match parse(&text[i..end]) {
        Some(IpAddr::V4(v4)) => v4 == Ipv4Addr::LOCALHOST,
        Some(IpAddr::V6(v6)) => {
            v6.is_loopback() || v6.to_ipv4_mapped() == Some(Ipv4Addr::LOCALHOST)
        }
        None => false,
    };
    if local { vec![end] } else { Vec::new() }
}

/// The address reversed as a label of DNS lists: bytes or, for IPv6, nibbles, the last first.
pub(crate) fn reversed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(v6) => {
            let digits = v6.octets().into_iter().rev();
            let nibbles: Vec<_> = digits.map(|b| format!("{:x}.{:x}", b & 15, b >> 4)).collect();
            nibbles.join(".")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, i: usize) -> Option<&str> {
        address_at(text.as_bytes(), i).map(|end| &text[i..end])
    }

    #[test]
    fn addresses_in_text() {
        assert_eq!(at("[1.2.3.4]", 1), Some("1.2.3.4"));
        assert_eq!(at("1.2.3.256", 0), None);
        assert_eq!(at("1.2.3.4.5", 0), Some("1.2.3.4"));
        assert_eq!(at("01.2.3.4", 0), None);
        assert_eq!(at("x1.2.3.4", 1), None);
        assert_eq!(at("IPv6:fe80::1]", 0), Some("IPv6:fe80::1"));
        assert_eq!(at("::ffff:10.1.2.3 ", 0), Some("::ffff:10.1.2.3"));
        assert_eq!(at("[2001:db8::1%eth0]", 1), Some("2001:db8::1"));
        assert_eq!(at("12:30:45", 0), None);
        assert_eq!(first_address(b"by 10.0.0.1. or 10.0.0.2"), Some(&b"10.0.0.2"[..]));
        assert_eq!(reversed("2001:db8::1".parse().unwrap()).len(), 63);
    }

    #[test]
    fn private_networks() {
        for (text, private) in [
            ("10.1.1.1", true),
            ("172.32.0.1", false),
            ("100.64.0.1", true),
            ("::ffff:192.168.1.1", true),
            ("fe90::1", true),
            ("fd00::1", false),
        ] {
            assert_eq!(is_private(text.parse().unwrap()), private, "{text}");
        }
        assert_eq!(localhost_at(b"localhost.localdomain)", 0), [21, 9]);
        assert_eq!(localhost_at(b"[::ffff:127.0.0.1]", 1), [17]);
    }
}
