//! What waits for the database of an array: read by a shipper, forgotten when it has arrived.

use super::query::LoggedMessage;
use super::writer::Command;
use super::{Log, seq};
use crate::error::StoreError;

/// Changes of one day that the array has not got, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The day, in days since 1970 (UTC).
    pub day: i64,
    /// Number of the last change; [`Log::shipped`] forgets it and all before.
    pub last: i64,
    /// Changes read.
    pub count: usize,
    /// Keys of the messages that changed, each once, ascending.
    pub(crate) seqs: Vec<i64>,
}

impl Changes {
    /// Messages that changed.
    pub fn messages(&self) -> usize {
        self.seqs.len()
    }
}

/// What waits for the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Changes that wait.
    pub changes: u64,
    /// When the oldest message was received that has one, in Unix milliseconds.
    pub oldest_ms: Option<i64>,
}

impl Log {
    /// Begins to collect changes of this day for the array; the first time all its messages wait.
    /// Call it for every day of [`Log::days`] before [`Log::unshipped`]: once is enough for days
    /// that are there, and days that come later.
    ///
    /// # Errors
    /// If the day's file cannot be written.
    pub fn begin_feed(&self, day: i64) -> Result<u64, StoreError> {
        self.wait(|done| self.send(Command::BeginFeed { day, done })).map(|waiting| waiting.new)
    }

    /// The first changes of this day that the array has not got; none if it has all.
    ///
    /// # Errors
    /// If the day's file cannot be read.
    pub fn unshipped(&self, day: i64, limit: usize) -> Result<Option<Changes>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = self.read_day(day, |connection| {
            connection
                .prepare_cached("SELECT change, seq FROM unshipped ORDER BY change LIMIT ?1")?
                .query_map([limit], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(i64, i64)>>>()
        })?;
        let rows = read.unwrap_or_default();
        let Some(&(last, _)) = rows.last() else { return Ok(None) };
        let mut seqs: Vec<i64> = rows.iter().map(|(_, seq)| *seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        Ok(Some(Changes { day, last, count: rows.len(), seqs }))
    }

    /// The messages of these changes, as they are now, oldest first. A damaged record is left out
    /// and told in the log of the program.
    ///
    /// # Errors
    /// If the day's file cannot be read.
    pub fn changed(&self, changes: &Changes) -> Result<Vec<LoggedMessage>, StoreError> {
        self.read_many(changes.day, &changes.seqs)
    }

    /// The array has these changes: forgets them.
    ///
    /// # Errors
    /// If the day's file cannot be written; then they are sent again.
    pub fn shipped(&self, changes: &Changes) -> Result<(), StoreError> {
        let (day, change) = (changes.day, changes.last);
        self.wait(|done| self.send(Command::Shipped { day, change, done })).map(drop)
    }

    /// What waits for the array, over all days.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn backlog(&self) -> Result<Backlog, StoreError> {
        let mut all = Backlog::default();
        for day in self.days() {
            let read = self.read_day(day, |connection| {
                connection
                    .prepare_cached(
                        "SELECT max(change) - min(change) + 1, \
                         (SELECT seq FROM unshipped ORDER BY change LIMIT 1) FROM unshipped",
                    )?
                    .query_row([], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get(1)?)))
            })?;
            let Some((count, oldest)) = read else { continue };
            all.changes += count.unwrap_or(0).cast_unsigned();
            let oldest: Option<i64> = oldest;
            all.oldest_ms = match (all.oldest_ms, oldest.map(seq::ms_of)) {
                (Some(known), Some(found)) => Some(known.min(found)),
                (known, found) => known.or(found),
            };
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DAY, record};
    use super::super::{LogOptions, Matcher, Query, matching};
    use super::*;
    use crate::record::{Delivery, Event, Outcome};

    fn open(folder: &std::path::Path, feeds_array: bool) -> Log {
        Log::open_with(folder, LogOptions { feeds_array, ..LogOptions::default() }).unwrap()
    }

    fn day(log: &Log) -> i64 {
        log.days()[0]
    }

    /// The ids that a shipper would send now, without forgetting them.
    fn waiting(log: &Log) -> Vec<String> {
        let Some(changes) = log.unshipped(day(log), 1000).unwrap() else { return Vec::new() };
        log.changed(&changes).unwrap().into_iter().map(|m| m.record.id).collect()
    }

    #[test]
    fn every_change_waits_until_it_is_shipped() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path(), true);
        log.append((0..100).map(|n| record(n, DAY + n)).collect()).unwrap();
        log.begin_feed(day(&log)).unwrap();
        let first = log.unshipped(day(&log), 60).unwrap().unwrap();
        assert_eq!((first.messages(), first.count), (60, 60));
        // One of them changes while it is on its way.
        let mut delivered = record(7, DAY + 7);
        let outcome = Outcome::Delivered;
        let delivery = Delivery { address: "a7@example.com".to_owned(), outcome, ..<_>::default() };
        delivered.deliveries = vec![Delivery { at_ms: DAY + 9, ..delivery }];
        log.append(vec![delivered]).unwrap();
        log.shipped(&first).unwrap();
        let rest = waiting(&log);
        assert_eq!(rest.len(), 41);
        assert!(rest.contains(&"id-7".to_owned()));
        assert_eq!(log.backlog().unwrap(), Backlog { changes: 41, oldest_ms: Some(DAY + 60) });
        let all = log.unshipped(day(&log), 1000).unwrap().unwrap();
        let seven = log.changed(&all).unwrap().into_iter().find(|m| m.record.id == "id-7").unwrap();
        assert_eq!(Some(&seven), log.get("id-7").unwrap().as_ref());
        assert_eq!(seven.record.deliveries[0].outcome, Outcome::Delivered);
        log.shipped(&all).unwrap();
        assert_eq!(log.backlog().unwrap(), Backlog::default());
        let event = Event {
            id: "id-3".to_owned(),
            received_ms: DAY + 3,
            at_ms: DAY + 90,
            kind: "released".to_owned(),
            recipient: String::new(),
            detail: String::new(),
        };
        log.append_events(vec![event]).unwrap();
        assert_eq!(waiting(&log), ["id-3"]);
    }

    /// A stand-alone node joins an array, leaves it, and joins again.
    #[test]
    fn a_feed_begins_with_what_was_logged_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let append = |log: &Log, n: i64| log.append(vec![record(n, DAY + n)]).unwrap();
        let alone = open(folder.path(), false);
        append(&alone, 1);
        drop(alone);
        let joined = open(folder.path(), true);
        append(&joined, 2);
        joined.begin_feed(day(&joined)).unwrap();
        assert_eq!(waiting(&joined), ["id-1", "id-2"]);
        let all = joined.unshipped(day(&joined), 9).unwrap().unwrap();
        joined.shipped(&all).unwrap();
        drop(joined);
        let again = open(folder.path(), true);
        append(&again, 3);
        again.begin_feed(day(&again)).unwrap();
        assert_eq!(waiting(&again), ["id-3"], "a restart sends nothing again");
        drop(again);
        let alone = open(folder.path(), false);
        append(&alone, 4);
        assert_eq!(waiting(&alone), [""; 0]);
        drop(alone);
        let back = open(folder.path(), true);
        back.begin_feed(day(&back)).unwrap();
        assert_eq!(waiting(&back).len(), 4);
    }

    #[test]
    fn days_that_the_array_lacks_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path(), true);
        log.append((0..2).map(|n| record(n, DAY + n * 86_400_000)).collect()).unwrap();
        let days = log.days();
        for day in &days {
            log.begin_feed(*day).unwrap();
        }
        let now = DAY + 9 * 86_400_000;
        let all = log.unshipped(days[0], 9).unwrap().unwrap();
        log.shipped(&all).unwrap();
        assert_eq!(log.retain(now, 1).unwrap(), 1);
        assert_eq!(log.days(), [days[1]], "the older one waits");
        let all = log.unshipped(days[1], 9).unwrap().unwrap();
        log.shipped(&all).unwrap();
        assert_eq!(log.retain(now, 1).unwrap(), 1);
    }

    #[test]
    fn one_message_at_a_time_is_found_as_the_index_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path(), true);
        log.append((0..50).map(|n| record(n, DAY + n)).collect()).unwrap();
        log.begin_feed(day(&log)).unwrap();
        let all = log.unshipped(day(&log), 1000).unwrap().unwrap();
        let messages = log.changed(&all).unwrap();
        let query = |set: fn(&mut Query)| {
            let mut query = Query { limit: 500, ..Query::default() };
            set(&mut query);
            query
        };
        let queries = [
            query(|_| {}),
            query(|q| q.sender = "bounce4@sender.example".to_owned()),
            query(|q| q.sender = "@mail.example".to_owned()),
            query(|q| q.recipient = "B9@example.com".to_owned()),
            query(|q| q.domain = "example.com".to_owned()),
            query(|q| q.subject = "größe 12".to_owned()),
            query(|q| q.subject = "rech*".to_owned()),
            query(|q| q.classes = vec![gauntlet_verdict::Class::Spam]),
            query(|q| q.action = "quarantine".to_owned()),
            query(|q| q.rule = "RULE_2".to_owned()),
            query(|q| q.policy_rule = "spam to quarantine".to_owned()),
            query(|q| q.id = "id-33".to_owned()),
            query(|q| q.message_id = "<m8@mail.example>".to_owned()),
            query(|q| q.score_min = Some(3.0)),
            query(|q| (q.since_ms, q.until_ms) = (Some(DAY + 3), Some(DAY + 9))),
        ];
        for query in queries {
            let matcher = Matcher::new(&query);
            let mut found: Vec<_> = messages
                .iter()
                .filter(|m| matcher.matches(m, &matching::terms_of(m)))
                .map(|message| matcher.summary(message))
                .collect();
            found.reverse();
            assert_eq!(found, log.search(&query).unwrap().messages, "{query:?}");
        }
    }
}
