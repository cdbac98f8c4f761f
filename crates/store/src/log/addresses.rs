//! The addresses of a message as it was logged, with dispositions and delivery states: a packed
//! column of the message's own row.
//!
//! Later changes have rows of their own: further recipients in `recipient`, newer delivery states
//! in `delivery`. So the row of a message is written once, and most messages have no other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::query::{Cursor, RecipientSummary};
use crate::record::{Delivery, LogRecord, Outcome};

/// A recipient, or an address that a redirect or copy names.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AddressStatus<'a> {
    #[serde(borrow)]
    pub(crate) address: Cow<'a, str>,
    /// Name of the disposition; empty for an address that is not a recipient.
    #[serde(borrow)]
    pub(crate) action: Cow<'a, str>,
    /// State of the delivery, if it was known.
    #[serde(borrow)]
    pub(crate) delivery: Option<DeliveryProgress<'a>>,
}

/// State of a delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeliveryProgress<'a> {
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    /// Milliseconds since the message was received.
    after_ms: i64,
    attempts: u32,
}

impl<'a> DeliveryProgress<'a> {
    fn of(delivery: &Delivery, received_ms: i64) -> DeliveryProgress<'static> {
        DeliveryProgress {
            outcome: Cow::Borrowed(delivery.outcome.name()),
            after_ms: delivery.at_ms.saturating_sub(received_ms),
            attempts: delivery.attempts,
        }
    }

    /// Whether this state is newer than the other.
    fn is_newer_than(&self, other: &DeliveryProgress<'a>) -> bool {
        self.after_ms > other.after_ms
            || self.attempts > other.attempts
            || (self.after_ms == other.after_ms && self.outcome != other.outcome)
    }
}

/// The addresses of a record: recipients in their order, each once, then other addresses.
pub(crate) fn from_record(record: &LogRecord) -> Vec<AddressStatus<'_>> {
    let mut addresses: Vec<AddressStatus<'_>> = Vec::with_capacity(record.dispositions.len());
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    let status = |address| AddressStatus { address, action: Cow::Borrowed(""), delivery: None };
    for disposition in &record.dispositions {
        positions.entry(&disposition.recipient).or_insert_with(|| {
            let action = Cow::Borrowed(disposition.end.name());
            addresses
                .push(AddressStatus { action, ..status(Cow::Borrowed(&disposition.recipient)) });
            addresses.len() - 1
        });
    }
    for delivery in &record.deliveries {
        let index = *positions.entry(&delivery.address).or_insert_with(|| {
            addresses.push(status(Cow::Borrowed(&delivery.address)));
            addresses.len() - 1
        });
        let progress = DeliveryProgress::of(delivery, record.received_ms);
        if let Some(status) = addresses.get_mut(index)
            && status.delivery.as_ref().is_none_or(|known| progress.is_newer_than(known))
        {
            status.delivery = Some(progress);
        }
    }
    addresses
}

/// Encodes them as MessagePack.
pub(crate) fn pack(
    addresses: &[AddressStatus<'_>],
    out: &mut Vec<u8>,
) -> Result<(), rmp_serde::encode::Error> {
    out.clear();
    rmp_serde::encode::write(out, addresses)
}

/// Decodes what [`pack`] wrote. Empty for messages of earlier versions, whose recipients all have
/// rows, and for damaged data.
pub(crate) fn unpack(packed: &[u8]) -> Vec<AddressStatus<'_>> {
    rmp_serde::from_slice(packed).unwrap_or_default()
}

/// Whether this delivery state is newer than the one that was logged with the message.
pub(crate) fn is_newer_delivery(
    addresses: &[AddressStatus<'_>],
    delivery: &Delivery,
    received_ms: i64,
) -> bool {
    let known = addresses.iter().find(|p| p.address == delivery.address);
    let known = known.and_then(|status| status.delivery.as_ref());
    known.is_none_or(|known| DeliveryProgress::of(delivery, received_ms).is_newer_than(known))
}

/// The newest delivery state of each address, by address.
pub(crate) fn latest_deliveries(
    deliveries: Vec<Delivery>,
    received_ms: i64,
) -> BTreeMap<String, Delivery> {
    let mut last: BTreeMap<String, Delivery> = BTreeMap::new();
    for delivery in deliveries {
        let progress = DeliveryProgress::of(&delivery, received_ms);
        let known =
            last.get(&delivery.address).map(|known| DeliveryProgress::of(known, received_ms));
        if known.is_none_or(|known| progress.is_newer_than(&known)) {
            last.insert(delivery.address.clone(), delivery);
        }
    }
    last
}

/// The first recipients of a message and their number, from its row and from later rows.
pub(crate) fn summaries(
    connection: &Connection,
    cursor: Cursor,
    addresses: &[AddressStatus<'_>],
    most: usize,
) -> rusqlite::Result<(Vec<RecipientSummary>, u64)> {
    let mut outcome = connection
        .prepare_cached("SELECT outcome FROM delivery WHERE seq = ?1 AND address = ?2")?;
    let (mut found, mut count) = (Vec::new(), 0);
    for status in addresses.iter().filter(|p| !p.action.is_empty()) {
        count += 1;
        if found.len() < most {
            let later: Option<String> = outcome
                .query_row(params![cursor.0, status.address], |row| row.get(0))
                .optional()?;
            let first = status.delivery.as_ref().map(|d| Outcome::parse(&d.outcome));
            found.push(RecipientSummary {
                recipient: status.address.clone().into_owned(),
                action: status.action.clone().into_owned(),
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
