//! What the database of an array has not got yet of this log.
//!
//! While a node belongs to an array, every change of a message (its record, a later recipient, a
//! delivery, an event) leaves a row in `unshipped`, in the transaction that makes the change: so
//! what is durable here is never forgotten there, whatever is killed. A shipper reads the changes
//! in order, sends the messages as they are by then, and forgets the changes up to the last one it
//! read; a message that changed meanwhile has a later row, and is sent again. Sending twice is
//! harmless: a reader takes the newest version.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::schema::MIGRATIONS;
use crate::database;

/// Triggers that note changes; temporary, so that a program that feeds no array notes none.
const TRIGGERS: &str = "
CREATE TEMP TRIGGER IF NOT EXISTS feed_message AFTER INSERT ON main.message BEGIN
    INSERT INTO unshipped (seq) VALUES (new.seq);
END;
CREATE TEMP TRIGGER IF NOT EXISTS feed_recipient AFTER INSERT ON main.recipient BEGIN
    INSERT INTO unshipped (seq) VALUES (new.seq);
END;
CREATE TEMP TRIGGER IF NOT EXISTS feed_delivery AFTER INSERT ON main.delivery BEGIN
    INSERT INTO unshipped (seq) VALUES (new.seq);
END;
CREATE TEMP TRIGGER IF NOT EXISTS feed_delivery_again AFTER UPDATE ON main.delivery BEGIN
    INSERT INTO unshipped (seq) VALUES (new.seq);
END;
CREATE TEMP TRIGGER IF NOT EXISTS feed_event AFTER INSERT ON main.event BEGIN
    INSERT INTO unshipped (seq) VALUES (new.seq);
END;
";

/// Makes a day that is opened for writing note its changes, or forget that it ever did.
pub(super) fn prepare(connection: &Connection, feeds: bool) -> rusqlite::Result<()> {
    if feeds {
        return connection.execute_batch(TRIGGERS);
    }
    // Changes that are made now would be missing: the next feed begins with the whole day.
    let began = connection.query_row("SELECT 1 FROM feed", [], |_| Ok(())).optional()?;
    match began {
        Some(()) => connection.execute_batch("DELETE FROM unshipped; DELETE FROM feed;"),
        None => Ok(()),
    }
}

/// Notes all messages of a day whose changes were not noted so far. Returns how many changes wait.
pub(super) fn begin(connection: &mut Connection) -> rusqlite::Result<u64> {
    let step = connection.transaction()?;
    let began = step.query_row("SELECT 1 FROM feed", [], |_| Ok(())).optional()?;
    if began.is_none() {
        step.execute_batch(
            "DELETE FROM unshipped; \
             INSERT INTO unshipped (seq) SELECT seq FROM message ORDER BY seq; \
             INSERT INTO feed VALUES (1);",
        )?;
    }
    let waiting: i64 = step.query_row(
        "SELECT coalesce(max(change) - min(change) + 1, 0) FROM unshipped",
        [],
        |row| row.get(0),
    )?;
    step.commit()?;
    Ok(waiting.cast_unsigned())
}

/// Forgets the changes up to this one.
pub(super) fn forget(connection: &Connection, change: i64) -> rusqlite::Result<u64> {
    let forgotten =
        connection.prepare_cached("DELETE FROM unshipped WHERE change <= ?1")?.execute([change])?;
    Ok(forgotten as u64)
}

/// Whether the array lacks something of this day. A day that cannot be read waits for nothing.
pub(super) fn waits(path: &Path) -> bool {
    let asked = database::open_read(path, MIGRATIONS).ok().and_then(|connection| {
        let sql = "SELECT EXISTS (SELECT 1 FROM unshipped) OR NOT EXISTS (SELECT 1 FROM feed) \
                   AND EXISTS (SELECT 1 FROM message)";
        connection.query_row(sql, [], |row| row.get(0)).ok()
    });
    asked.unwrap_or(false)
}
