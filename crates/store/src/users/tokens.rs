//! API tokens with scopes and an expiry time. Only a hash is stored.

use gauntlet_mail::date::DAY_MS;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::audit::audit;
use super::{UserDatabase, searches};
use crate::error::StoreError;
use crate::random;

/// Prefix of tokens, so that secret scanners recognise leaked ones.
pub const TOKEN_PREFIX: &str = "gauntlet_";
/// Random characters of a token, five bits each.
const TOKEN_CHARS: usize = 40;
/// Most tokens in all.
const TOKENS_MAX: i64 = 1_000;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Longest validity of a token, in days.
pub const TOKEN_DAYS_MAX: i64 = 3_650;
/// Shortest time between two updates of a token's last use, in milliseconds.
const USED_STEP_MS: i64 = 60_000;

/// A permission of API clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read the status of the node.
    StatusRead,
    /// Search and read messages of the log.
    MessagesRead,
    /// Read held mail, its content included.
    QuarantineRead,
    /// Release and delete held mail.
    QuarantineWrite,
    /// Read the policy, validate and replay others.
    PolicyRead,
    /// Put another policy into force.
    PolicyWrite,
    /// List allowed and blocked senders.
    SendersRead,
    /// Allow and block senders.
    SendersWrite,
    /// List the users of the console.
    UsersRead,
    /// Remove users, create and revoke tokens; with [`Scope::SubmissionWrite`] add users, and
    /// change their permissions and authentication.
    UsersWrite,
    /// Give users credentials that can send mail: every user may authenticate by SMTP AUTH, and
    /// send as their own addresses, or as any where they have none.
    SubmissionWrite,
    /// List the delivery queue.
    QueueRead,
    /// Retry, hold and delete queued messages.
    QueueWrite,
}

impl Scope {
    /// Every scope, in the order in which pages show them.
    pub const ALL: [Scope; 13] = [
        Scope::StatusRead,
        Scope::MessagesRead,
        Scope::QuarantineRead,
        Scope::QuarantineWrite,
        Scope::PolicyRead,
        Scope::PolicyWrite,
        Scope::SendersRead,
        Scope::SendersWrite,
        Scope::UsersRead,
        Scope::UsersWrite,
        Scope::SubmissionWrite,
        Scope::QueueRead,
        Scope::QueueWrite,
    ];

    /// Name on the command line, in the database and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Scope::StatusRead => "status:read",
            Scope::MessagesRead => "messages:read",
            Scope::QuarantineRead => "quarantine:read",
            Scope::QuarantineWrite => "quarantine:write",
            Scope::PolicyRead => "policy:read",
            Scope::PolicyWrite => "policy:write",
            Scope::SendersRead => "senders:read",
            Scope::SendersWrite => "senders:write",
            Scope::UsersRead => "users:read",
            Scope::UsersWrite => "users:write",
            Scope::SubmissionWrite => "submission:write",
            Scope::QueueRead => "queue:read",
            Scope::QueueWrite => "queue:write",
        }
    }
}

/// A name that is none of [`Scope::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no scope {0:?}; the scopes are {names}", names = Scope::ALL.map(Scope::name).join(", "))]
pub struct UnknownScope(pub String);

impl std::str::FromStr for Scope {
    type Err = UnknownScope;
    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        let found = Scope::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or_else(|| UnknownScope(name.to_owned()))
    }
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Name of the token; unique.
    pub name: String,
    /// What the token may do, and nothing else.
    pub scopes: Vec<Scope>,
    /// Login of the user who created it, or [`token_login`] of a token.
    pub who: String,
    /// Time of creation, in Unix milliseconds.
    pub created_ms: i64,
    /// Expiry time, in Unix milliseconds.
    pub expires_ms: i64,
    /// Time of its last use, within a minute, in Unix milliseconds; none if it was never used.
    pub used_ms: Option<i64>,
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

impl UserDatabase {
    /// Creates a token that is valid for so many days and returns its secret, which is not stored.
    ///
    /// # Errors
    /// As [`UserDatabase::add_token_until`].
    pub fn add_token(
        &self,
        name: &str,
        scopes: &[Scope],
        days: i64,
        who: &str,
        now_ms: i64,
    ) -> Result<String, StoreError> {
        if !(1..=TOKEN_DAYS_MAX).contains(&days) {
            let cause = format!("{days} days; a token lives 1 to {TOKEN_DAYS_MAX}");
            return Err(StoreError::Invalid { what: "token", cause });
        }
        self.add_token_until(name, scopes, token_end(now_ms, days), who, now_ms)
    }

    /// Creates a token that expires at `expires_ms`, in Unix milliseconds, and returns its secret,
    /// which is not stored.
    ///
    /// # Errors
    /// If the name is invalid or taken, there is no scope, it would be valid too long, or the
    /// change could not be made durable.
    pub fn add_token_until(
        &self,
        name: &str,
        scopes: &[Scope],
        expires_ms: i64,
        who: &str,
        now_ms: i64,
    ) -> Result<String, StoreError> {
        let invalid = |cause: String| Err(StoreError::Invalid { what: "token", cause });
        let fit = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !fit {
            return invalid(format!(
                "{name:?} is no name: letters, digits, '-', '_' and '.', at most {NAME_BYTES_MAX}"
            ));
        }
        if scopes.is_empty() {
            return invalid("a token needs a scope: what it may do".to_owned());
        }
        if expires_ms <= now_ms || expires_ms > token_end(now_ms, TOKEN_DAYS_MAX) {
            return invalid(format!("it lives up to {TOKEN_DAYS_MAX} days, and not into the past"));
        }
        let secret = format!("{TOKEN_PREFIX}{}", random::text(TOKEN_CHARS)?);
        let list: Vec<&str> = scopes.iter().map(|s| s.name()).collect();
        let added = self.change(|batch| {
            let count: i64 = batch.query_row("SELECT count(*) FROM token", [], |r| r.get(0))?;
            if count >= TOKENS_MAX {
                return Ok(None);
            }
            let added = batch.execute(
                "INSERT OR IGNORE INTO token (name, hash, scopes, who, created_ms, expires_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![name, key(&secret), list.join(" "), who, now_ms, expires_ms],
            )?;
            if added == 1 {
                audit(batch, now_ms, who, "add token", name, &list.join(" "))?;
            }
            Ok(Some(added == 1))
        })?;
        match added {
            Some(true) => Ok(secret),
            Some(false) => invalid(format!("there is a token {name:?} already; revoke it first")),
            None => Err(StoreError::Full {
                what: "the list of tokens".to_owned(),
                limit: TOKENS_MAX.cast_unsigned(),
                hint: "revoke those that are not needed any more",
            }),
        }
    }

    /// The token of this secret, if it has not expired. Counts as a use.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn token(&self, secret: &str, now_ms: i64) -> Result<Option<Token>, StoreError> {
        let found = self.read(|c| {
            let sql = format!("SELECT {COLUMNS} FROM token WHERE hash = ?1");
            c.prepare_cached(&sql)?.query_row([key(secret)], token).optional()
        })?;
        let Some(found) = found.filter(|t| now_ms < t.expires_ms) else { return Ok(None) };
        if found.used_ms.is_none_or(|used| now_ms - used > USED_STEP_MS) {
            self.change(|batch| {
                let sql = "UPDATE token SET used_ms = ?2 WHERE name = ?1";
                batch.execute(sql, params![found.name, now_ms])
            })?;
        }
        Ok(Some(found))
    }

    /// All tokens by name, expired ones included.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|c| {
            let sql = format!("SELECT {COLUMNS} FROM token ORDER BY name");
            c.prepare_cached(&sql)?.query_map([], token)?.collect()
        })
    }

    /// Revokes a token, and those created with it, recursively. False if there is none of this
    /// name.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn revoke_token(&self, name: &str, who: &str, now_ms: i64) -> Result<bool, StoreError> {
        self.change(|batch| revoke_all(batch, vec![name.to_owned()], who, now_ms))
    }
}

/// Revokes the tokens that a user created, recursively, in the transaction that removes the
/// permissions of the user.
pub(super) fn revoke_made_by(
    batch: &Transaction<'_>,
    login: &str,
    who: &str,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let names = made_by(batch, login)?;
    revoke_all(batch, names, who, now_ms).map(|_any| ())
}

fn made_by(batch: &Transaction<'_>, login: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM token WHERE who = ?1 COLLATE NOCASE";
    let mut made = batch.prepare_cached(sql)?;
    made.query_map([login], |row| row.get(0))?.collect()
}

fn revoke_all(
    batch: &Transaction<'_>,
    mut names: Vec<String>,
    who: &str,
    now_ms: i64,
) -> rusqlite::Result<bool> {
    let mut gone = false;
    while let Some(name) = names.pop() {
        if batch.execute("DELETE FROM token WHERE name = ?1", [&name])? == 0 {
            continue;
        }
        gone = true;
        searches::forget_private(batch, &token_login(&name))?;
        audit(batch, now_ms, who, "revoke token", &name, "")?;
        // Names of tokens are case-sensitive.
        let mut made = batch.prepare_cached("SELECT name FROM token WHERE who = ?1")?;
        let rows = made.query_map([token_login(&name)], |row| row.get(0))?;
        names.extend(rows.collect::<rusqlite::Result<Vec<String>>>()?);
    }
    Ok(gone)
}

/// The name of a token in place of a login: no login has a space.
pub fn token_login(name: &str) -> String {
    format!("token {name}")
}

/// Expiry time of a token that is valid for so many days, in Unix milliseconds.
pub fn token_end(now_ms: i64, days: i64) -> i64 {
    now_ms.saturating_add(days.saturating_mul(DAY_MS))
}

const COLUMNS: &str = "name, scopes, who, created_ms, expires_ms, used_ms";

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    let scopes = row.get_ref(1)?.as_str()?;
    Ok(Token {
        name: row.get(0)?,
        // An unknown scope permits nothing.
        scopes: scopes.split(' ').filter_map(|s| s.parse().ok()).collect(),
        who: row.get(2)?,
        created_ms: row.get(3)?,
        expires_ms: row.get(4)?,
        used_ms: row.get(5)?,
    })
}

fn key(secret: &str) -> Vec<u8> {
    blake3::hash(secret.as_bytes()).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_until_they_are_over_or_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let scopes = [Scope::QueueRead, Scope::PolicyWrite];
        let secret = users.add_token("ci", &scopes, 1, "ada", 1_000).unwrap();
        assert!(secret.starts_with(TOKEN_PREFIX) && secret.len() == 49);
        let raw = std::fs::read(folder.path().join("users.db-wal")).unwrap();
        let kept = raw.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!kept, "only a hash is kept");
        let found = users.token(&secret, 2_000).unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.scopes.as_slice()), ("ci", &scopes[..]));
        assert_eq!(users.tokens().unwrap()[0].used_ms, Some(2_000));
        assert_eq!(users.token(&secret, 1_000 + 86_400_000).unwrap(), None);
        assert_eq!(users.token("gauntlet_other", 2_000).unwrap(), None);
        for (name, scopes, days) in [
            ("ci", &scopes[..], 1),
            ("", &scopes[..], 1),
            ("a b", &scopes[..], 1),
            ("x", &[][..], 1),
            ("x", &scopes[..], 0),
            ("x", &scopes[..], TOKEN_DAYS_MAX + 1),
        ] {
            assert!(users.add_token(name, scopes, days, "ada", 1).is_err(), "{name} {days}");
        }
        assert!(users.revoke_token("ci", "ada", 3_000).unwrap());
        assert!(!users.revoke_token("ci", "ada", 3_000).unwrap());
        assert_eq!(users.token(&secret, 2_000).unwrap(), None);
        assert!("queue:read".parse::<Scope>().is_ok() && "all".parse::<Scope>().is_err());
    }
}
