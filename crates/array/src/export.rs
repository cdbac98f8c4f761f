//! Days of the shared log as Apache Parquet files, for programs that count over months: DuckDB,
//! ClickHouse, Spark.
//!
//! A day becomes `messages/day=2026-11-26/part-00000.parquet` and so on, in the layout that these
//! programs take as a table partitioned by `day`. A row is a message, as it was last shipped;
//! docs/array-export.md has the columns. Rows are in the order of reception, so that a reader can
//! leave out what is not in its time. Made again, a day replaces what it had.

mod columns;
mod rows;
mod schema;

use std::collections::BTreeMap;

use gauntlet_mail::date::day_name;
use gauntlet_store::log::LoggedMessage;

use crate::database::Session;
use crate::error::ArrayError;
use crate::objects::Objects;
use crate::pack::Unpacked;
use columns::FileWriter;

/// Packs read at once: up to 4,096 messages, which are in memory unpacked.
const CHUNK: usize = 16;
/// Files of a day that an earlier export may have left.
const FILES_MAX: u32 = 100_000;
/// Doing what, for errors.
const DOING: &str = "exporting the array's log";

/// How files are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportOptions {
    /// Most messages in a file, which is in memory until it is whole: some 100 bytes for each.
    pub rows_per_file: usize,
    /// Most messages in a row group, which is in memory uncompressed.
    pub rows_per_group: usize,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions { rows_per_file: 1_000_000, rows_per_group: 32_768 }
    }
}

/// What an export wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Exported {
    /// Messages.
    pub messages: u64,
    /// Files.
    pub files: u32,
    /// Bytes of the files.
    pub bytes: u64,
}

/// Where a pack is, by its first message.
#[derive(Debug, Clone, Copy)]
struct Place {
    first: i64,
    number: i64,
    node: i16,
}

/// The days that the log has, oldest first, as days since 1970.
///
/// # Errors
/// If the database cannot be asked.
pub async fn days(session: &Session) -> Result<Vec<i64>, ArrayError> {
    let mut days = crate::log::days(session).await?;
    days.sort_unstable();
    Ok(days)
}

/// Writes a day (since 1970) into the store. `told` is called now and then with the messages so
/// far. A day without messages becomes no file.
///
/// # Errors
/// If the database or the object store fails, or a pack is damaged. What the day had before may be
/// replaced in part by then: export it again.
pub async fn export_day(
    session: &Session,
    objects: &Objects,
    day: i64,
    options: ExportOptions,
    mut told: impl FnMut(u64),
) -> Result<Exported, ArrayError> {
    let names = crate::log::node_names(session).await?;
    let places = places(session, day).await?;
    let mut files = Files { objects, day, options, open: None, done: Exported::default() };
    // A message that changed is in several packs; the one with the greatest number is the newest.
    let mut pending: BTreeMap<(i64, i16), (i64, LoggedMessage)> = BTreeMap::new();
    for (at, chunk) in places.chunks(CHUNK).enumerate() {
        read(session, day, chunk, &mut pending).await?;
        // Packs that come later have nothing from before their first message.
        let next = places.get((at + 1) * CHUNK).map_or(i64::MAX, |place| place.first);
        let later = pending.split_off(&(next, i16::MIN));
        for ((_, node), (_, message)) in std::mem::replace(&mut pending, later) {
            let name = names.get(&node).map_or("", String::as_str);
            files.push(&message, name).await?;
        }
        told(files.done.messages);
    }
    files.finish().await
}

async fn places(session: &Session, day: i64) -> Result<Vec<Place>, ArrayError> {
    let Ok(day) = i32::try_from(day) else { return Ok(Vec::new()) };
    let sql = "SELECT first, number, node FROM log_pack WHERE day = $1 ORDER BY first, number";
    let found = session.rows(DOING, sql, &[&day]).await?;
    let place = |row: &tokio_postgres::Row| Place {
        first: row.get(0),
        number: row.get(1),
        node: row.get(2),
    };
    Ok(found.iter().map(place).collect())
}

async fn read(
    session: &Session,
    day: i64,
    places: &[Place],
    pending: &mut BTreeMap<(i64, i16), (i64, LoggedMessage)>,
) -> Result<(), ArrayError> {
    let sql = "SELECT p.number, p.node, p.body \
               FROM unnest($2::smallint[], $3::bigint[]) AS wanted (node, number) \
               JOIN log_pack p ON p.day = $1 AND p.node = wanted.node AND p.number = wanted.number";
    let nodes: Vec<i16> = places.iter().map(|place| place.node).collect();
    let numbers: Vec<i64> = places.iter().map(|place| place.number).collect();
    let day = i32::try_from(day).unwrap_or(i32::MAX);
    for row in session.rows(DOING, sql, &[&day, &nodes, &numbers]).await? {
        let (number, node, body): (i64, i16, &[u8]) = (row.get(0), row.get(1), row.get(2));
        let mut unpacked = Unpacked::new(body)?;
        for at in 0.. {
            let Some(cursor) = unpacked.cursor(at) else { break };
            let known = pending.get(&(cursor, node));
            if known.is_none_or(|(newest, _)| *newest < number) {
                pending.insert((cursor, node), (number, unpacked.message(at)?));
            }
        }
    }
    Ok(())
}

/// The files of a day.
struct Files<'e> {
    objects: &'e Objects,
    day: i64,
    options: ExportOptions,
    open: Option<FileWriter>,
    done: Exported,
}

impl Files<'_> {
    async fn push(&mut self, message: &LoggedMessage, node: &str) -> Result<(), ArrayError> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => FileWriter::new(self.options.rows_per_group)?,
        };
        file.push(|cells| rows::push(cells, message, node))?;
        self.done.messages += 1;
        if file.rows() < self.options.rows_per_file {
            self.open = Some(file);
            return Ok(());
        }
        self.store(file).await
    }

    async fn store(&mut self, file: FileWriter) -> Result<(), ArrayError> {
        let bytes = file.finish()?;
        self.done.bytes += bytes.len() as u64;
        self.objects.put(&name(self.day, self.done.files), bytes.into()).await?;
        self.done.files += 1;
        Ok(())
    }

    async fn finish(mut self) -> Result<Exported, ArrayError> {
        if let Some(file) = self.open.take() {
            self.store(file).await?;
        }
        // An earlier export may have made more files.
        for more in self.done.files..FILES_MAX {
            let name = name(self.day, more);
            if self.objects.get(&name, 0, 1).await?.is_none() {
                break;
            }
            self.objects.delete(&name).await?;
        }
        Ok(self.done)
    }
}

fn name(day: i64, file: u32) -> String {
    format!("messages/day={}/part-{file:05}.parquet", day_name(day))
}
