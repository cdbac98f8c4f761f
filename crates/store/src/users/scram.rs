//! Stored SCRAM-SHA-256 keys (RFC 7677), which verify a password without revealing it directly to a
//! reader of the file.

use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};
use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use super::{COLUMNS, COLUMNS_COUNT, User, UserDatabase, user};
use crate::error::StoreError;
use crate::random;

/// PBKDF2 iterations: RFC 7677 asks for 4,096 at least. Each guess at a stolen file costs as many.
pub const SCRAM_ITERATIONS: u32 = 100_000;
/// Length of the PBKDF2 salt in bytes.
pub const SCRAM_SALT_BYTES: usize = 16;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The keys of one password (RFC 5802 section 3).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramKeys {
    /// Salt of PBKDF2, random for each login.
    pub salt: Vec<u8>,
    /// Iterations of PBKDF2, which make guessing slow.
    pub iterations: u32,
    /// `StoredKey`: `H(ClientKey)`, which checks a client's proof.
    pub stored_key: [u8; KEY_BYTES],
    /// `ServerKey`, which proves the server to the client.
    pub server_key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramKeys").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// Derives the keys of a new password, as the table stores them.
pub(super) fn keys_of(password: &str) -> Result<String, StoreError> {
    keys_with(password, None)
}

/// The same, with this salt if there is one.
pub(super) fn keys_with(password: &str, salt: Option<Vec<u8>>) -> Result<String, StoreError> {
    let salt = salt.map_or_else(|| random::bytes(SCRAM_SALT_BYTES), Ok)?;
    let rounds = NonZeroU32::new(SCRAM_ITERATIONS).unwrap_or(NonZeroU32::MIN);
    let mut salted = [0; KEY_BYTES];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, rounds, &salt, password.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let array = |bytes: &[u8]| bytes.try_into().unwrap_or([0; KEY_BYTES]);
    let client_key = hmac::sign(&key, b"Client Key");
    let keys = ScramKeys {
        salt,
        iterations: rounds.get(),
        stored_key: array(digest::digest(&digest::SHA256, client_key.as_ref()).as_ref()),
        server_key: array(hmac::sign(&key, b"Server Key").as_ref()),
    };
    Ok(serde_json::to_string(&keys).unwrap_or_default())
}

impl UserDatabase {
    /// The user and the SCRAM keys of their password. None for an unknown login, or a password that
    /// was set before such keys were stored.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn scram(&self, login: &str) -> Result<Option<(User, ScramKeys)>, StoreError> {
        let found = self.read(|c| {
            let sql = format!("SELECT {COLUMNS}, scram FROM user WHERE login = ?1");
            let row =
                |row: &rusqlite::Row<'_>| Ok((user(row)?, row.get::<_, String>(COLUMNS_COUNT)?));
            c.prepare_cached(&sql)?.query_row([login], row).optional()
        })?;
        Ok(found.and_then(|(user, keys)| Some((user, serde_json::from_str(&keys).ok()?))))
    }
}
