//! A program's token: made on the command line, used on a running node, revoked.

use std::io::{Read, Write};
use std::process::{Command, Output};

use crate::common::Node;

fn token(node: &Node, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("token")
        .args(args)
        .arg("--data")
        .arg(node.data())
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap()
}

fn ask(node: &Node, path: &str, token: &str) -> String {
    let mut stream = std::net::TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let host = node.console;
    let head = format!("Authorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{head}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_token_is_made_used_and_revoked() {
    let node = Node::start("");
    let made = token(&node, &["new", "probe", "--scope", "status:read", "--scope", "queue:read"]);
    let secret = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(secret.starts_with("gauntlet_"), "{}", String::from_utf8_lossy(&made.stderr));
    let status = ask(&node, "/api/v1/status", &secret);
    assert!(status.starts_with("HTTP/1.1 200") && status.contains("\"gw.test\""), "{status}");
    assert!(ask(&node, "/api/v1/queue", &secret).contains("\"messages\":[]"));
    let refused = ask(&node, "/api/v1/policy", &secret);
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("policy:read"), "{refused}");
    let listed = String::from_utf8(token(&node, &["list", "--json"]).stdout).unwrap();
    assert!(listed.contains("\"scopes\":[\"status:read\",\"queue:read\"]"), "{listed}");
    assert!(!listed.contains(&secret));
    assert!(token(&node, &["revoke", "probe"]).status.success());
    assert!(ask(&node, "/api/v1/status", &secret).starts_with("HTTP/1.1 401"));
    for (args, why) in [
        (&["revoke", "probe"][..], "there is no token"),
        (&["new", "x", "--scope", "all"][..], "no scope"),
        (&["new", "a b", "--scope", "queue:read"][..], "is no name"),
        (&["new", "x", "--scope", "queue:read", "--days", "0"][..], "0 days"),
    ] {
        let output = token(&node, args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{args:?}: {error}");
    }
}
