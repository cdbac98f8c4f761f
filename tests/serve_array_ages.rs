//! Nodes of other ages in an array: one that was alone for months, one of yesterday's build, those
//! whose clocks are an hour ahead and an hour behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use gauntlet_mail::Envelope;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::quarantine::HeldQuery;
use gauntlet_store::record::{Delivery, LogRecord, Outcome};
use gauntlet_store::{Log, Quarantine, QuarantineItem};
use gauntlet_verdict::{Class, Disposition, Final, Verdict};

use crate::common::array_site::{all_held, all_logged, unstarted};
use crate::common::{Node, Smtp, message, program, tokens};
use crate::postgres::Server;

/// Nothing is asked of the network, and everything happens soon.
fn settings(server: &Server) -> String {
    format!(
        "[array]\ndatabase = \"{}\"\nobjects = \"file://{}\"\nship_seconds = 1\n\
         status_seconds = 1\npoll_seconds = 1\n[facts]\nenabled = false\n",
        server.uri(),
        server.folder().join("objects").display()
    )
}

/// Runs a node's build of the program beside it, by its clock.
fn gauntlet(node: &Node, args: &[&str]) -> Output {
    let mut command = node.launch.command(None);
    command.args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
    command.env_remove("GAUNTLET_CONFIG").env("USER", "ada").output().unwrap()
}

fn done(node: &Node, args: &[&str]) -> String {
    let output = gauntlet(node, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn send(node: &Node, name: &str, count: usize) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..count {
        let body = message(&format!("{name}-{n}"), 200);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
}

/// Whether the array says this of a node.
fn is_said(asks: &Node, name: &str, what: &str) -> bool {
    let out = gauntlet(asks, &["array", "nodes"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().any(|line| line.starts_with(name) && line.contains(what))
}

/// Subjects of the array's log, each as often as it is there.
fn logged(asks: &Node) -> Vec<String> {
    let out = gauntlet(asks, &["messages", "--array", "--json", "--limit", "1000"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let subject = |line: &str| {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        found["subject"].as_str().unwrap().to_owned()
    };
    text.lines().map(subject).collect()
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Days that the node was alone.
const DAYS: i64 = 80;
/// Messages of each.
const OF_A_DAY: i64 = 30;

/// A message that was received then, and delivered.
fn old_record(n: i64, received_ms: i64) -> LogRecord {
    let recipient = "bob@example.net".to_owned();
    let disposition = Disposition {
        recipient: recipient.clone(),
        end: Final::Deliver,
        changes: Vec::new(),
        rules: Vec::new(),
        release: None,
    };
    let delivery = Delivery {
        address: recipient.clone(),
        outcome: Outcome::Delivered,
        at_ms: received_ms,
        ..Delivery::default()
    };
    LogRecord {
        id: format!("OLD{n}"),
        received_ms,
        envelope: Envelope {
            mail_from: format!("ann{n}@example.org"),
            rcpt_to: vec![recipient],
            ..Envelope::default()
        },
        size: 1_000,
        from: format!("Ann <ann{n}@example.org>"),
        subject: format!("ledger number {n}"),
        message_id: format!("old{n}@example.org"),
        verdict: Verdict { class: Class::Ham, ..Verdict::default() },
        dispositions: vec![disposition],
        deliveries: vec![delivery],
        ..LogRecord::default()
    }
}

/// A body of held mail.
fn old_body(n: i64) -> Vec<u8> {
    format!("Subject: offer {n}\r\nX-Token: old-{n}\r\n\r\nAn offer of old.\r\n").into_bytes()
}

/// Months of log and held mail, in the folder of a node that is stopped.
fn live_alone(data: &Path) {
    let log = Log::open(&data.join("log")).unwrap();
    let first = now_ms() - DAYS * DAY_MS;
    for day in 0..DAYS {
        let one = |n| old_record(day * OF_A_DAY + n, first + day * DAY_MS + n * 1_000);
        log.append((0..OF_A_DAY).map(one).collect()).unwrap();
    }
    let quarantine = Quarantine::open_shared(&data.join("quarantine")).unwrap();
    for n in 0..DAYS {
        let item = QuarantineItem {
            id: format!("HELD{n}"),
            message: format!("OLD{n}"),
            folder: "suspect".to_owned(),
            recipients: vec!["bob@example.net".to_owned()],
            envelope: Envelope {
                mail_from: "ann@example.org".to_owned(),
                rcpt_to: vec!["bob@example.net".to_owned()],
                ..Envelope::default()
            },
            received_ms: first + n * DAY_MS,
            class: Class::Suspect,
            score: 5.0,
            subject: format!("offer {n}"),
            from: "ann@example.org".to_owned(),
            release: None,
        };
        quarantine.put(&item, &old_body(n)).unwrap();
    }
    quarantine.delete("HELD3", "ada", now_ms()).unwrap();
}

#[test]
fn a_node_that_was_alone_for_months_brings_its_log_and_held_mail() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let keeps = "[quarantine]\nretention_days = 365\n[log]\nretention_days = 365\n[facts]\nenabled = false\n";
    let mut one = Node::start_named("mx1.test", keeps);
    send(&one, "alone", 20);
    one.wait_for_empty_queue();
    one.stop();
    live_alone(&one.data());
    // Its lines of the array, and a restart.
    let array = settings(&server).replace("[facts]\nenabled = false\n", "");
    one.config = one.config.replace("[facts]", &format!("{array}[facts]"));
    one.run();
    let two = Node::start_named("mx2.test", &settings(&server));
    send(&one, "together", 5);
    one.wait_until("it has brought everything", || {
        is_said(&two, "mx1.test", "log complete")
            && one.metric("gauntlet_array_held_behind_changes") == 0
            && one.metric("gauntlet_array_shipped_held_total") >= DAYS.unsigned_abs()
    });
    let all = usize::try_from(DAYS * OF_A_DAY).unwrap() + 25;
    let found = |args: &[&str]| done(&two, args);
    assert_eq!(server.sql("SELECT sum(messages) FROM gauntlet.log_count"), all.to_string());
    // Searches on the other node: by subject, by sender, by id, of the first day and the last one.
    for n in [0, 1, OF_A_DAY * DAYS / 2, OF_A_DAY * DAYS - 1] {
        let by_subject =
            found(&["messages", "--array", "--subject", &format!("ledger number {n}")]);
        assert!(by_subject.contains(&format!("OLD{n}")), "{by_subject}");
        let by_sender = found(&["messages", "--array", "--sender", &format!("ann{n}@example.org")]);
        assert!(by_sender.contains(&format!("OLD{n}")), "{by_sender}");
    }
    let listed = found(&["quarantine", "list", "--array", "--json", "--limit", "500"]);
    let held: BTreeSet<&str> = listed.lines().filter(|line| line.contains("\"HELD")).collect();
    assert_eq!(held.len() as i64, DAYS - 1, "{listed}");
    assert_eq!(found(&["quarantine", "show", "--array", "HELD7"]).into_bytes(), old_body(7));
    // Released from the other node: it leaves this one, once.
    let order = ["array", "order", "mx1.test", "release", "HELD7", "--wait"];
    assert!(done(&two, &order).contains("released to bob@example.net"));
    assert!(done(&two, &order).contains("released before"));
    one.wait_for_empty_queue();
    assert_eq!(tokens(&one.maildir()).get("old-7"), Some(&1));
    one.stop();
    let log = Log::open(&one.data().join("log")).unwrap();
    assert!(all_logged(&log).len() >= all);
    let quarantine = Quarantine::open(&one.data().join("quarantine")).unwrap();
    assert_eq!(all_held(&quarantine).len() as i64, DAYS);
    let released = HeldQuery { text: "offer 7".to_owned(), ..HeldQuery::default() };
    assert!(!quarantine.search(&released).unwrap().items.is_empty());
}

/// Variables that set the clock of a process off: the time of day alone, what is measured from a
/// start goes on as it is.
fn clock_off_by(offset: &str) -> Vec<(&'static str, String)> {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    vec![
        ("LD_PRELOAD", library.to_owned()),
        ("FAKETIME", offset.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}

#[test]
fn a_node_whose_clock_is_an_hour_ahead_is_shown_and_loses_nothing() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    if program("faketime").is_none() {
        return;
    }
    let right = Node::start_named("mx1.test", &settings(&server));
    let mut wrong = unstarted("mx2.test", &settings(&server));
    wrong.launch.environment = clock_off_by("+1h");
    wrong.run();
    send(&right, "right", 10);
    send(&wrong, "wrong", 10);
    right.wait_until("it is shown", || is_said(&right, "mx2.test", "CLOCK +3600 s"));
    assert!(!is_said(&right, "mx1.test", "CLOCK"));
    right.wait_until("all are in the log", || logged(&right).len() >= 20);
    let found = logged(&right);
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (20, 20));
    // Newest first: what came an hour "later" is before the rest, and each is found.
    assert!(found.iter().take(10).all(|subject| subject.contains("wrong")), "{found:?}");
    let policy = right.folder.path().join("hold.toml");
    let text = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\ndo = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, text).unwrap();
    done(&right, &["array", "policy", "publish", policy.to_str().unwrap()]);
    right.wait_until("the policy is in force", || is_said(&right, "mx2.test", "policy 1"));
    send(&wrong, "held", 1);
    right.wait_until("it is listed", || {
        done(&right, &["quarantine", "list", "--array"]).contains("mx2.test")
    });
    wrong.wait_for_empty_queue();
    assert_eq!(wrong.maildir().len(), 10);
}

/// Writes a policy that holds mail of this sender, and says where.
fn holding(node: &Node, sender: &str) -> String {
    let path = node.folder.path().join("hold.toml");
    let rule = format!(
        "[[rule]]\nname = \"hold\"\nwhen.sender = \"{sender}\"\ndo = {{ quarantine = \"suspect\" }}\n"
    );
    std::fs::write(&path, rule).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The id of the message that this node holds, as the array lists it to `asks`.
fn held_by(asks: &Node, name: &str) -> Option<String> {
    let listed = done(asks, &["quarantine", "list", "--array", "--json"]);
    let line = listed.lines().find(|line| line.contains(name))?;
    let held: serde_json::Value = serde_json::from_str(line).unwrap();
    Some(held["item"]["id"].as_str().unwrap().to_owned())
}

#[test]
fn a_node_whose_clock_is_an_hour_behind_is_shown_and_loses_nothing() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    if program("faketime").is_none() {
        return;
    }
    let right = Node::start_named("mx1.test", &settings(&server));
    let mut wrong = unstarted("mx2.test", &settings(&server));
    wrong.launch.environment = clock_off_by("-1h");
    wrong.run();
    send(&right, "right", 10);
    send(&wrong, "wrong", 10);
    right.wait_until("it is shown", || is_said(&right, "mx2.test", "CLOCK -3600 s"));
    assert!(!is_said(&right, "mx1.test", "CLOCK"));
    right.wait_until("all are in the log", || logged(&right).len() >= 20);
    let found = logged(&right);
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (20, 20));
    // Newest first: what came an hour "earlier" is after the rest, and each is found.
    assert!(found.iter().take(10).all(|subject| subject.contains("right")), "{found:?}");
    // Editions are in the order in which they were published, whatever the publisher's clock.
    for (number, (node, sender)) in
        [(&right, "eve@example.org"), (&wrong, "ann@example.org")].into_iter().enumerate()
    {
        done(node, &["array", "policy", "publish", &holding(node, sender)]);
        let said = format!("policy {}", number + 1);
        right.wait_until("the policy is in force", || {
            is_said(&right, "mx1.test", &said) && is_said(&right, "mx2.test", &said)
        });
    }
    // Each orders the other to release what that holds: once, whoever says it twice.
    for (asks, holds, name) in [(&right, &wrong, "mx2.test"), (&wrong, &right, "mx1.test")] {
        let token = format!("held-by-{name}");
        send(holds, &token, 1);
        asks.wait_until("it is listed", || held_by(asks, name).is_some());
        let order = ["array", "order", name, "release", &held_by(asks, name).unwrap(), "--wait"];
        assert!(done(asks, &order).contains("released to bob@example.net"));
        assert!(done(asks, &order).contains("released before"));
        holds.wait_for_empty_queue();
        assert_eq!(tokens(&holds.maildir()).get(&format!("{token}-0")), Some(&1));
    }
    assert_eq!((right.maildir().len(), wrong.maildir().len()), (11, 11));
}

/// Whether the node has this user in this role.
fn has_role(node: &Node, login: &str, role: &str) -> bool {
    let listed = done(node, &["user", "list"]);
    listed.lines().any(|line| line.contains(login) && line.contains(role))
}

#[test]
fn users_of_nodes_whose_clocks_differ_are_those_that_docs_say() {
    let Some(mut server) = Server::start(&["fsync=off"]) else { return };
    if program("faketime").is_none() {
        return;
    }
    let key = server.folder().join("users.key");
    let path = key.to_str().unwrap();
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["array", "users-key", path])
        .status();
    assert!(made.unwrap().success());
    let shares = format!("share_seconds = 1\nusers_key = {key:?}\n[facts]");
    let settings = settings(&server).replace("[facts]", &shares);
    let right = Node::start_named("mx1.test", &settings);
    let mut slow = unstarted("mx2.test", &settings);
    slow.launch.environment = clock_off_by("-1h");
    slow.run();
    done(&right, &["user", "add", "ada-lovelace"]);
    let both = |role: &str| {
        right.wait_until(role, || has_role(&right, "ada-lovelace", role));
        right.wait_until(role, || has_role(&slow, "ada-lovelace", role));
    };
    let change = |node: &Node, role: &str| {
        done(node, &["user", "change", "ada-lovelace", "--role", role]);
    };
    both("user");
    // Who knows of the change before makes a later one, by whatever clock.
    for (node, role) in [(&slow, "reviewer"), (&right, "administrator"), (&slow, "user")] {
        change(node, role);
        both(role);
    }
    // Of two changes that knew nothing of one another the one of the clock that is ahead stands.
    server.kill();
    change(&right, "reviewer");
    change(&slow, "administrator");
    server.restart();
    both("reviewer");
    done(&slow, &["user", "remove", "ada-lovelace"]);
    right.wait_until("the user is gone", || !has_role(&right, "ada-lovelace", ""));
}

/// Tables that a newer program changed so that this one may not use them any more.
#[test]
fn a_node_that_is_too_old_for_the_tables_says_so_and_takes_mail_alone() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let one = Node::start_named("mx1.test", &settings(&server));
    send(&one, "before", 5);
    one.wait_until("they are in the log", || logged(&one).len() == 5);
    let before = server.sql("SELECT found, needs FROM gauntlet.version");
    let (found, needs) = before.split_once('|').unwrap();
    server.sql(
        "UPDATE gauntlet.version SET found = found + 1, needs = found + 1; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gauntlet'",
    );
    // One that ran, and one that is started now.
    let two = Node::start_named("mx2.test", &settings(&server));
    for node in [&one, &two] {
        node.wait_until("it says so", || node.log().contains("upgrade this node"));
        send(node, "alone", 10);
        node.wait_for_empty_queue();
        assert_eq!(node.metric("gauntlet_array_connected"), 0);
        let status = done(node, &["status"]);
        assert!(status.contains("takes mail   yes"), "{status}");
        assert!(status.contains("needs a program that knows schema"), "{status}");
        let said = gauntlet(node, &["array", "nodes"]);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.is_empty() && said.contains("upgrade this node"), "{said}");
    }
    assert_eq!((one.maildir().len(), two.maildir().len()), (15, 10));
    assert_eq!(
        server.sql("SELECT sum(messages) FROM gauntlet.log_count"),
        "5",
        "nothing is written"
    );
    // As after an upgrade of the program: what waited is shipped.
    server.sql(&format!("UPDATE gauntlet.version SET found = {found}, needs = {needs}"));
    one.wait_until("the log is whole", || logged(&one).len() == 25);
}

/// The other build, or none with a note: `.ci/long` makes yesterday's.
fn other_build() -> Option<PathBuf> {
    let named = std::env::var_os("GAUNTLET_OLD").map(PathBuf::from);
    if named.is_none() {
        eprintln!(
            "two builds: GAUNTLET_OLD names no other build, so tables of other ages are made"
        );
    }
    named
}

/// Two nodes of an array, the first of `old`, take mail, orders and a policy, and hand messages
/// over both ways.
fn side_by_side(server: &Server, old: Option<PathBuf>, between: impl FnOnce()) {
    // Nobody listens there: what they take waits.
    let stuck = format!("{}[route]\nnext_hop = \"127.0.0.1:1\"\n", settings(server));
    let mut one = unstarted("mx1.test", &stuck);
    one.launch.program = old;
    one.run();
    send(&one, "before", 10);
    one.wait_until("it is in the log", || {
        server.try_sql("SELECT 1 FROM gauntlet.log_count").is_ok()
            && server.sql("SELECT coalesce(sum(messages), 0) FROM gauntlet.log_count") == "10"
    });
    between();
    let two = Node::start_named("mx2.test", &stuck);
    two.wait_until("both take part", || {
        is_said(&two, "mx1.test", "active") && is_said(&two, "mx2.test", "active")
    });
    send(&one, "older", 10);
    send(&two, "newer", 10);
    two.wait_until("both are in the log", || logged(&two).len() >= 30);
    // A restart of the older one finds tables that the newer one may have changed.
    one.stop();
    one.run();
    let policy = two.folder.path().join("hold.toml");
    let text = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\ndo = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, text).unwrap();
    done(&two, &["array", "policy", "publish", policy.to_str().unwrap()]);
    two.wait_until("the policy is in force", || {
        is_said(&two, "mx1.test", "policy 1") && is_said(&two, "mx2.test", "policy 1")
    });
    send(&one, "held by the older", 3);
    send(&two, "held by the newer", 3);
    two.wait_until("both hold mail", || {
        let listed = done(&two, &["quarantine", "list", "--array", "--json"]);
        listed.lines().filter(|line| line.contains("mx1.test")).count() == 3
            && listed.lines().filter(|line| line.contains("mx2.test")).count() == 3
    });
    two.wait_until("all are in the log", || logged(&two).len() == 36);
    // Either build reads what both have written, as long as the older one knows the outcomes in it.
    for node in [&one, &two] {
        let found = done(node, &["messages", "--array", "--json", "--limit", "1000"]);
        assert_eq!(found.lines().count(), 36, "{found}");
        let held = done(node, &["quarantine", "list", "--array", "--json"]);
        assert_eq!(held.lines().count(), 6, "{held}");
        for line in held.lines() {
            let held: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = held["item"]["id"].as_str().unwrap();
            let body = done(node, &["quarantine", "show", "--array", id]);
            assert!(body.contains("held by the"), "{body}");
        }
    }
    for (from, to) in [("mx1.test", "mx2.test"), ("mx2.test", "mx1.test")] {
        let said = done(&two, &["array", "order", from, "move", to, "--wait"]);
        assert!(said.contains("messages are handed over"), "{said}");
        two.wait_until("they are gone", || is_said(&two, from, " 0 queued"));
    }
    two.wait_until("all are there", || is_said(&two, "mx1.test", " 30 queued"));
    two.wait_until("nothing waits", || is_said(&two, "mx1.test", "log complete"));
    let found: BTreeSet<String> = logged(&two).into_iter().collect();
    assert_eq!(found.len(), 36, "{found:?}");
}

#[test]
fn two_builds_go_on_side_by_side() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let old = other_build();
    let is_real = old.is_some();
    side_by_side(&server, old, || {
        if !is_real {
            // As a build of tomorrow makes them: it adds, and older ones go on.
            server.sql(
                "ALTER TABLE gauntlet.node ADD COLUMN newer text NOT NULL DEFAULT ''; \
                 ALTER TABLE gauntlet.held ADD COLUMN newer bigint; \
                 CREATE TABLE gauntlet.newer (id bigint PRIMARY KEY); \
                 UPDATE gauntlet.version SET found = found + 1",
            );
        }
    });
}

/// Packs that an older program does not read are made where no node is older, by what nodes tell.
#[test]
fn packs_are_such_as_the_oldest_node_reads() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let node = Node::start_named("mx1.test", &settings(&server));
    node.wait_until("it takes part", || is_said(&node, "mx1.test", "log complete"));
    let newest = || {
        server.sql("SELECT get_byte(body, 0) FROM gauntlet.log_pack ORDER BY number DESC LIMIT 1")
    };
    let mut sent = 0;
    let mut next = |layout: &str| {
        node.wait_until("packs are such", || {
            send(&node, &format!("{sent}"), 1);
            sent += 1;
            newest() == layout
        });
    };
    next("2");
    for (status, layout) in [("{\"schema\": 6}", "1"), ("{\"schema\": 7}", "2"), ("{}", "1")] {
        server.sql(&format!(
            "INSERT INTO gauntlet.node (name, identity, status) VALUES ('old.test', 'old', \
             '{status}') ON CONFLICT (name) DO UPDATE SET status = '{status}'"
        ));
        next(layout);
    }
    done(&node, &["array", "leave", "old.test", "--yes"]);
    next("2");
    let all = format!("{sent}");
    node.wait_until("all is in the log", || logged(&node).len().to_string() == all);
}
