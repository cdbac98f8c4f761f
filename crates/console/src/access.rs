//! Signing in: the session's cookie, and the state of a single sign-on.

use axum::http::{HeaderMap, header};

/// Name of the session's cookie.
const COOKIE: &str = "gauntlet_session";
/// Before the names of cookies over HTTPS: browsers take such a cookie only from this very host,
/// over HTTPS (RFC 6265bis section 4.1.3.2), so that neither a neighbouring host nor an attacker on
/// the network path can put theirs in its place.
const HOST_ONLY: &str = "__Host-";

fn name(bare: &str, https: bool) -> String {
    if https { format!("{HOST_ONLY}{bare}") } else { bare.to_owned() }
}

/// The session's token of a request.
pub(crate) fn token(headers: &HeaderMap, https: bool) -> Option<&str> {
    named(headers, &name(COOKIE, https))
}

/// The cookie of this name.
fn named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    let pairs = cookies.flat_map(|c| c.split(';')).filter_map(|p| p.trim().split_once('='));
    pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value).next()
}

/// The header's value that sets the session's cookie; an empty token takes it away.
pub(crate) fn cookie(token: &str, https: bool) -> String {
    let secure = if https { "; Secure" } else { "" };
    let end = if token.is_empty() { "; Max-Age=0" } else { "" };
    let name = name(COOKIE, https);
    format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{end}")
}

/// Name of the cookie that binds a single sign-on to its browser.
const STATE_COOKIE: &str = "gauntlet_sign_in";

/// The state of a single sign-on that this browser began.
pub(crate) fn state(headers: &HeaderMap, https: bool) -> Option<&str> {
    named(headers, &name(STATE_COOKIE, https))
}

/// The header's value that sets it. `Lax`: the way back comes from the provider's site.
pub(crate) fn state_cookie(state: &str, https: bool) -> String {
    let secure = if https { "; Secure" } else { "" };
    // Names of one host only go with the path of all of it.
    let path = if https { "/" } else { "/sign-in/oidc" };
    let name = name(STATE_COOKIE, https);
    format!("{name}={state}; Path={path}; HttpOnly; SameSite=Lax; Max-Age=600{secure}")
}

/// Equality in constant time: where they differ does not show in it.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, "a=b; gauntlet_session=xyz; c=d".parse().unwrap());
        assert_eq!(token(&headers, false), Some("xyz"));
        assert_eq!(token(&headers, true), None, "a neighbouring host may have set it");
        headers.append(header::COOKIE, "__Host-gauntlet_session=abc".parse().unwrap());
        assert_eq!(token(&headers, true), Some("abc"));
        assert_eq!(token(&headers, false), Some("xyz"));
        let set = cookie("abc", true);
        assert!(set.starts_with("__Host-gauntlet_session=abc; Path=/;"), "{set}");
        assert!(set.contains("; Secure") && !set.contains("Domain"), "{set}");
        let set = state_cookie("abc", true);
        assert!(set.starts_with("__Host-gauntlet_sign_in=abc; Path=/;"), "{set}");
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("", "a"));
    }
}
