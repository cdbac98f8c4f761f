//! Mail goes to a next hop: each recipient's own answer, retries, bounces, reload, drain, full
//! disk.

use std::time::Duration;

use crate::common::{Node, Sink, Smtp, message, tokens};

fn to_hop(sink: &Sink) -> String {
    format!("[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [1]\n", sink.address)
}

/// What a command prints about this node.
fn gauntlet(node: &Node, args: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .arg("--data")
        .arg(node.data())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_recipient_gets_its_own_end_and_the_sender_is_notified() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("gone".into(), "550 5.1.1 no such user".into());
    sink.recipients.lock().unwrap().insert("later".into(), "450 4.2.1 busy".into());
    let node = Node::start(&to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let to = ["bob@example.net", "gone@example.net", "later@example.net"];
    let reply = client.send("ann@example.org", &to, &message("three", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("the bounce is out", || sink.taken().len() >= 2);
    assert_eq!(node.metric("gauntlet_queue_messages"), 1, "one recipient waits");
    sink.recipients.lock().unwrap().remove("later");
    node.wait_for_empty_queue();
    let taken = sink.taken();
    // The bounce quotes the token too.
    assert_eq!(tokens(&taken)["three"], 3, "bob, the bounce, then later");
    let bounce = taken.iter().map(|m| String::from_utf8_lossy(m)).find(|m| m.contains("DAEMON"));
    let bounce = bounce.expect("a bounce");
    assert!(bounce.contains("\r\nFinal-Recipient: rfc822; gone@example.net\r\n"), "{bounce}");
    assert!(bounce.contains("\r\nStatus: 5.1.1\r\n"), "{bounce}");
    assert!(!bounce.contains("later@example.net"), "{bounce}");
}

#[test]
fn cut_through_answers_what_the_next_hop_answered() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("gone".into(), "550 5.1.1 no such user".into());
    let mut node = Node::start(&to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("c1", 100)).unwrap();
    assert!(reply.starts_with("250 2.0.0 Ok: passed on as "), "{reply}");
    assert_eq!(sink.taken().len(), 1, "it is there when 250 is said");
    let reply = client.send("ann@example.org", &["gone@example.net"], &message("c2", 100)).unwrap();
    assert!(
        reply.starts_with("550 5.1.1 refused by the next hop"),
        "its code is passed on: {reply}"
    );
    assert!(reply.contains("550 5.1.1 no such user"), "{reply}");
    *sink.answer.lock().unwrap() = "451 4.3.0 not now".to_owned();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("c3", 100)).unwrap();
    assert!(reply.starts_with("250 2.0.0 Ok: queued as "), "{reply}");
    *sink.answer.lock().unwrap() = "250 2.0.0 ok".to_owned();
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken()).len(), 2);
    assert_eq!(node.metric("gauntlet_cut_through_total"), 2);
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let all = log.search(&gauntlet_store::Query::default()).unwrap();
    assert_eq!(all.messages.len(), 3, "every message has its line");
    for found in &all.messages {
        // The client got its answer after the next hop had replied, not when the message was
        // judged.
        let record = log.get(&found.id).unwrap().unwrap().record;
        let last = record.stages.iter().map(|s| s.at_us).max().unwrap();
        let answered_us = u64::from(record.latency_ms) * 1_000 + 999;
        assert!(answered_us >= last, "{} after {:?}", record.latency_ms, record.stages);
    }
}

/// The next hop may have the message although it did not say so: asked again at once it gets one
/// copy more than it would get of a server that spools first.
#[test]
fn an_attempt_of_cut_through_that_breaks_off_counts_and_the_next_one_waits() {
    for (answer, copies) in [("", 2), ("451 4.3.0 not now", 1)] {
        let sink = Sink::start();
        *sink.answer.lock().unwrap() = answer.to_owned();
        let mut node = Node::start(&format!(
            "[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [3_600]\n",
            sink.address
        ));
        let mut client = Smtp::connect(node.smtp).unwrap();
        let body = message("broken", 100);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        let id = reply.trim().strip_prefix("250 2.0.0 Ok: queued as ").expect("it is queued");
        let due = |node: &Node| {
            let listed = gauntlet(node, &["queue", "list", "--json"]);
            let entry: serde_json::Value = serde_json::from_str(listed.trim()).unwrap();
            assert_eq!(entry["attempts"], 1, "{answer:?}: {listed}");
            entry["due_ms"].as_i64().unwrap()
        };
        node.wait_until("it waits", || node.metric("gauntlet_messages_active") == 0);
        let (now, first) = (gauntlet_gateway::clock::now_ms(), due(&node));
        assert!((3_000_000..=4_000_000).contains(&(first - now)), "{answer:?}: {}", first - now);
        assert_eq!(node.metric("gauntlet_deferred_total"), 1, "{answer:?}");
        assert_eq!(sink.taken().len(), copies - 1, "{answer:?}");
        node.wait_until("it is logged", || gauntlet(&node, &["trace", id]).contains("  deferred "));
        // Nor is it tried again because the node starts.
        node.kill();
        node.run();
        node.wait_until("it takes mail", || node.metric("gauntlet_queue_messages") == 1);
        assert_eq!(due(&node), first);
        assert_eq!(node.metric("gauntlet_deferred_total"), 0, "{answer:?}");
        assert_eq!(sink.taken().len(), copies - 1, "{answer:?}");
        "250 2.0.0 ok".clone_into(&mut sink.answer.lock().unwrap());
        gauntlet(&node, &["queue", "retry", id]);
        node.wait_for_empty_queue();
        assert_eq!(tokens(&sink.taken())["broken"], copies, "{answer:?}");
        let traced = gauntlet(&node, &["trace", id]);
        let words = ["  deferred ", "  delivered "].map(|word| traced.matches(word).count());
        assert_eq!(words, [1, 1], "{traced}");
        node.stop();
    }
}

#[test]
fn what_was_passed_on_is_logged_however_the_node_ends() {
    let sink = Sink::start();
    let mut node = Node::start(&to_hop(&sink));
    let mut sent = 0;
    for round in 0..6 {
        let mut client = Smtp::connect(node.smtp).unwrap();
        for _ in 0..=round {
            let body = message(&format!("p{sent}"), 500);
            let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
            assert!(reply.starts_with("250 2.0.0 Ok: passed on as "), "{reply}");
            sent += 1;
        }
        // At once: the log has had no time.
        node.kill();
        node.run();
    }
    node.stop();
    assert_eq!((node.logged(), sink.taken().len()), (sent, sent));
    let notes = std::fs::read_dir(node.data().join("queue")).unwrap().flatten();
    let notes = notes.filter(|e| e.file_name().to_string_lossy().starts_with("passed-on"));
    assert!(notes.map(|e| e.metadata().unwrap().len()).eq([0, 0]), "all is in the log");
}

#[test]
fn nothing_is_bounced_to_the_null_sender() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("gone".into(), "550 5.1.1 no such user".into());
    let node = Node::start(&to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let to = ["gone@example.net", "bob@example.net"];
    client.send("", &to, &message("null", 100)).unwrap();
    node.wait_for_empty_queue();
    assert_eq!(node.metric("gauntlet_bounces_total"), 0);
    assert_eq!(node.metric("gauntlet_failed_total"), 1);
}

/// Sends to somebody there is and somebody there is not, so that the message is queued; its id.
fn queued(client: &mut Smtp, from: &str, parameters: (&str, &str), body: &[u8]) -> String {
    let (of_mail, of_rcpt) = parameters;
    client.say(&format!("MAIL FROM:<{from}>{of_mail}")).unwrap();
    for to in ["gone@example.net", "bob@example.net"] {
        let reply = client.say(&format!("RCPT TO:<{to}>{of_rcpt}")).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    client.say("DATA").unwrap();
    client.write(body).unwrap();
    client.write(b".\r\n").unwrap();
    let reply = client.reply().unwrap();
    let id = reply.trim().strip_prefix("250 2.0.0 Ok: queued as ");
    id.unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn a_failure_without_a_report_is_traced_as_such_with_the_reason() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("gone".into(), "550 5.1.1 no such user".into());
    let mut node = Node::start(&to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let body = message("quiet", 100);
    for (from, of_rcpt, why) in [
        ("", "", "no report was sent: the sender is empty"),
        (
            "ann@example.org",
            " NOTIFY=NEVER",
            "no report was sent: the sender asked for none (NOTIFY)",
        ),
    ] {
        let id = queued(&mut client, from, ("", of_rcpt), &body);
        node.wait_for_empty_queue();
        let traced = gauntlet(&node, &["trace", &id]);
        assert!(traced.contains(why), "{traced}");
        assert!(traced.contains("550 5.1.1 no such user"), "{traced}");
        assert!(!traced.contains("bounced"), "{traced}");
    }
    assert_eq!(node.metric("gauntlet_bounces_total"), 0);
    let id = queued(&mut client, "ann@example.org", ("", ""), &body);
    node.wait_for_empty_queue();
    let traced = gauntlet(&node, &["trace", &id]);
    assert!(traced.contains("  bounced ") && !traced.contains("no report"), "{traced}");
    // The report has its own line, with the subject that it has.
    let report = gauntlet(&node, &["messages", "--subject", "undelivered mail", "--json"]);
    let report: serde_json::Value = serde_json::from_str(report.trim()).unwrap();
    let taken = sink.taken();
    let sent = taken.iter().map(|m| String::from_utf8_lossy(m)).find(|m| m.contains("DAEMON"));
    let subject = format!("\r\nSubject: {}\r\n", report["subject"].as_str().unwrap());
    assert!(sent.expect("a report").contains(&subject), "{subject}");
    node.stop();
}

#[test]
fn a_report_returns_what_the_sender_asked_for() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("gone".into(), "550 5.1.1 no such user".into());
    let mut node = Node::start(&to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for (ret, kind, in_full) in [
        (" RET=FULL", "message/rfc822", true),
        (" RET=HDRS", "text/rfc822-headers", false),
        ("", "text/rfc822-headers", false),
    ] {
        sink.messages.lock().unwrap().clear();
        let body = message("returned", 300);
        let end_of_header = body.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        queued(&mut client, "ann@example.org", (ret, ""), &body);
        node.wait_for_empty_queue();
        let taken = sink.taken();
        let report = taken.iter().map(|m| String::from_utf8_lossy(m));
        let report = report.into_iter().find(|m| m.contains("DAEMON")).expect("a report");
        assert!(report.contains(&format!("\r\nContent-Type: {kind}\r\n")), "{ret}: {report}");
        let content = String::from_utf8_lossy(&body[end_of_header + 4..]);
        assert_eq!(report.contains(content.trim()), in_full, "{ret}: {report}");
    }
    node.stop();
}

#[test]
fn a_next_hop_that_is_away_gets_its_mail_when_it_is_back() {
    let place = Sink::start().address;
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    assert_ne!(place, address);
    let config = format!("[route]\nnext_hop = \"{address}\"\n[sender]\nretry_seconds = [1]\n");
    let mut node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..20 {
        let body = message(&format!("away{i}"), 1_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    drop(client);
    node.wait_until("an attempt failed", || node.metric("gauntlet_deferred_total") >= 20);
    node.stop();
    let sink = Sink::start_at(address);
    node.run();
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken()).len(), 20);
}

#[test]
fn a_stop_drains_and_loses_nothing() {
    let sink = Sink::start();
    let mut node = Node::start(&to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..50 {
        client
            .send("ann@example.org", &["bob@example.net"], &message(&format!("d{i}"), 9_000))
            .unwrap();
    }
    client.say("MAIL FROM:<ann@example.org>").unwrap();
    client.say("RCPT TO:<bob@example.net>").unwrap();
    client.say("DATA").unwrap();
    node.signal("-TERM");
    std::thread::sleep(Duration::from_millis(200));
    client.write(&message("last", 100)).unwrap();
    client.write(b".\r\n").unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("250"), "the transaction under way is finished: {reply}");
    assert!(client.reply().unwrap().starts_with("421"), "then the session ends");
    node.stop();
    let before = tokens(&sink.taken()).len();
    node.run();
    node.wait_for_empty_queue();
    let counts = tokens(&sink.taken());
    assert_eq!(counts.len(), 51, "{before} before the restart");
    assert!(counts.values().all(|n| *n == 1));
}

#[test]
fn sighup_swaps_the_settings_and_drops_no_session() {
    let (first, second) = (Sink::start(), Sink::start());
    let mut node = Node::start(&to_hop(&first));
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("ann@example.org", &["bob@example.net"], &message("before", 100)).unwrap();
    node.wait_until("the first came", || first.taken().len() == 1);
    node.config = node.config.replace(&first.address.to_string(), &second.address.to_string());
    node.write_config();
    node.signal("-HUP");
    node.wait_until("it is reloaded", || node.log().contains("configuration reloaded"));
    client.send("ann@example.org", &["bob@example.net"], &message("after", 100)).unwrap();
    node.wait_until("the second came", || second.taken().len() == 1);
    node.config = "[nonsense]\n".to_owned();
    node.write_config();
    node.signal("-HUP");
    node.wait_until("it is refused", || node.log().contains("configuration not reloaded"));
    client.send("ann@example.org", &["bob@example.net"], &message("still", 100)).unwrap();
    node.wait_until("the third came", || second.taken().len() == 2);
}

#[test]
fn a_full_spool_says_452_before_the_body_and_recovers() {
    let sink = Sink::start();
    *sink.answer.lock().unwrap() = "451 4.3.0 not now".to_owned();
    let config = format!("{}[spool]\nbytes_max = 200000\n", to_hop(&sink));
    let node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut accepted = 0;
    let full = loop {
        let body = message(&format!("f{accepted}"), 30_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        if !reply.starts_with("250") {
            break reply;
        }
        accepted += 1;
        assert!(accepted < 50, "the limit does not hold");
    };
    assert!(full.starts_with("452 4.3.1"), "{full}");
    assert!(accepted >= 3, "{accepted}");
    *sink.answer.lock().unwrap() = "250 2.0.0 ok".to_owned();
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken()).len(), accepted);
    node.wait_until("it takes mail again", || {
        client
            .send("ann@example.org", &["bob@example.net"], &message("again", 100))
            .is_ok_and(|reply| reply.starts_with("250"))
    });
}

/// Reports that the sink got: messages from MAILER-DAEMON.
fn reports(sink: &Sink) -> Vec<String> {
    let taken = sink.taken();
    let texts = taken.iter().map(|m| String::from_utf8_lossy(m).into_owned());
    texts.filter(|m| m.contains("MAILER-DAEMON")).collect()
}

#[test]
fn senders_of_ours_hear_of_delays_once() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("later".into(), "450 4.2.1 busy".into());
    let config = format!("{}delay_report_seconds = 2\n", to_hop(&sink));
    let node = Node::start_listening("role = \"outbound\"", &config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["later@example.net"], &message("late", 100));
    assert!(reply.unwrap().starts_with("250"));
    node.wait_until("it is said", || !reports(&sink).is_empty());
    node.wait_until("further attempts", || node.metric("gauntlet_deferred_total") >= 5);
    sink.recipients.lock().unwrap().clear();
    node.wait_for_empty_queue();
    let said = reports(&sink);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("\r\nAction: delayed\r\nStatus: 4.2.1\r\n"), "{}", said[0]);
    assert!(said[0].contains("\r\nWill-Retry-Until: "), "{}", said[0]);
}

#[test]
fn whoever_asks_is_notified_of_the_delivery() {
    let sink = Sink::start();
    let node = Node::start_listening("role = \"outbound\"", &to_hop(&sink));
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.say("MAIL FROM:<ann@example.org> RET=HDRS ENVID=e1").unwrap();
    let asked = "RCPT TO:<bob@example.net> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bobby@example.net";
    assert!(client.say(asked).unwrap().starts_with("250"));
    assert!(client.say("RCPT TO:<joe@example.net>").unwrap().starts_with("250"));
    client.say("DATA").unwrap();
    client.write(&message("tell", 100)).unwrap();
    client.write(b".\r\n").unwrap();
    assert!(client.reply().unwrap().starts_with("250"));
    node.wait_until("it is said", || !reports(&sink).is_empty());
    node.wait_for_empty_queue();
    let said = reports(&sink);
    assert_eq!(said.len(), 1, "{said:?}");
    // The next hop does not know DSN: that is all that can be reported.
    assert!(said[0].contains("\r\nAction: relayed\r\nStatus: 2.0.0\r\n"), "{}", said[0]);
    assert!(
        said[0].contains("\r\nOriginal-Recipient: rfc822;bobby@example.net\r\n"),
        "{}",
        said[0]
    );
    assert!(said[0].contains("\r\nOriginal-Envelope-Id: e1\r\n"), "{}", said[0]);
    assert!(!said[0].contains("joe@"), "{}", said[0]);
}
