//! The nodes of the array: who belongs to it, and how each is.

use gauntlet_store::random;
use serde::{Deserialize, Serialize};

use crate::database::Session;
use crate::error::ArrayError;

/// Most messages of its queue that a node tells of.
pub const WAITING_MAX: usize = 10;
/// Longest answer of a next hop that is told with them, in bytes.
pub const REPLY_BYTES_MAX: usize = 160;

/// Who a node is. The name is for people; the identity, made once at random and kept on the node's
/// disk, tells two nodes with one name apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `node.name`.
    pub name: String,
    /// 32 hexadecimal digits.
    pub identity: String,
    /// Name of the group whose settings it gets beside those of all; empty for none.
    pub group: String,
}

impl Identity {
    /// A new identity.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn make() -> std::io::Result<String> {
        let bytes: [u8; 16] = random::array()?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Whether a node takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It takes part.
    Active,
    /// It left, or was removed: what it sends is refused.
    Removed,
}

impl NodeState {
    /// Name in the database and on pages.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Active => "active",
            NodeState::Removed => "removed",
        }
    }

    fn parse(name: &str) -> Self {
        if name == "active" { NodeState::Active } else { NodeState::Removed }
    }
}

/// What a node tells of itself every few seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Which process of the node tells this: random, another one after each start. A copy of a data
    /// folder is told by it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance: String,
    /// Version of the program.
    pub program: String,
    /// The newest schema of the tables that it knows.
    pub schema: i32,
    /// When it was started, in Unix milliseconds by its own clock.
    pub started_ms: i64,
    /// Its clock when it told this, in Unix milliseconds.
    pub clock_ms: i64,
    /// Messages in its queue.
    pub queued: u64,
    /// Open sessions.
    pub sessions: u64,
    /// It takes no new mail.
    pub draining: bool,
    /// Changes of its log that the array has not got.
    pub behind: u64,
    /// When the oldest message among those was received, in Unix milliseconds.
    pub behind_since_ms: Option<i64>,
    /// Number of the array's policy in force; 0 for its own.
    pub policy: i64,
    /// When the node took it over, in Unix milliseconds by its own clock; 0: not known.
    pub policy_since_ms: i64,
    /// Why a newer one is not.
    pub policy_error: String,
    /// Number of the array's settings in force; 0 for none.
    pub settings: i64,
    /// When the node took them over, in Unix milliseconds by its own clock; 0: not known.
    pub settings_since_ms: i64,
    /// Why newer ones are not.
    pub settings_error: String,
    /// When the node had all that others had sent of users and lists, in Unix milliseconds by its
    /// own clock; 0: not since it was started. None where they are not shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists_ms: Option<i64>,
    /// Messages of its queue that wait after a failed attempt, or are held back: the oldest of
    /// them, at most [`WAITING_MAX`]. What only passes through is not told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
}

/// A message that waits in a node's queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// Id of the message.
    pub id: String,
    /// Envelope sender; empty for bounces.
    pub from: String,
    /// The first of the addresses that are still open.
    pub to: String,
    /// How many of these there are.
    pub recipients: u64,
    /// When the next attempt is due, in Unix milliseconds; none if it is held back.
    pub due_ms: Option<i64>,
    /// Attempts of delivery so far.
    pub attempts: u32,
    /// Size of the message in bytes.
    pub size: u64,
    /// What the next hop said last, at most [`REPLY_BYTES_MAX`].
    pub reply: String,
    /// The node that it is on its way to; empty if it stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leaving_to: String,
}

/// A node as the array knows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeRow {
    /// Its number in the tables.
    pub id: i16,
    /// Its name.
    pub name: String,
    /// Its group; empty for none.
    pub group: String,
    /// Whether it takes part.
    pub state: NodeState,
    /// When it joined, in Unix milliseconds of the database's clock.
    pub joined_ms: i64,
    /// When it last told of itself, in Unix milliseconds of the database's clock.
    pub seen_ms: i64,
    /// Milliseconds since then, by the database's clock.
    pub silent_ms: i64,
    /// How far its clock was ahead of the database's when it told that, in milliseconds; the way
    /// there included.
    pub clock_ahead_ms: i64,
    /// What it told.
    pub status: Status,
}

/// Takes part as this node: the first time it is entered. Returns its number.
///
/// # Errors
/// If another node has the name, or this one was removed.
pub async fn register(session: &Session, own: &Identity) -> Result<i16, ArrayError> {
    const DOING: &str = "entering this node in the array";
    let known = session
        .row(
            DOING,
            // When it was seen is left alone: the status of before goes with that.
            "UPDATE node SET name = $2, grouped = $3 WHERE identity = $1 AND \
         state = 'active' AND NOT EXISTS (SELECT 1 FROM node WHERE name = $2 AND identity <> $1) \
         RETURNING id",
            &[&own.identity, &own.name, &own.group],
        )
        .await?;
    if let Some(row) = known {
        return Ok(row.get(0));
    }
    let entered = session
        .row(
            DOING,
            "INSERT INTO node (name, identity, grouped) SELECT $2, $1, $3 \
         WHERE NOT EXISTS (SELECT 1 FROM node WHERE identity = $1) \
         ON CONFLICT DO NOTHING RETURNING id",
            &[&own.identity, &own.name, &own.group],
        )
        .await?;
    if let Some(row) = entered {
        return Ok(row.get(0));
    }
    let name = own.name.clone();
    match twin(session, &own.name, &own.identity).await? {
        Some(seen) => Err(ArrayError::NameTaken { name, seen }),
        None => Err(ArrayError::Removed { name }),
    }
}

/// When another node than the one of this identity was last seen under this name (UTC); none if
/// there is no other.
///
/// # Errors
/// If the statement fails.
pub async fn twin(
    session: &Session,
    name: &str,
    identity: &str,
) -> Result<Option<String>, ArrayError> {
    let sql = "SELECT to_char(seen AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') FROM node \
               WHERE name = $1 AND identity <> $2";
    let row = session.row("looking for a node of the same name", sql, &[&name, &identity]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Makes this process the one that takes part as the node; one that began before is out.
///
/// # Errors
/// If the statement fails.
pub async fn take_over(session: &Session, id: i16, instance: &str) -> Result<(), ArrayError> {
    const DOING: &str = "taking part as this node";
    let row = session.row(DOING, "SELECT status FROM node WHERE id = $1", &[&id]).await?;
    let known = row.and_then(|row| serde_json::from_str(row.get(0)).ok());
    let status = Status { instance: instance.to_owned(), ..known.unwrap_or_default() };
    let text = serde_json::to_string(&status).unwrap_or_default();
    session.execute(DOING, "UPDATE node SET status = $2 WHERE id = $1", &[&id, &text]).await?;
    Ok(())
}

/// Whether a process of this node began after the one of this `instance`.
///
/// # Errors
/// If the statement fails.
pub async fn is_superseded(session: &Session, id: i16, instance: &str) -> Result<bool, ArrayError> {
    let sql = "SELECT 1 FROM node WHERE id = $1 AND status::json->>'instance' <> $2";
    let other = session.row("looking who takes part as this node", sql, &[&id, &instance]).await?;
    Ok(other.is_some())
}

/// Tells how this node is. Returns the oldest schema that an active node knows by what it told last
/// (0: one has told nothing yet); none if this node was removed, or another process is it now.
///
/// # Errors
/// If the statement fails.
pub async fn tell(session: &Session, id: i16, status: &Status) -> Result<Option<i32>, ArrayError> {
    let text = serde_json::to_string(status).unwrap_or_default();
    let told = session
        .row(
            "telling the array how this node is",
            "UPDATE node SET seen = now(), status = $2 WHERE id = $1 AND state = 'active' \
             AND coalesce(status::json->>'instance', $3) = $3 RETURNING (SELECT \
             min(coalesce((status::json->>'schema')::int, 0)) FROM node WHERE state = 'active')",
            &[&id, &text, &status.instance],
        )
        .await?;
    Ok(told.map(|row| row.get(0)))
}

/// All nodes, by name.
///
/// # Errors
/// If the statement fails.
pub async fn list(session: &Session) -> Result<Vec<NodeRow>, ArrayError> {
    let asked = session
        .rows(
            "reading the nodes of the array",
            "SELECT id, name, grouped, state, (extract(epoch FROM joined) * 1000)::bigint, \
         (extract(epoch FROM seen) * 1000)::bigint, \
         (extract(epoch FROM now() - seen) * 1000)::bigint, status FROM node ORDER BY name",
            &[],
        )
        .await?;
    let rows = asked;
    let node = |row: &tokio_postgres::Row| {
        let status: Status = serde_json::from_str(row.get(7)).unwrap_or_default();
        let seen_ms = row.get(5);
        NodeRow {
            id: row.get(0),
            name: row.get(1),
            group: row.get(2),
            state: NodeState::parse(row.get(3)),
            joined_ms: row.get(4),
            seen_ms,
            silent_ms: row.get(6),
            clock_ahead_ms: if status.clock_ms > 0 { status.clock_ms - seen_ms } else { 0 },
            status,
        }
    };
    Ok(rows.iter().map(node).collect())
}

/// Removes a node from the array; what it shipped stays. False if there is none of this name that
/// takes part.
///
/// # Errors
/// If the statement fails.
pub async fn remove(session: &Session, name: &str) -> Result<bool, ArrayError> {
    // Its name becomes free for another.
    let removed = session
        .execute(
            "removing a node from the array",
            "UPDATE node SET state = 'removed', name = name || ' (removed ' || id || ')' \
         WHERE name = $1 AND state = 'active'",
            &[&name],
        )
        .await?;
    Ok(removed == 1)
}

/// Takes a removed node back under its name.
///
/// # Errors
/// If another node has the name by now, or the statement fails.
pub async fn take_back(session: &Session, own: &Identity) -> Result<i16, ArrayError> {
    session
        .execute(
            "taking this node back into the array",
            "UPDATE node SET state = 'active', name = $2 WHERE identity = $1 AND state = 'removed' \
         AND NOT EXISTS (SELECT 1 FROM node WHERE name = $2 AND identity <> $1)",
            &[&own.identity, &own.name],
        )
        .await?;
    register(session, own).await
}
