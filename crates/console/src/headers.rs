//! Headers that keep a browser from doing what a hostile message would like.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Of pages: nothing but our own files; no inline script or style anywhere.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

/// Of a message's own HTML in its frame: its inline styles and nothing else; no script, no request,
/// no form, no navigation of anything but itself; an origin of its own.
pub(crate) const PREVIEW_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'self'; sandbox";

const ALWAYS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// Adds the headers that every answer carries, except those that it has already.
pub(crate) fn secure(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(PAGE_POLICY));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let framing =
        if headers.get(header::CONTENT_SECURITY_POLICY).is_some_and(|p| p == PREVIEW_POLICY) {
            "SAMEORIGIN"
        } else {
            "DENY"
        };
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static(framing));
}
