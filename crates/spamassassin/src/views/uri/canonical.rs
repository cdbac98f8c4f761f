//! The forms of a URI that rules see: as written, and as browsers interpret it: decoded, without
//! user and default port, with numeric hosts as addresses, and the targets of redirectors.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::boundaries::{Boundaries, is_host_name};
use crate::views::perl::{is_space, starts_no_case, trim};
use crate::views::relays::ip;
use crate::views::uri::Redirectors;

/// Most redirections followed inside one URI.
const REDIRECTS_MAX: usize = 32;

/// Whether there is a `%XX`.
pub(super) fn has_escape(uri: &[u8]) -> bool {
    memchr::memchr_iter(b'%', uri).any(|i| escape_at(uri, i).is_some())
}

fn escape_at(uri: &[u8], i: usize) -> Option<u8> {
    let hex = |at: usize| uri.get(at).and_then(|b| char::from(*b).to_digit(16));
    Some((hex(i + 1)? << 4 | hex(i + 2)?) as u8)
}

/// Escapes of printable characters decoded, other bytes that a URI cannot have escaped.
pub(super) fn unescape(uri: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(uri.len());
    let mut i = 0;
    while i < uri.len() {
        let b = uri[i];
        if b == b'%'
            && let Some(value) = escape_at(uri, i)
        {
            if matches!(value, 0x21..=0x7e) {
                out.push(value);
            } else {
                out.extend_from_slice(&uri[i..i + 3]);
            }
            i += 3;
            continue;
        }
        if matches!(b, 0..=0x20 | 0x7f.. | b'"' | b'%' | b'<' | b'>') {
            out.extend_from_slice(format!("%{b:02x}").as_bytes());
        } else {
            out.push(b);
        }
        i += 1;
    }
    out
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(concat!("(?-u)", $text)).expect("a constant pattern"));
        &*PATTERN
    }};
}

/// All forms of a URI, each once, in the order in which they were made.
pub(super) fn forms(
    uri: &[u8],
    boundaries: &Boundaries,
    redirectors: &Redirectors,
) -> Vec<Vec<u8>> {
    let mut given: Vec<Vec<u8>> = vec![uri.to_vec()];
    let mut made: Vec<Vec<u8>> = Vec::new();
    let mut next = 0;
    while next < given.len() && next < REDIRECTS_MAX {
        let mut clean = std::mem::take(&mut given[next]);
        without_line_ends(&mut clean);
        others(&clean, boundaries, redirectors, &mut given, &mut made);
        given[next] = clean;
        next += 1;
    }
    if given.len() == 1 && made.is_empty() {
        return given;
    }
    let mut out: Vec<Vec<u8>> = Vec::with_capacity(given.len() + made.len());
    for form in given.into_iter().chain(made) {
        if !out.contains(&form) {
            out.push(form);
        }
    }
    out
}

/// The other forms of a URI without line ends; `given` receives those that are processed as this
/// one is.
fn others(
    clean: &[u8],
    boundaries: &Boundaries,
    redirectors: &Redirectors,
    given: &mut Vec<Vec<u8>>,
    made: &mut Vec<Vec<u8>>,
) {
    let is_relative = matches!(clean.first(), Some(b'#' | b'?' | b'&'))
        || (clean.first() == Some(&b'/') && clean.get(1) != Some(&b'/'));
    if clean.len() <= 1 || is_relative {
        return;
    }
    let is_address = memchr::memchr2(b':', b'@', clean).is_some_and(|at| clean[at] == b'@');
    if starts_no_case(clean, b"mailto:") || is_address {
        addresses(clean, made);
        return;
    }
    if is_plain_form(clean) {
        hosts(clean, boundaries, redirectors, given, made);
        return;
    }
    let plain = plain_form(clean);
    if plain != clean {
        made.push(plain.clone());
    }
    hosts(&plain, boundaries, redirectors, given, made);
}

/// Removes line feeds, then white space at both ends, then carriage returns.
fn without_line_ends(uri: &mut Vec<u8>) {
    let is_edge = |b: Option<&u8>| b.is_some_and(|&b| is_space(b));
    if memchr::memchr2(b'\n', b'\r', uri).is_none() && !is_edge(uri.first()) && !is_edge(uri.last())
    {
        return;
    }
    uri.retain(|&b| b != b'\n');
    *uri = trim(uri).to_vec();
    uri.retain(|&b| b != b'\r');
}

/// Addresses without parameters and obfuscation.
fn addresses(uri: &[u8], made: &mut Vec<Vec<u8>>) {
    let group = |re: &Regex| re.captures(uri).and_then(|c| c.get(1)).map(|m| m.as_bytes().to_vec());
    let has = |b: u8| memchr::memchr(b, uri).is_some();
    if has(b'?') {
        made.extend(group(pattern!(r"(?s)\A([^@]+@[^?]+)\?")));
    }
    if has(b'&') {
        made.extend(group(pattern!(r"(?s)\A([^@]+@[^?&]+)&")));
    }
    let mail = |address: Vec<u8>| [b"mailto:".as_slice(), &address].concat();
    if has(b'%') && memchr::memmem::find(uri, b"%20").is_some() {
        made.extend(group(pattern!(r"(?s)\A(?:mailto:)?(?:%20)*([^@]+@[^?&%]+)")).map(mail));
    }
    if has(b'<') {
        made.extend(group(pattern!(r"(?s)\A[^?&]*<([^@>]+@[^>]+)>")).map(mail));
    }
}

/// Whether [`plain_form`] leaves a URI unchanged, the usual case.
fn is_plain_form(uri: &[u8]) -> bool {
    let Some(start) = web_scheme(uri) else { return false };
    let host = start + run_until(&uri[start..], &ENDS_AUTHORITY);
    let lacks_slash = host > start && matches!(uri.get(host), Some(b'?' | b'#'));
    !lacks_slash
        && memchr::memchr2(b'\\', b'%', uri).is_none()
        && !memchr::memchr_iter(b'&', uri).any(|i| uri.get(i + 1) == Some(&b'#'))
}

/// The URI with a scheme and plain slashes, escapes and entities decoded.
fn plain_form(uri: &[u8]) -> Vec<u8> {
    let mut uri: Vec<u8> = uri.iter().map(|&b| if b == b'\\' { b'/' } else { b }).collect();
    for scheme in [&b"https:"[..], b"http:"] {
        if starts_no_case(&uri, scheme) {
            let slashes = uri[scheme.len()..].iter().take(2).take_while(|&&b| b == b'/').count();
            uri.splice(scheme.len()..scheme.len() + slashes, *b"//");
            break;
        }
    }
    if has_escape(&uri) {
        uri = unescape(&uri);
    }
    let is_scheme = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let letters = uri.iter().take_while(is_scheme).count();
    if letters == 0 || uri.get(letters) != Some(&b':') {
        let scheme: &[u8] = if uri.starts_with(b"ftp.") { b"ftp://" } else { b"http://" };
        uri.splice(..0, scheme.iter().copied());
    }
    if let Some(start) = web_scheme(&uri) {
        let end = start + run_until(&uri[start..], &ENDS_AUTHORITY);
        if end > start && matches!(uri.get(end), Some(b'?' | b'#')) {
            uri.insert(end, b'/');
        }
    }
    if memchr::memmem::find(&uri, b"&#").is_some() {
        uri = without_entities(&uri);
    }
    uri
}

/// The length of `http://` or `https://`, in any case, at the start.
fn web_scheme(uri: &[u8]) -> Option<usize> {
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    schemes.iter().find(|scheme| starts_no_case(uri, scheme)).map(|scheme| scheme.len())
}

/// Which bytes end a piece of a URI.
type Stops = [bool; 256];

const fn stops(bytes: &[u8]) -> Stops {
    let (mut stops, mut i) = ([false; 256], 0);
    while i < bytes.len() {
        stops[bytes[i] as usize] = true;
        i += 1;
    }
    stops
}

static ENDS_AUTHORITY: Stops = stops(b"/?#");
static ENDS_USER: Stops = stops(b"@/?#");
static ENDS_HOST: Stops = stops(b"/?#:");

/// Bytes before the first that ends them.
fn run_until(text: &[u8], stops: &Stops) -> usize {
    text.iter().position(|b| stops[usize::from(*b)]).unwrap_or(text.len())
}

/// A web URI in pieces.
#[derive(Debug, PartialEq)]
struct Shape<'u> {
    scheme: &'u [u8],
    has_user: bool,
    host: &'u [u8],
    /// From the port on.
    rest: &'u [u8],
    /// Digits of the port; empty if there are none.
    port: &'u [u8],
}

/// Parts of a web URI, as `(?i)\A(https?://)([^@/?#]*@)?([^/?#:]+)((?::(\d*))?.*)\z` captures them.
fn shape(uri: &[u8]) -> Option<Shape<'_>> {
    let (scheme, after) = uri.split_at(web_scheme(uri)?);
    let user = run_until(after, &ENDS_USER);
    let user = if after.get(user) == Some(&b'@') { user + 1 } else { 0 };
    // Without a host after it, the apparent user is the host.
    let user = if run_until(&after[user..], &ENDS_HOST) == 0 { 0 } else { user };
    let after = &after[user..];
    let (host, rest) = after.split_at(run_until(after, &ENDS_HOST));
    if host.is_empty() || memchr::memchr(b'\n', rest).is_some() {
        return None;
    }
    let port = rest.strip_prefix(b":").unwrap_or_default();
    let port = &port[..port.iter().take_while(|b| b.is_ascii_digit()).count()];
    Some(Shape { scheme, has_user: user > 0, host, rest, port })
}

/// Numeric entities of printable characters, and of dots in other scripts, decoded.
fn without_entities(uri: &[u8]) -> Vec<u8> {
    let decimal = pattern!(r"&#0*(3[3-9]|[4-9]\d|1[01]\d|12[0-6]);");
    let hex = pattern!(r"&#x0*(2[1-9]|[3-6][a-fA-F0-9]|7[0-9a-eA-E]);");
    let dots = pattern!(r"(?i)&#(?:x2e|12290|x3002|65294|xff0e|65377|xff61);");
    let byte = |digits: &[u8], radix: u32| {
        let text = std::str::from_utf8(digits).unwrap_or_default();
        vec![u8::from_str_radix(text, radix).unwrap_or(b'?')]
    };
    let uri = decimal.replace_all(uri, |c: &regex::bytes::Captures<'_>| byte(&c[1], 10));
    let uri = hex.replace_all(&uri, |c: &regex::bytes::Captures<'_>| byte(&c[1], 16));
    dots.replace_all(&uri, b".".as_slice()).into_owned()
}

/// Forms that differ in the host, and the targets of redirectors.
fn hosts(
    uri: &[u8],
    boundaries: &Boundaries,
    redirectors: &Redirectors,
    given: &mut Vec<Vec<u8>>,
    made: &mut Vec<Vec<u8>>,
) {
    let Some(Shape { scheme, has_user, host: given_host, rest, port }) = shape(uri) else { return };
    let mut host = Cow::Borrowed(given_host);
    let is_http = scheme == b"http://";
    let form = |host: &[u8], rest: &[u8]| [scheme, host, rest].concat();
    let default_port: &[u8] = if is_http { b":80" } else { b":443" };
    if !port.is_empty()
        && let Some(after) = rest.strip_prefix(default_port)
        && !after.first().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    {
        made.push(form(&host, after));
    }
    if host.iter().any(|&b| b <= 0x20) {
        host.to_mut().retain(|&b| b > 0x20);
        made.push(form(&host, rest));
    }
    let is_whole = !has_user && host.len() == given_host.len();
    let whole = if is_whole { Cow::Borrowed(uri) } else { Cow::Owned(form(&host, rest)) };
    given.extend(target(&whole, rest, redirectors));
    if let Some(sign) = memchr::memrchr(b'@', &host).filter(|&i| i > 0) {
        let first = memchr::memchr(b'@', &host).unwrap_or(sign);
        if first > 0 {
            host.to_mut().drain(..=first);
            made.push(form(&host, rest));
        }
    }
    let end = host.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
    if end < host.len() {
        host.to_mut().truncate(end);
        made.push(form(&host, rest));
    }
    if let Some(address) = numeric_host(&host) {
        made.push(form(&address, rest));
        return;
    }
    let is_default = port.is_empty() || port == b"80";
    if !is_http || !is_default || has_user {
        return;
    }
    let single = match given_host.get(..4) {
        Some(www) if www.eq_ignore_ascii_case(b"www.") => &given_host[4..],
        _ => given_host,
    };
    if single.is_empty() || memchr::memchr(b'.', single).is_some() {
        return;
    }
    if !given_host.eq_ignore_ascii_case(b"localhost") && !boundaries.is_valid(given_host) {
        let single = single.to_ascii_lowercase();
        // As some browsers do: `http://foobar/` is tried as `www.foobar.com`.
        made.push(form(&[b"www.", &single[..], b".com"].concat(), rest));
    }
}

/// The target of a redirector: by the configured patterns, else any URI inside this one.
fn target(whole: &[u8], rest: &[u8], redirectors: &Redirectors) -> Option<Vec<u8>> {
    let has_dot = |uri: &&[u8]| uri.contains(&b'.');
    if let Some(found) = redirectors.target(whole, has_dot) {
        return Some(found.to_vec());
    }
    memchr::memchr(b':', rest)?;
    let inner = pattern!(r"(?i)https?:/{0,2}[^&#]+").find(rest)?;
    Some(inner.as_bytes()).filter(has_dot).map(<[u8]>::to_vec)
}

/// The address of a host of hexadecimal, octal or decimal numbers.
fn numeric_host(host: &[u8]) -> Option<Vec<u8>> {
    if !host.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let parts: Vec<&[u8]> = host.split(|&b| b == b'.').collect();
    if let [_, _, _, _] = parts.as_slice() {
        let is_number = |p: &&[u8]| pattern!(r"(?i)\A(?:0x[0-9a-f]+|\d+)\z").is_match(p);
        if !parts.iter().all(is_number) {
            return None;
        }
        let octets: Vec<Vec<u8>> = parts.iter().map(|p| octet(p)).collect();
        return Some(octets.join(&b'.'));
    }
    if parts.len() != 1 {
        return None;
    }
    let dotted = |value: u64| {
        let [a, b, c, d] = (value as u32).to_be_bytes();
        format!("{a}.{b}.{c}.{d}").into_bytes()
    };
    if let Some(digits) = strip_hex(host) {
        let last = &digits[digits.len().saturating_sub(8)..];
        return number(last, 16).map(dotted);
    }
    if !host.is_empty() && host.iter().all(u8::is_ascii_digit) {
        return Some(dotted(number(host, 10).unwrap_or(u64::MAX)));
    }
    None
}

fn strip_hex(text: &[u8]) -> Option<&[u8]> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)).then_some(digits)
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// A part of a dotted address in decimal, leading zeros gone; zero itself becomes empty.
fn octet(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    if let Some(digits) = strip_hex(&text) {
        text = number(digits, 16).unwrap_or(u64::MAX).to_string().into_bytes();
    }
    let zeros = text.iter().take_while(|&&b| b == b'0').count();
    let rest = &text[zeros..];
    if zeros > 0 && pattern!(r"\A(?:[1-3][0-7]{0,2}|[4-7][0-7]?)\z").is_match(rest) {
        return number(rest, 8).unwrap_or_default().to_string().into_bytes();
    }
    rest.to_vec()
}

/// The host of a URI; `None` if it has no real host.
pub(super) fn host_of(uri: &[u8], boundaries: &Boundaries) -> Option<Vec<u8>> {
    if [&b"javascript:"[..], b"cid:", b"file:"].iter().any(|s| starts_no_case(uri, s)) {
        return None;
    }
    let host: &[u8] = if starts_no_case(uri, b"mailto:") {
        let rest = &uri[b"mailto:".len()..];
        let rest = &rest[..memchr::memchr(b'?', rest).unwrap_or(rest.len())];
        let mut signs = memchr::memchr_iter(b'@', rest);
        let sign = signs.next()?;
        if signs.next().is_some() {
            return None;
        }
        &rest[sign + 1..]
    } else {
        let letters = uri.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let mut rest = uri;
        if letters > 0 && rest.get(letters) == Some(&b':') {
            rest = &rest[letters + 1..];
            let slashes = rest.iter().take(2).take_while(|&&b| b == b'/').count();
            rest = &rest[slashes..];
        }
        rest = &rest[..run_until(rest, &ENDS_AUTHORITY)];
        rest = &rest[memchr::memrchr(b'@', rest).map_or(0, |i| i + 1)..];
        let digits = rest.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let colon = rest.len() - digits;
        if colon > 0 && rest[colon - 1] == b':' { &rest[..colon - 1] } else { rest }
    };
    let host = host.to_ascii_lowercase();
    let is_printable = |value: u8| matches!(value, 0x21..=0x7e);
    if memchr::memchr_iter(b'%', &host).any(|i| escape_at(&host, i).is_some_and(is_printable)) {
        return None;
    }
    if ip::address_at(&host, 0) == Some(host.len()) {
        return Some(host);
    }
    // A host name has no white space.
    let top = memchr::memrchr(b'.', &host).map(|dot| &host[dot + 1..]);
    (top.is_some_and(|top| boundaries.is_top(top)) && is_host_name(&host)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(uri: &str) -> String {
        let forms = forms(uri.as_bytes(), &Boundaries::default(), &Redirectors::default());
        let mut forms: Vec<String> =
            forms.iter().map(|f| String::from_utf8_lossy(f).into_owned()).collect();
        forms.sort();
        forms.join(" ")
    }

    #[test]
    fn shapes_are_those_of_the_pattern() {
        let pattern = pattern!(r"(?i)\A(https?://)([^@/?#]*@)?([^/?#:]+)((?::(\d*))?.*)\z");
        let pieces =
            ["http://", "HTTPS://", "ftp://", "a", "b.c", "@", ":", "8", "/", "?", "#", "\n"];
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let mut uri = String::new();
            for _ in 0..6 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                uri.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let group = |c: &regex::bytes::Captures<'_>, i: usize| {
                c.get(i).map_or(Vec::new(), |m| m.as_bytes().to_vec())
            };
            let expected = pattern.captures(uri.as_bytes()).map(|c| {
                (group(&c, 1), c.get(2).is_some(), group(&c, 3), group(&c, 4), group(&c, 5))
            });
            let found = shape(uri.as_bytes()).map(|s| {
                let bytes = [s.scheme, s.host, s.rest, s.port].map(<[u8]>::to_vec);
                let [scheme, host, rest, port] = bytes;
                (scheme, s.has_user, host, rest, port)
            });
            assert_eq!(found, expected, "{uri}");
        }
    }

    #[test]
    fn forms_of_uris() {
        for (uri, expected) in [
            ("http://example.com/", "http://example.com/"),
            ("http://example.com?x", "http://example.com/?x http://example.com?x"),
            ("http:\\\\example.com/%41", "http://example.com/A http:\\\\example.com/%41"),
            ("http://example.com:80/", "http://example.com/ http://example.com:80/"),
            ("http://0x7f.1.2.010/", "http://0x7f.1.2.010/ http://127.1.2.8/"),
            ("http://2130706433/", "http://127.0.0.1/ http://2130706433/"),
            ("http://foobar", "http://foobar http://www.foobar.com"),
            ("http://a.com/?u=http://b.com/", "http://a.com/?u=http://b.com/ http://b.com/"),
            ("mailto:a@b.com?subject=x", "mailto:a@b.com mailto:a@b.com?subject=x"),
            ("#top", "#top"),
        ] {
            assert_eq!(all(uri), expected, "{uri}");
        }
    }

    #[test]
    fn hosts_of_uris() {
        let boundaries = Boundaries::default();
        let host = |uri: &str| {
            let host = host_of(uri.as_bytes(), &boundaries);
            host.map(|h| String::from_utf8_lossy(&h).into_owned())
        };
        assert_eq!(host("http://u@www.example.com:81/x"), Some("www.example.com".into()));
        assert_eq!(host("http://192.0.2.1/"), Some("192.0.2.1".into()));
        assert_eq!(host("mailto:a@example.com?x"), Some("example.com".into()));
        assert_eq!(host("cid:x@y.com"), None);
        assert_eq!(host("http://foobar/"), None);
    }
}
