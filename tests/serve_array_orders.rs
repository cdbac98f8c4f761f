//! Orders of an array whose manager dies before they are answered, and orders that a node is told
//! twice: each is done once, and says so to whoever asks.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::Node;
use crate::postgres::Server;
use crate::serve_array_held::{ask, listed, send, settings, token};

/// Rows that no node has answered.
const OPEN: &str = "SELECT count(*) FROM gauntlet.node_order WHERE done IS NULL";
const ROWS: &str = "SELECT is_good, outcome FROM gauntlet.node_order";
/// The row as it was before the node answered.
const UNDO: &str = "UPDATE gauntlet.node_order SET done = NULL, is_good = NULL, outcome = NULL";

/// A release by the API, whose answer nobody waits for.
fn asked_to_release(node: &Node, token: &str, reference: &str) -> TcpStream {
    let mut stream = TcpStream::connect(node.console).unwrap();
    write!(
        stream,
        "POST /api/v1/quarantine/{reference}/release HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {token}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        node.console
    )
    .unwrap();
    stream
}

#[test]
fn a_manager_dies_before_its_order_is_answered_and_a_node_is_told_an_order_twice() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let soon = settings(&server).replace("status_seconds", "poll_seconds = 1\nstatus_seconds");
    let mut one = Node::start_named("mx1.test", &soon);
    let mut two = Node::start_named("mx2.test", &soon);
    let token = token(&one);
    send(&two, &["bob@example.net"], "wanted");
    one.wait_until("it is listed", || listed(&one, &token).len() == 1);
    let reference = listed(&one, &token).remove(0);
    // The node that holds it stands still; the manager that asks it dies, with its answer open.
    two.signal("-STOP");
    let mut stream = asked_to_release(&one, &token, &reference);
    one.wait_until("the order is given", || server.sql(OPEN) == "1");
    one.kill();
    let mut answer = String::new();
    let _it_broke = stream.read_to_string(&mut answer);
    assert!(!answer.contains("released_to"), "the manager answered first: {answer}");
    assert_eq!((server.sql(OPEN), two.maildir().len()), ("1".to_owned(), 0));
    two.signal("-CONT");
    two.wait_until("the order is done", || server.sql(OPEN) == "0");
    two.wait_for_empty_queue();
    let outcome = server.sql(ROWS);
    assert_eq!(outcome, "t|released to bob@example.net");
    one.run();
    let shows = |one: &Node| {
        let (status, held) = ask(one, &token, ("GET", &format!("/{reference}")));
        let of = |name: &str| held["orders"][0][name].clone();
        status == 200
            && held["state"] == "released"
            && of("outcome") == "released to bob@example.net"
            && of("is_good") == true
            && !of("done_ms").is_null()
    };
    one.wait_until("the manager shows what came of it", || shows(&one));
    // The answer is lost with the database's last moments, twice: a node that runs, one that died.
    for is_killed in [false, true] {
        if is_killed {
            two.kill();
        }
        server.sql(UNDO);
        if is_killed {
            two.run();
        }
        two.wait_until("it is answered again", || server.sql(OPEN) == "0");
        assert_eq!(server.sql(ROWS), outcome, "from the journal");
    }
    // Dead between its work and the journal: what the order is about knows that it was done.
    two.kill();
    std::fs::remove_file(two.data().join("array/orders.json")).unwrap();
    server.sql(UNDO);
    two.run();
    two.wait_until("it is answered without the journal", || server.sql(OPEN) == "0");
    assert_eq!(server.sql(ROWS), "t|it was released before");
    two.wait_for_empty_queue();
    let mails = (two.maildir().len(), one.maildir().len());
    eprintln!("orders: answered 4 times, {} mail delivered", mails.0);
    assert_eq!(mails, (1, 0), "once, whoever says it how often");
}
