//! The prepared statements that write a batch.

use rusqlite::{CachedStatement, Transaction, params};

use crate::log::index::Index;

/// The term index that a batch is written to.
pub(super) enum Terms<'b> {
    Fts5(CachedStatement<'b>),
    Index(&'b mut Index),
}

impl Terms<'_> {
    pub(super) fn push(&mut self, seq: i64, text: &str) -> rusqlite::Result<()> {
        match self {
            Terms::Fts5(insert) => insert.execute(params![seq, text]).map(drop),
            Terms::Index(index) => {
                index.batch.push(seq, text);
                Ok(())
            }
        }
    }
}

/// The statements of a batch, prepared once for all its records.
pub(super) struct Statements<'b> {
    pub(super) find_seq: CachedStatement<'b>,
    pub(super) find_addresses: CachedStatement<'b>,
    pub(super) message: CachedStatement<'b>,
    pub(super) pack: CachedStatement<'b>,
    /// Number of the next pack.
    pub(super) next_pack: i64,
    pub(super) recipient: CachedStatement<'b>,
    pub(super) delivery: CachedStatement<'b>,
    pub(super) event: CachedStatement<'b>,
    pub(super) terms: Terms<'b>,
}

impl<'b> Statements<'b> {
    pub(super) fn prepare(
        batch: &'b Transaction<'_>,
        index: Option<&'b mut Index>,
    ) -> rusqlite::Result<Self> {
        let terms = match index {
            Some(index) => Terms::Index(index),
            None => Terms::Fts5(
                batch.prepare_cached("INSERT INTO posting (rowid, term) VALUES (?1, ?2)")?,
            ),
        };
        Ok(Statements {
            find_seq: batch.prepare_cached("SELECT seq FROM message WHERE id = ?1")?,
            find_addresses: batch.prepare_cached("SELECT people FROM message WHERE seq = ?1")?,
            message: batch.prepare_cached(
                "INSERT OR IGNORE INTO message (seq, id, class, score, size, sender, subject, \
                 message_id, latency_ms, rest, people) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?,
            pack: batch.prepare_cached("INSERT INTO pack (number, records) VALUES (?1, ?2)")?,
            next_pack: batch
                .prepare_cached("SELECT coalesce(max(number), 0) + 1 FROM pack")?
                .query_row([], |row| row.get(0))?,
            recipient: batch.prepare_cached(
                "INSERT OR IGNORE INTO recipient (seq, recipient, place, action, rest) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?,
            delivery: batch.prepare_cached(
                "INSERT INTO delivery (seq, address, outcome, at_ms, attempts, next_hop, reply) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
                 ON CONFLICT DO UPDATE SET outcome = excluded.outcome, at_ms = excluded.at_ms, \
                 attempts = excluded.attempts, next_hop = excluded.next_hop, \
                 reply = excluded.reply \
                 WHERE excluded.at_ms > at_ms OR excluded.attempts > attempts \
                 OR (excluded.at_ms = at_ms AND excluded.outcome <> outcome)",
            )?,
            event: batch.prepare_cached(
                "INSERT OR IGNORE INTO event (seq, at_ms, kind, recipient, detail) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?,
            terms,
        })
    }
}
