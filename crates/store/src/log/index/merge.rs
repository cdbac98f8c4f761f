//! Merging parts into one.

use rusqlite::Connection;

use super::leaf::{LeafReader, LeafWriter, read_list};
use super::{Part, prefix_of, read_keys, read_leaf, write_leaves, write_part};

/// A part that is read from its first term to its last.
#[derive(Debug)]
struct Source {
    part: i64,
    /// Number of leaves read so far.
    read: i64,
    leaves: i64,
    leaf: LeafReader,
    prefix: u128,
    is_over: bool,
    /// The ordinal in the merged part of each of its messages.
    ordinals: Vec<u32>,
}

impl Source {
    fn step(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        while self.leaf.step().is_none() {
            self.leaf.ended_well()?;
            if self.read >= self.leaves {
                self.is_over = true;
                return Ok(());
            }
            self.leaf.begin(read_leaf(connection, self.part, self.read)?);
            self.read += 1;
        }
        self.prefix = prefix_of(&self.leaf.term);
        Ok(())
    }

    /// Whether its current term is before this one.
    fn is_before(&self, prefix: u128, term: &[u8]) -> bool {
        self.prefix < prefix || (self.prefix == prefix && self.leaf.term.as_slice() < term)
    }

    fn is_at(&self, prefix: u128, term: &[u8]) -> bool {
        !self.is_over && self.prefix == prefix && self.leaf.term == term
    }
}

/// A merge in progress.
#[derive(Debug)]
pub(super) struct Merge {
    from: Vec<i64>,
    into: Part,
    keys: Vec<i64>,
    sources: Vec<Source>,
    writer: LeafWriter,
    written: i64,
}

impl Merge {
    /// Starts a merge. The parts must not change until it is finished.
    pub(super) fn begin(
        connection: &Connection,
        from: Vec<i64>,
        into: Part,
    ) -> rusqlite::Result<Self> {
        let of_parts: Vec<Vec<i64>> = from
            .iter()
            .map(|&part| read_keys(connection, part))
            .collect::<rusqlite::Result<_>>()?;
        let mut keys = of_parts.concat();
        keys.sort_unstable();
        keys.dedup();
        let mut sources = Vec::new();
        for (&part, own) in from.iter().zip(of_parts) {
            let mut at = 0;
            let ordinal = |key| {
                while keys.get(at).is_some_and(|k| *k < key) {
                    at += 1;
                }
                at as u32
            };
            let mut source = Source {
                part,
                read: 0,
                leaves: leaves_of(connection, part)?,
                leaf: LeafReader::default(),
                prefix: 0,
                is_over: false,
                ordinals: own.into_iter().map(ordinal).collect(),
            };
            source.step(connection)?;
            sources.push(source);
        }
        let writer = LeafWriter::default();
        Ok(Merge { from, into, keys, sources, writer, written: 0 })
    }

    /// The parts that are merged.
    pub(super) fn from(&self) -> &[i64] {
        &self.from
    }

    pub(super) fn into_part(self) -> Part {
        self.into
    }

    /// Writes about so many leaves. False when the merged part is complete.
    pub(super) fn step(
        &mut self,
        connection: &Connection,
        leaves: usize,
    ) -> rusqlite::Result<bool> {
        let upto = self.written + i64::try_from(leaves).unwrap_or(i64::MAX);
        let (mut messages, mut read, mut term) = (Vec::new(), Vec::new(), Vec::new());
        while self.written < upto {
            let mut first: Option<&Source> = None;
            for source in self.sources.iter().filter(|s| !s.is_over) {
                if first.is_none_or(|f| source.is_before(f.prefix, &f.leaf.term)) {
                    first = Some(source);
                }
            }
            let Some(first) = first else { return self.finish(connection).map(|()| false) };
            term.clear();
            term.extend_from_slice(&first.leaf.term);
            let prefix = first.prefix;
            messages.clear();
            for source in &mut self.sources {
                while source.is_at(prefix, &term) {
                    read.clear();
                    read_list(source.leaf.list(), &mut read);
                    let ordinals = &source.ordinals;
                    messages.extend(read.iter().filter_map(|&m: &u32| ordinals.get(m as usize)));
                    source.step(connection)?;
                }
            }
            if !messages.is_sorted_by(|a, b| a < b) {
                messages.sort_unstable();
                messages.dedup();
            }
            self.writer.push(&term, &messages);
            self.write_full(connection)?;
        }
        Ok(true)
    }

    fn write_full(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let full = self.writer.take_full();
        if !full.is_empty() {
            write_leaves(connection, self.into.number, self.written, &full)?;
            self.written += i64::try_from(full.len()).unwrap_or(i64::MAX);
        }
        Ok(())
    }

    fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let last = std::mem::take(&mut self.writer).finish();
        write_leaves(connection, self.into.number, self.written, &last.leaves)?;
        write_part(connection, self.into, &self.keys, &last.first_terms)
    }
}

fn leaves_of(connection: &Connection, part: i64) -> rusqlite::Result<i64> {
    let mut read = connection.prepare_cached("SELECT leaves FROM term_part WHERE part = ?1")?;
    read.query_row([part], |row| {
        let count = super::leaf::first_terms(row.get_ref(0)?.as_blob()?).count();
        Ok(i64::try_from(count).unwrap_or(0))
    })
}
