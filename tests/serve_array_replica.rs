//! A streaming replica of an array's database: searches and pages ask it, also while the database
//! is away, and the database while the replica is.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{Node, PATIENCE, Smtp, message};
use crate::postgres::Server;
use crate::serve_array::{done, logged, settings};

fn send(node: &Node, name: &str, count: usize) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..count {
        let body = message(&format!("{name}-{n}"), 200);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
}

/// How many messages the console of a node has, of all nodes if it can ask for them.
fn shown(node: &Node, token: &str) -> usize {
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET /api/v1/messages?limit=200 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n",
        node.console
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let page: serde_json::Value = serde_json::from_str(body).unwrap();
    page["messages"].as_array().unwrap_or_else(|| panic!("{text}")).len()
}

#[test]
fn a_replica_answers_searches_while_the_database_is_away_and_the_other_way_round() {
    let Some(mut server) = Server::start(&["fsync=off"]) else { return };
    let mut replica = server.replica();
    let line = format!("replica = \"{}\"\nstatus_seconds", replica.uri());
    let read_there = settings(&server).replace("status_seconds", &line);
    let one = Node::start_named("mx1.test", &read_there);
    let two = Node::start_named("mx2.test", &settings(&server));
    let new_token = done(&one, &["token", "new", "test", "--scope", "messages:read"]);
    let token = new_token.split_whitespace().find(|word| word.len() > 30).unwrap();
    let in_log = || logged(&one).len();
    send(&one, "one", 5);
    send(&two, "two", 20);
    one.wait_until("the replica has them", || in_log() == 25 && shown(&one, token) == 25);
    // What the replica does not know yet is not shown: so it is the one that is asked.
    replica.sql("SELECT pg_wal_replay_pause()");
    send(&two, "not replayed", 5);
    one.wait_until("the database has them", || {
        server.sql("SELECT sum(messages) FROM gauntlet.log_count") == "30"
    });
    assert_eq!((in_log(), shown(&one, token)), (25, 25));
    replica.sql("SELECT pg_wal_replay_resume()");
    one.wait_until("the replica has them, too", || in_log() == 30 && shown(&one, token) == 30);
    // Without the database the replica still has what other nodes logged.
    server.kill();
    one.wait_until("it is seen", || one.metric("gauntlet_array_connected") == 0);
    assert_eq!((in_log(), shown(&one, token)), (30, 30));
    let (problem, away) = (done(&one, &["status"]), "pages show what the replica has");
    assert!(problem.contains(away), "{problem}");
    send(&one, "meanwhile", 5);
    assert_eq!(shown(&one, token), 30, "not yet shipped");
    // Without both the node shows its own.
    replica.kill();
    one.wait_until("its own are shown", || shown(&one, token) == 10);
    // Without the replica the database is asked.
    server.restart();
    one.wait_until("all is shipped", || in_log() == 35 && shown(&one, token) == 35);
    send(&two, "last", 1);
    one.wait_until("and what is new", || in_log() == 36 && shown(&one, token) == 36);
}
