//! A node of an array whose disk is lost goes on from yesterday's backup.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::common::{Node, Smtp, message};
use crate::postgres::Server;

fn settings(server: &Server) -> String {
    let policy = server.folder().join("hold.toml");
    let rule = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\n\
                do = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, rule).unwrap();
    format!(
        "[array]\ndatabase = \"{}\"\nobjects = \"file://{}\"\nship_seconds = 1\n\
         status_seconds = 1\nshare_seconds = 1\n[facts]\nenabled = false\n[policy]\npath = {policy:?}\n",
        server.uri(),
        server.folder().join("objects").display()
    )
}

fn gauntlet(node: &Node, args: &[&str]) -> String {
    let config = node.folder.path().join("gauntlet.toml");
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", config.to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{args:?}: {text}");
    text
}

fn send(node: &Node, from: &str, subject: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send(from, &["bob@example.net"], &message(subject, 200)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
}

/// The last words of the subjects of all nodes' log, by node and id. A release has a row of its
/// own.
fn logged(node: &Node) -> BTreeMap<String, String> {
    let config = node.folder.path().join("gauntlet.toml");
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["messages", "--array", "--json", "--config", config.to_str().unwrap()])
        .output()
        .unwrap();
    // Its exit code is 1 if there is none.
    let text = String::from_utf8(out.stdout).unwrap();
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let subject = value["subject"].as_str().unwrap_or_default();
        let name = subject.rsplit(' ').next().unwrap_or_default().to_owned();
        let id = format!("{}@{}", value["id"], value["node"]);
        assert_eq!(all.insert(id.clone(), name), None, "{id} is there twice");
    }
    all
}

#[test]
fn a_node_that_is_restored_from_yesterdays_backup_goes_on_in_its_array() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let settings = settings(&server);
    let mut one = Node::start_named("mx1.test", &settings);
    let two = Node::start_named("mx2.test", &settings);
    let shipped = |subjects: &[&str]| {
        two.wait_until("all is shipped", || {
            let all: BTreeSet<String> = logged(&two).into_values().collect();
            subjects.iter().all(|subject| all.contains(*subject))
        });
    };
    let state =
        |id: &str| server.sql(&format!("SELECT state FROM gauntlet.held WHERE item = '{id}'"));
    let held_as = |subject: &str| {
        let sql = format!("SELECT item FROM gauntlet.held WHERE subject LIKE '%{subject}'");
        let mut id = String::new();
        two.wait_until("it is shipped", || {
            id = server.sql(&sql);
            !id.is_empty()
        });
        id
    };
    for subject in ["held-before", "released-after", "deleted-after"] {
        send(&one, "ann@example.org", subject);
    }
    send(&one, "eve@example.org", "passed-before");
    shipped(&["held-before", "released-after", "deleted-after", "passed-before"]);
    let [kept, released, deleted] = ["held-before", "released-after", "deleted-after"].map(held_as);
    let backup = server.folder().join("backup");
    gauntlet(&one, &["backup", backup.to_str().unwrap()]);
    gauntlet(&one, &["quarantine", "release", &released]);
    gauntlet(&one, &["quarantine", "delete", &deleted]);
    send(&one, "ann@example.org", "held-after");
    send(&one, "eve@example.org", "passed-after");
    let after = held_as("held-after");
    two.wait_until("what was decided is shipped", || {
        state(&released) == "released" && state(&deleted) == "deleted"
    });
    shipped(&["held-after", "passed-after"]);
    // The disk is lost, with all that came after the backup.
    one.kill();
    std::fs::remove_dir_all(one.data()).unwrap();
    gauntlet(&one, &["restore", backup.to_str().unwrap()]);
    // It waits for the node, which learns first that this was done.
    gauntlet(&two, &["array", "order", "mx1.test", "release", &released]);
    one.run();
    send(&one, "eve@example.org", "passed-later");
    one.wait_until("what the array knows better is taken", || {
        one.log().contains("held mail was older than the array knows it")
    });
    two.wait_until("the order is answered", || {
        gauntlet(&two, &["array", "orders"]).contains("it was released before")
    });
    let listed = gauntlet(&one, &["quarantine", "list"]);
    assert!(listed.contains(&kept) && listed.contains(&after), "{listed}");
    assert!(!listed.contains(&released) && !listed.contains(&deleted), "{listed}");
    assert_eq!(one.maildir().len(), 1, "nothing is sent again");
    gauntlet(&two, &["array", "order", "mx1.test", "release", &after, "--wait"]);
    one.wait_for_empty_queue();
    assert_eq!(one.maildir().len(), 2);
    shipped(&["passed-later"]);
    let passed = |all: &BTreeMap<String, String>| {
        all.values().filter(|subject| subject.starts_with("passed-")).count()
    };
    assert_eq!(passed(&logged(&two)), 3);
    two.wait_until("the array knows it, too", || state(&after) == "released");
    assert_eq!((state(&kept), state(&released)), ("held".to_owned(), "released".to_owned()));
}

/// A machine was cloned: of two processes with one data folder one takes part.
#[test]
fn of_a_node_and_its_copy_the_one_that_began_last_takes_part() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let settings = settings(&server);
    let mut one = Node::start_named("mx1.test", &settings);
    let two = Node::start_named("mx2.test", &settings);
    send(&one, "ann@example.org", "held-once");
    two.wait_until("it is shipped", || server.sql("SELECT count(*) FROM gauntlet.held") == "1");
    one.stop();
    let mut copy = Node::start_named("mx1.test", &settings);
    copy.stop();
    std::fs::remove_dir_all(copy.data()).unwrap();
    let copied = Command::new("cp").arg("-a").args([one.data(), copy.data()]).status().unwrap();
    assert!(copied.success());
    one.run();
    one.wait_until("it takes part", || one.log().matches("the array is there").count() == 2);
    copy.run();
    one.wait_until("it says so", || one.log().contains("another process takes part in the array"));
    let held = server.sql("SELECT item FROM gauntlet.held");
    let said = gauntlet(&two, &["array", "order", "mx1.test", "release", &held, "--wait"]);
    assert!(said.contains("released to"), "{said}");
    copy.wait_for_empty_queue();
    one.wait_for_empty_queue();
    assert_eq!((one.maildir().len(), copy.maildir().len()), (0, 1));
}

/// The database is set back to a backup: its numbers of orders and editions come again, and it does
/// not know held mail that nodes shipped since.
#[test]
fn a_database_that_was_set_back_is_told_again_and_its_orders_are_done() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let settings = settings(&server).replace("status_seconds", "poll_seconds = 1\nstatus_seconds");
    let one = Node::start_named("mx1.test", &settings);
    let two = Node::start_named("mx2.test", &settings);
    for subject in ["held-a", "held-b"] {
        send(&two, "ann@example.org", subject);
    }
    let held = "SELECT count(*) FROM gauntlet.held WHERE state = 'held'";
    one.wait_until("they are shipped", || server.sql(held) == "2");
    let id = |subject: &str| {
        server.sql(&format!("SELECT item FROM gauntlet.held WHERE subject LIKE '%{subject}'"))
    };
    let (first, second) = (id("held-a"), id("held-b"));
    let release =
        |id: &str| gauntlet(&one, &["array", "order", "mx2.test", "release", id, "--wait"]);
    assert!(release(&first).contains("released to"), "{}", release(&first));
    let policy = |name: &str| {
        let path = server.folder().join(format!("{name}.toml"));
        let rule = format!(
            "[[rule]]\nname = \"{name}\"\nwhen.sender = \"ann@example.org\"\n\
                            do = {{ quarantine = \"suspect\" }}\n"
        );
        std::fs::write(&path, rule).unwrap();
        gauntlet(&one, &["array", "policy", "publish", path.to_str().unwrap()]);
    };
    let in_force = |name: &str| {
        two.wait_until("the policy is in force", || {
            gauntlet(&two, &["policy", "show"]).contains(name)
        });
    };
    policy("gamma");
    in_force("gamma");
    // Back to before the order, the policy and the second message.
    server.sql(&format!(
        "DELETE FROM gauntlet.node_order; DELETE FROM gauntlet.held WHERE item <> '{first}'; \
         UPDATE gauntlet.held SET state = 'held', changed = received; \
         ALTER TABLE gauntlet.node_order ALTER id RESTART; DELETE FROM gauntlet.edition; \
         ALTER TABLE gauntlet.edition ALTER number RESTART; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gauntlet'"
    ));
    policy("delta");
    in_force("delta");
    let known = "SELECT string_agg(item, ' ') FROM gauntlet.held WHERE state = 'held'";
    one.wait_until("what is held is known again, and what not", || server.sql(known) == second);
    let said = release(&second);
    assert!(said.contains("released to"), "{said}");
    two.wait_for_empty_queue();
    assert_eq!(two.maildir().len(), 2, "both are released");
}
