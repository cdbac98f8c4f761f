//! The inverted index of a day: which messages have which term (see `terms.rs`).
//!
//! A log-structured merge-tree (O'Neil and others 1996). Each batch of messages makes one part: the
//! sorted keys of its messages, and its sorted terms, each with the ordinals of its messages among
//! those keys. A part is immutable; when there are many of one level they are merged into one of
//! the next, a few pages with each batch, so that no append waits for it. When the day is over all
//! parts become one.
//!
//! SQLite's FTS5 does the same and more (positions, ranking, deletion, any text) for four times the
//! instructions: days that an earlier version began with it are still read and finished (`day.rs`,
//! `search.rs`).
//!
//! The terms of a part are stored in leaves, rows that fill a page each; the part's row has the
//! first term of each leaf.

mod find;
mod leaf;
mod merge;

use rusqlite::{Connection, OptionalExtension, params};

pub(crate) use find::{Clause, Pattern, find};
use leaf::{LeafWriter, Leaves};
pub(crate) use leaf::{push_number, take_number};
use merge::Merge;

/// Longest term in bytes; longer ones are cut, here and in queries.
const TERM_BYTES_MAX: usize = 64;
/// Parts of one level that are merged.
const PARTS_MERGED: usize = 16;
/// Level of an incomplete part; searches ignore it.
const UNFINISHED: i64 = -1;
/// The row id of a leaf is its part times this, plus its number.
const LEAVES_OF_A_PART: i64 = 1 << 24;
/// Bytes of a key in a part: its distance from the part's first. A day has 2^39 keys.
const KEY_BYTES: usize = 5;

/// Leaves that a merge writes for each leaf of a batch: each term is written twice or three times
/// in the end, so this is enough to keep up.
const MERGED_PER_LEAF: usize = 4;
/// Fewest leaves that a merge step writes.
const MERGED_MIN: usize = 16;

/// Length of a term prefix that is compared as a number.
const PREFIX_BYTES: usize = 16;

/// The first bytes of a term as a number with the same order.
fn prefix_of(term: &[u8]) -> u128 {
    let mut bytes = [0; PREFIX_BYTES];
    let short = term.get(..PREFIX_BYTES).unwrap_or(term);
    if let Some(begin) = bytes.get_mut(..short.len()) {
        begin.copy_from_slice(short);
    }
    u128::from_be_bytes(bytes)
}

/// The first [`TERM_BYTES_MAX`] bytes.
fn cut(term: &[u8]) -> &[u8] {
    term.get(..TERM_BYTES_MAX).unwrap_or(term)
}

/// A term of a message as a number that sorts: the term's first eight bytes, the message's position
/// in the batch (four bytes), the term's position in the batch (four).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Posting(u128);

impl Posting {
    fn new(term: &[u8], message: u32, position: u32) -> Self {
        let begin = prefix_of(term) >> 64 << 64;
        Posting(begin | u128::from(message) << 32 | u128::from(position))
    }

    fn begin(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn message(self) -> usize {
        (self.0 >> 32) as u32 as usize
    }

    fn position(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Terms of messages that are written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    keys: Vec<i64>,
    text: String,
    /// End of each term in the text; it begins at the end of the one before.
    ends: Vec<u32>,
    postings: Vec<Posting>,
}

impl Batch {
    /// Adds the terms of the message with this key, separated by spaces.
    pub(crate) fn push(&mut self, key: i64, terms: &str) {
        let message = self.keys.len() as u32;
        self.keys.push(key);
        for term in terms.split(' ').filter(|t| !t.is_empty()) {
            let position = self.ends.len() as u32;
            self.text.push_str(term);
            self.ends.push(self.text.len() as u32);
            self.postings.push(Posting::new(cut(term.as_bytes()), message, position));
        }
    }

    fn term(&self, posting: &Posting) -> &[u8] {
        let position = posting.position();
        let end = |position: usize| self.ends.get(position).map(|&end| end as usize);
        let start = position.checked_sub(1).and_then(end).unwrap_or(0);
        let end = end(position).unwrap_or(start);
        cut(self.text.as_bytes().get(start..end).unwrap_or_default())
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.text.clear();
        self.ends.clear();
        self.postings.clear();
    }

    /// Sorts the batch. Returns the keys, each once, and the leaves of the terms.
    fn sort(&mut self) -> (Vec<i64>, Leaves) {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let ordinal = |key: &i64| keys.binary_search(key).unwrap_or(0) as u32;
        let ordinals: Vec<u32> = self.keys.iter().map(ordinal).collect();
        let mut postings = std::mem::take(&mut self.postings);
        postings.sort_unstable();
        let same_prefix = |a: &Posting, b: &Posting| a.begin() == b.begin();
        let is_same = |a: &Posting, b: &Posting| self.term(a) == self.term(b);
        for run in postings.chunk_by_mut(same_prefix) {
            let first = run.first().copied().unwrap_or_default();
            if !run.iter().all(|p| is_same(p, &first)) {
                run.sort_by(|a, b| {
                    self.term(a).cmp(self.term(b)).then(a.message().cmp(&b.message()))
                });
            }
        }
        let mut writer = LeafWriter::default();
        let mut messages: Vec<u32> = Vec::new();
        for run in postings.chunk_by(|a, b| same_prefix(a, b) && is_same(a, b)) {
            messages.clear();
            messages.extend(run.iter().filter_map(|p| ordinals.get(p.message())));
            // Nearly all messages come in the order of their keys.
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

/// Number and level of a part.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: i64,
    level: i64,
}

/// The index of a day that is being written.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) batch: Batch,
    parts: Vec<Part>,
    next: i64,
    merging: Option<Merge>,
    /// Parts cannot be merged: something in the file cannot be read.
    is_damaged: bool,
}

impl Index {
    /// Reads the list of parts, and removes incomplete ones that a crash left.
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

    /// Writes the batch as a part, and continues merging.
    pub(crate) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut leaves_written = 0;
        if !self.batch.keys.is_empty() {
            let (keys, leaves) = self.batch.sort();
            self.batch.clear();
            leaves_written = leaves.leaves.len();
            let part = Part { number: self.next_part(), level: 0 };
            write_leaves(connection, part.number, 0, &leaves.leaves)?;
            write_part(connection, part, &keys, &leaves.first_terms)?;
            self.parts.push(part);
        }
        if self.is_damaged {
            return Ok(());
        }
        connection.execute_batch("SAVEPOINT merging")?;
        if let Err(error) = self.merge(connection, leaves_written) {
            // Writing continues; searches read more parts.
            tracing::warn!(%error, "the parts of the log's index cannot be merged");
            (self.merging, self.is_damaged) = (None, true);
            connection.execute_batch("ROLLBACK TO merging")?;
        }
        connection.execute_batch("RELEASE merging")
    }

    /// Continues merging, in proportion to the leaves that were written.
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
            self.step(connection, (MERGED_PER_LEAF * leaves_written).max(MERGED_MIN))?;
        }
        Ok(())
    }

    /// Continues merging all parts into one. False when that is done.
    pub(crate) fn merge_all(
        &mut self,
        connection: &Connection,
        leaves: usize,
    ) -> rusqlite::Result<bool> {
        if self.merging.is_none() && self.parts.len() > 1 {
            let highest = self.parts.iter().map(|p| p.level).max().unwrap_or(0);
            self.begin_merge(connection, highest + 1, |_| true)?;
        }
        self.step(connection, leaves)?;
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

    /// Writes about so many leaves of the merged part.
    fn step(&mut self, connection: &Connection, leaves: usize) -> rusqlite::Result<()> {
        let Some(merge) = &mut self.merging else { return Ok(()) };
        if merge.step(connection, leaves)? {
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

/// Whether messages of this day are indexed by FTS5, as an earlier version did.
pub(crate) fn is_fts5(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'posting'";
    connection.prepare_cached(sql)?.exists([])
}

/// Switches a file without messages from FTS5 to this index.
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
    first_terms: &[u8],
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
        .execute(params![part.number, part.level, first, last, first_terms, packed])
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
    for (position, leaf) in (part * LEAVES_OF_A_PART + from..).zip(leaves) {
        insert.execute(params![position, leaf])?;
    }
    Ok(())
}

fn read_leaf(connection: &Connection, part: i64, number: i64) -> rusqlite::Result<Vec<u8>> {
    let mut read = connection.prepare_cached("SELECT entries FROM term_leaf WHERE place = ?1")?;
    read.query_row([part * LEAVES_OF_A_PART + number], |row| row.get(0))
}

/// The sorted keys of a part's messages.
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
