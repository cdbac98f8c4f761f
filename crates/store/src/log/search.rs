//! Finding messages in the log.

use gauntlet_engine::Class;
use gauntlet_mail::{Envelope, Facts};
use gauntlet_policy::Disposition;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter, types::Value};
use serde::{Deserialize, Serialize};

use super::day::{DAY_MS, ms_of, seq_of};
use super::index::{self, Clause, Pattern};
use super::terms::{self, Field};
use super::{Log, RECEIVED_MS_MAX};
use super::{dictionary, pack, people};
use crate::error::StoreError;
use crate::record::{Delivery, Event, LogRecord, Outcome};

/// Most messages of a page.
const PAGE_MAX: usize = 500;
/// Messages of a page when the query does not say.
const PAGE_DEFAULT: usize = 50;
/// Recipients listed in a summary; the others are counted.
const SUMMARY_RECIPIENTS_MAX: usize = 3;
/// Events read for one message.
const EVENTS_MAX: usize = 1000;
/// Threads of one search: what is not in memory is waited for together.
const SEARCH_THREADS: usize = 4;
/// Most days that are searched before it is looked whether they are enough.
const DAYS_AT_ONCE_MAX: usize = 16;
/// Terms of one query.
const TERMS_MAX: usize = 40;

/// Which messages to find. Every field that is set must match; text ignores letter case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// Address of the sender, in the envelope or the From field; or `@domain`.
    pub sender: String,
    /// Address of a recipient, or `@domain`.
    pub recipient: String,
    /// Domain of the sender or of a recipient.
    pub domain: String,
    /// Words of the subject, all of them, in any order; a last `*` asks for a word's beginning.
    pub subject: String,
    /// Message-ID, with or without angle brackets.
    pub message_id: String,
    /// The message's id: the reference code of replies.
    pub id: String,
    /// Any of these classes; empty is all.
    pub classes: Vec<Class>,
    /// What was done for a recipient: the name of a final disposition, e.g. `quarantine`.
    pub action: String,
    /// A rule of the engine that hit.
    pub rule: String,
    /// A rule of the policy that matched.
    pub policy_rule: String,
    /// Address of the SMTP client.
    pub client: String,
    /// How far a delivery is or was, e.g. `queued`, `failed`: the name of an [`Outcome`].
    pub outcome: String,
    /// Something that happened later, e.g. `released`.
    pub event: String,
    /// Received at or after this Unix time in milliseconds.
    pub since_ms: Option<i64>,
    /// Received before this Unix time in milliseconds.
    pub until_ms: Option<i64>,
    /// At least this score.
    pub score_min: Option<f64>,
    /// Go on after this message of the page before.
    pub after: Option<Cursor>,
    /// Messages of a page, at most 500; 0 is 50.
    pub limit: usize,
}

/// A place in the log, between two messages. Ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub i64);

/// What became of a message for one of its recipients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipientSummary {
    /// The recipient.
    pub recipient: String,
    /// Name of the final disposition.
    pub action: String,
    /// How far the delivery to it is, where there is one.
    pub outcome: Option<Outcome>,
}

/// A line of a list of messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Place in the log; of the last line of a page, where the next page goes on.
    pub cursor: Cursor,
    /// The message's id.
    pub id: String,
    /// Unix time in milliseconds at which it was received.
    pub received_ms: i64,
    /// Class.
    pub class: Class,
    /// Rule points.
    pub score: f64,
    /// Bytes.
    pub size: u64,
    /// The From field, else the envelope's sender.
    pub from: String,
    /// Subject.
    pub subject: String,
    /// The first three recipients, and what was done for each.
    pub recipients: Vec<RecipientSummary>,
    /// How many recipients there are.
    pub recipients_count: u64,
}

/// A page of a search, newest message first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Page {
    /// The messages.
    pub messages: Vec<Summary>,
    /// Where the next page goes on; none on the last.
    pub next: Option<Cursor>,
}

/// A message of the log, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Place in the log.
    pub cursor: Cursor,
    /// The record.
    pub record: LogRecord,
    /// What happened after it was logged, in order of time.
    pub events: Vec<Event>,
}

impl Log {
    /// The newest messages that the query asks for.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn search(&self, query: &Query) -> Result<Page, StoreError> {
        let limit = if query.limit == 0 { PAGE_DEFAULT } else { query.limit.min(PAGE_MAX) };
        let since = seq_of(query.since_ms.unwrap_or(0).clamp(0, RECEIVED_MS_MAX));
        let until_ms = query.until_ms.unwrap_or(RECEIVED_MS_MAX).clamp(0, RECEIVED_MS_MAX);
        let until = query.after.map_or(seq_of(until_ms), |c| c.0.min(seq_of(until_ms)));
        let terms = clauses(query);
        let range =
            |day: i64| (seq_of(day * DAY_MS).max(since), seq_of((day + 1) * DAY_MS).min(until));
        let mut days = self.days();
        days.retain(|&day| range(day).0 < range(day).1);
        let mut messages: Vec<Summary> = Vec::new();
        let (mut rest, mut at_once) = (days.as_slice(), 1);
        // The newest days alone, since they mostly fill the page; then more and more together.
        while messages.len() <= limit && !rest.is_empty() {
            let (some, others) = rest.split_at(rest.len().min(at_once));
            // One more than the page, to know whether there is a next.
            let wanted = limit + 1 - messages.len();
            let find = |day| {
                let read = |c: &Connection| search_day(c, query, &terms, range(day), wanted);
                Ok(self.read_day(day, read)?.unwrap_or_default())
            };
            for found in self.search_days(some, &find)? {
                messages.extend(found);
            }
            (rest, at_once) = (others, (at_once * 2).min(DAYS_AT_ONCE_MAX));
        }
        let more = messages.len() > limit;
        messages.truncate(limit);
        let next = messages.last().filter(|_| more).map(|m| m.cursor);
        Ok(Page { messages, next })
    }

    /// What is found in each of these days, in their order.
    fn search_days(
        &self,
        days: &[i64],
        find: &(impl Fn(i64) -> Result<Vec<Summary>, StoreError> + Sync),
    ) -> Result<Vec<Vec<Summary>>, StoreError> {
        let threads = days.len().min(SEARCH_THREADS);
        if threads < 2 {
            return days.iter().map(|&day| find(day)).collect();
        }
        let mut found: Vec<Vec<Summary>> = days.iter().map(|_| Vec::new()).collect();
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for first in 0..threads {
                let work = move || {
                    let own = days.iter().enumerate().skip(first).step_by(threads);
                    own.map(|(at, &day)| Ok((at, find(day)?)))
                        .collect::<Result<Vec<_>, StoreError>>()
                };
                let builder = std::thread::Builder::new().name("log-search".to_owned());
                let worker = builder.spawn_scoped(scope, work);
                workers.push(worker.map_err(StoreError::io(&self.folder, "start a search of"))?);
            }
            for worker in workers {
                let part =
                    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                for (at, messages) in part {
                    if let Some(place) = found.get_mut(at) {
                        *place = messages;
                    }
                }
            }
            Ok(found)
        })
    }

    /// The message with this id; none if there is none, or it is forgotten.
    ///
    /// # Errors
    /// If a file cannot be read, or the record is damaged.
    pub fn get(&self, id: &str) -> Result<Option<Logged>, StoreError> {
        for day in self.days() {
            let Some(Some(found)) = self.read_day(day, |c| get_from_day(c, id))? else { continue };
            let Found { cursor, mut record, packed, pack, words, recipients, events } = found;
            let damaged = |cause| StoreError::Damaged {
                path: super::day_path(&self.folder, day),
                what: format!("record of {id}"),
                cause,
            };
            let rest = match &pack {
                Some(pack) => pack::unpack_from(pack, &packed, words.as_deref()),
                None => pack::unpack(&packed, words.as_deref()),
            };
            let rest = rest.map_err(damaged)?;
            let pack::Rest { envelope, facts, verdict, stages, dispositions, deliveries } = rest;
            let mut last = people::last_of_each(deliveries, record.received_ms);
            for later in std::mem::take(&mut record.deliveries) {
                last.insert(later.address.clone(), later);
            }
            record.deliveries = last.into_values().collect();
            record.dispositions = all_dispositions(recipients, &dispositions).map_err(damaged)?;
            record.envelope = envelope;
            record.facts = facts;
            record.verdict = verdict;
            record.stages = stages;
            return Ok(Some(Logged { cursor, record, events }));
        }
        Ok(None)
    }
}

/// What of the index a message must have: those clauses first that mostly few messages meet.
fn clauses(query: &Query) -> Vec<Clause> {
    let mut all = String::new();
    let exact = [
        (Field::MessageId, query.message_id.trim().trim_matches(['<', '>'])),
        (Field::Client, query.client.trim()),
        (Field::Rule, query.rule.trim()),
        (Field::PolicyRule, query.policy_rule.trim()),
    ];
    let addresses = [
        (Field::Sender, Field::SenderDomain, query.sender.trim()),
        (Field::Recipient, Field::RecipientDomain, query.recipient.trim()),
    ];
    for (whole, domain, value) in addresses.into_iter().filter(|(_, _, v)| !v.is_empty()) {
        match value.strip_prefix('@') {
            Some(name) => terms::push_exact(&mut all, domain, name),
            None => terms::push_exact(&mut all, whole, value),
        }
    }
    for (field, value) in exact.into_iter().filter(|(_, v)| !v.is_empty()) {
        terms::push_exact(&mut all, field, value);
    }
    for word in terms::words(&query.subject) {
        terms::push_word(&mut all, &word);
    }
    let pattern = |term: &str| Pattern { term: term.to_owned(), is_prefix: false };
    let terms = |all: &str| all.split(' ').filter(|t| !t.is_empty()).map(pattern).collect();
    let mut found: Vec<Pattern> = terms(&all);
    if query.subject.trim_end().ends_with('*') && terms::words(&query.subject).next().is_some() {
        found.last_mut().into_iter().for_each(|last| last.is_prefix = true);
    }
    let some_classes = !query.classes.is_empty() && query.classes.len() < Class::ALL.len();
    let action = query.action.trim();
    all.clear();
    for (field, value) in [(Field::Event, &query.event), (Field::Outcome, &query.outcome)] {
        if !value.trim().is_empty() {
            terms::push_name(&mut all, field, value);
        }
    }
    if !some_classes && !action.is_empty() {
        terms::push_name(&mut all, Field::Action, action);
    }
    let mut clauses: Vec<Clause> = found.into_iter().map(|p| vec![p]).collect();
    let domain = query.domain.trim().trim_start_matches('@');
    if !domain.is_empty() {
        let mut either = String::new();
        terms::push_exact(&mut either, Field::SenderDomain, domain);
        terms::push_exact(&mut either, Field::RecipientDomain, domain);
        clauses.push(terms(&either));
    }
    clauses.extend(terms(&all).into_iter().map(|p| vec![p]));
    if some_classes {
        let mut any = String::new();
        for class in &query.classes {
            match action {
                "" => terms::push_name(&mut any, Field::Class, class.name()),
                action => terms::push_class_action(&mut any, *class, action),
            }
        }
        clauses.push(terms(&any));
    }
    clauses.truncate(TERMS_MAX);
    clauses
}

/// The clauses in FTS5's language.
fn match_expression(clauses: &[Clause]) -> String {
    let pattern = |p: &Pattern| format!("\"{}\"{}", p.term, if p.is_prefix { "*" } else { "" });
    let clause = |any: &Clause| {
        let any: Vec<String> = any.iter().map(pattern).collect();
        format!("({})", any.join(" OR "))
    };
    let all: Vec<String> = clauses.iter().map(clause).collect();
    all.join(" AND ")
}

const COLUMNS: &str = "message.seq, message.id, class, score, size, sender, subject, people";

/// The conditions that are not of the index, with the values that they are about.
fn conditions(query: &Query, values: &mut Vec<Value>) -> String {
    let mut conditions = String::new();
    if let Some(score) = query.score_min {
        values.push(Value::Real(score));
        conditions.push_str(&format!(" AND score >= ?{}", values.len()));
    }
    if !query.id.trim().is_empty() {
        values.push(Value::Text(query.id.trim().to_owned()));
        conditions.push_str(&format!(" AND message.id = ?{}", values.len()));
    }
    conditions
}

fn search_day(
    connection: &Connection,
    query: &Query,
    clauses: &[Clause],
    (since, until): (i64, i64),
    limit: usize,
) -> rusqlite::Result<Vec<Summary>> {
    // What is read belongs together then.
    let snapshot = connection.unchecked_transaction()?;
    let mut values = vec![
        Value::Integer(since),
        Value::Integer(until),
        Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)),
    ];
    if clauses.is_empty() {
        let conditions = conditions(query, &mut values);
        let sql = format!(
            "SELECT {COLUMNS} FROM message WHERE seq >= ?1 AND seq < ?2{conditions} \
             ORDER BY seq DESC LIMIT ?3"
        );
        let mut statement = snapshot.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| summary(&snapshot, row))?;
        rows.collect()
    } else if index::is_fts5(&snapshot)? {
        let conditions = conditions(query, &mut values);
        values.push(Value::Text(match_expression(clauses)));
        let sql = format!(
            "SELECT {COLUMNS} FROM posting CROSS JOIN message ON message.seq = posting.rowid \
             WHERE posting MATCH ?{} AND posting.rowid >= ?1 AND posting.rowid < ?2{conditions} \
             ORDER BY posting.rowid DESC LIMIT ?3",
            values.len()
        );
        let mut statement = snapshot.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| summary(&snapshot, row))?;
        rows.collect()
    } else {
        let keys = index::find(&snapshot, clauses, (since, until))?;
        read_summaries(&snapshot, query, &keys, limit)
    }
}

/// The newest of the messages with these keys, which ascend, that meet the other conditions.
fn read_summaries(
    connection: &Connection,
    query: &Query,
    keys: &[i64],
    limit: usize,
) -> rusqlite::Result<Vec<Summary>> {
    let mut values = vec![Value::Null];
    let conditions = conditions(query, &mut values);
    let sql = format!("SELECT {COLUMNS} FROM message WHERE seq = ?1{conditions}");
    let mut statement = connection.prepare_cached(&sql)?;
    for (at, value) in (1..).zip(&values) {
        statement.raw_bind_parameter(at, value)?;
    }
    let mut found = Vec::new();
    for key in keys.iter().rev() {
        if found.len() >= limit {
            break;
        }
        statement.raw_bind_parameter(1, key)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            found.push(summary(connection, row)?);
        }
    }
    Ok(found)
}

fn summary(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Summary> {
    let seq = row.get(0)?;
    let people = people::unpack(row.get_ref(7)?.as_blob()?);
    let (recipients, recipients_count) =
        people::summaries(connection, Cursor(seq), &people, SUMMARY_RECIPIENTS_MAX)?;
    Ok(Summary {
        cursor: Cursor(seq),
        id: row.get(1)?,
        received_ms: ms_of(seq),
        class: row.get_ref(2)?.as_str()?.parse().unwrap_or(Class::Unscannable),
        score: row.get(3)?,
        size: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
        from: row.get(5)?,
        subject: row.get(6)?,
        recipients,
        recipients_count,
    })
}

/// What a day's file has of a message.
struct Found {
    cursor: Cursor,
    record: LogRecord,
    packed: Vec<u8>,
    /// What it is in, if it is packed together with others.
    pack: Option<Vec<u8>>,
    /// The dictionary that it is packed against.
    words: Option<Vec<u8>>,
    /// Recipients in order, with their dispositions as JSON; nothing where that is packed.
    recipients: Vec<(String, String)>,
    events: Vec<Event>,
}

/// What was decided for each recipient, from their own rows or from what is packed.
fn all_dispositions(
    recipients: Vec<(String, String)>,
    packed: &[Disposition],
) -> Result<Vec<Disposition>, String> {
    let one = |(recipient, rest): (String, String)| {
        if !rest.is_empty() {
            return serde_json::from_str(&rest).map_err(|e| e.to_string());
        }
        let found = packed.iter().find(|d| d.recipient == recipient);
        found.cloned().ok_or_else(|| format!("nothing is kept of the decision for {recipient}"))
    };
    recipients.into_iter().map(one).collect()
}

fn get_from_day(connection: &Connection, id: &str) -> rusqlite::Result<Option<Found>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, size, sender, subject, message_id, latency_ms, rest, people FROM message \
         WHERE id = ?1",
    )?;
    let found = statement.query_row([id], |row| {
        let seq: i64 = row.get(0)?;
        let record = LogRecord {
            id: id.to_owned(),
            received_ms: ms_of(seq),
            envelope: Envelope::default(),
            size: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            from: row.get(2)?,
            subject: row.get(3)?,
            message_id: row.get(4)?,
            facts: Facts::default(),
            latency_ms: row.get(5)?,
            ..LogRecord::default()
        };
        let first = people::unpack(row.get_ref(7)?.as_blob()?);
        let first = first.into_iter().filter(|p| !p.action.is_empty());
        let first: Vec<String> = first.map(|p| p.address.into_owned()).collect();
        Ok((Cursor(seq), record, row.get(6)?, first))
    });
    let found: Option<(Cursor, LogRecord, Vec<u8>, Vec<String>)> = found.optional()?;
    let Some((cursor, mut record, packed, first)) = found else { return Ok(None) };
    let pack = match pack::pack_of(&packed) {
        Some(number) => Some(
            connection
                .prepare_cached("SELECT records FROM pack WHERE number = ?1")?
                .query_row([number], |row| row.get::<_, Vec<u8>>(0))
                .optional()?
                // Read as a pack without records: damage, which names the message.
                .unwrap_or_default(),
        ),
        None => None,
    };
    let words = match pack::dictionary_of(pack.as_ref().unwrap_or(&packed)) {
        Some(number) => dictionary::words(connection, Some(number))?,
        None => None,
    };
    let mut recipients = recipients(connection, cursor)?;
    recipients.splice(..0, first.into_iter().map(|address| (address, String::new())));
    record.deliveries = deliveries(connection, cursor)?;
    let events = events(connection, cursor, &record)?;
    Ok(Some(Found { cursor, record, packed, pack, words, recipients, events }))
}

fn recipients(connection: &Connection, cursor: Cursor) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached(
        "SELECT recipient, rest FROM recipient WHERE seq = ?1 ORDER BY place, recipient",
    )?;
    let rows = statement.query_map([cursor.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn deliveries(connection: &Connection, cursor: Cursor) -> rusqlite::Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(
        "SELECT address, outcome, at_ms, attempts, next_hop, reply FROM delivery WHERE seq = ?1 \
         ORDER BY address",
    )?;
    let rows = statement.query_map([cursor.0], |row| {
        Ok(Delivery {
            address: row.get(0)?,
            outcome: Outcome::parse(row.get_ref(1)?.as_str()?),
            at_ms: row.get(2)?,
            attempts: row.get(3)?,
            next_hop: row.get(4)?,
            reply: row.get(5)?,
        })
    })?;
    rows.collect()
}

fn events(
    connection: &Connection,
    cursor: Cursor,
    record: &LogRecord,
) -> rusqlite::Result<Vec<Event>> {
    let mut statement = connection.prepare_cached(
        "SELECT at_ms, kind, recipient, detail FROM event WHERE seq = ?1 ORDER BY at_ms LIMIT ?2",
    )?;
    let rows = statement.query_map(params![cursor.0, EVENTS_MAX as i64], |row| {
        Ok(Event {
            id: record.id.clone(),
            received_ms: record.received_ms,
            at_ms: row.get(0)?,
            kind: row.get(1)?,
            recipient: row.get(2)?,
            detail: row.get(3)?,
        })
    })?;
    rows.collect()
}
