//! Reading one message of the log by its id.

use std::path::Path;

use gauntlet_verdict::Disposition;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::pack::{UnpackError, Unpacked};
use super::query::{Cursor, LoggedMessage};
use super::seq::ms_of;
use super::{Log, addresses, day_path, dictionary, pack};
use crate::error::StoreError;
use crate::record::{Delivery, Event, LogRecord, Outcome};

/// Most events read for one message.
const EVENTS_MAX: usize = 1000;

/// The columns that [`StoredRow`] reads.
macro_rules! columns {
    () => {
        "SELECT seq, size, sender, subject, message_id, latency_ms, rest, people, id \
         FROM message WHERE "
    };
}

impl Log {
    /// The message with this id; none if there is none, or its day was deleted.
    ///
    /// # Errors
    /// If a file cannot be read, or the record is damaged.
    pub fn get(&self, id: &str) -> Result<Option<LoggedMessage>, StoreError> {
        for day in self.days() {
            let read = |c: &Connection| {
                let Some(row) = StoredRow::by_id(c, id)? else { return Ok(None) };
                let pack = pack::pack_of(&row.packed).map(|number| Pack::read(c, number));
                row.complete(c, pack.transpose()?.as_ref()).map(Some)
            };
            if let Some(Some(found)) = self.read_day(day, read)? {
                let damaged = |cause| damage(&self.folder, day, id, cause);
                return found.map(Some).map_err(damaged);
            }
        }
        Ok(None)
    }

    /// The messages of a day with these ascending keys. A damaged record is left out and told.
    ///
    /// # Errors
    /// If the day's file cannot be read.
    pub(super) fn read_many(
        &self,
        day: i64,
        seqs: &[i64],
    ) -> Result<Vec<LoggedMessage>, StoreError> {
        let read = |c: &Connection| {
            let mut found = Vec::with_capacity(seqs.len());
            // Neighbours are in the same pack.
            let mut last: Option<(i64, Pack)> = None;
            for &seq in seqs {
                let Some(row) = StoredRow::by_seq(c, seq)? else { continue };
                let number = pack::pack_of(&row.packed);
                if let Some(number) = number.filter(|n| last.as_ref().is_none_or(|l| l.0 != *n)) {
                    last = Some((number, Pack::read(c, number)?));
                }
                let pack = last.as_ref().filter(|l| Some(l.0) == number).map(|l| &l.1);
                let id = row.record.id.clone();
                match row.complete(c, pack)? {
                    Ok(message) => found.push(message),
                    Err(cause) => {
                        let error = damage(&self.folder, day, &id, cause);
                        tracing::error!(%error, "a record of the message log is left out");
                    }
                }
            }
            Ok(found)
        };
        Ok(self.read_day(day, read)?.unwrap_or_default())
    }
}

fn damage(folder: &Path, day: i64, id: &str, cause: String) -> StoreError {
    StoreError::Damaged { path: day_path(folder, day), what: format!("record of {id}"), cause }
}

/// A pack, decompressed; or why it cannot be.
struct Pack(Result<Unpacked, UnpackError>);

impl Pack {
    fn read(connection: &Connection, number: i64) -> rusqlite::Result<Self> {
        let packed: Option<Vec<u8>> = connection
            .prepare_cached("SELECT records FROM pack WHERE number = ?1")?
            .query_row([number], |row| row.get(0))
            .optional()?;
        // An empty pack gives an error of damage that names the message.
        let packed = packed.unwrap_or_default();
        let dictionary = dictionary_of(connection, &packed)?;
        Ok(Pack(Unpacked::new(&packed, dictionary.as_deref())))
    }
}

/// The dictionary that this was compressed with.
fn dictionary_of(connection: &Connection, packed: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
    match pack::dictionary_of(packed) {
        Some(number) => dictionary::load(connection, Some(number)),
        None => Ok(None),
    }
}

/// The own row of one message in a day's file.
struct StoredRow {
    cursor: Cursor,
    record: LogRecord,
    /// The rest of the record, or its position in a pack.
    packed: Vec<u8>,
    /// The recipients that it was logged with.
    first: Vec<String>,
}

impl StoredRow {
    fn by_id(connection: &Connection, id: &str) -> rusqlite::Result<Option<Self>> {
        let sql = concat!(columns!(), "id = ?1");
        connection.prepare_cached(sql)?.query_row([id], Self::from_row).optional()
    }

    fn by_seq(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Self>> {
        let sql = concat!(columns!(), "seq = ?1");
        connection.prepare_cached(sql)?.query_row([seq], Self::from_row).optional()
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let seq: i64 = row.get(0)?;
        let record = LogRecord {
            id: row.get(8)?,
            received_ms: ms_of(seq),
            size: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            from: row.get(2)?,
            subject: row.get(3)?,
            message_id: row.get(4)?,
            latency_ms: row.get(5)?,
            ..LogRecord::default()
        };
        let first = addresses::unpack(row.get_ref(7)?.as_blob()?);
        let first = first.into_iter().filter(|p| !p.action.is_empty());
        let first = first.map(|p| p.address.into_owned()).collect();
        Ok(StoredRow { cursor: Cursor(seq), record, packed: row.get(6)?, first })
    }

    /// The whole message, or what is damaged.
    fn complete(
        self,
        connection: &Connection,
        pack: Option<&Pack>,
    ) -> rusqlite::Result<Result<LoggedMessage, String>> {
        let StoredRow { cursor, mut record, packed, first } = self;
        let rest = match pack {
            Some(Pack(Ok(pack))) => pack.record(&packed).map_err(|e| e.to_string()),
            Some(Pack(Err(error))) => Err(error.to_string()),
            None => {
                let dictionary = dictionary_of(connection, &packed)?;
                pack::unpack(&packed, dictionary.as_deref()).map_err(|e| e.to_string())
            }
        };
        let rest = match rest {
            Ok(rest) => rest,
            Err(cause) => return Ok(Err(cause)),
        };
        let pack::Rest { envelope, facts, verdict, stages, dispositions, deliveries } = rest;
        let mut last = addresses::latest_deliveries(deliveries, record.received_ms);
        for later in self::deliveries(connection, cursor)? {
            last.insert(later.address.clone(), later);
        }
        let mut recipients = recipients(connection, cursor)?;
        recipients.splice(..0, first.into_iter().map(|address| (address, String::new())));
        record.dispositions = match all_dispositions(recipients, &dispositions) {
            Ok(dispositions) => dispositions,
            Err(cause) => return Ok(Err(cause)),
        };
        record.deliveries = last.into_values().collect();
        (record.envelope, record.facts, record.verdict) = (envelope, facts, verdict);
        record.stages = stages;
        let events = events(connection, cursor, &record)?;
        Ok(Ok(LoggedMessage { cursor, record, events, node: String::new() }))
    }
}

/// The disposition of each recipient, from its own row or from the record.
fn all_dispositions(
    recipients: Vec<(String, String)>,
    packed: &[Disposition],
) -> Result<Vec<Disposition>, String> {
    let one = |(recipient, rest): (String, String)| {
        if !rest.is_empty() {
            return serde_json::from_str(&rest).map_err(|e| e.to_string());
        }
        let found = packed.iter().find(|d| d.recipient == recipient);
        found.cloned().ok_or_else(|| format!("the disposition of {recipient} is missing"))
    };
    recipients.into_iter().map(one).collect()
}

fn recipients(connection: &Connection, cursor: Cursor) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached(
        "SELECT recipient, rest FROM recipient WHERE seq = ?1 ORDER BY place, recipient",
    )?;
    let rows = statement.query_map([cursor.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn deliveries(connection: &Connection, cursor: Cursor) -> rusqlite::Result<Vec<Delivery>> {
    let mut statement = connection.prepare_cached(
        "SELECT address, outcome, at_ms, attempts, next_hop, reply FROM delivery WHERE seq = ?1 \
         ORDER BY address",
    )?;
    let rows = statement.query_map([cursor.0], |row| {
        Ok(Delivery {
            address: row.get(0)?,
            outcome: Outcome::parse(row.get_ref(1)?.as_str()?),
            at_ms: row.get(2)?,
            attempts: row.get(3)?,
            next_hop: row.get(4)?,
            reply: row.get(5)?,
        })
    })?;
    rows.collect()
}

fn events(
    connection: &Connection,
    cursor: Cursor,
    record: &LogRecord,
) -> rusqlite::Result<Vec<Event>> {
    let mut statement = connection.prepare_cached(
        "SELECT at_ms, kind, recipient, detail FROM event WHERE seq = ?1 ORDER BY at_ms LIMIT ?2",
    )?;
    let rows = statement.query_map(params![cursor.0, EVENTS_MAX as i64], |row| {
        Ok(Event {
            id: record.id.clone(),
            received_ms: record.received_ms,
            at_ms: row.get(0)?,
            kind: row.get(1)?,
            recipient: row.get(2)?,
            detail: row.get(3)?,
        })
    })?;
    rows.collect()
}
