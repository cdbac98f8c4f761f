//! Clients that misbehave: each has a defined answer, and costs bounded time and memory.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{Node, PATIENCE, Smtp, message};

fn raw(node: &Node, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(node.smtp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _it_may_close_first = stream.write_all(bytes);
    let mut text = Vec::new();
    let _reset_is_an_end_too = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn slow_clients_are_sent_away() {
    let node = Node::start("[receiver]\ncommand_seconds_max = 1\ndata_seconds_max = 1\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    assert!(client.reply().unwrap().starts_with("421 4.4.2"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.say("MAIL FROM:<a@b.example>").unwrap();
    client.say("RCPT TO:<c@d.example>").unwrap();
    client.say("DATA").unwrap();
    client.write(b"Subject: x\r\n").unwrap();
    assert!(client.reply().unwrap().starts_with("421 4.4.2"));
}

#[test]
fn too_many_sessions_are_told_to_come_later() {
    let node = Node::start("[receiver]\nsessions_max = 3\nsessions_per_client_max = 2\n");
    let _first = Smtp::connect(node.smtp).unwrap();
    let second = Smtp::connect(node.smtp).unwrap();
    assert!(raw(&node, b"").starts_with("421 4.3.2 too many connections from your address"));
    drop(second);
    node.wait_until("there is room again", || Smtp::connect(node.smtp).is_ok());
}

#[test]
fn a_message_over_the_limit_is_refused_at_its_end_and_before_it_when_announced() {
    let node = Node::start("[receiver]\nmessage_bytes_max = 10000\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    assert!(client.say("MAIL FROM:<a@b.example> SIZE=10001").unwrap().starts_with("552 5.3.4"));
    let reply = client.send("a@b.example", &["c@d.example"], &message("big", 20_000)).unwrap();
    assert!(reply.starts_with("552 5.3.4"), "{reply}");
    let reply = client.send("a@b.example", &["c@d.example"], &message("small", 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

#[test]
fn bodies_over_the_memory_budget_are_put_off() {
    let node = Node::start("[receiver]\nmemory_bytes_max = 300000\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@b.example", &["c@d.example"], &message("big", 900_000)).unwrap();
    assert!(reply.starts_with("452 4.3.1"), "{reply}");
    let reply = client.send("a@b.example", &["c@d.example"], &message("small", 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

#[test]
fn no_open_relay() {
    let node = Node::start("[domains]\nlocal = [\"example.net\"]\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.say("MAIL FROM:<a@example.net>").unwrap();
    for stranger in ["x@example.com", "x%example.com@other.example", "x@sub.example.net"] {
        let reply = client.say(&format!("RCPT TO:<{stranger}>")).unwrap();
        assert!(reply.starts_with("550 5.7.1 relaying denied"), "{stranger}: {reply}");
    }
    assert!(client.say("RCPT TO:<@relay.example:x@example.com>").unwrap().starts_with("550"));
    assert!(client.say("RCPT TO:<x@EXAMPLE.net>").unwrap().starts_with("250"));
}

#[test]
fn a_browser_and_a_flood_are_cut_off() {
    let node = Node::start("");
    let text = raw(&node, b"POST / HTTP/1.1\r\nHost: x\r\n\r\nMAIL FROM:<a@b>\r\n");
    assert!(text.contains("554 5.7.0"), "{text}");
    let flood = b"EHLO x\r\n".to_vec();
    let noops = b"NOOP\r\n".repeat(1_000);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let _it_may_close_first = client.write(&noops);
    let mut replies = 0;
    let last = loop {
        match client.reply() {
            Ok(reply) if reply.starts_with("250") => replies += 1,
            Ok(reply) => break reply,
            Err(error) => break error.to_string(),
        }
    };
    assert!(last.starts_with("421 4.7.0 too many commands"), "{last} after {replies}");
    drop(flood);
}

#[test]
fn strangers_wait_for_the_greeting_and_friends_do_not() {
    // Nobody who is exempt, as loopback clients are by default, waits for an hour.
    let node = Node::start("[receiver]\ngreeting_wait_ms = 3600000\n");
    assert!(Smtp::connect(node.smtp).is_ok());
    let node = Node::start("[receiver]\ngreeting_wait_ms = 700\nexempt_networks = []\n");
    let text = raw(&node, b"EHLO early.example\r\n");
    assert!(text.starts_with("554 5.5.1") || text.starts_with("554 5.7.0"), "{text}");
    assert!(!text.contains("220 "), "{text}");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@b.example", &["c@d.example"], &message("patient", 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}
