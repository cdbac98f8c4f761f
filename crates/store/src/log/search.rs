//! Searching the log.

use gauntlet_mail::date::DAY_MS;
use gauntlet_verdict::Class;
use rusqlite::{Connection, Row, params_from_iter, types::Value};

use super::index::{self, Clause, Pattern};
use super::query::{Cursor, Page, Query, Summary, Wanted};
use super::seq::{ms_of, seq_of};
use super::terms::{self, Field};
use super::{Log, RECEIVED_MS_MAX, addresses};
use crate::error::StoreError;

/// Most messages of a page.
const PAGE_MAX: usize = 500;
/// Default number of messages of a page.
const PAGE_DEFAULT: usize = 50;
/// Recipients listed in a summary; the others are counted.
pub(super) const SUMMARY_RECIPIENTS_MAX: usize = 3;
/// Threads of one search, so that disk reads overlap.
const SEARCH_THREADS: usize = 4;
/// Most days that are searched at once.
const DAYS_AT_ONCE_MAX: usize = 16;
/// Most terms of one query.
const TERMS_MAX: usize = 40;

impl Log {
    /// The newest messages that match the query.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn search(&self, query: &Query) -> Result<Page, StoreError> {
        let limit = page_limit(query);
        let (since, until) = seq_range(query);
        let terms = clauses(query);
        let range =
            |day: i64| (seq_of(day * DAY_MS).max(since), seq_of((day + 1) * DAY_MS).min(until));
        let mut days = self.days();
        days.retain(|&day| range(day).0 < range(day).1);
        let mut messages: Vec<Summary> = Vec::new();
        let (mut rest, mut at_once) = (days.as_slice(), 1);
        // The newest days alone, since they mostly fill the page; then more and more at once.
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

    /// The results of each of these days, in their order.
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
                    if let Some(slot) = found.get_mut(at) {
                        *slot = messages;
                    }
                }
            }
            Ok(found)
        })
    }
}

/// Most messages of a page of this query.
pub(super) fn page_limit(query: &Query) -> usize {
    if query.limit == 0 { PAGE_DEFAULT } else { query.limit.min(PAGE_MAX) }
}

/// The keys `[since, until)` that a query asks for.
pub(super) fn seq_range(query: &Query) -> (i64, i64) {
    let since = seq_of(query.since_ms.unwrap_or(0).clamp(0, RECEIVED_MS_MAX));
    let until_ms = query.until_ms.unwrap_or(RECEIVED_MS_MAX).clamp(0, RECEIVED_MS_MAX);
    let until = query.after.map_or(seq_of(until_ms), |c| c.0.min(seq_of(until_ms)));
    (since, until)
}

/// The clauses of a query for the index, the most selective ones first.
pub(super) fn clauses(query: &Query) -> Vec<Clause> {
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
    let pattern = |term: &str| Pattern { term: term.to_owned(), is_prefix: false };
    let terms = |all: &str| all.split(' ').filter(|t| !t.is_empty()).map(pattern).collect();
    let mut found: Vec<Pattern> = terms(&all);
    found.extend(subject_patterns(&query.subject));
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

/// Words of a subject that are asked for; `pay*` takes all that begin so. A text without a word
/// (`*`, `!!!`) is asked for in vain: no subject has it among its words.
fn subject_patterns(subject: &str) -> Vec<Pattern> {
    let asked = subject.split_inclusive(char::is_whitespace).flat_map(|text| {
        let is_prefix = text.trim_end().ends_with('*');
        let words: Vec<String> = terms::words(text).collect();
        let last = words.len();
        words.into_iter().zip(1..).map(move |(word, n)| (word, is_prefix && n == last))
    });
    let term = |word: &str| {
        let mut term = String::new();
        terms::push_word(&mut term, word);
        term
    };
    let mut patterns: Vec<Pattern> =
        asked.map(|(word, is_prefix)| Pattern { term: term(&word), is_prefix }).collect();
    if patterns.is_empty() && !subject.trim().is_empty() {
        patterns.push(Pattern { term: term(""), is_prefix: false });
    }
    patterns
}

/// The clauses in the query language of FTS5.
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

/// SQL conditions that the index does not cover; appends their values.
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
    // All reads see one state.
    let snapshot = connection.unchecked_transaction()?;
    let wanted = Wanted::of(query);
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
        let rows = statement
            .query_map(params_from_iter(values), |row| summary(&snapshot, &wanted, row))?;
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
        let rows = statement
            .query_map(params_from_iter(values), |row| summary(&snapshot, &wanted, row))?;
        rows.collect()
    } else {
        let keys = index::find(&snapshot, clauses, (since, until))?;
        read_summaries(&snapshot, query, &keys, limit)
    }
}

/// The newest of the messages with these sorted keys that match the other conditions.
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
    let (wanted, mut found) = (Wanted::of(query), Vec::new());
    for key in keys.iter().rev() {
        if found.len() >= limit {
            break;
        }
        statement.raw_bind_parameter(1, key)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            found.push(summary(connection, &wanted, row)?);
        }
    }
    Ok(found)
}

fn summary(connection: &Connection, wanted: &Wanted, row: &Row<'_>) -> rusqlite::Result<Summary> {
    let seq = row.get(0)?;
    let addresses = addresses::unpack(row.get_ref(7)?.as_blob()?);
    let most = wanted.read(SUMMARY_RECIPIENTS_MAX);
    let (mut recipients, recipients_count) =
        addresses::summaries(connection, Cursor(seq), &addresses, most)?;
    wanted.keep(&mut recipients, SUMMARY_RECIPIENTS_MAX);
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
        node: String::new(),
    })
}
