//! Reading one message of the log by its id.

use gauntlet_mail::{Envelope, Facts};
use gauntlet_verdict::Disposition;
use rusqlite::{Connection, OptionalExtension, params};

use super::query::{Cursor, LoggedMessage};
use super::seq::ms_of;
use super::{Log, addresses, day_path, dictionary, pack};
use crate::error::StoreError;
use crate::record::{Delivery, Event, LogRecord, Outcome};

/// Most events read for one message.
const EVENTS_MAX: usize = 1000;

impl Log {
    /// The message with this id; none if there is none, or its day was deleted.
    ///
    /// # Errors
    /// If a file cannot be read, or the record is damaged.
    pub fn get(&self, id: &str) -> Result<Option<LoggedMessage>, StoreError> {
        for day in self.days() {
            let Some(Some(found)) = self.read_day(day, |c| get_from_day(c, id))? else { continue };
            let StoredRow { cursor, mut record, packed, pack, dictionary, recipients, events } =
                found;
            let damaged = |cause| StoreError::Damaged {
                path: day_path(&self.folder, day),
                what: format!("record of {id}"),
                cause,
            };
            let rest = match &pack {
                Some(pack) => pack::unpack_from(pack, &packed, dictionary.as_deref()),
                None => pack::unpack(&packed, dictionary.as_deref()),
            };
            let rest = rest.map_err(|error| damaged(error.to_string()))?;
            let pack::Rest { envelope, facts, verdict, stages, dispositions, deliveries } = rest;
            let mut last = addresses::latest_deliveries(deliveries, record.received_ms);
            for later in std::mem::take(&mut record.deliveries) {
                last.insert(later.address.clone(), later);
            }
            record.deliveries = last.into_values().collect();
            record.dispositions = all_dispositions(recipients, &dispositions).map_err(damaged)?;
            record.envelope = envelope;
            record.facts = facts;
            record.verdict = verdict;
            record.stages = stages;
            return Ok(Some(LoggedMessage { cursor, record, events }));
        }
        Ok(None)
    }
}

/// The rows of one message in a day's file.
struct StoredRow {
    cursor: Cursor,
    record: LogRecord,
    packed: Vec<u8>,
    /// The pack of the record, if it is packed together with others.
    pack: Option<Vec<u8>>,
    /// The dictionary of the record or pack.
    dictionary: Option<Vec<u8>>,
    /// Recipients in order, with their dispositions as JSON; empty where the record has them.
    recipients: Vec<(String, String)>,
    events: Vec<Event>,
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

fn get_from_day(connection: &Connection, id: &str) -> rusqlite::Result<Option<StoredRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, size, sender, subject, message_id, latency_ms, rest, people FROM message \
         WHERE id = ?1",
    )?;
    let found = statement.query_row([id], |row| {
        let seq: i64 = row.get(0)?;
        let record = LogRecord {
            id: id.to_owned(),
            received_ms: ms_of(seq),
            envelope: Envelope::default(),
            size: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            from: row.get(2)?,
            subject: row.get(3)?,
            message_id: row.get(4)?,
            facts: Facts::default(),
            latency_ms: row.get(5)?,
            ..LogRecord::default()
        };
        let first = addresses::unpack(row.get_ref(7)?.as_blob()?);
        let first = first.into_iter().filter(|p| !p.action.is_empty());
        let first: Vec<String> = first.map(|p| p.address.into_owned()).collect();
        Ok((Cursor(seq), record, row.get(6)?, first))
    });
    let found: Option<(Cursor, LogRecord, Vec<u8>, Vec<String>)> = found.optional()?;
    let Some((cursor, mut record, packed, first)) = found else { return Ok(None) };
    let pack = match pack::pack_of(&packed) {
        Some(number) => Some(
            connection
                .prepare_cached("SELECT records FROM pack WHERE number = ?1")?
                .query_row([number], |row| row.get::<_, Vec<u8>>(0))
                .optional()?
                // An empty pack gives an error of damage that names the message.
                .unwrap_or_default(),
        ),
        None => None,
    };
    let dictionary = match pack::dictionary_of(pack.as_ref().unwrap_or(&packed)) {
        Some(number) => dictionary::load(connection, Some(number))?,
        None => None,
    };
    let mut recipients = recipients(connection, cursor)?;
    recipients.splice(..0, first.into_iter().map(|address| (address, String::new())));
    record.deliveries = deliveries(connection, cursor)?;
    let events = events(connection, cursor, &record)?;
    Ok(Some(StoredRow { cursor, record, packed, pack, dictionary, recipients, events }))
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
