//! The milter service: a real Postfix, our own driver, and peers that do it wrong.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::postfix::Postfix;
use crate::common::{Node, PATIENCE, Smtp, drive, message, program};

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";

/// How Postfix is configured for a milter there.
fn milter_lines(place: &str) -> String {
    format!(
        "smtpd_milters = {place}\nmilter_protocol = 6\nmilter_default_action = tempfail\n\
         milter_command_timeout = 30s\nmilter_content_timeout = 60s"
    )
}

fn node(keys: &str, more: &str) -> Node {
    Node::start(&format!(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"milter\"\n\
         address = \"127.0.0.1:0\"\n{keys}\n{more}"
    ))
}

#[test]
fn postfix_delivers_marks_holds_and_waits() {
    let mut node = node("", "");
    let lines = milter_lines(&format!("inet:{}", node.place("milter")));
    let Some(postfix) = Postfix::start_with(&lines, "") else { return };
    let mut client = Smtp::connect(postfix.address).unwrap();
    for i in 0..5 {
        let body = message(&format!("m{i}"), i * 40_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}\n{}", postfix.log());
    }
    node.wait_until("Postfix delivered", || postfix.delivered().len() == 5);
    for delivered in postfix.delivered() {
        let text = String::from_utf8_lossy(&delivered).into_owned();
        let (header, _) = text.split_once("\n\n").unwrap();
        assert!(header.contains("\nX-Gauntlet-Class: ham\n"), "{header}");
        assert_eq!(header.matches("X-Gauntlet-Id: ").count(), 1, "{header}");
    }
    // What is quarantined waits in Postfix' hold queue.
    let reply = client.send("ann@example.org", &["bob@example.net"], GTUBE.as_bytes()).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("Postfix holds", || postfix.queued("hold") == 1);
    let held = postfix.in_queue("hold").remove(0);
    assert!(held.contains("X-Gauntlet-Held: explicit (reference "), "{held}");
    // A client of swaks' kind, if there is one.
    if let Some(swaks) = program("swaks") {
        let server = postfix.address.to_string();
        let args = ["--server", &server, "--from", "ann@example.org", "--to", "bob@example.net"];
        assert!(Command::new(swaks).args(args).output().unwrap().status.success());
        node.wait_until("Postfix delivered", || postfix.delivered().len() == 6);
    }
    // No verdict, no mail.
    node.kill();
    let mut late = Smtp::connect(postfix.address).unwrap();
    let reply = late.send("ann@example.org", &["bob@example.net"], &message("late", 100)).unwrap();
    assert!(reply.starts_with('4'), "{reply}");
    // Everything that was answered has its line in the log.
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let id = held.split("reference ").nth(1).unwrap();
    let id: String = id.chars().take_while(char::is_ascii_alphanumeric).collect();
    let record = log.get(&id).unwrap().expect("the reference is in the log").record;
    assert_eq!(record.deliveries[0].outcome.name(), "quarantined");
    assert_eq!(record.envelope.rcpt_to, ["bob@example.net"]);
    assert_eq!(record.envelope.helo, "client.test");
}

#[test]
fn postfix_refuses_what_the_policy_refuses_and_our_quarantine_holds_by_recipient() {
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(
        &policy,
        "[[rule]]\nname = \"no\"\nwhen.subject = \"refuse me\"\ndo = { reject = \"Unwanted\" }\n\
         [[rule]]\nname = \"drop\"\nwhen.recipient = \"drop@example.net\"\ndo = \"discard\"\n\
         [[rule]]\nname = \"keep\"\nwhen.recipient = \"held@example.net\"\n\
         do = { quarantine = \"kept\" }\n\
         [[rule]]\nname = \"all\"\ndo = [ { tag_subject = \"[seen]\" }, { copy = \"copy@example.net\" } ]\n",
    )
    .unwrap();
    let socket = folder.path().join("milter.sock");
    let mut node = Node::start(&format!(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"milter\"\nquarantine = \"node\"\n\
         address = \"unix:{}\"\nsocket_mode = 0o666\n[policy]\npath = {policy:?}\n",
        socket.display()
    ));
    let Some(postfix) =
        Postfix::start_with(&milter_lines(&format!("unix:{}", socket.display())), "")
    else {
        return;
    };
    let mut client = Smtp::connect(postfix.address).unwrap();
    let refused = b"From: a@example.org\r\nSubject: refuse me\r\n\r\n100 %\r\n";
    let refusal = client.send("ann@example.org", &["bob@example.net"], refused).unwrap();
    assert!(refusal.starts_with("550 5.7.1 Unwanted (reference "), "{refusal}");
    let to = ["bob@example.net", "held@example.net", "drop@example.net"];
    let reply = client.send("ann@example.org", &to, &message("mixed", 9_000)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    let reply = client.send("ann@example.org", &to[1..], &message("nobody", 100)).unwrap();
    assert!(reply.starts_with("250"), "discarded: {reply}");
    node.wait_until("Postfix delivered", || postfix.delivered().len() >= 2);
    let delivered = postfix.delivered();
    assert_eq!(delivered.len(), 2, "for bob and the copy, nobody else: {}", postfix.log());
    for message in &delivered {
        let text = String::from_utf8_lossy(message);
        assert!(text.contains("\nSubject: [seen] minutes of mixed\n"), "{text}");
    }
    assert_eq!(postfix.queued("hold"), 0);
    node.stop();
    let held = gauntlet_store::Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    let held: u64 = held.folders().unwrap().iter().map(|f| f.items).sum();
    assert_eq!(held, 2, "mixed and nobody");
    // The reference of the refusal leads to the log.
    let id = refusal.split("reference ").nth(1).unwrap().trim().trim_end_matches(')');
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let record = log.get(id).unwrap().expect("the reference is in the log").record;
    assert_eq!(record.deliveries[0].outcome.name(), "rejected");
}

/// A message with a text and an attachment of this name.
fn with_attachment(token: &str, name: &str) -> Vec<u8> {
    format!(
        "From: Ann <ann@example.org>\r\nTo: away@example.net\r\nSubject: minutes of {token}\r\n\
         Message-ID: <{token}@example.org>\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nHere are the minutes.\r\n\
         --b\r\nContent-Type: application/octet-stream\r\n\
         Content-Disposition: attachment; filename=\"{name}\"\r\n\r\nSECRET-CONTENT\r\n--b--\r\n"
    )
    .into_bytes()
}

#[test]
fn postfix_redirects_and_replaces_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(
        &policy,
        "[[rule]]\nname = \"no tables\"\nwhen.attachment.name = \"*.xyz\"\n\
         do = { strip_attachments = { note = \"A table was removed\" } }\n\
         [[rule]]\nname = \"small print\"\ndo = { disclaimer = \"Seen by the gateway.\" }\n\
         [[rule]]\nname = \"away\"\nwhen.recipient = \"away@example.net\"\n\
         do = { redirect = \"desk@example.net\" }\n",
    )
    .unwrap();
    let mut node = node("", &format!("[policy]\npath = {policy:?}\n"));
    let lines = milter_lines(&format!("inet:{}", node.place("milter")));
    let Some(postfix) = Postfix::start_with(&lines, "") else { return };
    let mut client = Smtp::connect(postfix.address).unwrap();
    for (token, name) in [("one", "figures.xyz"), ("two", "letter.txt")] {
        let mail = with_attachment(token, name);
        let reply = client.send("ann@example.org", &["away@example.net"], &mail).unwrap();
        assert!(reply.starts_with("250"), "{reply}\n{}", postfix.log());
    }
    node.wait_until("Postfix delivered", || postfix.delivered().len() == 2);
    for delivered in postfix.delivered() {
        let text = String::from_utf8_lossy(&delivered).into_owned();
        assert!(text.contains("Delivered-To: desk@example.net\n"), "redirected: {text}");
        assert!(!text.contains("Delivered-To: away@example.net"), "{text}");
        // What is rewritten is encoded anew.
        let message = gauntlet_mail::Message::parse(&delivered);
        let texts = message.parts().iter().filter_map(|part| part.text().map(ToString::to_string));
        let texts = texts.collect::<Vec<_>>().join("\n");
        assert!(texts.contains("Here are the minutes."), "{text}");
        assert!(texts.contains("Seen by the gateway."), "the body has the disclaimer: {text}");
        let stripped = text.contains("minutes of one");
        assert_eq!(texts.contains("A table was removed"), stripped, "{text}");
        assert_eq!(text.contains("SECRET-CONTENT"), !stripped, "{text}");
    }
    node.stop();
    assert_eq!(node.logged(), 2);
}

pub(crate) fn talk(node: &Node, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(node.place("milter")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    // A connection that is ended may reach us as a reset.
    let _ = stream.read_to_end(&mut answer);
    answer
}

pub(crate) fn packet(command: u8, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len() + 1).unwrap().to_be_bytes();
    [&length[..], &[command], data].concat()
}

/// An MTA of version 6 that allows everything.
pub(crate) fn offer() -> Vec<u8> {
    packet(b'O', b"\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff")
}

#[test]
fn mtas_that_do_it_wrong_are_dropped_and_the_node_lives() {
    let node = node("seconds_max = 1", "");
    let nine = |command: u8, data: &[u8]| [offer(), packet(command, data)].concat();
    for wrong in [
        b"\xff\xff\xff\xff".to_vec(),
        b"\0\0\0\0".to_vec(),
        b"EHLO x\r\n".to_vec(),
        packet(b'M', b"<a@b>\0"),
        packet(b'O', b"\0\0\0\x01\0\0\0\0\0\0\0\0"),
        nine(b'R', b"<a@b>\0"),
        nine(b'E', b""),
        nine(b'?', b""),
        nine(b'C', b"host"),
        [offer(), b"\0\x7f\xff\xffB".to_vec()].concat(),
        [offer(), b"\0\0\0\x20Mtruncated".to_vec()].concat(),
    ] {
        let answer = talk(&node, &wrong);
        assert!(answer.is_empty() || answer[4] == b'O', "{wrong:?}: {answer:?}");
        assert!(answer.len() <= 17, "no verdict: {answer:?}");
    }
    // One who is silent within a packet is not waited for.
    let mut stream = TcpStream::connect(node.place("milter")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"\0\0").unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed");
    // And one who does it right, with an abort, a second message and a client after it, is
    // answered.
    let one = |to: &[u8]| {
        [
            packet(b'M', b"<a@example.org>\0"),
            packet(b'R', to),
            packet(b'L', b"Subject\0 x\0"),
            packet(b'N', b""),
            packet(b'B', b"text\r\n"),
        ]
        .concat()
    };
    let client = packet(b'C', b"c.example\x004\x00\x19192.0.2.1\0");
    let talked = [
        offer(),
        client.clone(),
        one(b"<x@y>\0"),
        packet(b'A', b""),
        one(b"<b@example.net>\0"),
        packet(b'E', b""),
        packet(b'K', b""),
        client,
        packet(b'U', b"VRFY"),
        one(b"<b@example.net>\0"),
        packet(b'E', b""),
        packet(b'Q', b""),
    ]
    .concat();
    let answer = talk(&node, &talked);
    let accepted = answer.windows(5).filter(|w| *w == b"\0\0\0\x01a").count();
    assert_eq!(accepted, 2, "{:?}", String::from_utf8_lossy(&answer));
}

#[test]
fn our_driver_and_our_milter_understand_each_other() {
    let node = node("", "");
    drive("milter", node.place("milter"), GTUBE);
}

/// Each byte comes in time, and the packet never ends.
#[test]
fn a_packet_that_drips_is_given_up() {
    let node = node("request_seconds_max = 2", "");
    let mut stream = TcpStream::connect(node.place("milter")).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream.write_all(&1_000u32.to_be_bytes()).unwrap();
    let start = Instant::now();
    let mut byte = [0];
    // Closed from the other side: nothing can be read any more, or nothing be written.
    while stream.write_all(b"x").is_ok() && !matches!(stream.read(&mut byte), Ok(0)) {
        assert!(start.elapsed() < Duration::from_secs(20), "it still listens");
    }
}
