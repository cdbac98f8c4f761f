//! Four nodes of an array behind HAProxy, under load, while something breaks every second or two: a
//! node is killed, the database or the object store is killed or hangs, a node is cut off from
//! either, the next hop refuses, nodes drain, queues move, policies change, held mail is released
//! and deleted. Then everything is mended, and every message is accounted for.
//!
//! Faults come from a seed that is printed: `GAUNTLET_SEED` gives another, `GAUNTLET_ARRAY_SECONDS`
//! the length of the load (20 by default; `.ci/long` has 300).

use std::time::{Duration, Instant};

use gauntlet_array::editions::{self, Kind, Scope};
use gauntlet_array::orders::{self, Order};
use gauntlet_array::schema;

use crate::common::array_account::account;
use crate::common::array_load::{CLIENTS, HELD, Load, REFUSED, SWINGS};
use crate::common::array_site::{Site, database};
use crate::common::random;
use crate::relay::Line;

const NODES: usize = 4;
/// From so many seconds on duplicates are held to a share of all messages.
const MANY_SECONDS: u64 = 200;
/// Messages of which at most one may come twice, in a long run.
const DUPLICATE_IN: usize = 1_000;
/// Connections on which a killed node may be delivering, in a short run.
const ON_THE_WAY: usize = 8;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Something that may be broken, once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Node(usize),
    Database,
    Objects,
    /// The way from a node to the database.
    ToDatabase(usize),
    /// The way from a node to the object store.
    ToObjects(usize),
    NextHop,
    /// A node is drained.
    Drain(usize),
}

/// What breaks what, and when it is mended.
struct Chaos {
    site: Site,
    state: u64,
    begun: Instant,
    broken: Vec<(Instant, Part)>,
    kills: usize,
    faults: usize,
    orders: usize,
    editions: i64,
}

fn policy(edition: i64) -> String {
    let rule = |name: &str, sender: &str, action: &str| {
        format!("[[rule]]\nname = \"{name}\"\nwhen.sender = \"{sender}\"\ndo = {action}\n")
    };
    let swings = ["{ quarantine = \"suspect\" }", "\"deliver\"", "{ reject = \"not now {id}\" }"];
    let turn = usize::try_from(edition).unwrap() % swings.len();
    [
        rule("hold", HELD, swings[0]),
        rule("refuse", REFUSED, swings[2]),
        rule("swing", SWINGS, swings[turn]),
    ]
    .concat()
}

impl Chaos {
    fn start(seed: u64) -> Option<Self> {
        let site = Site::start(NODES)?;
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let (begun, broken) = (Instant::now(), Vec::new());
        let counts = (0, 0, 0, 0);
        let (kills, faults, orders, editions) = counts;
        let mut chaos = Chaos { site, state, begun, broken, kills, faults, orders, editions };
        chaos.wait_for_policy();
        Some(chaos)
    }

    fn below(&mut self, bound: u64) -> u64 {
        // The upper bits are the better ones.
        (random(&mut self.state) >> 20) % bound
    }

    fn is_broken(&self, part: Part) -> bool {
        self.broken.iter().any(|(_, broken)| *broken == part)
    }

    fn say(&self, what: &str) {
        eprintln!("{:7.2} s: {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Breaks something for a while; false if it is broken already.
    fn fault(&mut self) -> bool {
        let node = usize::try_from(self.below(NODES as u64)).unwrap();
        let kind = self.below(27);
        let part = match kind {
            0..=3 => Part::Node(node),
            4 | 5 => Part::Database,
            6 | 7 => Part::Objects,
            8..=10 => Part::ToDatabase(node),
            11 => Part::ToObjects(node),
            12 | 13 => Part::NextHop,
            14 => Part::Drain(node),
            // Half of what is done while mail waits is to move it.
            25 | 26 if self.is_broken(Part::NextHop) => return self.move_queue(node),
            _ => return self.command(node, kind),
        };
        let drained = self.broken.iter().filter(|(_, p)| matches!(p, Part::Drain(_))).count();
        if self.is_broken(part) || (matches!(part, Part::Drain(_)) && drained > 1) {
            return false;
        }
        let how = self.below(3);
        if !self.break_part(part, how) {
            return false;
        }
        let lasts = Duration::from_millis(200 + self.below(6_000));
        self.say(&format!("{part:?} breaks ({how}) for {lasts:?}"));
        self.broken.push((Instant::now() + lasts, part));
        true
    }

    fn break_part(&mut self, part: Part, how: u64) -> bool {
        match (part, how) {
            (Part::Node(node), _) => {
                self.site.members[node].kill();
                self.kills += 1;
            }
            (Part::Database, 0) => self.site.server.pause(),
            (Part::Database, _) => self.site.server.kill(),
            (Part::Objects, 0) => self.site.s3.pause(),
            (Part::Objects, _) => self.site.s3.kill(),
            (Part::ToDatabase(node), 0) => self.site.members[node].database.set(Line::Cut),
            (Part::ToDatabase(node), 1) => {
                self.site.members[node].database.delay(Duration::from_secs(2));
            }
            (Part::ToDatabase(node), _) => self.site.members[node].database.set(Line::Held),
            (Part::ToObjects(node), 0) => self.site.members[node].objects.set(Line::Cut),
            (Part::ToObjects(node), _) => self.site.members[node].objects.set(Line::Held),
            (Part::NextHop, _) => {
                "450 4.3.0 not now".clone_into(&mut self.site.sink.answer.lock().unwrap());
            }
            (Part::Drain(node), _) => return self.order(node, &Order::Drain),
        }
        true
    }

    /// Makes a part whole; false if that has to wait.
    fn mend(&mut self, part: Part) -> bool {
        match part {
            Part::Node(node) => self.site.members[node].run(),
            Part::Database => self.site.server.mend(),
            Part::Objects => self.site.s3.mend(),
            Part::ToDatabase(node) => {
                self.site.members[node].database.delay(Duration::ZERO);
                self.site.members[node].database.set(Line::Open);
            }
            Part::ToObjects(node) => self.site.members[node].objects.set(Line::Open),
            Part::NextHop => {
                "250 2.0.0 taken".clone_into(&mut self.site.sink.answer.lock().unwrap());
            }
            Part::Drain(node) => return self.order(node, &Order::Undrain),
        }
        self.say(&format!("{part:?} is whole"));
        true
    }

    /// Makes whole what is due. A part counts as broken until it is whole: an order asks then
    /// whether there is a database.
    fn mend_due(&mut self, now: Instant) {
        let due: Vec<Part> =
            self.broken.iter().filter(|(at, _)| *at <= now).map(|(_, part)| *part).collect();
        for part in due {
            let is_whole = self.mend(part);
            let Some(at) = self.broken.iter().position(|(_, broken)| *broken == part) else {
                continue;
            };
            match is_whole {
                true => drop(self.broken.remove(at)),
                false => self.broken[at].0 = now + Duration::from_secs(1),
            }
        }
    }

    /// An administrator's doing.
    fn command(&mut self, node: usize, kind: u64) -> bool {
        match kind {
            // Only what waits can move.
            15 | 16 if !self.is_broken(Part::NextHop) => {
                let lasts = Duration::from_millis(2_000 + self.below(4_000));
                self.break_part(Part::NextHop, 0);
                self.broken.push((Instant::now() + lasts, Part::NextHop));
                self.say("the next hop refuses");
                true
            }
            15 | 16 => self.move_queue(node),
            17 => match self.below(2) {
                0 => self.order(node, &Order::Reload),
                _ => self.order(node, &Order::Retry { ids: Vec::new() }),
            },
            18 | 19 => match self.is_broken(Part::Database) {
                true => false,
                false => {
                    let one = Scope::Node(self.site.members[node].name.clone());
                    let scope = if self.below(4) == 0 { one } else { Scope::All };
                    self.publish(&scope)
                }
            },
            _ => self.decide_on_held_mail(),
        }
    }

    fn move_queue(&mut self, node: usize) -> bool {
        let to = (node + 1 + usize::try_from(self.below(3)).unwrap()) % NODES;
        let to = self.site.members[to].name.clone();
        self.order(node, &Order::Move { to, ids: Vec::new() })
    }

    /// Gives an order, if the database can be asked.
    fn order(&mut self, node: usize, order: &Order) -> bool {
        if self.is_broken(Part::Database) {
            return false;
        }
        let name = self.site.members[node].name.clone();
        self.say(&format!("{name} is to {}", order.name()));
        let database = database(&self.site.server.uri());
        self.site.block_on(async {
            let session = schema::session(&database).await.unwrap();
            orders::give(&session, &name, order, "ada").await.unwrap();
        });
        self.orders += 1;
        true
    }

    /// Orders some held mail to be released or deleted, now and then twice.
    fn decide_on_held_mail(&mut self) -> bool {
        if self.is_broken(Part::Database) {
            return false;
        }
        let sql = "SELECT h.item, n.name FROM gauntlet.held h JOIN gauntlet.node n ON n.id = h.node \
                   WHERE h.state = 'held' ORDER BY h.seq LIMIT 3";
        let rows = self.site.server.sql(sql);
        for row in rows.lines() {
            let (item, name) = row.split_once('|').unwrap();
            let (item, to) = (item.to_owned(), Vec::new());
            let order = match self.below(4) {
                0 => Order::Delete { item },
                _ => Order::Release { item, to, learn: false, addresses: None },
            };
            let at = self.site.members.iter().position(|member| member.name == name).unwrap();
            for _ in 0..=self.below(2) {
                self.order(at, &order);
            }
        }
        !rows.is_empty()
    }

    fn publish(&mut self, scope: &Scope) -> bool {
        self.editions += 1;
        let (text, database) = (policy(self.editions), database(&self.site.server.uri()));
        self.say(&format!("edition {} for {}", self.editions, scope.name()));
        self.site.block_on(async {
            let session = schema::session(&database).await.unwrap();
            let what = (text.as_str(), "ada", "");
            editions::publish(&session, Kind::Policy, scope, None, what).await.unwrap();
        });
        true
    }

    /// Withdraws what single nodes have, and waits until all go by a new one.
    fn wait_for_policy(&mut self) {
        let names: Vec<String> = self.site.members.iter().map(|m| m.name.clone()).collect();
        let database = database(&self.site.server.uri());
        self.site.block_on(async {
            let session = schema::session(&database).await.unwrap();
            for name in names {
                let (scope, none) = (Scope::Node(name), ("", "ada", ""));
                editions::publish(&session, Kind::Policy, &scope, None, none).await.unwrap();
            }
        });
        self.publish(&Scope::All);
        let newest: u64 =
            self.site.server.sql("SELECT max(number) FROM gauntlet.edition").parse().unwrap();
        self.site.wait("the newest policy is in force on all nodes", || {
            (0..NODES).all(|n| self.site.metric(n, "gauntlet_array_policy_number") == Some(newest))
        });
    }

    /// Breaks and mends for so long.
    fn run(&mut self, lasts: Duration) {
        self.begun = Instant::now();
        while self.begun.elapsed() < lasts {
            // Something that can be done is soon found.
            let happened = (0..10).any(|_| self.fault());
            self.faults += usize::from(happened);
            let next = Instant::now() + Duration::from_millis(300 + self.below(2_000));
            while Instant::now() < next {
                self.mend_due(Instant::now());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // The servers first: orders need them.
        self.broken.sort_by_key(|(_, part)| matches!(part, Part::Drain(_)));
        while !self.broken.is_empty() {
            self.mend_due(Instant::now() + Duration::from_secs(60));
        }
    }
}

/// What every order came to: all are answered, and each once.
fn orders_are_answered(chaos: &Chaos) {
    let count = |condition: &str| -> usize {
        let sql = format!("SELECT count(*) FROM gauntlet.node_order WHERE {condition}");
        chaos.site.server.sql(&sql).parse().unwrap()
    };
    assert_eq!(count("done IS NOT NULL"), chaos.orders);
    let failed = chaos.site.server.sql(
        "SELECT kind, outcome FROM gauntlet.node_order WHERE NOT is_good AND outcome NOT LIKE \
         'it is % already' AND kind <> 'move'",
    );
    assert_eq!(failed, "", "orders that failed");
}

#[test]
fn faults_at_random_lose_nothing_and_the_array_says_what_happened() {
    let seconds = number("GAUNTLET_ARRAY_SECONDS").unwrap_or(20);
    let seed = number("GAUNTLET_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("seed {seed}, {seconds} s");
    let Some(mut chaos) = Chaos::start(seed) else { return };
    let load = Load::start(chaos.site.front);
    chaos.run(Duration::from_secs(seconds));
    // Whatever happened, the array takes mail again.
    let before = load.taken();
    chaos.site.wait("mail is taken again", || load.taken() > before + 20);
    let answers = load.end();
    let mended = Instant::now();
    chaos.wait_for_policy();
    let account = account(&mut chaos.site, &answers);
    orders_are_answered(&chaos);
    assert_eq!(chaos.site.done(0, &["array", "nodes"]).lines().count(), NODES);
    eprintln!(
        "seed {seed}: {} faults, {} kills of nodes, {} orders, {} editions in {seconds} s; quiet and \
         accounted for {:.0} s later; {account:?}",
        chaos.faults,
        chaos.kills,
        chaos.orders,
        chaos.editions,
        mended.elapsed().as_secs_f64()
    );
    assert!(account.taken > 20, "there was load");
    let most = match seconds >= MANY_SECONDS {
        true => account.taken / DUPLICATE_IN,
        false => chaos.kills * (usize::from(CLIENTS) + ON_THE_WAY),
    };
    assert!(account.twice <= most, "{} came twice, {most} may", account.twice);
}
