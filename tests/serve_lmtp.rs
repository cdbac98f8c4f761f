//! LMTP (RFC 2033) as server and towards a next hop, and messages in chunks (RFC 3030), end to end.

use std::process::Command;

use crate::common::{Node, Smtp, message, program, tokens};

/// The text of the only message in the Maildir, without the fields that the node adds.
fn only(node: &Node) -> String {
    let delivered = node.maildir();
    assert_eq!(delivered.len(), 1);
    String::from_utf8_lossy(&delivered[0]).into_owned()
}

#[test]
fn chunks_arrive_as_one_message() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let minutes = String::from_utf8(message("chunks", 400)).unwrap();
    let body = format!("{minutes}.no dot is special\r\n..here\r\n.\r\nend\r\n");
    for (said, answer) in
        [("MAIL FROM:<ann@example.org>", "250"), ("RCPT TO:<bob@example.net>", "250")]
    {
        assert!(client.say(said).unwrap().starts_with(answer));
    }
    let (first, rest) = body.split_at(20);
    client.write(format!("BDAT {}\r\n{first}", first.len()).as_bytes()).unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("250 2.0.0 20 bytes"), "{reply}");
    client.write(format!("BDAT {}\r\n{rest}BDAT 0 LAST\r\n", rest.len()).as_bytes()).unwrap();
    assert!(client.reply().unwrap().starts_with("250"));
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("250 2.0.0 Ok: queued as"), "{reply}");
    node.wait_for_empty_queue();
    let text = only(&node).replace("\r\n", "\n");
    assert!(text.ends_with(&body.replace("\r\n", "\n")), "{text}");
}

#[test]
fn every_recipient_has_an_answer_of_its_own() {
    let node = Node::start_listening("role = \"lmtp\"", "[domains]\nlocal = [\"example.net\"]\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    assert!(client.say("LHLO client.test").unwrap().starts_with("250"));
    client.say("MAIL FROM:<ann@example.org>").unwrap();
    assert!(client.say("RCPT TO:<bob@example.net>").unwrap().starts_with("250"));
    assert!(client.say("RCPT TO:<eve@elsewhere.example>").unwrap().starts_with("550"));
    assert!(client.say("RCPT TO:<joe@example.net>").unwrap().starts_with("250"));
    client.say("DATA").unwrap();
    client.write(&message("lmtp", 200)).unwrap();
    client.write(b".\r\n").unwrap();
    for _ in 0..2 {
        let reply = client.reply().unwrap();
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
    }
    node.wait_for_empty_queue();
    assert_eq!(tokens(&node.maildir())["lmtp"], 2, "a file for each");
}

#[test]
fn python_speaks_lmtp() {
    let Some(python) = program("python3") else { return };
    let node = Node::start_listening("role = \"lmtp\"", "");
    let script = format!(
        "import smtplib\ns = smtplib.LMTP('127.0.0.1', {})\n\
         refused = s.sendmail('a@example.org', ['b@example.net', 'c@example.net'], \
         'From: a@example.org\\r\\nSubject: minutes\\r\\nX-Token: pylmtp\\r\\n\\r\\nhello\\r\\n')\n\
         assert refused == {{}}, refused\ns.quit()\n",
        node.smtp.port()
    );
    let output = Command::new(python).arg("-c").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    node.wait_for_empty_queue();
    assert_eq!(tokens(&node.maildir())["pylmtp"], 2);
}

#[test]
fn a_next_hop_speaks_lmtp() {
    let hop =
        Node::start_listening("role = \"lmtp\"", "[recipients]\nknown = [\"bob@example.net\"]\n");
    let node = Node::start(&format!(
        "[sender]\nretry_seconds = [1]\nbounces = false\n\
         [[next_hop]]\nfor = [\"example.net\"]\nhosts = [\"{}\"]\nlmtp = true\n",
        hop.smtp
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let to = ["bob@example.net", "gone@example.net"];
    let reply = client.send("ann@example.org", &to, &message("hop", 200)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    hop.wait_for_empty_queue();
    assert_eq!(tokens(&hop.maildir())["hop"], 1);
    assert_eq!(node.metric("gauntlet_failed_total"), 1, "the other one is refused");
    assert!(String::from_utf8_lossy(&hop.maildir()[0]).contains(" with LMTP"));
}
