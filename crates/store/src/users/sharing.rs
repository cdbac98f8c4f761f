//! Users as the nodes of an array share them: accounts, second factors, app passwords, tokens,
//! lists, personal settings, saved searches, and the key and the uses of digests' links.
//!
//! Each row of these tables is a register: its last change wins, whichever order changes come in.
//! A change is later than every one that its node knew of the row; of two that are as late as each
//! other that of the node with the lower number wins. What a row was before it came into the array
//! is earlier than any change made there.
//!
//! Triggers note changes by key; a batch has rows as they are when it is made. All of it is sealed
//! with a key that the nodes have and the database does not: it holds password hashes and secrets
//! of second factors.
//!
//! Sessions, limits of sign-in attempts and the audit log stay with each node.

mod tables;

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Transaction, params, params_from_iter};
use serde::{Deserialize, Serialize};

use super::{UserDatabase, audit::audit, session};
use crate::content::BodyKeys;
use crate::error::StoreError;
use crate::sharing::{BATCH_BYTES, Cursors, Incoming, Outgoing};
use tables::{TABLES, Table};

pub(super) use tables::MIGRATION;

/// Version of the batches' format.
const VERSION: u8 = 1;
/// What a batch is authenticated as.
const CONTEXT: &str = "gauntlet 2026-11 batch of users";
/// Version of a row that was there before its node came into the array.
const BEFORE: i64 = 1;
/// Version of a row that is never shared: the first administrator, as long as nobody signed in.
const UNTOUCHED: i64 = 0;
/// Rows in a batch.
const ROWS_MAX: i64 = 1_000;
/// How long it is remembered that a row was removed: as long as batches are kept.
const REMOVED_MS: i64 = 400 * 86_400_000;
/// How the names of keys begin that links were signed with before a node took the array's. The name
/// that is no longer than this is of an earlier build, and of each node alone.
pub(super) const LINKS_BEFORE: &str = "links before";

/// What a batch of another node changed, of what a running node has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Taken {
    /// Personal settings, which the policy asks for.
    pub people: bool,
    /// Senders that are listed for all.
    pub senders: bool,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Cell::Null,
            Value::Integer(number) => Cell::Integer(number),
            Value::Real(number) => Cell::Real(number),
            Value::Text(text) => Cell::Text(text),
            Value::Blob(bytes) => Cell::Blob(bytes),
        }
    }
}

impl From<Cell> for Value {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Null => Value::Null,
            Cell::Integer(number) => Value::Integer(number),
            Cell::Real(number) => Value::Real(number),
            Cell::Text(text) => Value::Text(text),
            Cell::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

/// Columns of a row by name.
type Cells = Vec<(String, Cell)>;

/// A change, as it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Change {
    /// Name of the table.
    place: String,
    /// Key of the row in it.
    key: String,
    /// When it was changed.
    version: i64,
    /// The row; none: it was removed.
    row: Option<Cells>,
}

impl UserDatabase {
    /// Begins to note changes, for an array and this node in it, whose name ends with the node's
    /// number (`…/3`). With another name than last time all rows wait to be sent, as what was there
    /// before. Returns the number of each node's last batch that was taken.
    ///
    /// # Errors
    /// If that could not be made durable.
    pub fn begin_sharing(&self, epoch: &str) -> Result<Cursors, StoreError> {
        let node: i16 = epoch.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(i16::MAX);
        self.change(|batch| {
            let last: String = batch.query_row("SELECT epoch FROM sharing", [], |r| r.get(0))?;
            if last != epoch {
                let set = "UPDATE sharing SET epoch = ?1, node = ?2, noting = 1";
                batch.execute(set, params![epoch, node])?;
                batch.execute("DELETE FROM shared_cursor", [])?;
                note_all(batch, node)?;
            }
            let mut all = batch.prepare_cached("SELECT node, number FROM shared_cursor")?;
            all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }

    /// Ends noting changes: the node is in no array, or does not share its users there.
    ///
    /// # Errors
    /// If that could not be made durable.
    pub fn end_sharing(&self) -> Result<(), StoreError> {
        self.change(|batch| {
            let ended =
                batch.execute("UPDATE sharing SET epoch = '', noting = 0 WHERE epoch <> ''", [])?;
            if ended > 0 {
                batch.execute("DELETE FROM shared_row WHERE version <> ?1", [UNTOUCHED])?;
            }
            Ok(())
        })
    }

    /// Changes that were not sent, oldest first and sealed; none if there are none.
    ///
    /// # Errors
    /// If they cannot be read, or there is no key to seal them with.
    pub fn shared_changes(&self) -> Result<Option<Outgoing>, StoreError> {
        let Some((changes, mark, is_full)) = self.change(collect)? else { return Ok(None) };
        let mut bytes = vec![VERSION];
        bytes.extend(rmp_serde::to_vec_named(&changes).unwrap_or_default());
        let body = self.with_sharing_keys(|keys| keys.seal_as(CONTEXT, &bytes))?;
        Ok(Some(Outgoing { body, mark: mark.cast_unsigned(), is_full }))
    }

    /// The array has the changes up to this mark.
    ///
    /// # Errors
    /// If that could not be made durable.
    pub fn shared_sent(&self, mark: u64) -> Result<(), StoreError> {
        self.change(|batch| {
            let sql = "UPDATE shared_row SET change = NULL WHERE change <= ?1";
            batch.execute(sql, [mark.cast_signed()]).map(drop)
        })
    }

    /// Merges a batch of another node. A batch that this program does not understand is passed
    /// over.
    ///
    /// # Errors
    /// If it cannot be opened with the keys there are, or not be made durable: then it must come
    /// again.
    pub fn take_shared(&self, incoming: &Incoming, now_ms: i64) -> Result<Taken, StoreError> {
        let bytes = self.with_sharing_keys(|keys| keys.open_as(CONTEXT, &incoming.body))?;
        let known = bytes.split_first().filter(|(v, _)| **v == VERSION).map(|(_, rest)| rest);
        let changes: Vec<Change> =
            known.and_then(|rest| rmp_serde::from_slice(rest).ok()).unwrap_or_default();
        self.change(|batch| {
            batch.execute("UPDATE sharing SET noting = 0", [])?;
            let mut taking = Taking { batch, node: incoming.node, now_ms, places: BTreeSet::new() };
            changes.iter().try_for_each(|change| taking.take(change))?;
            let places = taking.places;
            batch.execute(
                "INSERT INTO shared_cursor VALUES (?1, ?2) \
                 ON CONFLICT DO UPDATE SET number = max(number, ?2)",
                params![incoming.node, incoming.number],
            )?;
            batch.execute("UPDATE sharing SET noting = 1 WHERE epoch <> ''", [])?;
            forget_removed(batch, now_ms)?;
            let any = |of: &[&str]| of.iter().any(|place| places.contains(place));
            Ok(Taken { people: any(&["user", "own_sender", "wish"]), senders: any(&["sender"]) })
        })
    }

    /// The keys that batches are sealed with; none: users are not shared.
    pub fn set_sharing_keys(&self, keys: Option<BodyKeys>) {
        *self.sharing_keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = keys;
    }

    fn with_sharing_keys<T>(
        &self,
        run: impl FnOnce(&BodyKeys) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let keys = self.sharing_keys.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let cause = "it is not set, or was not there when the node started or read its settings; \
                     the same file belongs on every node"
            .to_owned();
        let keys = keys.as_ref().ok_or(StoreError::Invalid { what: "array.users_key", cause })?;
        run(keys)
    }
}

/// Notes all rows as what was there before, and forgets which are gone.
fn note_all(batch: &Transaction<'_>, node: i16) -> rusqlite::Result<()> {
    batch.execute("DELETE FROM shared_row WHERE version <> ?1", [UNTOUCHED])?;
    // Who signed in with the one-time password has set another.
    batch.execute(
        "DELETE FROM shared_row WHERE place = 'user' AND key NOT IN \
         (SELECT lower(login) FROM user WHERE must_change)",
        [],
    )?;
    for table in &TABLES {
        let sql = format!(
            "INSERT OR IGNORE INTO shared_row (place, key, version, node, change) \
             SELECT '{name}', {key}, ?1, ?2, row_number() OVER () + \
             (SELECT coalesce(max(change), 0) FROM shared_row) FROM {name}",
            name = table.name,
            key = table.key_sql(),
        );
        batch.execute(&sql, params![BEFORE, node])?;
    }
    Ok(())
}

/// The next changes, the last one's mark, and whether there are more.
fn collect(batch: &Transaction<'_>) -> rusqlite::Result<Option<(Vec<Change>, i64, bool)>> {
    let mut waiting = batch.prepare_cached(
        "SELECT place, key, version, change FROM shared_row \
         WHERE change IS NOT NULL ORDER BY change LIMIT ?1",
    )?;
    let mut rows = waiting.query([ROWS_MAX])?;
    let (mut changes, mut mark, mut bytes) = (Vec::new(), None, 0);
    while let Some(row) = rows.next()? {
        if bytes >= BATCH_BYTES {
            return Ok(mark.map(|mark| (changes, mark, true)));
        }
        mark = Some(row.get(3)?);
        let (place, key, version): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Some(table) = Table::named(&place) else { continue };
        let is_own = place == "secret" && key == LINKS_BEFORE;
        if version == UNTOUCHED || is_own {
            continue;
        }
        let row = read_row(batch, table, &key)?;
        let cells = row.iter().flatten().map(|(_, cell)| cell_bytes(cell)).sum::<usize>();
        bytes += place.len() + key.len() + cells;
        changes.push(Change { place, key, version, row });
    }
    let is_full = changes.len() as i64 >= ROWS_MAX;
    Ok(mark.filter(|_| !changes.is_empty()).map(|mark| (changes, mark, is_full)))
}

fn cell_bytes(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) => text.len() + 16,
        // As they are written, a byte may take two.
        Cell::Blob(bytes) => 2 * bytes.len() + 16,
        _ => 24,
    }
}

fn read_row(batch: &Transaction<'_>, table: &Table, key: &str) -> rusqlite::Result<Option<Cells>> {
    let Some(parts) = table.key_parts(key) else { return Ok(None) };
    let columns: Vec<&str> = table.all_columns().collect();
    let sql =
        format!("SELECT {} FROM {} WHERE {}", columns.join(", "), table.name, table.find_sql());
    let mut find = batch.prepare_cached(&sql)?;
    let cells = |row: &rusqlite::Row<'_>| {
        let cell = |(n, name): (usize, &&str)| {
            Ok(((*name).to_owned(), Cell::from(row.get::<_, Value>(n)?)))
        };
        columns.iter().enumerate().map(cell).collect()
    };
    find.query_row(params_from_iter(parts), cells).optional()
}

/// A batch that is being taken.
struct Taking<'t, 'c> {
    batch: &'t Transaction<'c>,
    node: i16,
    now_ms: i64,
    /// Tables that changed.
    places: BTreeSet<&'static str>,
}

impl Taking<'_, '_> {
    /// Takes a change, unless a later one is known.
    fn take(&mut self, change: &Change) -> rusqlite::Result<()> {
        let Some(table) = Table::named(&change.place) else { return Ok(()) };
        if change.version <= UNTOUCHED || table.key_parts(&change.key).is_none() {
            return Ok(());
        }
        let mut find = self
            .batch
            .prepare_cached("SELECT version, node FROM shared_row WHERE place = ?1 AND key = ?2")?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i16>(1)?));
        let known = find.query_row([table.name, &change.key], row).optional()?;
        let is_later = known.is_none_or(|(version, node)| {
            (change.version, std::cmp::Reverse(self.node)) > (version, std::cmp::Reverse(node))
        });
        if !is_later {
            return Ok(());
        }
        let is_applied = self.apply(table, change)?;
        // What belongs to a user who is not known yet waits for them; of one who was removed it
        // never comes back.
        let waits = !is_applied && table.is_of_user && !self.was_known(&change.key)?;
        let waits = waits.then(|| rmp_serde::to_vec_named(&change.row).unwrap_or_default());
        self.batch.execute(
            "INSERT INTO shared_row (place, key, version, node, change, body) \
             VALUES (?1, ?2, ?3, ?4, NULL, ?5) ON CONFLICT DO UPDATE SET \
             version = ?3, node = ?4, change = NULL, body = ?5",
            params![table.name, change.key, change.version, self.node, waits],
        )?;
        if table.name == "user" {
            self.apply_waiting(&change.key)?;
        }
        Ok(())
    }

    /// Whether the user of this row is, or was, known.
    fn was_known(&self, key: &str) -> rusqlite::Result<bool> {
        let login = key.split('\n').next();
        let sql = "SELECT 1 FROM shared_row WHERE place = 'user' AND key = ?1";
        self.batch.prepare_cached(sql)?.exists([login])
    }

    /// Makes a row what a change says. False if it cannot be.
    fn apply(&mut self, table: &'static Table, change: &Change) -> rusqlite::Result<bool> {
        let before = read_row(self.batch, table, &change.key)?;
        let is_done = match &change.row {
            None => self.remove(table, &change.key)?,
            Some(cells) => self.put(table, cells)?,
        };
        let after = read_row(self.batch, table, &change.key)?;
        if before == after {
            return Ok(is_done);
        }
        self.places.insert(table.name);
        self.note(table, &change.key, before.as_ref(), after.as_ref())?;
        Ok(is_done)
    }

    fn remove(&self, table: &Table, key: &str) -> rusqlite::Result<bool> {
        let parts = table.key_parts(key).unwrap_or_default();
        let sql = format!("DELETE FROM {} WHERE {}", table.name, table.find_sql());
        self.batch.execute(&sql, params_from_iter(parts))?;
        Ok(true)
    }

    fn put(&self, table: &Table, cells: &Cells) -> rusqlite::Result<bool> {
        let known: Vec<&str> = table.all_columns().collect();
        let cells = cells.iter().filter(|(name, _)| known.contains(&name.as_str()));
        let (names, values): (Vec<&str>, Vec<Value>) =
            cells.map(|(name, cell)| (name.as_str(), Value::from(cell.clone()))).unzip();
        let is_whole = table.key.iter().all(|column| names.contains(column));
        if !is_whole || table.is_of_user && !self.has_user(&names, &values)? {
            return Ok(false);
        }
        self.keep_key_of_links(table, &names, &values)?;
        let set = names.iter().filter(|name| !table.key.contains(name));
        let set: Vec<String> = set.map(|name| format!("{name} = excluded.{name}")).collect();
        let conflict = match set.is_empty() {
            true => "DO NOTHING".to_owned(),
            false => format!("({}) DO UPDATE SET {}", table.key.join(", "), set.join(", ")),
        };
        let places: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT {conflict}",
            table.name,
            names.join(", "),
            places.join(", ")
        );
        match self.batch.execute(&sql, params_from_iter(values)) {
            Ok(_) => Ok(true),
            // A row of a build whose table has other columns.
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn has_user(&self, names: &[&str], values: &[Value]) -> rusqlite::Result<bool> {
        let login = names.iter().position(|name| *name == "login").and_then(|n| values.get(n));
        self.batch.prepare_cached("SELECT 1 FROM user WHERE login = ?1")?.exists([login])
    }

    /// Links in digests that were sent already stay good, on all nodes, when the array's key comes:
    /// the key that they were signed with is shared under a name that is made of it.
    fn keep_key_of_links(
        &self,
        table: &Table,
        names: &[&str],
        values: &[Value],
    ) -> rusqlite::Result<()> {
        let of = |column: &str| names.iter().position(|n| *n == column).and_then(|n| values.get(n));
        if table.name != "secret" || of("name") != Some(&Value::Text("links".to_owned())) {
            return Ok(());
        }
        let sql = "SELECT value FROM secret WHERE name = 'links' AND value <> ?1";
        let row = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
        let Some(replaced) = self.batch.query_row(sql, [of("value")], row).optional()? else {
            return Ok(());
        };
        let name = format!("{LINKS_BEFORE} {}", &blake3::hash(&replaced).to_hex()[..16]);
        let sql = "INSERT OR IGNORE INTO secret (name, value) VALUES (?1, ?2)";
        self.batch.execute(sql, params![name, replaced])?;
        // Triggers note nothing while a batch is taken.
        let sql = "INSERT OR IGNORE INTO shared_row (place, key, version, node, change) \
                   SELECT 'secret', ?1, ?2, node, \
                   (SELECT coalesce(max(change), 0) + 1 FROM shared_row) FROM sharing";
        self.batch.execute(sql, params![name, self.now_ms.max(BEFORE)]).map(drop)
    }

    /// Applies what waited for this user; if they are removed, nothing waits any longer.
    fn apply_waiting(&mut self, login: &str) -> rusqlite::Result<()> {
        let sql = "SELECT place, key, body FROM shared_row WHERE body IS NOT NULL \
                   AND (key = ?1 OR substr(key, 1, length(?1) + 1) = ?1 || char(10))";
        let waiting: Vec<(String, String, Vec<u8>)> = {
            let mut find = self.batch.prepare_cached(sql)?;
            let row =
                |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?));
            find.query_map([login], row)?.collect::<rusqlite::Result<_>>()?
        };
        for (place, key, body) in waiting {
            let Some(table) = Table::named(&place).filter(|table| table.is_of_user) else {
                continue;
            };
            let row = rmp_serde::from_slice(&body).unwrap_or_default();
            let change = Change { place, key, version: BEFORE, row };
            self.apply(table, &change)?;
            let sql = "UPDATE shared_row SET body = NULL WHERE place = ?1 AND key = ?2";
            self.batch.execute(sql, [table.name, &change.key])?;
        }
        Ok(())
    }

    /// Ends the sessions of a user whose rights or authentication changed, and notes it.
    fn note(
        &self,
        table: &Table,
        key: &str,
        before: Option<&Cells>,
        after: Option<&Cells>,
    ) -> rusqlite::Result<()> {
        let differs = |column: &str| {
            let of = |row: Option<&Cells>| {
                row.and_then(|cells| cells.iter().find(|(name, _)| name == column)).cloned()
            };
            of(before) != of(after)
        };
        let is_noted = match table.name {
            "user" => {
                let rights = ["role", "hash", "folders", "addresses"].iter().any(|c| differs(c));
                if rights {
                    session::end_all(self.batch, key)?;
                }
                true
            }
            "totp" => {
                let is_another = differs("secret") || differs("enabled");
                if is_another {
                    session::end_all(self.batch, key)?;
                }
                is_another
            }
            "token" | "app_password" | "sender" => true,
            _ => false,
        };
        if !is_noted {
            return Ok(());
        }
        let action = match (before, after) {
            (None, _) => "added at another node",
            (_, None) => "removed at another node",
            _ => "changed at another node",
        };
        let item = format!("{} {}", table.name.replace('_', " "), key.replace('\n', " "));
        audit(self.batch, self.now_ms, &format!("node {}", self.node), action, &item, "")
    }
}

/// Marks the first administrator of a node as one that is not shared until somebody signed in.
pub(super) fn leave_unshared(batch: &Transaction<'_>, login: &str) -> rusqlite::Result<()> {
    batch.execute(
        "INSERT INTO shared_row (place, key, version, node, change) \
         VALUES ('user', lower(?1), ?2, 0, NULL) ON CONFLICT DO UPDATE SET version = ?2, change = NULL",
        params![login, UNTOUCHED],
    )
    .map(drop)
}

/// Forgets what was removed so long ago that no batch is left of it.
fn forget_removed(batch: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<usize> {
    batch.execute(
        "DELETE FROM shared_row WHERE place = 'used_link' AND change IS NULL AND version < ?1",
        [now_ms - REMOVED_MS],
    )
}

#[cfg(test)]
mod tests;
