//! Signing in: the session's cookie, and the state of a single sign-on.

use axum::http::{HeaderMap, header};

/// Name of the session's cookie.
const COOKIE: &str = "gauntlet_session";
/// The session's token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    named(headers, COOKIE)
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
    format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{end}")
}

/// Name of the cookie that binds a single sign-on to its browser.
const STATE_COOKIE: &str = "gauntlet_sign_in";

/// The state of a single sign-on that this browser began.
pub(crate) fn state(headers: &HeaderMap) -> Option<&str> {
    named(headers, STATE_COOKIE)
}

/// The header's value that sets it. `Lax`: the way back comes from the provider's site.
pub(crate) fn state_cookie(state: &str, https: bool) -> String {
    let secure = if https { "; Secure" } else { "" };
    format!(
        "{STATE_COOKIE}={state}; Path=/sign-in/oidc; HttpOnly; SameSite=Lax; Max-Age=600{secure}"
    )
}

/// Equal, in a time that tells nothing about where they differ.
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
        assert_eq!(token(&headers), Some("xyz"));
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("", "a"));
    }
}
