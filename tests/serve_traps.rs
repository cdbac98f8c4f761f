//! Traps: a listener that takes mail to anywhere and delivers none, and whole domains without
//! users.

use gauntlet_learning::{probes, signatures};
use gauntlet_store::{Log, Query};

use crate::common::{Node, Sink, Smtp};

const BODY: &str = "Buy these fine replica watches of our shop before the night is over.\r\n";

fn spam(subject: &str) -> Vec<u8> {
    let head = format!("From: Eve <eve@sender.example>\r\nSubject: {subject}\r\n\r\n");
    format!("{head}{}http://watches.evil.com/buy\r\n", BODY.repeat(30)).into_bytes()
}

/// How the recipients of the message with this subject ended, and by which rule.
fn ends(node: &Node, subject: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    node.wait_until("the message is in the log", || {
        let log = Log::open(&node.data().join("log")).unwrap();
        let page = log.search(&Query { limit: 100, ..Query::default() }).unwrap();
        let id = page.messages.iter().find(|m| m.subject == subject).map(|m| m.id.clone());
        let Some(logged) = id.and_then(|id| log.get(&id).unwrap()) else { return false };
        let of = |d: &gauntlet_verdict::Disposition| {
            (d.recipient.clone(), d.end.name().to_owned(), d.rules.join(" "))
        };
        found = logged.record.dispositions.iter().map(of).collect();
        logged.record.deliveries.iter().all(|d| d.outcome.is_final())
    });
    found
}

#[test]
fn a_listener_for_traps_is_no_relay_and_learns() {
    let sink = Sink::start();
    let config = format!(
        "[route]\nnext_hop = \"{}\"\n[domains]\nlocal = [\"example.net\"]\n[facts]\nenabled = false\n",
        sink.address
    );
    let node = Node::start_listening("role = \"trap\"", &config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    // What testers of open relays ask for.
    let to = [
        "bob@elsewhere.example",
        "user%other.example@third.example",
        "other.example!user@example.net",
        "\"user@other.example\"@example.net",
        "ann@example.net",
    ];
    let said = client.send("eve@sender.example", &to, &spam("to a trap")).unwrap();
    assert!(said.starts_with("250 2.0.0 Ok: queued as "), "{said}");
    // A report nobody could deliver must not come of it either.
    let said = client.send("", &["nobody@nowhere.example"], &spam("without a sender")).unwrap();
    assert!(said.starts_with("250 "), "{said}");
    let all = ends(&node, "to a trap");
    assert_eq!(all.len(), 5);
    for (recipient, end, rules) in &all {
        assert_eq!((end.as_str(), rules.as_str()), ("discard", "trap"), "{recipient}");
    }
    ends(&node, "without a sender");
    node.wait_until("it is learned from", || {
        let (_, entries) = signatures::load(&node.data()).unwrap();
        !entries.is_empty() && probes::read(&node.data(), 0).unwrap().len() == 2
    });
    let seen = probes::read(&node.data(), 0).unwrap();
    assert_eq!(seen[0].urls, ["http://watches.evil.com/buy"]);
    assert_eq!(
        (seen[0].network.as_str(), seen[0].sender.as_str()),
        ("n 127.0.0.0/24", "sender.example")
    );
    assert_eq!(node.metric("gauntlet_messages_trapped_total"), 2);
    assert!(sink.messages.lock().unwrap().is_empty(), "a trap delivers nothing");
    assert_eq!(node.metric("gauntlet_messages_accepted_total"), 0);
}

#[test]
fn mail_to_a_trap_domain_goes_nowhere_and_its_other_recipients_get_theirs() {
    let sink = Sink::start();
    let config = format!(
        "[route]\nnext_hop = \"{}\"\n[domains]\nlocal = [\"example.net\"]\n[recipients]\n\
         known = [\"bob@example.net\"]\n[facts]\nenabled = false\n\
         [learning]\nprobe_domains = [\"old.example\"]\n",
        sink.address
    );
    let node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let to = ["anybody@old.example", "bob@example.net"];
    let said = client.send("eve@sender.example", &to, &spam("to both")).unwrap();
    assert!(said.starts_with("250 "), "{said}");
    let all = ends(&node, "to both");
    assert_eq!(all[0].1, "discard");
    assert_eq!(all[0].2, "trap");
    assert_ne!(all[1].2, "trap");
    node.wait_until("it is learned from", || !signatures::load(&node.data()).unwrap().1.is_empty());
    let said = client.say("MAIL FROM:<a@b.example>").unwrap();
    assert!(said.starts_with("250"), "{said}");
    let said = client.say("RCPT TO:<x@sub.old.example>").unwrap();
    assert!(said.starts_with("550"), "a domain below is another: {said}");
}

#[test]
fn a_trap_domain_with_a_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gauntlet.toml");
    let text = "[recipients]\nknown = [\"ann@Old.example\"]\n[learning]\nprobe_domains = ";
    for (domains, why) in [
        ("[\"old.example\"]", "has a user, ann@Old.example"),
        ("[\"trap@old.example\"]", "is no domain"),
        ("[\"localhost\"]", "is no domain"),
    ] {
        std::fs::write(&path, format!("{text}{domains}\n")).unwrap();
        let path = path.to_str().unwrap();
        let out = crate::common::channels::gauntlet(&["config", "check", "--config", path]);
        let said = crate::common::channels::bad(&out);
        assert!(said.contains("learning.probe_domains") && said.contains(why), "{said}");
    }
}
