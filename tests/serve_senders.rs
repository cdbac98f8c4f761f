//! A sender that an administrator blocks or allows in the console: it counts from the next message
//! on, without a restart.

use crate::common::{Node, Smtp, message};

/// A request with this cookie; the whole answer.
fn ask(node: &Node, method: &str, path: &str, cookie: &str, form: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: {cookie}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        node.console,
        form.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn between<'t>(text: &'t str, start: &str, end: char) -> &'t str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}")).1;
    rest.split(end).next().unwrap_or_default()
}

/// Sends one message and says what class it was given.
fn class_of(node: &Node, token: &str) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["b@example.net"], &message(token, 200)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    let id = reply.trim().rsplit(' ').next().unwrap().to_owned();
    let log = node.log();
    let line = log.lines().find(|l| l.contains(&id) && l.contains("\"class\"")).unwrap();
    between(line, "\"class\":\"", '"').to_owned()
}

#[test]
fn a_blocked_sender_is_spam_and_an_allowed_one_is_not() {
    let node = Node::start("");
    let one_time = node.password.clone().unwrap();
    let answer = ask(&node, "POST", "/sign-in", "", &format!("login=admin&password={one_time}"));
    let cookie = between(&answer.to_lowercase(), "set-cookie: ", ';').to_owned();
    let page = ask(&node, "GET", "/account", &cookie, "");
    let csrf = between(&page, "name=\"csrf\" value=\"", '"').to_owned();
    let new = "a+long+enough+word";
    let form = format!("csrf={csrf}&old={one_time}&new={new}&again={new}");
    let answer = ask(&node, "POST", "/account/password", &cookie, &form);
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let cookie = between(&answer.to_lowercase(), "set-cookie: ", ';').to_owned();
    let page = ask(&node, "GET", "/senders", &cookie, "");
    let csrf = between(&page, "name=\"csrf\" value=\"", '"').to_owned();
    let list = |list: &str, entry: &str| {
        let form = format!("csrf={csrf}&entry={entry}&list={list}");
        ask(&node, "POST", "/senders", &cookie, &form)
    };
    assert_eq!(class_of(&node, "before"), "ham");
    assert!(list("block", "ann@example.org").starts_with("HTTP/1.1 303"));
    assert_eq!(class_of(&node, "blocked"), "spam");
    assert!(list("allow", "example.org").starts_with("HTTP/1.1 303"));
    assert!(list("remove", "ann@example.org").starts_with("HTTP/1.1 303"));
    assert_eq!(class_of(&node, "allowed"), "ham");
    let page = ask(&node, "GET", "/senders", &cookie, "");
    assert!(page.contains("example.org") && !page.contains("ann@example.org"), "{page}");
    assert!(list("block", "no address").starts_with("HTTP/1.1 400"));
    assert!(list("allow", "@com").starts_with("HTTP/1.1 400"));
}

#[test]
fn settings_of_a_person_are_for_an_address_of_ours() {
    let mut node = Node::start("[domains]\nlocal = [\"example.net\", \"*.example.org\"]\n");
    let own = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for ours in ["Ann@Example.net", "bob@mail.example.org"] {
        let (done, said) = own(&["own", ours, "allow", "news@shop.example"]);
        assert!(done, "{said}");
    }
    for action in
        [&["allow", "news@shop.example"][..], &["block", "x.example"], &["strictness", "lax"]]
    {
        let (done, said) = own(&[&["own", "ann@elsewhere.example"], action].concat());
        assert!(!done, "{action:?}");
        assert!(said.contains("elsewhere.example is none of this node's domains"), "{said}");
        assert!(said.contains("domains.local: example.net, *.example.org"), "{said}");
    }
    // What is left of a domain that was ours can be looked at.
    assert!(own(&["own", "ann@elsewhere.example", "show"]).0);
    node.stop();
}
