//! ID tokens: JWS in compact form (RFC 7515) under RS256, PS256, ES256 or EdDSA, and what their
//! claims must say (OpenID Connect Core, section 3.1.3.7).

use base64_simd::URL_SAFE_NO_PAD;
use ring::signature;
use serde_json::Value;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// Keys of a provider.
const KEYS_MAX: usize = 50;
/// Characters of an unknown algorithm's name that are logged.
const ALGORITHM_CHARS_MAX: usize = 40;
/// Characters of another issuer's name that are logged.
const ISSUER_CHARS_MAX: usize = 200;
/// Seconds that clocks may differ.
const SKEW_SECONDS: i64 = 60;

/// Why a token does not prove a sign-in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has more than 64 KiB.
    #[error("it is too long")]
    TooLong,
    /// It is not three parts in base64url with JSON in the first two.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// Its header field `crit` names extensions that must be understood (RFC 7515 section 4.1.11).
    #[error("it requires an extension that is not supported (crit)")]
    CriticalExtension,
    /// None of the provider's keys made its signature with this algorithm.
    #[error("no key of the provider signed it ({algorithm})")]
    Signature {
        /// What its header says (`alg`).
        algorithm: String,
    },
    /// Another issuer than the configured one.
    #[error("another issuer: {0:?} (iss)")]
    Issuer(String),
    /// Issued to another client.
    #[error("it is for another client (aud, azp)")]
    Audience,
    /// Its time is over, or it names none.
    #[error("it is expired (exp)")]
    Expired,
    /// It counts from a later time on.
    #[error("it is not valid yet (nbf)")]
    NotYetValid,
    /// It answers another sign-in than this browser's.
    #[error("it belongs to another sign-in (nonce)")]
    Nonce,
    /// It names no user.
    #[error("it names no user (sub)")]
    Subject,
    /// It does not say when the user signed in.
    #[error("it does not say when the user signed in (auth_time)")]
    NoAuthTime,
    /// The user signed in before this sign-in began, or after now.
    #[error("it is about an earlier sign-in (auth_time)")]
    AuthTime,
}

/// The public keys of a provider that can verify signatures (RFC 7517).
#[derive(Debug, Clone, Default)]
pub struct Keys(Vec<Key>);

#[derive(Debug, Clone)]
struct Key {
    id: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point of P-256, uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode_to_vec(value.as_str()?).ok()
}

impl Keys {
    /// The keys of a JWK set that can verify; others are left out.
    pub fn read(set: &Value) -> Self {
        let all = set["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        Keys(all.iter().take(KEYS_MAX).filter_map(Key::read).collect())
    }

    /// The claims of a token that one of the keys signed; they are not checked yet, see [`check`].
    ///
    /// # Errors
    /// The token is malformed, or no key signed it.
    pub fn verify(&self, token: &str) -> Result<Value, TokenError> {
        let malformed = |why: &str| TokenError::Malformed(why.to_owned());
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) =
            token.rsplit_once('.').ok_or_else(|| malformed("it has no signature"))?;
        let (header, claims) =
            signed.split_once('.').ok_or_else(|| malformed("it has no claims"))?;
        let header = json(header)?;
        let signature = decode(signature)?;
        if !header["crit"].is_null() {
            return Err(TokenError::CriticalExtension);
        }
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let id = header["kid"].as_str();
        let fits = |key: &&Key| id.is_none_or(|id| key.id.is_empty() || key.id == id);
        let good = self.0.iter().filter(fits).any(|key| key.signed(algorithm, signed, &signature));
        if !good {
            let algorithm = algorithm.chars().take(ALGORITHM_CHARS_MAX).collect();
            return Err(TokenError::Signature { algorithm });
        }
        json(claims)
    }
}

fn decode(text: &str) -> Result<Vec<u8>, TokenError> {
    let decoded = URL_SAFE_NO_PAD.decode_to_vec(text);
    decoded.map_err(|_| TokenError::Malformed("a part is not base64url".to_owned()))
}

fn json(part: &str) -> Result<Value, TokenError> {
    serde_json::from_slice(&decode(part)?).map_err(|e| TokenError::Malformed(e.to_string()))
}

impl Key {
    fn read(jwk: &Value) -> Option<Self> {
        if jwk["use"].as_str().is_some_and(|u| u != "sig") {
            return None;
        }
        let kind = match (jwk["kty"].as_str()?, jwk["crv"].as_str()) {
            ("RSA", _) => Kind::Rsa { n: bytes(&jwk["n"])?, e: bytes(&jwk["e"])? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&jwk["x"])?, bytes(&jwk["y"])?);
                (x.len() == 32 && y.len() == 32).then(|| Kind::P256([&[4][..], &x, &y].concat()))?
            }
            ("OKP", Some("Ed25519")) => Kind::Ed25519(bytes(&jwk["x"])?),
            _ => return None,
        };
        Some(Key { id: jwk["kid"].as_str().unwrap_or_default().to_owned(), kind })
    }

    fn signed(&self, algorithm: &str, text: &str, signature: &[u8]) -> bool {
        let text = text.as_bytes();
        let unparsed = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            signature::UnparsedPublicKey::new(algorithm, key).verify(text, signature).is_ok()
        };
        match (&self.kind, algorithm) {
            (Kind::Rsa { n, e }, "RS256" | "PS256") => {
                let parameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    _ => &signature::RSA_PSS_2048_8192_SHA256,
                };
                signature::RsaPublicKeyComponents { n, e }
                    .verify(parameters, text, signature)
                    .is_ok()
            }
            (Kind::P256(point), "ES256") => unparsed(&signature::ECDSA_P256_SHA256_FIXED, point),
            (Kind::Ed25519(key), "EdDSA") => unparsed(&signature::ED25519, key),
            // "none" and everything symmetric are never good.
            _ => false,
        }
    }
}

/// The claims are those of the provider, for us and for the sign-in with this nonce, and count now
/// (Unix time in milliseconds).
///
/// # Errors
/// The first of them that does not hold.
pub fn check(
    claims: &Value,
    issuer: &str,
    client_id: &str,
    nonce: &str,
    now_ms: i64,
) -> Result<(), TokenError> {
    let said = claims["iss"].as_str().unwrap_or_default();
    if said.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(TokenError::Issuer(said.chars().take(ISSUER_CHARS_MAX).collect()));
    }
    let (for_us, several) = match &claims["aud"] {
        Value::String(one) => (one == client_id, false),
        Value::Array(all) => (all.iter().any(|a| a == client_id), all.len() > 1),
        _ => (false, false),
    };
    let party = claims["azp"].as_str();
    if !for_us || party.is_some_and(|p| p != client_id) || (several && party.is_none()) {
        return Err(TokenError::Audience);
    }
    let now = now_ms / 1_000;
    let seconds = |name: &str| claims[name].as_f64().map(|s| s as i64);
    if seconds("exp").is_none_or(|end| end <= now - SKEW_SECONDS) {
        return Err(TokenError::Expired);
    }
    if seconds("nbf").is_some_and(|begin| begin > now + SKEW_SECONDS) {
        return Err(TokenError::NotYetValid);
    }
    if claims["nonce"].as_str() != Some(nonce) {
        return Err(TokenError::Nonce);
    }
    if claims["sub"].as_str().is_none_or(str::is_empty) {
        return Err(TokenError::Subject);
    }
    Ok(())
}

/// The user signed in at the provider after `since_ms`, as its claim `auth_time` says. Times are
/// Unix time in milliseconds.
///
/// # Errors
/// The claim is missing, or is about another sign-in.
pub fn signed_in_since(claims: &Value, since_ms: i64, now_ms: i64) -> Result<(), TokenError> {
    let at = claims["auth_time"].as_f64().map(|seconds| seconds as i64);
    let at = at.ok_or(TokenError::NoAuthTime)?;
    let range = since_ms / 1_000 - SKEW_SECONDS..=now_ms / 1_000 + SKEW_SECONDS;
    if range.contains(&at) { Ok(()) } else { Err(TokenError::AuthTime) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A key pair made for this test and thrown away, and what it signed.
    const N: &str = "zA7LxHqClpBfo9PyaMhzJnjla9TCYm_WS0p3ZEkgzT4kb1ovgPdx32rRHY8X2LWwIaD9vHANZf4k2nhQr3b56ca51qSq9AGG-W81uSFugW_anBw7Dxs0UIlNRkWJOgbSjAG7jDLMv9tFoKivBRgbMqzSnL5SbNzpAe8Mwqsn30kwy9O1RwTU4mpdJojvy58a43xoL31m5TnYFb5r1XtppoNW9tw-tBHZFD2nArAImzZrBUnibthpkF0-gLk2xXZdTapAL7BEXF3wIMvjABqClKxwoWEDRLZuJZlOgFcNYVj8oHkCHg9QtCCRSFjwzFoWoPkWPzx6P1LdEMvFwChjaQ";
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIn0.eyJpc3MiOiJodHRwczovL29wLmV4YW1wbGUiLCJhdWQiOiJnYXVudGxldCIsImV4cCI6NDEwMjQ0NDgwMCwibm9uY2UiOiJuIiwic3ViIjoiNyIsImVtYWlsIjoiYW5uQGV4YW1wbGUub3JnIn0.aToGMo6aAcVwb-O7qt018-ZLYORdVcET3aqXVa94YYXhhpS7bp3wGL6_kcm0Dyx8TWU5YrkYBPtr_MxMjdcXcTnabkH9WkdZYLq4aMlJtryECMid9bXDgxXHEwimJ5mK-rT0PfgYd6izz_Yi02lN_PzTRifrbDOVp-elYwmZKtodV_PD6xCLjhlEmi2BhyucDhXRb4ihpUUBIO_NXBs2s6U57hjgwOiEXF7-GsTsi4teAP4XgdxmxPumC7LMCbWl7DenwiE8adGA42Xjjd4Gf88GNNZYXc6MlGVhuo19LyuAH8SE7z3nDauiVynMAzByM2OgV7xdPc3BZtZlIuIEHg";

    #[test]
    fn a_token_counts_only_as_it_was_signed() {
        let keys = Keys::read(&json!({ "keys": [
            { "kty": "RSA", "kid": "r1", "n": N, "e": "AQAB" }, { "kty": "oct", "k": "AAAA" } ] }));
        let claims = keys.verify(TOKEN).unwrap();
        assert_eq!(claims["email"], "ann@example.org");
        let issuer = "https://op.example";
        assert_eq!(check(&claims, issuer, "gauntlet", "n", 1_000), Ok(()));
        let parts: Vec<&str> = TOKEN.split('.').collect();
        let encode = |text: &str| URL_SAFE_NO_PAD.encode_to_string(text);
        let none = encode("{\"alg\":\"none\"}");
        let hs256 = encode("{\"alg\":\"HS256\",\"kid\":\"r1\"}");
        for wrong in [
            format!("{none}.{}.", parts[1]),
            format!("{hs256}.{}.{}", parts[1], parts[2]),
            format!("{}.{}.{}", parts[0], encode("{\"sub\":\"1\"}"), parts[2]),
            format!("{}.{}.AAAA", parts[0], parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            "..".to_owned(),
            String::new(),
        ] {
            assert!(keys.verify(&wrong).is_err(), "{wrong}");
        }
        assert!(Keys::default().verify(TOKEN).is_err());
        let other =
            Keys::read(&json!({ "keys": [{ "kty": "RSA", "kid": "r2", "n": N, "e": "AQAB" }] }));
        assert!(other.verify(TOKEN).is_err(), "another key's name");
    }

    #[test]
    fn an_earlier_sign_in_proves_nothing_now() {
        let fits = |at: Value| signed_in_since(&json!({ "auth_time": at }), 1_000_000, 1_060_000);
        for at in [940, 1_000, 1_060, 1_120] {
            assert_eq!(fits(json!(at)), Ok(()), "{at}");
        }
        for at in [json!(939), json!(0), json!(1_121), json!("1000"), Value::Null] {
            assert!(fits(at.clone()).is_err(), "{at}");
        }
    }

    #[test]
    fn claims_of_others_do_not_count() {
        let good = json!({ "iss": "https://op.example/", "aud": ["gauntlet"], "exp": 100, "sub": "7",
            "nonce": "n" });
        let checked = |claims: &Value| check(claims, "https://op.example", "gauntlet", "n", 50_000);
        assert_eq!(checked(&good), Ok(()));
        for (name, value) in [
            ("iss", json!("https://other.example")),
            ("aud", json!("other")),
            ("aud", json!(["gauntlet", "other"])),
            ("azp", json!("other")),
            ("exp", json!(-100)),
            ("exp", Value::Null),
            ("nbf", json!(1_000)),
            ("nonce", json!("m")),
            ("nonce", Value::Null),
            ("sub", json!("")),
        ] {
            let mut claims = good.clone();
            claims[name] = value.clone();
            assert!(checked(&claims).is_err(), "{name}: {value}");
        }
    }
}
