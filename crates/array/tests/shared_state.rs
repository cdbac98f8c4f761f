//! State that nodes share, through a real server.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gauntlet_array::nodes::{self, Identity};
use gauntlet_array::state::{SharedStates, drop_old, pack, unpack};
use gauntlet_array::{ArrayError, Exchange, Session, SharedParts, schema};
use gauntlet_store::history::sharing::SharedHistory;
use gauntlet_store::sharing::BATCH_BYTES_MAX;
use gauntlet_store::{Clock, GreylistDecision, GreylistRules, History};

use crate::held_costs::counter;
use crate::logs::database;
use crate::postgres::Server;

const NOW: i64 = 1_800_000_000;

/// A node with its history; its memory ends with it, its files do not.
struct Node {
    folder: tempfile::TempDir,
    identity: Identity,
    history: Arc<History>,
    parts: SharedParts,
    states: SharedStates,
}

impl Node {
    fn new(name: &str) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let (history, parts) = Self::open(folder.path());
        let identity = Identity {
            name: name.to_owned(),
            identity: Identity::make().unwrap(),
            group: String::new(),
        };
        Node { folder, identity, history, parts, states: SharedStates::new() }
    }

    fn open(folder: &Path) -> (Arc<History>, SharedParts) {
        let history = Arc::new(History::open(folder).unwrap());
        let clock = Clock::manual(NOW * 1_000);
        let senders = SharedHistory::senders(history.clone(), clock.clone());
        let greylist = SharedHistory::greylist(history.clone(), clock);
        let parts = SharedParts {
            parts: vec![Arc::new(senders), Arc::new(greylist)],
            every: Duration::from_secs(1),
            days: 7,
        };
        (history, parts)
    }

    fn kill(&mut self) {
        (self.history, self.parts) = Self::open(self.folder.path());
    }

    /// One connection: everything goes out and comes in.
    async fn exchange(&mut self, session: &Session) -> Result<(), ArrayError> {
        let mut exchange = self.begin(session).await?;
        while exchange.step(session, &mut self.states).await? {}
        Ok(())
    }

    async fn begin(&mut self, session: &Session) -> Result<Exchange, ArrayError> {
        let id = nodes::register(session, &self.identity).await?;
        let clock = Clock::manual(NOW * 1_000);
        Exchange::begin(session, id, (&self.parts, clock), &mut self.states).await
    }

    fn count(&self, key: &str, times: usize) {
        (0..times).for_each(|_| self.history.record(&[key.to_owned()], false, NOW));
        self.history.write(NOW).unwrap();
    }

    fn ham(&self, key: &str) -> f64 {
        self.history.lookup(key, NOW).map_or(0.0, |known| known.ham)
    }

    fn attempt(&self, at_s: i64) -> GreylistDecision {
        let (rules, client) = (GreylistRules::default(), IpAddr::from([192, 0, 2, 7]));
        self.history.greylist(&rules, client, "a@example.org", "b@example.com", at_s)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_and_triplets_are_on_all_nodes_after_a_partition() {
    let Some(mut server) = Server::start(&[]) else { return };
    let uri = server.uri();
    let mut all = ["one", "two", "three"].map(Node::new);
    let session = schema::session(&database(&uri)).await.unwrap();
    for node in &mut all {
        node.count("d a.example", 2);
        node.exchange(&session).await.unwrap();
    }
    assert!(matches!(all[0].attempt(NOW - 400), GreylistDecision::Wait { .. }));
    for node in &mut all {
        node.exchange(&session).await.unwrap();
    }
    assert!(all.iter().all(|node| node.ham("d a.example") == 6.0));
    assert_eq!(all[2].attempt(NOW), GreylistDecision::Pass);
    let state = &all[2].states["senders"];
    assert!(state.current_ms == NOW * 1_000 && state.taken.0 >= 2 && state.error.is_empty());
    // The server is away: each counts for itself, and one is killed.
    server.kill();
    for (n, node) in all.iter_mut().enumerate() {
        node.count("d a.example", 1 + n);
        assert!(node.exchange(&session).await.is_err());
    }
    all[1].kill();
    assert_eq!(all[1].ham("d a.example"), 8.0, "what it knew stays, and what it counted");
    server.restart();
    let session = schema::session(&database(&uri)).await.unwrap();
    for _ in 0..2 {
        for node in &mut all {
            node.exchange(&session).await.unwrap();
        }
    }
    assert!(all.iter().all(|node| node.ham("d a.example") == 12.0));
    // Who joins later learns what is kept.
    let mut late = Node::new("four");
    late.exchange(&session).await.unwrap();
    assert_eq!((late.ham("d a.example"), late.attempt(NOW)), (12.0, GreylistDecision::Pass));
    // A node that was removed sends nothing more; what it counted stays.
    let mut exchange = all[0].begin(&session).await.unwrap();
    all[0].count("d a.example", 50);
    server.sql("UPDATE gauntlet.node SET state = 'removed' WHERE name = 'one'");
    let mut states = SharedStates::new();
    let refused = exchange.step(&session, &mut states).await;
    assert!(matches!(refused, Err(ArrayError::Removed { .. })), "{refused:?}");
    late.exchange(&session).await.unwrap();
    assert_eq!(late.ham("d a.example"), 12.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_differ_count_as_waiting_for_the_one_ahead_and_for_nobody_longer() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let wait = GreylistDecision::Wait { seconds: 300 };
    let left = GreylistDecision::Wait { seconds: 290 };
    // When it comes first, by the clock of that node, and what another one decides ten seconds
    // later.
    for (first, decided) in [(NOW - 3_600, GreylistDecision::Pass), (NOW + 3_600, left)] {
        let (mut one, mut two) = (Node::new("one"), Node::new("two"));
        assert_eq!(one.attempt(first), wait);
        one.exchange(&session).await.unwrap();
        two.exchange(&session).await.unwrap();
        assert_eq!(two.attempt(NOW + 10), decided, "first by a clock that is at {first}");
        server.sql("TRUNCATE gauntlet.node, gauntlet.shared_batch CASCADE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_made_anew_gets_all_again() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let mut all = ["one", "two"].map(Node::new);
    for _ in 0..2 {
        let session = schema::session(&database(&server.uri())).await.unwrap();
        for node in &mut all {
            node.count("d a.example", 1);
            node.exchange(&session).await.unwrap();
        }
        all[0].exchange(&session).await.unwrap();
        assert_eq!(all[0].ham("d a.example"), all[1].ham("d a.example"));
        server.sql("DROP SCHEMA gauntlet CASCADE");
        // The nodes come in another order, under other numbers.
        all.reverse();
    }
    assert_eq!(all[0].ham("d a.example"), 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_commits_late_is_not_passed_over() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let options = database(&server.uri());
    let [first, second] =
        [schema::session(&options).await.unwrap(), schema::session(&options).await.unwrap()];
    let (mut one, mut two) = (Node::new("one"), Node::new("two"));
    two.exchange(&second).await.unwrap();
    let old = one.begin(&first).await.unwrap();
    one.count("d early.example", 1);
    // A connection that was given up, whose statement the server still carries out.
    first.client().batch_execute("BEGIN").await.unwrap();
    old.send(&first, &mut SharedStates::new(), true).await.unwrap();
    one.kill();
    one.count("d late.example", 1);
    let third = schema::session(&options).await.unwrap();
    let sending = tokio::spawn(async move {
        one.exchange(&third).await.unwrap();
        one
    });
    // It waits for the first; and nobody reads beyond it meanwhile.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while server.sql(waits) == "0" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    two.exchange(&second).await.unwrap();
    assert_eq!((two.ham("d early.example"), two.ham("d late.example")), (0.0, 0.0));
    first.client().batch_execute("COMMIT").await.unwrap();
    sending.await.unwrap();
    two.exchange(&second).await.unwrap();
    assert_eq!((two.ham("d early.example"), two.ham("d late.example")), (1.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_batches_go_and_damaged_ones_stop_nothing() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let (mut one, mut two) = (Node::new("one"), Node::new("two"));
    one.count("d a.example", 1);
    one.exchange(&session).await.unwrap();
    server.sql(
        "INSERT INTO gauntlet.shared_batch SELECT kind, node, number + 1, '\\x0102'::bytea \
         FROM gauntlet.shared_batch",
    );
    server.sql("INSERT INTO gauntlet.shared_batch SELECT 99, node, 1, '' FROM gauntlet.shared_batch LIMIT 1");
    one.count("d b.example", 1);
    one.exchange(&session).await.unwrap();
    two.exchange(&session).await.unwrap();
    assert_eq!((two.ham("d a.example"), two.ham("d b.example")), (1.0, 1.0));
    let rows = "SELECT count(*) FROM gauntlet.shared_batch WHERE kind = 3";
    assert_eq!((drop_old(&session, 7).await.unwrap(), server.sql(rows)), (0, "3".to_owned()));
    server.sql("UPDATE gauntlet.shared_batch SET number = number - 8 * 86400::bigint * 1000000");
    assert_eq!((drop_old(&session, 7).await.unwrap(), server.sql(rows)), (3, "0".to_owned()));
}

#[test]
fn frames_are_read_as_they_were_written_and_damage_is_none() {
    for body in [Vec::new(), vec![7], b"abc".repeat(5_000)] {
        let stored = pack(&body).unwrap();
        assert!(stored.len() <= body.len() + 1);
        assert_eq!(unpack(&stored), Some(body));
        for at in 0..stored.len().min(200) {
            let mut wrong = stored.clone();
            wrong[at] ^= 0x81;
            let _never_panics = (unpack(&wrong), unpack(&stored[..at]));
        }
    }
    assert_eq!(unpack(&pack(&vec![0; BATCH_BYTES_MAX + 1]).unwrap()), None, "a bomb");
}

/// A domain that compresses as badly as real ones.
fn domain_of(sender: u64) -> String {
    let mut mixed = sender.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let letter = |_| {
        mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
        char::from(b'a' + (mixed >> 59) as u8 % 26)
    };
    let name: String = (0..9).map(letter).collect();
    format!("{name}.example")
}

fn network_of(sender: u64) -> String {
    let [a, b, c, ..] = sender.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    format!("n {a}.{b}.{c}.0/24")
}

/// What senders and greylist cost on the wire. Run with `--nocapture` for the figures; the limits
/// are far above them.
#[tokio::test(flavor = "multi_thread")]
async fn sharing_costs_little() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let (port, wire) = counter(server.port);
    let uri = format!("postgres://keeper@127.0.0.1:{port}/postgres?sslmode=disable");
    let session = schema::session(&database(&uri)).await.unwrap();
    let mut nodes = ["one", "two"].map(Node::new);
    let mut begun = Vec::new();
    for node in &mut nodes {
        begun.push(node.begin(&session).await.unwrap());
    }
    let mut before = 0;
    let mut quiet = 0;
    // 64 messages a second over both nodes, half a minute an exchange: every third sender is new,
    // the others are of two hundred.
    for round in 0..4_u32 {
        for (n, node) in nodes.iter().enumerate() {
            for message in 0..960_u32 {
                let number = round * 960 + message;
                let sender = match message % 3 {
                    0 => u64::from(number) * 2 + n as u64,
                    _ => u64::from((message * 7 + round) % 200) << 40,
                };
                let (domain, network) = (domain_of(sender), network_of(sender));
                let keys = [format!("k {domain}"), format!("d {domain}"), network];
                node.history.record(&keys, message % 4 == 0, NOW + i64::from(round) * 30);
            }
            node.history.write(NOW).unwrap();
        }
        if round == 1 {
            before = wire.load(Ordering::Relaxed);
        }
        for step in 0..6 {
            if step == 5 {
                quiet = wire.load(Ordering::Relaxed);
            }
            for (node, exchange) in nodes.iter_mut().zip(&mut begun) {
                while exchange.step(&session, &mut node.states).await.unwrap() {}
            }
        }
    }
    let all = wire.load(Ordering::Relaxed);
    let (a_message, an_exchange) = ((all - before) / (3 * 2 * 960), (all - quiet) / 2);
    eprintln!("histories of senders: {a_message} bytes a message with two nodes, both ways");
    eprintln!("an exchange in which nothing changed: {an_exchange} bytes");
    assert!(a_message < 200 && an_exchange < 2_000);
}
