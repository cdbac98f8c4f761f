//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: a login without the password on the wire, and
//! without the password in our files.

use ring::{digest, hmac};

/// Longest message of a client that is read, in bytes.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Bytes of keys: SHA-256.
pub const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// What is kept of a password (RFC 5802 section 3).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Salt.
    pub salt: Vec<u8>,
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// `H(ClientKey)`.
    pub stored_key: [u8; KEY_BYTES],
    /// `ServerKey`.
    pub server_key: [u8; KEY_BYTES],
    /// `H(ClientKey)` and `ServerKey` of further passwords of the same login, with the same salt and
    /// rounds: which of them the client has is known by its proof only.
    pub others: Vec<([u8; KEY_BYTES], [u8; KEY_BYTES])>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Of a password, salted so. Takes `iterations` rounds of time. Passwords of other letters than ASCII
    /// are taken as they are: clients normalise them (RFC 4013) in what is ASCII and rarely otherwise.
    pub fn of(password: &str, salt: &[u8], iterations: u32) -> Self {
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

/// A client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct First {
    /// Login.
    pub user: String,
    /// The message without what comes before the login, for the proof.
    bare: String,
    /// The client's own nonce.
    nonce: String,
    /// What the last message repeats of the first: `n,,` and the like.
    head: String,
}

impl First {
    /// Reads it. None if it is malformed, or wants to bind the channel or another identity, which is not
    /// offered.
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
        (own && !nonce.is_empty() && !user.is_empty()).then_some(First { user, bare, nonce, head })
    }
}

/// `=2C` is a comma, `=3D` an equals sign.
fn unescape(name: &str) -> Option<String> {
    let clean = name.replace("=2C", ",").replace("=3D", "\u{0}");
    (!clean.contains('=') && !name.contains('\u{0}')).then(|| clean.replace('\u{0}', "="))
}

/// An exchange between the server's challenge and the client's proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    credentials: Credentials,
    /// `client-first-bare,server-first,`.
    so_far: String,
    /// Both nonces.
    nonce: String,
    /// What the client has to repeat, in base64.
    head: String,
}

impl Exchange {
    /// Challenges the client: the exchange, and what to say. `nonce` is our part, of visible characters
    /// without commas.
    pub fn challenge(first: &First, credentials: Credentials, nonce: &str) -> (Self, String) {
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = base64_simd::STANDARD.encode_to_string(&credentials.salt);
        let said = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let so_far = format!("{},{said},", first.bare);
        let head = base64_simd::STANDARD.encode_to_string(&first.head);
        (Exchange { credentials, so_far, nonce, head }, said)
    }

    /// Checks the client's last message: what to say so that it knows us too. None if the proof is none.
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
        let all = format!("{}{without_proof}", self.so_far);
        let fits = |stored: &[u8; KEY_BYTES]| {
            let signature = mac(stored, all.as_bytes());
            let key: Vec<u8> = proof.iter().zip(signature).map(|(p, s)| p ^ s).collect();
            // Digests of a secret: how they differ tells nothing of use, so the time may depend on it.
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

    /// The example of RFC 7677 section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = base64_simd::STANDARD.decode_to_vec("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credentials = Credentials::of("pencil", &salt, 4_096);
        let first = First::read("n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        assert_eq!(first.user, "user");
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (exchange, said) = Exchange::challenge(&first, credentials, nonce);
        assert_eq!(
            said,
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
        let user = |text: &str| First::read(text).map(|f| f.user);
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
