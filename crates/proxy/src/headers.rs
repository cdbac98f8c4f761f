//! What a proxy changes in headers (RFC 9110 section 7.6): fields of the connection go, `Via` and
//! `Forwarded` come, one `Host`, one `Content-Length`.

use std::net::IpAddr;

use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, Entry, FORWARDED, HOST, HeaderMap,
    HeaderName, HeaderValue, MAX_FORWARDS, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::{Method, Version};

use crate::request::{Kind, WebRequest};
use crate::settings::{self, Settings};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const X_FORWARDED: [HeaderName; 4] = [
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Names in `Connection` that are followed; a longer list is an attack on the time it takes.
const CONNECTION_NAMES_MAX: usize = 32;

/// Fields that a server must get, whatever a client writes into `Connection`: without `Host` or a
/// length, the request would be another one (hop-by-hop abuse).
const NEVER_DROPPED: [HeaderName; 4] = [HOST, CONTENT_LENGTH, COOKIE, VIA];

/// Removes the fields that concern one connection alone (RFC 9110 section 7.6.1).
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .take(CONNECTION_NAMES_MAX)
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| !NEVER_DROPPED.contains(name))
        .collect();
    let fixed = [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE];
    for name in named.iter().chain(&fixed).chain(&[HTTP2_SETTINGS]) {
        headers.remove(name);
    }
}

/// Makes the header of a client's request into that of the request to the server.
pub(crate) fn prepare_request(headers: &mut HeaderMap, web: &WebRequest, settings: &Settings) {
    let wants_trailers = wants_trailers(headers);
    let upgrade = headers.get(UPGRADE).cloned().filter(|_| web.kind == Kind::Upgrade);
    remove_hop_by_hop(headers);
    headers.remove(PROXY_AUTHORIZATION);
    headers.remove(PROXY_AUTHENTICATE);
    if let Ok(host) = HeaderValue::try_from(web.authority()) {
        headers.insert(HOST, host);
    }
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.append(CONNECTION, HeaderValue::from_static("TE"));
    }
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
        headers.append(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    if web.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    set_forwarded(headers, web.client, settings.forwarded);
    add_via(headers, web.version, settings);
}

/// The client of this request takes trailers.
fn wants_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(TE).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// HTTP/2 may split cookies; HTTP/1.1 has one field (RFC 9113 section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().count() < 2 {
        return;
    }
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

fn set_forwarded(headers: &mut HeaderMap, client: IpAddr, forwarded: settings::Forwarded) {
    match forwarded {
        settings::Forwarded::Transparent => {}
        settings::Forwarded::Off => {
            headers.remove(FORWARDED);
            X_FORWARDED.iter().for_each(|name| drop(headers.remove(name)));
        }
        settings::Forwarded::On => {
            let element = match client.to_canonical() {
                IpAddr::V4(v4) => format!("for={v4}"),
                IpAddr::V6(v6) => format!("for=\"[{v6}]\""),
            };
            append_element(headers, FORWARDED, &element);
        }
    }
}

/// Adds our element to `Via` (RFC 9110 section 7.6.3).
pub(crate) fn add_via(headers: &mut HeaderMap, version: Version, settings: &Settings) {
    if settings.via {
        let version = match version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        append_element(headers, VIA, &format!("{version} {}", settings.name));
    }
}

/// Appends to the last field of that name, or adds one.
fn append_element(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut whole = Vec::new();
    for value in headers.get_all(&name) {
        whole.extend_from_slice(value.as_bytes());
        whole.extend_from_slice(b", ");
    }
    whole.extend_from_slice(element.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&whole) {
        headers.insert(name, value);
    }
}

/// The request came through this proxy before.
pub(crate) fn is_loop(headers: &HeaderMap, settings: &Settings) -> bool {
    let values = headers.get_all(VIA).iter().filter_map(|v| v.to_str().ok());
    let mut names = values.flat_map(|v| v.split(',')).filter_map(|e| e.split_whitespace().nth(1));
    settings.via && names.any(|name| name == settings.name)
}

/// What `Max-Forwards` says about OPTIONS and TRACE (RFC 9110 section 7.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwards {
    /// It is passed on, with one less if there was a number.
    On,
    /// It is for this proxy.
    Here,
}

/// Counts `Max-Forwards` down.
pub(crate) fn count_forwards(headers: &mut HeaderMap, method: &Method) -> Forwards {
    if *method != Method::OPTIONS {
        return Forwards::On;
    }
    let number = |value: &HeaderValue| value.to_str().ok()?.trim().parse::<u32>().ok();
    let Entry::Occupied(mut entry) = headers.entry(MAX_FORWARDS) else { return Forwards::On };
    match number(entry.get()) {
        Some(0) => Forwards::Here,
        Some(n) => {
            entry.insert(HeaderValue::from(n - 1));
            Forwards::On
        }
        None => Forwards::On,
    }
}

/// The client waits for `100 Continue` before it sends a body (RFC 9110 section 10.1.1).
///
/// # Errors
/// If it expects something else.
pub(crate) fn expects_continue(headers: &HeaderMap) -> Result<bool, ()> {
    match headers.get(EXPECT) {
        None => Ok(false),
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        Some(_) => Err(()),
    }
}

/// Makes the header of a server's response into that of the response to the client.
///
/// `length` is what the body's framing was found to be; `None` if the body has no length of its
/// own, as with HEAD and 304, whose `Content-Length` is about another response.
pub(crate) fn prepare_response(
    headers: &mut HeaderMap,
    version: Version,
    length: Option<Framing>,
    settings: &Settings,
) {
    remove_hop_by_hop(headers);
    match length {
        None => {}
        // RFC 9112 section 6.3: both would be two readings.
        Some(Framing::Unknown) => drop(headers.remove(CONTENT_LENGTH)),
        Some(Framing::Bytes(n)) => drop(headers.insert(CONTENT_LENGTH, HeaderValue::from(n))),
    }
    add_via(headers, version, settings);
}

/// Whether a response has no transfer coding but `chunked`, once. No other is asked for (`TE`), and
/// hyper undoes none (RFC 9112 section 6.1). `identity` is what old servers say for none.
pub(crate) fn is_plainly_framed(headers: &HeaderMap) -> bool {
    let mut chunked = 0;
    headers.get_all(TRANSFER_ENCODING).iter().all(|value| {
        value.as_bytes().split(|b| *b == b',').all(|coding| {
            let coding = coding.trim_ascii();
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            chunked += usize::from(is_chunked);
            let is_none = coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
            is_none || (is_chunked && chunked == 1)
        })
    })
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Bytes(u64),
    /// Until its end.
    Unknown,
}

/// Whether the credentials of a request are for its connection, not for it alone, as NTLM has it
/// (RFC 4559 section 6): whoever came next by the connection would come as the same person.
pub(crate) fn binds_connection(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|value| {
        let scheme = value.as_bytes().split(|b| *b == b' ').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"ntlm") || scheme.eq_ignore_ascii_case(b"negotiate")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let pair = |(n, v): &(&str, &str)| (n.parse::<HeaderName>().unwrap(), v.parse().unwrap());
        let mut map = HeaderMap::new();
        fields.iter().map(pair).for_each(|(n, v): (HeaderName, HeaderValue)| {
            map.append(n, v);
        });
        map
    }

    #[test]
    fn fields_of_the_connection_go_but_not_those_that_make_the_request() {
        let mut headers = map(&[
            ("connection", "keep-alive, X-Mine, Host, cookie"),
            ("keep-alive", "5"),
            ("x-mine", "1"),
            ("host", "a.example"),
            ("cookie", "a=b"),
            ("te", "trailers"),
            ("proxy-connection", "keep-alive"),
            ("range", "bytes=0-1"),
        ]);
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["cookie", "host", "range"]);
    }

    #[test]
    fn transfer_codings_of_responses() {
        let is_plain = |values: &[&'static str]| {
            let fields: Vec<_> = values.iter().map(|value| ("transfer-encoding", *value)).collect();
            is_plainly_framed(&map(&fields))
        };
        for plain in [&[][..], &["chunked"], &["Chunked "], &["identity"], &["identity, chunked"]] {
            assert!(is_plain(plain), "{plain:?}");
        }
        for other in [
            &["gzip, chunked"][..],
            &["gzip"],
            &["gzip", "chunked"],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["x"],
        ] {
            assert!(!is_plain(other), "{other:?}");
        }
    }

    #[test]
    fn via_is_appended_and_a_loop_is_seen() {
        let settings = Settings::default();
        let mut headers = map(&[("via", "1.0 a"), ("via", "1.1 b (x)")]);
        assert!(!is_loop(&headers, &settings));
        add_via(&mut headers, Version::HTTP_2, &settings);
        assert_eq!(headers[VIA], "1.0 a, 1.1 b (x), 2 gauntlet");
        assert!(is_loop(&headers, &settings));
    }

    #[test]
    fn forwarded_is_removed_kept_or_extended() {
        let fields = [("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "1.2.3.4")];
        let client: IpAddr = "2001:db8::1".parse().unwrap();
        let mut headers = map(&fields);
        set_forwarded(&mut headers, client, settings::Forwarded::On);
        assert_eq!(headers[FORWARDED], "for=1.2.3.4, for=\"[2001:db8::1]\"");
        set_forwarded(&mut headers, client, settings::Forwarded::Off);
        assert!(headers.is_empty());
    }

    #[test]
    fn cookies_of_http2_become_one_field() {
        let mut headers = map(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut headers);
        assert_eq!(headers[COOKIE], "a=1; b=2");
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn max_forwards_counts_down_for_options() {
        let mut headers = map(&[("max-forwards", "2")]);
        assert_eq!(count_forwards(&mut headers, &Method::OPTIONS), Forwards::On);
        assert_eq!(headers[MAX_FORWARDS], "1");
        headers.insert(MAX_FORWARDS, HeaderValue::from(0));
        assert_eq!(count_forwards(&mut headers, &Method::OPTIONS), Forwards::Here);
        assert_eq!(count_forwards(&mut headers, &Method::GET), Forwards::On);
    }
}
