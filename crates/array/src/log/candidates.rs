//! Which packs can have what a search is for, by the index of terms.
//!
//! What is rare or not there at all asks the index of each day. A statement for each day would take
//! most of that time for itself (0.7 ms of which 0.02 are the index), so several days are asked at
//! once: more each time while they have little. One statement for all days would lock every table
//! and index of the log, for which a server with its defaults has no room at 1,000 days.

use std::collections::BTreeMap;

use gauntlet_store::log::Matcher;

use crate::database::Session;
use crate::error::ArrayError;
use crate::value::Value;

/// Doing what, for errors.
pub(super) const DOING: &str = "searching the array's log";
/// Days that are asked at once, at most.
pub(super) const DAYS_MAX: usize = 64;
/// Where more packs were found, days are asked one at a time: what is frequent fills its page from
/// the first.
const PLACES: usize = 256;

/// Where a pack is: what fetches it, in the order of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) last: i64,
    pub(super) number: i64,
    pub(super) node: i16,
}

impl Place {
    pub(super) const END: Place = Place { last: i64::MAX, number: i64::MAX, node: i16::MAX };
}

/// The packs of the days of a search that can have a match.
pub(super) struct Candidates<'a> {
    pub(super) session: &'a Session,
    pub(super) matcher: &'a Matcher,
    /// Keys that a pack must have, of each list at least one.
    pub(super) required: &'a [Vec<i32>],
    /// Days that were not asked yet, newest last.
    days: Vec<i64>,
    /// Of days that were asked and not taken yet, newest first.
    known: BTreeMap<i64, Vec<Place>>,
    at_once: usize,
}

impl<'a> Candidates<'a> {
    /// Of these days, newest first.
    pub(super) fn new(
        session: &'a Session,
        matcher: &'a Matcher,
        required: &'a [Vec<i32>],
        days: &[i64],
    ) -> Self {
        let days = days.iter().rev().copied().collect();
        Candidates { session, matcher, required, days, known: BTreeMap::new(), at_once: 1 }
    }

    /// The packs of a day that can have a match, newest first. Days are asked newest first; what
    /// was passed over is forgotten.
    pub(super) async fn of(&mut self, day: i64) -> Result<Vec<Place>, ArrayError> {
        while self.days.last().is_some_and(|newest| *newest >= day) {
            self.ask(day).await?;
        }
        Ok(self.known.remove(&day).unwrap_or_default())
    }

    /// Asks this day and those before it.
    async fn ask(&mut self, day: i64) -> Result<(), ArrayError> {
        self.days.retain(|other| *other <= day);
        let asked = self.days.split_off(self.days.len().saturating_sub(self.at_once));
        let oldest = asked.first().copied().unwrap_or(day);
        let [oldest, day] = [oldest, day].map(|day| i32::try_from(day).unwrap_or(i32::MAX));
        let (since, until) = self.matcher.range();
        let mut sql = "SELECT day, last, number, node FROM log_pack WHERE day BETWEEN $1 AND $2 \
                       AND last >= $3 AND first < $4"
            .to_owned();
        let mut values: Vec<Value<'_>> = vec![&oldest, &day, &since, &until];
        for any in self.required {
            values.push(any);
            sql.push_str(&format!(" AND terms && ${}", values.len()));
        }
        let rows = self.session.rows(DOING, &sql, &values).await?;
        for row in &rows {
            let place = Place { last: row.get(1), number: row.get(2), node: row.get(3) };
            self.known.entry(i64::from(row.get::<_, i32>(0))).or_default().push(place);
        }
        for places in self.known.values_mut() {
            places.sort_unstable_by_key(|place| std::cmp::Reverse(*place));
        }
        self.at_once = if rows.len() > PLACES { 1 } else { DAYS_MAX.min(self.at_once * 2) };
        Ok(())
    }
}
