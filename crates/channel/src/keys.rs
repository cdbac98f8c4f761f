//! Ed25519 keys: public ones as metadata hold them, private ones as PKCS#8 files (RFC 8410).

use std::path::{Path, PathBuf};

use base64_simd::STANDARD;
use gauntlet_store::{files, random};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::canonical::canonical;
use crate::error::Error;
use crate::hex;

/// The kind of key and of signature that counts here.
const ED25519_NAME: &str = "ed25519";
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// What stands before the 32 bytes of a private key (RFC 8410, section 7): without the public key,
/// which OpenSSL 3.0 does not read.
const PKCS8_BEGIN: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// A file of a private key has about 120 bytes.
const KEY_FILE_BYTES_MAX: u64 = 8 << 10;

/// A public key as metadata hold it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PublicKey {
    keytype: String,
    scheme: String,
    keyval: KeyValue,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct KeyValue {
    public: String,
}

impl PublicKey {
    /// Of 32 bytes.
    pub fn ed25519(public: &[u8]) -> Self {
        let name = || ED25519_NAME.to_owned();
        let keyval = KeyValue { public: hex::encode(public) };
        PublicKey { keytype: name(), scheme: name(), keyval }
    }

    /// Its id: the SHA-256 of its canonical form.
    pub fn id(&self) -> String {
        let value = serde_json::json!({
            "keytype": self.keytype, "scheme": self.scheme,
            "keyval": { "public": self.keyval.public },
        });
        // There is no number in it, so it has a canonical form.
        hex::sha256(&canonical(&value).unwrap_or_default())
    }

    /// The bytes, if it is of the kind that counts here: others are as if they were not there.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let is_known = self.keytype == ED25519_NAME && self.scheme == ED25519_NAME;
        is_known.then(|| hex::decode(&self.keyval.public)).flatten().filter(|key| key.len() == 32)
    }

    /// Whether this signature (in hexadecimal digits) of these bytes was made with this key.
    pub fn verifies(&self, signed: &[u8], signature: &str) -> bool {
        let (Some(key), Some(signature)) = (self.bytes(), hex::decode(signature)) else {
            return false;
        };
        UnparsedPublicKey::new(&ED25519, key).verify(signed, &signature).is_ok()
    }
}

/// A private key.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    path: PathBuf,
}

impl std::fmt::Debug for SigningKey {
    /// Leaves out the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Makes a key and writes it into a file that only its owner may read. An existing file is
    /// never replaced.
    ///
    /// # Errors
    /// If it is there already, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        if path.exists() {
            let why = "is there already, and a key is never replaced".to_owned();
            return Err(Error::Key { path: path.to_owned(), why });
        }
        let seed = random::array::<32>().map_err(Error::io(path))?;
        let body = STANDARD.encode_to_string([&PKCS8_BEGIN[..], &seed].concat());
        let text = format!("{PEM_BEGIN}\n{body}\n{PEM_END}\n");
        files::write_durably(path, text.as_bytes()).map_err(Error::io(path))?;
        Self::load(path)
    }

    /// Reads a key: PKCS#8 in PEM, with or without the public key, as `openssl genpkey` makes it.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let bad = |why: &str| Error::Key { path: path.to_owned(), why: why.to_owned() };
        let bytes = std::fs::metadata(path).map_err(Error::io(path))?.len();
        if bytes > KEY_FILE_BYTES_MAX {
            return Err(bad("too large for a private key"));
        }
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        let none =
            "no Ed25519 key in PKCS#8 and PEM; `openssl genpkey -algorithm ed25519` makes one";
        let body = text.split_once(PEM_BEGIN).and_then(|(_, rest)| rest.split_once(PEM_END));
        let body = body.ok_or_else(|| bad(none))?.0;
        let body: String = body.split_ascii_whitespace().collect();
        let der = STANDARD.decode_to_vec(body).map_err(|_| bad(none))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| bad(none))?;
        Ok(SigningKey { pair, path: path.to_owned() })
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey::ed25519(self.pair.public_key().as_ref())
    }

    /// A signature in hexadecimal digits.
    pub fn sign(&self, bytes: &[u8]) -> String {
        hex::encode(self.pair.sign(bytes).as_ref())
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
