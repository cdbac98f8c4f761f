//! Writing one day of the log.

mod statements;
mod tallies;

use std::collections::BTreeSet;
use std::path::Path;

use gauntlet_verdict::Disposition;
use rusqlite::{Connection, OptionalExtension, params};

use super::addresses::{self, AddressStatus};
use super::dictionary::{Dictionary, Trainer};
use super::feed;
use super::index::{self, Index};
use super::pack::Packer;
use super::report;
use super::schema::MIGRATIONS;
use super::seq::{SEQ_PER_MS, ms_of, seq_of, tie_break};
use super::terms::{self, Field, KnownTerms};
use super::tops;
use crate::database;
use crate::error::StoreError;
use crate::record::{Delivery, Event, LogRecord};
use statements::Statements;
use tallies::Tallies;

/// Longest subject, From or Message-ID kept, in bytes.
const FIELD_BYTES_MAX: usize = 200;

/// Pages of the term index that one merge step writes.
const MERGE_PAGES: u16 = 64;

/// What an append changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// Recipients whose disposition is new.
    pub new: u64,
    /// Recipients whose disposition was logged before, which stays.
    pub known: u64,
}

/// One day's file, open for writing.
#[derive(Debug)]
pub(crate) struct DayWriter {
    connection: Connection,
    packer: Packer,
    trainer: Trainer,
    known: KnownTerms,
    text: String,
    addresses: Vec<u8>,
    /// None for a day that an earlier version began with FTS5.
    index: Option<Index>,
    /// A transaction failed, so the state in memory may differ from the file.
    is_stale: bool,
}

impl DayWriter {
    /// Opens or creates the file. A new one begins with `before` as its dictionary. With `feeds`,
    /// changes are collected for the array.
    pub(crate) fn open(
        path: &Path,
        before: Option<&[u8]>,
        feeds: bool,
    ) -> Result<Self, StoreError> {
        let connection = database::open_busy(path, MIGRATIONS)?;
        feed::prepare(&connection, feeds).map_err(StoreError::db(path))?;
        let found = |c: &Connection| match (Dictionary::newest(c)?, before) {
            (None, Some(dictionary)) => Dictionary::save(c, dictionary),
            (newest, _) => Ok(newest),
        };
        let dictionary = found(&connection).map_err(StoreError::db(path))?;
        let index = load_index(&connection).map_err(StoreError::db(path))?;
        Ok(DayWriter {
            connection,
            packer: Packer::new(dictionary),
            trainer: Trainer::default(),
            known: KnownTerms::default(),
            text: String::new(),
            addresses: Vec::new(),
            index,
            is_stale: false,
        })
    }

    /// Begins to collect changes for the array, all messages of the day so far among them. Returns
    /// how many changes wait.
    pub(crate) fn begin_feed(&mut self) -> rusqlite::Result<u64> {
        feed::begin(&mut self.connection)
    }

    /// Forgets the changes up to this one. Returns how many.
    pub(crate) fn shipped(&mut self, change: i64) -> rusqlite::Result<u64> {
        feed::forget(&self.connection, change)
    }

    /// Does one step of merging the term index, so that in the end a search reads one part and not
    /// many. Takes milliseconds. False when nothing is left to do.
    pub(crate) fn merge_some(&mut self, is_begun: bool) -> rusqlite::Result<bool> {
        self.refresh()?;
        let Some(index) = &mut self.index else {
            // A negative number starts a merge of all parts, whatever their size; a positive one
            // continues it.
            let pages = i32::from(MERGE_PAGES);
            let pages = if is_begun { pages } else { -pages };
            let before = self.connection.total_changes();
            self.connection
                .prepare_cached("INSERT INTO posting (posting, rank) VALUES ('merge', ?1)")?
                .execute([pages])?;
            // As documented by SQLite: fewer than two changes mean that nothing was merged.
            return Ok(self.connection.total_changes() - before >= 2);
        };
        self.is_stale = true;
        let step = self.connection.transaction()?;
        let more = index.merge_all(&step, usize::from(MERGE_PAGES))?;
        step.commit()?;
        self.is_stale = false;
        Ok(more)
    }

    /// Reloads the state of the index after a failed transaction.
    fn refresh(&mut self) -> rusqlite::Result<()> {
        if self.is_stale {
            self.index = load_index(&self.connection)?;
            self.is_stale = false;
        }
        Ok(())
    }

    /// Computes the counts of a day that is over.
    pub(crate) fn finish(&self) -> rusqlite::Result<()> {
        let counted = self.connection.unchecked_transaction()?;
        tops::gather(&counted)?;
        report::count_recipients(&counted)?;
        counted.commit()
    }

    /// Writes all of these or none; durable when it returns. Adds what each record changed to the
    /// entry of `appended` with its index.
    pub(crate) fn write(
        &mut self,
        records: &[(usize, &LogRecord)],
        events: &[&Event],
        appended: &mut [Appended],
    ) -> rusqlite::Result<()> {
        self.refresh()?;
        let DayWriter { connection, packer, trainer, known, text, addresses, index, is_stale } =
            self;
        packer.clear();
        if let Some(dictionary) = trainer.finished()
            && let Some(kept) = Dictionary::save(connection, &dictionary)?
        {
            packer.dictionary = kept;
        }
        let batch = connection.transaction()?;
        *is_stale = true;
        let mut statements = Statements::prepare(&batch, index.as_mut())?;
        let mut tallies = Tallies::default();
        let mut changes = Vec::with_capacity(records.len());
        for (_, record) in records {
            let mut encoders = Encoders {
                packer: &mut *packer,
                trainer: &mut *trainer,
                known: &mut *known,
                text: &mut *text,
                addresses: &mut *addresses,
            };
            changes.push(write_record(&mut statements, &mut encoders, record, &mut tallies)?);
        }
        write_pack(&mut statements, packer, trainer)?;
        for event in events {
            write_event(&mut statements, text, event)?;
        }
        drop(statements);
        tallies.write(&batch)?;
        if let Some(index) = index {
            index.write(&batch)?;
        }
        batch.commit()?;
        *is_stale = false;
        for (&(position, _), change) in records.iter().zip(changes) {
            if let Some(total) = appended.get_mut(position) {
                total.new += change.new;
                total.known += change.known;
            }
        }
        Ok(())
    }
}

/// The index of this day; none if it has FTS5.
fn load_index(connection: &Connection) -> rusqlite::Result<Option<Index>> {
    let opened = connection.unchecked_transaction()?;
    index::begin(&opened)?;
    let mut index = None;
    if !index::is_fts5(&opened)? {
        index.insert(Index::default()).load(&opened)?;
    }
    opened.commit()?;
    Ok(index)
}

/// Whether the term index of this day has more than one part.
pub(crate) fn is_in_parts(connection: &Connection) -> rusqlite::Result<bool> {
    // One state of the file: a node that makes its day drops a table meanwhile.
    let snapshot = connection.unchecked_transaction()?;
    let sql = match index::is_fts5(&snapshot)? {
        true => "SELECT min(segid) < max(segid) FROM posting_idx",
        false => "SELECT min(part) < max(part) FROM term_part",
    };
    snapshot.query_row(sql, [], |row| Ok(row.get::<_, Option<bool>>(0)?.unwrap_or(false)))
}

/// Encoders of records, with reused buffers.
struct Encoders<'w> {
    packer: &'w mut Packer,
    trainer: &'w mut Trainer,
    known: &'w mut KnownTerms,
    text: &'w mut String,
    addresses: &'w mut Vec<u8>,
}

/// Whether a message was in the log before, with its key.
enum Written {
    Now(i64),
    Before(i64),
}

/// Writes the message unless it is known, and those of its recipients that are new.
fn write_record<'a>(
    statements: &mut Statements<'_>,
    encoders: &mut Encoders<'_>,
    record: &'a LogRecord,
    tallies: &mut Tallies<'a>,
) -> rusqlite::Result<Appended> {
    encoders.text.clear();
    let addresses = addresses::from_record(record);
    addresses::pack(&addresses, encoders.addresses).map_err(other_error)?;
    let (seq, appended) = match insert_message(statements, encoders, record)? {
        Written::Now(seq) => {
            encoders.packer.push(record).map_err(other_error)?;
            if encoders.packer.is_full() {
                write_pack(statements, encoders.packer, encoders.trainer)?;
            }
            if record.is_received() {
                tallies.count(record);
            }
            terms::push_message(encoders.text, record, encoders.known);
            (seq, push_addresses(encoders, record, &addresses))
        }
        Written::Before(seq) => (seq, write_later(statements, encoders, record, seq)?),
    };
    if !encoders.text.is_empty() {
        statements.terms.push(seq, encoders.text)?;
    }
    Ok(appended)
}

/// Appends the terms of a new message's recipients and deliveries.
fn push_addresses(
    encoders: &mut Encoders<'_>,
    record: &LogRecord,
    addresses: &[AddressStatus<'_>],
) -> Appended {
    let new = addresses.iter().filter(|p| !p.action.is_empty()).count() as u64;
    for disposition in &record.dispositions {
        terms::push_disposition(encoders.text, encoders.known, record.verdict.class, disposition);
    }
    for delivery in &record.deliveries {
        terms::push_name(encoders.text, Field::Outcome, delivery.outcome.name());
    }
    Appended { new, known: record.dispositions.len() as u64 - new }
}

/// Writes what is new in a record of a known message.
fn write_later(
    statements: &mut Statements<'_>,
    encoders: &mut Encoders<'_>,
    record: &LogRecord,
    seq: i64,
) -> rusqlite::Result<Appended> {
    let packed: Vec<u8> = statements.find_addresses.query_row([seq], |row| row.get(0))?;
    let addresses = addresses::unpack(&packed);
    let known: BTreeSet<&str> =
        addresses.iter().filter(|p| !p.action.is_empty()).map(|p| &*p.address).collect();
    let mut appended = Appended::default();
    for (position, disposition) in record.dispositions.iter().enumerate() {
        if !known.contains(&*disposition.recipient)
            && insert_recipient(statements, seq, position, disposition)?
        {
            appended.new += 1;
            terms::push_disposition(
                encoders.text,
                encoders.known,
                record.verdict.class,
                disposition,
            );
        } else {
            appended.known += 1;
        }
    }
    for delivery in &record.deliveries {
        if addresses::is_newer_delivery(&addresses, delivery, ms_of(seq))
            && upsert_delivery(statements, seq, delivery)?
        {
            terms::push_name(encoders.text, Field::Outcome, delivery.outcome.name());
        }
    }
    Ok(appended)
}

fn other_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(cause.into())
}

/// Writes the current pack.
fn write_pack(
    statements: &mut Statements<'_>,
    packer: &mut Packer,
    trainer: &mut Trainer,
) -> rusqlite::Result<()> {
    for record in packer.training_samples() {
        trainer.add_sample(record);
    }
    if let Some(packed) = packer.pack().map_err(other_error)? {
        statements.pack.execute(params![statements.next_pack, packed])?;
        statements.next_pack += 1;
    }
    Ok(())
}

fn find_seq(statements: &mut Statements<'_>, id: &str) -> rusqlite::Result<Option<i64>> {
    statements.find_seq.query_row([id], |row| row.get(0)).optional()
}

/// Writes the message's row if it is not known, under a free key of the record's millisecond. The
/// first key tried depends on the id alone, so that without collisions writing again gives the same
/// order.
fn insert_message(
    statements: &mut Statements<'_>,
    encoders: &Encoders<'_>,
    record: &LogRecord,
) -> rusqlite::Result<Written> {
    let sender = if record.from.is_empty() { &record.envelope.mail_from } else { &record.from };
    let verdict = &record.verdict;
    let score = if verdict.score.is_finite() { verdict.score } else { 0.0 };
    let position = encoders.packer.next_position(statements.next_pack);
    let first = seq_of(record.received_ms);
    let offset = tie_break(&record.id);
    for step in 0..SEQ_PER_MS {
        let seq = first + (offset + step) % SEQ_PER_MS;
        let written = statements.message.execute(params![
            seq,
            record.id,
            verdict.class.name(),
            score,
            i64::try_from(record.size).unwrap_or(i64::MAX),
            cut(sender),
            cut(&record.subject),
            cut(&record.message_id),
            record.latency_ms,
            position,
            encoders.addresses.as_slice(),
        ])?;
        if written == 1 {
            return Ok(Written::Now(seq));
        }
        if let Some(seq) = find_seq(statements, &record.id)? {
            return Ok(Written::Before(seq));
        }
    }
    Err(other_error(format!("over {SEQ_PER_MS} messages in millisecond {}", record.received_ms)))
}

fn insert_recipient(
    statements: &mut Statements<'_>,
    seq: i64,
    position: usize,
    disposition: &Disposition,
) -> rusqlite::Result<bool> {
    let rest = serde_json::to_string(disposition)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    let name = disposition.end.name();
    let values = params![seq, disposition.recipient, position, name, rest];
    Ok(statements.recipient.execute(values)? == 1)
}

/// Writes a delivery state, unless a newer one is known. False if nothing changed.
fn upsert_delivery(
    statements: &mut Statements<'_>,
    seq: i64,
    delivery: &Delivery,
) -> rusqlite::Result<bool> {
    let Delivery { address, outcome, at_ms, attempts, next_hop, reply } = delivery;
    let values = params![seq, address, outcome.name(), at_ms, attempts, next_hop, reply];
    Ok(statements.delivery.execute(values)? == 1)
}

/// Drops events of messages that are not in the log.
fn write_event(
    statements: &mut Statements<'_>,
    text: &mut String,
    event: &Event,
) -> rusqlite::Result<()> {
    let Some(seq) = find_seq(statements, &event.id)? else { return Ok(()) };
    let Event { at_ms, kind, recipient, detail, .. } = event;
    if statements.event.execute(params![seq, at_ms, kind, recipient, detail])? == 1 {
        text.clear();
        terms::push_name(text, Field::Event, kind);
        statements.terms.push(seq, text)?;
    }
    Ok(())
}

/// The first [`FIELD_BYTES_MAX`] bytes, cut at a character boundary.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(FIELD_BYTES_MAX)).rev().find(|&i| text.is_char_boundary(i));
    &text[..end.unwrap_or(0)]
}
