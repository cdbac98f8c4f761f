//! Writing one day of the log.

use std::collections::BTreeMap;
use std::path::Path;

use gauntlet_engine::Class;
use gauntlet_mail::Direction;
use gauntlet_policy::Disposition;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::pack::Packer;
use super::report::TopKind;
use super::schema::MIGRATIONS;
use super::terms::{self, Field};
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
    text: String,
}

/// Counts of a batch, summed up before they are written.
#[derive(Debug, Default)]
struct Tallies<'a> {
    minutes: BTreeMap<(i64, &'static str, &'static str), (i64, i64)>,
    tops: BTreeMap<(&'static str, &'a str), i64>,
}

impl DayWriter {
    /// Opens or creates the file.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = database::open_write(path, MIGRATIONS)?;
        Ok(DayWriter { connection, packer: Packer::default(), text: String::new() })
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
        let DayWriter { connection, packer, text } = self;
        let batch = connection.transaction()?;
        let mut tallies = Tallies::default();
        let mut changes = Vec::with_capacity(records.len());
        for (_, record) in records {
            changes.push(write_record(&batch, packer, text, record, &mut tallies)?);
        }
        for event in events {
            write_event(&batch, text, event)?;
        }
        tallies.write(&batch)?;
        batch.commit()?;
        for (&(place, _), change) in records.iter().zip(changes) {
            if let Some(total) = appended.get_mut(place) {
                total.new += change.new;
                total.known += change.known;
            }
        }
        Ok(())
    }
}

/// Writes the message unless it is known, and those of its recipients that are not.
fn write_record<'a>(
    batch: &Transaction<'_>,
    packer: &mut Packer,
    text: &mut String,
    record: &'a LogRecord,
    tallies: &mut Tallies<'a>,
) -> rusqlite::Result<Appended> {
    text.clear();
    let known = find_seq(batch, &record.id)?;
    let seq = match known {
        Some(seq) => seq,
        None => {
            terms::push_message(text, record);
            tallies.count(record);
            insert_message(batch, packer, record)?
        }
    };
    let mut appended = Appended::default();
    for (place, disposition) in record.dispositions.iter().enumerate() {
        if insert_recipient(batch, seq, place, disposition)? {
            appended.new += 1;
            push_disposition(text, record.verdict.class, disposition);
        } else {
            appended.known += 1;
        }
    }
    for delivery in &record.deliveries {
        if upsert_delivery(batch, seq, delivery)? {
            terms::push_name(text, Field::Outcome, delivery.outcome.name());
        }
    }
    if !text.is_empty() {
        insert_terms(batch, seq, text)?;
    }
    Ok(appended)
}

fn find_seq(batch: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<i64>> {
    let mut find = batch.prepare_cached("SELECT seq FROM message WHERE id = ?1")?;
    find.query_row([id], |row| row.get(0)).optional()
}

fn insert_message(
    batch: &Transaction<'_>,
    packer: &mut Packer,
    record: &LogRecord,
) -> rusqlite::Result<i64> {
    let packed =
        packer.pack(record).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    let sender = if record.from.is_empty() { &record.envelope.mail_from } else { &record.from };
    let verdict = &record.verdict;
    let score = if verdict.score.is_finite() { verdict.score } else { 0.0 };
    let seq = free_seq(batch, record)?;
    let mut insert = batch.prepare_cached(
        "INSERT INTO message (seq, id, class, score, size, sender, subject, message_id, \
         latency_ms, rest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    insert.execute(params![
        seq,
        record.id,
        verdict.class.name(),
        score,
        i64::try_from(record.size).unwrap_or(i64::MAX),
        cut(sender),
        cut(&record.subject),
        cut(&record.message_id),
        record.latency_ms,
        packed,
    ])?;
    Ok(seq)
}

/// A key nobody has, of the record's millisecond. Where among its peers depends on the id alone, as
/// long as there is no collision, so that writing again gives the same order.
fn free_seq(batch: &Transaction<'_>, record: &LogRecord) -> rusqlite::Result<i64> {
    let first = seq_of(record.received_ms);
    let tie_break = DayWriter::tie_break(&record.id);
    let mut taken = batch.prepare_cached("SELECT 1 FROM message WHERE seq = ?1")?;
    for step in 0..SEQ_PER_MS {
        let seq = first + (tie_break + step) % SEQ_PER_MS;
        if !taken.exists([seq])? {
            return Ok(seq);
        }
    }
    let cause = format!("over {SEQ_PER_MS} messages in millisecond {}", record.received_ms);
    Err(rusqlite::Error::ToSqlConversionFailure(cause.into()))
}

fn insert_recipient(
    batch: &Transaction<'_>,
    seq: i64,
    place: usize,
    disposition: &Disposition,
) -> rusqlite::Result<bool> {
    let rest = serde_json::to_string(disposition)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    let mut insert = batch.prepare_cached(
        "INSERT OR IGNORE INTO recipient (seq, recipient, place, action, rest) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    let name = disposition.end.name();
    Ok(insert.execute(params![seq, disposition.recipient, place, name, rest])? == 1)
}

/// Writes how far a delivery is, unless something later is known. False if nothing changed.
fn upsert_delivery(
    batch: &Transaction<'_>,
    seq: i64,
    delivery: &Delivery,
) -> rusqlite::Result<bool> {
    let mut upsert = batch.prepare_cached(
        "INSERT INTO delivery (seq, address, outcome, at_ms, attempts, next_hop, reply) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
         ON CONFLICT DO UPDATE SET outcome = excluded.outcome, at_ms = excluded.at_ms, \
         attempts = excluded.attempts, next_hop = excluded.next_hop, reply = excluded.reply \
         WHERE excluded.at_ms > at_ms OR excluded.attempts > attempts \
         OR (excluded.at_ms = at_ms AND excluded.outcome <> outcome)",
    )?;
    let Delivery { address, outcome, at_ms, attempts, next_hop, reply } = delivery;
    let values = params![seq, address, outcome.name(), at_ms, attempts, next_hop, reply];
    Ok(upsert.execute(values)? == 1)
}

fn push_disposition(text: &mut String, class: Class, disposition: &Disposition) {
    let recipient = &disposition.recipient;
    terms::push_address(text, Field::Recipient, Field::RecipientDomain, recipient);
    terms::push_name(text, Field::Action, disposition.end.name());
    terms::push_class_action(text, class, disposition.end.name());
    for rule in &disposition.rules {
        terms::push_exact(text, Field::PolicyRule, rule);
    }
}

fn insert_terms(batch: &Transaction<'_>, seq: i64, text: &str) -> rusqlite::Result<()> {
    let mut insert = batch.prepare_cached("INSERT INTO posting (rowid, term) VALUES (?1, ?2)")?;
    insert.execute(params![seq, text])?;
    Ok(())
}

/// Events of messages that are not in the log are dropped: there is no place to show them.
fn write_event(batch: &Transaction<'_>, text: &mut String, event: &Event) -> rusqlite::Result<()> {
    let Some(seq) = find_seq(batch, &event.id)? else { return Ok(()) };
    let mut insert = batch.prepare_cached(
        "INSERT OR IGNORE INTO event (seq, at_ms, kind, recipient, detail) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let Event { at_ms, kind, recipient, detail, .. } = event;
    if insert.execute(params![seq, at_ms, kind, recipient, detail])? == 1 {
        text.clear();
        terms::push_name(text, Field::Event, kind);
        insert_terms(batch, seq, text)?;
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
        for hit in &record.verdict.hits {
            *self.tops.entry((TopKind::Rule.name(), &hit.rule)).or_default() += 1;
        }
        let sender = terms::domain(&record.envelope.mail_from);
        if let Some(domain) = sender {
            *self.tops.entry((TopKind::Sender.name(), domain)).or_default() += 1;
        }
        let ours = match record.envelope.direction {
            Direction::Inbound => {
                record.dispositions.first().and_then(|d| terms::domain(&d.recipient))
            }
            Direction::Outbound => sender,
        };
        if let Some(domain) = ours {
            let kind = TopKind::Ours(record.verdict.class).name();
            *self.tops.entry((kind, domain)).or_default() += 1;
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
        let mut top = batch.prepare_cached(
            "INSERT INTO tally_top (kind, name, messages) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET messages = messages + excluded.messages",
        )?;
        for (&(kind, name), &messages) in &self.tops {
            top.execute(params![kind, name, messages])?;
        }
        Ok(())
    }
}

/// At most [`FIELD_BYTES_MAX`] bytes, cut at a character.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(FIELD_BYTES_MAX)).rev().find(|&i| text.is_char_boundary(i));
    &text[..end.unwrap_or(0)]
}
