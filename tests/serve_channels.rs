//! A node that follows a channel while mail flows: what is published judges within seconds, and
//! what is wrong changes nothing.

use std::fs;

use gauntlet_engine::signatures::fingerprint;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_store::{Log, LogRecord, Query};
use gauntlet_verdict::Class;

use crate::common::channels::{Publisher, Subscriber, bad, good};
use crate::common::{Node, Smtp, http_get, message};

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

#[test]
fn a_model_of_another_shape_and_a_rule_that_never_ends_change_nothing() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.0);
    let node = Node::start(&publisher.settings("main", &publisher.url()));
    wait_for_version(&node, 2);
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/model/");
    let model = fs::read_dir(shipped).unwrap().flatten().map(|entry| entry.path());
    let model = model.filter(|path| path.extension().is_some_and(|e| e == "model")).min();
    let model = fs::read(model.expect("a shipped model")).unwrap();
    // A table of more bits, whose checksum is right.
    let mut other = model.clone();
    other[12] += 1;
    let content = other.len() - 32;
    let hash = blake3::hash(&other[..content]);
    other[content..].copy_from_slice(hash.as_bytes());
    let mut damaged = model.clone();
    damaged[model.len() / 2] ^= 1;
    let steps = "a?".repeat(40) + &"a".repeat(40);
    let endless = format!("body CHANNEL_TODAY /^({steps}|(a+)+b\\1)$/\nscore CHANNEL_TODAY 1\n");
    for (name, bytes) in [
        ("model/mine.model", &model[..model.len() / 3]),
        ("model/mine.model", &other),
        ("model/mine.model", &damaged),
        ("model/mine.model", b"no model at all"),
        ("rules/today.cf", endless.as_bytes()),
    ] {
        let content = publisher.path("content");
        fs::remove_dir_all(&content).unwrap();
        publisher.write("rules/kept.cf", "body CHANNEL_KEPT /tomatoes/\n");
        publisher.write(name, bytes);
        bad(&publisher.try_to_publish());
        publisher.publish_unchecked();
        let failed = "gauntlet_channel_pulls_failed_total{channel=\"main\"}";
        let before = node.metric(failed);
        node.wait_until("the bad version is refused", || node.metric(failed) > before);
        assert_eq!(node.metric("gauntlet_channel_version{channel=\"main\"}"), 2, "{name}");
    }
    publisher.write("rules/today.cf", crate::common::channels::rule("potatoes", 1.0));
    let _ = fs::remove_dir_all(publisher.path("content/model"));
    publisher.publish();
    node.wait_until("a good one judges", || hits(&judged(&node, &token(), "fresh potatoes\r\n")));
}

/// A subject that no other message has.
fn token() -> String {
    let mut seed =
        u64::from(std::process::id()) ^ gauntlet_gateway::clock::now_ms().cast_unsigned();
    format!("u{:x}", crate::common::random(&mut seed))
}

#[test]
fn a_small_file_of_signatures_is_taken_over_without_reading_the_rest_again() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.0);
    let other = "Buy these fine replica watches before the night is over.\r\n".repeat(30);
    publisher.write("signatures/table", entries(&[message("first", 0), other.into()].concat()));
    publisher.publish();
    let node = Node::start(&publisher.settings("main", &publisher.url()));
    wait_for_version(&node, 3);
    let before = judged(&node, "before", "fresh tomatoes\r\n").verdict.ruleset;
    // The file that did not change may not be opened: what is in force has it.
    let kept = node.data().join("channels/main/generations/3/signatures/table");
    fs::write(&kept, "damaged, and as long as").unwrap();
    fs::File::options().write(true).open(&kept).unwrap().set_len(kept_bytes(&publisher)).unwrap();
    publisher.write("signatures/today", entries(&message("known", 3_000)));
    publisher.publish();
    wait_for_version(&node, 4);
    let text = "We agreed to meet again next week and to bring the figures.\r\n".repeat(45);
    let record = judged(&node, "known", &text);
    assert!(record.verdict.hits.iter().any(|hit| &*hit.rule == "SIGNATURE_BAD"));
    assert!(
        hits(&judged(&node, "after", "fresh tomatoes\r\n")) && record.verdict.ruleset != before
    );
    assert!(node.metric("gauntlet_channel_take_over_milliseconds{channel=\"main\"}") > 0);
    assert!(node.log().contains("taken over"), "{}", node.log());
}

fn kept_bytes(publisher: &Publisher) -> u64 {
    fs::metadata(publisher.path("content/signatures/table")).unwrap().len()
}
