//! Any bytes as a provider's keys, an id_token and its claims: a token counts only if it is the one
//! that the provider signed, and claims only if each of them says so.

use gauntlet_console::oidc::token::{Keys, check, signed_in_since};
use serde_json::Value;

/// A token made for these tests, and the public key that verifies it; the private key was thrown
/// away.
const SIGNED: &str = include_str!("id_tokens/signed");

const ISSUER: &str = "https://op.example";
const NOW_MS: i64 = 1_800_000_000_000;

/// The input's lines: a JWK set, a token, claims.
pub(crate) fn ask(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (set, token, claims) = (next(), next(), next());
    let set: Value = serde_json::from_str(set).unwrap_or_default();
    let mut genuine = SIGNED.lines();
    let genuine_set: Value =
        serde_json::from_str(genuine.next().unwrap_or_default()).expect("keys");
    let genuine = genuine.next().expect("a token");

    let _any_keys_are_fine = Keys::read(&set).verify(genuine);
    let found = Keys::read(&genuine_set).verify(token);
    if let Ok(claims) = &found {
        assert_eq!(signed_part(token), signed_part(genuine), "only what was signed counts");
        assert_eq!(claims["sub"], "7");
    }
    // An algorithm that a key does not have, or none at all, verifies nothing.
    if found.is_err() {
        assert!(Keys::default().verify(token).is_err());
    }
    let claims: Value =
        serde_json::from_str(claims.lines().next().unwrap_or_default()).unwrap_or_default();
    check_claims(&claims);
}

fn signed_part(token: &str) -> &str {
    token.rsplit_once('.').map_or("", |(signed, _)| signed)
}

/// What was accepted, by another reading of OpenID Connect Core section 3.1.3.7.
fn check_claims(claims: &Value) {
    if check(claims, ISSUER, "gauntlet", "n", NOW_MS).is_ok() {
        let text = |name: &str| claims[name].as_str().unwrap_or_default();
        assert_eq!(text("iss").trim_end_matches('/'), ISSUER);
        assert_eq!(text("nonce"), "n");
        assert!(!text("sub").is_empty());
        let seconds = (NOW_MS / 1_000) as f64;
        assert!(claims["exp"].as_f64().expect("an end") > seconds - 61.0);
        assert!(claims["nbf"].as_f64().is_none_or(|from| from < seconds + 61.0));
        let of_many = claims["aud"].as_array().map_or(0, Vec::len) > 1;
        let names_us = |aud: &Value| aud == "gauntlet";
        let aud = &claims["aud"];
        assert!(names_us(aud) || aud.as_array().is_some_and(|all| all.iter().any(names_us)));
        assert!(!claims["azp"].is_string() || claims["azp"] == "gauntlet");
        assert!(!of_many || claims["azp"] == "gauntlet");
    }
    if signed_in_since(claims, NOW_MS - 60_000, NOW_MS).is_ok() {
        let at = claims["auth_time"].as_f64().expect("a time");
        let now = (NOW_MS / 1_000) as f64;
        assert!((now - 121.0..now + 62.0).contains(&at), "{at}");
    }
}
