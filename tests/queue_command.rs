//! `gauntlet queue` and `gauntlet trace` on a node whose next hop is away.

use std::process::Command;

use crate::common::{Node, Sink, Smtp, message, tokens};

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
    assert!(good && text == "1 message\n", "{text}");
    let (_, text) = gauntlet(&node, &["queue", "list"]);
    assert!(text.contains("held"), "{text}");
    let (good, text) = gauntlet(&node, &["queue", "delete", &ids[1], &ids[1]]);
    assert!(!good && text.contains("1 of 2 are deleted; "), "{text}");
    assert!(text.contains("is not waiting in the queue"), "{text}");
    let sink = Sink::start_at(address);
    let (good, text) = gauntlet(&node, &["queue", "retry"]);
    assert!(good && text == "1 message\n", "{text}");
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken()).keys().collect::<Vec<_>>(), ["first"]);
    let (good, text) = gauntlet(&node, &["trace", &ids[0]]);
    assert!(good && text.contains("  deferred ") && text.contains("  delivered "), "{text}");
    let (good, text) = gauntlet(&node, &["trace", &ids[1]]);
    assert!(good && text.contains("  deleted "), "{text}");
    let (good, text) = gauntlet(&node, &["trace", "0000000000000"]);
    assert!(!good && text.contains("no message"), "{text}");
}

#[test]
fn a_held_message_is_held_over_a_restart() {
    let sink = Sink::start();
    *sink.answer.lock().unwrap() = "451 4.3.0 not now".to_owned();
    let config =
        format!("[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [1]\n", sink.address);
    let mut node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("held", 100));
    let id = reply.unwrap().trim().rsplit(' ').next().unwrap().to_owned();
    drop(client);
    node.wait_until("it waits, and is held", || {
        gauntlet(&node, &["queue", "hold", &id]).1 == "1 message\n"
    });
    *sink.answer.lock().unwrap() = "250 2.0.0 ok".to_owned();
    for kill in [true, false] {
        if kill {
            node.kill();
        } else {
            node.stop();
        }
        node.run();
        let (_, text) = gauntlet(&node, &["queue", "list"]);
        assert!(text.contains(&id) && text.contains("held"), "{text}");
    }
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(sink.taken().len(), 0);
    assert_eq!(gauntlet(&node, &["queue", "retry", &id]).1, "1 message\n");
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken())["held"], 1);
}

#[test]
fn a_message_in_hand_at_every_crash_is_set_aside() {
    // A next hop that takes the connection and says nothing: the message stays in hand.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let config = format!(
        "[route]\nnext_hop = \"{address}\"\ncut_through = false\n\
         [sender]\nretry_seconds = [1]\ncrashes_max = 3\n"
    );
    let mut node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("poison", 100));
    let id = reply.unwrap().trim().rsplit(' ').next().unwrap().to_owned();
    for crash in 1..=3 {
        node.wait_until("it is in hand", || node.metric("gauntlet_messages_active") == 1);
        let (_, text) = gauntlet(&node, &["queue", "list"]);
        assert!(!text.contains("held"), "crash {crash}: {text}");
        node.kill();
        node.run();
    }
    let (_, text) = gauntlet(&node, &["queue", "list"]);
    assert!(text.contains(&id) && text.contains("held"), "{text}");
    assert!(node.log().contains("set aside"));
    let sink = Sink::on(silent);
    assert_eq!(gauntlet(&node, &["queue", "retry", &id]).1, "1 message\n");
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken())["poison"], 1);
}
