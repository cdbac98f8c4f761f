//! Rows of held mail, written and read.

use std::collections::BTreeMap;

use bytes::Bytes;
use gauntlet_mail::Envelope;
use gauntlet_store::QuarantineItem;
use gauntlet_store::quarantine::{Held, State};
use gauntlet_verdict::{Class, ReleasedBy};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::database::Session;
use crate::error::ArrayError;
use crate::held_batch::{HeldBatch, HeldSink};
use crate::objects::Objects;

/// The columns that [`held`] reads; `h` is the row's table, `n` its node's.
pub(crate) const COLUMNS: &str = "h.seq, h.item, h.message, h.folder, h.state, h.received, \
     h.changed, h.class, h.score, h.size, h.sender, h.subject, h.recipients, h.rest, n.name";

/// Most bytes that the rest of a row may unfold to: more is damage.
const REST_BYTES_MAX: usize = 64 << 20;

/// The database and the object store of an array, for one node.
pub(crate) struct ToArray<'a> {
    pub(crate) node: i16,
    pub(crate) session: &'a Session,
    pub(crate) objects: &'a Objects,
}

type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

impl ToArray<'_> {
    /// Runs a statement in one exchange with the server, without preparing it first.
    async fn ask(
        &self,
        doing: &'static str,
        sql: &str,
        values: &[Typed<'_>],
    ) -> Result<Vec<Row>, ArrayError> {
        self.session.within(doing, self.session.client().query_typed(sql, values)).await
    }
}

impl HeldSink for ToArray<'_> {
    async fn known(&mut self, ids: &[String]) -> Result<BTreeMap<String, bool>, ArrayError> {
        let rows = self
            .ask(
                "asking the array for held mail that it has",
                "SELECT item, object IS NOT NULL FROM held WHERE node = $1 AND item = ANY ($2)",
                &[(&self.node, Type::INT2), (&ids, Type::TEXT_ARRAY)],
            )
            .await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn announce(&mut self, name: &str) -> Result<i64, ArrayError> {
        const DOING: &str = "announcing an object of held mail";
        let rows = self
            .ask(
                DOING,
                "INSERT INTO held_object (node, name) VALUES ($1, $2) RETURNING id",
                &[(&self.node, Type::INT2), (&name, Type::TEXT)],
            )
            .await?;
        rows.first().map(|row| row.get(0)).ok_or_else(|| ArrayError::Statement {
            doing: DOING,
            cause: "the database returns no number".to_owned(),
        })
    }

    async fn put(&mut self, name: &str, object: Bytes) -> Result<(), ArrayError> {
        self.objects.put(name, object).await
    }

    async fn commit(&mut self, batch: &HeldBatch) -> Result<(), ArrayError> {
        const DOING: &str = "shipping held mail to the array";
        let columns = Columns::of(batch)?;
        let (object, object_bytes) =
            batch.object.map_or((None, 0), |(number, bytes)| (Some(number), whole(bytes)));
        let rows = self
            .ask(
                DOING,
                COMMIT,
                &[
                    (&self.node, Type::INT2),
                    (&object, Type::INT8),
                    (&object_bytes, Type::INT8),
                    (&columns.item, Type::TEXT_ARRAY),
                    (&columns.message, Type::TEXT_ARRAY),
                    (&columns.folder, Type::TEXT_ARRAY),
                    (&columns.state, Type::TEXT_ARRAY),
                    (&columns.received, Type::INT8_ARRAY),
                    (&columns.changed, Type::INT8_ARRAY),
                    (&columns.class, Type::TEXT_ARRAY),
                    (&columns.score, Type::FLOAT8_ARRAY),
                    (&columns.size, Type::INT8_ARRAY),
                    (&columns.sender, Type::TEXT_ARRAY),
                    (&columns.subject, Type::TEXT_ARRAY),
                    (&columns.recipients, Type::TEXT_ARRAY),
                    (&columns.rest, Type::BYTEA_ARRAY),
                    (&columns.place, Type::INT8_ARRAY),
                    (&columns.bytes, Type::INT4_ARRAY),
                    (&columns.changed_item, Type::TEXT_ARRAY),
                    (&columns.changed_state, Type::TEXT_ARRAY),
                    (&columns.changed_at, Type::INT8_ARRAY),
                    (&columns.changed_body, Type::BOOL_ARRAY),
                    (&batch.forgotten, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        let found: i64 = rows.first().map_or(0, |row| row.get(0));
        match object.is_some() && found != 1 {
            // It took a day to get here, and the object was taken for one that nobody names.
            true => Err(ArrayError::Statement {
                doing: DOING,
                cause: "the object with the bodies was removed meanwhile; they are sent again"
                    .to_owned(),
            }),
            false => Ok(()),
        }
    }
}

/// One statement, and so all of it or nothing. Without its object nothing is entered.
const COMMIT: &str = "
WITH whole AS (
    UPDATE held_object SET state = 'whole', bytes = $3 WHERE id = $2 AND state = 'writing'
    RETURNING id
), entered AS (
    INSERT INTO held (seq, node, item, message, folder, state, received, changed, class, score,
        size, sender, subject, recipients, rest, object, place, bytes)
    SELECT (greatest(least(t.received / 1000, 8589934591), 0) << 20)
            | (nextval('held_number') & 1048575),
        $1, t.item, t.message, t.folder, t.state, t.received, t.changed, t.class, t.score, t.size,
        t.sender, t.subject, string_to_array(t.recipients, chr(10)), t.rest,
        CASE WHEN t.place IS NOT NULL THEN $2 END, t.place, t.bytes
    FROM unnest($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
        AS t (item, message, folder, state, received, changed, class, score, size, sender, subject,
            recipients, rest, place, bytes)
    WHERE $2 IS NULL OR EXISTS (SELECT 1 FROM whole)
    ON CONFLICT (item, node) DO UPDATE SET state = excluded.state, changed = excluded.changed,
        object = excluded.object, place = excluded.place, bytes = excluded.bytes
), changed AS (
    UPDATE held SET state = t.state, changed = t.changed,
        object = CASE WHEN t.body THEN held.object END
    FROM unnest($19, $20, $21, $22) AS t (item, state, changed, body)
    WHERE held.node = $1 AND held.item = t.item
        AND ($2 IS NULL OR EXISTS (SELECT 1 FROM whole))
), forgotten AS (
    DELETE FROM held WHERE node = $1 AND item = ANY ($23)
)
SELECT count(*) FROM whole";

/// A number as PostgreSQL has it.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Text as PostgreSQL takes it: without the one character that it refuses.
fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// What no query asks for.
#[derive(Debug, Serialize, Deserialize)]
struct Rest {
    envelope: Envelope,
    /// The recipients as they were written, if that is not in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recipients: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<ReleasedBy>,
}

/// The rows of a batch, a list for each column.
#[derive(Default)]
struct Columns {
    item: Vec<String>,
    message: Vec<String>,
    folder: Vec<String>,
    state: Vec<&'static str>,
    received: Vec<i64>,
    changed: Vec<i64>,
    class: Vec<&'static str>,
    score: Vec<f64>,
    size: Vec<i64>,
    sender: Vec<String>,
    subject: Vec<String>,
    /// One a line.
    recipients: Vec<String>,
    rest: Vec<Vec<u8>>,
    place: Vec<Option<i64>>,
    bytes: Vec<Option<i32>>,
    changed_item: Vec<String>,
    changed_state: Vec<&'static str>,
    changed_at: Vec<i64>,
    changed_body: Vec<bool>,
}

impl Columns {
    fn of(batch: &HeldBatch) -> Result<Self, ArrayError> {
        let mut columns = Columns::default();
        for row in &batch.new {
            let Held { item, state, changed_ms, size, .. } = &row.held;
            let lower: Vec<String> = item
                .recipients
                .iter()
                .map(|r| text(&r.to_lowercase()).replace('\n', " "))
                .collect();
            columns.item.push(item.id.clone());
            columns.message.push(text(&item.message));
            columns.folder.push(text(&item.folder));
            columns.state.push(state.name());
            columns.received.push(item.received_ms);
            columns.changed.push(*changed_ms);
            columns.class.push(item.class.name());
            columns.score.push(item.score);
            columns.size.push(whole(*size));
            columns.sender.push(text(&item.from));
            columns.subject.push(text(&item.subject));
            columns.recipients.push(lower.join("\n"));
            columns.rest.push(rest_of(item, &lower)?);
            columns.place.push(row.body.map(|span| whole(span.offset)));
            columns.bytes.push(row.body.map(|span| i32::try_from(span.bytes).unwrap_or(i32::MAX)));
        }
        for row in &batch.changed {
            columns.changed_item.push(row.id.clone());
            columns.changed_state.push(row.state.name());
            columns.changed_at.push(row.changed_ms);
            columns.changed_body.push(row.has_body);
        }
        Ok(columns)
    }
}

fn damaged(id: &str, cause: &str) -> ArrayError {
    ArrayError::Damaged { what: format!("the row of held message {id}"), cause: cause.to_owned() }
}

fn rest_of(item: &QuarantineItem, lower: &[String]) -> Result<Vec<u8>, ArrayError> {
    let recipients = (item.recipients != lower).then(|| item.recipients.clone());
    let rest = Rest { envelope: item.envelope.clone(), recipients, release: item.release };
    let plain = rmp_serde::to_vec_named(&rest).map_err(|e| damaged(&item.id, &e.to_string()))?;
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut packed, &plain, 3)
        .map_err(|code| damaged(&item.id, zstd_safe::get_error_name(code)))?;
    Ok(packed)
}

/// Reads a row that was selected by [`COLUMNS`].
pub(crate) fn held(row: &Row) -> Result<Held, ArrayError> {
    let id: String = row.get(1);
    let packed: &[u8] = row.get(13);
    let length = zstd_safe::get_frame_content_size(packed).ok().flatten().unwrap_or(u64::MAX);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > REST_BYTES_MAX {
        return Err(damaged(&id, "its rest is no frame, or too large"));
    }
    let mut plain = Vec::with_capacity(length);
    zstd_safe::decompress(&mut plain, packed)
        .map_err(|code| damaged(&id, zstd_safe::get_error_name(code)))?;
    let rest: Rest =
        rmp_serde::from_slice(&plain).map_err(|error| damaged(&id, &error.to_string()))?;
    let item = QuarantineItem {
        message: row.get(2),
        folder: row.get(3),
        recipients: rest.recipients.unwrap_or_else(|| row.get(12)),
        envelope: rest.envelope,
        received_ms: row.get(5),
        class: row.get::<_, &str>(7).parse().unwrap_or(Class::Unscannable),
        score: row.get(8),
        subject: row.get(11),
        from: row.get(10),
        release: rest.release,
        id,
    };
    Ok(Held {
        seq: row.get(0),
        item,
        state: State::parse(row.get(4)),
        changed_ms: row.get(6),
        size: u64::try_from(row.get::<_, i64>(9)).unwrap_or(0),
        node: row.get(14),
    })
}
