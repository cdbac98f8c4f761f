//! Writing one day of the log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use gauntlet_engine::Class;
use gauntlet_mail::Direction;
use gauntlet_policy::Disposition;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, params};

use super::dictionary::{Dictionary, Trainer};
use super::index::{self, Index};
use super::pack::Packer;
use super::people::{self, Person};
use super::report::{self, TopKind};
use super::schema::MIGRATIONS;
use super::terms::{self, Field, KnownTerms};
use super::tops;
use crate::database;
use crate::error::StoreError;
use crate::record::{Delivery, Event, LogRecord};

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Messages that can share a millisecond.
const SEQ_PER_MS: i64 = 4096;
/// Longest subject, From or Message-ID kept, in bytes.
const FIELD_BYTES_MAX: usize = 200;

/// The first key of this moment.
pub(crate) fn seq_of(ms: i64) -> i64 {
    ms.saturating_mul(SEQ_PER_MS)
}

/// The moment of a key.
pub(crate) fn ms_of(seq: i64) -> i64 {
    seq.div_euclid(SEQ_PER_MS)
}

/// Pages that gather in the write-ahead log before they go into the file: those that every batch writes go once.
const WAL_PAGES: u32 = 4_000;
/// Pages of the term index that are written in one step of putting it together.
const MERGE_PAGES: u16 = 64;

/// What a batch changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// Recipients whose disposition was logged now.
    pub new: u64,
    /// Recipients whose disposition was logged before; the first stays.
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
    people: Vec<u8>,
    /// None for a day that was begun with FTS5.
    index: Option<Index>,
    /// A transaction failed, so that the index may not be what is known of it.
    is_stale: bool,
}

/// Where the terms of a message go.
enum Terms<'b> {
    Fts5(CachedStatement<'b>),
    Index(&'b mut Index),
}

impl Terms<'_> {
    fn push(&mut self, seq: i64, text: &str) -> rusqlite::Result<()> {
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
struct Statements<'b> {
    find_seq: CachedStatement<'b>,
    find_people: CachedStatement<'b>,
    message: CachedStatement<'b>,
    pack: CachedStatement<'b>,
    /// Number of the next pack.
    next_pack: i64,
    recipient: CachedStatement<'b>,
    delivery: CachedStatement<'b>,
    event: CachedStatement<'b>,
    terms: Terms<'b>,
}

impl<'b> Statements<'b> {
    fn prepare(batch: &'b Transaction<'_>, index: Option<&'b mut Index>) -> rusqlite::Result<Self> {
        let terms = match index {
            Some(index) => Terms::Index(index),
            None => Terms::Fts5(
                batch.prepare_cached("INSERT INTO posting (rowid, term) VALUES (?1, ?2)")?,
            ),
        };
        Ok(Statements {
            find_seq: batch.prepare_cached("SELECT seq FROM message WHERE id = ?1")?,
            find_people: batch.prepare_cached("SELECT people FROM message WHERE seq = ?1")?,
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

/// Counts of a batch, summed up before they are written.
#[derive(Debug, Default)]
struct Tallies<'a> {
    minutes: BTreeMap<(i64, &'static str, &'static str), (i64, i64)>,
    tops: HashMap<&'static str, HashMap<&'a str, i64>>,
}

impl DayWriter {
    /// Opens or creates the file. A new one begins with these words as its dictionary.
    pub(crate) fn open(path: &Path, before: Option<&[u8]>) -> Result<Self, StoreError> {
        let connection = database::open_write(path, MIGRATIONS)?;
        let wider = format!("PRAGMA wal_autocheckpoint = {WAL_PAGES};");
        connection.execute_batch(&wider).map_err(StoreError::db(path))?;
        let found = |c: &Connection| match (Dictionary::newest(c)?, before) {
            (None, Some(words)) => Dictionary::keep(c, words),
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
            people: Vec::new(),
            index,
            is_stale: false,
        })
    }

    /// Puts some of the term index together, so that in the end a search looks into one part of it and not into
    /// many. Takes milliseconds. False when nothing is left to do.
    pub(crate) fn merge_some(&mut self, is_begun: bool) -> rusqlite::Result<bool> {
        self.refresh()?;
        let Some(index) = &mut self.index else {
            // A negative number takes in all parts, whatever their size; a positive one goes on with them.
            let pages = i32::from(MERGE_PAGES);
            let pages = if is_begun { pages } else { -pages };
            let before = self.connection.total_changes();
            self.connection
                .prepare_cached("INSERT INTO posting (posting, rank) VALUES ('merge', ?1)")?
                .execute([pages])?;
            // As SQLite's documentation has it: less than two changes are none.
            return Ok(self.connection.total_changes() - before >= 2);
        };
        self.is_stale = true;
        let step = self.connection.transaction()?;
        let more = index.merge_all(&step, usize::from(MERGE_PAGES))?;
        step.commit()?;
        self.is_stale = false;
        Ok(more)
    }

    /// Reads again what the index is made of, if a transaction failed.
    fn refresh(&mut self) -> rusqlite::Result<()> {
        if self.is_stale {
            self.index = load_index(&self.connection)?;
            self.is_stale = false;
        }
        Ok(())
    }

    /// Counts what is counted once of a day that is over.
    pub(crate) fn finish(&self) -> rusqlite::Result<()> {
        let counted = self.connection.unchecked_transaction()?;
        tops::gather(&counted)?;
        report::count_recipients(&counted)?;
        counted.commit()
    }

    /// Where a message stands among those of its millisecond.
    pub(crate) fn tie_break(id: &str) -> i64 {
        i64::from(crc32fast::hash(id.as_bytes())) % SEQ_PER_MS
    }

    /// Writes all of these or none; durable when it returns. Adds what each record changed to the
    /// place of `appended` that it names.
    pub(crate) fn write(
        &mut self,
        records: &[(usize, &LogRecord)],
        events: &[&Event],
        appended: &mut [Appended],
    ) -> rusqlite::Result<()> {
        self.refresh()?;
        let DayWriter { connection, packer, trainer, known, text, people, index, is_stale } = self;
        packer.clear();
        if let Some(words) = trainer.made()
            && let Some(kept) = Dictionary::keep(connection, &words)?
        {
            packer.dictionary = kept;
        }
        let batch = connection.transaction()?;
        *is_stale = true;
        let mut statements = Statements::prepare(&batch, index.as_mut())?;
        let mut tallies = Tallies::default();
        let mut changes = Vec::with_capacity(records.len());
        for (_, record) in records {
            let mut into = Into {
                packer: &mut *packer,
                trainer: &mut *trainer,
                known: &mut *known,
                text: &mut *text,
                people: &mut *people,
            };
            changes.push(write_record(&mut statements, &mut into, record, &mut tallies)?);
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
        for (&(place, _), change) in records.iter().zip(changes) {
            if let Some(total) = appended.get_mut(place) {
                total.new += change.new;
                total.known += change.known;
            }
        }
        Ok(())
    }
}

/// The index of this day; none if that is FTS5.
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

/// The term index of this day is in more than one part.
pub(crate) fn is_in_parts(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = match index::is_fts5(connection)? {
        true => "SELECT min(segid) < max(segid) FROM posting_idx",
        false => "SELECT min(part) < max(part) FROM term_part",
    };
    connection.query_row(sql, [], |row| Ok(row.get::<_, Option<bool>>(0)?.unwrap_or(false)))
}

/// What records are made into, with buffers that are used again.
struct Into<'w> {
    packer: &'w mut Packer,
    trainer: &'w mut Trainer,
    known: &'w mut KnownTerms,
    text: &'w mut String,
    people: &'w mut Vec<u8>,
}

/// Whether a message was in the log.
enum Written {
    Now(i64),
    Before(i64),
}

/// Writes the message unless it is known, and those of its recipients that are not.
fn write_record<'a>(
    statements: &mut Statements<'_>,
    into: &mut Into<'_>,
    record: &'a LogRecord,
    tallies: &mut Tallies<'a>,
) -> rusqlite::Result<Appended> {
    into.text.clear();
    let people = people::of_record(record);
    people::pack(&people, into.people).map_err(other_error)?;
    let (seq, appended) = match insert_message(statements, into, record)? {
        Written::Now(seq) => {
            into.packer.push(record).map_err(other_error)?;
            if into.packer.is_full() {
                write_pack(statements, into.packer, into.trainer)?;
            }
            tallies.count(record);
            terms::push_message(into.text, record, into.known);
            (seq, push_people(into, record, &people))
        }
        Written::Before(seq) => (seq, write_later(statements, into, record, seq)?),
    };
    if !into.text.is_empty() {
        statements.terms.push(seq, into.text)?;
    }
    Ok(appended)
}

/// Appends the terms of everybody a new message is for.
fn push_people(into: &mut Into<'_>, record: &LogRecord, people: &[Person<'_>]) -> Appended {
    let new = people.iter().filter(|p| !p.action.is_empty()).count() as u64;
    for disposition in &record.dispositions {
        push_disposition(into.text, into.known, record.verdict.class, disposition);
    }
    for delivery in &record.deliveries {
        terms::push_name(into.text, Field::Outcome, delivery.outcome.name());
    }
    Appended { new, known: record.dispositions.len() as u64 - new }
}

/// Writes what is new in a record of a message that is in the log.
fn write_later(
    statements: &mut Statements<'_>,
    into: &mut Into<'_>,
    record: &LogRecord,
    seq: i64,
) -> rusqlite::Result<Appended> {
    let packed: Vec<u8> = statements.find_people.query_row([seq], |row| row.get(0))?;
    let people = people::unpack(&packed);
    let known: BTreeSet<&str> =
        people.iter().filter(|p| !p.action.is_empty()).map(|p| &*p.address).collect();
    let mut appended = Appended::default();
    for (place, disposition) in record.dispositions.iter().enumerate() {
        if !known.contains(&*disposition.recipient)
            && insert_recipient(statements, seq, place, disposition)?
        {
            appended.new += 1;
            push_disposition(into.text, into.known, record.verdict.class, disposition);
        } else {
            appended.known += 1;
        }
    }
    for delivery in &record.deliveries {
        if people::is_news(&people, delivery, ms_of(seq))
            && upsert_delivery(statements, seq, delivery)?
        {
            terms::push_name(into.text, Field::Outcome, delivery.outcome.name());
        }
    }
    Ok(appended)
}

fn other_error(cause: String) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(cause.into())
}

/// Writes the pack that is begun.
fn write_pack(
    statements: &mut Statements<'_>,
    packer: &mut Packer,
    trainer: &mut Trainer,
) -> rusqlite::Result<()> {
    for record in packer.in_want_of_words() {
        trainer.take(record);
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

/// Writes the message's row if it is not known, under a key that nobody has, of the record's millisecond. Where among
/// its peers depends on the id alone, as long as there is no collision, so that writing again gives the same order.
fn insert_message(
    statements: &mut Statements<'_>,
    into: &Into<'_>,
    record: &LogRecord,
) -> rusqlite::Result<Written> {
    let sender = if record.from.is_empty() { &record.envelope.mail_from } else { &record.from };
    let verdict = &record.verdict;
    let score = if verdict.score.is_finite() { verdict.score } else { 0.0 };
    let place = into.packer.next_place(statements.next_pack);
    let first = seq_of(record.received_ms);
    let tie_break = DayWriter::tie_break(&record.id);
    for step in 0..SEQ_PER_MS {
        let seq = first + (tie_break + step) % SEQ_PER_MS;
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
            place,
            into.people.as_slice(),
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
    place: usize,
    disposition: &Disposition,
) -> rusqlite::Result<bool> {
    let rest = serde_json::to_string(disposition)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    let name = disposition.end.name();
    let values = params![seq, disposition.recipient, place, name, rest];
    Ok(statements.recipient.execute(values)? == 1)
}

/// Writes how far a delivery is, unless something later is known. False if nothing changed.
fn upsert_delivery(
    statements: &mut Statements<'_>,
    seq: i64,
    delivery: &Delivery,
) -> rusqlite::Result<bool> {
    let Delivery { address, outcome, at_ms, attempts, next_hop, reply } = delivery;
    let values = params![seq, address, outcome.name(), at_ms, attempts, next_hop, reply];
    Ok(statements.delivery.execute(values)? == 1)
}

fn push_disposition(
    text: &mut String,
    known: &mut KnownTerms,
    class: Class,
    disposition: &Disposition,
) {
    let recipient = &disposition.recipient;
    known.push_address(text, Field::Recipient, Field::RecipientDomain, recipient);
    terms::push_name(text, Field::Action, disposition.end.name());
    terms::push_class_action(text, class, disposition.end.name());
    for rule in &disposition.rules {
        known.push(text, Field::PolicyRule, rule);
    }
}

/// Events of messages that are not in the log are dropped: there is no place to show them.
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

impl<'a> Tallies<'a> {
    fn count(&mut self, record: &'a LogRecord) {
        let action = record.dispositions.first().map_or("none", |d| d.end.name());
        let minute = record.received_ms.div_euclid(60_000);
        let entry = self.minutes.entry((minute, record.verdict.class.name(), action));
        let (messages, bytes) = entry.or_default();
        *messages += 1;
        *bytes += i64::try_from(record.size).unwrap_or(i64::MAX);
        let rules = self.tops.entry(TopKind::Rule.name()).or_default();
        for hit in &record.verdict.hits {
            *rules.entry(&*hit.rule).or_default() += 1;
        }
        let sender = terms::domain(&record.envelope.mail_from);
        if let Some(domain) = sender {
            *self.tops.entry(TopKind::Sender.name()).or_default().entry(domain).or_default() += 1;
        }
        let ours = match record.envelope.direction {
            Direction::Inbound => {
                record.dispositions.first().and_then(|d| terms::domain(&d.recipient))
            }
            Direction::Outbound => sender,
        };
        if let Some(domain) = ours {
            let kind = TopKind::Ours(record.verdict.class).name();
            *self.tops.entry(kind).or_default().entry(domain).or_default() += 1;
        }
    }

    fn write(&self, batch: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut minute = batch.prepare_cached(
            "INSERT INTO tally (minute, class, action, messages, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET messages = messages + excluded.messages,
                                       bytes = bytes + excluded.bytes",
        )?;
        for (&(at, class, action), &(messages, bytes)) in &self.minutes {
            minute.execute(params![at, class, action, messages, bytes])?;
        }
        let sorted = |names: &HashMap<&'a str, i64>| names.iter().map(|(&k, &n)| (k, n)).collect();
        let tops = self.tops.iter().map(|(&kind, names)| (kind, sorted(names))).collect();
        tops::write(batch, &tops)
    }
}

/// At most [`FIELD_BYTES_MAX`] bytes, cut at a character.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(FIELD_BYTES_MAX)).rev().find(|&i| text.is_char_boundary(i));
    &text[..end.unwrap_or(0)]
}
