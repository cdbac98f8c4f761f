//! Nodes of an array share what they are taught, who waits, and how often somebody came.

use std::process::Command;

use gauntlet_learning::Corrections;
use gauntlet_store::{Log, Query};

use crate::common::{Node, Smtp, http_get, message};
use crate::postgres::Server;

/// Nothing is asked of the network, and everything happens soon.
fn settings(server: &Server, more: &str) -> String {
    format!(
        "[array]\ndatabase = \"{}\"\nship_seconds = 1\nstatus_seconds = 1\nshare_seconds = 1\n\
         [facts]\nenabled = false\n[learning]\nrefresh_seconds = 1\n\
         probes = [\"trap@example.net\"]\n{more}",
        server.uri()
    )
}

/// A value of a metric of shared state.
fn shared(node: &Node, name: &str, kind: &str) -> u64 {
    let prefix = format!("gauntlet_array_shared_{name}{{kind=\"{kind}\"}} ");
    let text = http_get(node.console, "/metrics");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok()).unwrap_or(0)
}

fn letter(token: &str, theme: &str) -> Vec<u8> {
    format!(
        "From: shop@example.org\r\nSubject: {token}\r\nMessage-ID: <{token}@example.org>\r\n\r\n\
         Dear {token}, our records show that your {theme} could not be delivered because the\r\n\
         address was incomplete. Please confirm the address and pay the small fee for a second\r\n\
         delivery within two days, or the {theme} goes back to the sender. We thank you for your\r\n\
         trust. The team of your {theme} service, central office, department for undeliverable\r\n\
         {theme} and returns to http://{token}.example/{token}\r\n"
    )
    .into_bytes()
}

fn send(node: &Node, to: &str, body: &[u8]) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("shop@example.org", &[to], body).unwrap();
    assert!(reply.starts_with("250 "), "{reply}");
}

/// Tells the node that this is spam, as its administrator.
fn teach(node: &Node, token: &str, theme: &str, reporter: &str) {
    let file = node.data().join("missed.eml");
    std::fs::write(&file, letter(token, theme)).unwrap();
    let mut learn = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    learn.args(["learn", "--reporter", reporter, "--spam"]).arg(&file).arg("--data");
    let learned = learn.arg(node.data()).output().unwrap();
    assert!(learned.status.success(), "{learned:?}");
}

fn corrections(node: &Node) -> usize {
    Corrections::read(&node.data()).unwrap().len()
}

/// Whether the message with this subject was like one that is known to be bad.
fn is_like_bad(node: &Node, subject: &str) -> bool {
    let mut hit = None;
    node.wait_until("the message is in the log", || {
        let log = Log::open(&node.data().join("log")).unwrap();
        let page = log.search(&Query { limit: 100, ..Query::default() }).unwrap();
        let found = page.messages.iter().find(|m| m.subject == subject);
        let logged = found.and_then(|m| log.get(&m.id).unwrap());
        hit = logged.map(|m| m.record.verdict.hit("SIGNATURE_BAD").is_some());
        hit.is_some()
    });
    hit.unwrap()
}

/// What is there is in force with the node's next look (`learning.refresh_seconds`).
fn wait_until_known(node: &Node, token: &str, theme: &str) {
    let mut number = 0;
    node.wait_until("mail like it is known to be bad", || {
        number += 1;
        let token = format!("{token}{number}");
        send(node, "bob@example.net", &letter(&token, theme));
        is_like_bad(node, &token)
    });
}

#[test]
fn what_one_node_is_taught_all_know() {
    let Some(mut server) = Server::start(&[]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server, ""));
    let mut two = Node::start_named("mx2.test", &settings(&server, ""));
    send(&two, "bob@example.net", &letter("before", "parcel"));
    teach(&one, "missed", "parcel", "");
    two.wait_until("the correction is there", || corrections(&two) == 1);
    wait_until_known(&two, "after", "parcel");
    assert!(!is_like_bad(&two, "before"));
    // What a probe account of the one gets, the other knows.
    send(&one, "trap@example.net", &letter("probe", "garden furniture"));
    let elsewhere = |node: &Node| {
        gauntlet_learning::signatures::sharing::load_elsewhere(&node.data()).unwrap().1
    };
    two.wait_until("the probe's mail is there", || !elsewhere(&two).is_empty());
    wait_until_known(&two, "sold", "garden furniture");
    // Cut off, each goes on to learn; one is killed meanwhile. Then all have all, once.
    server.kill();
    teach(&two, "cut", "savings bank account", "ann");
    teach(&one, "cut", "savings bank account", "ann");
    teach(&one, "more", "insurance contract", "ann");
    two.kill();
    two.run();
    server.restart();
    // The same message by the same reporter is one.
    two.wait_until("both have all, and the same", || {
        let said = |node: &Node| Corrections::read(&node.data()).unwrap();
        corrections(&one) == 3 && said(&one) == said(&two)
    });
    let entries = elsewhere(&two).len();
    let times = "SELECT count(*) FROM gauntlet.shared_batch WHERE kind = 2";
    assert!(entries > 0 && server.sql(times) == "1", "nothing was sent again");
    let sizes = "SELECT kind, count(*), sum(length(body)) FROM gauntlet.shared_batch GROUP BY 1";
    eprintln!("kind, batches, bytes:\n{}", server.sql(sizes));
    two.wait_until("the age is small", || shared(&two, "age_seconds", "corrections") < 30);
}

#[test]
fn strangers_wait_once_and_limits_are_for_all_nodes() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let more = "[receiver]\nexempt_networks = []\n[greylist]\nenabled = true\nwait_seconds = 3\n\
                [rates]\nsender_messages_per_hour = 8\n";
    let one = Node::start_named("mx1.test", &settings(&server, more));
    let two = Node::start_named("mx2.test", &settings(&server, more));
    let attempt = |node: &Node, from: &str| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        client.send(from, &["bob@example.net"], &message("grey", 100)).unwrap()
    };
    assert!(attempt(&one, "ann@example.org").starts_with("451 4.7.1 greylisted"));
    let began = std::time::Instant::now();
    two.wait_until("it is known there, and has waited", || {
        shared(&two, "taken_bytes_total", "greylist") > 0 && began.elapsed().as_secs() >= 5
    });
    let reply = attempt(&two, "ann@example.org");
    assert!(reply.starts_with("250"), "the first attempt there: {reply}");
    assert!(attempt(&two, "eve@example.org").starts_with("451"), "somebody else waits");
    // Refused attempts count, too.
    let sent = (0..8).filter(|_| attempt(&two, "ann@example.org").starts_with("250")).count();
    assert!(sent < 8, "the limit here");
    one.wait_until("it is known here", || shared(&one, "taken_bytes_total", "rates") > 0);
    // What came there is at least three by now: by itself this node would refuse the ninth.
    let here = (0..8).take_while(|_| attempt(&one, "ann@example.org").starts_with("250")).count();
    assert!(here < 6, "{here}");
    let reply = attempt(&one, "ann@example.org");
    assert!(reply.starts_with("450 4.7.1 too many messages"), "{reply}");
}
