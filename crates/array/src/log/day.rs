//! The search of one day of the shared log.
//!
//! A pack's body has 100 KB, its directory 8, and the directory says which messages have all terms
//! that are asked for. So a search reads directories first, and of the packs only those bodies that
//! have what a page shows. Where most packs have some, it reads them whole at once.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::{LoggedMessage, Matcher, terms_of};
use tokio_postgres::Row;

use super::candidates::{Candidates, DOING, Place};
use crate::database::Session;
use crate::error::ArrayError;
use crate::pack::{Decoder, Unpacked, key, start_bytes};
use crate::value::Value;

/// Cursors of a millisecond (`store::log`).
pub(super) const CURSORS_PER_MS: i64 = 4096;
/// Packs of the newest day that are looked through before its index is asked.
pub(super) const WALKED_FIRST: usize = 24;
/// Packs that are looked through at once whatever they hold.
pub(super) const WALKED: usize = 8;
/// And at most while each look finds something: where most packs have what is asked for, the index
/// names all of the day, which takes longer (0.1 s of a million messages).
const WALKED_MOST: usize = 96;
/// Packs of the index that are read at once, at first; twice as many each time after that.
const CHUNK: usize = 32;
/// Packs read at once, at most.
const CHUNK_MAX: usize = 256;
/// Bodies read at once, at most.
const BODIES_MAX: usize = 64;
/// So few packs are read whole at once: asking twice would take longer.
const FEW: usize = 4;
/// So much of a body is read for its directory, at first.
const START_BYTES: usize = 12 << 10;
/// And at most: what has a longer one is read whole.
const START_BYTES_MAX: usize = 64 << 10;
/// A search that takes longer gives what it has, and where to go on.
const SEARCH_MAX: Duration = Duration::from_secs(4);

/// What was found, by cursor and node.
pub(super) type AllFound = BTreeMap<(i64, i16), Found>;

/// A message that was found, with the number of the pack it is in.
pub(super) struct Found {
    pub(super) pack: i64,
    pub(super) message: LoggedMessage,
}

/// A row of the log, whose body may be cut.
struct StoredPack {
    place: Place,
    /// Where the keys of the search are in the pack's list of terms.
    keys: Vec<Option<i32>>,
    /// Bytes of the whole body.
    bytes: usize,
    body: Vec<u8>,
}

/// The statement that reads [`StoredPack`]s from `source`, with the keys as `$2` and the length of
/// starts as `$3`. The server finds the keys in the sorted lists: on the wire one has 25 KB.
fn reading(source: &str, keys: &[i32]) -> String {
    // Joined with nothing a list is read once, however often it is used.
    let (terms, places) = match keys.is_empty() {
        true => ("terms", "$2::integer[]"),
        false => (
            "terms || '{}'::integer[] AS terms",
            "ARRAY(SELECT CASE WHEN p.terms[i] = k THEN i END FROM \
             (SELECT k, width_bucket(k, p.terms) AS i FROM unnest($2::integer[]) AS k) AS x)",
        ),
    };
    let source = source.replace("{columns}", &format!("last, number, node, {terms}, body"));
    format!(
        "SELECT p.last, p.number, p.node, {places}, octet_length(p.body), \
         substring(p.body FROM 1 FOR $3) FROM {source}"
    )
}

impl StoredPack {
    fn read(row: &Row) -> Self {
        StoredPack {
            place: Place { last: row.get(0), number: row.get(1), node: row.get(2) },
            keys: row.get(3),
            bytes: usize::try_from(row.get::<_, i32>(4)).unwrap_or_default(),
            body: row.get(5),
        }
    }

    fn is_whole(&self) -> bool {
        self.body.len() >= self.bytes
    }
}

/// A pack that has messages with the terms, by its directory.
struct Hit {
    place: Place,
    /// Places of the terms.
    lists: Vec<Vec<usize>>,
    /// Cursors of the messages; none if the directory is not known.
    cursors: Option<Vec<i64>>,
}

/// What the packs that were read at once say.
#[derive(Default)]
struct Seen {
    packs: usize,
    /// Packs that were there whole and have messages with the terms.
    with_hits: usize,
    hits: Vec<Hit>,
    /// Packs of whose directory too little is there, with the bytes that it takes.
    cut: Vec<(Hit, Option<usize>)>,
}

/// What a search learned of the packs so far.
pub(super) struct Pace {
    /// Packs read at once.
    count: usize,
    /// Packs looked into, and messages that were found in them.
    looked: usize,
    found: usize,
    /// So much of a body is read for its directory.
    start_bytes: usize,
    /// Most packs have what is asked for: directories alone would be read for nothing.
    is_dense: bool,
    /// Of the pack before.
    decoder: Cell<Option<Decoder>>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            count: CHUNK,
            looked: 0,
            found: 0,
            start_bytes: START_BYTES,
            is_dense: false,
            decoder: Cell::default(),
        }
    }
}

impl Pace {
    /// How many packs to read next for `missing` messages more.
    fn next(&mut self, missing: usize) -> usize {
        let most = if self.is_dense { BODIES_MAX } else { CHUNK_MAX };
        let count = self.count.min(most);
        self.count = CHUNK_MAX.min(self.count * 2);
        // A quarter more than it will take if all packs are like those before.
        match missing.saturating_mul(self.looked).saturating_mul(5).checked_div(self.found * 4) {
            Some(likely) => count.min(likely.max(WALKED)),
            None => count,
        }
    }

    /// How much of each of so many bodies to read.
    fn bytes(&self, packs: usize) -> usize {
        if self.is_dense || packs <= FEW { usize::MAX } else { self.start_bytes }
    }
}

/// The search of one day.
pub(super) struct Day<'s, 'a> {
    pub(super) session: &'a Session,
    pub(super) day: i64,
    pub(super) matcher: &'a Matcher,
    /// Keys that a pack must have, of each list at least one.
    pub(super) required: &'a [Vec<i32>],
    /// What the index has of this day and others.
    pub(super) candidates: &'s mut Candidates<'a>,
    /// Packs that are looked through before the index is asked.
    pub(super) walked_first: usize,
    pub(super) pace: &'s mut Pace,
}

/// Keys of the terms that a message must have, of each list at least one.
pub(super) fn required(matcher: &Matcher) -> Vec<Vec<i32>> {
    let keys = |any: &Vec<String>| any.iter().map(|term| key(term)).collect();
    matcher.required().iter().map(keys).collect()
}

impl Day<'_, '_> {
    /// Adds matches until `wanted` are certain or the day is through. Returns the cursor from which
    /// on nothing is missing, and whether there is time left.
    pub(super) async fn run(
        &mut self,
        found: &mut AllFound,
        wanted: usize,
        started: Instant,
    ) -> Result<(i64, bool), ArrayError> {
        let (since, until) = self.matcher.range();
        let mut before = Place::END;
        let (mut walked, mut most) = (0, self.walked_first);
        while walked < most || self.required.is_empty() {
            let packs = self.walk(before).await?;
            let (count, last) = (packs.len(), packs.last().map(|pack| pack.place));
            let (mut seen, known) = (Seen::default(), found.len());
            for pack in &packs {
                self.look_at(pack, &mut seen, found, wanted)?;
            }
            self.look_closer(seen, found, (wanted, known)).await?;
            walked += count;
            if found.len() > known {
                most = most.max(WALKED_MOST.min(walked + WALKED));
            }
            match last {
                Some(last) if count == WALKED => before = last,
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
        let mut candidates = self.candidates.of(self.day).await?;
        candidates.retain(|place| (place.last, place.number) < (before.last, before.number));
        let mut rest = candidates.as_slice();
        while !rest.is_empty() {
            let count = self.pace.next(wanted.saturating_sub(found.len()));
            let chunk;
            (chunk, rest) = rest.split_at(count.min(rest.len()));
            self.look_through(chunk, found, wanted).await?;
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
    async fn walk(&self, before: Place) -> Result<Vec<StoredPack>, ArrayError> {
        let (day, limit, (since, until)) = (self.day(), WALKED as i64, self.matcher.range());
        let (keys, bytes) = (self.required.concat(), length(self.pace.bytes(WALKED)));
        let source = "(SELECT {columns} FROM (SELECT * FROM log_pack WHERE day = $1 AND \
                      last >= $4 AND first < $5 AND (last, number) < ($6, $7) \
                      ORDER BY last DESC, number DESC LIMIT $8) AS l OFFSET 0) AS p";
        let sql = reading(source, &keys);
        let values: [Value<'_>; 8] =
            [&day, &keys, &bytes, &since, &until, &before.last, &before.number, &limit];
        let rows = self.session.rows(DOING, &sql, &values).await?;
        Ok(rows.iter().map(StoredPack::read).collect())
    }

    /// Hands on these packs, newest first, with so many bytes of each.
    async fn each(
        &self,
        places: &[Place],
        bytes: usize,
        keys: &[i32],
        mut take: impl FnMut(StoredPack) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        let (day, bytes) = (self.day(), length(bytes));
        let nodes: Vec<i16> = places.iter().map(|p| p.node).collect();
        let numbers: Vec<i64> = places.iter().map(|p| p.number).collect();
        // One look into the index each, in this order: left to itself the planner joins by node
        // alone, which compares each pack of the day with each of these.
        let source = "unnest($4::smallint[], $5::bigint[]) AS w (node, number) CROSS JOIN LATERAL \
                      (SELECT {columns} FROM log_pack WHERE day = $1 AND node = w.node AND \
                      number = w.number LIMIT 1) AS p";
        let sql = reading(source, keys);
        let values: [Value<'_>; 5] = [&day, &keys, &bytes, &nodes, &numbers];
        self.session.each_row(DOING, &sql, &values, |row| take(StoredPack::read(row))).await
    }

    /// Adds what matches in these packs.
    async fn look_through(
        &mut self,
        places: &[Place],
        found: &mut AllFound,
        wanted: usize,
    ) -> Result<(), ArrayError> {
        let (bytes, keys) = (self.pace.bytes(places.len()), self.required.concat());
        let (mut seen, known) = (Seen::default(), found.len());
        self.each(places, bytes, &keys, |pack| self.look_at(&pack, &mut seen, found, wanted))
            .await?;
        self.look_closer(seen, found, (wanted, known)).await
    }

    /// Adds what matches in a pack that is there whole; notes what the start of another says.
    fn look_at(
        &self,
        pack: &StoredPack,
        seen: &mut Seen,
        found: &mut AllFound,
        wanted: usize,
    ) -> Result<(), ArrayError> {
        seen.packs += 1;
        let Some(lists) = self.lists(&pack.keys) else { return Ok(()) };
        if pack.is_whole() {
            seen.with_hits += usize::from(self.look_into(pack, &lists, found, wanted)?);
            return Ok(());
        }
        match self.hit(pack, lists)? {
            Some(hit) if hit.cursors.is_none() => seen.cut.push((hit, start_bytes(&pack.body))),
            hit => seen.hits.extend(hit),
        }
        Ok(())
    }

    /// Reads what the starts of packs did not say, and the bodies that a page needs.
    async fn look_closer(
        &mut self,
        mut seen: Seen,
        found: &mut AllFound,
        (wanted, known): (usize, usize),
    ) -> Result<(), ArrayError> {
        self.look_again(std::mem::take(&mut seen.cut), &mut seen.hits).await?;
        let with_hits = seen.with_hits + seen.hits.len();
        self.unfold(seen.hits, found, wanted).await?;
        self.pace.looked += seen.packs;
        self.pace.found += found.len().saturating_sub(known);
        self.pace.is_dense = with_hits * 2 > seen.packs;
        Ok(())
    }

    /// Where the terms of the search are in a pack; none if it has not all of them.
    fn lists(&self, keys: &[Option<i32>]) -> Option<Vec<Vec<usize>>> {
        let mut keys = keys.iter();
        let list = |any: &Vec<i32>| -> Vec<usize> {
            let places = keys.by_ref().take(any.len()).flatten();
            // The server counts from 1.
            places.filter_map(|at| usize::try_from(at - 1).ok()).collect()
        };
        let lists: Vec<Vec<usize>> = self.required.iter().map(list).collect();
        lists.iter().all(|list| !list.is_empty()).then_some(lists)
    }

    /// What the directory of a pack says; none if no message has the terms.
    fn hit(&self, pack: &StoredPack, lists: Vec<Vec<usize>>) -> Result<Option<Hit>, ArrayError> {
        let place = pack.place;
        let decoder = self.pace.decoder.take().unwrap_or_default();
        let Some(unpacked) = Unpacked::of_start(&pack.body, decoder)? else {
            return Ok(Some(Hit { place, lists, cursors: None }));
        };
        let (since, until) = self.matcher.range();
        let cursors = unpacked.find_at(&lists).into_iter().filter_map(|at| unpacked.cursor(at));
        let cursors: Vec<i64> = cursors.filter(|c| (since..until).contains(c)).collect();
        let is_hit = !cursors.is_empty();
        self.pace.decoder.set(Some(unpacked.into_decoder()));
        Ok(is_hit.then_some(Hit { place, lists, cursors: Some(cursors) }))
    }

    /// Reads directories of which too little was read. From now on so much is read of each pack.
    async fn look_again(
        &mut self,
        cut: Vec<(Hit, Option<usize>)>,
        hits: &mut Vec<Hit>,
    ) -> Result<(), ArrayError> {
        let most = cut.iter().filter_map(|(_, bytes)| *bytes).max();
        let Some(most) = most.filter(|most| *most > self.pace.start_bytes) else {
            hits.extend(cut.into_iter().map(|(hit, _)| hit));
            return Ok(());
        };
        self.pace.start_bytes = most.min(START_BYTES_MAX);
        let places: Vec<Place> = cut.iter().map(|(hit, _)| hit.place).collect();
        let mut lists: BTreeMap<i64, Vec<Vec<usize>>> =
            cut.into_iter().map(|(hit, _)| (hit.place.number, hit.lists)).collect();
        self.each(&places, self.pace.start_bytes, &[], |pack| {
            let lists = lists.remove(&pack.place.number).unwrap_or_default();
            hits.extend(self.hit(&pack, lists)?);
            Ok(())
        })
        .await
    }

    /// Reads those packs that a page of `wanted` messages can need, and adds what matches.
    async fn unfold(
        &self,
        mut hits: Vec<Hit>,
        found: &mut AllFound,
        wanted: usize,
    ) -> Result<(), ArrayError> {
        while !hits.is_empty() {
            // No message before this one is on the page if all of those match that look like it.
            let mut newest: BTreeSet<(i64, i16)> = found.keys().copied().collect();
            for hit in &hits {
                let cursors = hit.cursors.iter().flatten();
                newest.extend(cursors.map(|cursor| (*cursor, hit.place.node)));
            }
            let least = newest.iter().rev().nth(wanted.saturating_sub(1));
            let least = least.copied().unwrap_or((i64::MIN, i16::MIN));
            let is_needed = |hit: &Hit| {
                // The newest one is first.
                let newest = hit.cursors.as_ref().and_then(|cursors| cursors.first());
                (newest.copied().unwrap_or(hit.place.last), hit.place.node) >= least
            };
            let (mut needed, rest): (Vec<Hit>, Vec<Hit>) = hits.into_iter().partition(is_needed);
            if needed.is_empty() {
                break;
            }
            hits = rest;
            needed.sort_unstable_by_key(|hit| std::cmp::Reverse(hit.place));
            for some in needed.chunks(BODIES_MAX) {
                let places: Vec<Place> = some.iter().map(|hit| hit.place).collect();
                let lists: BTreeMap<i64, &Vec<Vec<usize>>> =
                    some.iter().map(|hit| (hit.place.number, &hit.lists)).collect();
                self.each(&places, usize::MAX, &[], |pack| {
                    let Some(lists) = lists.get(&pack.place.number) else { return Ok(()) };
                    self.look_into(&pack, lists, found, wanted).map(|_| ())
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Adds what matches in a pack, unless so many newer ones are known that no page has it.
    /// Returns whether a message has the terms.
    fn look_into(
        &self,
        pack: &StoredPack,
        lists: &[Vec<usize>],
        found: &mut AllFound,
        wanted: usize,
    ) -> Result<bool, ArrayError> {
        let decoder = self.pace.decoder.take().unwrap_or_default();
        let mut unpacked = Unpacked::with(&pack.body, decoder)?;
        let (since, until) = self.matcher.range();
        let mut has_hits = false;
        for place in unpacked.find_at(lists) {
            let Some(cursor) = unpacked.cursor(place) else { continue };
            if !(since..until).contains(&cursor) {
                continue;
            }
            has_hits = true;
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
        self.pace.decoder.set(Some(unpacked.into_decoder()));
        Ok(has_hits)
    }
}

/// The first cursor of a day.
pub(super) fn day_start(day: i64) -> i64 {
    day.saturating_mul(DAY_MS).saturating_mul(CURSORS_PER_MS)
}

/// A number of bytes as the server takes it.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
