//! A clock that is ahead of the time that has passed: nothing that is held or queued goes for it,
//! every page and command reports it, and an administrator decides.

use std::process::{Command, Output};

use crate::common::{Node, Smtp, http_get, message};
use gauntlet_mail::Envelope;
use gauntlet_store::{Quarantine, QuarantineItem};
use gauntlet_verdict::Class;

const DAY_MS: i64 = 86_400_000;

fn gauntlet(node: &Node, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
    command.env_remove("GAUNTLET_CONFIG").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Makes the node believe that it was stopped so many days ago: as if its clock had stepped since.
fn stopped_days_ago(node: &Node, days: i64) {
    let steady_ms = now_ms() - days * DAY_MS;
    let text = format!("{{\"steady_ms\":{steady_ms}}}");
    std::fs::write(node.data().join("clock.json"), text).unwrap();
}

/// Puts messages into the quarantine of a node that is stopped, received so many days ago.
fn hold(node: &Node, count: usize, days: i64) {
    let quarantine = Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    for n in 0..count {
        let item = QuarantineItem {
            id: format!("aged-{n}"),
            message: format!("aged-{n}"),
            folder: "suspect".to_owned(),
            recipients: vec!["bob@example.net".to_owned()],
            envelope: Envelope::default(),
            received_ms: now_ms() - days * DAY_MS,
            class: Class::Suspect,
            score: 5.0,
            subject: format!("aged {n}"),
            from: "ann@example.org".to_owned(),
            release: None,
        };
        let text = message(&format!("aged {n}"), 200);
        assert!(quarantine.put(&item, text.as_ref()).unwrap());
    }
}

#[test]
fn held_and_queued_mail_outlives_a_clock_set_ahead_until_it_is_accepted() {
    // Nobody listens there: what goes there stays in the queue.
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hop = away.local_addr().unwrap();
    drop(away);
    let mut node = Node::start(&format!(
        "[route]\nnext_hop = \"{hop}\"\n\
         [sender]\nexpire_seconds = 5\nretry_seconds = [3600]\n"
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let text = message("waits", 500);
    let reply = client.send("ann@example.org", &["queued@example.net"], &text).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("it waits for its second attempt", || {
        said(&gauntlet(&node, &["queue", "list"])).contains("1 tries")
    });
    assert_eq!(gauntlet(&node, &["clock"]).status.code(), Some(0));
    node.stop();

    // As if the clock had stepped ten days ahead: what is held is nine days old by it, of seven.
    stopped_days_ago(&node, 10);
    hold(&node, 1, 9);
    node.run();
    let clock = gauntlet(&node, &["clock"]);
    assert_eq!(clock.status.code(), Some(1));
    assert!(said(&clock).contains("10 days and 0 hours ahead"), "{}", said(&clock));
    assert!(said(&clock).contains("gauntlet clock --accept"));
    assert!(said(&gauntlet(&node, &["status"])).contains("to decide"));
    let doctor = gauntlet(&node, &["doctor", "--dns", "127.0.0.1:9"]);
    assert!(said(&doctor).contains("error   clock"), "{}", said(&doctor));
    let health = http_get(node.console, "/healthz");
    assert!(health.starts_with("ok\n") && health.contains("clock --accept"), "{health}");
    assert!(node.log().contains("10 days and 0 hours ahead"));
    // Housekeeping ran at the start; a retry that fails does not expire the other.
    std::thread::sleep(std::time::Duration::from_secs(5));
    gauntlet(&node, &["queue", "retry"]);
    node.wait_until("the second attempt", || {
        said(&gauntlet(&node, &["queue", "list"])).contains("2 tries")
    });
    assert!(said(&gauntlet(&node, &["quarantine", "list"])).contains("aged"));

    // Also over a restart, until somebody says that the clock is right.
    node.stop();
    node.run();
    assert!(said(&gauntlet(&node, &["quarantine", "list"])).contains("aged"));
    assert!(said(&gauntlet(&node, &["clock", "--accept"])).contains("accepted"));
    node.wait_until("what is too old is gone", || {
        !said(&gauntlet(&node, &["quarantine", "list"])).contains("aged")
    });
    assert_eq!(gauntlet(&node, &["clock"]).status.code(), Some(0));
    // Before it expires it is tried once more.
    gauntlet(&node, &["queue", "retry"]);
    node.wait_until("the other expired", || {
        !said(&gauntlet(&node, &["queue", "list"])).contains("queued@example.net")
    });
    node.stop();
    node.run();
    assert_eq!(gauntlet(&node, &["clock"]).status.code(), Some(0), "it is remembered");
}

/// A large share of what is held does not go at once, whatever the clock says.
#[test]
fn many_held_messages_do_not_expire_at_once_without_a_question() {
    let mut node = Node::start("");
    node.stop();
    hold(&node, 120, 8);
    node.run();
    node.wait_until("the question", || {
        said(&gauntlet(&node, &["clock"])).contains("quarantine.expire_percent_max")
    });
    let held = |node: &Node| said(&gauntlet(node, &["quarantine", "list", "--limit", "300"]));
    assert!(held(&node).contains("aged 7"));
    assert!(said(&gauntlet(&node, &["clock", "--accept"])).contains("accepted"));
    node.wait_until("they are gone", || !held(&node).contains("aged 7"));
    assert_eq!(gauntlet(&node, &["clock"]).status.code(), Some(0));
}

/// A file that is lost is no clock that is right: the time goes on from the newest mail.
#[test]
fn a_lost_clock_file_ages_nothing_until_it_is_accepted() {
    let mut node = Node::start("");
    node.stop();
    hold(&node, 1, 30);
    let path = node.data().join("clock.json");
    for content in [None, Some(""), Some("\0\0\0\0\0\0"), Some("{\"steady_ms\":0}")] {
        let _there_or_not = std::fs::remove_file(&path);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        node.run();
        // Housekeeping runs at the start.
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert!(said(&gauntlet(&node, &["quarantine", "list"])).contains("aged 0"), "{content:?}");
        let clock = gauntlet(&node, &["clock"]);
        assert_eq!(clock.status.code(), Some(1), "{content:?}");
        for word in ["30 days", "clock.json: the file", "gauntlet clock --accept"] {
            assert!(said(&clock).contains(word), "{word}: {}", said(&clock));
        }
        node.stop();
    }
    node.run();
    assert!(said(&gauntlet(&node, &["clock", "--accept"])).contains("accepted"));
    node.wait_until("what is too old is gone", || {
        !said(&gauntlet(&node, &["quarantine", "list"])).contains("aged 0")
    });
    node.stop();
}
