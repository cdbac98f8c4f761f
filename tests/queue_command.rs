//! `gauntlet queue` and `gauntlet trace` on a node whose next hop is away.

mod common;

use std::process::Command;

use common::{Node, Sink, Smtp, message, tokens};

fn gauntlet(node: &Node, args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .arg("--data")
        .arg(node.data())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn messages_are_listed_held_retried_deleted_and_traced() {
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    let config = format!("[route]\nnext_hop = \"{address}\"\n[sender]\nretry_seconds = [600]\n");
    let node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut ids = Vec::new();
    for token in ["first", "second"] {
        let reply = client.send("ann@example.org", &["bob@example.net"], &message(token, 100));
        ids.push(reply.unwrap().trim().rsplit(' ').next().unwrap().to_owned());
    }
    node.wait_until("both wait", || node.metric("gauntlet_deferred_total") >= 2);
    let (good, text) = gauntlet(&node, &["queue", "list"]);
    assert!(good && text.contains(&ids[0]) && text.contains("2 messages"), "{text}");
    assert!(text.contains("<ann@example.org> -> bob@example.net"), "{text}");
    let (good, text) = gauntlet(&node, &["queue", "hold", &ids[0]]);
    assert!(good && text == "1 messages\n", "{text}");
    let (_, text) = gauntlet(&node, &["queue", "list"]);
    assert!(text.contains("held"), "{text}");
    let (good, text) = gauntlet(&node, &["queue", "delete", &ids[1]]);
    assert!(good, "{text}");
    let (good, text) = gauntlet(&node, &["queue", "delete", &ids[1]]);
    assert!(!good && text.contains("is not waiting in the queue"), "{text}");
    let sink = Sink::start_at(address);
    let (good, text) = gauntlet(&node, &["queue", "retry"]);
    assert!(good && text == "1 messages\n", "{text}");
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken()).keys().collect::<Vec<_>>(), ["first"]);
    let (good, text) = gauntlet(&node, &["trace", &ids[0]]);
    assert!(good && text.contains("  deferred ") && text.contains("  delivered "), "{text}");
    let (good, text) = gauntlet(&node, &["trace", &ids[1]]);
    assert!(good && text.contains("  deleted "), "{text}");
    let (good, text) = gauntlet(&node, &["trace", "0000000000000"]);
    assert!(!good && text.contains("no message"), "{text}");
}
