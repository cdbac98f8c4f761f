//! Requests changed before they are sent: codings that can be undone, whole content, safe search,
//! fields that servers do not get.
//!
//! Which hosts, parameters and fields switch safe search on is what the search engines document for
//! network administrators: Google's `safe=active`, Bing's `adlt=strict`, DuckDuckGo's `kp=1`,
//! and YouTube's field `YouTube-Restrict`.

use hyper::header::{ACCEPT_ENCODING, HeaderName, HeaderValue, IF_RANGE, RANGE};
use hyper::{HeaderMap, Uri};

use super::fields::percent_decoded;
use crate::request::WebRequest;
use crate::settings::content::{ContentSettings, Partial, RemovedHeader, YouTube};

/// Codings that are undone for judging.
const CODINGS: [&str; 6] = ["gzip", "x-gzip", "deflate", "br", "zstd", "identity"];
/// Fields by which a client offers dictionaries for codings (RFC 9842).
const DICTIONARIES: [&str; 2] = ["available-dictionary", "dictionary-id"];
/// Whose requests for parts are left alone: they cannot show pages.
const PLAYERS: [&[u8]; 3] = [b"video", b"audio", b"track"];

/// Leaves codings that can be undone, and takes ranges out.
pub(super) fn ask_for_what_can_be_judged(headers: &mut HeaderMap, partial: Partial) {
    if headers.contains_key(ACCEPT_ENCODING) {
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
        let is_known = |item: &&str| {
            let name = item.split(';').next().unwrap_or_default().trim();
            CODINGS.iter().any(|coding| coding.eq_ignore_ascii_case(name))
        };
        let left: Vec<&str> =
            values.flat_map(|v| v.split(',')).map(str::trim).filter(is_known).collect();
        let left = if left.is_empty() { "identity".to_owned() } else { left.join(", ") };
        if let Ok(value) = HeaderValue::try_from(left) {
            headers.insert(ACCEPT_ENCODING, value);
        }
    }
    DICTIONARIES.iter().for_each(|name| drop(headers.remove(*name)));
    let destination = headers.get("sec-fetch-dest").map(HeaderValue::as_bytes);
    let is_player = destination.is_some_and(|d| PLAYERS.contains(&d));
    if partial == Partial::Strip && !is_player {
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
    }
}

/// Removes fields by the settings.
pub(super) fn remove(headers: &mut HeaderMap, request: &WebRequest, rules: &[RemovedHeader]) {
    for rule in rules {
        if rule.hosts.iter().any(|host| is_below(request.host(), host)) {
            headers.remove(rule.header.as_str());
        }
    }
}

/// The host itself, or one below it; `*` is every host.
fn is_below(host: &str, pattern: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    let above = host.strip_suffix(pattern.as_str());
    pattern == "*" || above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Switches safe search on.
pub(super) fn safe_search(
    headers: &mut HeaderMap,
    uri: &mut Uri,
    request: &WebRequest,
    settings: &ContentSettings,
) {
    let host = request.host();
    if settings.safe_search
        && let Some((name, value)) = parameter(host, request.url.registrable_domain())
        && let Some(changed) = with_parameter(uri, name, value)
    {
        *uri = changed;
    }
    let restrict = match settings.youtube {
        YouTube::Off => return,
        YouTube::Moderate => "Moderate",
        YouTube::Strict => "Strict",
    };
    if YOUTUBE.iter().any(|youtube| is_below(host, youtube)) {
        let name = HeaderName::from_static("youtube-restrict");
        headers.insert(name, HeaderValue::from_static(restrict));
    }
}

/// Hosts of YouTube that know Restricted Mode.
const YOUTUBE: [&str; 4] =
    ["youtube.com", "youtubei.googleapis.com", "youtube.googleapis.com", "youtube-nocookie.com"];

/// The parameter of a search engine's addresses.
fn parameter(host: &str, domain: &str) -> Option<(&'static str, &'static str)> {
    // Google has a domain in every country.
    let is_google = domain.split('.').next() == Some("google");
    let is_search = host == domain || host.strip_prefix("www.") == Some(domain);
    match domain {
        "bing.com" => Some(("adlt", "strict")),
        "duckduckgo.com" => Some(("kp", "1")),
        _ if is_google && is_search => Some(("safe", "active")),
        _ => None,
    }
}

/// The address with this parameter once. None if the address has no query: it searches nothing.
fn with_parameter(uri: &Uri, name: &str, value: &str) -> Option<Uri> {
    let query = uri.query()?;
    let is_other = |pair: &&str| {
        let other = percent_decoded(pair.split('=').next().unwrap_or_default());
        !other.eq_ignore_ascii_case(name)
    };
    let mut pairs: Vec<&str> = query.split('&').filter(is_other).collect();
    let pair = format!("{name}={value}");
    pairs.push(&pair);
    let target = format!("{}?{}", uri.path(), pairs.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use hyper::Request;

    fn rewritten(url: &str, settings: &ContentSettings) -> (String, HeaderMap) {
        let request = Request::builder().uri(url).body(()).unwrap();
        let web =
            WebRequest::read([192, 0, 2, 7].into(), None, &request, &Settings::default()).unwrap();
        let (mut headers, mut uri) = (HeaderMap::new(), request.uri().clone());
        headers.insert("referer", HeaderValue::from_static("x"));
        headers.insert("youtube-restrict", HeaderValue::from_static("Off"));
        remove(&mut headers, &web, &settings.remove);
        safe_search(&mut headers, &mut uri, &web, settings);
        (uri.to_string(), headers)
    }

    #[test]
    fn search_engines_get_their_parameter_once() {
        let settings = ContentSettings { safe_search: true, ..ContentSettings::default() };
        for (url, expected) in [
            ("http://www.google.com/search?q=a", "http://www.google.com/search?q=a&safe=active"),
            (
                "http://google.co.uk/search?safe=off&q=a&SAFE=images&s%61fe=off",
                "http://google.co.uk/search?q=a&safe=active",
            ),
            (
                "http://www.bing.com/search?q=a&adlt=off",
                "http://www.bing.com/search?q=a&adlt=strict",
            ),
            ("http://html.duckduckgo.com/html?q=a", "http://html.duckduckgo.com/html?q=a&kp=1"),
            ("http://www.google.com/", "http://www.google.com/"),
            ("http://mail.google.com/?q=a", "http://mail.google.com/?q=a"),
            ("http://notgoogle.com/?q=a", "http://notgoogle.com/?q=a"),
            ("http://google.com.evil.example/?q=a", "http://google.com.evil.example/?q=a"),
        ] {
            assert_eq!(rewritten(url, &settings).0, expected);
        }
        let off = ContentSettings::default();
        assert_eq!(rewritten("http://bing.com/?q=a", &off).0, "http://bing.com/?q=a");
    }

    #[test]
    fn youtube_is_told_and_clients_cannot_say_otherwise() {
        let settings = ContentSettings { youtube: YouTube::Strict, ..ContentSettings::default() };
        let (_, headers) = rewritten("http://www.youtube.com/watch?v=1", &settings);
        assert_eq!(headers["youtube-restrict"], "Strict");
        let (_, headers) = rewritten("http://myyoutube.com/", &settings);
        assert_eq!(headers["youtube-restrict"], "Off");
    }

    #[test]
    fn fields_are_removed_for_listed_hosts() {
        let hosts = vec!["ads.example".to_owned()];
        let rule = RemovedHeader { header: "Referer".to_owned(), hosts };
        let settings = ContentSettings { remove: vec![rule], ..ContentSettings::default() };
        for (url, is_left) in [
            ("http://ads.example/", false),
            ("http://x.ads.example/", false),
            ("http://xads.example/", true),
        ] {
            assert_eq!(rewritten(url, &settings).1.contains_key("referer"), is_left, "{url}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_not_asked_for() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, dcb, BR;q=0.5, *"));
        headers.insert(RANGE, HeaderValue::from_static("bytes=1-2"));
        headers.insert("available-dictionary", HeaderValue::from_static("x"));
        let mut player = headers.clone();
        ask_for_what_can_be_judged(&mut headers, Partial::Strip);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[ACCEPT_ENCODING], "gzip, BR;q=0.5");
        player.insert("sec-fetch-dest", HeaderValue::from_static("video"));
        player.insert(ACCEPT_ENCODING, HeaderValue::from_static("compress"));
        ask_for_what_can_be_judged(&mut player, Partial::Strip);
        assert!(player.contains_key(RANGE));
        assert_eq!(player[ACCEPT_ENCODING], "identity");
    }
}
