//! URLs: one canonical form for look-ups, and their extraction from text and HTML with position.
//!
//! Mail, web proxy and packet path share [`canonical`]; the variants that rules of other programs
//! expect are made from what is found here, in the crate that needs them.

pub(crate) mod bare;
pub(crate) mod extract;
pub(crate) mod hidden;
mod host;
mod nested;
mod other;
mod plain;
pub mod text;

use std::borrow::Cow;
use std::ops::Range;

use crate::evidence::View;

/// Longest URL that is read, in bytes; the rest is cut off.
pub const URL_BYTES_MAX: usize = 4096;

/// What named a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UrlSource {
    /// Text, with its scheme.
    Text,
    /// Text, without scheme: `www.example.com`, `example.com/path`.
    Schemeless,
    /// Text: a bare host name, `example.com`. May be an innocent file name or a missing space.
    BareHost,
    /// The visible text of a link.
    LinkText,
    /// `href` of `<a>` or `<area>`.
    Href,
    /// `src`, `data`, `poster` of anything.
    Src,
    /// `action` of a form, `formaction` of a button.
    Action,
    /// The attribute `background`.
    Background,
    /// `href` of `<link>`.
    Link,
    /// `href` of `<base>`.
    Base,
    /// `<meta http-equiv=refresh>`.
    MetaRefresh,
    /// `url(...)` in a style.
    Css,
    /// Nested in another URL, in a conditional comment, or written in a form that the usual
    /// extraction does not read: see [`crate::Message::hidden_urls`].
    Hidden,
}

impl UrlSource {
    /// The reader's program asks for it without being told, when it shows remote content.
    pub fn is_loaded(self) -> bool {
        use UrlSource as S;
        matches!(self, S::Src | S::Background | S::Link | S::Css | S::MetaRefresh)
    }
}

/// A URL of a message, where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// The form for look-ups.
    pub canonical: CanonicalUrl,
    /// As found, character references decoded; at most [`URL_BYTES_MAX`] bytes.
    pub raw: String,
    /// What named it.
    pub source: UrlSource,
    /// Index of the part in [`crate::Message::parts`].
    pub part: u16,
    /// The text that `offset` counts in: [`View::Text`] (for HTML the rendered text),
    /// [`View::Html`] or [`View::Header`] (the decoded Subject).
    pub view: View,
    /// Byte offset in the view.
    pub offset: u32,
    /// Length in the view, in bytes.
    pub length: u32,
    /// For [`UrlSource::Href`]: where the link's visible text stands in the part's rendered text.
    /// [`crate::Message::link_text`] gives the text.
    pub link_text: Option<Range<u32>>,
}

/// What is remarkable about how a URL was written: one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UrlTraits(pub u16);

impl UrlTraits {
    /// `user@` or `user:password@` before the host.
    pub const USER_INFO: UrlTraits = UrlTraits(1);
    /// The host is an IP address.
    pub const IP: UrlTraits = UrlTraits(2);
    /// An IPv4 address not written as four decimal numbers.
    pub const IP_DISGUISED: UrlTraits = UrlTraits(4);
    /// A label in punycode, written so or as Unicode.
    pub const IDN: UrlTraits = UrlTraits(8);
    /// `%` escapes in the host.
    pub const ESCAPED_HOST: UrlTraits = UrlTraits(16);
    /// A port other than the scheme's own.
    pub const PORT: UrlTraits = UrlTraits(32);
    /// `hxxp`, `[.]` and the like.
    pub const DEFANGED: UrlTraits = UrlTraits(64);
    /// Back slashes, control characters or a wrong number of slashes.
    pub const MALFORMED: UrlTraits = UrlTraits(128);
    /// No scheme was written.
    pub const NO_SCHEME: UrlTraits = UrlTraits(256);
    /// Longer than [`URL_BYTES_MAX`]; the rest is missing.
    pub const CUT: UrlTraits = UrlTraits(512);

    /// Whether this includes `other`.
    pub fn has(self, other: UrlTraits) -> bool {
        self.0 & other.0 != 0
    }

    fn set(&mut self, other: UrlTraits) {
        self.0 |= other.0;
    }
}

/// One form for every way to write the same URL.
///
/// Scheme and host in lower case; host in ASCII (IDNA, UTS 46), without a final dot, addresses in
/// their usual notation; no user information, default port or fragment; dot segments resolved;
/// escapes of unreserved characters decoded, other escapes in upper case; what may not stand in a URL
/// escaped; an empty path is `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalUrl {
    text: String,
    host: (u32, u32),
    /// Where the registrable domain begins.
    registrable: u32,
    /// Where the path begins.
    path: u32,
    port: Option<u16>,
    traits: u16,
}

impl CanonicalUrl {
    /// The whole of it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `https`.
    pub fn scheme(&self) -> &str {
        self.text.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// `www.example.co.uk`, `192.0.2.1`, `[2001:db8::1]`.
    pub fn host(&self) -> &str {
        self.slice(self.host.0, self.host.1)
    }

    /// `example.co.uk` by the public suffix list; the whole host if it is an address or a suffix.
    pub fn registrable_domain(&self) -> &str {
        self.slice(self.registrable, self.host.1)
    }

    /// Path and query, from the `/`. Empty for `mailto:`.
    pub fn path_and_query(&self) -> &str {
        self.slice(self.path, self.text.len() as u32)
    }

    /// The port, if it is not the scheme's own.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// What was remarkable about how it was written.
    pub fn traits(&self) -> UrlTraits {
        UrlTraits(self.traits)
    }

    fn slice(&self, from: u32, to: u32) -> &str {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }
}

/// The canonical form of `input`, if it names a host: a URL with a scheme, `//host/path`, or (as
/// `http`) `host/path`. Schemes without a host give none, but `mailto:` counts its domain as host.
pub fn canonical(input: &str) -> Option<CanonicalUrl> {
    let mut traits = UrlTraits::default();
    let trimmed = input.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    let mut cut = Cow::Borrowed(cut_at(trimmed, URL_BYTES_MAX));
    if cut.len() < trimmed.len() {
        traits.set(UrlTraits::CUT);
        if let Some(short) = without_long_user(trimmed) {
            traits.set(UrlTraits::USER_INFO);
            cut = Cow::Owned(short);
        }
    }
    let cleaned = remove_line_ends(&cut, &mut traits);
    let (scheme, rest) = split_scheme(&cleaned, &mut traits)?;
    if scheme == "mailto" {
        return mailto(rest, traits);
    }
    let web = matches!(scheme, "http" | "https" | "ftp" | "ws" | "wss");
    let ends = |b: u8| matches!(b, b'/' | b'?' | b'#') || (web && b == b'\\');
    let authority_end = rest.bytes().position(ends).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(authority_end);
    let (host, port) = split_authority(authority, &mut traits);
    let mut out = String::with_capacity(cleaned.len() + 16);
    out.push_str(scheme);
    out.push_str("://");
    let host_start = out.len();
    host::push(host, &mut out, &mut traits)?;
    let host_end = out.len();
    let registrable = registrable_start(&out[host_start..], traits) + host_start;
    let port = port.filter(|p| Some(*p) != default_port(scheme));
    if let Some(port) = port {
        traits.set(UrlTraits::PORT);
        out.push(':');
        out.push_str(&port.to_string());
    }
    let path = out.len();
    push_path(tail, web, &mut out, &mut traits);
    Some(CanonicalUrl {
        text: out,
        host: (host_start as u32, host_end as u32),
        registrable: registrable as u32,
        path: path as u32,
        port,
        traits: traits.0,
    })
}

fn mailto(rest: &str, mut traits: UrlTraits) -> Option<CanonicalUrl> {
    let address = rest.split(['?', ',']).next()?;
    let (local, domain) = address.rsplit_once('@')?;
    let mut out = format!("mailto:{}@", local.trim());
    let host_start = out.len();
    host::push(domain.trim(), &mut out, &mut traits)?;
    let end = out.len();
    let registrable = registrable_start(&out[host_start..], traits) + host_start;
    Some(CanonicalUrl {
        text: out,
        host: (host_start as u32, end as u32),
        registrable: registrable as u32,
        path: end as u32,
        port: None,
        traits: traits.0,
    })
}

/// The longest prefix of at most `max` bytes that ends at a character.
fn cut_at(text: &str, max: usize) -> &str {
    let end = (0..=text.len().min(max)).rev().find(|&i| text.is_char_boundary(i));
    &text[..end.unwrap_or(0)]
}

/// A URL whose user information reaches over the limit, without it: the host stands behind it.
fn without_long_user(text: &str) -> Option<String> {
    let colon = text.find(':')?;
    let scheme = text.get(..colon + 1).filter(|scheme| scheme.len() < 20)?;
    let rest = text[colon + 1..].trim_start_matches(['/', '\\', '\t', '\r', '\n']);
    let authority = rest.split(['/', '\\', '?', '#']).next()?;
    let at = authority.rfind('@').filter(|at| *at > HOST_AT_MAX)?;
    Some(format!("{scheme}//{}", cut_at(&rest[at + 1..], URL_BYTES_MAX)))
}

/// A user information that ends before this is left to the usual way.
const HOST_AT_MAX: usize = URL_BYTES_MAX / 2;

/// Browsers drop tabs and line ends anywhere in a URL (URL Standard, section 4.4).
fn remove_line_ends<'a>(text: &'a str, traits: &mut UrlTraits) -> Cow<'a, str> {
    if memchr::memchr3(b'\t', b'\n', b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    traits.set(UrlTraits::MALFORMED);
    Cow::Owned(text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect())
}

/// The scheme in lower case, and what follows `://`; none if there is a scheme without a host.
fn split_scheme<'a>(text: &'a str, traits: &mut UrlTraits) -> Option<(&'static str, &'a str)> {
    let colon = text.find(':').filter(|&i| {
        i > 0
            && text.as_bytes()[0].is_ascii_alphabetic()
            && text[..i].bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.*".contains(&b))
    });
    let known = colon.and_then(|i| Some((known_scheme(&text[..i], traits)?, &text[i + 1..])));
    if let Some((scheme, rest)) = known {
        if scheme == "mailto" {
            return Some((scheme, rest));
        }
        let slashes = rest.bytes().take_while(|b| matches!(b, b'/' | b'\\')).count();
        if !rest.starts_with("//") || slashes != 2 {
            traits.set(UrlTraits::MALFORMED);
        }
        return Some((scheme, &rest[slashes..]));
    }
    if let Some(rest) = text.strip_prefix("//") {
        return Some(("http", rest));
    }
    // `host.example:8080/` has a colon too; `javascript:...`, `cid:1` and `tel:1` have no dot before it.
    let is_host = colon.is_none_or(|i| text[..i].contains('.') || &text[..i] == "localhost");
    let starts_well = text.starts_with(|c: char| c.is_alphanumeric() || c == '[' || c == '%');
    traits.set(UrlTraits::NO_SCHEME);
    (is_host && starts_well).then_some(("http", text))
}

fn known_scheme(word: &str, traits: &mut UrlTraits) -> Option<&'static str> {
    let known =
        ["http", "https", "mailto", "ftp", "ws", "wss", "sftp", "ftps", "smb", "git", "ssh"];
    if let Some(scheme) = known.into_iter().find(|s| word.eq_ignore_ascii_case(s)) {
        return Some(scheme);
    }
    let defanged = [("hxxp", "http"), ("hxxps", "https"), ("h**p", "http"), ("h**ps", "https")];
    let found = defanged.into_iter().find(|(odd, _)| word.eq_ignore_ascii_case(odd))?;
    traits.set(UrlTraits::DEFANGED);
    Some(found.1)
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        "ftp" => Some(21),
        _ => None,
    }
}

/// Host and port; user information is noted and dropped.
fn split_authority<'a>(authority: &'a str, traits: &mut UrlTraits) -> (&'a str, Option<u16>) {
    let mut host = authority;
    if let Some((_, after)) = authority.rsplit_once('@') {
        traits.set(UrlTraits::USER_INFO);
        host = after;
    }
    let bracket = host.rfind(']').unwrap_or(0);
    match host[bracket..].rfind(':') {
        Some(i) => {
            let (name, port) = host.split_at(bracket + i);
            (name, port[1..].parse().ok())
        }
        None => (host, None),
    }
}

fn registrable_start(host: &str, traits: UrlTraits) -> usize {
    use psl::Psl;
    if traits.has(UrlTraits::IP) {
        return 0;
    }
    let domain = psl::List.domain(host.as_bytes());
    domain.map_or(0, |d| host.len().saturating_sub(d.as_bytes().len()))
}

/// Appends path and query in canonical form; the fragment is dropped.
fn push_path(tail: &str, web: bool, out: &mut String, traits: &mut UrlTraits) {
    let tail = tail.split('#').next().unwrap_or_default();
    let (path, query) = match tail.find('?') {
        Some(i) => (&tail[..i], Some(&tail[i + 1..])),
        None => (tail, None),
    };
    let base = out.len();
    out.push('/');
    let is_slash = |c: char| c == '/' || (web && c == '\\');
    if web && path.contains('\\') {
        traits.set(UrlTraits::MALFORMED);
    }
    let mut segments = path.strip_prefix(is_slash).unwrap_or(path).split(is_slash).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if is_dots(segment, 1) {
            continue;
        }
        if is_dots(segment, 2) {
            out.truncate(out.len() - 1);
            let parent = out[base..].rfind('/').map_or(base, |i| base + i);
            out.truncate(parent);
            out.push('/');
            continue;
        }
        push_escaped(segment, out);
        if !last {
            out.push('/');
        }
    }
    if let Some(query) = query {
        out.push('?');
        push_escaped(query, out);
    }
}

/// `.` or `%2e`, `count` times.
fn is_dots(segment: &str, count: usize) -> bool {
    if segment.len() > 3 * count {
        return false;
    }
    let mut rest = segment;
    for _ in 0..count {
        let Some(next) = rest
            .strip_prefix('.')
            .or_else(|| rest.strip_prefix("%2e"))
            .or_else(|| rest.strip_prefix("%2E"))
        else {
            return false;
        };
        rest = next;
    }
    rest.is_empty()
}

/// Appends `text` with escapes in one form.
fn push_escaped(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let escape = |byte: u8, out: &mut String| {
        out.push('%');
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    };
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        match byte {
            b'%' => {
                let pair = match bytes[at..] {
                    [a, b, ..] => crate::encoding::hex(a).zip(crate::encoding::hex(b)),
                    _ => None,
                };
                match pair {
                    Some((high, low)) => {
                        let value = high << 4 | low;
                        at += 2;
                        if is_unreserved(value) {
                            out.push(char::from(value));
                        } else {
                            escape(value, out);
                        }
                    }
                    None => escape(b'%', out),
                }
            }
            b' ' | b'"' | b'<' | b'>' | b'`' | 0..=0x1f | 0x7f.. => escape(byte, out),
            _ => out.push(char::from(byte)),
        }
    }
}

/// RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(input: &str) -> String {
        canonical(input).map_or_else(String::new, |u| u.text)
    }

    #[test]
    fn one_form_for_many_spellings() {
        for (input, expected) in [
            ("HTTP://WWW.Example.COM", "http://www.example.com/"),
            ("https://example.com:443/a/../b/./c?x#frag", "https://example.com/b/c?x"),
            ("http://example.com:8080", "http://example.com:8080/"),
            ("http://u:p@example.com./%7euser/%2f%3a", "http://example.com/~user/%2F%3A"),
            ("http://example.com../x", "http://example.com/x"),
            ("http:\\\\example.com\\a", "http://example.com/a"),
            ("http:/example.com", "http://example.com/"),
            ("http:///example.com/", "http://example.com/"),
            ("//example.com/x", "http://example.com/x"),
            ("www.example.com/x y", "http://www.example.com/x%20y"),
            ("example.com:8080/x", "http://example.com:8080/x"),
            ("http://ex%61mple.com/", "http://example.com/"),
            ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
            ("http://3221225985/", "http://192.0.2.1/"),
            ("http://0xC0.0.2.1/", "http://192.0.2.1/"),
            ("http://0300.0.0x2.1/", "http://192.0.2.1/"),
            ("http://192.0.513/", "http://192.0.2.1/"),
            ("http://[2001:DB8:0::1]/", "http://[2001:db8::1]/"),
            ("hxxps://evil[.]example/p", "https://evil.example/p"),
            ("ht\ntp://a.example/\r\nb", "http://a.example/b"),
            ("mailto:Joe@Example.COM?subject=x", "mailto:Joe@example.com"),
            ("http://a.example/%zz%", "http://a.example/%25zz%25"),
            ("http://a.example/../../x", "http://a.example/x"),
            ("http://a.example/x/%2e%2E/y", "http://a.example/y"),
            ("http://a.example?q", "http://a.example/?q"),
        ] {
            assert_eq!(form(input), expected, "{input:?}");
            assert_eq!(form(expected), expected, "canonical is a fixed point");
        }
    }

    #[test]
    fn what_names_no_host() {
        for input in [
            "",
            "http://",
            "javascript:alert(1)",
            "cid:x@y",
            "tel:+1234",
            "data:text/html,x",
            "#top",
            "/path",
            "?q",
            "http://exa mple.com/",
            "http://256.256.256.256/",
            "about:blank",
        ] {
            assert_eq!(canonical(input), None, "{input:?}");
        }
    }

    #[test]
    fn parts_and_traits() {
        let url = canonical("http://a:b@www.Shop.example.co.uk:81/x?y").unwrap();
        assert_eq!(url.host(), "www.shop.example.co.uk");
        assert_eq!(url.registrable_domain(), "example.co.uk");
        assert_eq!((url.scheme(), url.path_and_query(), url.port()), ("http", "/x?y", Some(81)));
        assert!(url.traits().has(UrlTraits::USER_INFO) && url.traits().has(UrlTraits::PORT));
        let url = canonical("http://0x7f.1/").unwrap();
        assert_eq!((url.host(), url.registrable_domain()), ("127.0.0.1", "127.0.0.1"));
        assert!(url.traits().has(UrlTraits::IP_DISGUISED));
        assert!(canonical("http://xn--bcher-kva.example").unwrap().traits().has(UrlTraits::IDN));
        assert!(
            canonical(&format!("http://a.example/{}", "x".repeat(9_000))).unwrap().as_str().len()
                < 5_000
        );
    }
}
