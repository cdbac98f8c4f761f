//! Clients that misbehave: each has a defined answer, and costs bounded time and memory.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::postfix::Postfix;
use crate::common::{Node, PATIENCE, Smtp, message};

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
fn too_many_sessions_get_421() {
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
fn no_routes_in_addresses() {
    let node = Node::start("[domains]\nlocal = [\"example.net\"]\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.say("MAIL FROM:<a@example.org>").unwrap();
    for route in [
        "u%evil.example@example.net",
        "evil.example!u@example.net",
        "\"u@evil.example\"@example.net",
        "@a.example,@b.example:u@example.net",
        "@example.net:u@example.net",
    ] {
        let reply = client.say(&format!("RCPT TO:<{route}>")).unwrap();
        assert!(reply.starts_with("550 5.1.3 "), "{route}: {reply}");
    }
    assert!(client.say("RCPT TO:<u+tag=x@example.net>").unwrap().starts_with("250"));
}

/// An MTA that reuses connections sends on over a new one: nothing is deferred.
#[test]
fn a_session_that_had_enough_is_closed_and_postfix_defers_nothing() {
    let node = Node::start("[receiver]\nmessages_per_session_max = 5\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..5 {
        let body = message(&format!("own{i}"), 100);
        let reply = client.send("a@b.example", &["c@d.example"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    let reply = client.say("MAIL FROM:<a@b.example>").unwrap();
    assert!(reply.starts_with("421 4.7.0 "), "{reply}");
    assert!(client.reply().is_err(), "closed");

    let hop = format!("[127.0.0.1]:{}", node.smtp.port());
    let main = format!(
        "relayhost = {hop}\nsmtp_connection_cache_destinations = {hop}\n\
         smtp_destination_concurrency_limit = 2\nsmtpd_relay_restrictions = permit_mynetworks,reject"
    );
    let Some(postfix) = Postfix::start_with(&main, "smtp unix - - n - 2 smtp") else { return };
    let mut client = Smtp::connect(postfix.address).unwrap();
    for i in 0..15 {
        let body = message(&format!("by-postfix{i}"), 100);
        let reply = client.send("ann@example.org", &["bob@example.com"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_until("all came", || {
        let log = postfix.log();
        log.matches("status=sent").count() + log.matches("status=deferred").count() >= 15
    });
    let log = postfix.log();
    assert_eq!(log.matches("status=deferred").count(), 0, "{log}");
    assert!(log.contains("conn_use="), "a connection is used for several messages: {log}");
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 20);
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

#[test]
fn a_chunk_without_a_message_does_not_hold_a_session() {
    let node = Node::start("[receiver]\ncommand_seconds_max = 2\ngreeting_wait_ms = 0\n");
    // A large one is not read at all, with MAIL before it or without.
    for first in ["NOOP", "MAIL FROM:<a@b.example>"] {
        let mut client = Smtp::connect(node.smtp).unwrap();
        client.say(first).unwrap();
        let reply = client.say("BDAT 999999999999999999").unwrap();
        assert!(reply.starts_with('5'), "{reply}");
        assert!(client.reply().is_err(), "the connection is closed");
    }
    // How large is a setting.
    let strict = Node::start("[receiver]\nrefused_chunk_bytes_max = 4\ngreeting_wait_ms = 0\n");
    let mut client = Smtp::connect(strict.smtp).unwrap();
    assert!(client.say("BDAT 4\r\nab").unwrap().starts_with("503"));
    assert!(client.say("BDAT 5").unwrap().starts_with('5'));
    assert!(client.reply().is_err(), "the connection is closed");
    // A small one is skipped, but not for ever.
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.write(b"BDAT 1000\r\n").unwrap();
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        if client.write(b"x").is_err() {
            break;
        }
    }
    assert!(client.reply().unwrap().starts_with("421"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.say("BDAT 5\r\nabc").unwrap();
    assert!(reply.starts_with("503"), "{reply}");
    assert!(client.say("NOOP").unwrap().starts_with("250"));
}
