//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: authentication without the password on
//! the wire or in stored files.

use ring::{digest, hmac};

/// Longest client message that is parsed, in bytes.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Bytes of keys: SHA-256.
pub const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// What the server stores of a password (RFC 5802 section 3).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Salt of PBKDF2, random for each login.
    pub salt: Vec<u8>,
    /// Iterations of PBKDF2, which make guessing slow.
    pub iterations: u32,
    /// `StoredKey`: `H(ClientKey)`, which checks a client's proof.
    pub stored_key: [u8; KEY_BYTES],
    /// `ServerKey`, which proves the server to the client.
    pub server_key: [u8; KEY_BYTES],
    /// `StoredKey` and `ServerKey` of further passwords of the same login, with the same salt and
    /// iterations: which of them the client has is known only from its proof.
    pub others: Vec<([u8; KEY_BYTES], [u8; KEY_BYTES])>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Derives the credentials of a password, in the time of `iterations` rounds. Non-ASCII
    /// passwords are used as they are, without SASLprep (RFC 4013): clients normalise ASCII alike
    /// and the rest rarely.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let mut salted = [0; KEY_BYTES];
        let rounds = std::num::NonZeroU32::new(iterations).unwrap_or(std::num::NonZeroU32::MIN);
        let algorithm = ring::pbkdf2::PBKDF2_HMAC_SHA256;
        ring::pbkdf2::derive(algorithm, rounds, salt, password.as_bytes(), &mut salted);
        let client_key = mac(&salted, b"Client Key");
        let stored_key = hash(&client_key);
        let server_key = mac(&salted, b"Server Key");
        let (salt, iterations) = (salt.to_vec(), rounds.get());
        Credentials { salt, iterations, stored_key, server_key, others: Vec::new() }
    }
}

fn mac(key: &[u8], text: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().try_into().unwrap_or([0; KEY_BYTES])
}

fn hash(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().unwrap_or([0; KEY_BYTES])
}

/// The client's first message (RFC 5802 section 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// Login name, with `=2C` and `=3D` undone.
    pub user: String,
    /// client-first-message-bare, for the proof.
    bare: String,
    /// The client's part of the nonce.
    nonce: String,
    /// The GS2 header, which the final message repeats: `n,,` and the like.
    head: String,
}

impl ClientFirst {
    /// Parses it. None if it is malformed, or asks for channel binding or another authorization
    /// identity, which are not offered.
    pub fn read(message: &str) -> Option<Self> {
        if message.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let mut parts = message.splitn(3, ',');
        let (binding, identity, bare) = (parts.next()?, parts.next()?, parts.next()?);
        if !matches!(binding, "n" | "y") {
            return None;
        }
        let mut fields = bare.split(',');
        let user = unescape(fields.next()?.strip_prefix("n=")?)?;
        let nonce = fields.next()?.strip_prefix("r=")?.to_owned();
        let own = identity.is_empty() || identity.strip_prefix("a=").and_then(unescape)? == user;
        let (bare, head) = (bare.to_owned(), format!("{binding},{identity},"));
        (own && !nonce.is_empty() && !user.is_empty()).then_some(ClientFirst {
            user,
            bare,
            nonce,
            head,
        })
    }
}

/// `=2C` is a comma, `=3D` an equals sign.
fn unescape(name: &str) -> Option<String> {
    let clean = name.replace("=2C", ",").replace("=3D", "\u{0}");
    (!clean.contains('=') && !name.contains('\u{0}')).then(|| clean.replace('\u{0}', "="))
}

/// A SCRAM exchange between the server's challenge and the client's proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    credentials: Credentials,
    /// `client-first-message-bare,server-first-message,`: the start of AuthMessage.
    auth_message: String,
    /// Client and server nonce together.
    nonce: String,
    /// The GS2 header that the client has to repeat, in base64.
    head: String,
}

impl Exchange {
    /// Starts the exchange: returns it and the server-first-message. `nonce` is the server's part,
    /// of visible characters without commas.
    pub fn challenge(first: &ClientFirst, credentials: Credentials, nonce: &str) -> (Self, String) {
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = base64_simd::STANDARD.encode_to_string(&credentials.salt);
        let server_first = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let auth_message = format!("{},{server_first},", first.bare);
        let head = base64_simd::STANDARD.encode_to_string(&first.head);
        (Exchange { credentials, auth_message, nonce, head }, server_first)
    }

    /// Verifies the client-final-message. Returns the server-final-message; none if the proof is
    /// wrong.
    pub fn verify(&self, message: &str) -> Option<String> {
        if message.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let expected = format!("c={},r={}", self.head, self.nonce);
        let proof = base64_simd::STANDARD.decode_to_vec(proof).ok()?;
        if without_proof != expected || proof.len() != KEY_BYTES {
            return None;
        }
        let all = format!("{}{without_proof}", self.auth_message);
        let fits = |stored: &[u8; KEY_BYTES]| {
            let signature = mac(stored, all.as_bytes());
            let key: Vec<u8> = proof.iter().zip(signature).map(|(p, s)| p ^ s).collect();
            // These are hashes of a secret, so the time of the comparison may depend on where they
            // differ.
            hash(&key) == *stored
        };
        let Credentials { stored_key, server_key, others, .. } = &self.credentials;
        let mut all_keys = std::iter::once((stored_key, server_key))
            .chain(others.iter().map(|(stored, server)| (stored, server)));
        let (_, server_key) = all_keys.find(|(stored, _)| fits(stored))?;
        let signature = mac(server_key, all.as_bytes());
        Some(format!("v={}", base64_simd::STANDARD.encode_to_string(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector of RFC 7677 section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = base64_simd::STANDARD.decode_to_vec("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credentials = Credentials::derive("pencil", &salt, 4_096);
        let first = ClientFirst::read("n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        assert_eq!(first.user, "user");
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (exchange, server_first) = Exchange::challenge(&first, credentials, nonce);
        assert_eq!(
            server_first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = exchange.verify(last);
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(exchange.verify(&last.replace("p=d", "p=e")), None);
        assert_eq!(exchange.verify(&last.replace("c=biws", "c=eSws")), None);
        assert_eq!(exchange.verify(&last.replace("FIlj", "FIlk")), None);
    }

    #[test]
    fn first_messages() {
        let user = |text: &str| ClientFirst::read(text).map(|f| f.user);
        assert_eq!(user("y,,n=a=2Cb=3Dc,r=x").as_deref(), Some("a,b=c"));
        assert_eq!(user("n,a=ann,n=ann,r=x").as_deref(), Some("ann"));
        for bad in [
            "",
            "n,,",
            "n,,n=,r=x",
            "n,,n=u",
            "n,,n=u,r=",
            "p=tls-exporter,,n=u,r=x",
            "n,a=boss,n=ann,r=x",
            "n,,n=a=2,r=x",
            "n,,m=ext,n=u,r=x",
        ] {
            assert_eq!(user(bad), None, "{bad}");
        }
    }
}
