//! The host of a URL in one form: names by IDNA (UTS 46), addresses in their usual notation.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::UrlTraits;

/// Longest host name, as text (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// Appends the canonical form of `host`; none if it cannot be a host.
pub(super) fn push(host: &str, out: &mut String, traits: &mut UrlTraits) -> Option<()> {
    let host = decoded(host, traits);
    if let Some(inside) = host.strip_prefix('[')
        && let Some(address) = inside.strip_suffix(']')
    {
        let address: Ipv6Addr = address.parse().ok()?;
        traits.set(UrlTraits::IP);
        match address.to_ipv4_mapped() {
            // A connection to it is one to the IPv4 address (RFC 4291 section 2.5.5.2).
            Some(v4) => {
                traits.set(UrlTraits::IP_DISGUISED);
                write!(out, "{v4}").ok()?;
            }
            None => write!(out, "[{address}]").ok()?,
        }
        return Some(());
    }
    // One dot at the end is the root's; further ones name nothing.
    let host = host.trim_end_matches('.');
    if host.is_empty() || host.len() > 4 * HOST_BYTES_MAX {
        return None;
    }
    let start = out.len();
    if host.is_ascii() {
        out.push_str(host);
        out[start..].make_ascii_lowercase();
    } else {
        let ascii = idna::domain_to_ascii_cow(host.as_bytes(), idna::AsciiDenyList::EMPTY).ok()?;
        out.push_str(ascii.trim_end_matches('.'));
    }
    let name = &out[start..];
    if name.len() > HOST_BYTES_MAX || !name.bytes().all(is_host_byte) || name.starts_with('.') {
        return None;
    }
    if name.split('.').any(|label| label.starts_with("xn--")) {
        traits.set(UrlTraits::IDN);
    }
    match address(name) {
        Address::None => {}
        Address::Broken => return None,
        Address::V4(address, disguised) => {
            traits.set(UrlTraits::IP);
            if disguised {
                traits.set(UrlTraits::IP_DISGUISED);
            }
            out.truncate(start);
            write!(out, "{address}").ok()?;
        }
    }
    Some(())
}

/// Escapes and defanged dots undone.
fn decoded<'a>(host: &'a str, traits: &mut UrlTraits) -> Cow<'a, str> {
    let mut host = Cow::Borrowed(host);
    if host.contains('%') {
        traits.set(UrlTraits::ESCAPED_HOST);
        let bytes = crate::encoding::percent_decode(host.as_bytes());
        host = Cow::Owned(String::from_utf8_lossy(&bytes).into_owned());
    }
    for dot in ["[.]", "(.)", "[dot]", "(dot)"] {
        if host.contains(dot) {
            traits.set(UrlTraits::DEFANGED);
            host = Cow::Owned(host.replace(dot, "."));
        }
    }
    host
}

/// Letters, digits, hyphen, dot; the underscore occurs in real names of hosts.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// What stands behind the last label with signs that no host name has but browsers take
/// (`a!b.example.com`, `a%24b.example.com`; the URL Standard, section 3.1, forbids only `# / : < >
/// ? @ [ \ ] ^ | %`, spaces and control characters): DNS answers for any label, so the domain
/// behind the invalid ones is whose host it is. None if no label is invalid.
pub(super) fn after_invalid_label(host: &str) -> Option<String> {
    let mut host = Cow::Borrowed(host);
    if host.contains('%') {
        let bytes = crate::encoding::percent_decode(host.as_bytes());
        host = Cow::Owned(String::from_utf8_lossy(&bytes).into_owned());
    }
    let is_invalid = |c: char| c.is_ascii() && !is_host_byte(c as u8) && !":[]".contains(c);
    let invalid = host.rfind(is_invalid)?;
    let behind = host[invalid..].find(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}'])? + invalid;
    let mut rest = host[behind..].chars();
    rest.next();
    Some(rest.as_str().to_owned()).filter(|rest| !rest.is_empty())
}

enum Address {
    None,
    Broken,
    /// The address, and whether it was written otherwise than as four decimal numbers.
    V4(Ipv4Addr, bool),
}

/// Reads a host that ends in a number as browsers do (URL Standard, section 3.5): one to four
/// numbers, each decimal, octal or hexadecimal, the last filling what is left.
fn address(name: &str) -> Address {
    let is_number = |label: &str| {
        let digits = label.strip_prefix("0x");
        digits.map_or(!label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()), |hex| {
            hex.bytes().all(|b| b.is_ascii_hexdigit())
        })
    };
    if !name.rsplit('.').next().is_some_and(is_number) {
        return Address::None;
    }
    let (mut numbers, mut count, mut disguised) = ([0u64; 4], 0, false);
    for label in name.split('.') {
        let (digits, radix) = match label {
            l if l.starts_with("0x") => (&l[2..], 16),
            l if l.len() > 1 && l.starts_with('0') => (&l[1..], 8),
            l => (l, 10),
        };
        disguised |= radix != 10;
        let value = if digits.is_empty() && radix == 16 {
            Ok(0)
        } else {
            u64::from_str_radix(digits, radix)
        };
        let (Ok(value), Some(slot)) = (value, numbers.get_mut(count)) else {
            return Address::Broken;
        };
        *slot = value;
        count += 1;
    }
    disguised |= count != 4;
    let (last, first) = match numbers[..count].split_last() {
        Some((last, first)) if first.iter().all(|n| *n < 256) => (*last, first),
        _ => return Address::Broken,
    };
    if last >= 1u64 << (8 * (5 - count)) {
        return Address::Broken;
    }
    let high = first.iter().enumerate().fold(0u64, |sum, (i, n)| sum | n << (24 - 8 * i));
    Address::V4(Ipv4Addr::from((high | last) as u32), disguised)
}
