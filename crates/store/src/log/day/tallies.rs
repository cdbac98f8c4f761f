//! Counts of a batch: messages by minute, class and action, and names that occur in them.

use std::collections::{BTreeMap, HashMap};

use gauntlet_mail::Direction;
use rusqlite::{Transaction, params};

use crate::log::report::TopKind;
use crate::log::{terms, tops};
use crate::record::LogRecord;

/// Counts of a batch, summed before they are written.
#[derive(Debug, Default)]
pub(super) struct Tallies<'a> {
    minutes: BTreeMap<(i64, &'static str, &'static str), (i64, i64)>,
    tops: HashMap<&'static str, HashMap<&'a str, i64>>,
}

impl<'a> Tallies<'a> {
    pub(super) fn count(&mut self, record: &'a LogRecord) {
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

    pub(super) fn write(&self, batch: &Transaction<'_>) -> rusqlite::Result<()> {
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
