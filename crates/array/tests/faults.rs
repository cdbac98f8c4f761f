//! What happens to the database, and to the array's list of nodes.

use std::sync::Arc;

use gauntlet_array::nodes::{self, Identity, NodeState, Status};
use gauntlet_array::{ArrayError, SharedLog, schema};
use gauntlet_store::Query;
use gauntlet_store::log::MessageLog;

use crate::logs::{DAY, Node, database, record};
use crate::postgres::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_killed_loses_and_doubles_nothing() {
    let Some(mut server) = Server::start(&[]) else { return };
    let database = database(&server.uri());
    let mut session = schema::session(&database).await.unwrap();
    let node = Node::join("one", &session).await;
    let mut logged = 0;
    for round in 0..6 {
        let records = (0..500).map(|n| record("one", logged + n, DAY + logged + n));
        node.log.append(records.collect()).unwrap();
        logged += 500;
        // In the middle of it, a little later each time.
        let part = std::time::Duration::from_millis(round * 7);
        let _cut_short = tokio::time::timeout(part, node.ship(&session)).await;
        server.kill();
        let error = node.ship(&session).await.unwrap_err();
        assert!(matches!(error, ArrayError::Unreachable { .. }), "{error}");
        assert!(matches!(schema::session(&database).await, Err(ArrayError::Unreachable { .. })));
        server.restart();
        session = schema::session(&database).await.unwrap();
    }
    node.ship(&session).await.unwrap();
    assert_eq!(node.log.backlog().unwrap().changes, 0);
    let shared = SharedLog::new(database, tokio::runtime::Handle::current());
    let found = tokio::task::spawn_blocking(move || {
        let mut query = Query { limit: 500, ..Query::default() };
        let mut ids = Vec::new();
        loop {
            let page = shared.search(&query).unwrap();
            ids.extend(page.messages.into_iter().map(|m| m.id));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return ids,
            }
        }
    });
    let found = found.await.unwrap();
    let expected: Vec<String> = (0..logged).rev().map(|n| format!("one-{n}")).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_join_leave_and_do_not_share_a_name() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let identity = |name: &str| Identity {
        name: name.to_owned(),
        identity: Identity::make().unwrap(),
        group: "north".to_owned(),
    };
    let (one, other) = (identity("mx1"), identity("mx1"));
    let id = nodes::register(&session, &one).await.unwrap();
    assert_eq!(nodes::register(&session, &one).await.unwrap(), id, "a restart");
    let error = nodes::register(&session, &other).await.unwrap_err();
    assert!(matches!(error, ArrayError::NameTaken { .. }), "{error}");
    let renamed = Identity { name: "mx2".to_owned(), ..other.clone() };
    let second = nodes::register(&session, &renamed).await.unwrap();
    let status = Status { queued: 7, clock_ms: 5, ..Status::default() };
    assert_eq!(nodes::tell(&session, second, &status).await.unwrap(), Some(0));
    let listed = nodes::list(&session).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["mx1", "mx2"]);
    assert_eq!((listed[1].status.queued, &*listed[1].group), (7, "north"));
    assert!(listed[1].clock_ahead_ms < -1_000_000_000_000);
    assert!(nodes::remove(&session, "mx2").await.unwrap());
    assert!(!nodes::remove(&session, "mx2").await.unwrap());
    assert_eq!(nodes::tell(&session, second, &status).await.unwrap(), None);
    let error = nodes::register(&session, &renamed).await.unwrap_err();
    assert!(matches!(error, ArrayError::Removed { .. }), "{error}");
    let listed = nodes::list(&session).await.unwrap();
    assert_eq!(listed.iter().filter(|n| n.state == NodeState::Removed).count(), 1);
    // Its name is free now; it comes back under it.
    assert_eq!(nodes::take_back(&session, &renamed).await.unwrap(), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_once_and_newer_ones_are_refused_if_they_must() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = Arc::new(database(&server.uri()));
    // Twelve programs that start at once.
    let all = (0..12).map(|_| {
        let database = database.clone();
        tokio::spawn(async move { schema::session(&database).await.map(drop) })
    });
    for made in all.collect::<Vec<_>>() {
        made.await.unwrap().unwrap();
    }
    assert_eq!(server.sql("SELECT count(*) FROM gauntlet.version"), "1");
    // A newer program added something: this one goes on.
    server.sql("UPDATE gauntlet.version SET found = found + 1");
    schema::session(&database).await.unwrap();
    // A newer program changed something.
    server.sql("UPDATE gauntlet.version SET needs = found");
    let error = schema::session(&database).await.unwrap_err();
    assert!(matches!(error, ArrayError::Newer { known: schema::KNOWN, .. }), "{error}");
    assert!(error.to_string().contains("upgrade this node"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_may_not_is_told_why() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let error = schema::session(&database(&server.uri_of("nobody"))).await.unwrap_err();
    assert!(matches!(error, ArrayError::Login { .. }), "{error}");
    assert!(error.to_string().contains("pg_hba.conf"), "{error}");
    server.sql("CREATE ROLE reader LOGIN");
    let error = schema::session(&database(&server.uri_of("reader"))).await.unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
}

/// A node that may use the tables, and not change them.
#[tokio::test(flavor = "multi_thread")]
async fn older_tables_that_this_login_may_not_upgrade_are_named() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    server.sql(
        "CREATE ROLE member LOGIN; GRANT USAGE ON SCHEMA gauntlet TO member; \
         GRANT ALL ON ALL TABLES IN SCHEMA gauntlet TO member; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA gauntlet TO member",
    );
    schema::session(&database(&server.uri_of("member"))).await.unwrap();
    server.sql("UPDATE gauntlet.version SET found = found - 1");
    let error = schema::session(&database(&server.uri_of("member"))).await.unwrap_err();
    assert!(matches!(error, ArrayError::Older { known: schema::KNOWN, .. }), "{error}");
    assert!(error.to_string().contains("run `gauntlet array init`"), "{error}");
    // Whoever was there before goes on.
    let node = Node::join("one", &session).await;
    node.log.append(vec![record("one", 1, DAY)]).unwrap();
    assert_eq!(node.ship(&session).await.unwrap(), 1);
}

/// All messages that a search finds.
async fn found(uri: &str, query: Query) -> Vec<String> {
    let shared = SharedLog::new(database(uri), tokio::runtime::Handle::current());
    let page = tokio::task::spawn_blocking(move || shared.search(&query)).await.unwrap().unwrap();
    page.messages.into_iter().map(|message| message.id).collect()
}

/// Tables of every version before, with a log and nodes in them, brought forward by a program that
/// may, while a node that was there before goes on.
#[tokio::test(flavor = "multi_thread")]
async fn older_tables_with_rows_are_brought_forward_and_nothing_is_lost() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    for version in 1..schema::KNOWN {
        server.sql(&format!("CREATE DATABASE v{version}"));
        let uri = server.uri().replace("/postgres?", &format!("/v{version}?"));
        let before = database(&uri).connect().await.unwrap();
        schema::make(&before, version).await.unwrap();
        let schema_of = |session: gauntlet_array::Session| async move {
            let row = session.client().query_one("SELECT found FROM version", &[]).await.unwrap();
            (row.get::<_, i32>(0), session)
        };
        let (made, before) = schema_of(before).await;
        assert_eq!(made, version);
        let node = Node::join("one", &before).await;
        node.log.append((0..400).map(|n| record("one", n, DAY + n)).collect()).unwrap();
        node.ship(&before).await.unwrap();
        // A program of today; then the node that is there all the time, by its old connection.
        let now = schema::session(&database(&uri)).await.unwrap();
        let (made, now) = schema_of(now).await;
        assert_eq!(made, schema::KNOWN, "from {version}");
        let old = found(&uri, Query { limit: 500, ..Query::default() }).await;
        let expected: Vec<String> = (0..400).rev().map(|n| format!("one-{n}")).collect();
        assert_eq!(old, expected, "from {version}");
        let one = Query { limit: 50, recipient: "a17@example.com".to_owned(), ..Query::default() };
        assert_eq!(found(&uri, one).await, ["one-17"], "by its index, from {version}");
        node.log.append(vec![record("one", 400, DAY + 400)]).unwrap();
        assert_eq!(node.ship(&before).await.unwrap(), 1);
        node.log.append(vec![record("one", 401, DAY + 401)]).unwrap();
        assert_eq!(node.ship(&now).await.unwrap(), 1);
        assert_eq!(found(&uri, Query { limit: 500, ..Query::default() }).await.len(), 402);
        assert_eq!(nodes::list(&now).await.unwrap().len(), 1);
        // The same again changes nothing.
        assert_eq!(schema::check(&now).await.unwrap(), schema::KNOWN);
    }
}

/// A server that answers no more, as behind a cut cable or a lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_database_is_an_error_in_time() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let node = Node::join("one", &session).await;
    node.log.append(vec![record("one", 1, DAY)]).unwrap();
    let mut lock = schema::session(&database(&server.uri())).await.unwrap();
    let held = lock.client_mut().transaction().await.unwrap();
    held.batch_execute("LOCK TABLE log_pack").await.unwrap();
    let error = node.ship(&session).await.unwrap_err();
    assert!(matches!(error, ArrayError::Slow { .. }), "{error}");
    drop(held);
    lock.client_mut().batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(node.ship(&session).await.unwrap(), 1);
}
