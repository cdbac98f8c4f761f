//! Passwords: hashing, setting and verifying them.

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use rusqlite::{OptionalExtension, Row, params};

use super::audit::audit;
use super::{COLUMNS, COLUMNS_COUNT, User, UserDatabase, app_passwords, scram, session, user};
use crate::error::StoreError;
use crate::random;

/// Shortest password accepted, in characters.
pub const PASSWORD_CHARS_MIN: usize = 10;
/// Longest password accepted, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Characters of a one-time password, five random bits each.
const ONE_TIME_CHARS: usize = 20;
/// Bytes of the salt.
const SALT_BYTES: usize = 16;
/// A hash that no password matches, so that verification takes as long for an unknown login.
const DUMMY_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5LXNhbHQ$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

impl UserDatabase {
    /// Generates a password of 100 random bits.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn one_time_password(&self) -> Result<String, StoreError> {
        random::text(ONE_TIME_CHARS)
    }

    /// Sets a password, ends all sessions of the user, and revokes their app passwords: the old
    /// password may have been stolen. False if there is no such user.
    ///
    /// # Errors
    /// If the password is invalid, or the change could not be made durable.
    pub fn set_password(
        &self,
        login: &str,
        password: &str,
        must_change: bool,
        who: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let hash = hash_password(password)?;
        let scram = scram::keys_of(password)?;
        self.change(|batch| {
            let set = batch.execute(
                "UPDATE user SET hash = ?2, must_change = ?3, scram = ?4 WHERE login = ?1",
                params![login, hash, must_change, scram],
            )?;
            session::end_all(batch, login)?;
            app_passwords::revoke_all(batch, login)?;
            if set == 1 {
                audit(batch, now_ms, who, "set password", login, "")?;
            }
            Ok(set == 1)
        })
    }

    /// The user, if the password is right. Takes as long for an unknown login. Takes tens of
    /// milliseconds and 19 MB by design: the caller limits the rate.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify(&self, login: &str, password: &str) -> Result<Option<User>, StoreError> {
        let found = self.read(|c| {
            let sql = format!("SELECT {COLUMNS}, hash FROM user WHERE login = ?1");
            let mut find = c.prepare_cached(&sql)?;
            let row = |row: &Row<'_>| Ok((user(row)?, row.get::<_, String>(COLUMNS_COUNT)?));
            find.query_row([login], row).optional()
        })?;
        let hash = found.as_ref().map(|(_, hash)| hash.as_str()).filter(|h| !h.is_empty());
        let hash = hash.unwrap_or(DUMMY_HASH);
        let fits = password.len() <= PASSWORD_BYTES_MAX
            && PasswordHash::new(hash).is_ok_and(|hash| {
                Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
            });
        Ok(found.map(|(user, _)| user).filter(|_| fits))
    }
}

pub(super) fn hash_password(password: &str) -> Result<String, StoreError> {
    let invalid = |cause| StoreError::Invalid { what: "password", cause };
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        let cause = format!("{PASSWORD_CHARS_MIN} characters to {PASSWORD_BYTES_MAX} bytes");
        return Err(invalid(format!("a password has {cause}")));
    }
    let salt = SaltString::encode_b64(&random::bytes(SALT_BYTES)?);
    let salt = salt.map_err(|e| invalid(e.to_string()))?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    Ok(hash.map_err(|e| invalid(e.to_string()))?.to_string())
}
