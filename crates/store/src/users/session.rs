//! Sessions of signed-in users.

use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::audit::audit;
use super::{COLUMNS, COLUMNS_COUNT, Role, User, UserDatabase, user};
use crate::error::StoreError;
use crate::random;

/// Characters of a session's token, five random bits each.
const TOKEN_CHARS: usize = 40;
/// Shortest time between two updates of a session's last use, in milliseconds.
const SEEN_STEP_MS: i64 = 30_000;
/// Most sessions of one user; beyond, the least recently used ends.
const SESSIONS_MAX: i64 = 20;

/// A new session; its token is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedSession {
    /// Session token, for the cookie.
    pub token: String,
    /// CSRF token, which forms carry.
    pub csrf: String,
}

/// How the user was authenticated when the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// By password, and second factor if they have one.
    Password,
    /// By single sign-on; the provider may have authenticated them long ago.
    SingleSignOn,
    /// By single sign-on, authenticated by the provider for this session.
    FreshSingleSignOn,
    /// By a digest's link, which every reader of the mailbox may have: gives access to the mail of
    /// one address, and not to the account.
    Link,
}

impl Proof {
    const ALL: [Proof; 4] =
        [Proof::Password, Proof::SingleSignOn, Proof::FreshSingleSignOn, Proof::Link];

    /// Name in the database.
    fn name(self) -> &'static str {
        match self {
            Proof::Password => "password",
            Proof::SingleSignOn => "single sign-on",
            Proof::FreshSingleSignOn => "fresh single sign-on",
            Proof::Link => "link",
        }
    }

    /// An unknown value has the fewest permissions.
    fn parse(name: &str) -> Self {
        Proof::ALL.into_iter().find(|p| p.name() == name).unwrap_or(Proof::Link)
    }
}

/// A session of the console that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The signed-in user. By a link: with the role user and the link's address, whatever other
    /// permissions they have.
    pub user: User,
    /// CSRF token, which forms must carry.
    pub csrf: String,
    /// How the user was authenticated.
    pub proof: Proof,
    /// Time at which it began, in Unix milliseconds.
    pub begun_ms: i64,
}

impl UserDatabase {
    /// Starts a session of a user whose password was verified.
    ///
    /// # Errors
    /// If there is no such user, or it could not be made durable.
    pub fn start_session(&self, login: &str, now_ms: i64) -> Result<StartedSession, StoreError> {
        self.start_session_with(login, Proof::Password, "", now_ms)
    }

    /// Starts a session of a user who was authenticated in this way; `address` is that of a
    /// digest's link, else empty.
    ///
    /// # Errors
    /// If there is no such user, or it could not be made durable.
    pub fn start_session_with(
        &self,
        login: &str,
        proof: Proof,
        address: &str,
        now_ms: i64,
    ) -> Result<StartedSession, StoreError> {
        let started =
            StartedSession { token: random::text(TOKEN_CHARS)?, csrf: random::text(TOKEN_CHARS)? };
        self.change(|batch| {
            batch.execute(
                "INSERT INTO session (token, login, csrf, seen_ms, begun_ms, proof, address) \
                 VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)",
                params![key(&started.token), login, started.csrf, now_ms, proof.name(), address],
            )?;
            batch.execute(
                "DELETE FROM session WHERE login = ?1 COLLATE NOCASE AND token NOT IN \
                 (SELECT token FROM session WHERE login = ?1 COLLATE NOCASE \
                  ORDER BY seen_ms DESC LIMIT ?2)",
                params![login, SESSIONS_MAX],
            )?;
            Ok(())
        })?;
        Ok(started)
    }

    /// The session of this token, if it was used within the last `idle_ms` and began within the
    /// last `age_ms`. Counts as a use.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn session(
        &self,
        token: &str,
        now_ms: i64,
        idle_ms: i64,
        age_ms: i64,
    ) -> Result<Option<Session>, StoreError> {
        let Some((session, seen_ms)) = self.find_session(token, now_ms, idle_ms, age_ms)? else {
            return Ok(None);
        };
        if now_ms.saturating_sub(seen_ms) > SEEN_STEP_MS {
            self.change(|batch| {
                let sql = "UPDATE session SET seen_ms = ?2 WHERE token = ?1";
                batch.execute(sql, params![key(token), now_ms])
            })?;
        }
        Ok(Some(session))
    }

    /// The same, but does not count as a use: requests that a page makes by itself must not keep a
    /// session alive.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn peek_session(
        &self,
        token: &str,
        now_ms: i64,
        idle_ms: i64,
        age_ms: i64,
    ) -> Result<Option<Session>, StoreError> {
        Ok(self.find_session(token, now_ms, idle_ms, age_ms)?.map(|(session, _)| session))
    }

    /// A session that has not expired, and the time of its last use.
    fn find_session(
        &self,
        token: &str,
        now_ms: i64,
        idle_ms: i64,
        age_ms: i64,
    ) -> Result<Option<(Session, i64)>, StoreError> {
        let key = key(token);
        let found = self.read(|c| {
            let sql = format!(
                "SELECT {COLUMNS}, csrf, seen_ms, begun_ms, proof, address FROM session \
                 JOIN user USING (login) WHERE token = ?1"
            );
            let mut find = c.prepare_cached(&sql)?;
            find.query_row([&key], |row| {
                let proof = Proof::parse(row.get_ref(COLUMNS_COUNT + 3)?.as_str()?);
                let (csrf, begun_ms) = (row.get(COLUMNS_COUNT)?, row.get(COLUMNS_COUNT + 2)?);
                let mut user = user(row)?;
                if proof == Proof::Link {
                    let address: String = row.get(COLUMNS_COUNT + 4)?;
                    user.role = Role::User;
                    user.folders.clear();
                    // Without a password there is none to change.
                    user.must_change = false;
                    // Not addresses that the user lost since the link was followed.
                    user.addresses.retain(|own| own.eq_ignore_ascii_case(&address));
                }
                let seen_ms: i64 = row.get(COLUMNS_COUNT + 1)?;
                Ok((Session { user, csrf, proof, begun_ms }, seen_ms))
            })
            .optional()
        })?;
        let Some((session, seen_ms)) = found else { return Ok(None) };
        let is_over = now_ms.saturating_sub(seen_ms) > idle_ms
            || now_ms.saturating_sub(session.begun_ms) > age_ms;
        if is_over {
            self.end_session(token)?;
            return Ok(None);
        }
        Ok(Some((session, seen_ms)))
    }

    /// Ends all sessions of a user.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn end_sessions(&self, login: &str, who: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|batch| {
            end_all(batch, login)?;
            audit(batch, now_ms, who, "end sessions", login, "")
        })
    }

    /// Ends a session, if there is one of this token.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn end_session(&self, token: &str) -> Result<(), StoreError> {
        self.change(|batch| {
            batch.execute("DELETE FROM session WHERE token = ?1", [key(token)])?;
            Ok(())
        })
    }
}

/// Ends all sessions of a user, in the transaction that changes their permissions or
/// authentication.
pub(super) fn end_all(batch: &Transaction<'_>, login: &str) -> rusqlite::Result<usize> {
    batch.execute("DELETE FROM session WHERE login = ?1 COLLATE NOCASE", [login])
}

fn key(token: &str) -> Vec<u8> {
    blake3::hash(token.as_bytes()).as_bytes().to_vec()
}
