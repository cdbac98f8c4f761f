//! Signing in: how often it may be tried, and the session's cookie.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};

/// Name of the session's cookie.
const COOKIE: &str = "gauntlet_session";
/// Failed sign-ins within [`WINDOW`] after which an address has to wait.
pub(crate) const FAILURES_PER_CLIENT_MAX: u32 = 20;
/// Failed sign-ins of one login from one address within [`WINDOW`].
pub(crate) const FAILURES_PER_LOGIN_MAX: u32 = 5;
/// How long failures count.
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Addresses and logins remembered; beyond, those whose window is over are dropped, then all.
const REMEMBERED_MAX: usize = 10_000;

/// Counts failed sign-ins.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    failures: Mutex<HashMap<(IpAddr, String), (Instant, u32)>>,
}

impl Guard {
    /// Counts an attempt before it is made. False if it must not be made. The password check is
    /// costly, so an attempt that is under way counts as failed until [`Guard::succeeded`].
    pub(crate) fn may_try(&self, client: IpAddr, login: &str) -> bool {
        let now = Instant::now();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED_MAX {
            failures.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
            if failures.len() >= REMEMBERED_MAX {
                failures.clear();
            }
        }
        let keys = [
            ((client, String::new()), FAILURES_PER_CLIENT_MAX),
            ((client, login.to_ascii_lowercase()), FAILURES_PER_LOGIN_MAX),
        ];
        let mut may = true;
        for (key, max) in keys {
            let (since, count) = failures.entry(key).or_insert((now, 0));
            if now.duration_since(*since) >= WINDOW {
                (*since, *count) = (now, 0);
            }
            *count = count.saturating_add(1);
            may &= *count <= max;
        }
        may
    }

    /// The attempt was right: it and earlier failures of the login are forgotten.
    pub(crate) fn succeeded(&self, client: IpAddr, login: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(&(client, login.to_ascii_lowercase()));
        if let Some((_, count)) = failures.get_mut(&(client, String::new())) {
            *count = count.saturating_sub(1);
        }
    }
}

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
    fn sign_in_is_rate_limited_by_login_and_by_client() {
        let guard = Guard::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..FAILURES_PER_LOGIN_MAX {
            assert!(guard.may_try(client, "ada"));
        }
        assert!(!guard.may_try(client, "ADA"));
        assert!(guard.may_try("192.0.2.2".parse().unwrap(), "ada"));
        let tried = (0..100).filter(|n| guard.may_try(client, &n.to_string())).count();
        assert_eq!(tried as u32, FAILURES_PER_CLIENT_MAX - FAILURES_PER_LOGIN_MAX - 1);
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, "a=b; gauntlet_session=xyz; c=d".parse().unwrap());
        assert_eq!(token(&headers), Some("xyz"));
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("", "a"));
    }
}
