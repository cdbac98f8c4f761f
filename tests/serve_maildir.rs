//! Mail comes in by SMTP and lies in the Maildir; what the policy holds or refuses does not.

use crate::common::{Node, Smtp, message, tokens};

const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

#[test]
fn ham_is_delivered_to_each_recipient() {
    let mut node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("one", 100)).unwrap();
    assert!(reply.starts_with("250 2.0.0 Ok: queued as "), "{reply}");
    let to = ["bob@example.net", "eve@example.net"];
    let reply = client.send("", &to, &message("two", 5_000)).unwrap();
    assert!(reply.starts_with("250 "), "{reply}");
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    let counts = tokens(&delivered);
    assert_eq!((counts["one"], counts["two"]), (1, 2));
    let text = String::from_utf8(delivered[0].clone()).unwrap();
    assert!(text.starts_with("Return-Path: <"), "{text}");
    assert!(
        text.contains("\nReceived: from client.test ([127.0.0.1])\n\tby gw.test with ESMTP id ")
    );
    assert_eq!(node.metric("gauntlet_messages_accepted_total"), 2);
    assert_eq!(node.metric("gauntlet_delivered_total"), 3);
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let logged = log.search(&gauntlet_store::Query::default()).unwrap().messages;
    for message in &logged {
        let record = log.get(&message.id).unwrap().unwrap().record;
        let all = ["received", "waited", "scanned", "decided", "spooled"];
        assert_eq!(stages(&record), all);
    }
    assert_eq!(logged.len(), 2);
}

#[test]
fn spam_does_not_reach_the_maildir_and_its_reference_leads_to_the_log() {
    let mut node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let spam = format!("From: a@b.example\r\nSubject: offer\r\n\r\n{GTUBE}\r\n");
    let reply = client.send("a@b.example", &["bob@example.net"], spam.as_bytes()).unwrap();
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 0);
    node.stop();
    let id = reply.split(|c: char| !c.is_ascii_alphanumeric()).find(|w| w.len() == 13);
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let logged = log.get(id.unwrap_or_else(|| panic!("no reference in {reply}"))).unwrap().unwrap();
    assert!(
        logged.record.deliveries.iter().all(|d| d.outcome.is_final()),
        "{:?}",
        logged.record.deliveries
    );
    assert_eq!(logged.record.deliveries.len(), 1);
    assert_eq!(stages(&logged.record)[..4], ["received", "waited", "scanned", "decided"]);
}

/// Names of the stages that the record names, which end in their order.
fn stages(record: &gauntlet_store::LogRecord) -> Vec<&str> {
    let ends: Vec<u64> = record.stages.iter().map(|s| s.at_us).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    record.stages.iter().map(|s| s.name.as_str()).collect()
}

#[test]
fn smuggling_ends_the_session_and_nothing_is_taken() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.say("MAIL FROM:<a@b.example>").unwrap();
    client.say("RCPT TO:<c@d.example>").unwrap();
    client.say("DATA").unwrap();
    client.write(b"X-Token: outer\r\n\r\nx\n.\r\nMAIL FROM:<spoof@b.example>\r\n").unwrap();
    assert!(client.reply().unwrap().starts_with("521 5.5.2 bare <LF>"));
    assert!(client.reply().is_err(), "the session is closed");
    assert_eq!(node.metric("gauntlet_smuggling_total"), 1);
    assert_eq!(node.metric("gauntlet_messages_accepted_total"), 0);
}

#[test]
fn a_looping_message_is_refused() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let loops =
        format!("{}{}", "Received: from a by b; x\r\n".repeat(60), "Subject: x\r\n\r\nx\r\n");
    let reply = client.send("a@b.example", &["c@d.example"], loops.as_bytes()).unwrap();
    assert!(reply.starts_with("554 5.4.6"), "{reply}");
}

#[test]
fn a_second_node_does_not_touch_the_data_of_the_first() {
    let node = Node::start("");
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["serve", "--config"])
        .arg(node.folder.path().join("gauntlet.toml"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains("another node uses this folder"), "{text}");
}
