//! Second factor: time-based one-time passwords (TOTP, RFC 6238) and recovery codes.
//!
//! A code is accepted once: the time step of the last one is stored, and only later ones are
//! accepted (RFC 6238, section 5.2). Recovery codes are stored as hashes and deleted when used.
//! Limiting the rate of attempts is up to the caller.

use ring::hmac;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::audit::audit;
use super::{UserDatabase, session};
use crate::error::StoreError;
use crate::random;

/// Seconds of a step (RFC 6238, section 4.1).
const STEP_SECONDS: i64 = 30;
/// Digits of a code.
const DIGITS: usize = 6;
/// Steps of clock drift that are accepted, either way (RFC 6238, section 5.2).
const STEPS_OFF_MAX: i64 = 1;
/// Bytes of a secret: the output length of SHA-1 (RFC 4226, section 4).
const SECRET_BYTES: usize = 20;
/// Number of recovery codes.
pub const RECOVERY_CODES: usize = 10;
/// Characters of a recovery code, five random bits each.
const RECOVERY_CHARS: usize = 16;

/// Alphabet of base32 (RFC 4648, section 6).
const BASE32_ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// State of a user's second factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecondFactor {
    /// The password alone signs in.
    Off,
    /// A secret exists, but no code of it was verified yet.
    Pending,
    /// A code is required to sign in.
    On {
        /// Number of unused recovery codes.
        recovery_codes: usize,
    },
}

impl UserDatabase {
    /// The state of a user's second factor.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn second_factor(&self, login: &str) -> Result<SecondFactor, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached("SELECT enabled FROM totp WHERE login = ?1")?;
            let found: Option<bool> = find.query_row([login], |r| r.get(0)).optional()?;
            let mut count =
                c.prepare_cached("SELECT count(*) FROM recovery WHERE login = ?1 COLLATE NOCASE")?;
            let left: i64 = count.query_row([login], |r| r.get(0))?;
            let recovery_codes = usize::try_from(left).unwrap_or(0);
            Ok(match found {
                None => SecondFactor::Off,
                Some(false) => SecondFactor::Pending,
                Some(true) => SecondFactor::On { recovery_codes },
            })
        })
    }

    /// Generates a secret for a user without an enabled one, and returns it in base32 (RFC 4648),
    /// as authenticator apps read it. Replaces a pending one.
    ///
    /// # Errors
    /// If one is enabled, or the change could not be made durable.
    pub fn begin_totp(&self, login: &str) -> Result<String, StoreError> {
        let secret = random::bytes(SECRET_BYTES)?;
        let begun = self.change(|batch| {
            let done = batch.execute(
                "INSERT INTO totp (login, secret, enabled, last_step) VALUES (?1, ?2, 0, 0) \
                 ON CONFLICT DO UPDATE SET secret = ?2 WHERE enabled = 0",
                params![login, secret],
            )?;
            Ok(done == 1)
        })?;
        if begun { Ok(base32(&secret)) } else { Err(invalid("a second factor is in use already")) }
    }

    /// Enables the pending secret if this is a code of it, and ends the user's sessions, which
    /// began without it. Returns recovery codes, which are not stored; none if the code is wrong.
    ///
    /// # Errors
    /// If none is pending, or the change could not be made durable.
    pub fn enable_totp(
        &self,
        login: &str,
        code: &str,
        now_ms: i64,
    ) -> Result<Option<Vec<String>>, StoreError> {
        if self.second_factor(login)? != SecondFactor::Pending {
            return Err(invalid("no second factor was begun"));
        }
        if !self.consume_code(login, code, now_ms)? {
            return Ok(None);
        }
        let codes = (0..RECOVERY_CODES).map(|_| random::text(RECOVERY_CHARS));
        let codes = codes.collect::<Result<Vec<String>, StoreError>>()?;
        self.change(|batch| {
            batch.execute("UPDATE totp SET enabled = 1 WHERE login = ?1", [login])?;
            batch.execute("DELETE FROM recovery WHERE login = ?1 COLLATE NOCASE", [login])?;
            for code in &codes {
                let sql = "INSERT INTO recovery (login, hash) VALUES (?1, ?2)";
                batch.execute(sql, params![login, hash(code)])?;
            }
            session::end_all(batch, login)?;
            audit(batch, now_ms, login, "second factor on", "", "")
        })?;
        Ok(Some(codes))
    }

    /// Removes a user's second factor, and ends their sessions. False if there was none.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn remove_totp(&self, login: &str, who: &str, now_ms: i64) -> Result<bool, StoreError> {
        self.change(|batch| {
            let gone = batch.execute("DELETE FROM totp WHERE login = ?1", [login])? > 0;
            batch.execute("DELETE FROM recovery WHERE login = ?1 COLLATE NOCASE", [login])?;
            if gone {
                session::end_all(batch, login)?;
                audit(batch, now_ms, who, "second factor off", login, "")?;
            }
            Ok(gone)
        })
    }

    /// Whether a user whose password was right may sign in with this code: they have no second
    /// factor, or the code is valid and was not used before. A valid code is used up.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn verify_second_factor(
        &self,
        login: &str,
        code: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        match self.second_factor(login)? {
            SecondFactor::Off | SecondFactor::Pending => Ok(true),
            SecondFactor::On { .. } => Ok(self.consume_code(login, code, now_ms)?
                || self.consume_recovery_code(login, code, now_ms)?),
        }
    }

    /// Accepts a code of a step near `now_ms` and later than the last used one, and stores that
    /// step.
    fn consume_code(&self, login: &str, code: &str, now_ms: i64) -> Result<bool, StoreError> {
        let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        let step = now_ms.div_euclid(1_000 * STEP_SECONDS);
        self.change(|batch| {
            let mut find =
                batch.prepare_cached("SELECT secret, last_step FROM totp WHERE login = ?1")?;
            let row = |r: &rusqlite::Row<'_>| Ok((r.get::<_, Vec<u8>>(0)?, r.get::<_, i64>(1)?));
            let Some((secret, last)) = find.query_row([login], row).optional()? else {
                return Ok(false);
            };
            let mut taken = None;
            // All are computed, for constant time.
            for step in step - STEPS_OFF_MAX..=step + STEPS_OFF_MAX {
                if constant_time_eq(&code_at(&secret, step), &code) && step > last {
                    taken = Some(step);
                }
            }
            let Some(step) = taken else { return Ok(false) };
            let sql = "UPDATE totp SET last_step = ?2 WHERE login = ?1";
            batch.execute(sql, params![login, step])?;
            Ok(true)
        })
    }

    fn consume_recovery_code(
        &self,
        login: &str,
        code: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let code = code.trim().to_ascii_lowercase().replace(['-', ' '], "");
        self.change(|batch| {
            let sql = "DELETE FROM recovery WHERE login = ?1 COLLATE NOCASE AND hash = ?2";
            let used = batch.execute(sql, params![login, hash(&code)])? > 0;
            if used {
                audit(batch, now_ms, login, "used a recovery code", "", "")?;
            }
            Ok(used)
        })
    }
}

/// The current code of a secret in base32, as an authenticator app shows it; none if it is not
/// base32.
pub fn totp_code(secret: &str, now_ms: i64) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for letter in secret.bytes() {
        let value = BASE32_ALPHABET.iter().position(|l| *l == letter.to_ascii_uppercase())?;
        bits = bits << 5 | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 255) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(code_at(&bytes, now_ms.div_euclid(1_000 * STEP_SECONDS)))
}

fn invalid(cause: &str) -> StoreError {
    StoreError::Invalid { what: "second factor", cause: cause.to_owned() }
}

/// The code of a step: HOTP with HMAC-SHA-1 (RFC 4226, section 5.3).
fn code_at(secret: &[u8], step: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let at = usize::from(bytes.last().copied().unwrap_or(0) & 15);
    let four = bytes.get(at..at + 4).unwrap_or_default();
    let number = four.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) & 0x7fff_ffff;
    format!("{:0width$}", number % 10u32.pow(DIGITS as u32), width = DIGITS)
}

/// Compares in constant time.
fn constant_time_eq(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

/// Encodes base32 (RFC 4648, section 6) without padding: twenty bytes need none.
fn base32(bytes: &[u8]) -> String {
    let (mut out, mut bits, mut count) = (String::new(), 0u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(char::from(BASE32_ALPHABET[(bits >> count & 31) as usize]));
        }
        bits &= (1 << count) - 1;
    }
    out
}

fn hash(code: &str) -> Vec<u8> {
    blake3::hash(code.as_bytes()).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Role, User};

    /// RFC 6238, appendix B (the last six of the eight digits).
    #[test]
    fn codes_are_those_of_the_standard() {
        let secret = b"12345678901234567890";
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_at(secret, seconds / STEP_SECONDS), code);
        }
        let key = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
        assert_eq!(base32(secret), key);
        assert_eq!(totp_code(key, 59_000).as_deref(), Some("287082"));
        assert_eq!(totp_code("1", 0), None);
    }

    #[test]
    fn a_code_counts_once_and_recovery_codes_go() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let ada = User {
            login: "ada".to_owned(),
            role: Role::Reviewer,
            folders: Vec::new(),
            addresses: Vec::new(),
            must_change: false,
            created_ms: 1,
        };
        users.add(&ada, "a long password", "x", 1).unwrap();
        assert!(users.verify_second_factor("ada", "", 1).unwrap(), "without one nothing is asked");
        assert!(users.enable_totp("ada", "123456", 1).is_err());
        users.begin_totp("ada").unwrap();
        users.begin_totp("Ada").unwrap();
        let secret = || -> Vec<u8> {
            users.read(|c| c.query_row("SELECT secret FROM totp", [], |r| r.get(0))).unwrap()
        };
        let now = 1_795_235_000_000;
        let code = |steps: i64| code_at(&secret(), now / 30_000 + steps);
        assert!(users.verify_second_factor("ada", "", now).unwrap(), "not before a code was shown");
        assert_eq!(users.enable_totp("ada", "abc", now).unwrap(), None);
        let recovery = users.enable_totp("ada", &code(-1), now).unwrap().unwrap();
        assert_eq!(recovery.len(), RECOVERY_CODES);
        assert!(users.begin_totp("ada").is_err());
        for wrong in ["", "000000x", &code(-1), &code(2), &code(-2)] {
            assert!(!users.verify_second_factor("ada", wrong, now).unwrap(), "{wrong}");
        }
        assert!(users.verify_second_factor("ADA", &code(1), now).unwrap());
        assert!(!users.verify_second_factor("ada", &code(0), now).unwrap(), "an earlier step");
        assert!(!users.verify_second_factor("ada", &code(1), now).unwrap(), "the same again");
        assert!(users.verify_second_factor("ada", &recovery[3].to_uppercase(), now).unwrap());
        assert!(!users.verify_second_factor("ada", &recovery[3], now).unwrap());
        let left = SecondFactor::On { recovery_codes: RECOVERY_CODES - 1 };
        assert_eq!(users.second_factor("ada").unwrap(), left);
        assert!(users.remove_totp("ada", "ada", now).unwrap());
        assert!(users.verify_second_factor("ada", "", now).unwrap());
        assert_eq!(users.second_factor("ada").unwrap(), SecondFactor::Off);
    }

    #[test]
    fn of_many_who_show_one_code_at_once_one_comes_in() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let ada = User {
            login: "ada".to_owned(),
            role: Role::Reviewer,
            folders: Vec::new(),
            addresses: Vec::new(),
            must_change: false,
            created_ms: 1,
        };
        users.add(&ada, "a long password", "x", 1).unwrap();
        let (now, secret) = (1_795_235_000_000, users.begin_totp("ada").unwrap());
        let first = totp_code(&secret, now - 30_000).unwrap();
        let recovery = users.enable_totp("ada", &first, now).unwrap().unwrap();
        for code in [totp_code(&secret, now).unwrap(), recovery[0].clone()] {
            let come_in = || users.verify_second_factor("ada", &code, now).unwrap();
            let came = std::thread::scope(|scope| {
                let all: Vec<_> = (0..16).map(|_| scope.spawn(come_in)).collect();
                all.into_iter().filter_map(|one| one.join().ok()).filter(|good| *good).count()
            });
            assert_eq!(came, 1, "{code}");
        }
    }
}
