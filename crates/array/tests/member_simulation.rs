//! Three members of an array against a real PostgreSQL server, each behind a relay that breaks its
//! connection at a random piece of what it sends: before that arrives, or after it, when only the
//! answer is lost. Whatever broke, the member starts anew, as after a crash. Log, held mail,
//! orders, messages that move and editions of the policy go on meanwhile; in the end everything is
//! there once.
//!
//! `GAUNTLET_SEEDS=17..18` runs one of the seeds, which a failure names; `.ci/long` a thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gauntlet_array::editions::{self, Edition, Kind, Scope};
use gauntlet_array::nodes::{Identity, Status};
use gauntlet_array::orders::{self, Order, Outcome};
use gauntlet_array::transfers::Departing;
use gauntlet_array::{
    Database, HeldParts, LocalNode, Member, MemberOptions, Objects, ObjectsAddress, ObjectsOptions,
    SharedLog, SharedQuarantine, schema,
};
use gauntlet_store::log::Query;
use gauntlet_store::quarantine::HeldQuery;
use gauntlet_store::{Clock, Log, LogOptions, Quarantine};

use crate::bodies_walk::Random;
use crate::held::{all, body, item};
use crate::logs::{DAY, database, delivered, record, tls};
use crate::postgres::Server;
use crate::relay::Relay;

const NODES: [&str; 3] = ["one", "two", "three"];
/// Seeds at the same time, each with a database of its own.
const LANES: u64 = 4;
/// Everything is shipped and followed within this, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message of a queue.
#[derive(Debug, Clone)]
struct Queued {
    name: String,
    /// Where it goes, and the token of that.
    leaving: Option<(String, String)>,
}

/// What a node has durably, beside log and quarantine.
#[derive(Debug, Default)]
struct Disk {
    queue: BTreeMap<u64, Queued>,
    next: u64,
    /// Tokens of what it took in, with the number here.
    arrived: BTreeMap<String, u64>,
    /// How often each order was carried out.
    carried_out: BTreeMap<String, usize>,
    policy: String,
    settings: i64,
    /// Names of messages that were delivered here.
    delivered: Vec<String>,
}

struct Node {
    name: &'static str,
    disk: Mutex<Disk>,
    random: Mutex<Random>,
    log: Arc<Log>,
    quarantine: Arc<Quarantine>,
    identity: Identity,
    relay: Relay,
    database: Database,
    objects: Objects,
    folder: tempfile::TempDir,
    restarts: AtomicU64,
}

impl Node {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    fn below(&self, bound: usize) -> usize {
        self.random.lock().unwrap().below(bound)
    }
}

/// The node as its member sees it.
struct Local(Arc<Node>);

impl LocalNode for Local {
    fn status(&self) -> Status {
        Status { queued: self.0.disk().queue.len() as u64, ..Status::default() }
    }

    fn apply_policy(&self, edition: &Edition) -> Result<(), String> {
        self.0.disk().policy.clone_from(&edition.body);
        Ok(())
    }

    fn settings(&self) -> i64 {
        self.0.disk().settings
    }

    fn apply_settings(&self, edition: Option<&Edition>) -> Result<(), String> {
        self.0.disk().settings = edition.map_or(0, |edition| edition.number);
        Ok(())
    }

    fn upgrade(&self, _order: i64, _seconds: u64) -> Option<Outcome> {
        // None is ordered here.
        Some(Outcome { is_good: false, text: "not in a simulation".to_owned() })
    }

    fn queued(&self) -> Vec<String> {
        self.0.disk().queue.keys().map(u64::to_string).collect()
    }

    /// No node leaves this array.
    fn keep(&self, _: u64) {}

    fn leaving(&self) -> Vec<(String, String)> {
        let disk = self.0.disk();
        let to = |(number, message): (&u64, &Queued)| {
            Some((number.to_string(), message.leaving.as_ref()?.0.clone()))
        };
        disk.queue.iter().filter_map(to).collect()
    }

    fn leave(&self, id: &str, to: &str) -> Result<Departing, String> {
        let number: u64 = id.parse().map_err(|_| format!("{id:?} is no number"))?;
        let mut disk = self.0.disk();
        let message = disk.queue.get_mut(&number).ok_or("it is gone")?;
        let token = format!("{}-{number}", self.0.identity.identity);
        match &message.leaving {
            Some((other, _)) if other != to => return Err(format!("it leaves for {other}")),
            Some(_) => {}
            None => message.leaving = Some((to.to_owned(), token.clone())),
        }
        let body = format!("{token} {}", message.name).into_bytes();
        Ok(Departing { id: number, token, body })
    }

    fn take_in(&self, bodies: Vec<Vec<u8>>) -> Vec<Option<String>> {
        let one = |body: Vec<u8>| {
            let text = String::from_utf8(body).unwrap();
            let (token, name) = text.split_once(' ').unwrap();
            match self.0.below(10) {
                0 => return None,
                1 if !self.0.disk().arrived.contains_key(token) => {
                    return Some("refused".to_owned());
                }
                _ => {}
            }
            let mut disk = self.0.disk();
            if !disk.arrived.contains_key(token) {
                let (name, leaving) = (name.to_owned(), None);
                disk.next += 1;
                let number = disk.next;
                disk.queue.insert(number, Queued { name, leaving });
                disk.arrived.insert(token.to_owned(), number);
            }
            Some("taken".to_owned())
        };
        bodies.into_iter().map(one).collect()
    }

    fn left(&self, answers: &[(u64, String)]) {
        let mut disk = self.0.disk();
        for (number, answer) in answers {
            // The answer to what was followed before.
            let Some(message) = disk.queue.get_mut(number) else { continue };
            if message.leaving.is_none() {
                continue;
            }
            match answer.as_str() {
                "taken" => drop(disk.queue.remove(number)),
                _ => message.leaving = None,
            }
        }
    }

    fn carry_out(&self, order: Order, _who: &str) -> Outcome {
        let Order::Delete { item } = order else {
            return Outcome { is_good: false, text: "another order".to_owned() };
        };
        *self.0.disk().carried_out.entry(item.clone()).or_default() += 1;
        let _it_may_be_none_of_ours = self.0.quarantine.delete(&item, "ada", DAY);
        Outcome { is_good: true, text: format!("deleted {item}") }
    }
}

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
    _shelf: tempfile::TempDir,
}

impl World {
    async fn new(seed: u64, server: &Server, name: &str) -> World {
        let uri = |port| format!("postgres://keeper@127.0.0.1:{port}/{name}?sslmode=disable");
        let own = database(&uri(server.port));
        // The database of a lane is used again: the tables are made once.
        let session = schema::session(&own).await.unwrap();
        let tables = "TRUNCATE node, log_pack, log_count, log_day, edition, node_order, transfer, \
                      held, held_object RESTART IDENTITY CASCADE";
        session.batch("emptying the array", tables).await.unwrap();
        let shelf = tempfile::tempdir().unwrap();
        let address = ObjectsAddress::parse(&format!("file://{}", shelf.path().display())).unwrap();
        let tls = gauntlet_array::DatabaseTls { any: tls(), verified: None };
        let objects = Objects::new(&address, &tls, ObjectsOptions::default()).unwrap();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let node = |name| {
            let folder = tempfile::tempdir().unwrap();
            let options = LogOptions { feeds_array: true, ..LogOptions::default() };
            let relay = Relay::to(server.port);
            let identity = Identity::make().unwrap();
            let (group, named) = (String::new(), name);
            Arc::new(Node {
                name,
                disk: Mutex::default(),
                random: Mutex::new(Random(random.below(1 << 40) as u64 | 1)),
                log: Arc::new(Log::open_with(&folder.path().join("log"), options).unwrap()),
                quarantine: Arc::new(Quarantine::open(&folder.path().join("held")).unwrap()),
                identity: Identity { name: named.to_owned(), identity, group },
                database: database(&uri(relay.port)),
                relay,
                objects: objects.clone(),
                folder,
                restarts: AtomicU64::new(0),
            })
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
            _shelf: shelf,
        }
    }

    /// Something happens on a node, or an administrator does something.
    async fn happen(&mut self) {
        let at = self.random.below(NODES.len());
        let node = self.nodes[at].clone();
        match self.random.below(8) {
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
            6 => self.command(node.name).await,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }

    async fn command(&mut self, node: &str) {
        let session = schema::session(&self.database).await.unwrap();
        if self.random.below(3) == 0 {
            self.policy += 1;
            let text = format!("# {}", self.policy);
            let what = (text.as_str(), "ada", "");
            editions::publish(&session, Kind::Policy, &Scope::All, None, what).await.unwrap();
            return;
        }
        let order = match self.random.below(2) {
            0 => {
                let to = NODES[self.random.below(NODES.len())].to_owned();
                Order::Move { to, ids: Vec::new() }
            }
            // Some are of this node, and held.
            _ => Order::Delete { item: format!("{node}-{}-q", self.held) },
        };
        // A node that has not joined yet has no orders.
        self.orders += usize::from(orders::give(&session, node, &order, "ada").await.is_ok());
    }
}

/// Breaks the node's connection some pieces later, unless all is calm.
fn arm(node: &Node, is_calm: &AtomicBool) {
    let pieces = 1 + node.below(24) as u64;
    let arrives = node.below(2) == 0;
    node.relay.fail_in(if is_calm.load(Ordering::Relaxed) { 0 } else { pieces }, arrives);
}

/// Runs the member of a node, a new one whenever something failed, until it is stopped.
async fn keep(node: Arc<Node>, is_calm: Arc<AtomicBool>, stop: tokio::sync::watch::Receiver<bool>) {
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
        let state = member.state();
        arm(&node, &is_calm);
        let running = tokio::spawn(member.run(stop.clone()));
        while state.lock().unwrap().failures == 0 && !*stop.borrow() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        node.restarts.fetch_add(1, Ordering::Relaxed);
        running.abort();
        let _it_was_aborted = running.await;
    }
}

/// What is missing until everything is shipped and followed; none if nothing is.
async fn missing(world: &World) -> Option<String> {
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
    (counts.0 + counts.1 > 0).then(|| format!("transfers and open orders: {counts:?}"))
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
    let sql = "SELECT n.name, o.arguments FROM node_order o JOIN node n ON n.id = o.node \
               WHERE o.kind = 'delete'";
    let rows = session.rows("test", sql, &[]).await.unwrap();
    for row in &rows {
        let (name, order): (&str, Order) = (row.get(0), serde_json::from_str(row.get(1)).unwrap());
        let Order::Delete { item } = order else { panic!("{order:?}") };
        let node = world.nodes.iter().find(|node| node.name == name).unwrap();
        assert!(node.disk().carried_out.contains_key(&item), "seed {seed}: {item} of {name}");
    }
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

/// One seed; how often members began anew.
async fn simulate(seed: u64, server: &Server, name: &str) -> u64 {
    let mut world = World::new(seed, server, name).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let keep =
        |node: &Arc<Node>| tokio::spawn(keep(node.clone(), world.is_calm.clone(), stopped.clone()));
    let members: Vec<_> = world.nodes.iter().map(keep).collect();
    for _ in 0..40 {
        world.happen().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    world.is_calm.store(true, Ordering::Relaxed);
    world.nodes.iter().for_each(|node| arm(node, &world.is_calm));
    let begun = Instant::now();
    while let Some(what) = missing(&world).await {
        assert!(begun.elapsed() < PATIENCE, "seed {seed}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(true).unwrap();
    for member in members {
        member.await.unwrap();
    }
    check(seed, &world).await;
    world.nodes.iter().map(|node| node.restarts.load(Ordering::Relaxed)).sum()
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
            let mut restarts = 0;
            for seed in seeds().filter(|seed| seed % LANES == lane) {
                restarts += simulate(seed, &server, &name).await;
            }
            restarts
        })
    });
    let mut restarts = 0;
    for lane in lanes.collect::<Vec<_>>() {
        restarts += lane.await.unwrap();
    }
    eprintln!("{:?}: members began anew {restarts} times", seeds());
}
