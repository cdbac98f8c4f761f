//! The activity logs of all nodes: who did what, and where.
//!
//! Each node keeps its own, of its users and of its held mail. What is new in them goes to one
//! table with the report of how the node is; a node that was cut off sends the rest later. A line
//! is kept as long as the messages of the log.

use std::sync::Arc;

use gauntlet_store::quarantine::AuditLine;

use crate::database::Session;
use crate::error::ArrayError;

/// Lines, under the numbers that their node's own log gives them.
pub(crate) const TABLES: &str = "
CREATE TABLE activity (
    node   smallint NOT NULL,
    log    smallint NOT NULL,
    at     bigint NOT NULL,
    number bigint NOT NULL,
    who    text NOT NULL,
    action text NOT NULL,
    item   text NOT NULL,
    detail text NOT NULL,
    PRIMARY KEY (node, log, at, number)
);
CREATE INDEX activity_at ON activity (at DESC);
";

/// Lines that are shipped at once.
const AT_ONCE: u64 = 200;
/// Older lines that a node brings when it joins, at most.
const BEFORE_MAX: i64 = 5_000;
/// Longest text of a line that is shipped, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;

/// Which of a node's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityLog {
    /// Accounts, sign-ins, orders.
    Users,
    /// Decisions about held mail.
    Held,
}

const LOGS: [ActivityLog; 2] = [ActivityLog::Users, ActivityLog::Held];

impl ActivityLog {
    fn number(self) -> i16 {
        match self {
            ActivityLog::Users => 0,
            ActivityLog::Held => 1,
        }
    }
}

/// A line with its number in its node's log, which grows.
pub type NumberedLine = (i64, AuditLine);

/// Reads lines of one of the node's logs after a number, oldest first, at most so many; after -1
/// the newest one alone. May block.
pub type ReadActivity =
    dyn Fn(ActivityLog, i64, u64) -> Result<Vec<NumberedLine>, String> + Send + Sync;

/// Ships the lines of one node over one connection.
#[derive(Debug)]
pub(crate) struct ActivityShipper {
    node: i16,
    /// Number of the last line that the array has, by log; none before the node's own was asked.
    after: [Option<i64>; 2],
    /// The database refused: not tried again over this connection, since the log of messages is to
    /// go on.
    is_refused: bool,
}

impl ActivityShipper {
    pub(crate) fn new(node: i16) -> Self {
        ActivityShipper { node, after: [None; 2], is_refused: false }
    }

    /// Ships what is new, at most [`AT_ONCE`] lines of each log. That the database refuses the
    /// statement (the login has no right to this table) is no error.
    pub(crate) async fn step(
        &mut self,
        session: &Session,
        local: &Arc<ReadActivity>,
    ) -> Result<(), ArrayError> {
        if self.is_refused {
            return Ok(());
        }
        match self.ship(session, local).await {
            Err(ArrayError::Statement { doing, cause }) => {
                tracing::warn!(doing, cause, "the activity of this node stays on it");
                self.is_refused = true;
                Ok(())
            }
            other => other,
        }
    }

    async fn ship(
        &mut self,
        session: &Session,
        local: &Arc<ReadActivity>,
    ) -> Result<(), ArrayError> {
        for log in LOGS {
            let place = usize::from(log == ActivityLog::Held);
            let after = match self.after[place] {
                Some(after) => after,
                None => self.begin(session, log, newest(local, log).await).await?,
            };
            let lines = lines(local, log, after, AT_ONCE).await;
            self.insert(session, log, &lines).await?;
            self.after[place] = Some(lines.last().map_or(after, |(number, _)| *number));
        }
        Ok(())
    }

    /// Where to begin: behind what the array has. A log that was lost and begun anew has lower
    /// numbers than that.
    async fn begin(
        &self,
        session: &Session,
        log: ActivityLog,
        newest: i64,
    ) -> Result<i64, ArrayError> {
        let sql = "SELECT max(number) FROM activity WHERE node = $1 AND log = $2";
        let asked = "asking for the activity that the array has";
        let row = session.row(asked, sql, &[&self.node, &log.number()]).await?;
        let there: Option<i64> = row.and_then(|row| row.get(0));
        let first = (newest - BEFORE_MAX).max(0);
        Ok(there.filter(|there| *there <= newest).unwrap_or(first))
    }

    async fn insert(
        &self,
        session: &Session,
        log: ActivityLog,
        lines: &[NumberedLine],
    ) -> Result<(), ArrayError> {
        if lines.is_empty() {
            return Ok(());
        }
        let of = |field: fn(&AuditLine) -> &str| -> Vec<&str> {
            lines.iter().map(|(_, line)| cut(field(line))).collect()
        };
        let times: Vec<i64> = lines.iter().map(|(_, line)| line.at_ms).collect();
        let numbers: Vec<i64> = lines.iter().map(|(number, _)| *number).collect();
        let (who, action) = (of(|line| &line.who), of(|line| &line.action));
        let (item, detail) = (of(|line| &line.item), of(|line| &line.detail));
        let sql = "INSERT INTO activity SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], \
                   $5::text[], $6::text[], $7::text[], $8::text[]) ON CONFLICT DO NOTHING";
        let values: [crate::value::Value<'_>; 8] =
            [&self.node, &log.number(), &times, &numbers, &who, &action, &item, &detail];
        session.execute("shipping the activity of this node", sql, &values).await.map(drop)
    }
}

/// PostgreSQL takes no zero bytes in a text.
fn cut(text: &str) -> &str {
    let text = text.split('\0').next().unwrap_or_default();
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

async fn lines(
    local: &Arc<ReadActivity>,
    log: ActivityLog,
    after: i64,
    max: u64,
) -> Vec<NumberedLine> {
    let local = local.clone();
    let read = tokio::task::spawn_blocking(move || local(log, after, max)).await;
    read.unwrap_or_else(|error| Err(error.to_string())).unwrap_or_else(|error| {
        tracing::warn!(error, ?log, "the activity of this node cannot be read");
        Vec::new()
    })
}

async fn newest(local: &Arc<ReadActivity>, log: ActivityLog) -> i64 {
    lines(local, log, -1, 1).await.first().map_or(0, |(number, _)| *number)
}

/// The newest lines of the other nodes, newest first, each with the name of its node.
///
/// # Errors
/// If the statement fails.
pub(crate) async fn of_others(
    session: &Session,
    own: &str,
    max: i64,
) -> Result<Vec<(String, AuditLine)>, ArrayError> {
    let sql = "SELECT n.name, a.at, a.who, a.action, a.item, a.detail FROM activity a \
               JOIN node n ON n.id = a.node WHERE n.name <> $1 ORDER BY a.at DESC LIMIT $2";
    let rows = session.rows("reading the activity of the array", sql, &[&own, &max]).await?;
    let line = |row: &tokio_postgres::Row| {
        let line = AuditLine {
            at_ms: row.get(1),
            who: row.get(2),
            action: row.get(3),
            item: row.get(4),
            detail: row.get(5),
        };
        (row.get(0), line)
    };
    Ok(rows.iter().map(line).collect())
}

/// Forgets lines before this time, in Unix milliseconds.
///
/// # Errors
/// If the statement fails.
pub(crate) async fn drop_old(session: &Session, before_ms: i64) -> Result<(), ArrayError> {
    let sql = "DELETE FROM activity WHERE at < $1";
    session.execute("forgetting old activity", sql, &[&before_ms]).await.map(drop)
}
