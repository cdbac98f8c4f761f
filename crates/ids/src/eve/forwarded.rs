//! The address of a client behind proxies (`X-Forwarded-For`).

use std::net::IpAddr;

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Conversation};

use super::settings::Forwarded;

/// The shortest and the longest list of addresses that is looked at, in bytes.
const LIST_BYTES: std::ops::Range<usize> = 7..256;

/// The address that a request names, as it is written there.
pub(super) fn address(
    settings: &Forwarded,
    conversation: &Conversation,
    place: usize,
) -> Option<String> {
    let mut fields = headers(conversation, place, Direction::ToServer).into_iter();
    let wanted = settings.header.as_bytes();
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
    if !LIST_BYTES.contains(&value.len()) {
        return None;
    }
    let text = std::str::from_utf8(&value).ok()?;
    let one =
        if settings.takes_first { text.split(',').next()? } else { text.rsplit(' ').next()? };
    let one = match one.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?.0,
        None => match one.split_once(':') {
            // A port behind an IPv4 address.
            Some((before, after)) if !after.contains(':') && before.contains('.') => before,
            _ => one,
        },
    };
    one.parse::<IpAddr>().ok().map(|_| one.to_owned())
}

/// Names and values of the header fields of a message of HTTP/1.
pub(super) fn headers(
    conversation: &Conversation,
    place: usize,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keyword = match direction {
        Direction::ToServer => "http.request_header",
        Direction::ToClient => "http.response_header",
    };
    let Some(buffer) = Buffer::of_keyword(keyword) else { return Vec::new() };
    let lines = (0..).map_while(|i| conversation.buffer(place, buffer, direction, i));
    let pair = |line: gauntlet_protocols::Bytes<'_>| {
        let end = line.data.windows(2).position(|pair| pair == b": ")?;
        let (name, rest) = line.data.split_at(end);
        Some((name.to_vec(), rest.get(2..)?.to_vec()))
    };
    lines.filter_map(pair).collect()
}
