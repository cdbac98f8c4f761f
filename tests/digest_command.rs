//! A digest of a running node: previewed, sent, followed; and what people want counts from then on.

mod common;

use std::io::{Read, Write};
use std::process::{Command, Output};

use common::{Node, Smtp};

fn digest(node: &Node, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("digest")
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap()
}

fn post(node: &Node, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let host = node.console;
    let head = "Connection: close\r\nContent-Length: 0\r\n\r\n";
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {host}\r\n{head}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Sends the sample that is spam.
fn spam(node: &Node) {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/spam-pills.eml");
    let body = std::fs::read(sample).unwrap();
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("shop@pills.example", &["ann@example.org"], &body).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
}

#[test]
fn a_digest_is_sent_once_and_its_links_are_obeyed() {
    let policy = "[[rule]]\nname = \"Spam\"\nwhen.class = \"spam\"\n\
        do = { quarantine = \"spam\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, policy).unwrap();
    let node =
        Node::start(&format!("[policy]\npath = {file:?}\n[digest]\nfrom = \"gw@example.org\"\n"));
    let nothing = digest(&node, &["preview", "ann@example.org"]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing is held"));
    spam(&node);
    assert_eq!(node.maildir().len(), 0, "it is held");
    let preview = digest(&node, &["preview", "ann@example.org"]);
    let text = String::from_utf8(preview.stdout).unwrap();
    assert!(text.starts_with("From: gw@example.org\r\nTo: ann@example.org\r\n"), "{text}");
    let sent = digest(&node, &["send", "--now"]);
    let said = String::from_utf8_lossy(&sent.stdout).into_owned();
    assert_eq!(said, "1 digests sent, 0 failed\n", "{}", String::from_utf8_lossy(&sent.stderr));
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 1, "the digest is delivered");
    assert_eq!(digest(&node, &["send", "--now"]).stdout, b"0 digests sent, 0 failed\n");
    // Release, and allow the sender: the held message comes, and the next is not held.
    let raw = node.maildir().remove(0);
    let message = gauntlet_mail::Message::parse(&raw);
    let part = message.parts().iter().find(|p| p.content_type.is("text", "plain")).unwrap();
    let link = part.text().unwrap().lines().filter_map(|l| l.trim().split_once("/link/")).nth(1);
    let answer = post(&node, &format!("/link/{}", link.unwrap().1));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("on its way"), "{answer}");
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 2);
    spam(&node);
    assert_eq!(node.maildir().len(), 3, "her own list counts from the next message on");
}
