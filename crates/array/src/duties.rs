//! What one node does for the whole array: rounds of digests, reports.
//!
//! A duty has a name and a time at which it is due. Of all nodes that ask, one takes it; if that
//! one dies over it, another may take it again after a while. Which held messages were in a digest
//! of an address is kept item by item: numbers that only grow would pass over mail that a node
//! which was cut off ships later.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gauntlet_store::StoreError;
use gauntlet_store::quarantine::Held;
use tokio::runtime::Handle;

use crate::database::{Database, Session};
use crate::error::ArrayError;
use crate::held_rows::{COLUMNS, held};

/// Held messages of one address that a digest looks at.
const FRESH_MAX: i64 = 500;

/// Whose duty something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Of the node that asked.
    Ours,
    /// Of another node, which is at it.
    Theirs,
    /// It is done.
    Done,
}

/// The duties of an array, asked by one of its nodes over one connection. All methods block.
#[derive(Debug)]
pub struct Duties {
    database: Database,
    runtime: Handle,
    /// The node's ([`crate::Identity`]).
    identity: String,
    session: Mutex<Option<Session>>,
}

impl Duties {
    /// Duties in this database, asked by the node of this identity.
    pub fn new(database: Database, runtime: Handle, identity: String) -> Self {
        Duties { database, runtime, identity, session: Mutex::new(None) }
    }

    fn ask<T>(
        &self,
        asking: impl AsyncFnOnce(&Session) -> Result<T, ArrayError>,
    ) -> Result<T, StoreError> {
        let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.runtime.block_on(async {
            let session = match kept.take().filter(|session| !session.is_closed()) {
                Some(session) => session,
                None => crate::schema::session(&self.database).await?,
            };
            let answer = asking(&session).await;
            // One that failed may still be busy with what was asked.
            if answer.is_ok() {
                *kept = Some(session);
            }
            answer
        });
        answer.map_err(|error| match error {
            ArrayError::Store(error) => error,
            other => StoreError::Remote { message: other.to_string(), retry: true },
        })
    }

    /// Takes what is due since `due_ms`, unless another node has taken it. One that was taken, is
    /// not done, and shows no sign of life for `again_after`, may be taken again; never without it.
    /// A node that was removed takes none.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn take(
        &self,
        name: &str,
        due_ms: i64,
        again_after: Option<Duration>,
    ) -> Result<Duty, StoreError> {
        const DOING: &str = "taking a duty of the array";
        let again_s = again_after.map(|after| after.as_secs_f64());
        self.ask(async |session| {
            let taken = session
                .row(
                    DOING,
                    "INSERT INTO duty AS d (name, due, node) SELECT $1, $2, id FROM node \
                     WHERE identity = $3 AND state = 'active' ON CONFLICT (name) DO UPDATE \
                     SET due = $2, node = excluded.node, taken = now(), done = NULL \
                     WHERE d.due < $2 OR (d.due = $2 AND d.done IS NULL \
                     AND d.taken < now() - make_interval(secs => $4::float8)) RETURNING d.node",
                    &[&name, &due_ms, &self.identity, &again_s],
                )
                .await?;
            if taken.is_some() {
                return Ok(Duty::Ours);
            }
            let done = session
                .row(
                    DOING,
                    "SELECT 1 FROM duty WHERE name = $1 AND (due > $2 OR done IS NOT NULL)",
                    &[&name, &due_ms],
                )
                .await?;
            Ok(if done.is_some() { Duty::Done } else { Duty::Theirs })
        })
    }

    /// Shows that this node is still at it. False if another has taken it meanwhile.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn keep(&self, name: &str, due_ms: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE duty SET taken = now() WHERE name = $1 AND due = $2 AND node = \
                   (SELECT id FROM node WHERE identity = $3)";
        self.ask(async |session| {
            let values: [crate::value::Value<'_>; 3] = [&name, &due_ms, &self.identity];
            Ok(session.execute("keeping a duty of the array", sql, &values).await? == 1)
        })
    }

    /// Whether this node is the one that took what is due since `due_ms`, done or not.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn is_ours(&self, name: &str, due_ms: i64) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM duty WHERE name = $1 AND due = $2 AND node = \
                   (SELECT id FROM node WHERE identity = $3 AND state = 'active')";
        self.ask(async |session| {
            let values: [crate::value::Value<'_>; 3] = [&name, &due_ms, &self.identity];
            Ok(session.row("asking whose a duty of the array is", sql, &values).await?.is_some())
        })
    }

    /// No other node takes it from here on. False if one has taken it meanwhile: this node may have
    /// stood still for long. May be said again.
    ///
    /// # Errors
    /// If the database cannot be asked; then it is not known, and must be said again.
    pub fn settle(&self, name: &str, due_ms: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE duty SET done = coalesce(done, now()) WHERE name = $1 AND due = $2 \
                   AND node = (SELECT id FROM node WHERE identity = $3 AND state = 'active')";
        self.ask(async |session| {
            let values: [crate::value::Value<'_>; 3] = [&name, &due_ms, &self.identity];
            Ok(session.execute("settling a duty of the array", sql, &values).await? == 1)
        })
    }

    /// It is done.
    ///
    /// # Errors
    /// If the database cannot be asked; then another node may do it again.
    pub fn done(&self, name: &str, due_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE duty SET done = now() WHERE name = $1 AND due = $2";
        self.ask(async |session| {
            session.execute("ending a duty of the array", sql, &[&name, &due_ms]).await.map(drop)
        })
    }

    /// What is held for this address and was in none of its digests.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn fresh(&self, address: &str) -> Result<Vec<Held>, StoreError> {
        let address = address.to_lowercase();
        let sql = format!(
            "SELECT {COLUMNS} FROM held AS h JOIN node AS n ON n.id = h.node \
             WHERE h.state = 'held' AND h.recipients @> ARRAY[$1::text] AND NOT EXISTS \
             (SELECT 1 FROM digested AS d WHERE d.address = $1 AND d.node = h.node \
             AND d.item = h.item) ORDER BY h.seq DESC LIMIT $2"
        );
        self.ask(async |session| {
            let values: [crate::value::Value<'_>; 2] = [&address, &FRESH_MAX];
            let rows = session.rows("reading held mail for a digest", &sql, &values).await?;
            rows.iter().map(held).collect()
        })
    }

    /// Notes that these items, by node and id, were in a digest of this address.
    ///
    /// # Errors
    /// If the database cannot be asked; then they are in the next one, too.
    pub fn digested(&self, address: &str, items: &[(String, String)]) -> Result<(), StoreError> {
        let (nodes, ids): (Vec<&str>, Vec<&str>) =
            items.iter().map(|(node, id)| (node.as_str(), id.as_str())).unzip();
        let address = address.to_lowercase();
        let sql = "INSERT INTO digested (address, node, item) SELECT $1, n.id, x.item \
                   FROM unnest($2::text[], $3::text[]) AS x (node, item) \
                   JOIN node AS n ON n.name = x.node ON CONFLICT DO NOTHING";
        self.ask(async |session| {
            session.execute("noting a digest", sql, &[&address, &nodes, &ids]).await.map(drop)
        })
    }

    /// Forgets which digests had items that are no more.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn forget(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM digested AS d WHERE NOT EXISTS \
                   (SELECT 1 FROM held AS h WHERE h.item = d.item AND h.node = d.node)";
        self.ask(async |session| session.execute("forgetting digests", sql, &[]).await.map(drop))
    }
}
