//! Links: their text compared with their target.

use super::args::Args;
use super::context::EvalContext;
use super::net;
use super::text::{is_space, re};
use crate::boundaries::is_host_name;
use crate::views::Text;

/// `check_uri_truncated()`: a link was longer than the limit.
pub(super) fn truncated(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.views.uri_details().truncated
}

/// `check_https_ip_mismatch()`: the text is an https link, the target a bare IP address.
pub(super) fn https_address_mismatch(cx: &EvalContext<'_>, _: &Args) -> bool {
    let address = re!(r"(?i)\Ahttps?:/*(?:[^@/]+@)?\d+\.\d+\.\d+\.\d+");
    let same = re!(r"(?i)\Ahttps:/*(?:[^@/]+@)?\d+\.\d+\.\d+\.\d+");
    cx.html().any(|html| {
        let suspects = html.uris.iter().filter(|u| address.is_match(&u.uri.as_bytes()));
        suspects.flat_map(|u| &u.anchor_text).any(|text| {
            let text = text.bytes();
            !same.is_match(&text) && re!("(?i)https:").is_match(&text)
        })
    })
}

/// `check_https_http_mismatch([anchors_min], [anchors_max])`: the text is an https link to one
/// domain, the target another domain; for so many anchors.
pub(super) fn https_domain_mismatch(cx: &EvalContext<'_>, args: &Args) -> bool {
    let boundaries = &cx.tables.boundaries;
    let anchors_min = args.bound(0).filter(|&n| n != 0.0).unwrap_or(1.0);
    let is_address = |host: &[u8]| net::address(host).is_some();
    cx.html().any(|html| {
        // The text of most anchors is no such link.
        let is_shown = |text: &Text| shown_host(&text.as_bytes()).is_some();
        if !html.uris.iter().flat_map(|uri| &uri.anchor_text).any(is_shown) {
            return false;
        }
        let (mut anchors, mut is_hit) = (0, false);
        for uri in html.uris.iter().filter(|u| !u.anchor_text.is_empty()) {
            let target = uri.uri.as_bytes();
            let Some(host) = linked_host(&target) else { continue };
            let domain = boundaries.trim(host);
            let is_real = !is_address(host)
                && is_host_name(&domain)
                && boundaries.is_valid(&boundaries.trim(&domain));
            if !is_real {
                continue;
            }
            anchors += 1;
            is_hit |= uri.anchor_text.iter().any(|text| {
                let text = text.as_bytes();
                let Some(host) = shown_host(&text) else { return false };
                if is_address(host) {
                    return *host != domain[..];
                }
                let other = boundaries.trim(host);
                boundaries.is_valid(&other) && other != domain
            });
        }
        is_hit
            && f64::from(anchors) >= anchors_min
            && args.bound(1).is_none_or(|max| f64::from(anchors) < max)
    })
}

/// The host of a web link: `(?i)\Ahttps?://([^/:?#]+)`.
fn linked_host(uri: &[u8]) -> Option<&[u8]> {
    let after = uri.split_at_checked(4).filter(|(http, _)| http.eq_ignore_ascii_case(b"http"))?.1;
    let after = after.strip_prefix(b"s").or(after.strip_prefix(b"S")).unwrap_or(after);
    let host = after.strip_prefix(b"://")?;
    let end = host.iter().position(|b| b"/:?#".contains(b)).unwrap_or(host.len());
    Some(&host[..end]).filter(|host| !host.is_empty())
}

/// The host of the first link in a text: `(?i)https://([^\s/:?#]+)`.
fn shown_host(text: &[u8]) -> Option<&[u8]> {
    memchr::memchr_iter(b':', text).find_map(|colon| {
        let host = text[colon..].strip_prefix(b"://")?;
        let scheme = text.get(colon.checked_sub(5)?..colon)?;
        let end = host.iter().position(|b| is_space(*b) || b"/:?#".contains(b));
        let host = &host[..end.unwrap_or(host.len())];
        (scheme.eq_ignore_ascii_case(b"https") && !host.is_empty()).then_some(host)
    })
}

/// `check_for_http_redirector()`: a link inside a link, to another domain.
pub(super) fn redirector(cx: &EvalContext<'_>, _: &Args) -> bool {
    let nested = re!(r"(?i)\Ahttps?://([^/:?]+).+?(https?:/{0,2}?([^/:?]+).*)\z");
    let domain = |host: &[u8]| cx.tables.boundaries.trim(host);
    cx.views.uris().iter().any(|uri| {
        let mut rest = uri.text.clone();
        while let Some(found) = nested.captures(&rest) {
            if domain(&found[1]) != domain(&found[3]) {
                return true;
            }
            let inner = found[2].to_vec();
            rest = inner;
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_of_the_patterns() {
        let link = re!(r"(?i)\Ahttps?://([^/:?#]+)");
        let shown = re!(r"(?i)https://([^\s/:?#]+)");
        let pieces =
            ["http", "HTTPS", "https", "s", "://", ":", "/", "a", "b.c", "?", "#", " ", "x"];
        let mut seed = 5u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..6 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let text = text.as_bytes();
            let group = |found: Option<regex::bytes::Captures<'_>>| {
                found.and_then(|c| c.get(1)).map(|m| m.as_bytes().to_vec())
            };
            let text_shown = String::from_utf8_lossy(text);
            assert_eq!(linked_host(text), group(link.captures(text)).as_deref(), "{text_shown}");
            assert_eq!(shown_host(text), group(shown.captures(text)).as_deref(), "{text_shown}");
        }
    }
}
