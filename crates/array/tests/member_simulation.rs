//! Three members of an array against a real PostgreSQL server, each behind a relay that breaks its
//! connection at a random piece of what it sends: before that arrives, or after it, when only the
//! answer is lost. Whatever broke, the member starts anew, as after a crash; and now and then it is
//! killed over whatever it does. Log, held mail, orders, messages that move, editions of the policy
//! and what nodes share go on meanwhile; in the end everything is there once.
//!
//! `GAUNTLET_SEEDS=17..18` runs one of the seeds, which a failure names; `.ci/long` a thousand.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gauntlet_array::editions::{self, Kind, Scope};
use gauntlet_array::orders::{self, Journal, Order};
use gauntlet_array::{
    Database, HeldParts, Member, MemberOptions, Objects, ObjectsAddress, ObjectsOptions, Session,
    SharedLog, SharedQuarantine, schema,
};
use gauntlet_store::Clock;
use gauntlet_store::log::Query;
use gauntlet_store::quarantine::HeldQuery;
use tokio::sync::watch;

use crate::bodies_walk::Random;
use crate::held::{all, body, item};
use crate::logs::{DAY, database, delivered, record, tls};
use crate::postgres::Server;
use crate::relay::Relay;
use node::{Local, Node, Queued};
use shared::Expected;

mod node;
mod shared;

const NODES: [&str; 3] = ["one", "two", "three"];
/// Seeds at the same time, each with a database of its own.
const LANES: u64 = 4;
/// Everything is shipped and followed within this, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that a seed has.
struct World {
    nodes: Vec<Arc<Node>>,
    database: Database,
    objects: Objects,
    is_calm: Arc<AtomicBool>,
    random: Random,
    messages: BTreeSet<String>,
    logged: i64,
    held: i64,
    orders: usize,
    policy: usize,
    shared: Expected,
    _shelf: tempfile::TempDir,
}

impl World {
    async fn new(seed: u64, server: &Server, name: &str) -> World {
        let uri = |port| format!("postgres://keeper@127.0.0.1:{port}/{name}?sslmode=disable");
        let own = database(&uri(server.port));
        // The database of a lane is used again: the tables are made once.
        let session = schema::session(&own).await.unwrap();
        let tables = "TRUNCATE node, log_pack, log_count, log_day, edition, node_order, transfer, \
                      held, held_object, shared_batch RESTART IDENTITY CASCADE; \
                      UPDATE shared_epoch SET epoch = gen_random_uuid()::text";
        session.batch("emptying the array", tables).await.unwrap();
        let shelf = tempfile::tempdir().unwrap();
        let address = ObjectsAddress::parse(&format!("file://{}", shelf.path().display())).unwrap();
        let tls = gauntlet_array::DatabaseTls { any: tls(), verified: None };
        let objects = Objects::new(&address, &tls, ObjectsOptions::default()).unwrap();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let node = |name| {
            let relay = Relay::to(server.port);
            let way = (database(&uri(relay.port)), relay);
            Node::new(name, random.below(1 << 40) as u64, way, objects.clone())
        };
        let nodes = NODES.map(node).into();
        let is_calm = Arc::new(AtomicBool::new(false));
        let messages = BTreeSet::new();
        let (logged, held, orders, policy) = (0, 0, 0, 0);
        World {
            nodes,
            database: own,
            objects,
            is_calm,
            random,
            messages,
            logged,
            held,
            orders,
            policy,
            shared: Expected::default(),
            _shelf: shelf,
        }
    }

    /// Something happens on a node, or an administrator does something.
    async fn happen(&mut self) {
        let at = self.random.below(NODES.len());
        let node = self.nodes[at].clone();
        match self.random.below(13) {
            0 | 1 => {
                let first = self.logged;
                self.logged += 1 + self.random.below(20) as i64;
                let new = (first..self.logged).map(|n| record(node.name, n, DAY + n));
                node.log.append(new.collect()).unwrap();
            }
            2 if self.logged > 0 => {
                let n = self.random.below(usize::try_from(self.logged).unwrap()) as i64;
                let known = node.log.get(&format!("{}-{n}", node.name)).unwrap();
                let Some(known) = known else { return };
                node.log.append(vec![delivered(known.record, DAY + 1_000_000)]).unwrap();
            }
            3 => {
                self.held += 1;
                let bytes = body(node.name, self.held);
                node.quarantine.put(&item(node.name, self.held), &bytes).unwrap();
            }
            4 => {
                let mut disk = node.disk();
                disk.next += 1;
                let (number, name) = (disk.next, format!("{at}-{}", disk.next));
                self.messages.insert(name.clone());
                disk.queue.insert(number, Queued { name, leaving: None });
            }
            5 => {
                let mut disk = node.disk();
                let stays = |queued: &&Queued| queued.leaving.is_none();
                let first = disk.queue.iter().find(|(_, queued)| stays(queued)).map(|(n, _)| *n);
                if let Some(gone) = first.and_then(|number| disk.queue.remove(&number)) {
                    disk.delivered.push(gone.name);
                }
            }
            6 | 11 => self.command(node.name).await,
            7 | 8 => self.shared.count(&node, &mut self.random),
            9 => self.shared.attempt(&node, &mut self.random),
            10 => {
                let session = schema::session(&self.database).await.unwrap();
                self.shared.age(&node, &session, &mut self.random).await;
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }

    async fn command(&mut self, node: &str) {
        let session = schema::session(&self.database).await.unwrap();
        if self.random.below(4) == 0 {
            self.policy += 1;
            let text = format!("# {}", self.policy);
            let what = (text.as_str(), "ada", "");
            editions::publish(&session, Kind::Policy, &Scope::All, None, what).await.unwrap();
            return;
        }
        let order = match self.random.below(3) {
            0 => {
                let to = NODES[self.random.below(NODES.len())].to_owned();
                Order::Move { to, ids: Vec::new() }
            }
            // Some are of this node, and held.
            _ => Order::Delete { item: format!("{node}-{}-q", self.held) },
        };
        // A node that has not joined yet has no orders. Who gives one says which it is.
        let who = format!("ada {}", self.orders);
        self.orders += usize::from(orders::give(&session, node, &order, &who).await.is_ok());
    }
}

/// Breaks the node's connection some pieces later, unless all is calm.
fn arm(node: &Node, is_calm: &AtomicBool) {
    // A short life breaks off before it comes to what nodes share; every second may be longer.
    let most = [24, 120][node.below(2)];
    let pieces = 1 + node.below(most) as u64;
    let arrives = node.below(2) == 0;
    node.relay.fail_in(if is_calm.load(Ordering::Relaxed) { 0 } else { pieces }, arrives);
}

/// Waits until a node dies: something failed, or it is killed, now and then at some time, or over
/// an order. Nothing kills it once all is calm.
async fn dies(node: &Node, is_calm: &AtomicBool) {
    let begun = Instant::now();
    let end = (node.below(4) == 0).then(|| Duration::from_millis(node.below(60) as u64));
    node.is_struck.store(false, Ordering::Relaxed);
    while node.state.lock().unwrap().lock().unwrap().failures == 0 {
        let is_struck = node.is_struck.load(Ordering::Relaxed);
        let is_killed = is_struck || end.is_some_and(|after| begun.elapsed() > after);
        if is_killed && !is_calm.load(Ordering::Relaxed) {
            node.kills.fetch_add(1, Ordering::Relaxed);
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs the member of a node, a new one whenever the one before died, until it is stopped. Blocks.
fn keep(node: &Arc<Node>, is_calm: &AtomicBool, stop: &watch::Receiver<bool>) {
    while !*stop.borrow() {
        let soon = Duration::from_millis(4);
        let options = MemberOptions {
            ship_every: soon,
            status_every: soon * 4,
            poll_every: soon,
            counts_every: soon * 20,
            log_days: None,
            folder: node.folder.path().to_owned(),
        };
        let (quarantine, objects) = (node.quarantine.clone(), node.objects.clone());
        let held = Some(HeldParts { quarantine, objects });
        let local = Arc::new(Local(node.clone()));
        let (database, own, log) = (node.database.clone(), node.identity.clone(), node.log.clone());
        let member = Member::new(database, own, log, local, (options, Clock::system()), held);
        let member = member.sharing(node.shared.reopened(soon));
        *node.state.lock().unwrap() = member.state();
        arm(node, is_calm);
        // What it is at ends between two of its steps; one that blocks is done first.
        let life = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        life.block_on(async {
            tokio::select! {
                () = member.run(stop.clone()) => {}
                () = dies(node, is_calm) => {}
            }
        });
        drop(life);
        for (kind, state) in &node.state.lock().unwrap().lock().unwrap().shared {
            assert_eq!(state.error, "", "{kind} of {}", node.name);
        }
        node.restarts.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is missing until everything is shipped and followed; none if nothing is.
async fn missing(world: &World, sent_ms: &mut Option<i64>) -> Option<String> {
    for node in &world.nodes {
        let (log, held) = (node.log.backlog().unwrap(), node.quarantine.backlog().unwrap());
        if log.changes + held.changes > 0 {
            return Some(format!("{} is behind: {log:?} {held:?}", node.name));
        }
        if node.disk().queue.values().any(|message| message.leaving.is_some()) {
            return Some(format!("{} has messages that are leaving", node.name));
        }
        let policy = node.disk().policy.clone();
        if world.policy > 0 && policy != format!("# {}", world.policy) {
            return Some(format!("{} has policy {policy:?}, not {}", node.name, world.policy));
        }
    }
    let session = schema::session(&world.database).await.unwrap();
    // A member that never came so far as to begin has no backlog, either.
    let sql = "SELECT (SELECT coalesce(sum(messages), 0) FROM log_count)::bigint, \
               (SELECT count(*) FROM held)";
    let row = session.row("test", sql, &[]).await.unwrap().unwrap();
    let (logged, held): (i64, i64) = (row.get(0), row.get(1));
    let own = |node: &Arc<Node>| {
        let held = all(&*node.quarantine, HeldQuery { limit: 500, ..HeldQuery::default() });
        (crate::shared_log::all(&*node.log, query()).len() as i64, held.len() as i64)
    };
    let own: Vec<(i64, i64)> = world.nodes.iter().map(own).collect();
    if (logged, held) != (own.iter().map(|o| o.0).sum(), own.iter().map(|o| o.1).sum()) {
        return Some(format!("{logged} logged and {held} held of {own:?}"));
    }
    let sql = "SELECT (SELECT count(*) FROM transfer), \
               (SELECT count(*) FROM node_order WHERE done IS NULL), \
               (SELECT count(*) FROM node_order)";
    let row = session.row("test", sql, &[]).await.unwrap().unwrap();
    let counts: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(counts.2, world.orders as i64);
    if counts.0 + counts.1 > 0 {
        return Some(format!("transfers and open orders: {counts:?}"));
    }
    shared::missing(&world.nodes, sent_ms)
}

/// Every order is answered as the node's journal has it, was carried out at most once in each life
/// of its node, in later ones only as long as it was not in the journal ([`Local::carry_out`]), and
/// had one effect.
async fn check_orders(seed: u64, session: &Session, nodes: &[Arc<Node>]) {
    let sql = "SELECT o.id, (extract(epoch FROM o.made) * 1000000)::bigint, n.name, o.kind, o.who, \
               o.is_good, o.outcome, o.arguments FROM node_order o JOIN node n ON n.id = o.node";
    let mut deleted = BTreeSet::new();
    for row in &session.rows("test", sql, &[]).await.unwrap() {
        let (id, name, who): (i64, &str, &str) = (row.get(0), row.get(2), row.get(4));
        let node = nodes.iter().find(|node| node.name == name).unwrap();
        let journal = Journal::open(&node.folder.path().join("orders.json")).unwrap();
        let noted = journal.outcome(id, row.get(1)).map(|noted| (noted.is_good, &*noted.text));
        assert_eq!(noted, Some((row.get(5), row.get(6))), "seed {seed}: {who} of {name}");
        if row.get::<_, &str>(3) != "delete" {
            continue;
        }
        let disk = node.disk();
        let done = disk.carried_out.get(who).map(Vec::as_slice).unwrap_or_default();
        let lives: BTreeSet<u64> = done.iter().map(|(life, _)| *life).collect();
        assert!(!done.is_empty() && lives.len() == done.len(), "seed {seed}: {who}: {done:?}");
        for (_, _) in done.iter().filter(|(_, is_effect)| *is_effect) {
            let is_new = deleted.insert((name.to_owned(), row.get::<_, String>(7)));
            assert!(is_new, "seed {seed}: {who} of {name} took effect twice");
        }
    }
}

/// Messages are conserved, orders answered, and the array has what the nodes have.
async fn check(seed: u64, world: &World) {
    let mut found = Vec::new();
    for node in &world.nodes {
        let disk = node.disk();
        assert!(disk.queue.values().all(|m| m.leaving.is_none()), "seed {seed}: {:?}", disk.queue);
        found.extend(disk.queue.values().map(|message| message.name.clone()));
        found.extend(disk.delivered.iter().cloned());
    }
    found.sort();
    let expected: Vec<String> = world.messages.iter().cloned().collect();
    assert_eq!(found, expected, "seed {seed}: messages of the queues");
    let session = schema::session(&world.database).await.unwrap();
    check_orders(seed, &session, &world.nodes).await;
    assert_eq!(world.shared.differs(&world.nodes), None, "seed {seed}: shared state");
    let runtime = tokio::runtime::Handle::current();
    let log = SharedLog::new(world.database.clone(), runtime.clone());
    let held = SharedQuarantine::new(world.database.clone(), world.objects.clone(), None, runtime);
    let read = tokio::task::spawn_blocking(move || {
        (
            crate::shared_log::all(&log, query()),
            all(&held, HeldQuery { limit: 500, ..HeldQuery::default() }),
        )
    });
    let (logged, held) = read.await.unwrap();
    let mut expected = Vec::new();
    let mut expected_held = BTreeSet::new();
    for node in &world.nodes {
        for mut message in crate::shared_log::all(&*node.log, query()) {
            node.name.clone_into(&mut message.node);
            expected.push(message);
        }
        let own = all(&*node.quarantine, HeldQuery { limit: 500, ..HeldQuery::default() });
        expected_held.extend(own.into_iter().map(|h| (h.item.id, h.state.name())));
    }
    expected.sort_by_key(|m| std::cmp::Reverse((m.cursor, m.node.clone())));
    assert_eq!(logged, expected, "seed {seed}: the log");
    assert_eq!(held.len(), expected_held.len(), "seed {seed}: held mail");
    let held: BTreeSet<_> = held.into_iter().map(|h| (h.item.id, h.state.name())).collect();
    assert_eq!(held, expected_held, "seed {seed}: held mail");
}

fn query() -> Query {
    Query { limit: 500, ..Query::default() }
}

/// What happened in a seed, or in several.
#[derive(Debug, Clone, Copy, Default)]
struct Happened {
    /// Members began anew.
    restarts: u64,
    /// Among them those that were killed.
    kills: u64,
    /// Orders were carried out, and among them those that were carried out before.
    orders: u64,
    again: u64,
}

impl Happened {
    fn of(world: &World) -> Self {
        let mut all = Happened::default();
        for node in &world.nodes {
            all.restarts += node.restarts.load(Ordering::Relaxed);
            all.kills += node.kills.load(Ordering::Relaxed);
            for lives in node.disk().carried_out.values() {
                all.orders += lives.len() as u64;
                all.again += lives.len() as u64 - 1;
            }
        }
        all
    }

    fn and(self, other: Self) -> Self {
        Happened {
            restarts: self.restarts + other.restarts,
            kills: self.kills + other.kills,
            orders: self.orders + other.orders,
            again: self.again + other.again,
        }
    }
}

/// Waits until everything is shipped, followed and shared.
async fn settle(seed: u64, world: &World) {
    let (begun, mut sent_ms) = (Instant::now(), None);
    while let Some(what) = missing(world, &mut sent_ms).await {
        assert!(begun.elapsed() < PATIENCE, "seed {seed}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One seed.
async fn simulate(seed: u64, server: &Server, name: &str) -> Happened {
    let mut world = World::new(seed, server, name).await;
    let (stop, stopped) = watch::channel(false);
    let keep_up = |node: &Arc<Node>| {
        let (node, is_calm, stop) = (node.clone(), world.is_calm.clone(), stopped.clone());
        tokio::task::spawn_blocking(move || keep(&node, &is_calm, &stop))
    };
    let members: Vec<_> = world.nodes.iter().map(keep_up).collect();
    for _ in 0..60 {
        world.happen().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    world.is_calm.store(true, Ordering::Relaxed);
    world.nodes.iter().for_each(|node| arm(node, &world.is_calm));
    settle(seed, &world).await;
    if world.shared.has_lost {
        world.shared.count_once_more(&world.nodes);
        settle(seed, &world).await;
    }
    stop.send(true).unwrap();
    for member in members {
        member.await.unwrap();
    }
    check(seed, &world).await;
    Happened::of(&world)
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("GAUNTLET_SEEDS") else { return 1..13 };
    let (first, last) = text.split_once("..").unwrap();
    first.parse().unwrap()..last.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_anywhere_lose_and_double_nothing() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let server = Arc::new(server);
    let lanes = (0..LANES).map(|lane| {
        let server = server.clone();
        tokio::spawn(async move {
            let name = format!("lane{lane}");
            server.sql(&format!("CREATE DATABASE {name}"));
            let mut all = Happened::default();
            for seed in seeds().filter(|seed| seed % LANES == lane) {
                all = all.and(simulate(seed, &server, &name).await);
            }
            all
        })
    });
    let mut all = Happened::default();
    for lane in lanes.collect::<Vec<_>>() {
        all = all.and(lane.await.unwrap());
    }
    eprintln!("{:?}: {all:?}", seeds());
}
