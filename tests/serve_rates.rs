//! Rates, greylisting, load shedding: who may come in, and how often.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use crate::common::{Node, Smtp, message};

const NOBODY_EXEMPT: &str = "[receiver]\nexempt_networks = []\n";

/// The first line that the node says to a new connection.
fn greeting(node: &Node) -> String {
    let stream = TcpStream::connect(node.smtp).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn connections_and_messages_are_counted_by_client_and_sender() {
    let node = Node::start(&format!(
        "{NOBODY_EXEMPT}[rates]\nclient_connections_per_minute = 4\nsender_messages_per_hour = 2\n"
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let send = |client: &mut Smtp, from: &str| {
        client.send(from, &["bob@example.net"], &message("rate", 100)).unwrap()
    };
    assert!(send(&mut client, "ann@example.org").starts_with("250"));
    assert!(send(&mut client, "Ann@example.org").starts_with("250"));
    assert!(send(&mut client, "ann@example.org").starts_with("450 4.7.1 too many messages"));
    assert!(send(&mut client, "eve@example.org").starts_with("250"));
    assert_eq!(node.metric("gauntlet_rate_limited_total"), 1);
    let greetings: Vec<String> = (0..8).map(|_| greeting(&node)).collect();
    let refused =
        greetings.iter().filter(|g| g.starts_with("421 4.3.2 too many connections a min"));
    // A minute may end in between; then some of the eight are let in.
    assert!(refused.count() >= 2, "{greetings:?}");
    assert!(send(&mut client, "joe@example.org").starts_with("250"), "who is in stays in");
}

#[test]
fn strangers_come_again() {
    let node =
        Node::start(&format!("{NOBODY_EXEMPT}[greylist]\nenabled = true\nwait_seconds = 2\n"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut send =
        |from: &str| client.send(from, &["bob@example.net"], &message("grey", 100)).unwrap();
    let reply = send("ann@example.org");
    assert!(reply.starts_with("451 4.7.1 greylisted: please come again in "), "{reply}");
    node.wait_until("it may", || {
        // Not so often that the refusals end the session (receiver.errors_max).
        std::thread::sleep(std::time::Duration::from_millis(300));
        send("ann@example.org").starts_with("250")
    });
    assert!(send("ann@example.org").starts_with("250"), "from then on at once");
    assert!(send("eve@example.org").starts_with("451"), "somebody else waits");
    assert!(node.metric("gauntlet_greylisted_total") >= 2);
}

#[test]
fn policies_read_rates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    let policy = "[[rule]]\nname = \"busy\"\nwhen.rate = { by = \"sender\", per_hour_min = 3 }\n\
        do = { reject = \"too much mail from you\" }\n";
    std::fs::write(&path, policy).unwrap();
    let node = Node::start(&format!("[policy]\npath = {path:?}\n"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut send =
        || client.send("ann@example.org", &["bob@example.net"], &message("busy", 100)).unwrap();
    assert!(send().starts_with("250"));
    assert!(send().starts_with("250"));
    let reply = send();
    assert!(reply.starts_with("550 5.7.1 too much mail from you"), "{reply}");
}

#[test]
fn a_node_that_is_nearly_full_lets_known_senders_in() {
    let mut node = Node::start(&format!(
        "{NOBODY_EXEMPT}sessions_max = 10\nshed_percent = 40\n[facts]\nour_networks = []\n"
    ));
    let hold: Vec<Smtp> = (0..4).map(|_| Smtp::connect(node.smtp).unwrap()).collect();
    node.wait_until("four are in", || node.metric("gauntlet_sessions") == 4);
    assert!(greeting(&node).starts_with("421 4.3.2 too many connections"), "a stranger");
    drop(hold);
    // Good mail makes the network known; what is known is kept over a restart.
    node.wait_until("all have left", || node.metric("gauntlet_sessions") == 0);
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..5 {
        let body = message(&format!("good{n}"), 400);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    drop(client);
    node.stop();
    node.run();
    let hold: Vec<Smtp> = (0..4).map(|_| Smtp::connect(node.smtp).unwrap()).collect();
    node.wait_until("four are in", || node.metric("gauntlet_sessions") == 4);
    assert!(greeting(&node).starts_with("220"), "a known sender");
    drop(hold);
}
