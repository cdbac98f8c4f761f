//! What a node is told of its own held mail: for its pages, and after its disk went back in time.

use std::collections::BTreeSet;

use gauntlet_store::StoreError;

use crate::held::SharedQuarantine;

/// Rows that are read at once.
const ROWS_AT_ONCE: i64 = 5_000;

/// An item of a node, as the array knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownItem {
    /// Its number in the array; later ones are greater.
    pub seq: i64,
    /// Its id at its node.
    pub item: String,
    /// Name of its state ([`gauntlet_store::quarantine::State::name`]).
    pub state: String,
    /// When that changed last, in Unix milliseconds of its node's clock.
    pub changed_ms: i64,
}

impl SharedQuarantine {
    /// How many messages this node holds, as the array knows it, and when any of its items changed
    /// last (Unix milliseconds). Blocks.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn held_by(&self, node: &str) -> Result<(u64, Option<i64>), StoreError> {
        let sql = "SELECT count(*) FILTER (WHERE h.state = 'held'), max(h.changed) \
                   FROM held AS h JOIN node AS n ON n.id = h.node WHERE n.name = $1";
        self.ask(|session| async move {
            let found = session.row("counting a node's held mail", sql, &[&node]).await;
            let counted = |row: tokio_postgres::Row| {
                (row.get::<_, i64>(0).cast_unsigned(), row.get::<_, Option<i64>>(1))
            };
            (session, found.map(|row| row.map(counted).unwrap_or_default()))
        })
    }

    /// Those of these items of a node that the array knows. Blocks.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn known_among(
        &self,
        node: &str,
        items: &[String],
    ) -> Result<BTreeSet<String>, StoreError> {
        let sql = "SELECT h.item FROM held AS h JOIN node AS n ON n.id = h.node \
                   WHERE n.name = $1 AND h.item = ANY($2)";
        self.ask(|session| async move {
            let values: [crate::value::Value<'_>; 2] = [&node, &items];
            let rows = session.rows("looking for a node's held mail", sql, &values).await;
            (session, rows.map(|rows| rows.iter().map(|row| row.get(0)).collect()))
        })
    }

    /// The next items of this node after `seq`, in their order. Blocks.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn items_of(&self, node: &str, seq: i64) -> Result<Vec<KnownItem>, StoreError> {
        let sql = "SELECT h.seq, h.item, h.state, h.changed \
                   FROM held AS h JOIN node AS n ON n.id = h.node \
                   WHERE n.name = $1 AND h.seq > $2 ORDER BY h.seq LIMIT $3";
        self.ask(|session| async move {
            let values: [crate::value::Value<'_>; 3] = [&node, &seq, &ROWS_AT_ONCE];
            let rows = session.rows("reading a node's held mail", sql, &values).await;
            let item = |row: &tokio_postgres::Row| KnownItem {
                seq: row.get(0),
                item: row.get(1),
                state: row.get(2),
                changed_ms: row.get(3),
            };
            (session, rows.map(|rows| rows.iter().map(item).collect()))
        })
    }
}
