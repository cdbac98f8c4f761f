//! Real peers: swaks as client, Postfix as next hop, real mail from the corpus.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::common::postfix::Postfix;
use crate::common::{Node, Smtp, corpus, files_below, message, program, tokens};

#[test]
fn swaks_delivers() {
    let Some(swaks) = program("swaks") else { return };
    let node = Node::start("");
    let server = node.smtp.to_string();
    let output = Command::new(swaks)
        .args(["--server", &server, "--from", "ann@example.org", "--to", "bob@example.net"])
        .args(["--pipeline", "--add-header", "X-Token: swaks", "--body", "line\n.dot\n..dots\n"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(tokens(&delivered)["swaks"], 1);
    let text = String::from_utf8_lossy(&delivered[0]).into_owned();
    assert!(text.contains("\n.dot\n..dots\n"), "{text}");
}

#[test]
fn postfix_is_the_next_hop() {
    let Some(postfix) = Postfix::start() else { return };
    let config =
        format!("[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [1]\n", postfix.address);
    let node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..20 {
        let body = message(&format!("p{i}"), i * 3_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_for_empty_queue();
    node.wait_until("Postfix delivered", || postfix.delivered().len() >= 20);
    let counts = tokens(&postfix.delivered());
    assert_eq!(counts.len(), 20, "{}", postfix.log());
    assert!(counts.values().all(|n| *n == 1));
}

/// 1,000 real messages by SMTP: each one is in the Maildir, in quarantine, or refused, and the log
/// says which.
#[test]
fn real_mail_is_accounted_for() {
    let Some(corpus) = corpus() else { return };
    let files = files_below(&corpus.join("dev"));
    let step = (files.len() / 1_000).max(1);
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let (mut accepted, mut refused, mut deferred) = (BTreeSet::new(), 0, 0);
    let mut sent = 0;
    for file in files.iter().step_by(step).filter(|f| f.extension().is_none_or(|e| e != "tsv")) {
        let mut body = format!("X-Token: m{sent}\r\n").into_bytes();
        body.extend(fs::read(file).unwrap());
        sent += 1;
        if sent % 100 == 0 {
            client = Smtp::connect(node.smtp).unwrap();
        }
        let reply = client.send("a@example.org", &["b@example.net"], &body).unwrap();
        match reply.as_bytes().first() {
            Some(b'2') => {
                let id = reply.trim().rsplit(' ').next().unwrap_or_default().to_owned();
                accepted.insert(id);
            }
            Some(b'5') => refused += 1,
            _ => deferred += 1,
        }
    }
    assert_eq!((sent >= 1_000, deferred), (true, 0), "{sent} sent");
    node.wait_for_empty_queue();
    let mut node = node;
    node.stop();
    let delivered = node.maildir().len();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let held = gauntlet_store::Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    let held: u64 = held.folders().unwrap().iter().map(|f| f.items).sum();
    let mut other = 0;
    for id in &accepted {
        let logged = log.get(id).unwrap().unwrap_or_else(|| panic!("{id} is not in the log"));
        let ends = &logged.record.deliveries;
        assert!(!ends.is_empty() && ends.iter().all(|d| d.outcome.is_final()), "{id}: {ends:?}");
        let kept = ["delivered", "quarantined"];
        other += usize::from(!ends.iter().any(|d| kept.contains(&d.outcome.name())));
    }
    eprintln!("{sent} sent: {delivered} delivered, {held} held, {refused} refused, {other} else");
    assert_eq!(accepted.len(), delivered + usize::try_from(held).unwrap() + other);
    assert_eq!(accepted.len() + refused, sent);
}
