//! What is edited once for all nodes of an array: how it reaches them, which of several editions a
//! node goes by, and that it goes by it without the database, too.

use std::time::Instant;

use gauntlet_gateway::clock::now_ms;

use crate::common::{Node, Smtp, http_get, message};
use crate::postgres::Server;
use crate::serve_array::{done, is_said, settings};

/// A policy under which mail of ann@example.org gets this answer.
fn rejecting(word: &str) -> String {
    format!(
        "[[rule]]\nname = \"{word}\"\nwhen.sender = \"ann@example.org\"\n\
         do = {{ reject = \"{word} {{id}}\" }}\n"
    )
}

/// Publishes it for this scope.
fn publish(node: &Node, word: &str, scope: &str) {
    let path = node.folder.path().join("published.toml");
    std::fs::write(&path, rejecting(word)).unwrap();
    done(node, &["array", "policy", "publish", path.to_str().unwrap(), "--scope", scope]);
}

/// What the node says to mail of ann@example.org.
fn answer(node: &Node) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("ann@example.org", &["bob@example.net"], &message("asked", 200)).unwrap()
}

/// When the node took policy and settings over, as `gauntlet status` says.
fn since(node: &Node) -> [i64; 2] {
    let status: serde_json::Value =
        serde_json::from_str(&done(node, &["status", "--json"])).unwrap();
    let array = &status["node"]["array"];
    ["policy_since_ms", "settings_since_ms"].map(|name| array[name].as_i64().unwrap())
}

fn number(node: &Node) -> u64 {
    node.metric("gauntlet_array_policy_number")
}

/// The nodes look for nothing by themselves for an hour.
#[test]
fn a_policy_is_in_force_everywhere_as_soon_as_nodes_are_notified() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let told = settings(&server).replace("status_seconds", "poll_seconds = 3600\nstatus_seconds");
    let nodes = ["mx1.test", "mx2.test", "mx3.test"].map(|name| Node::start_named(name, &told));
    for node in &nodes {
        node.wait_until("it takes part", || node.metric("gauntlet_array_connected") == 1);
    }
    let mut slowest = 0.0_f64;
    for round in 1..=5 {
        let begun = Instant::now();
        publish(&nodes[0], &format!("round-{round}"), "all");
        // Within the patience of a test, which is far less than the hour.
        nodes[0].wait_until("it is in force", || nodes.iter().all(|node| number(node) == round));
        slowest = slowest.max(begun.elapsed().as_secs_f64());
        for node in &nodes {
            let answer = answer(node);
            assert!(answer.starts_with("550") && answer.contains(&format!("round-{round}")));
        }
    }
    eprintln!(
        "policy: in force on 3 nodes at most {slowest:.2} s after `publish` began (promised: 5 s)"
    );
}

/// As behind a pooler that swallows notifications.
#[test]
fn a_policy_of_which_nobody_was_notified_is_found_by_looking() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let looks = settings(&server).replace("status_seconds", "poll_seconds = 1\nstatus_seconds");
    let nodes = ["mx1.test", "mx2.test"].map(|name| Node::start_named(name, &looks));
    nodes[0].wait_until("both take part", || {
        nodes.iter().all(|node| node.metric("gauntlet_array_connected") == 1)
    });
    let begun = Instant::now();
    server.sql(&format!(
        "INSERT INTO gauntlet.edition (kind, scope, body, who, note) \
         VALUES ('policy', 'all', '{}', 'ada', '')",
        rejecting("silently")
    ));
    nodes[0].wait_until("it is in force", || nodes.iter().all(|node| number(node) == 1));
    eprintln!("policy: found by looking {:.2} s later", begun.elapsed().as_secs_f64());
    assert!(nodes.iter().all(|node| answer(node).contains("silently")));
}

#[test]
fn an_edition_for_a_node_is_before_that_of_its_group_and_that_before_the_one_for_all() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let settings = settings(&server);
    let north = settings.replace("status_seconds", "group = \"north\"\nstatus_seconds");
    let one = Node::start_named("mx1.test", &north);
    let two = Node::start_named("mx2.test", &settings);
    // Nodes by name, which edition each is to go by, and what they answer then.
    let go_by = |numbers: [u64; 2], words: [&str; 2]| {
        one.wait_until(&format!("{words:?} are in force"), || {
            [number(&one), number(&two)] == numbers
        });
        for (node, word) in [&one, &two].into_iter().zip(words) {
            let answer = answer(node);
            assert!(answer.contains(word), "{word}: {answer}");
        }
    };
    publish(&one, "for-all", "all");
    go_by([1, 1], ["for-all", "for-all"]);
    publish(&two, "for-north", "group:north");
    go_by([2, 1], ["for-north", "for-all"]);
    publish(&two, "for-one", "node:mx1.test");
    go_by([3, 1], ["for-one", "for-all"]);
    // Newer ones of wider scopes change nothing for who has a narrower one.
    publish(&one, "north-anew", "group:north");
    publish(&one, "all-anew", "all");
    go_by([3, 5], ["for-one", "all-anew"]);
    done(&two, &["array", "policy", "withdraw", "--scope", "node:mx1.test"]);
    go_by([4, 5], ["north-anew", "all-anew"]);
    done(&two, &["array", "policy", "withdraw", "--scope", "group:north"]);
    go_by([5, 5], ["all-anew", "all-anew"]);
    // Settings go the same way.
    let days = |word: u64, scope: &str| {
        let path = one.folder.path().join("settings.toml");
        std::fs::write(&path, format!("[digest]\nlink_days = {word}\n")).unwrap();
        done(&one, &["array", "settings", "publish", path.to_str().unwrap(), "--scope", scope]);
    };
    let shown = |node: &Node| {
        let text = done(node, &["config", "show"]);
        let line = text.lines().find(|line| line.starts_with("digest.link_days")).unwrap();
        line.split('#').next().unwrap().split('=').nth(1).unwrap().trim().to_owned()
    };
    days(3, "all");
    days(4, "group:north");
    one.wait_until("the group's settings", || {
        shown(&one).starts_with('4') && shown(&two).starts_with('3')
    });
    days(5, "node:mx1.test");
    one.wait_until("the node's settings", || {
        shown(&one).starts_with('5') && shown(&two).starts_with('3')
    });
    assert!(is_said(&two, "mx1.test", "group north"), "nodes are listed with their group");
}

#[test]
fn a_node_that_starts_without_the_database_goes_by_what_the_array_published() {
    let Some(mut server) = Server::start(&[]) else { return };
    let begun_ms = now_ms();
    let mut one = Node::start_named("mx1.test", &settings(&server));
    assert!(answer(&one).starts_with("250"));
    publish(&one, "by-the-array", "all");
    let path = one.folder.path().join("settings.toml");
    std::fs::write(&path, "[digest]\nlink_days = 3\n").unwrap();
    done(&one, &["array", "settings", "publish", path.to_str().unwrap()]);
    one.wait_until("both are in force", || {
        is_said(&one, "mx1.test", "policy 1") && is_said(&one, "mx1.test", "settings 2")
    });
    let taken_over = since(&one);
    assert!(taken_over.iter().all(|at_ms| *at_ms > begun_ms), "{taken_over:?} after {begun_ms}");
    assert!(is_said(&one, "mx1.test", "policy 1 since 20"));
    server.kill();
    for is_killed in [true, false] {
        if is_killed {
            one.kill();
        } else {
            one.stop();
        }
        one.run();
        let answer = answer(&one);
        assert!(answer.starts_with("550") && answer.contains("by-the-array"), "{answer}");
        let shown = done(&one, &["config", "show"]);
        assert!(shown.contains("settings 2 of the array"), "{shown}");
    }
    one.wait_until("the database is away", || {
        http_get(one.console, "/metrics").contains("gauntlet_array_connected 0")
    });
    assert_eq!(number(&one), 1, "what it goes by is told, too");
    let status = done(&one, &["status"]);
    assert!(status.contains("goes by      policy 1 since 20"), "{status}");
    assert!(status.contains(", settings 2 since 20"), "{status}");
    assert_eq!(since(&one), taken_over, "by its disk, over restarts");
    server.restart();
    publish(&one, "when-it-was-back", "all");
    // Its number is some way on: a server that was killed leaves some out.
    one.wait_until("the next one is in force", || number(&one) > 1);
    assert!(answer(&one).contains("when-it-was-back"));
    assert!(since(&one)[0] > taken_over[0] && since(&one)[1] == taken_over[1]);
    // Withdrawn, it keeps the policy as its own, and says so without the database, too.
    done(&one, &["array", "policy", "withdraw", "--scope", "all"]);
    one.wait_until("it is its own", || is_said(&one, "mx1.test", "its own policy"));
    server.kill();
    one.kill();
    one.run();
    assert!(answer(&one).contains("when-it-was-back"));
    assert!(done(&one, &["status"]).contains("goes by      its own policy, settings 2 since"));
}
