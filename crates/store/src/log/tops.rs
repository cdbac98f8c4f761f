//! Frequency of names in a day's messages: rules that matched, sender domains.
//!
//! A batch has hundreds of names. So its counts are written as one row, and added to the table of
//! names (`tally_top`) when some dozens of such rows have collected, or the day is over; readers
//! add up both.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, params};

/// Rows that collect before they are added to the table.
const PARTS_MAX: i64 = 64;

/// Counts by kind, then by name.
pub(super) type Tops<'a> = BTreeMap<&'a str, BTreeMap<&'a str, i64>>;

/// Stores the counts of a batch.
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

/// Adds the collected rows to the table of names. The connection should be in a transaction.
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

/// The most frequent names of this kind with their counts, in descending order.
pub(super) fn read(
    connection: &Connection,
    kind: &str,
    most: usize,
) -> rusqlite::Result<Vec<(String, u64)>> {
    let snapshot = connection.unchecked_transaction()?;
    let parts = parts(&snapshot)?;
    let mut waiting: HashMap<&str, u64> = HashMap::new();
    for part in &parts {
        for (name, messages) in read_part(part).remove(kind).unwrap_or_default() {
            *waiting.entry(name).or_default() += u64::try_from(messages).unwrap_or(0);
        }
    }
    let count = |row: &rusqlite::Row<'_>| row.get(0).map(|n: i64| u64::try_from(n).unwrap_or(0));
    let mut statement = snapshot.prepare_cached(
        "SELECT messages, name FROM tally_top WHERE kind = ?1 \
         ORDER BY messages DESC, name LIMIT ?2",
    )?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![kind, limit], |row| Ok((row.get(1)?, count(row)?)))?;
    let mut sums = rows.collect::<rusqlite::Result<Vec<(String, u64)>>>()?;
    for (name, messages) in &mut sums {
        *messages += waiting.remove(name.as_str()).unwrap_or(0);
    }
    // A name that is not in the top of the table can be there only through the collected rows.
    let mut one =
        snapshot.prepare_cached("SELECT messages FROM tally_top WHERE kind = ?1 AND name = ?2")?;
    for (name, messages) in waiting {
        let known = one.query_row(params![kind, name], count).optional()?;
        sums.push((name.to_owned(), messages + known.unwrap_or(0)));
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums.truncate(most);
    Ok(sums)
}

fn parts(connection: &Connection) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut read = connection.prepare_cached("SELECT names FROM tally_part")?;
    read.query_map([], |row| row.get(0))?.collect()
}

/// Empty if it is damaged: these counts are for display only.
fn read_part(packed: &[u8]) -> Tops<'_> {
    rmp_serde::from_slice(packed).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_counts_with_what_is_added_up() {
        let connection = Connection::open_in_memory().unwrap();
        for step in super::super::schema::MIGRATIONS {
            connection.execute_batch(step).unwrap();
        }
        let counts = |names: &[(&'static str, i64)]| {
            Tops::from([("rule", names.iter().copied().collect::<BTreeMap<_, _>>())])
        };
        let top = |most| read(&connection, "rule", most).unwrap();
        let named = |n: &str, messages| (n.to_owned(), messages);
        write(&connection, &counts(&[("A", 9), ("B", 8), ("C", 2), ("D", 1)])).unwrap();
        gather(&connection).unwrap();
        assert_eq!(top(2), [named("A", 9), named("B", 8)]);
        // One moves to the front, one is new.
        write(&connection, &counts(&[("C", 8), ("E", 9)])).unwrap();
        assert_eq!(top(3), [named("C", 10), named("A", 9), named("E", 9)]);
        gather(&connection).unwrap();
        assert_eq!(top(3), [named("C", 10), named("A", 9), named("E", 9)]);
        assert_eq!(top(9).len(), 5);
    }
}
