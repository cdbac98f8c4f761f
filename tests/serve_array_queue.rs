//! The queue of a node of an array, seen from another one; and the round of digests that a node
//! dies over.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::common::{Node, PATIENCE, Smtp, message};
use crate::postgres::Server;

fn settings(server: &Server, more: &str) -> String {
    format!(
        "[array]\ndatabase = \"{}\"\nobjects = \"file://{}\"\nship_seconds = 1\n\
         status_seconds = 1\n[facts]\nenabled = false\n{more}",
        server.uri(),
        server.folder().join("objects").display()
    )
}

fn send(node: &Node, from: &str, to: &str, subject: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send(from, &[to], &message(subject, 200)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

fn gauntlet(node: &Node, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{args:?}: {text}");
    text
}

fn token(node: &Node, scopes: &[&str]) -> String {
    let mut args = vec!["token", "new", "t"];
    scopes.iter().for_each(|scope| args.extend(["--scope", scope]));
    let text = gauntlet(node, &args);
    text.split_whitespace().find(|word| word.len() > 30).unwrap().to_owned()
}

/// Status and JSON of an answer of the API.
fn ask(node: &Node, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} /api/v1/{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        node.console,
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn what_waits_at_one_node_is_seen_and_ordered_from_another() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server, ""));
    // Nobody listens there: what it takes waits after its first attempt.
    let stuck = "[route]\nnext_hop = \"127.0.0.1:1\"\n";
    let two = Node::start_named("mx2.test", &settings(&server, stuck));
    let token = &token(&one, &["queue:read", "queue:write"]);
    for n in 0..2 {
        send(&two, "ann@example.org", "bob@example.net", &format!("waits-{n}"));
    }
    let there = || ask(&one, token, "GET", "queue", "").1["elsewhere"][0].clone();
    one.wait_until("it is seen", || {
        there()["messages"].as_array().is_some_and(|waiting| waiting.len() == 2)
    });
    let seen = there();
    assert_eq!((&seen["node"], &seen["queued"]), (&"mx2.test".into(), &2.into()));
    let mail = &seen["messages"][0];
    assert_eq!(
        (&mail["from"], &mail["to"][0]),
        (&"ann@example.org".into(), &"bob@example.net".into())
    );
    assert!(!mail["reply"].as_str().unwrap().is_empty() && mail["attempts"] != 0, "{mail}");
    let id = |n: usize| seen["messages"][n]["id"].as_str().unwrap().to_owned();
    let order = |what: &str, id: &str| {
        let body = serde_json::json!({ "id": [id], "node": "mx2.test" }).to_string();
        ask(&one, token, "POST", what, &body)
    };
    let (status, done) = order("queue/hold", &id(0));
    assert_eq!((status, &done["outcome"]), (202, &"1 messages are held".into()), "{done}");
    one.wait_until("it is held", || {
        let messages = there()["messages"].clone();
        messages.as_array().unwrap().iter().any(|m| m["id"] == id(0) && m["due_ms"].is_null())
    });
    let (status, done) = order("queue/delete", &id(1));
    assert_eq!((status, &done["outcome"]), (202, &"1 messages are deleted".into()), "{done}");
    two.wait_until("one is left", || two.metric("gauntlet_queue_messages") == 1);
    let (_, done) = order("queue/retry", &id(0));
    assert_eq!(done["outcome"], "1 messages are tried now", "{done}");
    one.wait_until("it waits again", || {
        let messages = there()["messages"].clone();
        messages.as_array().unwrap().iter().any(|m| m["id"] == id(0) && !m["due_ms"].is_null())
    });
    // The command says the same; no such node, no such order.
    let said = gauntlet(&one, &["array", "order", "mx2.test", "discard", &id(0), "--wait"]);
    assert!(said.contains("1 messages are deleted"), "{said}");
    two.wait_for_empty_queue();
    let body = serde_json::json!({ "node": "mx9.test" }).to_string();
    let (status, said) = ask(&one, token, "POST", "queue/retry", &body);
    assert!(status == 400 && said.to_string().contains("the array has no node mx9.test"), "{said}");
}

/// What is on its way to a node that is away is not delivered from here, too, whatever is ordered;
/// when that node has left the array it goes on from here, once.
#[test]
fn mail_on_its_way_to_a_node_that_is_away_is_delivered_once() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let stuck = "[route]\nnext_hop = \"127.0.0.1:1\"\n";
    let quick = settings(&server, stuck).replace("[array]", "[array]\ncounts_seconds = 10");
    let mut one = Node::start_named("mx1.test", &quick);
    let mut two = Node::start_named("mx2.test", &settings(&server, ""));
    let token = &token(&one, &["queue:read", "queue:write"]);
    for n in 0..2 {
        send(&one, "ann@example.org", "bob@example.net", &format!("moves-{n}"));
    }
    let ids = || -> Vec<String> {
        let listed = gauntlet(&one, &["queue", "list", "--json"]);
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].clone();
        listed.lines().map(|line| id(line).as_str().unwrap().to_owned()).collect()
    };
    one.wait_until("both wait", || ids().len() == 2);
    let moving = ids();
    two.kill();
    let moved = gauntlet(&one, &["queue", "move", "--to", "mx2.test"]);
    assert!(moved.contains("2 messages are handed over"), "{moved}");
    let listed = gauntlet(&one, &["queue", "list"]);
    assert_eq!(listed.matches("on its way to mx2.test").count(), 2, "{listed}");
    let shown = gauntlet(&one, &["queue", "show", &moving[0]]);
    assert!(shown.contains("moving") && shown.contains("to mx2.test"), "{shown}");
    // Mail would be delivered from here now, were it still this node's to deliver.
    one.config = one.config.replace(stuck, "");
    one.write_config();
    one.signal("-HUP");
    for what in ["retry", "hold", "delete"] {
        let body = serde_json::json!({ "id": [moving[0]] }).to_string();
        let (status, said) = ask(&one, token, "POST", &format!("queue/{what}"), &body);
        assert!(status >= 400 && said.to_string().contains("on its way"), "{what}: {said}");
    }
    assert_eq!(one.maildir().len(), 0);
    gauntlet(&one, &["array", "leave", "mx2.test", "--yes"]);
    one.wait_until("both are delivered here", || one.maildir().len() == 2);
    one.wait_for_empty_queue();
    two.run();
    gauntlet(&two, &["array", "rejoin"]);
    two.wait_until("it takes part again", || {
        server.sql("SELECT state FROM gauntlet.node WHERE name = 'mx2.test'") == "active"
    });
    assert_eq!(server.sql("SELECT count(*) FROM gauntlet.transfer"), "0");
    two.wait_for_empty_queue();
    assert_eq!((one.maildir().len(), two.maildir().len()), (2, 0));
}

/// Who did what on one node is seen on the others, also what was done while it had no database.
#[test]
fn what_was_done_on_one_node_is_seen_on_another() {
    let Some(mut server) = Server::start(&["fsync=off"]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server, ""));
    let two = Node::start_named("mx2.test", &settings(&server, ""));
    let token = token(&two, &["users:read"]);
    let listed = || ask(&two, &token, "GET", "activity", "").1["lines"].clone();
    let seen = |action: &str, detail: &str| {
        let lines = listed();
        let mut lines = lines.as_array().unwrap().iter();
        lines.any(|line| {
            line["node"] == "mx1.test"
                && line["action"] == action
                && line.to_string().contains(detail)
        })
    };
    gauntlet(&one, &["user", "add", "eve", "--role", "reviewer"]);
    two.wait_until("the new user is told", || seen("add user", "eve"));
    server.kill();
    gauntlet(&one, &["user", "add", "olga", "--role", "reviewer"]);
    server.restart();
    two.wait_until("so is what was done meanwhile", || seen("add user", "olga"));
    let lines = listed();
    let count = |who: &str| {
        let lines = lines.as_array().unwrap().iter();
        lines.filter(|line| line["node"] == "mx1.test" && line.to_string().contains(who)).count()
    };
    assert_eq!((count("eve"), count("olga")), (1, 1), "{lines}");
}

/// The node that makes the round of digests is killed between a digest and the note that it is
/// sent: another goes on with the round, and nobody gets two.
#[test]
fn a_round_of_digests_is_gone_on_with_by_another_node() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let policy = server.folder().join("hold.toml");
    let rule = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\n\
                do = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, rule).unwrap();
    let settings = settings(&server, &format!("[policy]\npath = {policy:?}\n"));
    let mut one = Node::start_named("mx1.test", &settings);
    let mut two = Node::start_named("mx2.test", &settings);
    for to in ["bob@example.net", "eve@example.net"] {
        send(&two, "ann@example.org", to, "held");
    }
    one.wait_until("they are shipped", || {
        server.sql("SELECT count(*) FROM gauntlet.held WHERE state = 'held'") == "2"
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND query LIKE 'INSERT INTO digested%'";
    let lock = "BEGIN; LOCK TABLE gauntlet.digested IN SHARE MODE; SELECT pg_sleep(300)";
    std::thread::scope(|scope| {
        scope.spawn(|| server.try_sql(lock));
        one.wait_until("nobody can note a digest", || {
            server.sql("SELECT count(*) FROM pg_locks WHERE mode = 'ShareLock' AND granted") != "0"
        });
        // The hour is past at any time of the day.
        let digest = "[digest]\nenabled = true\nhour = 0\nurl = \"https://mail.example.net\"\n";
        one.config.push_str(digest);
        one.write_config();
        one.signal("-HUP");
        one.wait_until("a digest is sent and not noted", || server.sql(waits) != "0");
        one.kill();
        let release = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE query LIKE '%pg_sleep(300)' AND pid <> pg_backend_pid()";
        server.sql(release);
        two.config.push_str(digest);
    });
    two.write_config();
    two.signal("-HUP");
    // It is the other's for 15 minutes without a sign of life.
    let undone = "SELECT count(*) FROM gauntlet.duty WHERE name = 'digests' AND done IS NULL";
    assert_eq!(server.sql(undone), "1");
    server.sql(
        "UPDATE gauntlet.duty SET taken = now() - interval '16 minutes' WHERE name = 'digests'",
    );
    two.wait_until("the other ends it", || server.sql(undone) == "0");
    two.wait_for_empty_queue();
    one.run();
    one.wait_for_empty_queue();
    let sent: Vec<String> = [one.maildir(), two.maildir()]
        .concat()
        .iter()
        .map(|raw| String::from_utf8_lossy(raw).into_owned())
        .collect();
    let to = |address: &str| {
        let head = format!("To: {address}");
        sent.iter().filter(|text| text.lines().any(|line| line == head)).count()
    };
    assert_eq!((to("bob@example.net"), to("eve@example.net")), (1, 1), "{sent:#?}");
}
