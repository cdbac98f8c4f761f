//! The dialogue with a client: what is answered to which command, and when a session ends.

use crate::node::test_node::{TestNode, id_in};

fn code(reply: &str) -> &str {
    reply.get(..3).unwrap_or_default()
}

#[tokio::test]
async fn commands_out_of_order_are_refused_and_cost_no_transaction() {
    let node = TestNode::start("");
    let (mut client, greeting) = node.connect().await;
    assert!(greeting.starts_with("220 gw.test"), "{greeting}");
    assert_eq!(code(&client.say("MAIL FROM:<ann@example.org>").await), "503", "before EHLO");
    assert_eq!(code(&client.say("EHLO client.test").await), "250");
    assert_eq!(code(&client.say("RCPT TO:<bob@example.net>").await), "503", "before MAIL");
    assert_eq!(code(&client.say("DATA").await), "503", "before MAIL");
    assert_eq!(code(&client.say("MAIL FROM:<ann@example.org>").await), "250");
    assert_eq!(code(&client.say("DATA").await), "554", "before RCPT");
    assert_eq!(code(&client.say("MAIL FROM:<eve@example.org>").await), "503", "a second MAIL");
    assert_eq!(code(&client.say("RCPT TO:<bob@example.net>").await), "250");
    assert_eq!(code(&client.say("RSET").await), "250");
    assert_eq!(code(&client.say("DATA").await), "503", "RSET ends the transaction");
    assert!(
        client.send("ann@example.org", &["bob@example.net"], "\r\nHello").await.starts_with("250")
    );
    assert_eq!(code(&client.say("QUIT").await), "221");
    assert_eq!(client.reply().await, "", "the connection is closed");
}

#[tokio::test]
async fn recipients_errors_and_sizes_have_limits() {
    let node = TestNode::start(
        "[receiver]\nrecipients_max = 100\nerrors_max = 3\nmessage_bytes_max = 70000\n",
    );
    let mut client = node.client().await;
    assert_eq!(code(&client.say("MAIL FROM:<ann@example.org> SIZE=70001").await), "552");
    assert_eq!(code(&client.say("MAIL FROM:<ann@example.org> SIZE=1000").await), "250");
    for n in 0..100 {
        assert_eq!(code(&client.say(&format!("RCPT TO:<bob{n}@example.net>")).await), "250");
    }
    assert_eq!(code(&client.say("RCPT TO:<one@example.net>").await), "452");
    assert_eq!(code(&client.say("DATA").await), "354");
    let long = format!("\r\n{}.", "x".repeat(68).add_line().repeat(1_100));
    assert_eq!(code(&client.say(&long).await), "552", "SIZE was a lie");
    for _ in 0..3 {
        client.say("NONSENSE").await;
    }
    client.say("NONSENSE").await;
    assert_eq!(client.say("NOOP").await, "", "it is closed after too many errors");
}

trait AddLine {
    fn add_line(self) -> String;
}

impl AddLine for String {
    fn add_line(mut self) -> String {
        self.push_str("\r\n");
        self
    }
}

#[tokio::test]
async fn no_relay_for_strangers_and_no_routes_in_addresses() {
    let node = TestNode::start("[domains]\nlocal = [\"example.net\"]\n");
    let mut client = node.client().await;
    assert_eq!(code(&client.say("MAIL FROM:<ann@example.org>").await), "250");
    let refused = client.say("RCPT TO:<x@elsewhere.example>").await;
    assert!(refused.starts_with("550 5.7.1 relaying denied"), "{refused}");
    assert_eq!(code(&client.say("RCPT TO:<x%elsewhere.example@example.net>").await), "550");
    assert_eq!(code(&client.say("RCPT TO:<bob@example.net>").await), "250");
    assert_eq!(code(&client.say("RCPT TO:<postmaster>").await), "250");
}

#[tokio::test]
async fn a_stranger_waits_and_is_let_in_when_it_comes_again() {
    let node = TestNode::start(
        "[receiver]\nexempt_networks = []\n[greylist]\nenabled = true\nwait_seconds = 300\n\
         window_seconds = 3600\n",
    );
    let ask = async || {
        let mut client = node.client().await;
        client.say("MAIL FROM:<ann@example.org>").await;
        client.say("RCPT TO:<bob@example.net>").await
    };
    assert!(ask().await.contains("greylisted: please come again in 300 s"));
    node.clock.advance(std::time::Duration::from_secs(100));
    assert!(ask().await.contains("in 200 s"), "too early");
    node.clock.advance(std::time::Duration::from_secs(3_600));
    assert!(ask().await.contains("in 300 s"), "too late: it is a stranger again");
    node.clock.advance(std::time::Duration::from_secs(301));
    assert_eq!(code(&ask().await), "250");
}

#[tokio::test]
async fn a_message_that_begins_with_white_space_is_delivered_whole_behind_an_empty_line() {
    let node = TestNode::start("");
    let mut client = node.client().await;
    let text = " Subject: no field\r\nFrom: nobody <x@y.example>\r\n\r\nHello";
    let reply = client.send("ann@example.org", &["bob@example.net"], text).await;
    node.logged(&id_in(&reply)).await;
    let mut files = std::fs::read_dir(node.node.maildir().join("new")).unwrap();
    let delivered = std::fs::read(files.next().unwrap().unwrap().path()).unwrap();
    let delivered = String::from_utf8(delivered).unwrap().replace("\r\n", "\n");
    let (header, body) = delivered.split_once("\n\n").unwrap();
    assert!(
        header.contains("\nReceived: from client.test") && !header.contains("Subject"),
        "{header}"
    );
    assert_eq!(body, format!("{}\n", text.replace("\r\n", "\n")));
}
