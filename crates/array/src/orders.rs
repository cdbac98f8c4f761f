//! Orders of a manager to a node: rows that the node takes, carries out, and acknowledges.
//!
//! A node may be told the same order twice: it died after it carried it out and before the database
//! had its answer, or the database did. So it keeps a journal of the last orders and their
//! outcomes, and answers from it; and what an order does is harmless to repeat, for the moment
//! between doing it and writing the journal (a message that was released is not released again).

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gauntlet_store::{StoreError, files};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::database::Session;
use crate::editions::CHANNEL;
use crate::error::ArrayError;

/// Orders that a node reads at once.
const AT_ONCE: i64 = 100;
/// Outcomes that the journal keeps.
const KEPT: usize = 10_000;
/// The word for [`Order::Upgrade`].
const UPGRADE: &str = "upgrade";
/// Between two looks whether an order is done.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Doing what, for errors.
const DOING: &str = "giving an order to a node";
/// Longest outcome, in bytes.
const OUTCOME_BYTES_MAX: usize = 4_096;

/// What a node is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Order {
    /// Release a held message.
    Release {
        /// Id of the item.
        item: String,
        /// To these addresses; empty for those it is held for.
        to: Vec<String>,
        /// Train the classifier with it as ham.
        #[serde(default, skip_serializing_if = "is_false")]
        learn: bool,
        /// A recipient asks for it, who has these addresses: the node that holds it checks once
        /// more whether they may. None for an administrator or a reviewer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        addresses: Option<Vec<String>>,
    },
    /// Delete a held message.
    Delete {
        /// Id of the item.
        item: String,
    },
    /// A held message is spam, or is not: train the classifier.
    Learn {
        /// Id of the item.
        item: String,
        /// What it is.
        spam: bool,
    },
    /// Try to deliver these messages of the queue now; all that wait if none is named.
    Retry {
        /// Ids of messages.
        ids: Vec<String>,
    },
    /// Keep these messages of the queue waiting until they are retried.
    Hold {
        /// Ids of messages.
        ids: Vec<String>,
    },
    /// Delete these messages of the queue, without a report to their senders.
    Discard {
        /// Ids of messages.
        ids: Vec<String>,
    },
    /// Hand messages of the queue over to another node.
    Move {
        /// Name of the other node.
        to: String,
        /// Ids of messages; empty for all that wait.
        ids: Vec<String>,
    },
    /// Take no new mail, and finish the queue.
    Drain,
    /// Take mail again.
    Undrain,
    /// Read the configuration again.
    Reload,
    /// Drain, finish the queue, and stop, so that the service manager starts the program that is
    /// installed by then.
    Upgrade {
        /// Most seconds to wait for sessions and queue; what is left stays in the spool.
        seconds: u64,
        /// Do not wait for other nodes that are being upgraded.
        together: bool,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(is: &bool) -> bool {
    !is
}

impl Order {
    /// The held message that it is about, if it is about one.
    pub fn item(&self) -> Option<&str> {
        match self {
            Order::Release { item, .. } | Order::Delete { item } | Order::Learn { item, .. } => {
                Some(item)
            }
            _ => None,
        }
    }

    /// One word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Order::Release { .. } => "release",
            Order::Delete { .. } => "delete",
            Order::Learn { .. } => "learn",
            Order::Retry { .. } => "retry",
            Order::Hold { .. } => "hold",
            Order::Discard { .. } => "discard",
            Order::Move { .. } => "move",
            Order::Drain => "drain",
            Order::Undrain => "undrain",
            Order::Reload => "reload",
            Order::Upgrade { .. } => UPGRADE,
        }
    }
}

/// An order in the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrderRow {
    /// Its number.
    pub id: i64,
    /// Name of the node.
    pub node: String,
    /// One word for it.
    pub kind: String,
    /// Who gave it.
    pub who: String,
    /// When, in Unix milliseconds by the database's clock.
    pub made_ms: i64,
    /// When the node acknowledged it; none while it is open.
    pub done_ms: Option<i64>,
    /// Whether it could be done.
    pub is_good: Option<bool>,
    /// What came of it.
    pub outcome: Option<String>,
}

/// Gives an order to the node of this name. Returns its number.
///
/// # Errors
/// If there is no such node, or a statement fails.
pub async fn give(
    session: &Session,
    node: &str,
    order: &Order,
    who: &str,
) -> Result<i64, ArrayError> {
    let given = give_all(session, &[(node, order)], who).await?;
    given.first().copied().ok_or_else(|| no_node(node))
}

/// Gives these orders, each to the node that is named: all of them or none, in one exchange with
/// the server. Returns their numbers, in their order.
async fn give_all(
    session: &Session,
    wanted: &[(&str, &Order)],
    who: &str,
) -> Result<Vec<i64>, ArrayError> {
    let sql = "WITH wanted AS (SELECT n.id, w.kind, w.arguments, w.place FROM \
               unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY \
               AS w (node, kind, arguments, place) \
               JOIN node n ON n.name = w.node AND n.state = 'active'), \
               given AS (INSERT INTO node_order (node, kind, arguments, who) \
               SELECT id, kind, arguments, $4 FROM wanted \
               WHERE (SELECT count(*) FROM wanted) = cardinality($1) ORDER BY place RETURNING id) \
               SELECT id, pg_notify($5, 'order') FROM given ORDER BY id";
    let nodes: Vec<&str> = wanted.iter().map(|(node, _)| *node).collect();
    let kinds: Vec<&str> = wanted.iter().map(|(_, order)| order.name()).collect();
    let arguments = wanted.iter().map(|(_, order)| serde_json::to_string(order));
    let arguments: Vec<String> = arguments.map(Result::unwrap_or_default).collect();
    let rows = session.rows(DOING, sql, &[&nodes, &kinds, &arguments, &who, &CHANNEL]).await?;
    if rows.len() == wanted.len() {
        return Ok(rows.iter().map(|row| row.get(0)).collect());
    }
    let sql = "SELECT w FROM unnest($1::text[]) AS w WHERE NOT EXISTS \
               (SELECT 1 FROM node WHERE name = w AND state = 'active') LIMIT 1";
    let missing = session.row(DOING, sql, &[&nodes]).await?;
    let missing: Option<String> = missing.map(|row| row.get(0));
    Err(no_node(missing.as_deref().or(nodes.first().copied()).unwrap_or_default()))
}

fn no_node(node: &str) -> ArrayError {
    let cause = match node.contains(" (removed ") {
        true => {
            format!("{node} takes no part any more: `gauntlet array rejoin` there, or decide there")
        }
        false => format!("the array has no node {node}; `gauntlet array nodes` lists them"),
    };
    ArrayError::Statement { doing: DOING, cause }
}

/// Gives these orders, each to the node that is named, and waits for the answers, at most so long.
/// The result has one row an order; one without a time of its end is still open, and is done when
/// its node takes it.
///
/// # Errors
/// If an order cannot be given: then none of them is.
pub async fn give_and_wait(
    session: &Session,
    wanted: &[(String, Order)],
    who: &str,
    wait: Duration,
) -> Result<Vec<OrderRow>, ArrayError> {
    let wanted: Vec<(&str, &Order)> = wanted.iter().map(|(n, order)| (n.as_str(), order)).collect();
    let ids = give_all(session, &wanted, who).await?;
    let deadline = Instant::now() + wait;
    loop {
        let rows = of_numbers(session, &ids).await?;
        let is_done = rows.iter().all(|row| row.done_ms.is_some());
        if is_done || Instant::now() > deadline {
            return Ok(rows);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// An order by its number.
///
/// # Errors
/// If a statement fails.
pub async fn get(session: &Session, id: i64) -> Result<Option<OrderRow>, ArrayError> {
    let sql = format!("{SELECT} WHERE o.id = $1");
    let row = session.row("reading an order", &sql, &[&id]).await?;
    Ok(row.as_ref().map(order_row))
}

/// The newest orders, newest first.
///
/// # Errors
/// If a statement fails.
pub async fn list(session: &Session, max: u32) -> Result<Vec<OrderRow>, ArrayError> {
    let sql = format!("{SELECT} ORDER BY o.id DESC LIMIT $1");
    let rows = session.rows("reading orders", &sql, &[&i64::from(max)]).await?;
    Ok(rows.iter().map(order_row).collect())
}

/// Orders about held mail among the last ones, newest first: each with its item.
///
/// # Errors
/// If a statement fails.
pub async fn of_held_mail(
    session: &Session,
    max: u32,
) -> Result<Vec<(String, OrderRow)>, ArrayError> {
    // By the primary key: however many orders there ever were, few rows are read.
    let sql = format!("{SELECT_HELD} ORDER BY o.id DESC LIMIT $1");
    let rows = session.rows("reading orders about held mail", &sql, &[&i64::from(max)]).await?;
    let about = |row: &tokio_postgres::Row| {
        let order: Order = serde_json::from_str(row.get(8)).ok()?;
        Some((order.item()?.to_owned(), order_row(row)))
    };
    Ok(rows.iter().filter_map(about).collect())
}

/// The orders of these numbers, in their order.
///
/// # Errors
/// If a statement fails.
pub async fn of_numbers(session: &Session, ids: &[i64]) -> Result<Vec<OrderRow>, ArrayError> {
    let sql = format!("{SELECT} WHERE o.id = ANY ($1) ORDER BY o.id");
    let rows = session.rows("reading orders", &sql, &[&ids]).await?;
    Ok(rows.iter().map(order_row).collect())
}

const SELECT_HELD: &str = "SELECT o.id, n.name, o.kind, o.who, \
     (extract(epoch FROM o.made) * 1000)::bigint, (extract(epoch FROM o.done) * 1000)::bigint, \
     o.is_good, o.outcome, o.arguments FROM node_order o JOIN node n ON n.id = o.node";

const SELECT: &str = "SELECT o.id, n.name, o.kind, o.who, \
     (extract(epoch FROM o.made) * 1000)::bigint, (extract(epoch FROM o.done) * 1000)::bigint, \
     o.is_good, o.outcome FROM node_order o JOIN node n ON n.id = o.node";

fn order_row(row: &tokio_postgres::Row) -> OrderRow {
    OrderRow {
        id: row.get(0),
        node: row.get(1),
        kind: row.get(2),
        who: row.get(3),
        made_ms: row.get(4),
        done_ms: row.get(5),
        is_good: row.get(6),
        outcome: row.get(7),
    }
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it could be done.
    pub is_good: bool,
    /// A sentence on it.
    pub text: String,
}

/// An order that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    #[serde(flatten)]
    outcome: Outcome,
    /// When it was given, in Unix microseconds by the database's clock: one that was set back gives
    /// the same numbers again. 0 in journals of earlier builds.
    #[serde(default)]
    made_us: i64,
}

/// The orders that this node carried out, on its disk.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    done: BTreeMap<i64, Done>,
}

impl Journal {
    /// Opens the journal in this file; none there is an empty one.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let done = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| StoreError::Damaged {
                path: path.to_owned(),
                what: "the journal of orders".to_owned(),
                cause: format!(
                    "{error}; remove it: orders that were not acknowledged are then \
                                carried out again, which is harmless"
                ),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(StoreError::io(path, "read")(error)),
        };
        Ok(Journal { path: path.to_owned(), done })
    }

    /// What came of the order of this number that was given then (Unix microseconds), if it was
    /// carried out.
    pub fn outcome(&self, id: i64, made_us: i64) -> Option<&Outcome> {
        let done = self.done.get(&id)?;
        (done.made_us == 0 || done.made_us == made_us).then_some(&done.outcome)
    }

    /// Notes durably what came of an order.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&mut self, id: i64, made_us: i64, outcome: Outcome) -> Result<(), StoreError> {
        self.done.insert(id, Done { outcome, made_us });
        while self.done.len() > KEPT {
            self.done.pop_first();
        }
        let bytes = serde_json::to_vec(&self.done).unwrap_or_default();
        files::write_durably(&self.path, &bytes).map_err(StoreError::io(&self.path, "write"))
    }
}

/// Whether it is this order's turn among the upgrades of nodes that take part: the oldest is first.
///
/// # Errors
/// If a statement fails.
pub async fn is_next_upgrade(session: &Session, id: i64) -> Result<bool, ArrayError> {
    let sql = "SELECT 1 FROM node_order o JOIN node n ON n.id = o.node WHERE o.kind = $1 \
               AND o.done IS NULL AND o.id < $2 AND n.state = 'active' LIMIT 1";
    let row = session.row("looking for upgrades of other nodes", sql, &[&UPGRADE, &id]).await?;
    Ok(row.is_none())
}

/// What came of a look at the orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Followed {
    /// Orders that are done.
    pub done: usize,
    /// Orders that go on.
    pub under_way: usize,
}

/// Carries out the orders that are open for this node, oldest first. One for which `carry_out` has
/// no outcome yet stays open, and is handed to it again by the next call.
///
/// # Errors
/// If a statement fails, or the journal cannot be written: then the order is carried out again.
pub async fn follow<F, T>(
    session: &Session,
    node: i16,
    journal: &mut Journal,
    mut carry_out: F,
) -> Result<Followed, ArrayError>
where
    F: FnMut(i64, Order, String) -> T,
    T: Future<Output = Result<Option<Outcome>, ArrayError>>,
{
    const DOING: &str = "following the array's orders";
    let sql = "SELECT id, arguments, who, (extract(epoch FROM made) * 1000000)::bigint \
               FROM node_order WHERE node = $1 AND done IS NULL ORDER BY id LIMIT $2";
    let rows = session.rows(DOING, sql, &[&node, &AT_ONCE]).await?;
    let mut followed = Followed::default();
    for row in &rows {
        let (id, arguments, who): (i64, &str, String) = (row.get(0), row.get(1), row.get(2));
        let made_us: i64 = row.get(3);
        let outcome = match (journal.outcome(id, made_us), serde_json::from_str::<Order>(arguments))
        {
            (Some(known), _) => known.clone(),
            (None, Ok(order)) => {
                let Some(mut outcome) = carry_out(id, order, who).await? else {
                    followed.under_way += 1;
                    continue;
                };
                let end = outcome.text.floor_char_boundary(OUTCOME_BYTES_MAX);
                outcome.text.truncate(end);
                journal.note(id, made_us, outcome.clone())?;
                outcome
            }
            (None, Err(_)) => Outcome {
                is_good: false,
                text: "this node does not know the order: it is of a newer version".to_owned(),
            },
        };
        let sql = "UPDATE node_order SET done = now(), is_good = $2, outcome = $3 \
                   WHERE id = $1 AND done IS NULL";
        session.execute(DOING, sql, &[&id, &outcome.is_good, &outcome.text]).await?;
        followed.done += 1;
    }
    Ok(followed)
}
