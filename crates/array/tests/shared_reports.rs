//! Reports of the shared log: what is kept is what is there.

use std::sync::Arc;

use gauntlet_array::log::DayCounts;
use gauntlet_array::shipping::drop_days;
use gauntlet_array::{SharedLog, schema};
use gauntlet_mail::date::{DAY_MS, HOUR_MS};
use gauntlet_store::log::{Bucket, MessageLog, TopKind};

use crate::logs::{DAY, Node, database, record};
use crate::postgres::Server;
use crate::shared_log::ask;

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_kept_follow_what_is_shipped() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let nodes = [Node::join("one", &session).await, Node::join("two", &session).await];
    let kept = Arc::new(SharedLog::new(database.clone(), tokio::runtime::Handle::current()));
    let rounds = [(0, 0..50), (1, 50..80), (1, 80..90)];
    for (round, (node, messages)) in rounds.into_iter().enumerate() {
        let node = &nodes[node];
        let name = node.identity.name.clone();
        let records = messages.clone().map(|n| record(&name, n, DAY + n * 3_000_000));
        node.log.append(records.collect()).unwrap();
        for day in node.log.days() {
            DayCounts::of(&node.log, day).unwrap().ship(&session, node.id, day).await.unwrap();
        }
        // Again: from what is kept.
        for _ in 0..2 {
            let range = (DAY, DAY + 4 * DAY_MS);
            let rules = ask(&kept, move |log| log.tops(TopKind::Rule, range.0, range.1));
            let sum = rules.await.unwrap().values().sum::<u64>();
            assert_eq!(sum, messages.end.unsigned_abs(), "round {round}");
            let counts = ask(&kept, move |log| log.counts(range.0, range.1, 60)).await.unwrap();
            assert_eq!(counts.top_rules.iter().map(|top| top.messages).sum::<u64>(), sum);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_that_are_kept_follow_what_is_shipped() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let nodes = [Node::join("one", &session).await, Node::join("two", &session).await];
    let fill = |node: &Node, n: std::ops::Range<i64>| {
        let name = node.identity.name.clone();
        // Each 50 minutes, over more than three days.
        let records = n.map(|n| record(&name, n, DAY + n * 3_000_000)).collect();
        node.log.append(records).unwrap();
    };
    fill(&nodes[0], 0..100);
    fill(&nodes[1], 0..60);
    for node in &nodes {
        node.ship(&session).await.unwrap();
    }
    let kept = Arc::new(SharedLog::new(database.clone(), tokio::runtime::Handle::current()));
    let ranges = [
        (DAY, DAY + 4 * DAY_MS, 1440),
        (DAY, DAY + 4 * DAY_MS, 60),
        (DAY - 5 * DAY_MS, DAY + 9 * DAY_MS, 1440),
        (DAY + HOUR_MS / 2, DAY + 3 * DAY_MS + 90_000, 180),
        (DAY, DAY + 3 * DAY_MS, 7),
        (DAY + 5 * HOUR_MS, DAY + 7 * HOUR_MS, 60),
    ];
    let compare = async |what: &str| {
        for (since, until, span) in ranges {
            let found = ask(&kept, move |log| log.volume(since, until, span)).await.unwrap();
            let own: Vec<Bucket> = nodes
                .iter()
                .flat_map(|node| node.log.volume(since, until, span).unwrap())
                .filter(|bucket| bucket.start_ms >= DAY_MS)
                .collect();
            let sums = |buckets: &[Bucket]| {
                let mut sums = std::collections::BTreeMap::new();
                for b in buckets {
                    let key = (b.start_ms, b.class.name(), b.action.clone());
                    let sum: &mut (u64, u64) = sums.entry(key).or_default();
                    *sum = (sum.0 + b.messages, sum.1 + b.bytes);
                }
                sums
            };
            assert_eq!(sums(&found), sums(&own), "{what}: {since} to {until}, {span}");
            let order = |b: &Bucket| (b.start_ms, b.class.name(), b.action.clone());
            assert!(found.is_sorted_by_key(order) && found.len() == sums(&found).len(), "{what}");
        }
    };
    compare("at first").await;
    compare("again").await;
    // A node that was away ships an old day.
    fill(&nodes[1], 60..90);
    nodes[1].ship(&session).await.unwrap();
    compare("after more").await;
    // What changes without a pack is not seen: they are kept indeed.
    let (since, until, span) = ranges[0];
    let before = ask(&kept, move |log| log.volume(since, until, span)).await.unwrap();
    session.execute("deleting", "DELETE FROM log_count", &[]).await.unwrap();
    let after = ask(&kept, move |log| log.volume(since, until, span)).await.unwrap();
    assert!(!before.is_empty() && before == after);
    assert_eq!(drop_days(&session, DAY + 4 * DAY_MS, 2).await.unwrap(), 2);
    let left = ask(&kept, |log| log.volume(DAY, DAY + 2 * DAY_MS, 60)).await.unwrap();
    assert_eq!(left, []);
}
