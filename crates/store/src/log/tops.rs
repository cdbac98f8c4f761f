//! How often names occurred in a day's messages: rules that hit, domains that sent.
//!
//! A batch has hundreds of names. So its counts are written as one row, and added to the table of names
//! (`tally_top`) when some dozens of such rows have gathered, or the day is over; whoever asks meanwhile adds them up.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, params};

/// Rows that gather before they are added to the table.
const PARTS_MAX: i64 = 64;

/// Counts by kind, then by name.
pub(super) type Tops<'a> = BTreeMap<&'a str, BTreeMap<&'a str, i64>>;

/// Keeps the counts of a batch.
pub(super) fn write(connection: &Connection, tops: &Tops<'_>) -> rusqlite::Result<()> {
    if tops.is_empty() {
        return Ok(());
    }
    let packed = rmp_serde::to_vec(tops)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.prepare_cached("INSERT INTO tally_part (names) VALUES (?1)")?.execute([packed])?;
    let mut count = connection.prepare_cached("SELECT count(*) FROM tally_part")?;
    let parts: i64 = count.query_row([], |row| row.get(0))?;
    if parts >= PARTS_MAX { gather(connection) } else { Ok(()) }
}

/// Adds what is in single rows to the table of names. The connection should be in a transaction.
pub(super) fn gather(connection: &Connection) -> rusqlite::Result<()> {
    let parts = parts(connection)?;
    let mut sums = Tops::new();
    for part in &parts {
        for (kind, names) in read_part(part) {
            let sums = sums.entry(kind).or_default();
            for (name, messages) in names {
                *sums.entry(name).or_default() += messages;
            }
        }
    }
    let mut add = connection.prepare_cached(
        "INSERT INTO tally_top (kind, name, messages) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET messages = messages + excluded.messages",
    )?;
    for (kind, names) in &sums {
        for (name, messages) in names {
            add.execute(params![kind, name, messages])?;
        }
    }
    connection.prepare_cached("DELETE FROM tally_part")?.execute([]).map(drop)
}

/// The names of this kind seen most, and how often: the most frequent first.
pub(super) fn read(
    connection: &Connection,
    kind: &str,
    most: usize,
) -> rusqlite::Result<Vec<(String, u64)>> {
    let snapshot = connection.unchecked_transaction()?;
    let parts = parts(&snapshot)?;
    // Any name may come to the front by what is not added up yet.
    let limit = if parts.is_empty() { i64::try_from(most).unwrap_or(i64::MAX) } else { -1 };
    let mut statement = snapshot.prepare_cached(
        "SELECT name, messages FROM tally_top WHERE kind = ?1 \
         ORDER BY messages DESC, name LIMIT ?2",
    )?;
    let count = |row: &rusqlite::Row<'_>| {
        Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0)))
    };
    let rows = statement.query_map(params![kind, limit], count)?;
    if parts.is_empty() {
        return rows.collect();
    }
    let mut sums = rows.collect::<rusqlite::Result<HashMap<String, u64>>>()?;
    for part in &parts {
        for (name, messages) in read_part(part).remove(kind).unwrap_or_default() {
            let messages = u64::try_from(messages).unwrap_or(0);
            match sums.get_mut(name) {
                Some(sum) => *sum += messages,
                None => drop(sums.insert(name.to_owned(), messages)),
            }
        }
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums.truncate(most);
    Ok(sums)
}

fn parts(connection: &Connection) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut read = connection.prepare_cached("SELECT names FROM tally_part")?;
    read.query_map([], |row| row.get(0))?.collect()
}

/// Nothing if it is damaged: these are counts for people to look at.
fn read_part(packed: &[u8]) -> Tops<'_> {
    rmp_serde::from_slice(packed).unwrap_or_default()
}
