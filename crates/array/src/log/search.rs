//! Searching the shared log.
//!
//! Day by day, newest first. The newest packs of all are looked through whatever they hold: a
//! query that matches often has its page then. One that does not asks the index of terms, day by
//! day, which packs can have a match, and looks into those. A message that changed after it was
//! shipped is in several packs; the one with the greatest number is the newest, and is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gauntlet_mail::date::{DAY_MS, day_number};
use gauntlet_store::log::{Cursor, LoggedMessage, Matcher, Page, Query, id_term, terms_of};
use gauntlet_store::reference;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::database::{Session, Value};
use crate::error::ArrayError;
use crate::pack::{Unpacked, key};

/// Packs of the newest day that are looked through before its index is asked.
const WALKED_FIRST: usize = 24;
/// Packs read at once, at first; twice as many each time after that.
const CHUNK: usize = 8;
/// Packs read at once, at most.
const CHUNK_MAX: usize = 64;
/// A search that takes longer gives what it has, and where to go on.
const SEARCH_MAX: Duration = Duration::from_secs(4);
/// Cursors of a millisecond (`store::log`).
const CURSORS_PER_MS: i64 = 4096;
/// Doing what, for errors.
const DOING: &str = "searching the array's log";

/// A message that was found, with the number of the pack it is in.
struct Found {
    pack: i64,
    message: LoggedMessage,
}

/// Where a pack is: what [`Day::fetch`] needs, in the order of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    last: i64,
    number: i64,
    node: i16,
}

/// The newest messages that match.
pub(super) async fn search(session: &Session, query: &Query) -> Result<Page, ArrayError> {
    let started = Instant::now();
    let matcher = Matcher::new(query);
    let names = node_names(session).await?;
    let (since, until) = matcher.range();
    let limit = matcher.limit();
    let mut found: BTreeMap<(i64, i16), Found> = BTreeMap::new();
    let mut days = days(session).await?;
    days.retain(|day| day_start(day + 1) > since && day_start(*day) < until);
    let (mut complete_from, mut is_whole) = (until, true);
    for (nth, day) in days.into_iter().enumerate() {
        // What did not fill a page from the newest packs of all is not frequent.
        let walked_first = if nth == 0 { WALKED_FIRST } else { 0 };
        let required = required(&matcher);
        let mut search = Day { session, day, matcher: &matcher, required, walked_first };
        // One more than the page, to know whether there is a next.
        let (boundary, in_time) = search.run(&mut found, limit + 1, started).await?;
        complete_from = boundary;
        if !in_time || found.range((boundary, i16::MIN)..).count() > limit {
            is_whole = false;
            break;
        }
    }
    let mut page: Vec<((i64, i16), Found)> = found.into_iter().rev().collect();
    // Beyond this point other packs may have newer ones.
    page.retain(|((cursor, _), _)| *cursor >= complete_from);
    let mut kept = page.len().min(limit);
    // Two nodes may have the same cursor: a page does not end between them.
    while kept > 0 && kept < page.len() && page[kept].0.0 == page[kept - 1].0.0 {
        kept += 1;
    }
    let more = page.len() > kept;
    page.truncate(kept);
    renew(session, &mut page).await?;
    let last = page.last().map(|((cursor, _), _)| Cursor(*cursor));
    let next = match (more, is_whole) {
        (true, _) => last,
        (false, true) => None,
        // Time is up, or the page is just full.
        (false, false) => Some(Cursor(complete_from)),
    };
    let summary = |((_, node), found): &((i64, i16), Found)| {
        let mut summary = matcher.summary(&found.message);
        summary.node = names.get(node).cloned().unwrap_or_default();
        summary
    };
    Ok(Page { messages: page.iter().map(summary).collect(), next })
}

/// The newest version of the message that a reference names; the newest message if several nodes
/// use its id and the reference names none of them.
pub(super) async fn get(
    session: &Session,
    reference: &str,
) -> Result<Option<LoggedMessage>, ArrayError> {
    let (id, node) = reference::split(reference);
    let key = vec![key(&id_term(id))];
    let asked = session
        .rows(
            DOING,
            "SELECT terms, body, node FROM log_pack WHERE terms @> $1 \
         AND ($2::text IS NULL OR node = (SELECT id FROM node WHERE name = $2)) \
         ORDER BY day DESC, number DESC LIMIT 16",
            &[&key, &node],
        )
        .await?;
    let rows = asked;
    for row in rows {
        let (terms, body, node): (Vec<i32>, &[u8], i16) = (row.get(0), row.get(1), row.get(2));
        let mut unpacked = Unpacked::new(body)?;
        for place in unpacked.find(&terms, std::slice::from_ref(&key)) {
            let mut message = unpacked.message(place)?;
            if message.record.id == id {
                let names = node_names(session).await?;
                message.node = names.get(&node).cloned().unwrap_or_default();
                return Ok(Some(message));
            }
        }
    }
    Ok(None)
}

/// When the oldest message was received.
pub(super) async fn oldest_ms(session: &Session) -> Result<Option<i64>, ArrayError> {
    let days = days(session).await?;
    for day in days.into_iter().rev() {
        let day = i32::try_from(day).unwrap_or(i32::MAX);
        let sql = "SELECT min(first) FROM log_pack WHERE day = $1";
        let row = session.row(DOING, sql, &[&day]).await?;
        if let Some(first) = row.and_then(|row| row.get::<_, Option<i64>>(0)) {
            return Ok(Some(first.div_euclid(CURSORS_PER_MS)));
        }
    }
    Ok(None)
}

/// The first cursor of a day.
fn day_start(day: i64) -> i64 {
    day.saturating_mul(DAY_MS).saturating_mul(CURSORS_PER_MS)
}

/// Keys that a pack must have, of each list at least one.
fn required(matcher: &Matcher) -> Vec<Vec<i32>> {
    let keys = |any: &Vec<String>| any.iter().map(|term| key(term)).collect();
    matcher.required().iter().map(keys).collect()
}

/// The days that the log has, newest first.
pub(crate) async fn days(session: &Session) -> Result<Vec<i64>, ArrayError> {
    let sql = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent = 'gauntlet.log_pack'::regclass";
    let rows = session.rows_of(DOING, sql, &[]).await?;
    let day = |row: &Row| {
        let name: String = row.get(0);
        day_number(&name.strip_prefix("log_pack_")?.replace('_', "-"))
    };
    let mut days: Vec<i64> = rows.iter().filter_map(day).collect();
    days.sort_unstable_by_key(|day| std::cmp::Reverse(*day));
    Ok(days)
}

/// Names of the nodes, by their numbers.
pub(crate) async fn node_names(session: &Session) -> Result<BTreeMap<i16, String>, ArrayError> {
    let doing = "reading the nodes of the array";
    let rows = session.rows_of(doing, "SELECT id, name FROM node", &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The search of one day.
struct Day<'a> {
    session: &'a Session,
    day: i64,
    matcher: &'a Matcher,
    required: Vec<Vec<i32>>,
    /// Packs that are looked through before the index is asked.
    walked_first: usize,
}

impl Day<'_> {
    /// Adds matches until `wanted` are certain or the day is through. Returns the cursor from which
    /// on nothing is missing, and whether there is time left.
    async fn run(
        &mut self,
        found: &mut BTreeMap<(i64, i16), Found>,
        wanted: usize,
        started: Instant,
    ) -> Result<(i64, bool), ArrayError> {
        let (since, until) = self.matcher.range();
        let mut before = Place { last: i64::MAX, number: i64::MAX, node: 0 };
        let mut walked = 0;
        while walked < self.walked_first || self.required.is_empty() {
            let packs = self.walk(before, (since, until)).await?;
            for pack in &packs {
                self.look_into(pack, found, wanted)?;
            }
            walked += packs.len();
            match packs.last() {
                Some(last) if packs.len() == CHUNK => before = last.place,
                _ => return Ok((day_start(self.day).max(since), true)),
            }
            if found.range((before.last, i16::MIN)..).count() >= wanted {
                return Ok((before.last, true));
            }
            // A page that ends where it began would never go on.
            if started.elapsed() > SEARCH_MAX && before.last < until {
                return Ok((before.last, false));
            }
        }
        let candidates = self.candidates(before, (since, until)).await?;
        let (mut rest, mut count) = (candidates.as_slice(), CHUNK);
        while !rest.is_empty() {
            let chunk;
            (chunk, rest) = rest.split_at(count.min(rest.len()));
            count = CHUNK_MAX.min(count * 2);
            self.fetch(chunk, |pack| self.look_into(&pack, found, wanted)).await?;
            // The packs of the next chunk end here or before.
            let last = chunk.last().map_or(before.last, |place| place.last);
            if found.range((last, i16::MIN)..).count() >= wanted {
                return Ok((last, true));
            }
            if started.elapsed() > SEARCH_MAX && last < until {
                return Ok((last, false));
            }
        }
        Ok((day_start(self.day).max(since), true))
    }

    fn day(&self) -> i32 {
        i32::try_from(self.day).unwrap_or(i32::MAX)
    }

    /// The next packs before this one, whatever they hold.
    async fn walk(
        &self,
        before: Place,
        (since, until): (i64, i64),
    ) -> Result<Vec<StoredPack>, ArrayError> {
        let (day, limit) = (self.day(), CHUNK as i64);
        let sql = "SELECT last, number, node, terms, body FROM log_pack WHERE day = $1 AND \
                   last >= $2 AND first < $3 AND (last, number) < ($4, $5) \
                   ORDER BY last DESC, number DESC LIMIT $6";
        let values: [(Value<'_>, Type); 6] = [
            (&day, Type::INT4),
            (&since, Type::INT8),
            (&until, Type::INT8),
            (&before.last, Type::INT8),
            (&before.number, Type::INT8),
            (&limit, Type::INT8),
        ];
        let rows = self.session.rows_of(DOING, sql, &values).await?;
        rows.iter().map(StoredPack::read).collect()
    }

    /// The packs before this one that can have a match, newest first.
    async fn candidates(
        &self,
        before: Place,
        (since, until): (i64, i64),
    ) -> Result<Vec<Place>, ArrayError> {
        let day = self.day();
        let mut sql = "SELECT last, number, node FROM log_pack WHERE day = $1 AND last >= $2 AND \
                       first < $3"
            .to_owned();
        let mut values: Vec<(Value<'_>, Type)> =
            vec![(&day, Type::INT4), (&since, Type::INT8), (&until, Type::INT8)];
        for any in &self.required {
            values.push((any, Type::INT4_ARRAY));
            sql.push_str(&format!(" AND terms && ${}", values.len()));
        }
        let rows = self.session.rows_of(DOING, &sql, &values).await?;
        let place = |row: &Row| Place { last: row.get(0), number: row.get(1), node: row.get(2) };
        let mut places: Vec<Place> = rows.iter().map(place).collect();
        places.retain(|place| (place.last, place.number) < (before.last, before.number));
        places.sort_unstable_by_key(|place| std::cmp::Reverse(*place));
        Ok(places)
    }

    /// Hands on these packs, in any order.
    async fn fetch(
        &self,
        places: &[Place],
        mut take: impl FnMut(StoredPack) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        let day = self.day();
        let nodes: Vec<i16> = places.iter().map(|p| p.node).collect();
        let numbers: Vec<i64> = places.iter().map(|p| p.number).collect();
        let sql = "SELECT last, p.number, p.node, terms, body FROM log_pack p \
                   JOIN unnest($2::smallint[], $3::bigint[]) AS w (node, number) \
                   ON p.node = w.node AND p.number = w.number WHERE p.day = $1";
        let values: [(Value<'_>, Type); 3] =
            [(&day, Type::INT4), (&nodes, Type::INT2_ARRAY), (&numbers, Type::INT8_ARRAY)];
        self.session.each_row(DOING, sql, &values, |row| take(StoredPack::read(row)?)).await
    }

    /// Adds what matches in a pack, unless so many newer ones are known that no page has it.
    fn look_into(
        &self,
        pack: &StoredPack,
        found: &mut BTreeMap<(i64, i16), Found>,
        wanted: usize,
    ) -> Result<(), ArrayError> {
        let has_all = |any: &Vec<i32>| any.iter().any(|k| pack.terms.binary_search(k).is_ok());
        if !self.required.iter().all(has_all) {
            return Ok(());
        }
        let mut unpacked = Unpacked::new(&pack.body)?;
        let (since, until) = self.matcher.range();
        for place in unpacked.find(&pack.terms, &self.required) {
            let Some(cursor) = unpacked.cursor(place) else { continue };
            if !(since..until).contains(&cursor) {
                continue;
            }
            let key = (cursor, pack.place.node);
            // Decoding is most of a search's work, and from here on all are older.
            if found.len() >= wanted
                && found.keys().rev().nth(wanted - 1).is_some_and(|least| key < *least)
            {
                break;
            }
            if found.get(&key).is_some_and(|known| known.pack > pack.place.number) {
                continue;
            }
            let message = unpacked.message(place)?;
            if self.matcher.matches(&message, &terms_of(&message)) {
                found.insert(key, Found { pack: pack.place.number, message });
            }
        }
        Ok(())
    }
}

/// A row of the log.
struct StoredPack {
    place: Place,
    terms: Vec<i32>,
    body: Vec<u8>,
}

impl StoredPack {
    fn read(row: &Row) -> Result<Self, ArrayError> {
        Ok(StoredPack {
            place: Place { last: row.get(0), number: row.get(1), node: row.get(2) },
            terms: row.get(3),
            body: row.get(4),
        })
    }
}

/// Replaces messages by newer versions of them.
async fn renew(session: &Session, page: &mut [((i64, i16), Found)]) -> Result<(), ArrayError> {
    let mut by_day: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (at, ((cursor, _), _)) in page.iter().enumerate() {
        by_day.entry(cursor.div_euclid(DAY_MS * CURSORS_PER_MS)).or_default().push(at);
    }
    for (day, places) in by_day {
        let day = i32::try_from(day).unwrap_or(i32::MAX);
        let shown = || places.iter().filter_map(|&at| page.get(at));
        let keys: Vec<i32> =
            shown().map(|(_, found)| key(&id_term(&found.message.record.id))).collect();
        let least = shown().map(|(_, found)| found.pack).min().unwrap_or(i64::MAX);
        let known: BTreeSet<i64> = shown().map(|(_, found)| found.pack).collect();
        let known: Vec<i64> = known.into_iter().collect();
        let sql = "SELECT last, number, node, terms, body FROM log_pack WHERE day = $1 AND \
                   number > $2 AND terms && $3 AND number <> ALL ($4) ORDER BY number LIMIT 256";
        let values: [(Value<'_>, Type); 4] = [
            (&day, Type::INT4),
            (&least, Type::INT8),
            (&keys, Type::INT4_ARRAY),
            (&known, Type::INT8_ARRAY),
        ];
        for row in session.rows_of(DOING, sql, &values).await? {
            let pack = StoredPack::read(&row)?;
            let mut unpacked = Unpacked::new(&pack.body)?;
            for place in unpacked.find(&pack.terms, std::slice::from_ref(&keys)) {
                let Some(cursor) = unpacked.cursor(place) else { continue };
                let shown = page.iter_mut().find(|(key, _)| *key == (cursor, pack.place.node));
                if let Some((_, found)) = shown
                    && found.pack < pack.place.number
                {
                    found.message = unpacked.message(place)?;
                    found.pack = pack.place.number;
                }
            }
        }
    }
    Ok(())
}
