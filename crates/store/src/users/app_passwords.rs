//! App passwords: for SMTP AUTH only, one for each mail program, generated here and shown once. A
//! mail program stores its password and cannot ask for a second factor; so users with a second
//! factor cannot use their own password there, only app passwords.
//!
//! A password of 100 random bits needs no slow hash: only its BLAKE3 hash is stored, and its SCRAM
//! keys. All of one user share a salt, since SCRAM sends the salt before it is known which password
//! the program has; random passwords lose nothing by that.

use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::audit::audit;
use super::scram::{self, ScramKeys};
use super::{SecondFactor, User, UserDatabase};
use crate::error::StoreError;
use crate::random;

/// Most app passwords of one user.
pub const APP_PASSWORDS_MAX: i64 = 20;
/// Characters of a password, five random bits each.
const PASSWORD_CHARS: usize = 20;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Shortest time between two updates of the last use, in milliseconds.
const USED_STEP_MS: i64 = 60_000;

/// An app password without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppPassword {
    /// Name of the mail program; unique for its user.
    pub name: String,
    /// Time of creation, in Unix milliseconds.
    pub created_ms: i64,
    /// Time of its last use by PLAIN or LOGIN, within a minute, in Unix milliseconds; none if there
    /// was none. SCRAM does not show which password was used.
    pub used_ms: Option<i64>,
}

fn invalid(cause: String) -> StoreError {
    StoreError::Invalid { what: "app password", cause }
}

impl UserDatabase {
    /// Generates an app password and returns it; it is not stored. None if there is no such user.
    ///
    /// # Errors
    /// If the name is invalid or taken, there are [`APP_PASSWORDS_MAX`] already, or the change
    /// could not be made durable.
    pub fn add_app_password(
        &self,
        login: &str,
        name: &str,
        who: &str,
        now_ms: i64,
    ) -> Result<Option<String>, StoreError> {
        let fit = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !fit {
            return Err(invalid(format!(
                "{name:?} is no name: letters, digits, '-', '_' and '.', at most {NAME_BYTES_MAX}"
            )));
        }
        let password = random::text(PASSWORD_CHARS)?;
        let salt = self.stored_scram_keys(login)?.into_iter().next().map(|keys| keys.salt);
        let keys = scram::keys_with(&password, salt)?;
        let added = self.change(|batch| {
            let sql = "SELECT login FROM user WHERE login = ?1";
            let found: Option<String> =
                batch.query_row(sql, [login], |row| row.get(0)).optional()?;
            let Some(login) = found else { return Ok(None) };
            let sql = "SELECT count(*) FROM app_password WHERE login = ?1";
            let count: i64 = batch.query_row(sql, [&login], |row| row.get(0))?;
            if count >= APP_PASSWORDS_MAX {
                return Ok(Some(Err(StoreError::Full {
                    what: "the list of app passwords".to_owned(),
                    limit: APP_PASSWORDS_MAX.cast_unsigned(),
                    hint: "revoke those that are not needed any more",
                })));
            }
            let added = batch.execute(
                "INSERT OR IGNORE INTO app_password (login, name, hash, scram, created_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![login, name, hash(&password), keys, now_ms],
            )?;
            if added == 0 {
                let cause = format!("there is one named {name:?} already; revoke it first");
                return Ok(Some(Err(invalid(cause))));
            }
            audit(batch, now_ms, who, "add app password", &login, name)?;
            Ok(Some(Ok(())))
        })?;
        added.transpose().map(|added| added.map(|()| password))
    }

    /// The app passwords of a user, by name.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn app_passwords(&self, login: &str) -> Result<Vec<AppPassword>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT name, created_ms, used_ms FROM app_password WHERE login = ?1 ORDER BY name",
            )?;
            let rows = find.query_map([login], |row| {
                let (name, created_ms) = (row.get(0)?, row.get(1)?);
                Ok(AppPassword { name, created_ms, used_ms: row.get(2)? })
            })?;
            rows.collect()
        })
    }

    /// Revokes an app password. False if there is none of this name.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn revoke_app_password(
        &self,
        login: &str,
        name: &str,
        who: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        self.change(|batch| {
            let sql = "DELETE FROM app_password WHERE login = ?1 AND name = ?2";
            let gone = batch.execute(sql, [login, name])? > 0;
            if gone {
                audit(batch, now_ms, who, "revoke app password", login, name)?;
            }
            Ok(gone)
        })
    }

    /// Whether a user has a password for the console.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn has_password(&self, login: &str) -> Result<bool, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached("SELECT hash <> '' FROM user WHERE login = ?1")?;
            Ok(find.query_row([login], |row| row.get(0)).optional()?.unwrap_or(false))
        })
    }

    /// Authenticates a mail program: by an app password, or by the user's own password unless they
    /// have a second factor. None for one-time passwords. Takes as long as
    /// [`UserDatabase::verify`].
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn mail_login(
        &self,
        login: &str,
        password: &str,
        now_ms: i64,
    ) -> Result<Option<User>, StoreError> {
        if let Some(user) = self.by_app_password(login, password, now_ms)? {
            return Ok(Some(user).filter(|u| !u.must_change));
        }
        // Verified in any case, so that the time does not reveal who has a second factor.
        let user = self.verify(login, password)?.filter(|u| !u.must_change);
        let own_counts = !matches!(self.second_factor(login)?, SecondFactor::On { .. });
        Ok(user.filter(|_| own_counts))
    }

    /// The user, and the SCRAM keys of the passwords that [`UserDatabase::mail_login`] accepts; all
    /// have one salt. None if there are none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn mail_scram(&self, login: &str) -> Result<Option<(User, Vec<ScramKeys>)>, StoreError> {
        let Some(user) = self.find_user(login)?.filter(|u| !u.must_change) else { return Ok(None) };
        let mut keys = self.stored_scram_keys(login)?;
        if matches!(self.second_factor(login)?, SecondFactor::On { .. }) {
            let own = self.scram(login)?.map(|(_, keys)| keys);
            keys.retain(|k| Some(k) != own.as_ref());
        }
        Ok((!keys.is_empty()).then_some((user, keys)))
    }

    /// The salt, [`SCRAM_SALT_BYTES`] bytes, of a challenge for an unknown login: the same each
    /// time, also after a restart, as that of an existing login.
    ///
    /// # Errors
    /// If the database cannot be read, or the key, generated by the first call, cannot be written.
    ///
    /// [`SCRAM_SALT_BYTES`]: super::SCRAM_SALT_BYTES
    pub fn scram_decoy(&self, login: &str) -> Result<Vec<u8>, StoreError> {
        let key = self.stored_key("decoys")?;
        let fake = blake3::keyed_hash(&key, login.to_lowercase().as_bytes());
        Ok(fake.as_bytes().get(..super::SCRAM_SALT_BYTES).unwrap_or_default().to_vec())
    }

    fn by_app_password(
        &self,
        login: &str,
        password: &str,
        now_ms: i64,
    ) -> Result<Option<User>, StoreError> {
        let found = self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT name, used_ms FROM app_password WHERE login = ?1 AND hash = ?2",
            )?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            find.query_row(params![login, hash(password)], row).optional()
        })?;
        let Some((name, used)): Option<(String, Option<i64>)> = found else { return Ok(None) };
        if used.is_none_or(|used| now_ms - used > USED_STEP_MS) {
            self.change(|batch| {
                let sql = "UPDATE app_password SET used_ms = ?3 WHERE login = ?1 AND name = ?2";
                batch.execute(sql, params![login, name, now_ms])
            })?;
        }
        self.find_user(login)
    }

    fn find_user(&self, login: &str) -> Result<Option<User>, StoreError> {
        Ok(self.list()?.into_iter().find(|u| u.login.eq_ignore_ascii_case(login)))
    }

    /// The SCRAM keys of a user's own password and app passwords that have the salt of the first.
    fn stored_scram_keys(&self, login: &str) -> Result<Vec<ScramKeys>, StoreError> {
        let texts: Vec<String> = self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT scram FROM user WHERE login = ?1 \
                 UNION ALL SELECT scram FROM app_password WHERE login = ?1",
            )?;
            find.query_map([login], |row| row.get(0))?.collect()
        })?;
        let mut keys: Vec<ScramKeys> =
            texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        if let Some(first) = keys.first().cloned() {
            keys.retain(|k| k.salt == first.salt && k.iterations == first.iterations);
        }
        Ok(keys)
    }
}

/// Revokes all app passwords of a user, in the transaction that changes their own password.
pub(super) fn revoke_all(batch: &Transaction<'_>, login: &str) -> rusqlite::Result<usize> {
    batch.execute("DELETE FROM app_password WHERE login = ?1", [login])
}

fn hash(password: &str) -> Vec<u8> {
    blake3::hash(password.as_bytes()).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Role, Users, totp_code};

    const OWN: &str = "a long password";

    #[test]
    fn mail_programs_have_passwords_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(folder.path()).unwrap();
        let ada = User {
            login: "ada".to_owned(),
            role: Role::User,
            folders: Vec::new(),
            addresses: Vec::new(),
            must_change: false,
            created_ms: 1,
        };
        users.add(&ada, OWN, "x", 1).unwrap();
        let is_in = |password: &str| users.mail_login("Ada", password, 9).unwrap().is_some();
        assert!(is_in(OWN), "without a second factor one's own will do");
        let phone = users.add_app_password("ADA", "phone", "ada", 2).unwrap().unwrap();
        let desk = users.add_app_password("ada", "desk", "ada", 2).unwrap().unwrap();
        assert!(is_in(&phone) && is_in(&desk) && is_in(OWN) && !is_in("other") && !is_in(""));
        assert_eq!(users.verify("ada", &phone).unwrap(), None, "not for the console");
        assert_eq!(users.mail_scram("ada").unwrap().unwrap().1.len(), 3);
        let raw = std::fs::read(folder.path().join("users.db-wal")).unwrap();
        assert!(!raw.windows(phone.len()).any(|w| w == phone.as_bytes()), "only hashes are kept");
        // With a second factor the user's own password is refused, by PLAIN and SCRAM.
        let (now, secret) = (1_795_235_000_000, users.begin_totp("ada").unwrap());
        users.enable_totp("ada", &totp_code(&secret, now).unwrap(), now).unwrap().unwrap();
        assert!(!is_in(OWN) && is_in(&phone));
        let own = users.scram("ada").unwrap().unwrap().1;
        let keys = users.mail_scram("ada").unwrap().unwrap().1;
        assert!(keys.len() == 2 && !keys.contains(&own));
        assert!(keys.iter().all(|k| k.salt == own.salt), "one salt");
        // They are revoked one by one, and all with a new own password.
        assert!(users.revoke_app_password("ada", "phone", "ada", 3).unwrap());
        assert!(!users.revoke_app_password("ada", "phone", "ada", 3).unwrap());
        assert!(!is_in(&phone) && is_in(&desk));
        assert_eq!(users.app_passwords("ada").unwrap()[0].used_ms, Some(9));
        users.set_password("ada", "another password", false, "admin", 4).unwrap();
        assert!(!is_in(&desk) && users.app_passwords("ada").unwrap().is_empty());
        assert_eq!(users.mail_scram("ada").unwrap(), None);
        // A user without a password, from a single sign-on.
        let eve = ["eve@b.example".to_owned()];
        users.user_from_single_sign_on(&eve[0], Some(Role::User), &eve, 5).unwrap().unwrap();
        assert!(
            !users.has_password("eve@b.example").unwrap() && users.has_password("ada").unwrap()
        );
        let one = users.add_app_password("eve@b.example", "one", "eve", 5).unwrap().unwrap();
        users.add_app_password("eve@b.example", "two", "eve", 5).unwrap().unwrap();
        assert_eq!(users.mail_scram("eve@b.example").unwrap().unwrap().1.len(), 2);
        assert!(users.mail_login("eve@b.example", &one, 6).unwrap().is_some());
        assert!(users.mail_login("eve@b.example", "", 6).unwrap().is_none());
        assert!(users.mail_login("ada", &one, 6).unwrap().is_none(), "another's");
        // Invalid names, and the limit.
        assert_eq!(users.add_app_password("nobody", "x", "x", 1).unwrap(), None);
        for name in ["", "a b", "one", &"x".repeat(65)] {
            assert!(users.add_app_password("eve@b.example", name, "x", 1).is_err(), "{name}");
        }
        for n in 2..APP_PASSWORDS_MAX {
            users.add_app_password("eve@b.example", &format!("n{n}"), "x", 1).unwrap().unwrap();
        }
        assert!(users.add_app_password("eve@b.example", "more", "x", 1).is_err());
        users.remove("eve@b.example", "ada", 9).ok();
        // A one-time password is refused.
        users.add_app_password("ada", "phone", "ada", 2).unwrap().unwrap();
        users.set_password("ada", "a one-time word", true, "admin", 4).unwrap();
        assert!(!is_in("a one-time word") && users.mail_scram("ada").unwrap().is_none());
    }
}
