//! What becomes of a message from its acceptance to its last outcome, by a clock that is moved by
//! hand.

use std::time::Duration;

use gauntlet_store::Outcome;
use gauntlet_store::quarantine::{ReleaseOrder, ReleaseRight, State};

use super::QueueEntry;
use crate::ids;
use crate::node::Release;
use crate::node::test_node::{TestNode, id_in};

/// A next hop that refuses every connection.
const UNREACHABLE: &str = "[route]\nnext_hop = \"127.0.0.1:1\"\ncut_through = false\n\
                           [sender]\nretry_seconds = [60, 600]\nexpire_seconds = 3600\n\
                           delay_report_seconds = 0\n";
const MESSAGE: &str = "From: ann@example.org\r\nSubject: hello\r\n\r\nHello.";

/// Sends one message; its id.
async fn accepted(node: &TestNode, from: &str) -> String {
    let mut client = node.client().await;
    id_in(&client.send(from, &["bob@example.net"], MESSAGE).await)
}

/// Waits until the message waits for another attempt; how many it had.
async fn deferred(node: &TestNode, id: &str, attempts: u32) -> QueueEntry {
    let number = ids::parse(id).unwrap();
    node.until(|n| {
        let entry = n.queue.list(9).into_iter().find(|entry| entry.id == id && !entry.active)?;
        let tried = n.queue.show(number)?.deliveries.first()?.attempts;
        (tried == attempts).then_some(entry)
    })
    .await
}

/// Moves the clock, and lets the queue see it.
fn advance(node: &TestNode, seconds: u64) {
    node.clock.advance(Duration::from_secs(seconds));
    node.node.queue.wake.notify_one();
}

#[tokio::test]
async fn what_is_accepted_is_delivered_logged_and_forgotten() {
    let node = TestNode::start("");
    let id = accepted(&node, "ann@example.org").await;
    let record = node.logged(&id).await;
    let delivery = &record.deliveries[0];
    assert_eq!((delivery.outcome, delivery.attempts), (Outcome::Delivered, 1));
    assert_eq!(
        (delivery.address.as_str(), delivery.next_hop.as_str()),
        ("bob@example.net", "maildir")
    );
    node.until(|n| {
        (n.queue.count() == 0 && n.queue.parts.spool.usage().messages == 0).then_some(())
    })
    .await;
    let files = std::fs::read_dir(node.node.maildir().join("new")).unwrap().count();
    assert_eq!(files, 1);
}

#[tokio::test]
async fn a_deferred_message_is_tried_again_by_the_schedule_and_not_before() {
    let node = TestNode::start(UNREACHABLE);
    let id = accepted(&node, "ann@example.org").await;
    let first = deferred(&node, &id, 1).await.due_ms.unwrap() - node.clock.unix_ms();
    assert!((54_000..=66_000).contains(&first), "{first} ms");
    advance(&node, 50);
    tokio::task::yield_now().await;
    assert_eq!(
        deferred(&node, &id, 1).await.due_ms.unwrap() - node.clock.unix_ms(),
        first - 50_000
    );
    advance(&node, 20);
    let second = deferred(&node, &id, 2).await.due_ms.unwrap() - node.clock.unix_ms();
    assert!((540_000..=660_000).contains(&second), "{second} ms");
    let record = node.node.queue.show(ids::parse(&id).unwrap()).unwrap();
    let stages: Vec<&str> = record.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(stages, ["received", "waited", "scanned", "decided", "spooled"]);
    assert_eq!(record.stages[4].detail, "", "its time is known");
    assert_eq!(record.deliveries[0].outcome, Outcome::Queued);
    assert!(!record.deliveries[0].reply.is_empty(), "it says why");
}

#[tokio::test]
async fn what_expires_fails_and_its_sender_gets_a_report() {
    let node = TestNode::start(UNREACHABLE);
    let id = accepted(&node, "ann@example.org").await;
    deferred(&node, &id, 1).await;
    advance(&node, 3_601);
    let record = node.logged(&id).await;
    assert_eq!(record.deliveries[0].outcome, Outcome::Failed);
    let report = node.until(|n| n.queue.list(9).into_iter().find(|entry| entry.id != id)).await;
    let report = node.node.queue.show(ids::parse(&report.id).unwrap()).unwrap();
    assert_eq!(report.envelope.mail_from, "", "no report about a report");
    assert_eq!(report.envelope.rcpt_to, ["ann@example.org"]);
    assert_eq!(report.from, "MAILER-DAEMON@gw.test");
    // The report cannot be delivered either: it ends, and nothing comes of it.
    deferred(&node, &report.id, 1).await;
    advance(&node, 3_601);
    assert_eq!(node.logged(&report.id).await.deliveries[0].outcome, Outcome::Failed);
    node.until(|n| (n.queue.count() == 0).then_some(())).await;
}

#[tokio::test]
async fn an_administrator_holds_retries_and_deletes() {
    let node = TestNode::start(UNREACHABLE);
    let queue = &node.node.queue;
    let id = accepted(&node, "ann@example.org").await;
    let number = ids::parse(&id).unwrap();
    deferred(&node, &id, 1).await;
    assert_eq!(queue.hold(&[number]), 1);
    assert_eq!(deferred(&node, &id, 1).await.due_ms, None);
    advance(&node, 86_400);
    tokio::task::yield_now().await;
    assert_eq!(deferred(&node, &id, 1).await.due_ms, None, "what is held stays");
    // A retry gives a message that is too old one attempt more, which is its last.
    assert_eq!(queue.retry(&[]), 1);
    assert_eq!(node.logged(&id).await.deliveries[0].outcome, Outcome::Failed);
    assert!(queue.delete(number, "root").unwrap_err().to_string().contains("not waiting"));

    let id = accepted(&node, "ann@example.org").await;
    let number = ids::parse(&id).unwrap();
    deferred(&node, &id, 1).await;
    queue.delete(number, "root").unwrap();
    let record = node.logged(&id).await;
    assert_eq!(record.deliveries[0].outcome, Outcome::Deleted);
    assert_eq!(record.deliveries[0].reply, "deleted by root");
}

#[tokio::test]
async fn messages_are_due_in_the_order_of_their_times_and_held_ones_never() {
    let node = TestNode::start(UNREACHABLE);
    let (queue, now) = (&node.node.queue, node.clock.unix_ms());
    // None of these is in the spool, so that the queue's own task makes nothing of them.
    queue.recover(&[(3, now + 3_000), (1, now + 1_000), (9, super::HELD), (2, now + 2_000)], &[]);
    assert!(queue.next_due().is_err(), "none is due yet");
    node.clock.advance(Duration::from_millis(2_500));
    assert_eq!((queue.next_due(), queue.next_due()), (Ok(1), Ok(2)));
    assert!(queue.next_due().is_err());
    node.clock.advance(Duration::from_secs(86_400 * 365));
    assert_eq!(queue.next_due(), Ok(3));
    assert!(queue.next_due().is_err(), "a held one waits for a person");
    // A due time that no schedule gives: the clock was ahead when it was written.
    queue.recover(&[(4, node.clock.unix_ms() + 86_400_000 * 30)], &[]);
    assert_eq!(queue.next_due(), Ok(4));
}

/// Holds what is to be held; the rest passes.
const HOLDS_SPAM: &str = "[[rule]]\nname = \"held\"\nwhen.sender = \"spam@example.org\"\n\
                          do = { quarantine = \"spam\" }\n";

#[tokio::test]
async fn mail_that_would_be_held_is_put_off_while_too_much_waits_for_the_quarantine() {
    let settings = "[quarantine]\nbacklog_max = 3\n";
    let node = TestNode::with_policy(settings, HOLDS_SPAM);
    let (queue, quarantine) = (&node.node.queue, node.node.quarantine.clone());
    // Somebody else writes into its database, as a slow disk would keep it busy.
    let database = node.node.config().node.data.join("quarantine/quarantine.db");
    let busy = rusqlite::Connection::open(database).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut client = node.client().await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(id_in(&client.send("spam@example.org", &["bob@example.net"], MESSAGE).await));
    }
    assert_eq!(queue.hold_backlog(), 3);
    for _ in 0..2 {
        let reply = client.send("spam@example.org", &["bob@example.net"], MESSAGE).await;
        assert!(reply.starts_with("451 4.3.2 "), "{reply}");
    }
    // Other mail passes.
    accepted(&node, "ann@example.org").await;
    assert_eq!(node.node.metrics.hold_overload.get(), 2);
    let metrics = node.node.render_metrics();
    assert!(metrics.contains("\ngauntlet_hold_backlog_messages 3\n"), "{metrics}");
    assert!(metrics.contains("\ngauntlet_hold_overload_total 2\n"));
    busy.execute_batch("ROLLBACK").unwrap();
    for id in &taken {
        node.logged(id).await;
        assert!(quarantine.body(id).unwrap().is_some(), "what was answered 250 is held");
    }
    node.until(|n| (n.queue.hold_backlog() == 0).then_some(())).await;
    let reply = client.send("spam@example.org", &["bob@example.net"], MESSAGE).await;
    assert!(reply.starts_with("250 "), "{reply}");
    assert!(node.node.render_metrics().contains("\ngauntlet_quarantine_packs 1\n"));
}

#[tokio::test]
async fn what_the_last_process_left_counts_as_waiting_until_it_is_read() {
    let node = TestNode::start("");
    let (queue, now) = (&node.node.queue, node.clock.unix_ms());
    queue.recover(&[(1, now), (2, now - 5), (3, now + 60_000)], &[]);
    // None is in the spool, so that nothing is to be held of them once they were looked at.
    node.until(|n| (n.queue.hold_backlog() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_release_that_reaches_nobody_is_told_and_can_be_made_again() {
    let node = TestNode::with_policy(UNREACHABLE, HOLDS_SPAM);
    let held = accepted(&node, "spam@example.org").await;
    node.logged(&held).await;
    let mut known = vec![held.clone()];
    for releases in 1..=2 {
        let (inner, id) = (node.node.clone(), held.clone());
        let order =
            ReleaseOrder { who: "ada".into(), right: ReleaseRight::Admin, ..Default::default() };
        let release = move || inner.release(&id, &order).unwrap();
        let done = tokio::task::spawn_blocking(release).await.unwrap();
        assert_eq!(done, Release::Done(vec!["bob@example.net".to_owned()]));
        let released = node
            .until(|n| n.queue.list(9).into_iter().map(|e| e.id).find(|id| !known.contains(id)))
            .await;
        known.push(released.clone());
        deferred(&node, &released, 1).await;
        advance(&node, 3_601);
        assert_eq!(node.logged(&released).await.deliveries[0].outcome, Outcome::Failed);
        let quarantine = &node.node.quarantine;
        node.until(|_| {
            let item = quarantine.get(&held).unwrap().unwrap();
            (item.state == State::Held).then_some(())
        })
        .await;
        // Its life says so.
        let told = |n: &crate::Node| {
            let events = n.log.get(&held).unwrap().unwrap().events;
            let failed = events.iter().filter(|e| e.kind == "release_failed").cloned();
            Some(failed.collect::<Vec<_>>()).filter(|failed| failed.len() == releases)
        };
        let failed = node.until(told).await;
        let last = failed.last().unwrap();
        assert_eq!(last.recipient, "bob@example.net");
        assert!(last.detail.starts_with(&format!("as {released}: ")), "{last:?}");
    }
    node.until(|n| (n.queue.count() == 0).then_some(())).await;
    assert_eq!(node.node.metrics.bounces.get(), 0, "its sender gets no report");
}
