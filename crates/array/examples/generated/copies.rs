//! Days of a shared log that are copied from others, so that a hundred million messages are there
//! within minutes and not hours: the same messages with other times.

use std::error::Error;

use gauntlet_array::{Session, pack};
use gauntlet_mail::date::day_name;

const DAY_MS: i64 = 86_400_000;
/// Cursors of a millisecond (`store::log`).
const CURSORS_PER_MS: i64 = 4096;
/// Packs read and written at once.
const CHUNK: i64 = 64;

/// Leaves out the index of terms until the copies are there: made at once, a day takes seconds.
pub(crate) async fn drop_index(session: &Session) -> Result<(), Box<dyn Error>> {
    Ok(session.client().batch_execute("DROP INDEX IF EXISTS log_pack_terms").await?)
}

/// Makes the index of the whole table of those of its days.
pub(crate) async fn make_index(session: &Session) -> Result<(), Box<dyn Error>> {
    let sql =
        "SET statement_timeout = 0; CREATE INDEX log_pack_terms ON log_pack USING gin (terms)";
    Ok(session.client().batch_execute(sql).await?)
}

/// Whether a day was copied to its end; what there is of one that was not is removed.
pub(crate) async fn is_there(
    session: &Session,
    from: i64,
    to: i64,
) -> Result<bool, Box<dyn Error>> {
    let client = session.client();
    let (old, new) = (i32::try_from(from)?, i32::try_from(to)?);
    // Counts are written last.
    let counted = "SELECT EXISTS (SELECT FROM log_count WHERE minute >= $1 AND minute < $2)";
    let minutes = |day: i32| day * 1_440;
    let row = client.query_one(counted, &[&minutes(new), &minutes(new + 1)]).await?;
    if row.get(0) || old == new {
        return Ok(true);
    }
    let table = format!("DROP TABLE IF EXISTS log_pack_{}", day_name(to).replace('-', "_"));
    client.batch_execute(&table).await?;
    Ok(false)
}

/// Makes the index of one day, if it has none.
pub(crate) async fn index_day(session: &Session, day: i64) -> Result<(), Box<dyn Error>> {
    let name = day_name(day).replace('-', "_");
    let indexed = "SELECT EXISTS (SELECT FROM pg_indexes WHERE tablename = $1 \
                   AND indexdef LIKE '%gin%')";
    if session.client().query_one(indexed, &[&format!("log_pack_{name}")]).await?.get(0) {
        return Ok(());
    }
    // It may take longer than a statement of a node may.
    let sql = format!(
        "SET statement_timeout = 0; SET maintenance_work_mem = '1GB'; \
         CREATE INDEX ON log_pack_{name} USING gin (terms)"
    );
    Ok(session.client().batch_execute(&sql).await?)
}

/// Copies a day; the table of the new one is there.
pub(crate) async fn copy_day(session: &Session, from: i64, to: i64) -> Result<(), Box<dyn Error>> {
    let client = session.client();
    let shift_ms = (to - from) * DAY_MS;
    let (old, new) = (i32::try_from(from)?, i32::try_from(to)?);
    let mut after = i64::MIN;
    loop {
        let read = "SELECT number, body FROM log_pack WHERE day = $1 AND number > $2 \
                    ORDER BY number LIMIT $3";
        let rows = client.query(read, &[&old, &after, &CHUNK]).await?;
        let Some(last) = rows.last() else { break };
        after = last.get(0);
        let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let bodies = rows.iter().map(|row| moved(row.get(1), shift_ms));
        let bodies = bodies.collect::<Option<Vec<Vec<u8>>>>().ok_or("a pack is damaged")?;
        let write = "INSERT INTO log_pack (day, node, first, last, messages, terms, body) \
                     SELECT $1, s.node, s.first + $3, s.last + $3, s.messages, s.terms, c.body \
                     FROM unnest($4::bigint[], $5::bytea[]) AS c (number, body) \
                     JOIN log_pack s ON s.day = $2 AND s.number = c.number ORDER BY c.number";
        let shift = shift_ms * CURSORS_PER_MS;
        client.execute(write, &[&new, &old, &shift, &numbers, &bodies]).await?;
    }
    let counts = "INSERT INTO log_count SELECT minute + $3, node, class, action, messages, bytes \
                  FROM log_count WHERE minute >= $1 AND minute < $2";
    let minutes = |day: i64| i32::try_from(day * 1_440);
    let shift = i32::try_from((to - from) * 1_440)?;
    client.execute(counts, &[&minutes(from)?, &minutes(from + 1)?, &shift]).await?;
    Ok(())
}

/// The body of a pack ([`gauntlet_array::pack`]) with other cursors and times of reception, pressed
/// as a node does that is far behind: a tenth more bytes, and hours less for a hundred million.
fn moved(body: &[u8], shift_ms: i64) -> Option<Vec<u8>> {
    /// `received_ms` and the type of what follows, as MessagePack has them.
    const RECEIVED: &[u8] = b"\xabreceived_ms\xcf";
    let (_, frame) = body.split_first()?;
    let length = zstd_safe::get_frame_content_size(frame).ok()??;
    let mut plain = Vec::with_capacity(usize::try_from(length).ok()?);
    zstd_safe::decompress(&mut plain, frame).ok()?;
    let mut at = 0;
    let mut lengths = Vec::new();
    for _ in 0..number(&plain, &mut at)? {
        let cursor: &mut [u8; 8] = plain.get_mut(at..at + 8)?.try_into().ok()?;
        *cursor = (i64::from_le_bytes(*cursor) + shift_ms * CURSORS_PER_MS).to_le_bytes();
        at += 8;
        for _ in 0..number(&plain, &mut at)? {
            number(&plain, &mut at)?;
        }
        lengths.push(number(&plain, &mut at)?);
    }
    let directory = at;
    for length in lengths {
        let record = plain.get_mut(at..at + length)?;
        // It is the second field, after the id.
        let found = record.windows(RECEIVED.len()).position(|bytes| bytes == RECEIVED)?;
        let place = found + RECEIVED.len();
        let time: &mut [u8; 8] = record.get_mut(place..place + 8)?.try_into().ok()?;
        *time = (i64::from_be_bytes(*time) + shift_ms).to_be_bytes();
        at += length;
    }
    let (directory, records) = plain.split_at_checked(directory)?;
    pack::fold(directory, records, pack::Layout::Columns, pack::Effort::Fast).ok()
}

/// A number as LEB128.
fn number(plain: &[u8], at: &mut usize) -> Option<usize> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = *plain.get(*at)?;
        *at += 1;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
