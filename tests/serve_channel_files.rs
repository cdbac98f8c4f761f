//! Phrases, YARA rules and lists of hashes of a channel, on a node with mail and web; and what no
//! channel brings.

use std::time::Duration;

use crate::common::Smtp;
use crate::common::channels::{Publisher, Subscriber, bad, good};
use crate::{engines, serve_web};

const MARKER: &str = "a marker that no other file has";

/// Whether a node calls a message with a file malware.
fn is_malware(node: &crate::common::Node, content: &str) -> bool {
    let found = || node.metric("gauntlet_messages_rejected_total");
    let held = || node.metric("gauntlet_quarantined_total");
    let before = found() + held();
    let mut client = Smtp::connect(node.smtp).unwrap();
    let message = engines::mail("minutes.bin", content.as_bytes());
    let _answered = client.send("a@b.example", &["bob@example.net"], &message).unwrap();
    node.wait_for_empty_queue();
    found() + held() > before
}

#[test]
fn phrases_rules_and_hashes_of_a_channel_judge_pages_and_files() {
    let publisher = Publisher::new();
    let settings = publisher.settings("main", &publisher.url());
    let Some(site) = serve_web::start("blocked.example\n", &settings) else { return };
    let url = format!("http://{}/", serve_web::page_server());
    assert!(site.ask(&[&url]).ends_with(" 200"));
    assert!(!is_malware(&site.node, &format!("x {MARKER} y")));
    publisher.write("phrases/words.txt", "page 200\n");
    publisher.write(
        "yara/marker.yar",
        format!("rule marker {{ strings: $m = \"{MARKER}\" condition: $m }}"),
    );
    let known = "a file that is known by its hash";
    let hash = ring::digest::digest(&ring::digest::SHA256, known.as_bytes());
    let hash: String = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    publisher.write("hashes/known.txt", format!("{hash}  Known.Marker\n"));
    publisher.publish();
    site.node.wait_until("its words block a page", || {
        std::thread::sleep(Duration::from_millis(200));
        site.ask(&[&url]).ends_with(" 403")
    });
    assert!(is_malware(&site.node, &format!("x {MARKER} y")));
    assert!(is_malware(&site.node, known));
    assert!(!is_malware(&site.node, "another file"));
    let metrics = crate::common::http_get(site.node.console, "/metrics");
    for engine in ["main/yara", "main/hashes"] {
        let line = format!("gauntlet_engine_found_total{{engine={engine:?}}} ");
        assert!(metrics.contains(&line), "{metrics}");
    }
    // Without them the page passes again.
    std::fs::remove_dir_all(publisher.path("content/phrases")).unwrap();
    publisher.publish();
    site.node.wait_until("the page passes", || {
        std::thread::sleep(Duration::from_millis(200));
        site.ask(&[&url]).ends_with(" 200")
    });
}

#[test]
fn what_no_node_reads_or_may_read_is_not_published() {
    for (name, text, why) in [
        ("policy/mine.toml", "[[rule]]\n", "no node takes its policy from a channel"),
        ("notes/read.me", "x", "nothing reads it; a bundle's folders are rules"),
        ("phrases/a.txt", ".Include</etc/hostname>\n", "include no other file"),
        ("phrases/a.txt", "#\n", "no phrase in it"),
        ("yara/a.yar", "include \"/etc/hostname\"\n", "include no other file"),
        ("yara/a.yar", "rule a { condition: x }", "yara/a.yar, line 1"),
        ("hashes/a.txt", "no hash at all\n", "hashes/a.txt"),
        ("order/a", "messages many\n", "hit rates, line 1"),
    ] {
        let publisher = Publisher::new();
        publisher.write(name, text);
        let said = bad(&publisher.try_to_publish());
        assert!(said.contains(why), "{name}: {said}");
    }
}

/// A site whose channel is tried for so long.
fn tried(publisher: &Publisher, trial: &str) -> Option<serve_web::Site> {
    let settings = publisher.settings("main", &publisher.url());
    let settings = settings.replace("canary_seconds = 0\n", "");
    serve_web::start("blocked.example\n", &format!("{settings}canary_percent = 100\n{trial}"))
}

#[test]
fn yara_rules_that_hit_good_files_are_stopped_by_the_trial() {
    let publisher = Publisher::new();
    let trial = "canary_seconds = 600\ncanary_messages_min = 5\n";
    let Some(site) = tried(&publisher, trial) else { return };
    let text = "rule too_wide { strings: $m = \"the minutes\" condition: $m }";
    publisher.write("yara/wide.yar", text);
    publisher.publish();
    let (mut number, rejected) = (0, "gauntlet_channel_rejected_total{channel=\"main\"}");
    site.node.wait_until("it is rejected", || {
        number += 1;
        assert!(!is_malware(&site.node, &format!("{number}: the minutes of Tuesday")));
        std::thread::sleep(Duration::from_millis(100));
        site.node.metric(rejected) == 1
    });
    let said = good(&Subscriber(&site.node.data()).run(&["show"]));
    assert!(said.contains("ham -> malware"), "{said}");
    assert!(said.contains("would be suspect or worse"), "{said}");
    assert!(!is_malware(&site.node, "after all: the minutes"));
}

#[test]
fn phrases_that_block_good_pages_are_stopped_by_the_trial() {
    let publisher = Publisher::new();
    let trial = "canary_seconds = 600\ncanary_messages_min = 5\n";
    let Some(site) = tried(&publisher, trial) else { return };
    let url = format!("http://{}/", serve_web::page_server());
    publisher.write("phrases/words.txt", "page 200\n");
    publisher.publish();
    let rejected = "gauntlet_channel_rejected_total{channel=\"main\"}";
    site.node.wait_until("it is rejected", || {
        assert!(site.ask(&[&url]).ends_with(" 200"), "it judges no page");
        std::thread::sleep(Duration::from_millis(100));
        site.node.metric(rejected) == 1
    });
    let said = good(&Subscriber(&site.node.data()).run(&["show"]));
    assert!(said.contains("pages that pass would be blocked, mostly for \"page\""), "{said}");
    assert!(site.ask(&[&url]).ends_with(" 200"));
}

#[test]
fn downloads_are_looked_at_by_rules_of_a_channel() {
    let publisher = Publisher::new();
    let settings = publisher.settings("main", &publisher.url());
    let Some(site) = serve_web::start("blocked.example\n", &settings) else { return };
    let server = serve_web::file_server(format!("x {MARKER} y").into_bytes());
    let url = format!("http://{server}/setup.bin");
    assert!(site.ask(&[&url]).ends_with(" 200"));
    let rule = format!("rule marker {{ strings: $m = \"{MARKER}\" condition: $m }}");
    publisher.write("yara/marker.yar", rule);
    publisher.publish();
    site.node.wait_until("the download is blocked", || {
        std::thread::sleep(Duration::from_millis(200));
        site.ask(&[&url]).ends_with(" 403")
    });
    std::fs::remove_dir_all(publisher.path("content/yara")).unwrap();
    publisher.write("phrases/words.txt", "no such words 200\n");
    publisher.publish();
    site.node.wait_until("it passes again", || {
        std::thread::sleep(Duration::from_millis(200));
        site.ask(&[&url]).ends_with(" 200")
    });
}
