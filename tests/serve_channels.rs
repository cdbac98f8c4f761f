//! A node that follows a channel while mail flows: what is published judges within seconds, what is
//! wrong changes nothing, and a kill leaves one version or the other.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gauntlet_engine::signatures::fingerprint;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_store::{Log, LogRecord, Query};
use gauntlet_verdict::Class;

use crate::common::channels::{Publisher, Subscriber, good, rule};
use crate::common::{Node, Smtp, http_get, message, random};

/// Sends a message; its line of the log.
fn judged(node: &Node, token: &str, text: &str) -> LogRecord {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut raw = message(token, 0);
    raw.extend_from_slice(text.as_bytes());
    client.send("a@example.org", &["b@example.net"], &raw).unwrap();
    let mut found = None;
    node.wait_until("the message is in the log", || {
        found = records(node).into_iter().find(|r| r.subject.contains(token));
        found.is_some()
    });
    found.unwrap()
}

/// The message log of a node, which may run; newest first.
fn records(node: &Node) -> Vec<LogRecord> {
    let log = Log::open(&node.data().join("log")).unwrap();
    let page = log.search(&Query { limit: 500, ..Query::default() }).unwrap();
    let whole = |id: &str| log.get(id).unwrap().map(|found| found.record);
    page.messages.iter().filter_map(|message| whole(&message.id)).collect()
}

fn hits(record: &LogRecord) -> bool {
    record.verdict.hits.iter().any(|hit| &*hit.rule == "CHANNEL_TODAY")
}

fn wait_for_version(node: &Node, version: u64) {
    node.wait_until("the version is in force", || {
        node.metric("gauntlet_channel_version{channel=\"main\"}") == version
    });
}

#[test]
fn a_node_judges_by_what_is_published_and_stays_with_it_without_a_mirror() {
    let publisher = Publisher::new();
    let mut node = Node::start(&publisher.settings("main", &publisher.url()));
    assert!(!hits(&judged(&node, "one", "fresh tomatoes\r\n")));
    publisher.publish_rule("tomatoes", 1.0);
    wait_for_version(&node, 2);
    assert!(hits(&judged(&node, "two", "fresh tomatoes\r\n")));
    // A list of URLs, compiled where it is used.
    publisher.write("urls/phishing/today.txt", "evil.example/login\n");
    publisher.publish();
    wait_for_version(&node, 3);
    let record = judged(&node, "three", "see http://evil.example/login now\r\n");
    assert_eq!(record.verdict.class, Class::Phishing);
    assert_eq!(record.verdict.url_lists[0].list, "main/today");
    // Known mail alone.
    let raw = message("known", 3_000);
    publisher.write("signatures/today", entries(&raw));
    publisher.publish();
    wait_for_version(&node, 4);
    let record = judged(
        &node,
        "known",
        &"We agreed to meet again next week and to bring the figures.\r\n".repeat(45),
    );
    let is_known = record.verdict.hits.iter().any(|hit| &*hit.rule == "SIGNATURE_BAD");
    assert!(is_known, "{:?}", record.verdict.hits);
    // Without the mirror, and started again.
    let away = publisher.path("away");
    fs::rename(publisher.channel(), &away).unwrap();
    node.stop();
    fs::create_dir(publisher.channel()).unwrap();
    fs::copy(away.join("1.root.json"), publisher.root()).unwrap();
    node.run();
    assert_eq!(node.metric("gauntlet_channel_version{channel=\"main\"}"), 4);
    let record = judged(&node, "five", "fresh tomatoes at http://evil.example/login\r\n");
    assert!(hits(&record) && record.verdict.class == Class::Phishing);
    node.wait_until("the failure is told", || {
        node.metric("gauntlet_channel_failures{channel=\"main\"}") >= 2
    });
    assert!(node.log().contains("what is in force stays"), "{}", node.log());
    let said = good(&Subscriber(&node.data()).run(&["show"]));
    assert!(said.contains("version 4") && said.contains("PROBLEM"), "{said}");
    let activity =
        crate::common::channels::gauntlet(&["activity", "--data", node.data().to_str().unwrap()]);
    let activity = good(&activity);
    assert!(activity.contains("main from version 3 to 4"), "{activity}");
    assert!(activity.contains("channel failed"), "{activity}");
}

/// Fingerprints of a message as a file of known bad mail.
fn entries(raw: &[u8]) -> Vec<u8> {
    let mut scratch = gauntlet_engine::Scratch::default();
    let found = scratch.fingerprints(&gauntlet_mail::Message::parse(raw));
    let day = u16::try_from(gauntlet_gateway::clock::now_ms() / 86_400_000).unwrap();
    let entry = |f: fingerprint::Found| Entry { fingerprint: f.fingerprint, bad: 9, good: 0, day };
    let entries: Vec<Entry> = found.into_iter().map(entry).collect();
    assert!(!entries.is_empty());
    let file = tempfile::NamedTempFile::new().unwrap();
    gauntlet_learning::signatures::write_file(file.path(), &entries).unwrap();
    fs::read(file.path()).unwrap()
}

#[test]
fn a_version_that_cannot_judge_changes_nothing_until_a_good_one_comes() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.0);
    let node = Node::start(&publisher.settings("main", &publisher.url()));
    wait_for_version(&node, 2);
    let ruleset = judged(&node, "before", "x\r\n").verdict.ruleset;
    for (n, bad) in
        ["body BROKEN /(unclosed/\n", "body ALL /e/\nscore ALL 100\n"].iter().enumerate()
    {
        publisher.write("rules/today.cf", bad);
        publisher.publish_unchecked();
        let failed = "gauntlet_channel_pulls_failed_total{channel=\"main\"}";
        let before = node.metric(failed);
        node.wait_until("the bad version is refused", || node.metric(failed) > before);
        let record = judged(&node, &format!("during{n}"), "fresh tomatoes\r\n");
        assert!(hits(&record));
        assert_eq!(record.verdict.ruleset, ruleset);
    }
    publisher.publish_rule("potatoes", 1.0);
    wait_for_version(&node, 5);
    assert!(hits(&judged(&node, "after", "fresh potatoes\r\n")));
    // Rolled back by a command: the node follows.
    good(&Subscriber(&node.data()).run(&["rollback", "main"]));
    wait_for_version(&node, 2);
    assert!(hits(&judged(&node, "back", "fresh tomatoes\r\n")));
    assert!(http_get(node.console, "/metrics").contains("gauntlet_channel_swap_milliseconds"));
}

/// How often: `GAUNTLET_KILLS`, or some.
fn kills() -> u64 {
    let text = std::env::var("GAUNTLET_KILLS").unwrap_or_else(|_| "6".to_owned());
    text.parse().expect("GAUNTLET_KILLS is a number")
}

#[test]
fn kills_during_take_over_under_load_lose_nothing_and_verdicts_are_of_one_version() {
    let publisher = Publisher::new();
    // Both rules of a version have its number, so that a mixture would show.
    let publish = |n: u64| {
        let second = rule(&format!("x{n}y"), 0.1).replace("TODAY", "SECOND");
        publisher.write("rules/second.cf", second);
        publisher.publish_rule(&format!("x{n}y"), 0.1);
    };
    publish(2);
    let mut node = Node::start(&publisher.settings("main", &publisher.url()));
    wait_for_version(&node, 2);
    let (mut seed, mut taken) = (0x2545_f491_4f6c_dd1d, 0usize);
    let sent = AtomicU64::new(0);
    for n in 1..=kills() {
        let (stop, smtp) = (AtomicBool::new(false), node.smtp);
        taken += std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..2).map(|_| scope.spawn(|| load(smtp, &stop, &sent, n + 2))).collect();
            publish(n + 2);
            std::thread::sleep(Duration::from_millis(600 + random(&mut seed) % 1_500));
            node.kill();
            stop.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
        });
        node.run();
    }
    wait_for_version(&node, kills() + 2);
    node.wait_for_empty_queue();
    node.stop();
    assert!(node.logged() >= taken, "{} of {taken}", node.logged());
    for record in records(&node) {
        let has = |rule: &str| record.verdict.hits.iter().any(|hit| &*hit.rule == rule);
        assert_eq!(has("CHANNEL_TODAY"), has("CHANNEL_SECOND"), "{}", record.subject);
    }
}

/// Sends messages with the words of all versions around this one until told to stop, or until the
/// node is gone. Returns how many were taken.
fn load(smtp: std::net::SocketAddr, stop: &AtomicBool, sent: &AtomicU64, version: u64) -> usize {
    let mut taken = 0;
    let Ok(mut client) = Smtp::connect(smtp) else { return 0 };
    while !stop.load(Ordering::Relaxed) {
        let token = format!("t{}", sent.fetch_add(1, Ordering::Relaxed));
        let mut raw = message(&token, 0);
        raw.extend_from_slice(format!("x{version}y\r\n").as_bytes());
        match client.send("a@example.org", &["b@example.net"], &raw) {
            Ok(reply) if reply.starts_with("250") => taken += 1,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    taken
}
