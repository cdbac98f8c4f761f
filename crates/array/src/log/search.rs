//! Searching the shared log.
//!
//! Day by day, newest first. The newest packs of all are looked through whatever they hold: a
//! query that matches often has its page then. One that does not asks the index of terms, day by
//! day, which packs can have a match, and looks into those. A message that changed after it was
//! shipped is in several packs; the one with the greatest number is the newest, and is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures_util::future::try_join;
use gauntlet_mail::date::{DAY_MS, day_number};
use gauntlet_store::log::{Cursor, LoggedMessage, Matcher, Page, Query, id_term};
use gauntlet_store::{Clock, reference};
use tokio_postgres::Row;

use super::candidates::{Candidates, DAYS_MAX, DOING};
use super::day::{
    AllFound, CURSORS_PER_MS, Day, Found, Pace, WALKED, WALKED_FIRST, day_start, required,
};
use crate::database::Session;
use crate::error::ArrayError;
use crate::pack::{Unpacked, key};
use crate::value::Value;

/// The newest messages that match.
pub(super) async fn search(session: &Session, query: &Query) -> Result<Page, ArrayError> {
    let started = Instant::now();
    let matcher = Matcher::new(query);
    let (names, mut days) = try_join(node_names(session), days(session)).await?;
    let (since, until) = matcher.range();
    let limit = matcher.limit();
    let (required, mut pace, mut found) = (required(&matcher), Pace::default(), AllFound::new());
    days.retain(|day| day_start(day + 1) > since && day_start(*day) < until);
    let (mut complete_from, mut is_whole) = (until, true);
    let mut candidates = Candidates::new(session, &matcher, &required, &days);
    for (nth, day) in days.into_iter().enumerate() {
        // What did not fill a page from the newest packs of all is not frequent.
        // The newest day may have just begun.
        let walked_first = match nth {
            0 => WALKED_FIRST,
            1 | 2 => WALKED,
            _ => 0,
        };
        let (matcher, required, pace) = (&matcher, &required, &mut pace);
        let candidates = &mut candidates;
        let mut search = Day { session, day, matcher, required, candidates, walked_first, pace };
        // One more than the page, to know whether there is a next.
        let (boundary, in_time) = search.run(&mut found, limit + 1, started).await?;
        complete_from = boundary;
        if !in_time || found.range((boundary, i16::MIN)..).count() > limit {
            is_whole = false;
            break;
        }
    }
    let mut page: Vec<((i64, i16), Found)> = found.into_iter().rev().collect();
    // Beyond this point other packs may have newer ones.
    page.retain(|((cursor, _), _)| *cursor >= complete_from);
    let mut kept = page.len().min(limit);
    // Two nodes may have the same cursor: a page does not end between them.
    while kept > 0 && kept < page.len() && page[kept].0.0 == page[kept - 1].0.0 {
        kept += 1;
    }
    let more = page.len() > kept;
    page.truncate(kept);
    renew(session, &mut page).await?;
    let last = page.last().map(|((cursor, _), _)| Cursor(*cursor));
    let next = match (more, is_whole) {
        (true, _) => last,
        (false, true) => None,
        // Time is up, or the page is just full.
        (false, false) => Some(Cursor(complete_from)),
    };
    let summary = |((_, node), found): &((i64, i16), Found)| {
        let mut summary = matcher.summary(&found.message);
        summary.node = names.get(node).cloned().unwrap_or_default();
        summary
    };
    Ok(Page { messages: page.iter().map(summary).collect(), next })
}

/// The newest version of the message that a reference names; the newest message if several nodes
/// use its id and the reference names none of them.
pub(super) async fn get(
    session: &Session,
    reference: &str,
) -> Result<Option<LoggedMessage>, ArrayError> {
    let (id, node) = reference::split(reference);
    let key = vec![key(&id_term(id))];
    const SQL: &str = "SELECT p.terms, p.body, (SELECT n.name FROM node AS n WHERE n.id = p.node) \
         FROM log_pack AS p WHERE p.day BETWEEN $1 AND $2 AND p.terms @> $3 \
         AND ($4::text IS NULL OR p.node = (SELECT n.id FROM node AS n WHERE n.name = $4)) \
         ORDER BY p.day DESC, p.number DESC LIMIT 16";
    let of_days = |newest: i64, oldest: i64| {
        let [oldest, newest] = [oldest, newest].map(|day| i32::try_from(day).unwrap_or(i32::MAX));
        let key = &key;
        async move { session.rows(DOING, SQL, &[&oldest, &newest, key, &node]).await }
    };
    // Most are of these days, so that there is nothing to wait for but their answer.
    let today = Clock::system().unix_ms().div_euclid(DAY_MS) + 1;
    let (rows, mut days) = try_join(of_days(today, today - DAYS_MAX as i64), days(session)).await?;
    if let Some(message) = of_id(&rows, id, &key)? {
        return Ok(Some(message));
    }
    days.retain(|day| !(today - DAYS_MAX as i64..=today).contains(day));
    for days in days.chunks(DAYS_MAX) {
        let (Some(newest), Some(oldest)) = (days.first(), days.last()) else { continue };
        if let Some(message) = of_id(&of_days(*newest, *oldest).await?, id, &key)? {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// The message of this id in these packs, in their order.
fn of_id(rows: &[Row], id: &str, key: &Vec<i32>) -> Result<Option<LoggedMessage>, ArrayError> {
    for row in rows {
        let (terms, body): (Vec<i32>, &[u8]) = (row.get(0), row.get(1));
        let mut unpacked = Unpacked::new(body)?;
        for place in unpacked.find(&terms, std::slice::from_ref(key)) {
            let mut message = unpacked.message(place)?;
            if message.record.id == id {
                message.node = row.get::<_, Option<String>>(2).unwrap_or_default();
                return Ok(Some(message));
            }
        }
    }
    Ok(None)
}

/// When the oldest message was received.
pub(super) async fn oldest_ms(session: &Session) -> Result<Option<i64>, ArrayError> {
    let days = days(session).await?;
    for day in days.into_iter().rev() {
        let day = i32::try_from(day).unwrap_or(i32::MAX);
        let sql = "SELECT min(first) FROM log_pack WHERE day = $1";
        let row = session.row(DOING, sql, &[&day]).await?;
        if let Some(first) = row.and_then(|row| row.get::<_, Option<i64>>(0)) {
            return Ok(Some(first.div_euclid(CURSORS_PER_MS)));
        }
    }
    Ok(None)
}

/// The days that the log has, newest first.
pub(crate) async fn days(session: &Session) -> Result<Vec<i64>, ArrayError> {
    let sql = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent = 'gauntlet.log_pack'::regclass";
    let rows = session.rows(DOING, sql, &[]).await?;
    let day = |row: &Row| {
        let name: String = row.get(0);
        day_number(&name.strip_prefix("log_pack_")?.replace('_', "-"))
    };
    let mut days: Vec<i64> = rows.iter().filter_map(day).collect();
    days.sort_unstable_by_key(|day| std::cmp::Reverse(*day));
    Ok(days)
}

/// Names of the nodes, by their numbers.
pub(crate) async fn node_names(session: &Session) -> Result<BTreeMap<i16, String>, ArrayError> {
    let doing = "reading the nodes of the array";
    let rows = session.rows(doing, "SELECT id, name FROM node", &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Replaces messages by newer versions of them.
async fn renew(session: &Session, page: &mut [((i64, i16), Found)]) -> Result<(), ArrayError> {
    let mut by_day: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (at, ((cursor, _), _)) in page.iter().enumerate() {
        by_day.entry(cursor.div_euclid(DAY_MS * CURSORS_PER_MS)).or_default().push(at);
    }
    for (day, places) in by_day {
        let day = i32::try_from(day).unwrap_or(i32::MAX);
        let shown = || places.iter().filter_map(|&at| page.get(at));
        let keys: Vec<i32> =
            shown().map(|(_, found)| key(&id_term(&found.message.record.id))).collect();
        let least = shown().map(|(_, found)| found.pack).min().unwrap_or(i64::MAX);
        let known: BTreeSet<i64> = shown().map(|(_, found)| found.pack).collect();
        let known: Vec<i64> = known.into_iter().collect();
        let sql = "SELECT number, node, terms, body FROM log_pack WHERE day = $1 AND \
                   number > $2 AND terms && $3 AND number <> ALL ($4) ORDER BY number LIMIT 256";
        let values: [Value<'_>; 4] = [&day, &least, &keys, &known];
        for row in session.rows(DOING, sql, &values).await? {
            let (number, node): (i64, i16) = (row.get(0), row.get(1));
            let (terms, body): (Vec<i32>, &[u8]) = (row.get(2), row.get(3));
            let mut unpacked = Unpacked::new(body)?;
            for place in unpacked.find(&terms, std::slice::from_ref(&keys)) {
                let Some(cursor) = unpacked.cursor(place) else { continue };
                let shown = page.iter_mut().find(|(key, _)| *key == (cursor, node));
                if let Some((_, found)) = shown
                    && found.pack < number
                {
                    found.message = unpacked.message(place)?;
                    found.pack = number;
                }
            }
        }
    }
    Ok(())
}
