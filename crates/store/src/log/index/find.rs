//! Queries: which messages have these terms.

use rusqlite::{Connection, params};

use super::leaf::{LeafReader, first_terms, read_list};
use super::{cut, read_keys, read_leaf};

/// A term or a prefix of terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) term: String,
    pub(crate) is_prefix: bool,
}

/// Alternatives, of which a message must match one.
pub(crate) type Clause = Vec<Pattern>;

/// A part as a search reads it.
struct Part {
    number: i64,
    /// The first term of each leaf.
    first_terms: Vec<u8>,
    /// The keys of its messages, read when they are needed.
    keys: Vec<i64>,
}

impl Part {
    fn keys(&mut self, connection: &Connection) -> rusqlite::Result<&[i64]> {
        if self.keys.is_empty() {
            self.keys = read_keys(connection, self.number)?;
        }
        Ok(&self.keys)
    }

    /// Appends the ordinals of the messages that match this pattern, sorted within each term.
    /// Returns how many terms matched.
    fn collect(
        &self,
        connection: &Connection,
        pattern: &Pattern,
        out: &mut Vec<u32>,
    ) -> rusqlite::Result<usize> {
        let wanted = cut(pattern.term.as_bytes());
        // The term may begin in the last leaf whose first term is smaller, and extends to the first
        // leaf whose first term is larger.
        let smaller = first_terms(&self.first_terms).take_while(|first| *first < wanted).count();
        let (mut terms, mut last) = (0, Vec::new());
        let mut leaf = LeafReader::default();
        let fits = |term: &[u8]| match pattern.is_prefix {
            true => term.starts_with(wanted),
            false => term == wanted,
        };
        let from = smaller.saturating_sub(1);
        for (number, first) in first_terms(&self.first_terms).enumerate().skip(from) {
            if first > wanted && !fits(first) {
                break;
            }
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            leaf.begin(read_leaf(connection, self.number, number)?);
            loop {
                if leaf.step().is_none() {
                    leaf.ended_well()?;
                    break;
                }
                if fits(&leaf.term) {
                    if terms == 0 || last != leaf.term {
                        terms += 1;
                        last.clone_from(&leaf.term);
                    }
                    read_list(leaf.list(), out);
                } else if leaf.term.as_slice() > wanted {
                    break;
                }
            }
        }
        Ok(terms)
    }

    /// The sorted ordinals of the messages that match the clause.
    fn matching(&self, connection: &Connection, clause: &Clause) -> rusqlite::Result<Vec<u32>> {
        let (mut found, mut terms) = (Vec::new(), 0);
        for pattern in clause {
            terms += self.collect(connection, pattern, &mut found)?;
        }
        if terms > 1 {
            sort_many(&mut found);
        }
        Ok(found)
    }
}

/// Sorts and deduplicates ordinals. Many ordinals are dense, so that a bitmap is faster than
/// sorting.
fn sort_many(ordinals: &mut Vec<u32>) {
    let most = ordinals.iter().copied().max().unwrap_or(0) as usize;
    if most / 64 > ordinals.len() {
        ordinals.sort_unstable();
        return ordinals.dedup();
    }
    let mut bits = vec![0_u64; most / 64 + 1];
    for &ordinal in ordinals.iter() {
        if let Some(word) = bits.get_mut(ordinal as usize / 64) {
            *word |= 1 << (ordinal % 64);
        }
    }
    ordinals.clear();
    for (at, mut word) in (0_u32..).step_by(64).zip(bits) {
        while word != 0 {
            ordinals.push(at + word.trailing_zeros());
            word &= word - 1;
        }
    }
}

/// Keeps the elements that are in both sorted lists.
fn intersect<T: Ord + Copy>(found: &mut Vec<T>, mut other: &[T]) {
    found.retain(|one| {
        // Exponential search, then binary search: mostly few elements are looked up in many.
        let mut step = 1;
        while other.get(step).is_some_and(|o| o < one) {
            step *= 2;
        }
        let skipped = other.get(..=step).unwrap_or(other).partition_point(|o| o < one);
        other = other.get(skipped..).unwrap_or_default();
        other.first() == Some(one)
    });
}

/// The sorted keys in `[since, until)` of the messages that match all clauses. Selective clauses
/// should come first. The connection must be in a transaction, so that all reads see one state.
pub(crate) fn find(
    connection: &Connection,
    clauses: &[Clause],
    (since, until): (i64, i64),
) -> rusqlite::Result<Vec<i64>> {
    let mut read = connection.prepare_cached(
        "SELECT part, leaves FROM term_part WHERE level >= 0 AND last >= ?1 AND first < ?2",
    )?;
    let part = |row: &rusqlite::Row<'_>| {
        Ok(Part { number: row.get(0)?, first_terms: row.get(1)?, keys: Vec::new() })
    };
    let rows = read.query_map(params![since, until], part)?;
    let mut parts = rows.collect::<rusqlite::Result<Vec<Part>>>()?;
    let mut found = match parts.as_mut_slice() {
        [one] => find_in_one(connection, clauses, one)?,
        many => find_in_many(connection, clauses, many)?,
    };
    found.retain(|key| (since..until).contains(key));
    Ok(found)
}

fn find_in_one(
    connection: &Connection,
    clauses: &[Clause],
    part: &mut Part,
) -> rusqlite::Result<Vec<i64>> {
    let found = intersect_all(clauses, |clause| part.matching(connection, clause))?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let keys = part.keys(connection)?;
    let key = |ordinal: u32| keys.get(ordinal as usize).copied();
    Ok(found.into_iter().filter_map(key).collect())
}

/// A message's terms may be in several parts: those of later events are in a later one.
fn find_in_many(
    connection: &Connection,
    clauses: &[Clause],
    parts: &mut [Part],
) -> rusqlite::Result<Vec<i64>> {
    intersect_all(clauses, |clause| {
        let mut matching: Vec<i64> = Vec::new();
        for part in parts.iter_mut() {
            let ordinals = part.matching(connection, clause)?;
            if !ordinals.is_empty() {
                let keys = part.keys(connection)?;
                let key = |ordinal: u32| keys.get(ordinal as usize).copied();
                matching.extend(ordinals.into_iter().filter_map(key));
            }
        }
        if !matching.is_sorted_by(|a, b| a < b) {
            matching.sort_unstable();
            matching.dedup();
        }
        Ok(matching)
    })
}

/// The intersection of what `matching` finds for each clause, sorted. Stops as soon as it is empty.
fn intersect_all<T: Ord + Copy>(
    clauses: &[Clause],
    mut matching: impl FnMut(&Clause) -> rusqlite::Result<Vec<T>>,
) -> rusqlite::Result<Vec<T>> {
    let Some((first, others)) = clauses.split_first() else { return Ok(Vec::new()) };
    let mut found = matching(first)?;
    for clause in others {
        if found.is_empty() {
            break;
        }
        intersect(&mut found, &matching(clause)?);
    }
    Ok(found)
}
