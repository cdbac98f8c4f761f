//! From the first message to a probe of one node to the block on two others, by a channel: three
//! nodes, and a publisher beside the first or in it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gauntlet_store::{Log, Query};

use crate::common::channels::{Publisher, activity, good};
use crate::common::{Node, Smtp, message};

/// A publisher that looks every second for what a node's probes have learned.
struct Publishing(Child);

impl Publishing {
    fn start(publisher: &Publisher, node: &Node) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["channel", "publish"])
            .args([publisher.channel(), publisher.path("content")])
            .arg("--keys")
            .arg(publisher.path("keys"))
            .arg("--probes")
            .arg(node.data())
            .args(["--every", "1"])
            .env_remove("GAUNTLET_CONFIG")
            .stdout(Stdio::null())
            .spawn();
        Publishing(child.unwrap())
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Whether a node knows a message as bad.
fn knows(node: &Node, token: &str, body: &str) -> bool {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let raw = [message(token, 0), body.as_bytes().to_vec()].concat();
    client.send("a@example.org", &["b@example.net"], &raw).unwrap();
    let mut known = None;
    node.wait_until("the message is in the log", || {
        let log = Log::open(&node.data().join("log")).unwrap();
        let page = log.search(&Query { limit: 100, ..Query::default() }).unwrap();
        let found = page.messages.iter().find(|m| m.subject.contains(token));
        let record = found.and_then(|m| log.get(&m.id).unwrap()).map(|logged| logged.record);
        known = record.map(|record| record.verdict.hit("SIGNATURE_BAD").is_some());
        known.is_some()
    });
    known.unwrap()
}

#[test]
fn what_comes_to_a_probe_account_of_one_node_is_known_to_the_others() {
    let publisher = Publisher::new();
    let first = Node::start("[learning]\nprobes = [\"trap@example.net\"]\nrefresh_seconds = 1\n");
    let _publishing = Publishing::start(&publisher, &first);
    let settings = publisher.settings("main", &publisher.url());
    let others = [Node::start(&settings), Node::start(&settings)];
    from_the_probe_to_the_others(&first, "trap@example.net", &others);
}

/// Sends a message to a probe of one node, and waits until the others know its like.
pub(crate) fn from_the_probe_to_the_others(first: &Node, probe: &str, others: &[Node]) {
    let body =
        "Buy these fine replica watches of our shop before the night is over.\r\n".repeat(30);
    for (number, node) in others.iter().enumerate() {
        assert!(!knows(node, &format!("before{number}"), &body));
    }
    let began = Instant::now();
    let mut client = Smtp::connect(first.smtp).unwrap();
    let raw = [message("probe", 0), body.as_bytes().to_vec()].concat();
    client.send("a@example.org", &[probe], &raw).unwrap();
    for (number, node) in others.iter().enumerate() {
        let mut tries = 0;
        node.wait_until("it is known there", || {
            tries += 1;
            std::thread::sleep(Duration::from_millis(200));
            knows(node, &format!("n{number}t{tries}x"), &body)
        });
    }
    eprintln!("from the probe to the last node: {:?}", began.elapsed());
}

/// A node with a listener for traps that publishes by itself, and the channel.
fn trap_that_publishes() -> (Publisher, Node) {
    trap_of(Publisher::new(), "")
}

/// The same of a publisher with further settings.
pub(crate) fn trap_of(publisher: Publisher, more: &str) -> (Publisher, Node) {
    let (channel, keys) = (publisher.channel(), publisher.path("keys"));
    std::fs::rename(keys.join("root-1.pem"), publisher.path("root-1.pem")).unwrap();
    let config = format!(
        "[facts]\nenabled = false\n[channel_publish]\nfolder = {channel:?}\nkeys = {keys:?}\n\
         interval_seconds = 1\n{more}"
    );
    let node = Node::start_listening("role = \"trap\"", &config);
    (publisher, node)
}

#[test]
fn a_node_with_a_trap_publishes_by_itself_what_two_others_then_know() {
    let (publisher, first) = trap_that_publishes();
    let settings = publisher.settings("main", &publisher.url());
    let others = [Node::start(&settings), Node::start(&settings)];
    from_the_probe_to_the_others(&first, "anybody@anywhere.example", &others);
    assert!(first.metric("gauntlet_channel_publish_version") >= 2);
    assert!(first.metric("gauntlet_channel_publish_signatures") > 0);
    assert_eq!(first.metric("gauntlet_channel_publish_failed_total"), 0);
    let said = good(&publisher.run("show", &[]));
    assert!(said.contains("note       what probes brought"), "{said}");
    let activity = activity(&first);
    assert!(activity.contains("publish channel"), "{activity}");
}

/// Sends a message that leads to a URL; from this address of the machine.
fn lead(node: &Node, number: u8, url: &str, more: &str) {
    let mut client = Smtp::connect_from([127, 0, number, 1], node.smtp).unwrap();
    let raw =
        [message(&format!("lead{number}"), 0), format!("{url}\r\n{more}\r\n").into()].concat();
    let from = format!("a@sender{number}.example");
    let said = client.send(&from, &["b@example.net"], &raw).unwrap();
    assert!(said.starts_with("250"), "{said}");
}

#[test]
fn urls_of_several_probe_messages_are_blocked_on_another_node_and_shared_hosts_are_not() {
    const BAD: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
    let (publisher, first) = trap_that_publishes();
    let other = Node::start(&publisher.settings("main", &publisher.url()));
    for number in 1..=3 {
        lead(&first, number, "http://parcels.evil.com/in.php https://docs.google.com/forms/1", BAD);
    }
    first.wait_until("an entry is published", || {
        first.metric("gauntlet_channel_publish_url_entries") == 1
    });
    let mut tries = 0;
    other.wait_until("its page is blocked there", || {
        tries += 1;
        std::thread::sleep(Duration::from_millis(200));
        listed(&other, &format!("t{tries}x"), "http://parcels.evil.com/in.php?id=7")
            == ["main/spam/probes"]
    });
    assert!(listed(&other, "page", "http://parcels.evil.com/other").is_empty());
    assert!(listed(&other, "shared", "https://docs.google.com/forms/1").is_empty());
    assert_eq!(first.metric("gauntlet_channel_publish_url_hosts_left_out"), 1);
}

/// The lists that a message is on which leads to this URL.
fn listed(node: &Node, token: &str, url: &str) -> Vec<String> {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let raw = [message(token, 0), format!("{url}\r\n").into_bytes()].concat();
    client.send("a@example.org", &["b@example.net"], &raw).unwrap();
    let mut lists = None;
    node.wait_until("the message is in the log", || {
        let log = Log::open(&node.data().join("log")).unwrap();
        let page = log.search(&Query { limit: 200, ..Query::default() }).unwrap();
        let found = page.messages.iter().find(|m| m.subject.contains(token));
        let record = found.and_then(|m| log.get(&m.id).unwrap()).map(|logged| logged.record);
        lists = record.map(|r| r.verdict.url_lists.into_iter().map(|l| l.list).collect());
        lists.is_some()
    });
    lists.unwrap()
}

#[test]
fn a_publisher_without_keys_or_with_the_roots_says_so_and_publishes_nothing() {
    let (publisher, node) = trap_that_publishes();
    let keys = publisher.path("keys");
    node.wait_until("it published", || node.metric("gauntlet_channel_publish_rounds_total") > 0);
    std::fs::copy(publisher.path("root-1.pem"), keys.join("root-1.pem")).unwrap();
    node.wait_until("the root's key is told", || activity(&node).contains("has a key of the root"));
    std::fs::remove_file(keys.join("root-1.pem")).unwrap();
    std::fs::rename(keys.join("timestamp-1.pem"), publisher.path("kept")).unwrap();
    let failed = node.metric("gauntlet_channel_publish_failed_total");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let body = "A text that nobody has seen before this day, and that goes on for a while.\r\n";
    let raw = [message("probe", 0), body.repeat(30).into_bytes()].concat();
    client.send("a@example.org", &["x@example.net"], &raw).unwrap();
    node.wait_until("a missing key is told", || {
        node.metric("gauntlet_channel_publish_failed_total") > failed
            && node.log().contains("nothing was published")
    });
    std::fs::rename(publisher.path("kept"), keys.join("timestamp-1.pem")).unwrap();
    node.wait_until("it publishes again", || {
        node.metric("gauntlet_channel_publish_signatures") > 0
            && node.metric("gauntlet_channel_publish_version") > 1
    });
    good(&publisher.run("verify", &[]));
}

#[test]
fn rules_of_the_publishers_folder_go_with_what_probes_bring_and_nothing_else_is_signed() {
    let publisher = Publisher::new();
    publisher.write("rules/today.cf", crate::common::channels::rule("tomatoes", 1.0));
    let content = publisher.path("content");
    let (publisher, node) = trap_of(publisher, &format!("content = {content:?}\n"));
    node.wait_until("the rules are published", || {
        node.metric("gauntlet_channel_publish_versions_total") > 0
    });
    let said = good(&publisher.run("show", &[]));
    assert!(said.contains("\nrules") && said.contains("\nsignatures"), "{said}");
    // The keys are another process's: this one has them neither open nor within its reach.
    let keys = publisher.path("keys");
    let files = std::fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap().flatten();
    let mut open = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    assert!(!open.any(|path| path.starts_with(&keys)));
    // A change of the publisher's is published, too.
    publisher.write("rules/today.cf", crate::common::channels::rule("potatoes", 1.0));
    node.wait_until("the change is published", || {
        node.metric("gauntlet_channel_publish_versions_total") > 1
    });
    good(&publisher.run("verify", &[]));
}
