//! The order to upgrade: one node after the other drains, stops, and comes back.

use std::process::Command;

use crate::common::{Node, Smtp, message};
use crate::postgres::Server;

fn gauntlet(node: &Node, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn nodes_are_upgraded_one_after_the_other() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let settings = format!(
        "[array]\ndatabase = \"{}\"\nstatus_seconds = 1\npoll_seconds = 1\n[facts]\nenabled = false\n\
         [receiver]\ndrain_notice_seconds = 1\n",
        server.uri()
    );
    let mut one = Node::start_named("mx1.test", &settings);
    let mut two = Node::start_named("mx2.test", &settings);
    let is_said = |node: &Node, name: &str, what: &str| {
        let text = gauntlet(node, &["array", "nodes"]);
        text.lines().any(|line| line.starts_with(name) && line.contains(what))
    };
    one.wait_until("both take part", || {
        ["mx1.test", "mx2.test"].iter().all(|name| is_said(&one, name, "active"))
    });
    for name in ["mx1.test", "mx2.test"] {
        gauntlet(&one, &["array", "order", name, "upgrade", "--seconds", "60"]);
    }
    let outcome = |number: &str| {
        let sql = format!("SELECT outcome FROM gauntlet.node_order WHERE id = {number}");
        server.sql(&sql)
    };
    // It stops by itself, with the status on which service managers start it again.
    assert_eq!(one.wait_for_end().code(), Some(75));
    assert!(outcome("1").is_empty(), "it is not done before the node is back");
    let mut client = Smtp::connect(two.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("there", 200));
    assert!(reply.unwrap().starts_with("250"), "the other one takes mail meanwhile");
    drop(client);
    one.run();
    one.wait_until("it is back", || outcome("1").contains("was started again"));
    assert!(outcome("1").contains("and takes mail"), "{}", outcome("1"));
    assert_eq!(two.wait_for_end().code(), Some(75), "now it is its turn");
    two.run();
    two.wait_until("it is back, too", || outcome("2").contains("and takes mail"));
    let mut client = Smtp::connect(two.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("again", 200));
    assert!(reply.unwrap().starts_with("250"));
}
