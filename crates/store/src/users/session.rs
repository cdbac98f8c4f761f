//! Sessions: who is signed in.

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{COLUMNS, COLUMNS_COUNT, User, UserDatabase, random_text, user};
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

/// A session in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Who is signed in.
    pub user: User,
    /// What forms must carry.
    pub csrf: String,
}

impl UserDatabase {
    /// Starts a session of a person whose password was verified.
    ///
    /// # Errors
    /// If there is no such person, or it could not be made durable.
    pub fn start_session(&self, login: &str, now_ms: i64) -> Result<Started, StoreError> {
        let started = Started { token: random_text(TOKEN_CHARS)?, csrf: random_text(TOKEN_CHARS)? };
        self.change(|batch| {
            batch.execute(
                "INSERT INTO session (token, login, csrf, seen_ms) VALUES (?1, ?2, ?3, ?4)",
                params![key(&started.token), login, started.csrf, now_ms],
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

    /// The session of this token, if it was used within the last `idle_ms`. Counts as a use.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn session(
        &self,
        token: &str,
        now_ms: i64,
        idle_ms: i64,
    ) -> Result<Option<Session>, StoreError> {
        let key = key(token);
        let found = self.read(|c| {
            let sql = format!(
                "SELECT {COLUMNS}, csrf, seen_ms FROM session JOIN user USING (login) \
                 WHERE token = ?1"
            );
            let mut find = c.prepare_cached(&sql)?;
            find.query_row([&key], |row| {
                let session = Session { user: user(row)?, csrf: row.get(COLUMNS_COUNT)? };
                Ok((session, row.get::<_, i64>(COLUMNS_COUNT + 1)?))
            })
            .optional()
        })?;
        let Some((session, seen_ms)) = found else { return Ok(None) };
        if now_ms.saturating_sub(seen_ms) > idle_ms {
            self.end_session(token)?;
            return Ok(None);
        }
        if now_ms.saturating_sub(seen_ms) > SEEN_STEP_MS {
            self.change(|batch| {
                let sql = "UPDATE session SET seen_ms = ?2 WHERE token = ?1";
                batch.execute(sql, params![key, now_ms])
            })?;
        }
        Ok(Some(session))
    }

    /// Ends all sessions of a person.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn end_sessions(&self, login: &str, who: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|batch| {
            batch.execute("DELETE FROM session WHERE login = ?1 COLLATE NOCASE", [login])?;
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

fn key(token: &str) -> Vec<u8> {
    blake3::hash(token.as_bytes()).as_bytes().to_vec()
}
