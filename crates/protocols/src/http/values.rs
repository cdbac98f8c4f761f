//! Values of header fields and lines.

use std::net::Ipv6Addr;

use super::text::{is_blank, is_chunk_control_line, is_space, span, starts_with_word};

/// A number of a field, and whether there was something else before or behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digits {
    pub number: Option<u64>,
    pub before: bool,
    pub behind: bool,
}

/// The first decimal digits, with blanks around them. `None`: there are none.
fn digits(bytes: &[u8]) -> Option<Digits> {
    let (_, rest) = span(bytes, is_blank);
    let (before, rest) = span(rest, |byte| !byte.is_ascii_digit());
    let (digits, rest) = span(rest, |byte| byte.is_ascii_digit());
    if digits.is_empty() {
        return None;
    }
    let (_, behind) = span(rest, is_blank);
    let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    Some(Digits { number, before: !before.is_empty(), behind: !behind.is_empty() })
}

/// `Content-Length`: what stands around the number does not matter.
pub(super) fn content_length(bytes: &[u8]) -> Option<Digits> {
    digits(bytes)
}

/// The status of a response, 100 to 999 and nothing else.
pub(super) fn status(bytes: &[u8]) -> Option<u16> {
    let digits = digits(bytes)?;
    if digits.before || digits.behind {
        return None;
    }
    let number = u16::try_from(digits.number?).ok()?;
    (100..=999).contains(&number).then_some(number)
}

/// What the line before a chunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkLine {
    /// So many bytes follow; an extension was named.
    Length { len: u64, extension: bool },
    /// Nothing, or more than is plausible.
    Nothing,
    /// No number.
    Invalid,
}

/// The longest chunk that is believed.
const CHUNK_MAX: u64 = 0x7fff_ffff;

/// The length of a chunk (RFC 9112 section 7.1).
pub(super) fn chunk_length(line: &[u8]) -> ChunkLine {
    let (_, rest) = span(line, is_space);
    let (_, rest) = span(rest, is_blank);
    let (digits, rest) = span(rest, |byte| byte.is_ascii_hexdigit());
    let (_, rest) = span(rest, is_blank);
    if digits.is_empty() && (rest.is_empty() || is_chunk_control_line(line)) {
        return ChunkLine::Nothing;
    }
    let number = std::str::from_utf8(digits).ok().map(|text| u64::from_str_radix(text, 16));
    match number {
        Some(Ok(len)) if len <= CHUNK_MAX => {
            ChunkLine::Length { len, extension: rest.contains(&b';') }
        }
        Some(Ok(_)) => ChunkLine::Nothing,
        _ => ChunkLine::Invalid,
    }
}

/// Versions, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Version {
    /// Nothing was read yet.
    #[default]
    Unknown,
    /// It cannot be read.
    Invalid,
    V09,
    V10,
    V11,
}

/// The protocol of a request or status line, and whether it had white space or zeros too many.
pub(super) fn version(bytes: &[u8]) -> (Version, bool) {
    let white = |byte: u8| byte.is_ascii_whitespace();
    let (_, rest) = span(bytes, white);
    if !starts_with_word(rest, b"http") {
        return (Version::Invalid, false);
    }
    let (before, rest) = span(rest.get(4..).unwrap_or_default(), white);
    let Some(rest) = rest.strip_prefix(b"/") else { return (Version::Invalid, false) };
    let (behind, rest) = span(rest, |byte| white(byte) || byte == b'0');
    let extra = !before.is_empty() || !behind.is_empty();
    let of = [(b".9".as_slice(), Version::V09), (b"1.0", Version::V10), (b"1.1", Version::V11)];
    for (text, version) in of {
        if let Some(rest) = rest.strip_prefix(text) {
            let over = span(rest, white).1.is_empty();
            return if over { (version, extra) } else { (Version::Invalid, false) };
        }
    }
    (Version::Invalid, false)
}

/// Methods that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Method {
    /// None of those that are known.
    #[default]
    Unknown,
    Get,
    Head,
    Post,
    Put,
    Connect,
    /// Known, but nothing depends on which.
    Other,
}

const OTHER_METHODS: &[&[u8]] = &[
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"VERSION-CONTROL",
    b"CHECKOUT",
    b"UNCHECKOUT",
    b"CHECKIN",
    b"UPDATE",
    b"LABEL",
    b"REPORT",
    b"MKWORKSPACE",
    b"MKACTIVITY",
    b"BASELINE-CONTROL",
    b"MERGE",
    b"INVALID",
];

impl Method {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match bytes {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"CONNECT" => Self::Connect,
            other if OTHER_METHODS.contains(&other) => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// A host with its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostPort<'a> {
    pub host: &'a [u8],
    /// There was a port: its text.
    pub port: Option<&'a [u8]>,
    /// There was a port: its number, if it is one.
    pub number: Option<u16>,
    pub valid: bool,
}

/// Splits off a host: what follows `//`, up to the port, the path, the query or the fragment.
pub(super) fn split_host(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(b"//").unwrap_or(bytes);
    if rest.starts_with(b"/") {
        return None;
    }
    let (_, rest) = span(rest, |byte| byte == b' ');
    let len = match rest.strip_prefix(b"[") {
        Some(address) => {
            let (inner, after) = span(address, |byte| !b"/?#]".contains(&byte));
            let closed = usize::from(after.starts_with(b"]"));
            if inner.is_empty() { None } else { Some(1 + inner.len() + closed) }
        }
        None => None,
    };
    let len = len.unwrap_or_else(|| span(rest, |byte| !b"/?#:".contains(&byte)).0.len());
    if len == 0 {
        return None;
    }
    let (host, rest) = rest.split_at_checked(len)?;
    let end = host.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    Some((host.get(..end).unwrap_or_default(), rest))
}

/// Splits off a port behind `:`.
pub(super) fn split_port(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(b":")?;
    let (_, rest) = span(rest, |byte| byte == b' ');
    let (port, rest) = span(rest, |byte| !b"/?#".contains(&byte));
    let (port, _) = span(port, |byte| byte != b' ');
    (!port.is_empty()).then_some((port, rest))
}

/// A port's number; 0 is none.
pub(super) fn port_number(bytes: &[u8]) -> Option<u16> {
    let number = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (number != 0).then_some(number)
}

/// The value of `Host`.
pub(super) fn host_port(bytes: &[u8]) -> Option<HostPort<'_>> {
    let (host, rest) = split_host(bytes)?;
    let valid = is_host(host);
    Some(match split_port(rest) {
        Some((port, _)) => {
            let number = port_number(port);
            HostPort { host, port: Some(port), number, valid: valid && number.is_some() }
        }
        None => HostPort { host, port: None, number: None, valid: valid && rest.is_empty() },
    })
}

/// Whether a name can be one of a host: not as strict as RFC 1123.
pub(super) fn is_host(host: &[u8]) -> bool {
    if host.is_empty() || host.len() > 255 {
        return false;
    }
    if let Some(inner) = host.strip_prefix(b"[") {
        let (address, rest) = span(inner, |byte| !b"#?/]".contains(&byte));
        if !address.is_empty()
            && rest.starts_with(b"]")
            && let Ok(text) = std::str::from_utf8(address)
        {
            return text.parse::<Ipv6Addr>().is_ok();
        }
    }
    if host.starts_with(b".") || host.windows(2).any(|pair| pair == b"..") {
        return false;
    }
    let label = |byte: &u8| matches!(byte, b'_' | b'-') || char::from(*byte).is_alphanumeric();
    host.split(|byte| *byte == b'.').all(|part| part.len() <= 63 && part.iter().all(label))
}

/// What became of `Authorization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Authorization {
    #[default]
    None,
    Known,
    Unrecognized,
}

/// Which scheme a value of `Authorization` has.
pub(super) fn authorization(bytes: &[u8]) -> Authorization {
    let known = [b"basic".as_slice(), b"digest", b"bearer"];
    if known.iter().any(|word| starts_with_word(bytes, word)) {
        Authorization::Known
    } else {
        Authorization::Unrecognized
    }
}

/// `Content-Range` (RFC 9110 section 14.4): first byte, last byte and size, -1 where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub start: i64,
    pub end: i64,
    pub size: i64,
}

/// Reads it. `None`: it cannot be read.
pub(crate) fn content_range(bytes: &[u8]) -> Option<ContentRange> {
    let space = |byte: u8| byte == b' ';
    let (_, rest) = span(bytes, space);
    let (_, rest) = span(rest, |byte| !space(byte));
    let (_, rest) = span(rest, space);
    if let Some(rest) = rest.strip_prefix(b"*/") {
        return Some(ContentRange { start: -1, end: -1, size: decimal(rest)?.0 });
    }
    let (start, rest) = decimal(rest)?;
    let (end, rest) = decimal(rest.strip_prefix(b"-")?)?;
    let rest = rest.strip_prefix(b"/")?;
    let size = if rest.starts_with(b"*") { -1 } else { decimal(rest)?.0 };
    Some(ContentRange { start, end, size })
}

fn decimal(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (digits, rest) = span(bytes, |byte| byte.is_ascii_digit());
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}
