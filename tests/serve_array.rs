//! Nodes of an array: what one does is seen by all, and each goes on alone.

use std::process::{Command, Output};

use crate::common::{Node, Smtp, http_get, message, tokens};
use crate::postgres::Server;

/// Nothing is asked of the network, and everything happens soon.
pub(crate) fn settings(server: &Server) -> String {
    format!(
        "[array]\ndatabase = \"{}\"\nobjects = \"file://{}\"\nship_seconds = 1\n\
         status_seconds = 1\n[facts]\nenabled = false\n",
        server.uri(),
        server.folder().join("objects").display()
    )
}

fn gauntlet(node: &Node, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .env("USER", "ada")
        .output()
        .unwrap()
}

pub(crate) fn done(node: &Node, args: &[&str]) -> String {
    let output = gauntlet(node, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn send(node: &Node, subject: &str) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("ann@example.org", &["bob@example.net"], &message(subject, 200)).unwrap()
}

/// Whether the array says this of a node.
pub(crate) fn is_said(node: &Node, name: &str, what: &str) -> bool {
    let out = gauntlet(node, &["array", "nodes"]);
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().any(|line| line.starts_with(name) && line.contains(what))
}

/// Nodes and messages that the array's log has, newest first.
pub(crate) fn logged(node: &Node) -> Vec<(String, String)> {
    let out = gauntlet(node, &["messages", "--array", "--json", "--limit", "1000"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = |line: &str| {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        (text("node"), text("id"))
    };
    text.lines().map(line).collect()
}

#[test]
fn two_nodes_share_log_and_policy_and_take_orders() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server));
    let two = Node::start_named("mx2.test", &settings(&server));
    assert!(send(&one, "first").starts_with("250"));
    assert!(send(&two, "second").starts_with("250"));
    one.wait_until("both are in the log", || {
        let found = logged(&one);
        ["mx1.test", "mx2.test"].iter().all(|name| found.iter().any(|(node, _)| node == name))
    });
    one.wait_until("nothing waits", || {
        ["mx1.test", "mx2.test"].iter().all(|name| is_said(&two, name, "log complete"))
    });
    assert!(http_get(one.console, "/metrics").contains("gauntlet_array_connected 1"));
    assert_eq!(server.sql("SELECT sum(messages) FROM gauntlet.log_count"), "2");
    // A policy for all, and another for one of them.
    let hold = one.folder.path().join("hold.toml");
    let rule = |name: &str, action: &str| {
        format!("[[rule]]\nname = \"{name}\"\nwhen.sender = \"ann@example.org\"\ndo = {action}\n")
    };
    std::fs::write(&hold, rule("hold", "{ quarantine = \"suspect\" }")).unwrap();
    let said = done(&one, &["array", "policy", "publish", hold.to_str().unwrap()]);
    assert!(said.starts_with("policy 1 is published for all"), "{said}");
    one.wait_until("the policy is in force", || {
        ["mx1.test", "mx2.test"].iter().all(|name| is_said(&one, name, "policy 1"))
    });
    let reject = one.folder.path().join("reject.toml");
    std::fs::write(&reject, rule("away", "{ reject = \"no {id}\" }")).unwrap();
    let of_one =
        ["array", "policy", "publish", reject.to_str().unwrap(), "--scope", "node:mx1.test"];
    done(&two, &of_one);
    one.wait_until("the policy of one", || is_said(&one, "mx1.test", "policy 2"));
    assert!(send(&one, "refused").starts_with("550"));
    assert!(send(&two, "held").starts_with("250"));
    let item = || {
        let out = done(&two, &["quarantine", "list", "--json"]);
        let line: serde_json::Value = serde_json::from_str(out.lines().next()?).ok()?;
        line["id"].as_str().or(line["item"]["id"].as_str()).map(str::to_owned)
    };
    two.wait_until("it is held", || item().is_some());
    let id = item().unwrap();
    // The other node lists it and reads it.
    one.wait_until("the other sees it", || {
        let out = gauntlet(&one, &["quarantine", "list", "--array"]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.contains("mx2.test") && text.contains(&id)
    });
    let body = done(&one, &["quarantine", "show", "--array", &id]);
    assert!(body.contains("Subject: ") && body == done(&two, &["quarantine", "show", &id]));
    let before = two.maildir().len();
    let order = ["array", "order", "mx2.test", "release", &id, "--wait"];
    let said = done(&one, &order);
    assert!(said.contains("done") && said.contains("released to bob@example.net"), "{said}");
    // The same again is no second delivery.
    assert!(done(&one, &order).contains("released before"));
    two.wait_for_empty_queue();
    assert_eq!(two.maildir().len(), before + 1);
    let wrong = gauntlet(&one, &["array", "order", "mx2.test", "release", "nothing", "--wait"]);
    assert!(!wrong.status.success());
    let unknown = gauntlet(&one, &["array", "order", "mx9.test", "reload"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("gauntlet array nodes"));
    // Back to the one for all.
    done(&one, &["array", "policy", "withdraw", "--scope", "node:mx1.test"]);
    one.wait_until("the policy of all", || is_said(&one, "mx1.test", "policy 1"));
    assert!(send(&one, "held too").starts_with("250"));
}

#[test]
fn a_node_works_on_while_the_database_is_away() {
    let Some(mut server) = Server::start(&[]) else { return };
    let mut one = Node::start_named("mx1.test", &settings(&server));
    for n in 0..20 {
        assert!(send(&one, &format!("before-{n}")).starts_with("250"));
    }
    one.wait_until("they are in the log", || logged(&one).len() == 20);
    server.kill();
    for n in 0..20 {
        assert!(send(&one, &format!("during-{n}")).starts_with("250"));
    }
    let health = || http_get(one.console, "/metrics");
    one.wait_until("it is seen", || health().contains("gauntlet_array_connected 0"));
    let all_shipped = || health().contains("\ngauntlet_array_behind_changes 0\n");
    one.wait_until("what waits is counted meanwhile", || !all_shipped());
    // A start without the database is one.
    one.kill();
    one.run();
    assert!(send(&one, "after a crash").starts_with("250"));
    one.wait_for_empty_queue();
    assert_eq!(one.maildir().len(), 41);
    server.restart();
    one.wait_until("the log is whole", || logged(&one).len() == 41);
    let mut ids: Vec<String> = logged(&one).into_iter().map(|(_, id)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 41);
}

#[test]
fn a_name_is_one_node_and_a_removed_node_goes_on_alone() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server));
    one.wait_until("it takes part", || is_said(&one, "mx1.test", "active"));
    let twin = Node::start_named("mx1.test", &settings(&server));
    twin.wait_until("the name is taken", || twin.log().contains("another node of the array"));
    assert!(send(&twin, "alone").starts_with("250"), "mail goes on");
    let looked = gauntlet(&twin, &["doctor", "--dns", "127.0.0.1:1"]);
    let looked = String::from_utf8_lossy(&looked.stdout).into_owned();
    assert!(looked.contains("another node has the name mx1.test"), "{looked}");
    assert!(!gauntlet(&one, &["array", "leave", "mx1.test"]).status.success(), "it is there");
    assert!(done(&one, &["array", "leave", "mx1.test", "--yes"]).contains("is removed"));
    one.wait_until("it is told", || one.log().contains("was removed from the array"));
    assert!(send(&one, "alone too").starts_with("250"));
    twin.wait_until("the name is free", || is_said(&twin, "mx1.test ", "active"));
    let taken = gauntlet(&one, &["array", "rejoin"]);
    assert!(String::from_utf8_lossy(&taken.stderr).contains("another node"), "its name is not");
}

#[test]
fn a_queue_moves_to_another_node_once_while_its_own_drains() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    // Nobody listens there: what it takes waits.
    let stuck = format!("{}[route]\nnext_hop = \"127.0.0.1:1\"\n", settings(&server));
    let mut one = Node::start_named("mx1.test", &stuck);
    let two = Node::start_named("mx2.test", &settings(&server));
    let subjects: Vec<String> = (0..30).map(|n| format!("moved-{n}")).collect();
    for subject in &subjects {
        assert!(send(&one, subject).starts_with("250"));
    }
    one.wait_until("both take part", || {
        is_said(&one, "mx1.test", "30 queued") && is_said(&one, "mx2.test", "active")
    });
    let said = done(&one, &["array", "order", "mx1.test", "drain", "--wait"]);
    assert!(said.contains("takes no new mail"), "{said}");
    one.wait_until("it says so", || is_said(&one, "mx1.test", "draining"));
    let said = done(&one, &["queue", "move", "--to", "mx2.test"]);
    assert!(said.contains("30 messages are handed over to mx2.test"), "{said}");
    // The same again, and a restart in between, moves nothing twice.
    one.kill();
    one.run();
    one.wait_until("they are gone", || is_said(&two, "mx1.test", " 0 queued"));
    // Due times move with the messages.
    done(&one, &["array", "order", "mx2.test", "retry", "--wait"]);
    two.wait_for_empty_queue();
    let arrived = tokens(&two.maildir());
    assert_eq!(arrived.len(), 30);
    assert!(arrived.values().all(|times| *times == 1), "{arrived:?}");
    // The log of the node that they left does not call them queued for ever.
    let left = || gauntlet(&one, &["messages", "--outcome", "moved", "--json"]).stdout;
    one.wait_until("the log says where they are", || {
        String::from_utf8_lossy(&left()).matches("\"outcome\":\"moved\"").count() == 30
    });
    let wrong = gauntlet(&one, &["queue", "move", "--to", "mx9.test"]);
    assert!(!wrong.status.success());
    drained_by_short_commands(&two);
}

/// `array drain NODE` and `array undrain NODE` are orders as the longer ones are.
fn drained_by_short_commands(two: &Node) {
    let said = done(two, &["array", "undrain", "mx1.test", "--wait"]);
    assert!(said.contains(" undrain ") && said.contains("it takes mail again"), "{said}");
    two.wait_until("it does", || is_said(two, "mx1.test", "active"));
    let said = done(two, &["array", "drain", "mx1.test", "--wait=30"]);
    assert!(said.contains(" drain ") && said.contains("it takes no new mail"), "{said}");
    two.wait_until("it drains", || is_said(two, "mx1.test", "draining"));
    let said = done(two, &["array", "undrain", "mx1.test"]);
    assert!(said.contains("is given"), "{said}");
    two.wait_until("it takes mail", || is_said(two, "mx1.test", "active"));
    let wrong = gauntlet(two, &["array", "drain", "mx9.test"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("gauntlet array nodes"));
}
