//! What nodes ship is what a manager reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use gauntlet_array::shipping::drop_days;
use gauntlet_array::{Session, SharedLog, schema};
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::{MessageLog, Query, Summary, TopKind};
use gauntlet_store::record::{Event, Outcome};
use gauntlet_verdict::Class;

use crate::logs::{DAY, Node, database, delivered, record};
use crate::postgres::Server;

/// Runs a question to the shared log on a thread that may block.
pub(crate) async fn ask<T: Send + 'static>(
    shared: &Arc<SharedLog>,
    question: impl FnOnce(&SharedLog) -> T + Send + 'static,
) -> T {
    let shared = shared.clone();
    tokio::task::spawn_blocking(move || question(&shared)).await.unwrap()
}

/// All pages of a query.
pub(crate) fn all(log: &dyn MessageLog, mut query: Query) -> Vec<Summary> {
    let mut found = Vec::new();
    loop {
        let page = log.search(&query).unwrap();
        found.extend(page.messages);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return found,
        }
    }
}

/// Two nodes with a few hundred messages on two days, some at the same millisecond.
async fn two_nodes(session: &Session) -> [Node; 2] {
    let nodes = [Node::join("one", session).await, Node::join("two", session).await];
    for (at, node) in nodes.iter().enumerate() {
        let name = node.identity.name.clone();
        let at = at as i64;
        let records = (0..400).map(|n| record(&name, n, DAY + n * 400_000 + at * (n % 2)));
        node.log.append(records.collect()).unwrap();
        node.ship(session).await.unwrap();
    }
    nodes
}

fn queries() -> Vec<Query> {
    let query = |set: fn(&mut Query)| {
        let mut query = Query { limit: 37, ..Query::default() };
        set(&mut query);
        query
    };
    vec![
        query(|_| {}),
        query(|q| q.sender = "bounce4@one.example".to_owned()),
        query(|q| q.sender = "@two.example".to_owned()),
        query(|q| q.recipient = "B9@example.com".to_owned()),
        query(|q| q.domain = "example.com".to_owned()),
        query(|q| q.subject = "größe 12".to_owned()),
        query(|q| q.subject = "rechnung nr 3*".to_owned()),
        query(|q| q.classes = vec![Class::Spam]),
        query(|q| (q.classes, q.action) = (vec![Class::Ham], "quarantine".to_owned())),
        query(|q| q.rule = "RULE_2".to_owned()),
        query(|q| q.id = "two-333".to_owned()),
        query(|q| q.message_id = "<m8@one.example>".to_owned()),
        query(|q| q.score_min = Some(3.0)),
        query(|q| (q.since_ms, q.until_ms) = (Some(DAY + 10 * 400_000), Some(DAY + 90 * 400_000))),
        query(|q| q.sender = "nobody@nowhere.example".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_finds_what_each_node_finds() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let nodes = two_nodes(&session).await;
    let shared = Arc::new(SharedLog::new(database, tokio::runtime::Handle::current()));
    for query in queries() {
        let mut expected = Vec::new();
        for node in &nodes {
            for mut message in all(&*node.log, query.clone()) {
                message.node = node.identity.name.clone();
                expected.push(message);
            }
        }
        expected.sort_by_key(|m| std::cmp::Reverse((m.cursor, m.node.clone())));
        let asked = query.clone();
        let found = ask(&shared, move |log| all(log, asked)).await;
        assert_eq!(found.len(), expected.len(), "{query:?}");
        assert_eq!(found, expected, "{query:?}");
    }
    for (node, id) in [(&nodes[0], "one-7"), (&nodes[1], "two-399")] {
        let found = ask(&shared, move |log| log.get(id)).await.unwrap().unwrap();
        let mut own = node.log.get(id).unwrap().unwrap();
        own.node = node.identity.name.clone();
        assert_eq!(found, own);
    }
    assert_eq!(ask(&shared, |log| log.get("three-1")).await.unwrap(), None);
    assert_eq!(ask(&shared, |log| log.oldest_ms()).await.unwrap(), Some(DAY));
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_the_sums_of_the_nodes() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let nodes = two_nodes(&session).await;
    // Sent again, nothing counts twice.
    let again = record("one", 3, DAY + 3 * 400_000);
    nodes[0].log.append(vec![delivered(again, DAY + 4 * 400_000)]).unwrap();
    for node in &nodes {
        node.ship(&session).await.unwrap();
        for day in node.log.days() {
            let counts = gauntlet_array::log::DayCounts::of(&node.log, day).unwrap();
            counts.ship(&session, node.id, day).await.unwrap();
        }
    }
    let shared = Arc::new(SharedLog::new(database, tokio::runtime::Handle::current()));
    let range = (DAY, DAY + 2 * DAY_MS);
    let buckets = ask(&shared, move |log| log.volume(range.0, range.1, 60)).await.unwrap();
    let own: Vec<_> =
        nodes.iter().map(|node| node.log.volume(range.0, range.1, 60).unwrap()).collect();
    let sum = |of: &[gauntlet_store::log::Bucket]| {
        of.iter().fold((0, 0), |sum, b| (sum.0 + b.messages, sum.1 + b.bytes))
    };
    assert_eq!(sum(&buckets), sum(&own.concat()));
    assert_eq!(sum(&buckets).0, 800);
    let rules = ask(&shared, move |log| log.tops(TopKind::Rule, range.0, range.1)).await.unwrap();
    assert_eq!(rules.values().sum::<u64>(), 800);
    let to = ask(&shared, move |log| log.top_recipients(range.0, range.1)).await.unwrap();
    assert_eq!(to["a7@example.com"], 2);
    let counts = ask(&shared, move |log| log.counts(range.0, range.1, 1440)).await.unwrap();
    assert_eq!(counts.buckets.iter().map(|b| b.messages).sum::<u64>(), 800);
    assert_eq!(counts.top_rules.len(), 3);
    // The first day goes as a table.
    let now = DAY + 3 * DAY_MS;
    assert_eq!(drop_days(&session, now, 2).await.unwrap(), 1);
    let rest = ask(&shared, |log| all(log, Query { limit: 500, ..Query::default() })).await;
    assert!(!rest.is_empty() && rest.iter().all(|m| m.received_ms >= DAY + DAY_MS));
    let left = ask(&shared, move |log| log.volume(range.0, range.1, 1440)).await.unwrap();
    assert_eq!(left.iter().map(|b| b.messages).sum::<u64>(), rest.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_of_a_message_is_shown_once() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let node = Node::join("one", &session).await;
    let records: Vec<_> = (0..300).map(|n| record("one", n, DAY + n)).collect();
    node.log.append(records.clone()).unwrap();
    node.ship(&session).await.unwrap();
    // Hours later some are delivered, and one is released.
    let late: Vec<_> = (0..300).step_by(10).map(|n| records[n].clone()).collect();
    let late = late.into_iter().map(|r| delivered(r, DAY + 9_000_000)).collect();
    node.log.append(late).unwrap();
    let event = Event {
        id: "one-55".to_owned(),
        received_ms: DAY + 55,
        at_ms: DAY + 9_000_000,
        kind: "released".to_owned(),
        recipient: String::new(),
        detail: "by ann".to_owned(),
    };
    node.log.append_events(vec![event]).unwrap();
    assert_eq!(node.ship(&session).await.unwrap(), 31);
    let shared = Arc::new(SharedLog::new(database, tokio::runtime::Handle::current()));
    let found = ask(&shared, |log| all(log, Query { limit: 50, ..Query::default() })).await;
    let ids: BTreeSet<&str> = found.iter().map(|m| m.id.as_str()).collect();
    assert_eq!((found.len(), ids.len()), (300, 300));
    for message in &found {
        let own = node.log.search(&Query { id: message.id.clone(), ..Query::default() }).unwrap();
        assert_eq!(message.recipients, own.messages[0].recipients, "{}", message.id);
    }
    let by = |set: fn(&mut Query)| {
        let mut query = Query::default();
        set(&mut query);
        query
    };
    let released = by(|q| q.event = "released".to_owned());
    let found = ask(&shared, move |log| all(log, released)).await;
    assert_eq!(found.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["one-55"]);
    let sent = by(|q| q.outcome = Outcome::Delivered.name().to_owned());
    assert_eq!(ask(&shared, move |log| all(log, sent)).await.len(), 30);
    let whole = ask(&shared, |log| log.get("one-55")).await.unwrap().unwrap();
    assert_eq!(whole.events[0].detail, "by ann");
}
