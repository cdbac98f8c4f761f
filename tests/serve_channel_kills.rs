//! SIGKILL while a node takes a version over under load: every message that was answered 250 is
//! delivered, and each verdict is of one version whole.
//!
//! `GAUNTLET_KILLS` says how often, 6 times by default; `.ci/long` asks for more.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gauntlet_channel::generations::Generations;
use gauntlet_store::{Log, Query};

use crate::common::channels::{Publisher, rule};
use crate::common::{Node, PATIENCE, Smtp, message, random, tokens};

/// Longest time from the beginning of a take-over to a kill, in milliseconds.
const UNTIL_KILL_MS_MAX: u64 = 1_200;
/// Clients that send at once.
const CLIENTS: usize = 2;

fn kills() -> u64 {
    let text = std::env::var("GAUNTLET_KILLS").unwrap_or_else(|_| "6".to_owned());
    text.parse().expect("GAUNTLET_KILLS is a number")
}

/// Publishes a version of which both rules have the number, so that a mixture would show.
fn publish(publisher: &Publisher, number: u64) {
    let word = format!("x{number}y");
    publisher.write("rules/second.cf", rule(&word, 0.1).replace("TODAY", "SECOND"));
    // Known mail beside them, as in a version that probes make.
    publisher.write("urls/spam/list", format!("{word}.example\n"));
    publisher.publish_rule(&word, 0.1);
}

/// What clients sent, and what was answered 250.
#[derive(Default)]
struct Sent {
    number: AtomicU64,
    acknowledged: Mutex<BTreeSet<String>>,
}

impl Sent {
    /// Sends messages that this version's rules hit until told to stop, or until the node is gone.
    fn load(&self, smtp: std::net::SocketAddr, stop: &AtomicBool, version: u64) {
        let Ok(mut client) = Smtp::connect(smtp) else { return };
        while !stop.load(Ordering::Relaxed) {
            let token = format!("t{}", self.number.fetch_add(1, Ordering::Relaxed));
            let mut raw = message(&token, 0);
            raw.extend_from_slice(format!("x{version}y\r\n").as_bytes());
            match client.send("a@example.org", &["b@example.net"], &raw) {
                Ok(reply) if reply.starts_with("250") => {
                    self.acknowledged.lock().unwrap().insert(token);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

#[test]
fn kills_during_take_over_under_load_lose_nothing_and_verdicts_are_of_one_version() {
    let publisher = Publisher::new();
    publish(&publisher, 2);
    let mut node = Node::start(&publisher.settings("main", &publisher.url()));
    let version = "gauntlet_channel_version{channel=\"main\"}";
    node.wait_until("the first is in force", || node.metric(version) == 2);
    let (mut seed, sent) = (0x2545_f491_4f6c_dd1d, Sent::default());
    // Kills that found the old version in force on disk, and the new one.
    let mut found = [0u64; 2];
    for number in 3..kills() + 3 {
        let (stop, smtp) = (AtomicBool::new(false), node.smtp);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| sent.load(smtp, &stop, number));
            }
            publish(&publisher, number);
            let generations = node.data().join("channels/main/generations");
            let begun = [format!("{number}.partial"), number.to_string()];
            let began = Instant::now();
            while !begun.iter().any(|name| generations.join(name).exists()) {
                assert!(began.elapsed() < PATIENCE, "nothing is fetched: {}", node.log());
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(random(&mut seed) % UNTIL_KILL_MS_MAX));
            node.kill();
            stop.store(true, Ordering::Relaxed);
        });
        let generations = Generations::read(&node.data().join("channels/main"));
        let current = generations.current().expect("a version is in force");
        generations.check(current).expect("it is whole");
        found[usize::from(current == number)] += 1;
        node.run();
    }
    node.wait_until("the last is in force", || node.metric(version) == kills() + 2);
    node.wait_for_empty_queue();
    let delivered = tokens(&node.maildir());
    node.stop();
    let acknowledged = sent.acknowledged.into_inner().unwrap();
    let lost: Vec<_> =
        acknowledged.iter().filter(|token| !delivered.contains_key(*token)).collect();
    assert!(lost.is_empty(), "{} lost: {lost:?}\n{}", lost.len(), node.log());
    let (judged, mixed) = verdicts(&node);
    assert_eq!(mixed, Vec::<String>::new());
    assert!(judged >= acknowledged.len(), "{judged} of {}", acknowledged.len());
    eprintln!(
        "{} kills, {} with the old version in force and {} with the new one; {} messages \
         acknowledged, {} delivered, none lost; {judged} verdicts, each of one version",
        kills(),
        found[0],
        found[1],
        acknowledged.len(),
        delivered.len()
    );
}

/// How many verdicts are in the log, and the subjects of those that are of two versions.
fn verdicts(node: &Node) -> (usize, Vec<String>) {
    let log = Log::open(&node.data().join("log")).unwrap();
    let (mut query, mut judged, mut mixed) =
        (Query { limit: 200, ..Query::default() }, 0, Vec::new());
    loop {
        let page = log.search(&query).unwrap();
        for summary in &page.messages {
            let record = log.get(&summary.id).unwrap().expect("a whole line").record;
            let has = |rule: &str| record.verdict.hits.iter().any(|hit| &*hit.rule == rule);
            if has("CHANNEL_TODAY") != has("CHANNEL_SECOND") {
                mixed.push(record.subject.clone());
            }
            judged += 1;
        }
        query.after = page.next;
        if query.after.is_none() {
            return (judged, mixed);
        }
    }
}
