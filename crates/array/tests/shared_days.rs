//! Searches over many days of the shared log.

use std::sync::Arc;

use gauntlet_array::nodes::{self, Identity};
use gauntlet_array::pack::{self, Effort, Layout};
use gauntlet_array::{Session, SharedLog, schema, shipping};
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::{Cursor, LoggedMessage, MessageLog, Query};

use crate::logs::{DAY, database, record};
use crate::postgres::Server;
use crate::relay::Relay;
use crate::shared_log::{all, ask};

const DAYS: i64 = 300;

/// A log of 300 days, the oldest first, but for each tenth, with two messages a day: one with
/// the words "daily" and "single" and its number, the other with "daily" and "changed".
async fn fill(session: &Session) {
    let identity = Identity::make().unwrap();
    let own = Identity { identity, name: "one".to_owned(), group: String::new() };
    let node = nodes::register(session, &own).await.unwrap();
    for nth in (0..DAYS).filter(|nth| nth % 10 != 5) {
        let message = |second: i64, subject: String| {
            let at_ms = DAY + nth * DAY_MS + second * 1000;
            let mut record = record("one", 2 * nth + second, at_ms);
            record.subject = subject;
            let cursor = Cursor(at_ms * 4096);
            LoggedMessage { cursor, record, events: Vec::new(), node: String::new() }
        };
        let messages =
            [message(0, format!("daily single nr{nth}")), message(1, "daily changed".to_owned())];
        let layout = if nth % 2 == 0 { Layout::Records } else { Layout::Columns };
        let packs = pack::pack(&messages, layout, Effort::Fast).unwrap();
        let day = (DAY + nth * DAY_MS) / DAY_MS;
        shipping::ship_day(session, node, day, &packs, &[]).await.unwrap();
    }
}

/// A plan for all days and terms alike goes through the packs of each day; the server would make
/// one after five questions of a kind.
#[tokio::test]
async fn each_question_is_planned_by_its_own_days_and_terms() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let row = session.row("asking for a setting", "SHOW plan_cache_mode", &[]).await.unwrap();
    assert_eq!(row.unwrap().get::<_, String>(0), "force_custom_plan");
}

/// What is rare, or not there at all, is found in any day, and days are not asked one at a time:
/// each exchange with the server takes longer than its index.
#[tokio::test(flavor = "multi_thread")]
async fn many_days_are_asked_at_once() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    fill(&session).await;
    let relay = Arc::new(Relay::to(server.port));
    let uri = server.uri().replace(&format!(":{}/", server.port), &format!(":{}/", relay.port));
    let shared = Arc::new(SharedLog::new(database(&uri), tokio::runtime::Handle::current()));
    let of = |subject: &str| Query { subject: subject.to_owned(), ..Query::default() };
    // Opens the connection.
    ask(&shared, move |log| log.search(&Query::default()).unwrap()).await;

    for (subject, found) in [("nowhere", 0), ("nr0", 1), ("nr123", 1), ("nr299", 1), ("nr125", 0)] {
        let (query, before) = (of(subject), relay.pieces());
        let page = ask(&shared, move |log| log.search(&query).unwrap()).await;
        let exchanges = relay.pieces() - before;
        assert_eq!((page.messages.len(), page.next), (found, None), "{subject}");
        // Days and nodes; the newest packs of three days; 1, 2, 4 to 64 days, and three times 64;
        // the pack and whether it is the newest.
        assert!(exchanges <= 18, "{subject}: {exchanges} exchanges");
    }
    for (subject, found) in [("single", 270), ("daily", 540), ("daily changed", 270)] {
        let query = Query { limit: 50, ..of(subject) };
        let messages = ask(&shared, move |log| all(log, query)).await;
        assert_eq!(messages.len(), found, "{subject}");
        assert!(messages.is_sorted_by_key(|m| std::cmp::Reverse(m.cursor)), "{subject}");
    }
    // A range asks its days alone.
    let range = Query {
        since_ms: Some(DAY + 100 * DAY_MS),
        until_ms: Some(DAY + 120 * DAY_MS),
        ..of("changed")
    };
    assert_eq!(ask(&shared, move |log| all(log, range)).await.len(), 18);

    for (id, is_there) in [("one-0", true), ("one-598", true), ("one-250", false), ("one-1", true)]
    {
        let before = relay.pieces();
        let found = ask(&shared, move |log| log.get(id).unwrap()).await;
        assert_eq!(found.map(|m| m.record.id).as_deref(), is_there.then_some(id));
        assert!(relay.pieces() - before <= 7, "{id}: {} exchanges", relay.pieces() - before);
    }
}
