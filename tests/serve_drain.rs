//! `gauntlet drain`: a node takes no new mail, finishes what it has, and stays so over a restart.

use std::process::Command;

use crate::common::{Node, Sink, Smtp, http_get, message, tokens};

fn gauntlet(node: &Node, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let output = command.args(args).arg("--data").arg(node.data()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// The greeting, or what is said instead.
fn greeting(node: &Node) -> String {
    match Smtp::connect_from([127, 0, 0, 9], node.smtp) {
        Ok(_) => "220".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn send(client: &mut Smtp, token: &str) -> String {
    client.send("ann@example.org", &["bob@example.net"], &message(token, 300)).unwrap()
}

#[test]
fn a_node_that_drains_finishes_what_it_has_and_takes_mail_again_when_told() {
    let sink = Sink::start();
    *sink.answer.lock().unwrap() = "451 4.3.0 not now".to_owned();
    let mut node = Node::start(&format!(
        "[receiver]\ndrain_notice_seconds = 0\n[route]\nnext_hop = \"{}\"\ncut_through = false\n\
         [sender]\nretry_seconds = [1]\n",
        sink.address
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    assert!(send(&mut client, "waits").starts_with("250"));
    // A transaction is under way when the order comes.
    assert!(client.say("MAIL FROM:<ann@example.org>").unwrap().starts_with("250"));
    let (code, text) = gauntlet(&node, &["drain"]);
    assert!(code == Some(0) && text.contains("new sessions get 421"), "{text}");
    assert!(gauntlet(&node, &["drain"]).1.contains("drains already"));
    assert!(greeting(&node).starts_with("421 4.3.2 "), "{}", greeting(&node));
    assert!(client.say("RCPT TO:<bob@example.net>").unwrap().starts_with("250"));
    assert!(client.say("DATA").unwrap().starts_with("354"));
    client.write(&message("under-way", 300)).unwrap();
    assert!(client.say(".").unwrap().starts_with("250"));
    assert!(client.reply().unwrap().starts_with("421 4.3.2 "), "the session ends then");
    assert!(http_get(node.console, "/health/ready").starts_with("draining"));
    assert!(http_get(node.console, "/healthz").starts_with("draining"));
    assert_eq!(http_get(node.console, "/health/live"), "ok\n");
    assert_eq!(node.metric("gauntlet_draining"), 1);
    let (code, text) = gauntlet(&node, &["status"]);
    assert!(code == Some(1) && text.contains("takes mail   no\n             draining"), "{text}");
    let (code, text) = gauntlet(&node, &["drain", "--wait", "--timeout", "1", "--json"]);
    assert!(code == Some(1) && text.contains("\"queued\":2"), "{text}");
    // It stays so, and goes on delivering.
    node.stop();
    node.run();
    assert!(greeting(&node).starts_with("421 4.3.2 "));
    *sink.answer.lock().unwrap() = "250 2.0.0 taken".to_owned();
    let (code, text) = gauntlet(&node, &["drain", "--wait"]);
    assert!(code == Some(0) && text.contains("0 sessions, 0 messages left"), "{text}");
    let delivered = tokens(&sink.taken());
    assert_eq!(
        delivered.into_iter().collect::<Vec<_>>(),
        [("under-way".into(), 1), ("waits".into(), 1)]
    );
    let (code, text) = gauntlet(&node, &["drain", "--undo"]);
    assert!(code == Some(0) && text.contains("takes mail again"), "{text}");
    assert_eq!(http_get(node.console, "/health/ready"), "ok\n");
    assert!(send(&mut Smtp::connect(node.smtp).unwrap(), "after").starts_with("250"));
    node.kill();
    node.run();
    assert_eq!(greeting(&node), "220", "the order is forgotten");
}

#[test]
fn what_waits_for_a_person_is_not_waited_for() {
    let sink = Sink::start();
    *sink.answer.lock().unwrap() = "451 4.3.0 not now".to_owned();
    let node = Node::start(&format!(
        "[receiver]\ndrain_notice_seconds = 0\n[route]\nnext_hop = \"{}\"\n\
         [sender]\nretry_seconds = [600]\n",
        sink.address
    ));
    let reply = send(&mut Smtp::connect(node.smtp).unwrap(), "held");
    let id = reply.trim().rsplit(' ').next().unwrap().to_owned();
    node.wait_until("it waits, and is held", || {
        gauntlet(&node, &["queue", "hold", &id]).1 == "1 message\n"
    });
    let (code, text) = gauntlet(&node, &["drain", "--wait"]);
    assert!(code == Some(1) && text.contains("1 messages left (1 wait for a person)"), "{text}");
}

#[test]
fn balancers_have_notice_before_clients_are_refused() {
    let node = Node::start("[receiver]\ndrain_notice_seconds = 600\n");
    assert_eq!(gauntlet(&node, &["drain"]).0, Some(0));
    assert!(http_get(node.console, "/health/ready").starts_with("draining"));
    assert_eq!(greeting(&node), "220");
    assert!(send(&mut Smtp::connect(node.smtp).unwrap(), "still").starts_with("250"));
}
