//! From the first message to a probe account of one node to the block on two others, by a channel:
//! three nodes and a publisher that goes on by itself.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gauntlet_store::{Log, Query};

use crate::common::channels::Publisher;
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
    let body =
        "Buy these fine replica watches of our shop before the night is over.\r\n".repeat(30);
    for (number, node) in others.iter().enumerate() {
        assert!(!knows(node, &format!("before{number}"), &body));
    }
    let began = Instant::now();
    let mut client = Smtp::connect(first.smtp).unwrap();
    let raw = [message("probe", 0), body.as_bytes().to_vec()].concat();
    client.send("a@example.org", &["trap@example.net"], &raw).unwrap();
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
