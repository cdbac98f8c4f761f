//! Held mail of an array: a manager's console decides about mail of all nodes, and one digest is
//! about all of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::common::{Node, PATIENCE, Smtp, message};
use crate::postgres::Server;

/// Nothing is asked of the network, and all mail of ann@example.org is held.
pub(crate) fn settings(server: &Server) -> String {
    let policy = server.folder().join("hold.toml");
    let rule = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\n\
                do = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, rule).unwrap();
    format!(
        "[array]\ndatabase = \"{}\"\nobjects = \"file://{}\"\nship_seconds = 1\n\
         status_seconds = 1\n[facts]\nenabled = false\n[policy]\npath = {policy:?}\n",
        server.uri(),
        server.folder().join("objects").display()
    )
}

pub(crate) fn send(node: &Node, to: &[&str], subject: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", to, &message(subject, 200)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

fn gauntlet(node: &Node, args: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A token for all that has to do with held mail.
pub(crate) fn token(node: &Node) -> String {
    let args =
        ["token", "new", "test", "--scope", "quarantine:read", "--scope", "quarantine:write"];
    let (good, text) = gauntlet(node, &args);
    assert!(good, "{text}");
    text.split_whitespace().find(|word| word.len() > 30).unwrap().to_owned()
}

/// Status and JSON of an answer of the API.
pub(crate) fn ask(node: &Node, token: &str, (method, path): (&str, &str)) -> (u16, Value) {
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} /api/v1/quarantine{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n",
        node.console
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// References of what a console lists: `ID@NODE`.
pub(crate) fn listed(node: &Node, token: &str) -> Vec<String> {
    let (status, page) = ask(node, token, ("GET", "?limit=100"));
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().unwrap().iter();
    let reference =
        |held: &Value| Some(format!("{}@{}", held["item"]["id"].as_str()?, held["node"].as_str()?));
    items.filter_map(reference).collect()
}

#[test]
fn a_manager_decides_about_held_mail_of_another_node_once() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server));
    let mut two = Node::start_named("mx2.test", &settings(&server));
    let token = token(&one);
    send(&one, &["bob@example.net"], "own");
    for subject in ["released", "deleted", "later"] {
        send(&two, &["bob@example.net"], subject);
    }
    let there = || -> Vec<String> {
        listed(&one, &token).into_iter().filter(|held| held.ends_with("@mx2.test")).collect()
    };
    one.wait_until("all are listed", || listed(&one, &token).len() == 4 && there().len() == 3);
    let all = there();
    let [later, deleted, released] = all.as_slice() else { panic!("{all:?}") };
    // Read from the object store, whichever node has it.
    let (_, preview) = ask(&one, &token, ("GET", &format!("/{released}/preview")));
    assert!(preview["subject"].as_str().unwrap().contains("released"), "{preview}");
    // Released here, delivered there, once; what is listed follows at once.
    let order = format!("/{released}/release");
    let (status, answer) = ask(&one, &token, ("POST", &order));
    assert_eq!((status, &answer["released_to"][0]), (200, &"bob@example.net".into()), "{answer}");
    assert!(!there().contains(released));
    two.wait_for_empty_queue();
    assert_eq!(two.maildir().len(), 1);
    let (status, answer) = ask(&one, &token, ("GET", &format!("/{released}")));
    assert_eq!((status, answer["state"].as_str()), (200, Some("released")), "{answer}");
    assert_eq!(answer["orders"][0]["outcome"], "released to bob@example.net");
    let (status, again) = ask(&one, &token, ("POST", &order));
    assert_eq!((status, &again["state"]), (409, &"released".into()), "as of a node's own: {again}");
    let (status, answer) = ask(&one, &token, ("POST", &format!("/{deleted}/delete")));
    assert_eq!((status, &answer["deleted"]), (200, &true.into()), "{answer}");
    assert_eq!(there(), std::slice::from_ref(later));
    // A node that is away does it when it is back; a body is read meanwhile.
    two.kill();
    let (status, answer) = ask(&one, &token, ("POST", &format!("/{later}/release")));
    assert_eq!((status, answer["node"].as_str()), (202, Some("mx2.test")), "{answer}");
    let (_, held) = ask(&one, &token, ("GET", &format!("/{later}")));
    assert_eq!(
        (held["state"].as_str(), &held["orders"][0]["done_ms"]),
        (Some("held"), &Value::Null)
    );
    two.run();
    one.wait_until("it is released", || {
        let (_, held) = ask(&one, &token, ("GET", &format!("/{later}")));
        held["state"] == "released"
    });
    two.wait_for_empty_queue();
    assert_eq!(two.maildir().len(), 2, "each once");
    // An id of another node says whose it is.
    let id = later.split('@').next().unwrap();
    let (good, said) = gauntlet(&one, &["array", "order", "mx1.test", "release", id, "--wait"]);
    assert!(!good && said.contains("mx1.test holds nothing as"), "{said}");
    for command in ["release", "delete", "show"] {
        let (good, said) = gauntlet(&one, &["quarantine", command, id]);
        assert!(!good && said.contains(&format!("mx2.test holds {id}")), "{said}");
    }
    assert_eq!(one.maildir().len(), 0);
}

#[test]
fn one_digest_of_one_node_is_about_held_mail_of_all() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let mut nodes =
        ["mx1.test", "mx2.test"].map(|name| Node::start_named(name, &settings(&server)));
    let (bob, eve) = ("bob@example.net", "eve@example.net");
    send(&nodes[0], &[bob], "one");
    send(&nodes[1], &[bob], "two");
    send(&nodes[1], &[eve], "three");
    nodes[0].wait_until("they are shipped", || {
        server.sql("SELECT count(*) FROM gauntlet.held WHERE state = 'held'") == "3"
    });
    // The hour is past at any time of the day.
    let digest = "[digest]\nenabled = true\nhour = 0\nurl = \"https://mail.example.net\"\n";
    for node in &mut nodes {
        node.config.push_str(digest);
        node.write_config();
        node.signal("-HUP");
    }
    let done = "SELECT count(*) FROM gauntlet.duty WHERE name = 'digests' AND done IS NOT NULL";
    nodes[0].wait_until("the round is made", || server.sql(done) == "1");
    // What is told is told: neither node has more to say, today and by hand.
    for node in &nodes {
        let (good, said) = gauntlet(node, &["digest", "send", "--now"]);
        assert!(good && said.contains("0 digests sent, 0 failed"), "{said}");
        node.wait_for_empty_queue();
    }
    let sent: Vec<Vec<u8>> = nodes.iter().flat_map(Node::maildir).collect();
    assert_eq!(sent.len(), 2, "one for each of the two");
    let to = |address: &str| {
        let head = format!("To: {address}");
        let mut texts = sent.iter().map(|raw| String::from_utf8_lossy(raw).into_owned());
        texts.find(|text| text.lines().any(|line| line == head)).unwrap()
    };
    assert!(to(bob).contains("Subject: 2 messages are held for you"), "{}", to(bob));
    assert!(to(eve).contains("Subject: 1 message is held for you"));
    // What comes later is in the next one.
    send(&nodes[0], &[bob], "four");
    nodes[0].wait_until("it is shipped", || {
        server.sql("SELECT count(*) FROM gauntlet.held WHERE state = 'held'") == "4"
    });
    let (_, said) = gauntlet(&nodes[1], &["digest", "send", "--now"]);
    assert!(said.contains("1 digests sent, 0 failed"), "{said}");
    let (good, report) = gauntlet(&nodes[1], &["report", "--array", "--json", "--days", "2"]);
    assert!(good && report.contains("\"quarantine\":4"), "{report}");
}
