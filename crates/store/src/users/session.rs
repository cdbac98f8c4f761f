//! Sessions: who is signed in.

use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::{COLUMNS, COLUMNS_COUNT, Role, User, UserDatabase, random_text, user};
use crate::error::StoreError;

/// Characters of a session's token, five random bits each.
const TOKEN_CHARS: usize = 40;
/// A session's last use is written down at most this often, in milliseconds.
const SEEN_STEP_MS: i64 = 30_000;
/// Sessions of one person; the longest unused ends when there are more.
const SESSIONS_MAX: i64 = 20;

/// A session that was started; the token is kept nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// For the browser's cookie.
    pub token: String,
    /// What forms carry, so that other sites cannot send them.
    pub csrf: String,
}

/// What somebody proved themselves with when a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// Their password, and a code if they have a second factor.
    Password,
    /// The provider's word, which may be about a sign-in of long ago.
    SingleSignOn,
    /// The provider's word that they signed in there for this session, not before it.
    FreshSingleSignOn,
    /// A digest's link, which anybody may have who can read a mailbox: good for the mail of one address, and
    /// for nothing about the account.
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

    /// What is unknown proves the least.
    fn named(name: &str) -> Self {
        Proof::ALL.into_iter().find(|p| p.name() == name).unwrap_or(Proof::Link)
    }
}

/// A session in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Who is signed in. By a link: as somebody with the role user and the link's address, whatever else they
    /// may do.
    pub user: User,
    /// What forms must carry.
    pub csrf: String,
    /// What it began with.
    pub proof: Proof,
    /// Unix time in milliseconds when it began.
    pub begun_ms: i64,
}

impl UserDatabase {
    /// Starts a session of a person whose password was verified.
    ///
    /// # Errors
    /// If there is no such person, or it could not be made durable.
    pub fn start_session(&self, login: &str, now_ms: i64) -> Result<Started, StoreError> {
        self.start_session_by(login, Proof::Password, "", now_ms)
    }

    /// Starts a session of a person who proved themselves so; `address` is that of a digest's link, else empty.
    ///
    /// # Errors
    /// If there is no such person, or it could not be made durable.
    pub fn start_session_by(
        &self,
        login: &str,
        proof: Proof,
        address: &str,
        now_ms: i64,
    ) -> Result<Started, StoreError> {
        let started = Started { token: random_text(TOKEN_CHARS)?, csrf: random_text(TOKEN_CHARS)? };
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

    /// The session of this token, if it was used within the last `idle_ms` and began within the last `age_ms`.
    /// Counts as a use.
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
        let Some((session, seen_ms)) = self.found(token, now_ms, idle_ms, age_ms)? else {
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

    /// The same, but it does not count as a use: what a page asks for by itself keeps nobody signed in.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn session_unused(
        &self,
        token: &str,
        now_ms: i64,
        idle_ms: i64,
        age_ms: i64,
    ) -> Result<Option<Session>, StoreError> {
        Ok(self.found(token, now_ms, idle_ms, age_ms)?.map(|(session, _)| session))
    }

    /// A session that is not over, and its last use.
    fn found(
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
                let proof = Proof::named(row.get_ref(COLUMNS_COUNT + 3)?.as_str()?);
                let (csrf, begun_ms) = (row.get(COLUMNS_COUNT)?, row.get(COLUMNS_COUNT + 2)?);
                let mut user = user(row)?;
                if proof == Proof::Link {
                    let address: String = row.get(COLUMNS_COUNT + 4)?;
                    user.role = Role::User;
                    user.folders.clear();
                    // A password is nothing to them.
                    user.must_change = false;
                    // Not what was taken from the person since the link was followed.
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

    /// Ends all sessions of a person.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn end_sessions(&self, login: &str, who: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|batch| {
            end_all(batch, login)?;
            super::audit(batch, now_ms, who, "end sessions", login, "")
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

/// Ends all sessions of a person, in the transaction that changes what they may do or what proves them: who
/// came in by what was true before must come in again.
pub(super) fn end_all(batch: &Transaction<'_>, login: &str) -> rusqlite::Result<usize> {
    batch.execute("DELETE FROM session WHERE login = ?1 COLLATE NOCASE", [login])
}

fn key(token: &str) -> Vec<u8> {
    blake3::hash(token.as_bytes()).as_bytes().to_vec()
}
