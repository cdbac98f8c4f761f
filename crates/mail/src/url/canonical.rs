//! The canonical form of a URL, after the URL Standard (WHATWG) as far as lookups need it.

use std::borrow::Cow;

use super::escapes::push_escaped;
use super::{CanonicalUrl, URL_BYTES_MAX, UrlTraits, host, path};
use crate::public_suffix;

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
    let readings = path::of_written(tail, web, &out[path..]);
    Some(CanonicalUrl {
        readings,
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
        readings: None,
        text: out,
        host: (host_start as u32, end as u32),
        registrable: registrable as u32,
        path: end as u32,
        port: None,
        traits: traits.0,
    })
}

/// The longest prefix of at most `max` bytes that ends at a character.
pub(crate) fn cut_at(text: &str, max: usize) -> &str {
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
    // `host.example:8080/` has a colon too; `javascript:...`, `cid:1` and `tel:1` have no dot
    // before it.
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
    let found = defanged.into_iter().find(|(invalid, _)| word.eq_ignore_ascii_case(invalid))?;
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
    if traits.has(UrlTraits::IP) {
        return 0;
    }
    let domain = public_suffix::domain(host.as_bytes());
    domain.map_or(0, |d| host.len().saturating_sub(d.len()))
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
            ("http://[::ffff:192.0.2.1]:81/x", "http://192.0.2.1:81/x"),
            ("http://[::FFFF:c000:201]/", "http://192.0.2.1/"),
            ("http://[0:0:0:0:0:ffff:192.0.2.1]/", "http://192.0.2.1/"),
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
        let url = canonical("http://[::ffff:192.0.2.1]/").unwrap();
        assert_eq!((url.host(), url.registrable_domain()), ("192.0.2.1", "192.0.2.1"));
        assert!(url.traits().has(UrlTraits::IP) && url.traits().has(UrlTraits::IP_DISGUISED));
        assert!(canonical("http://xn--bcher-kva.example").unwrap().traits().has(UrlTraits::IDN));
        assert!(
            canonical(&format!("http://a.example/{}", "x".repeat(9_000))).unwrap().as_str().len()
                < 5_000
        );
    }
}
