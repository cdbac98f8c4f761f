//! Nodes of an array share users of the console, tokens and lists of senders; the database sees
//! none of it in clear text.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use gauntlet_store::{Log, Query};
use gauntlet_verdict::Class;

use crate::common::{Node, PATIENCE, Smtp, message};
use crate::postgres::Server;

fn settings(server: &Server, key: &std::path::Path) -> String {
    format!(
        "[array]\ndatabase = \"{}\"\nusers_key = \"{}\"\nstatus_seconds = 1\nshare_seconds = 1\n\
         [facts]\nenabled = false\n",
        server.uri(),
        key.display()
    )
}

fn gauntlet(args: &[&str], node: Option<&Node>) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args);
    if let Some(node) = node {
        command.arg("--data").arg(node.data());
    }
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    (out.status.success(), text)
}

/// Status of an answer of the API.
fn ask(node: &Node, token: &str, request: (&str, &str, &str)) -> u16 {
    let (method, path, body) = request;
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} /api/v1/{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        node.console,
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap()
}

fn has_user(node: &Node, login: &str) -> bool {
    gauntlet(&["user", "list"], Some(node)).1.contains(login)
}

/// Class of a message with this token, which is sent now.
fn class_of(node: &Node, token: &str) -> Class {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("shop@example.org", &["bob@example.net"], &message(token, 0)).unwrap();
    assert!(reply.starts_with("250 "), "{reply}");
    let mut class = None;
    node.wait_until("the message is in the log", || {
        let log = Log::open(&node.data().join("log")).unwrap();
        let page = log.search(&Query { limit: 100, ..Query::default() }).unwrap();
        let found = page.messages.iter().find(|m| m.subject.ends_with(token));
        class = found.and_then(|m| log.get(&m.id).unwrap()).map(|m| m.record.verdict.class);
        class.is_some()
    });
    class.unwrap()
}

#[test]
fn users_tokens_and_lists_of_one_node_are_those_of_all() {
    let Some(mut server) = Server::start(&["fsync=off"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("users.key");
    let (made, text) = gauntlet(&["array", "users-key", key.to_str().unwrap()], None);
    assert!(made, "{text}");
    let (again, text) = gauntlet(&["array", "users-key", key.to_str().unwrap()], None);
    assert!(!again && text.contains("users.key"), "{text}");
    let one = Node::start_named("mx1.test", &settings(&server, &key));
    let mut two = Node::start_named("mx2.test", &settings(&server, &key));
    let (made, text) = gauntlet(&["user", "add", "ada-lovelace", "--role", "reviewer"], Some(&one));
    assert!(made, "{text}");
    let scopes = ["--scope", "senders:write", "--scope", "users:read"];
    let new = [&["token", "new", "bot"][..], &scopes].concat();
    let (made, text) = gauntlet(&new, Some(&one));
    assert!(made, "{text}");
    let token = text.split_whitespace().find(|w| w.starts_with("gauntlet_")).unwrap().to_owned();
    two.wait_until("the user is there", || has_user(&two, "ada-lovelace"));
    two.wait_until("the token is there", || ask(&two, &token, ("GET", "users", "")) == 200);
    // A sender that is blocked at the one is blocked at the other, without a restart.
    assert_ne!(class_of(&one, "before"), Class::Spam);
    let block = ("PUT", "senders", "entry=shop%40example.org&list=block");
    assert_eq!(ask(&two, &token, block), 200);
    let mut number = 0;
    one.wait_until("the sender is blocked there, too", || {
        number += 1;
        class_of(&one, &format!("after{number}")) == Class::Spam
    });
    // Cut off, each goes on, and all comes together afterwards.
    server.kill();
    let (removed, text) = gauntlet(&["user", "remove", "ada-lovelace"], Some(&two));
    assert!(removed, "{text}");
    let (made, text) = gauntlet(&["user", "add", "grace-hopper"], Some(&one));
    assert!(made, "{text}");
    two.kill();
    two.run();
    server.restart();
    two.wait_until("who was added while it was away is there", || has_user(&two, "grace-hopper"));
    one.wait_until("who was removed is gone", || !has_user(&one, "ada-lovelace"));
    // Neither names nor hashes are in the database.
    let batches =
        server.sql("SELECT encode(body, 'escape') FROM gauntlet.shared_batch WHERE kind = 6");
    assert!(!batches.is_empty() && !batches.contains("hopper") && !batches.contains("argon2"));
}

#[test]
fn a_node_without_the_key_keeps_its_users_and_one_with_another_says_so() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let keys = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        let (made, text) = gauntlet(&["array", "users-key", path.to_str().unwrap()], None);
        assert!(made, "{text}");
        path
    });
    let one = Node::start_named("mx1.test", &settings(&server, &keys[0]));
    let other = Node::start_named("mx2.test", &settings(&server, &keys[1]));
    let none = settings(&server, &keys[0]).replace("users_key", "# users_key");
    let without = Node::start_named("mx3.test", &none);
    let (made, text) = gauntlet(&["user", "add", "ada-lovelace"], Some(&one));
    assert!(made, "{text}");
    other.wait_until("it says why it cannot take users", || {
        other.log().contains("the same file belongs on every node")
    });
    assert!(!has_user(&other, "ada-lovelace") && !has_user(&without, "ada-lovelace"));
    let missing = settings(&server, &folder.path().join("missing"));
    let file = folder.path().join("gauntlet.toml");
    std::fs::write(&file, missing).unwrap();
    let data = folder.path().join("data");
    let serve = ["serve", "--config", file.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let (started, text) = gauntlet(&serve, None);
    assert!(!started && text.contains("array.users_key") && text.contains("users-key"), "{text}");
}
