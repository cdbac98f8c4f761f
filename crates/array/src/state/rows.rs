//! The rows of `shared_batch`.

use gauntlet_store::sharing::{Cursors, SharedKind};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::kept_seconds;
use crate::database::Session;
use crate::error::ArrayError;

/// Batches of shared state. `epoch` names the database: one that was made anew has another.
pub(crate) const TABLES: &str = "
CREATE TABLE shared_epoch (epoch text NOT NULL);
INSERT INTO shared_epoch VALUES (gen_random_uuid()::text);
CREATE TABLE shared_batch (
    kind   smallint NOT NULL,
    node   smallint NOT NULL,
    number bigint NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (kind, node, number)
);
ALTER TABLE shared_batch ALTER COLUMN body SET STORAGE EXTERNAL;
";

/// Batches of one node and kind that are read at once.
pub(super) const READ_MAX: usize = 16;

/// Batches under numbers that ascend by node and kind. The lock of the node's row is held until
/// the rows are there: whoever sees a number sees all before it.
const SEND: &str = "WITH own AS MATERIALIZED \
     (SELECT id FROM node WHERE id = $1 AND state = 'active' FOR NO KEY UPDATE) \
     INSERT INTO shared_batch SELECT k, own.id, greatest( \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, (SELECT coalesce(max(number), 0) \
     + 1 FROM shared_batch b WHERE b.kind = k AND b.node = own.id)), b \
     FROM own, unnest($2::smallint[], $3::bytea[]) AS t (k, b)";

/// What other nodes sent after the cursors, in order.
const READ: &str = "SELECT b.kind, b.node, b.number, b.body FROM node n \
     CROSS JOIN unnest($2::smallint[]) AS k (kind) \
     LEFT JOIN unnest($3::smallint[], $4::smallint[], $5::bigint[]) AS c (kind, node, number) \
     ON c.kind = k.kind AND c.node = n.id \
     CROSS JOIN LATERAL (SELECT * FROM shared_batch s WHERE s.kind = k.kind AND s.node = n.id \
     AND s.number > coalesce(c.number, 0) ORDER BY s.number LIMIT $6) b \
     WHERE n.id <> $1 ORDER BY b.kind, b.node, b.number";

/// The statements of a session, prepared once: they are run every few seconds.
#[derive(Debug)]
pub(super) struct Rows {
    node: i16,
    send: Statement,
    read: Statement,
}

/// A row.
#[derive(Debug)]
pub(super) struct StoredBatch {
    pub(super) kind: i16,
    pub(super) node: i16,
    pub(super) number: i64,
    pub(super) body: Vec<u8>,
}

impl Rows {
    /// Those of this node.
    pub(super) async fn prepare(session: &Session, node: i16) -> Result<Self, ArrayError> {
        const DOING: &str = "preparing the exchange of shared state";
        let send = session.within(DOING, session.client().prepare(SEND)).await?;
        let read = session.within(DOING, session.client().prepare(READ)).await?;
        Ok(Rows { node, send, read })
    }

    /// Stores batches, at most one of a kind, all or none. False if this node was removed.
    pub(super) async fn send(
        &self,
        session: &Session,
        kinds: &[i16],
        bodies: &[Vec<u8>],
    ) -> Result<bool, ArrayError> {
        let values: [&(dyn ToSql + Sync); 3] = [&self.node, &kinds, &bodies];
        let sending = session.client().execute(&self.send, &values);
        Ok(session.within("sending shared state to the array", sending).await? > 0)
    }

    /// The next batches of other nodes, by kind, node and number; at most [`READ_MAX`] of each
    /// node and kind.
    pub(super) async fn read(
        &self,
        session: &Session,
        cursors: &[(SharedKind, &Cursors)],
    ) -> Result<Vec<StoredBatch>, ArrayError> {
        let kinds: Vec<i16> = cursors.iter().map(|(kind, _)| kind.number()).collect();
        let known = cursors.iter().flat_map(|(kind, all)| {
            all.iter().map(|(node, number)| (kind.number(), (*node, *number)))
        });
        let (of_kinds, known): (Vec<i16>, Vec<(i16, i64)>) = known.unzip();
        let (nodes, numbers): (Vec<i16>, Vec<i64>) = known.into_iter().unzip();
        let limit = READ_MAX as i64;
        let values: [&(dyn ToSql + Sync); 6] =
            [&self.node, &kinds, &of_kinds, &nodes, &numbers, &limit];
        let reading = session.client().query(&self.read, &values);
        let rows = session.within("reading shared state of the array", reading).await?;
        let batch = |row: &tokio_postgres::Row| StoredBatch {
            kind: row.get(0),
            node: row.get(1),
            number: row.get(2),
            body: row.get(3),
        };
        Ok(rows.iter().map(batch).collect())
    }
}

/// Name of the database; another one knows nothing of what this node sent.
pub(super) async fn epoch(session: &Session) -> Result<String, ArrayError> {
    let row =
        session.row("reading the array's name", "SELECT epoch FROM shared_epoch", &[]).await?;
    Ok(row.map(|row| row.get(0)).unwrap_or_default())
}

/// Removes rows that are older than their kind is kept. Returns how many.
///
/// # Errors
/// If a statement fails.
pub async fn drop_old(session: &Session, days: u32) -> Result<u64, ArrayError> {
    let kinds = SharedKind::ALL.map(SharedKind::number);
    let ages = SharedKind::ALL.map(|kind| kept_seconds(kind, days).cast_signed());
    let (kinds, ages) = (kinds.as_slice(), ages.as_slice());
    let sql = "DELETE FROM shared_batch b USING unnest($1::smallint[], $2::bigint[]) AS k (kind, \
               age), node n WHERE b.kind = k.kind AND b.node = n.id AND b.number < \
               ((extract(epoch FROM clock_timestamp()) - k.age) * 1000000)::bigint";
    session.execute("dropping old shared state", sql, &[&kinds, &ages]).await
}
