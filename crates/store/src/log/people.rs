//! Whom a message went to when it was logged, and how far it was on its way to each: some bytes in the message's
//! own row.
//!
//! What is learned later has rows of its own: further recipients in `recipient`, how far a delivery got since in
//! `delivery`. So the row of a message is written once, and most messages have no other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::search::{Cursor, RecipientSummary};
use crate::record::{Delivery, LogRecord, Outcome};

/// An address that a message was for, or goes to.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Person<'a> {
    #[serde(borrow)]
    pub(crate) address: Cow<'a, str>,
    /// What was decided for this recipient; empty for an address that is none.
    #[serde(borrow)]
    pub(crate) action: Cow<'a, str>,
    /// How far the delivery was, if one was known.
    #[serde(borrow)]
    pub(crate) delivery: Option<Progress<'a>>,
}

/// How far a delivery is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress<'a> {
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    /// Milliseconds since the message was received.
    after_ms: i64,
    attempts: u32,
}

impl<'a> Progress<'a> {
    fn of(delivery: &Delivery, received_ms: i64) -> Progress<'static> {
        Progress {
            outcome: Cow::Borrowed(delivery.outcome.name()),
            after_ms: delivery.at_ms.saturating_sub(received_ms),
            attempts: delivery.attempts,
        }
    }

    /// It tells more than this one does.
    fn is_later_than(&self, other: &Progress<'a>) -> bool {
        self.after_ms > other.after_ms
            || self.attempts > other.attempts
            || (self.after_ms == other.after_ms && self.outcome != other.outcome)
    }
}

/// Everybody of a record: recipients in their order, each once, then other addresses.
pub(crate) fn of_record(record: &LogRecord) -> Vec<Person<'_>> {
    let mut people: Vec<Person<'_>> = Vec::with_capacity(record.dispositions.len());
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let person = |address| Person { address, action: Cow::Borrowed(""), delivery: None };
    for disposition in &record.dispositions {
        places.entry(&disposition.recipient).or_insert_with(|| {
            let action = Cow::Borrowed(disposition.end.name());
            people.push(Person { action, ..person(Cow::Borrowed(&disposition.recipient)) });
            people.len() - 1
        });
    }
    for delivery in &record.deliveries {
        let place = *places.entry(&delivery.address).or_insert_with(|| {
            people.push(person(Cow::Borrowed(&delivery.address)));
            people.len() - 1
        });
        let progress = Progress::of(delivery, record.received_ms);
        if let Some(person) = people.get_mut(place)
            && person.delivery.as_ref().is_none_or(|known| progress.is_later_than(known))
        {
            person.delivery = Some(progress);
        }
    }
    people
}

/// Writes them as MessagePack.
pub(crate) fn pack(people: &[Person<'_>], out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    rmp_serde::encode::write(out, people).map_err(|e| e.to_string())
}

/// Reads what [`pack`] wrote. Nobody for messages of earlier versions, whose people all have rows, and for what is
/// damaged.
pub(crate) fn unpack(packed: &[u8]) -> Vec<Person<'_>> {
    rmp_serde::from_slice(packed).unwrap_or_default()
}

/// Whether this says more than what the message was logged with.
pub(crate) fn is_news(people: &[Person<'_>], delivery: &Delivery, received_ms: i64) -> bool {
    let known = people.iter().find(|p| p.address == delivery.address);
    let known = known.and_then(|person| person.delivery.as_ref());
    known.is_none_or(|known| Progress::of(delivery, received_ms).is_later_than(known))
}

/// The last that is told of each address, in the order of addresses.
pub(crate) fn last_of_each(
    deliveries: Vec<Delivery>,
    received_ms: i64,
) -> BTreeMap<String, Delivery> {
    let mut last: BTreeMap<String, Delivery> = BTreeMap::new();
    for delivery in deliveries {
        let progress = Progress::of(&delivery, received_ms);
        let known = last.get(&delivery.address).map(|known| Progress::of(known, received_ms));
        if known.is_none_or(|known| progress.is_later_than(&known)) {
            last.insert(delivery.address.clone(), delivery);
        }
    }
    last
}

/// The first recipients of a message and how many there are, from its row and from what was added later.
pub(crate) fn summaries(
    connection: &Connection,
    cursor: Cursor,
    people: &[Person<'_>],
    most: usize,
) -> rusqlite::Result<(Vec<RecipientSummary>, u64)> {
    let mut outcome = connection
        .prepare_cached("SELECT outcome FROM delivery WHERE seq = ?1 AND address = ?2")?;
    let (mut found, mut count) = (Vec::new(), 0);
    for person in people.iter().filter(|p| !p.action.is_empty()) {
        count += 1;
        if found.len() < most {
            let later: Option<String> = outcome
                .query_row(params![cursor.0, person.address], |row| row.get(0))
                .optional()?;
            let first = person.delivery.as_ref().map(|d| Outcome::parse(&d.outcome));
            found.push(RecipientSummary {
                recipient: person.address.clone().into_owned(),
                action: person.action.clone().into_owned(),
                outcome: later.as_deref().map(Outcome::parse).or(first),
            });
        }
    }
    let mut others = connection.prepare_cached(
        "SELECT recipient, action, outcome, count(*) OVER () FROM recipient \
         LEFT JOIN delivery ON delivery.seq = recipient.seq AND address = recipient \
         WHERE recipient.seq = ?1 ORDER BY place LIMIT ?2",
    )?;
    let mut more = 0;
    let mut rows = others.query(params![cursor.0, i64::try_from(most).unwrap_or(i64::MAX)])?;
    while let Some(row) = rows.next()? {
        more = u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
        if found.len() < most {
            let outcome: Option<String> = row.get(2)?;
            found.push(RecipientSummary {
                recipient: row.get(0)?,
                action: row.get(1)?,
                outcome: outcome.as_deref().map(Outcome::parse),
            });
        }
    }
    Ok((found, count + more))
}
