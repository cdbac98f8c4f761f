//! Messages on their way from one node's queue to another's, as rows that both know.
//!
//! ```text
//! source: leaves (durable), row ─▶ target: takes in (durable), answer ─▶ source: done, row deleted
//! ```
//!
//! Each step may be repeated: a row has the token of its message, the target knows what it took in,
//! and the source hands over what is leaving until it has the answer.

use std::collections::BTreeSet;

use crate::database::Session;
use crate::editions::CHANNEL;
use crate::error::ArrayError;

/// Rows that a node takes at once: a message may have many megabytes.
const AT_ONCE: i64 = 8;

/// A message that leaves a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departing {
    /// Its number in the queue of its node.
    pub id: u64,
    /// What tells this handing over from all others.
    pub token: String,
    /// The message with its envelope, its verdict and the state of its deliveries.
    pub body: Vec<u8>,
}

/// Hands a message over to the node of this name. The same again changes nothing.
///
/// # Errors
/// If there is no such node, or a statement fails.
pub async fn offer(
    session: &Session,
    source: i16,
    target: &str,
    message: &Departing,
) -> Result<(), ArrayError> {
    const DOING: &str = "handing a message over";
    let to = node_of(session, target).await?;
    let id = message.id.cast_signed();
    let sql = "INSERT INTO transfer (token, source, target, message, body) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    session.execute(DOING, sql, &[&message.token, &source, &to, &id, &message.body]).await?;
    session.rows(DOING, "SELECT pg_notify($1, 'transfer')", &[&CHANNEL]).await?;
    Ok(())
}

/// The number of the node of this name that takes part.
///
/// # Errors
/// If there is none, or the statement fails.
pub async fn node_of(session: &Session, name: &str) -> Result<i16, ArrayError> {
    const DOING: &str = "looking for a node";
    let sql = "SELECT id FROM node WHERE name = $1 AND state = 'active'";
    let row = session.row(DOING, sql, &[&name]).await?;
    row.map(|row| row.get(0)).ok_or_else(|| ArrayError::Statement {
        doing: DOING,
        cause: format!("the array has no node {name}; `gauntlet array nodes` lists them"),
    })
}

/// Takes back a message of a node that left before it answered. False: it has answered.
///
/// # Errors
/// If the statement fails.
pub async fn take_back(session: &Session, token: &str) -> Result<bool, ArrayError> {
    const DOING: &str = "taking back a message that was handed over";
    let sql = "DELETE FROM transfer WHERE token = $1 AND answer IS NULL";
    session.execute(DOING, sql, &[&token]).await?;
    let left = session.row(DOING, "SELECT 1 FROM transfer WHERE token = $1", &[&token]).await?;
    Ok(left.is_none())
}

/// Messages for this node that it has not answered for: token and body.
///
/// # Errors
/// If the statement fails.
pub async fn arriving(
    session: &Session,
    target: i16,
) -> Result<Vec<(String, Vec<u8>)>, ArrayError> {
    let sql = "SELECT token, body FROM transfer WHERE target = $1 AND answer IS NULL \
               ORDER BY made, token LIMIT $2";
    let rows = session.rows("looking for messages that arrive", sql, &[&target, &AT_ONCE]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Says what became of a message that arrived. Its body is not needed any more.
///
/// # Errors
/// If the statement fails.
pub async fn answer(session: &Session, token: &str, answer: &str) -> Result<(), ArrayError> {
    const DOING: &str = "answering for a message that arrived";
    let sql = "UPDATE transfer SET answer = $2, body = '' WHERE token = $1 AND answer IS NULL";
    session.execute(DOING, sql, &[&token, &answer]).await?;
    session.rows(DOING, "SELECT pg_notify($1, 'transfer')", &[&CHANNEL]).await?;
    Ok(())
}

/// Tokens of all messages that this node handed over and has not forgotten.
///
/// # Errors
/// If the statement fails.
pub async fn offered(session: &Session, source: i16) -> Result<BTreeSet<String>, ArrayError> {
    let sql = "SELECT token FROM transfer WHERE source = $1";
    let rows = session.rows("looking for what was handed over", sql, &[&source]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Messages of this node whose targets have answered: token, number in the queue, answer.
///
/// # Errors
/// If the statement fails.
pub async fn answered(
    session: &Session,
    source: i16,
) -> Result<Vec<(String, u64, String)>, ArrayError> {
    let sql = "SELECT token, message, answer FROM transfer WHERE source = $1 AND \
               answer IS NOT NULL ORDER BY made LIMIT 1000";
    let rows = session.rows("looking for answers of other nodes", sql, &[&source]).await?;
    let one =
        |row: &tokio_postgres::Row| (row.get(0), row.get::<_, i64>(1).cast_unsigned(), row.get(2));
    Ok(rows.iter().map(one).collect())
}

/// Forgets messages whose answers their source has followed.
///
/// # Errors
/// If the statement fails.
pub async fn forget(session: &Session, tokens: &[String]) -> Result<(), ArrayError> {
    let sql = "DELETE FROM transfer WHERE token = ANY ($1)";
    session.execute("forgetting messages that were handed over", sql, &[&tokens]).await?;
    Ok(())
}
