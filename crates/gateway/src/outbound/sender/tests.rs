//! What a next hop's answers come to: delivered, failed, deferred; each recipient for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gauntlet_store::{Delivery, Outcome};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::ids;
use crate::node::test_node::{TestNode, id_in};

/// Answers to RCPT by the local part, takes every message; `gone` ends the connection. With a count
/// of what it takes: says so twice, the second time a moment later.
async fn converse(stream: TcpStream, taken: Option<Arc<AtomicUsize>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"220 hop\r\n").await?;
    let (mut line, mut in_body) = (String::new(), false);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let reply: &[u8] = match line.trim_end() {
            "." => {
                in_body = false;
                if let Some(taken) = &taken {
                    taken.fetch_add(1, Ordering::Relaxed);
                    stream.get_mut().write_all(b"250 2.0.0 taken\r\n").await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                b"250 2.0.0 taken\r\n"
            }
            _ if in_body => continue,
            "DATA" => {
                in_body = true;
                b"354 go on\r\n"
            }
            ehlo if ehlo.starts_with("EHLO") => b"250-hop\r\n250 PIPELINING\r\n",
            rcpt if rcpt.contains("<unknown@") => b"550 5.1.1 no such user\r\n",
            rcpt if rcpt.contains("<busy@") => b"451 4.3.0 come again\r\n",
            rcpt if rcpt.contains("<gone@") => return Ok(()),
            _ => b"250 2.0.0 ok\r\n",
        };
        stream.get_mut().write_all(reply).await?;
    }
}

#[tokio::test]
async fn what_counts_as_delivered_was_sent_though_the_next_hop_says_too_much() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, Some(count.clone())));
        }
    });
    let node =
        TestNode::start(&format!("[route]\nnext_hop = \"{address}\"\ncut_through = false\n"));
    for pause_ms in [0, 5, 100, 0, 40] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let before = taken.load(Ordering::Relaxed);
        let all = attempted(&node, &["bob@example.net"]).await;
        let delivered = all[0].outcome == Outcome::Delivered;
        let was_taken = taken.load(Ordering::Relaxed) > before;
        assert!(was_taken || !delivered, "{all:?}");
        if pause_ms == 100 {
            assert!(delivered, "what came while nothing was asked costs the message nothing");
        }
    }
}

/// Speaks LMTP, and ends the connection after its answer for the first recipient.
async fn answer_for_the_first(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"220 hop\r\n").await?;
    let (mut line, mut in_body) = (String::new(), false);
    while stream.read_line(&mut line).await? > 0 {
        let reply: &[u8] = match line.trim_end() {
            "." => {
                stream.get_mut().write_all(b"250 2.0.0 saved\r\n").await?;
                return stream.get_mut().shutdown().await;
            }
            "DATA" => {
                in_body = true;
                b"354 go on\r\n"
            }
            _ if in_body => b"",
            _ => b"250 2.0.0 ok\r\n",
        };
        stream.get_mut().write_all(reply).await?;
        line.clear();
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_for_one_recipient_counts_when_the_connection_breaks_before_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_for_the_first(stream));
        }
    });
    let hop = "[[next_hop]]\nfor = [\"example.net\"]\nlmtp = true\n";
    let config = format!("[route]\ncut_through = false\n{hop}hosts = [\"{address}\"]\n");
    let node = TestNode::start(&config);
    let all = attempted(&node, &["bob@example.net", "eve@example.net"]).await;
    let outcomes: Vec<Outcome> = all.iter().map(|delivery| delivery.outcome).collect();
    assert_eq!(outcomes, [Outcome::Delivered, Outcome::Queued], "{all:?}");
    assert!(all[0].reply.contains("saved") && all[1].reply.contains("4.4.2"), "{all:?}");
}

/// A node before such a next hop.
async fn node() -> TestNode {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, None));
        }
    });
    TestNode::start(&format!("[route]\nnext_hop = \"{address}\"\ncut_through = false\n"))
}

/// The deliveries of a message after its first attempt.
async fn attempted(node: &TestNode, recipients: &[&str]) -> Vec<Delivery> {
    let mut client = node.client().await;
    let id = id_in(&client.send("ann@example.org", recipients, "\r\nHello").await);
    let number = ids::parse(&id).unwrap();
    let tried = |deliveries: Vec<Delivery>| {
        deliveries.iter().all(|d| d.attempts == 1).then_some(deliveries)
    };
    node.until(|node| {
        let logged = node.log.get(&id).unwrap().map(|logged| logged.record.deliveries);
        let queued = || node.queue.show(number).map(|record| record.deliveries);
        logged.and_then(tried).or_else(|| queued().and_then(tried))
    })
    .await
}

#[tokio::test]
async fn each_recipient_has_its_own_outcome() {
    let node = node().await;
    let recipients = ["bob@example.net", "unknown@example.net", "busy@example.net"];
    let all = attempted(&node, &recipients).await;
    let outcomes: Vec<Outcome> = all.iter().map(|delivery| delivery.outcome).collect();
    assert_eq!(outcomes, [Outcome::Delivered, Outcome::Failed, Outcome::Queued], "{all:?}");
    assert!(
        all[1].reply.contains("5.1.1 no such user") && all[2].reply.contains("4.3.0"),
        "{all:?}"
    );
    assert!(all[0].next_hop.starts_with("127.0.0.1:"), "{all:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_off_defers_the_message() {
    let node = node().await;
    let all = attempted(&node, &["gone@example.net"]).await;
    assert_eq!(all[0].outcome, Outcome::Queued, "{all:?}");
    // The next hop itself is reachable: another message goes there at once.
    let other = attempted(&node, &["bob@example.net"]).await;
    assert_eq!(other[0].outcome, Outcome::Delivered, "{other:?}");
}

#[tokio::test]
async fn an_unreachable_next_hop_is_left_alone_for_a_while() {
    // No one listens there.
    let node = TestNode::start("[route]\nnext_hop = \"127.0.0.1:1\"\ncut_through = false\n");
    let all = attempted(&node, &["bob@example.net"]).await;
    assert_eq!(all[0].outcome, Outcome::Queued);
    let (sender, config) = (node.node.queue.sender(), node.node.config());
    let route = crate::outbound::route::Routes::of(&config).route("bob@example.net");
    assert!(!sender.is_free(&route), "a message would wait there in vain");
    node.clock.advance(Duration::from_secs(11));
    assert!(sender.is_free(&route), "it is tried again");
    attempted(&node, &["eve@example.net"]).await;
    assert!(!sender.is_free(&route));
    sender.try_again();
    assert!(sender.is_free(&route), "an administrator asked for it");
}
