//! Links: what is shown against where they lead.

use super::text::re;
use super::{Args, EvalContext, net};
use crate::boundaries::is_host_name;

/// `check_uri_truncated()`: a link was longer than the limit.
pub(super) fn truncated(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.views.uri_details().truncated
}

/// `check_https_ip_mismatch()`: the text shows https, the link leads to a bare address.
pub(super) fn https_address_mismatch(cx: &EvalContext<'_>, _: &Args) -> bool {
    let address = re!(r"(?i)\Ahttps?:/*(?:[^@/]+@)?\d+\.\d+\.\d+\.\d+");
    let same = re!(r"(?i)\Ahttps:/*(?:[^@/]+@)?\d+\.\d+\.\d+\.\d+");
    cx.html().any(|html| {
        let suspects = html.uris.iter().filter(|u| address.is_match(&u.uri.bytes()));
        suspects.flat_map(|u| &u.anchor_text).any(|text| {
            let text = text.bytes();
            !same.is_match(&text) && re!("(?i)https:").is_match(&text)
        })
    })
}

/// `check_https_http_mismatch([anchors_min], [anchors_max])`: the text shows an https link to one
/// domain, the link leads to another; among so many anchors.
pub(super) fn https_domain_mismatch(cx: &EvalContext<'_>, args: &Args) -> bool {
    let boundaries = &cx.tables.boundaries;
    let anchors_min = args.bound(0).filter(|&n| n != 0.0).unwrap_or(1.0);
    let link = re!(r"(?i)\Ahttps?://([^/:?#]+)");
    let shown = re!(r"(?i)https://([^\s/:?#]+)");
    let is_address = |host: &[u8]| net::address(host).is_some();
    cx.html().any(|html| {
        let (mut anchors, mut is_hit) = (0, false);
        for uri in html.uris.iter().filter(|u| !u.anchor_text.is_empty()) {
            let target = uri.uri.bytes();
            let Some(found) = link.captures(&target) else { continue };
            let domain = boundaries.trim(&found[1]);
            let is_real = !is_address(&found[1])
                && is_host_name(&domain)
                && boundaries.is_valid(&boundaries.trim(&domain));
            if !is_real {
                continue;
            }
            anchors += 1;
            is_hit |= uri.anchor_text.iter().any(|text| {
                let text = text.bytes();
                let Some(found) = shown.captures(&text) else { return false };
                if is_address(&found[1]) {
                    return found[1] != domain[..];
                }
                let other = boundaries.trim(&found[1]);
                boundaries.is_valid(&other) && other != domain
            });
        }
        is_hit
            && f64::from(anchors) >= anchors_min
            && args.bound(1).is_none_or(|max| f64::from(anchors) < max)
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
