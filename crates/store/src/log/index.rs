//! The index of a day: which messages have which term (see `terms.rs`).
//!
//! Written in parts. A batch of messages makes one part: its messages' keys in order, and its terms in order, each
//! with the ordinals of its messages among those keys. A part is never changed; when there are many of one level
//! they are put together to one of the next (O'Neil and others 1996, the log-structured merge-tree), a few pages
//! with each batch, so that nobody waits for it. When the day is over all of them become one.
//!
//! It is not SQLite's FTS5, which does the same and more (positions, ranking, deletion, any text) for four times
//! the instructions: days that were begun with that are still read and finished (`day.rs`, `search.rs`).
//!
//! The terms of a part lie in leaves, rows that fill a page each; the part's row has the first term of each leaf.

mod find;
mod leaf;
mod merge;

use rusqlite::{Connection, OptionalExtension, params};

pub(crate) use find::{Clause, Pattern, find};
use leaf::{LeafWriter, Leaves};
pub(crate) use leaf::{push_number, take_number};
use merge::Merge;

/// Longest term kept, in bytes; longer ones are cut, here and where they are looked for.
const TERM_BYTES_MAX: usize = 64;
/// Parts of one level that are put together.
const PARTS_MERGED: usize = 16;
/// Level of a part that is not complete yet; nobody reads it.
const UNFINISHED: i64 = -1;
/// A leaf's place is its part times this, plus its number.
const LEAVES_OF_A_PART: i64 = 1 << 24;
/// Bytes of a key in a part: its distance from the part's first. A day has 2^39 keys.
const KEY_BYTES: usize = 5;

/// Leaves written for each leaf of a batch while parts are put together: each term is written twice or three times
/// in the end, so that this is enough to keep up.
const MERGED_PER_LEAF: usize = 4;
/// Leaves written at least.
const MERGED_MIN: usize = 16;

/// Bytes of a term that order it as a number.
const PREFIX_BYTES: usize = 16;

/// The first bytes of a term as a number, which orders as they do.
fn prefix_of(term: &[u8]) -> u128 {
    let mut bytes = [0; PREFIX_BYTES];
    let short = term.get(..PREFIX_BYTES).unwrap_or(term);
    if let Some(begin) = bytes.get_mut(..short.len()) {
        begin.copy_from_slice(short);
    }
    u128::from_be_bytes(bytes)
}

/// At most [`TERM_BYTES_MAX`] bytes.
fn cut(term: &[u8]) -> &[u8] {
    term.get(..TERM_BYTES_MAX).unwrap_or(term)
}

/// That a message has a term, as a number that orders: the term's first eight bytes, the place of the message in the
/// order in which they came (four bytes), and which of the batch's terms it is (four).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Posting(u128);

impl Posting {
    fn new(term: &[u8], message: u32, place: u32) -> Self {
        let begin = prefix_of(term) >> 64 << 64;
        Posting(begin | u128::from(message) << 32 | u128::from(place))
    }

    fn begin(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn message(self) -> usize {
        (self.0 >> 32) as u32 as usize
    }

    fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Terms of messages that are written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    keys: Vec<i64>,
    text: String,
    /// Where each term ends in the text; it begins where the one before ends.
    ends: Vec<u32>,
    postings: Vec<Posting>,
}

impl Batch {
    /// Adds terms of the message with this key, with spaces between them.
    pub(crate) fn push(&mut self, key: i64, terms: &str) {
        let message = self.keys.len() as u32;
        self.keys.push(key);
        for term in terms.split(' ').filter(|t| !t.is_empty()) {
            let place = self.ends.len() as u32;
            self.text.push_str(term);
            self.ends.push(self.text.len() as u32);
            self.postings.push(Posting::new(cut(term.as_bytes()), message, place));
        }
    }

    fn term(&self, posting: &Posting) -> &[u8] {
        let place = posting.place();
        let end = |place: usize| self.ends.get(place).map(|&end| end as usize);
        let start = place.checked_sub(1).and_then(end).unwrap_or(0);
        let end = end(place).unwrap_or(start);
        cut(self.text.as_bytes().get(start..end).unwrap_or_default())
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.text.clear();
        self.ends.clear();
        self.postings.clear();
    }

    /// Sorts everything. Returns the keys, each once, and the leaves of the terms.
    fn sort(&mut self) -> (Vec<i64>, Leaves) {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let ordinal = |key: &i64| keys.binary_search(key).unwrap_or(0) as u32;
        let ordinals: Vec<u32> = self.keys.iter().map(ordinal).collect();
        let mut postings = std::mem::take(&mut self.postings);
        postings.sort_unstable();
        let begins_alike = |a: &Posting, b: &Posting| a.begin() == b.begin();
        let is_same = |a: &Posting, b: &Posting| self.term(a) == self.term(b);
        for run in postings.chunk_by_mut(begins_alike) {
            let first = run.first().copied().unwrap_or_default();
            if !run.iter().all(|p| is_same(p, &first)) {
                run.sort_by(|a, b| {
                    self.term(a).cmp(self.term(b)).then(a.message().cmp(&b.message()))
                });
            }
        }
        let mut writer = LeafWriter::default();
        let mut messages: Vec<u32> = Vec::new();
        for run in postings.chunk_by(|a, b| begins_alike(a, b) && is_same(a, b)) {
            messages.clear();
            messages.extend(run.iter().filter_map(|p| ordinals.get(p.message())));
            // Messages come in the order of their keys but for a few.
            if !messages.is_sorted() {
                messages.sort_unstable();
            }
            messages.dedup();
            if let Some(first) = run.first() {
                writer.push(self.term(first), &messages);
            }
        }
        self.postings = postings;
        (keys, writer.finish())
    }
}

/// What is known of a part without reading it.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: i64,
    level: i64,
}

/// The index of a day that is written.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) batch: Batch,
    parts: Vec<Part>,
    next: i64,
    merging: Option<Merge>,
    /// Parts cannot be put together: something in the file cannot be read.
    is_damaged: bool,
}

impl Index {
    /// Reads which parts there are, and removes what a crash left unfinished.
    pub(crate) fn load(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.batch.clear();
        self.merging = None;
        let mut all =
            connection.prepare_cached("SELECT part, level FROM term_part ORDER BY part")?;
        let part = |row: &rusqlite::Row<'_>| Ok(Part { number: row.get(0)?, level: row.get(1)? });
        self.parts = all.query_map([], part)?.collect::<rusqlite::Result<_>>()?;
        self.next = self.parts.last().map_or(1, |part| part.number + 1);
        for part in self.parts.extract_if(.., |part| part.level == UNFINISHED) {
            remove(connection, part.number)?;
        }
        Ok(())
    }

    /// Writes what is in the batch as a part, and goes on putting parts together.
    pub(crate) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut leaves_written = 0;
        if !self.batch.keys.is_empty() {
            let (keys, leaves) = self.batch.sort();
            self.batch.clear();
            leaves_written = leaves.leaves.len();
            let part = Part { number: self.next_part(), level: 0 };
            write_leaves(connection, part.number, 0, &leaves.leaves)?;
            write_part(connection, part, &keys, &leaves.firsts)?;
            self.parts.push(part);
        }
        if self.is_damaged {
            return Ok(());
        }
        connection.execute_batch("SAVEPOINT merging")?;
        if let Err(error) = self.merge(connection, leaves_written) {
            // Writing goes on; searches look into more parts.
            tracing::warn!(%error, "parts of the log's index cannot be put together");
            (self.merging, self.is_damaged) = (None, true);
            connection.execute_batch("ROLLBACK TO merging")?;
        }
        connection.execute_batch("RELEASE merging")
    }

    /// Goes on putting parts together, the more the more was written.
    fn merge(&mut self, connection: &Connection, leaves_written: usize) -> rusqlite::Result<()> {
        if self.merging.is_none() {
            let mut counts = [0_usize; 16];
            for part in &self.parts {
                if let Some(n) = usize::try_from(part.level).ok().and_then(|l| counts.get_mut(l)) {
                    *n += 1;
                }
            }
            let full = counts.iter().position(|&n| n >= PARTS_MERGED);
            if let Some(level) = full.and_then(|level| i64::try_from(level).ok()) {
                self.begin_merge(connection, level + 1, |part| part.level == level)?;
            }
        }
        if self.merging.is_some() {
            self.go_on(connection, (MERGED_PER_LEAF * leaves_written).max(MERGED_MIN))?;
        }
        Ok(())
    }

    /// Goes on putting all parts together to one. False when they are.
    pub(crate) fn merge_all(
        &mut self,
        connection: &Connection,
        leaves: usize,
    ) -> rusqlite::Result<bool> {
        if self.merging.is_none() && self.parts.len() > 1 {
            let highest = self.parts.iter().map(|p| p.level).max().unwrap_or(0);
            self.begin_merge(connection, highest + 1, |_| true)?;
        }
        self.go_on(connection, leaves)?;
        Ok(self.parts.len() > 1)
    }

    fn next_part(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    fn begin_merge(
        &mut self,
        connection: &Connection,
        level: i64,
        which: impl Fn(&Part) -> bool,
    ) -> rusqlite::Result<()> {
        let from: Vec<i64> = self.parts.iter().filter(|p| which(p)).map(|p| p.number).collect();
        let into = Part { number: self.next_part(), level };
        write_part(connection, Part { level: UNFINISHED, ..into }, &[], &[])?;
        self.merging = Some(Merge::begin(connection, from, into)?);
        Ok(())
    }

    /// Writes about so many leaves of the part that is being made.
    fn go_on(&mut self, connection: &Connection, leaves: usize) -> rusqlite::Result<()> {
        let Some(merge) = &mut self.merging else { return Ok(()) };
        if merge.go_on(connection, leaves)? {
            return Ok(());
        }
        let Some(merge) = self.merging.take() else { return Ok(()) };
        for &part in merge.from() {
            remove(connection, part)?;
        }
        self.parts.retain(|part| !merge.from().contains(&part.number));
        self.parts.push(merge.into_part());
        Ok(())
    }
}

/// This day's messages are found by FTS5, as days were that an earlier version began.
pub(crate) fn is_fts5(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'posting'";
    connection.prepare_cached(sql)?.exists([])
}

/// Makes a file that has no messages one whose index is this one.
pub(crate) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    let first = "SELECT seq FROM message LIMIT 1";
    let known: Option<i64> = connection.query_row(first, [], |row| row.get(0)).optional()?;
    match known {
        Some(_) => Ok(()),
        None => connection.execute_batch("DROP TABLE IF EXISTS posting"),
    }
}

fn write_part(
    connection: &Connection,
    part: Part,
    keys: &[i64],
    firsts: &[u8],
) -> rusqlite::Result<()> {
    let (first, last) = (keys.first().copied().unwrap_or(0), keys.last().copied().unwrap_or(0));
    let mut packed = Vec::with_capacity(keys.len() * KEY_BYTES);
    for key in keys {
        let distance = (key - first).to_le_bytes();
        packed.extend(distance.iter().take(KEY_BYTES));
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO term_part (part, level, first, last, leaves, keys) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![part.number, part.level, first, last, firsts, packed])
        .map(drop)
}

fn write_leaves(
    connection: &Connection,
    part: i64,
    from: i64,
    leaves: &[Vec<u8>],
) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT INTO term_leaf (place, entries) VALUES (?1, ?2)")?;
    for (place, leaf) in (part * LEAVES_OF_A_PART + from..).zip(leaves) {
        insert.execute(params![place, leaf])?;
    }
    Ok(())
}

fn read_leaf(connection: &Connection, part: i64, number: i64) -> rusqlite::Result<Vec<u8>> {
    let mut read = connection.prepare_cached("SELECT entries FROM term_leaf WHERE place = ?1")?;
    read.query_row([part * LEAVES_OF_A_PART + number], |row| row.get(0))
}

/// The keys of a part's messages, ascending.
fn read_keys(connection: &Connection, part: i64) -> rusqlite::Result<Vec<i64>> {
    let mut read =
        connection.prepare_cached("SELECT first, keys FROM term_part WHERE part = ?1")?;
    read.query_row([part], |row| {
        let first: i64 = row.get(0)?;
        let key =
            |bytes: &[u8]| first + bytes.iter().rev().fold(0, |n, &byte| n << 8 | i64::from(byte));
        Ok(row.get_ref(1)?.as_blob()?.chunks_exact(KEY_BYTES).map(key).collect())
    })
}

fn remove(connection: &Connection, part: i64) -> rusqlite::Result<()> {
    let first = part * LEAVES_OF_A_PART;
    connection
        .prepare_cached("DELETE FROM term_leaf WHERE place >= ?1 AND place < ?2")?
        .execute([first, first + LEAVES_OF_A_PART])?;
    connection.prepare_cached("DELETE FROM term_part WHERE part = ?1")?.execute([part]).map(drop)
}

#[cfg(test)]
mod tests;
