//! Recipients are checked before a message is taken: by list, file, SQLite, and the next hop
//! itself.

use std::process::Command;

use crate::common::{Node, Sink, Smtp, program};

/// The code of the answer to RCPT with this address.
fn rcpt(node: &Node, to: &str) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.say("MAIL FROM:<ann@example.org>").unwrap();
    let reply = client.say(&format!("RCPT TO:<{to}>")).unwrap();
    reply.get(..9).unwrap_or_default().to_owned()
}

const OURS: &str = "[domains]\nlocal = [\"example.net\", \"all.example\"]\n";

#[test]
fn lists_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recipients");
    std::fs::write(&file, "# people\nBob@example.net\n@all.example\n").unwrap();
    let node = Node::start(&format!(
        "{OURS}[recipients]\nknown = [\"ann@example.net\"]\nfile = {file:?}\n"
    ));
    for (to, code) in [
        ("ann@example.net", "250 2.1.5"),
        ("bob@EXAMPLE.net", "250 2.1.5"),
        ("joe@example.net", "550 5.1.1"),
        // Other spellings of the same mailboxes (RFC 5321 section 4.1.2).
        (r#""ann"@example.net"#, "250 2.1.5"),
        (r#""a\nn"@example.net"#, "250 2.1.5"),
        (r#""\Bo\b"@example.net"#, "250 2.1.5"),
        (r#""post\master"@example.net"#, "250 2.1.5"),
        (r#""an n"@example.net"#, "550 5.1.1"),
        (r#""u\%other.example"@all.example"#, "550 5.1.3"),
        ("joe@all.example", "250 2.1.5"),
        ("postmaster@example.net", "250 2.1.5"),
        ("postmaster", "250 2.1.5"),
        ("joe@elsewhere.example", "550 5.7.1"),
    ] {
        assert_eq!(rcpt(&node, to), code, "{to}");
    }
}

#[test]
fn the_next_hop_gets_one_spelling_that_is_a_valid_path() {
    let sink = Sink::start();
    // It refuses these local parts, spelled so and no other way.
    for local in ["bob", r#""bo b""#, r#""b\"b""#, r#""a..b""#] {
        sink.recipients.lock().unwrap().insert(local.into(), "550 5.1.1 no such user".into());
    }
    let node = Node::start(&format!(
        "{OURS}[route]\nnext_hop = \"{}\"\n[recipients]\nprobe = true\naccept_unclear = false\n",
        sink.address
    ));
    for local in [r#""b\o\b""#, r#""bob""#, r#""b\o b""#, r#""b\"\b""#, r#""a\..b""#] {
        assert_eq!(rcpt(&node, &format!("{local}@example.net")), "550 5.1.1", "{local}");
    }
    assert_eq!(rcpt(&node, r#""jo\e"@example.net"#), "250 2.1.5");
}

#[test]
fn an_sqlite_file_is_asked() {
    let Some(sqlite) = program("sqlite3") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.db");
    let sql = |text: &str| {
        assert!(Command::new(&sqlite).arg(&file).arg(text).status().unwrap().success());
    };
    sql("CREATE TABLE users (mail TEXT); INSERT INTO users VALUES ('bob@example.net');");
    let node = Node::start(&format!(
        "{OURS}[recipients]\nsqlite = {file:?}\nquery = \"SELECT 1 FROM users WHERE mail = ?1\"\n"
    ));
    assert_eq!(rcpt(&node, "Bob@example.net"), "250 2.1.5");
    assert_eq!(rcpt(&node, "joe@example.net"), "550 5.1.1");
    sql("INSERT INTO users VALUES ('joe@example.net');");
    assert_eq!(rcpt(&node, "joe@example.net"), "250 2.1.5");
    sql("DROP TABLE users;");
    assert_eq!(rcpt(&node, "bob@example.net"), "451 4.3.0", "nothing is known");
}

#[test]
fn the_next_hop_is_asked_and_remembered() {
    let sink = Sink::start();
    let answer = |user: &str, reply: &str| {
        sink.recipients.lock().unwrap().insert(user.into(), reply.into());
    };
    answer("gone", "550 5.1.1 no such user");
    answer("later", "450 4.2.1 busy");
    let node = Node::start(&format!(
        "{OURS}[route]\nnext_hop = \"{}\"\n[recipients]\nprobe = true\naccept_unclear = false\n\
         probe_refused_seconds = 2\n",
        sink.address
    ));
    assert_eq!(rcpt(&node, "bob@example.net"), "250 2.1.5");
    assert_eq!(rcpt(&node, "gone@example.net"), "550 5.1.1");
    assert_eq!(rcpt(&node, "later@example.net"), "451 4.3.0");
    answer("bob", "550 5.1.1 left us");
    assert_eq!(rcpt(&node, "bob@example.net"), "250 2.1.5", "a yes is remembered");
    sink.recipients.lock().unwrap().clear();
    assert_eq!(rcpt(&node, "gone@example.net"), "550 5.1.1", "a no too,");
    node.wait_until("but for less long", || rcpt(&node, "gone@example.net") == "250 2.1.5");
    assert_eq!(sink.taken().len(), 0, "no probe sends a message");
}
