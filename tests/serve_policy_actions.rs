//! The policy's actions `notify`, `learn` and `spam_folder` do what they promise.

use std::process::Command;

use crate::common::{Node, Sink, Smtp, message};
use gauntlet_engine::corrections::{message_id, policy_reporter_id};
use gauntlet_learning::Corrections;
use gauntlet_mail::Message;

const POLICY: &str = "\
[[rule]]\nname = \"notify\"\nwhen.subject = \"*secret*\"\n\
do = [{ notify = { to = [\"ops@example.net\", \"postmaster\"], template = \"Held: {id}\" } }, { quarantine = \"secrets\" }]\n\
[[rule]]\nname = \"train\"\nwhen.subject = \"*train*\"\ndo = { learn = \"spam\" }\nstop = false\n\
[[rule]]\nname = \"junk\"\nwhen.subject = \"*junk*\"\ndo = \"spam_folder\"\n";

fn policy(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, POLICY).unwrap();
    format!("[policy]\npath = {path:?}\n")
}

/// What `gauntlet trace` prints of the message that this reply names.
fn trace(node: &Node, reply: &str) -> String {
    let id = reply.split(|c: char| !c.is_ascii_alphanumeric()).find(|w| w.len() == 13);
    let id = id.unwrap_or_else(|| panic!("no reference in {reply}"));
    let mut shown = String::new();
    node.wait_until("the message is in the log", || {
        let mut trace = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        trace.args(["trace", id, "--data"]).arg(node.data());
        let output = trace.output().unwrap();
        shown = String::from_utf8(output.stdout).unwrap();
        output.status.success()
    });
    shown
}

/// Mail in the Maildir for an address.
fn mail_for(node: &Node, address: &str) -> Vec<String> {
    let all = node.maildir().into_iter().map(|m| String::from_utf8(m).unwrap());
    all.filter(|m| m.contains(&format!("\nDelivered-To: {address}\n"))).collect()
}

#[test]
fn a_notification_is_queued_once_for_each_message_and_address() {
    let folder = tempfile::tempdir().unwrap();
    let settings = policy(&folder) + "notifications_per_address_per_hour_max = 2\n";
    let mut node = Node::start(&settings);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut replies = Vec::new();
    let to = ["bob@example.net", "eve@example.net"];
    for (from, subject, field) in [
        ("ann@example.org", "one", ""),
        ("", "two", ""),
        ("ann@example.org", "three", "Auto-Submitted: auto-replied\r\n"),
        ("ann@example.org", "four", ""),
        ("ann@example.org", "five", ""),
    ] {
        let body =
            format!("From: ann@example.org\r\nSubject: secret {subject}\r\n{field}\r\nx\r\n");
        let reply = client.send(from, &to, body.as_bytes()).unwrap();
        assert!(reply.starts_with("250 "), "{reply}");
        replies.push(reply);
    }
    node.wait_for_empty_queue();
    let subjects = |address: &str| {
        let mut all: Vec<String> = mail_for(&node, address)
            .iter()
            .filter_map(|m| m.lines().find_map(|l| l.strip_prefix("Subject    secret ")))
            .map(str::to_owned)
            .collect();
        all.sort();
        all
    };
    assert_eq!(subjects("ops@example.net"), ["four", "one"]);
    assert_eq!(subjects("postmaster@example.net"), ["four", "one"]);
    let mail = mail_for(&node, "ops@example.net").remove(0);
    let parsed = Message::parse(mail.as_bytes());
    assert_eq!(parsed.header("Return-Path").unwrap().decoded(), "<>");
    assert_eq!(parsed.header("Auto-Submitted").unwrap().decoded(), "auto-generated");
    let text = parsed.parts()[0].text().unwrap();
    assert!(text.starts_with("Held: 1"), "{text}");
    assert!(text.contains("bob@example.net: quarantine:secrets (rule \"notify\")"), "{text}");
    assert!(text.contains("eve@example.net: quarantine:secrets (rule \"notify\")"), "{text}");

    let shown: Vec<String> = replies.iter().map(|reply| trace(&node, reply)).collect();
    assert!(shown[0].contains("  notified    after "), "{}", shown[0]);
    assert!(shown[0].contains(" ms ops@example.net by 1"), "{}", shown[0]);
    assert!(shown[1].contains("not notified") && shown[1].contains("null sender"), "{}", shown[1]);
    assert!(shown[2].contains("Auto-Submitted"), "{}", shown[2]);
    let limit = "over policy.notifications_per_address_per_hour_max (notify)";
    assert!(shown[4].contains(limit), "{}", shown[4]);
    node.stop();
    assert_eq!(node.log().matches("notification of the policy").count(), 4, "{}", node.log());
}

#[test]
fn what_a_policy_learns_is_in_the_corrections_journal() {
    let folder = tempfile::tempdir().unwrap();
    let settings = policy(&folder) + "learned_per_rule_per_hour_max = 1\n";
    let mut node = Node::start(&settings);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut send = |name: &str| {
        let body = format!("From: a@example.org\r\nSubject: train {name}\r\n\r\n{name}\r\n");
        client.send("a@example.org", &["bob@example.net"], body.as_bytes()).unwrap()
    };
    let first = send("one");
    let shown = trace(&node, &first);
    assert!(shown.contains("  learned     after "), "{shown}");
    assert!(shown.contains(" ms as spam by policy:train"), "{shown}");
    let second = trace(&node, &send("two"));
    assert!(second.contains("not learned"), "{second}");
    assert!(second.contains("policy:train: over policy.learned_per_rule_per_hour_max"), "{second}");
    node.wait_until("it is learned", || node.log().contains("corrections by the policy"));
    let corrections = Corrections::read(&node.data()).unwrap();
    let by: Vec<(bool, u64)> = corrections.values().map(|c| (c.spam, c.reporter)).collect();
    assert_eq!(by, [(true, policy_reporter_id("train"))]);
    assert!(!corrections.contains_key(&message_id(b"")));
    node.stop();
}

#[test]
fn mail_for_the_spam_folder_is_marked_and_filed() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&policy(&folder));
    let body = "From: a@example.org\r\nX-Spam-Flag: NO\r\nX-MS-Exchange-Organization-SCL: -1\r\n\
        X-Token: junk\r\nSubject: junk\r\n\r\nx\r\n";
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["bob@example.net"], body.as_bytes()).unwrap();
    client.send("a@example.org", &["bob@example.net"], &message("good", 100)).unwrap();
    node.wait_for_empty_queue();
    let junk = node.data().join("maildir/.Junk");
    assert!(junk.join("maildirfolder").is_file() && junk.join("cur").is_dir());
    let filed: Vec<_> = std::fs::read_dir(junk.join("new")).unwrap().flatten().collect();
    assert_eq!((filed.len(), node.maildir().len()), (1, 1));
    let mail = std::fs::read(filed[0].path()).unwrap();
    let parsed = Message::parse(&mail);
    let fields = |name: &str| {
        let all = parsed.headers().iter().filter(|h| h.name.eq_ignore_ascii_case(name.as_bytes()));
        all.map(|h| h.decoded().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fields("X-Spam-Flag"), ["YES"]);
    assert_eq!(fields("X-Spam-Level"), ["*****"]);
    assert_eq!(fields("X-MS-Exchange-Organization-SCL"), ["6"]);
    let shown = trace(&node, &reply);
    assert!(shown.contains("bob@example.net: spam_folder (junk)"), "{shown}");
    assert!(shown.contains("maildir in .Junk"), "{shown}");
    node.stop();

    // A next hop files by the fields.
    let sink = Sink::start();
    let settings = format!("[route]\nnext_hop = \"{}\"\n{}", sink.address, policy(&folder));
    let mut node = Node::start(&settings);
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("a@example.org", &["bob@example.net"], body.as_bytes()).unwrap();
    node.wait_for_empty_queue();
    let taken = String::from_utf8(sink.taken().remove(0)).unwrap();
    assert!(
        taken.contains("X-Spam-Flag: YES\r\n") && !taken.contains("X-Spam-Flag: NO"),
        "{taken}"
    );
    node.stop();
}

/// The client is given a reference code for each attempt; it leads to what was decided.
#[test]
fn an_attempt_that_the_policy_defers_is_found_by_its_reference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    let text = "[[rule]]\nname = \"large at night\"\ndo = { defer = \"come again\" }\n";
    std::fs::write(&path, text).unwrap();
    let mut node = Node::start(&format!("[policy]\npath = {path:?}\n"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let to = ["bob@example.net", "eve@example.net"];
    for _ in 0..2 {
        let reply = client.send("ann@example.org", &to, &message("later", 100)).unwrap();
        assert!(reply.starts_with("451 4.7.1 come again (reference "), "{reply}");
        let traced = trace(&node, &reply);
        for part in [
            "policy      bob@example.net: defer (large at night)",
            "policy      eve@example.net: defer (large at night)",
            "deferred ",
            "451 4.7.1 come again",
            "the client keeps the message and tries again",
        ] {
            assert!(traced.contains(part), "{part}: {traced}");
        }
    }
    let mut found = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    found.args(["messages", "--action", "defer", "--data"]).arg(node.data());
    let found = String::from_utf8(found.output().unwrap().stdout).unwrap();
    assert_eq!(found.lines().count(), 2, "one line for each attempt: {found}");
    assert_eq!(node.metric("gauntlet_queue_messages"), 0);
    node.stop();
}
