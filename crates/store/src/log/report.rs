//! Data for reports: counts of names over days, and feedback of users on verdicts.

use std::collections::{BTreeMap, HashMap};

use gauntlet_mail::date::DAY_MS;
use gauntlet_verdict::Class;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::Log;
use super::seq::{ms_of, seq_of};
use super::{addresses, index, terms, tops};
use crate::error::StoreError;

/// Most names read of one day and kind; the most frequent ones.
const NAMES_OF_A_DAY_MAX: usize = 10_000;

/// Most recipients kept of a day that is over; the most frequent ones.
const RECIPIENTS_OF_A_DAY_MAX: usize = 1_000;
/// Counts the recipients of a day that is over and stores the counts. The connection should be in a
/// transaction.
pub(super) fn count_recipients(connection: &Connection) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT OR REPLACE INTO tally_top VALUES (?1, ?2, ?3)")?;
    for (name, messages) in recipients(connection)? {
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        insert.execute(params![TopKind::Recipient.name(), name, messages])?;
    }
    Ok(())
}

/// Keys of the messages of a day that nobody sent, sorted: a release is logged beside the message
/// that was held, and that one counts.
fn made_here(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    if index::is_fts5(connection)? {
        return Ok(Vec::new());
    }
    let mut term = String::new();
    terms::push_made_here(&mut term);
    let clause = vec![index::Pattern { term, is_prefix: false }];
    index::find(connection, &[clause], (i64::MIN, i64::MAX))
}

/// The most frequent recipients of a day, in lower case. The connection should be in a transaction.
fn recipients(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut names: HashMap<String, u64> = HashMap::new();
    let mut count = |name: &str| {
        let name = name.to_ascii_lowercase();
        *names.entry(name).or_default() += 1;
    };
    let made_here = made_here(connection)?;
    let is_received = |seq: i64| made_here.binary_search(&seq).is_err();
    let mut first = connection.prepare_cached("SELECT seq, people FROM message")?;
    let mut rows = first.query([])?;
    while let Some(row) = rows.next()? {
        if !is_received(row.get(0)?) {
            continue;
        }
        let addresses = addresses::unpack(row.get_ref(1)?.as_blob()?);
        addresses.iter().filter(|p| !p.action.is_empty()).for_each(|p| count(&p.address));
    }
    let mut later = connection.prepare_cached("SELECT seq, recipient FROM recipient")?;
    let mut rows = later.query([])?;
    while let Some(row) = rows.next()? {
        if is_received(row.get(0)?) {
            count(row.get_ref(1)?.as_str()?);
        }
    }
    let mut most: Vec<(String, u64)> = names.into_iter().collect();
    most.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    most.truncate(RECIPIENTS_OF_A_DAY_MAX);
    Ok(most)
}

/// Kinds of names that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopKind {
    /// Names of the rules that matched.
    Rule,
    /// Domains of envelope senders.
    Sender,
    /// Recipients; stored when their day is over ([`Log::top_recipients`] counts other days).
    Recipient,
    /// Local domains (of recipients of inbound mail, of the sender of outbound mail), by the class
    /// of the message.
    Ours(Class),
}

impl TopKind {
    /// Name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            TopKind::Rule => "rule",
            TopKind::Sender => "sender",
            TopKind::Recipient => "recipient",
            TopKind::Ours(Class::Ham) => "ours/ham",
            TopKind::Ours(Class::Bulk) => "ours/bulk",
            TopKind::Ours(Class::Suspect) => "ours/suspect",
            TopKind::Ours(Class::Spam) => "ours/spam",
            TopKind::Ours(Class::Phishing) => "ours/phishing",
            TopKind::Ours(Class::Malware) => "ours/malware",
            TopKind::Ours(Class::Unscannable) => "ours/unscannable",
        }
    }
}

/// Number of messages of one class with feedback of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feedback {
    /// The kind: `released`, `corrected_ham`, `corrected_spam`.
    pub kind: String,
    /// Class of the messages.
    pub class: Class,
    /// Number of messages that have the name.
    pub messages: u64,
}

impl Log {
    /// Number of messages with each name, over the whole days that `[since_ms, until_ms)` touches.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn tops(
        &self,
        kind: TopKind,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut names = BTreeMap::new();
        self.each_day(since_ms, until_ms, |c| {
            for (name, messages) in tops::read(c, kind.name(), NAMES_OF_A_DAY_MAX)? {
                *names.entry(name).or_default() += messages;
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// Number of messages that came for each recipient, over the whole days that
    /// `[since_ms, until_ms)` touches; of each day the most frequent ones. Days that are over have
    /// stored counts; others are counted now.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn top_recipients(
        &self,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut names = self.tops(TopKind::Recipient, since_ms, until_ms)?;
        self.each_day(since_ms, until_ms, |c| {
            let counted = "SELECT 1 FROM tally_top WHERE kind = ?1 LIMIT 1";
            if c.prepare_cached(counted)?.exists([TopKind::Recipient.name()])? {
                return Ok(());
            }
            let snapshot = c.unchecked_transaction()?;
            for (name, messages) in recipients(&snapshot)? {
                *names.entry(name).or_default() += messages;
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// Feedback of users on messages received in `[since_ms, until_ms)`, ordered by kind and class.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn feedback(&self, since_ms: i64, until_ms: i64) -> Result<Vec<Feedback>, StoreError> {
        let mut sums: BTreeMap<(String, Class), u64> = BTreeMap::new();
        self.each_day(since_ms, until_ms, |c| {
            let mut statement = c.prepare_cached(
                "SELECT kind, class, count(DISTINCT event.seq) FROM event \
                 JOIN message ON message.seq = event.seq \
                 WHERE kind IN ('released', 'corrected_ham', 'corrected_spam') \
                 AND event.seq >= ?1 AND event.seq < ?2 GROUP BY kind, class",
            )?;
            let rows = statement.query_map(params![seq_of(since_ms), seq_of(until_ms)], |row| {
                let class: String = row.get(1)?;
                Ok((row.get::<_, String>(0)?, class, row.get::<_, i64>(2)?))
            })?;
            for row in rows {
                let (kind, class, messages) = row?;
                let class = class.parse().unwrap_or(Class::Unscannable);
                *sums.entry((kind, class)).or_default() += u64::try_from(messages).unwrap_or(0);
            }
            Ok(())
        })?;
        let feedback =
            sums.into_iter().map(|((kind, class), messages)| Feedback { kind, class, messages });
        Ok(feedback.collect())
    }

    /// Time of reception of the oldest message, in Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn oldest_ms(&self) -> Result<Option<i64>, StoreError> {
        for day in self.days().into_iter().rev() {
            let read =
                |c: &Connection| c.query_row("SELECT min(seq) FROM message", [], |r| r.get(0));
            if let Some(Some(seq)) = self.read_day::<Option<i64>>(day, read)? {
                return Ok(Some(ms_of(seq)));
            }
        }
        Ok(None)
    }

    /// Runs `read` on every day that the range touches, oldest first.
    pub(super) fn each_day(
        &self,
        since_ms: i64,
        until_ms: i64,
        mut read: impl FnMut(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        for day in self.days().into_iter().rev() {
            if (day + 1) * DAY_MS > since_ms && day * DAY_MS < until_ms {
                self.read_day(day, &mut read)?;
            }
        }
        Ok(())
    }
}
