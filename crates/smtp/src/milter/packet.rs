//! Packets: a length, a command byte and data, and the encodings of that data.

use std::net::IpAddr;

use super::message::Peer;

pub(super) fn packet(command: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length = 1 + parts.iter().map(|p| p.len()).sum::<usize>();
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out.push(command);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Splits NUL-terminated strings; the last NUL may be missing.
pub(super) fn strings(data: &[u8]) -> Vec<&[u8]> {
    let data = data.strip_suffix(b"\0").unwrap_or(data);
    if data.is_empty() { Vec::new() } else { data.split(|b| *b == 0).collect() }
}

pub(super) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    crate::text::one_line(&text, ' ').into_owned()
}

/// The address of MAIL or RCPT without angle brackets.
pub(super) fn path(argument: &[u8]) -> String {
    let text = text(argument);
    let text = text.trim();
    let inner = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    inner.to_owned()
}

pub(super) fn number(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Parses the data of a connection: name, family, port, address.
pub(super) fn connection(data: &[u8]) -> Option<Peer> {
    let end = memchr::memchr(0, data)?;
    let (name, rest) = (data.get(..end)?, data.get(end + 1..)?);
    let (family, rest) = rest.split_first()?;
    let address = rest.get(2..).map(|a| text(strings(a).first().copied().unwrap_or_default()));
    let address = match family {
        b'4' | b'6' => {
            let address = address?;
            let bare = address
                .get(5..)
                .filter(|_| address.get(..5).is_some_and(|p| p.eq_ignore_ascii_case("ipv6:")));
            Some(bare.unwrap_or(&address).parse::<IpAddr>().ok()?.to_canonical())
        }
        b'L' | b'U' => None,
        _ => return None,
    };
    Some(Peer { name: text(name), address, helo: String::new() })
}
