use super::*;

fn message(recipients: &[&str]) -> Outgoing {
    let one = |to: &&str| OutgoingRecipient { to: (*to).into(), ..Default::default() };
    Outgoing {
        from: "a@b".into(),
        recipients: recipients.iter().map(one).collect(),
        size: 3,
        ..Outgoing::default()
    }
}

fn ready(ehlo: &str) -> Client {
    let mut client = Client::new(ClientConfig { helo: "gw".into(), ..Default::default() }, false);
    let mut out = Vec::new();
    let mut input = &b"220 hi\r\n"[..];
    assert_eq!(client.next(&mut input, &mut out), Ok(ClientEvent::More));
    assert_eq!(out, b"EHLO gw\r\n");
    assert_eq!(client.next(&mut ehlo.as_bytes(), &mut out), Ok(ClientEvent::Ready));
    client
}

fn codes(event: Result<ClientEvent, ClientError>) -> Vec<u16> {
    match event {
        Ok(ClientEvent::Done(replies)) => replies.iter().map(|r| r.code).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pipelines_and_keeps_each_recipients_reply() {
    let mut client = ready("250-x\r\n250-SIZE 100\r\n250 PIPELINING\r\n");
    let mut out = Vec::new();
    client.send(message(&["x@y", "z@y"]), &mut out);
    assert_eq!(
        String::from_utf8_lossy(&out),
        "MAIL FROM:<a@b> SIZE=3\r\nRCPT TO:<x@y>\r\nRCPT TO:<z@y>\r\nDATA\r\n"
    );
    let mut input = &b"250 ok\r\n550 5.1.1 no\r\n250 ok\r\n354 go\r\n"[..];
    assert_eq!(client.next(&mut input, &mut out), Ok(ClientEvent::Body));
    let done = client.next(&mut &b"250 2.0.0 queued\r\n"[..], &mut out);
    assert_eq!(codes(done), [550, 250]);
    out.clear();
    client.send(message(&["x@y"]), &mut out);
    assert!(out.starts_with(b"MAIL"), "no RSET after a settled message");
}

#[test]
fn what_needs_smtputf8_does_not_go_to_a_server_without_it() {
    let (with, without) = (ready("250-x\r\n250 SMTPUTF8\r\n"), ready("250 x\r\n"));
    let plain = b"Subject: x\r\n\r\ncaf\xc3\xa9\r\n";
    let internationalized = "Subject: caf\u{e9}\r\n\r\nx\r\n".as_bytes();
    for (from, to, asked, body, refused) in [
        ("a@b", "x@y", false, &plain[..], false),
        ("a@b", "x@y", true, &plain[..], false),
        ("a@b", "x@y", true, internationalized, true),
        // Raw 8-bit header fields without SMTPUTF8 are the sender's mistake, as ever.
        ("a@b", "x@y", false, internationalized, false),
        ("a@b", "j\u{f6}rg@y", true, &plain[..], true),
        ("j\u{f6}rg@b", "x@y", true, &plain[..], true),
    ] {
        let outgoing = Outgoing { from: from.into(), utf8: asked, ..message(&[to]) };
        let reply = without.cannot_take(&outgoing, body);
        let status = reply.map(|r| r.one_line());
        assert_eq!(status.is_some(), refused, "{from} {to} {asked}");
        assert!(status.is_none_or(|s| s.starts_with("553 5.6.7")));
        assert_eq!(with.cannot_take(&outgoing, body), None);
    }
}

#[test]
fn one_at_a_time_without_pipelining() {
    let mut client = ready("250 x\r\n");
    let mut out = Vec::new();
    client.send(message(&["x@y"]), &mut out);
    assert_eq!(out, b"MAIL FROM:<a@b>\r\n");
    out.clear();
    assert_eq!(client.next(&mut &b"250 ok\r\n"[..], &mut out), Ok(ClientEvent::More));
    assert_eq!(out, b"RCPT TO:<x@y>\r\n");
    let done = client.next(&mut &b"450 later\r\n"[..], &mut out);
    assert_eq!(codes(done), [450]);
    out.clear();
    client.send(message(&["x@y"]), &mut out);
    assert_eq!(out, b"RSET\r\n");
    assert_eq!(client.next(&mut &b"250 ok\r\n"[..], &mut out), Ok(ClientEvent::More));
    assert_eq!(out, b"RSET\r\nMAIL FROM:<a@b>\r\n");
}

#[test]
fn data_without_recipients_sends_an_empty_message() {
    let mut client = ready("250-x\r\n250 PIPELINING\r\n");
    let mut out = Vec::new();
    client.send(message(&["x@y"]), &mut out);
    out.clear();
    let mut input = &b"250 ok\r\n550 no\r\n354 go\r\n"[..];
    assert_eq!(client.next(&mut input, &mut out), Ok(ClientEvent::More));
    assert_eq!(out, b".\r\n");
    assert_eq!(codes(client.next(&mut &b"554 nobody\r\n"[..], &mut out)), [550]);
}

#[test]
fn only_354_asks_for_the_message_and_only_a_refusal_settles_it() {
    for (answer, settled) in
        [("250 ok", None), ("300 x", None), ("451 x", Some(451)), ("554 x", Some(554))]
    {
        let mut client = ready("250-x\r\n250 PIPELINING\r\n");
        let mut out = Vec::new();
        client.send(message(&["x@y"]), &mut out);
        let input = format!("250 ok\r\n250 ok\r\n{answer}\r\n");
        let event = client.next(&mut input.as_bytes(), &mut out);
        match settled {
            Some(code) => assert_eq!(codes(event), [code]),
            None => assert!(matches!(event, Err(ClientError::OutOfStep(_))), "{event:?}"),
        }
        assert_eq!(client.is_closing(), settled.is_none(), "{answer}");
    }
}

#[test]
fn a_reply_too_many_is_never_taken_for_one_to_the_message() {
    // MAIL is answered twice: what then looks like the answer to DATA is that to RCPT.
    for ehlo in ["250-x\r\n250 PIPELINING\r\n", "250 x\r\n"] {
        let mut client = ready(ehlo);
        let mut out = Vec::new();
        client.send(message(&["x@y"]), &mut out);
        let mut event = Ok(ClientEvent::More);
        for answer in ["250 mail\r\n", "250 mail\r\n", "250 rcpt\r\n", "354 go\r\n"] {
            event = client.next(&mut answer.as_bytes(), &mut out);
            if event != Ok(ClientEvent::More) {
                break;
            }
        }
        assert!(matches!(event, Err(ClientError::OutOfStep(_))), "{event:?}");
    }
    // An answer to the message before it is sent.
    let mut client = ready("250-x\r\n250 PIPELINING\r\n");
    let mut out = Vec::new();
    client.send(message(&["x@y"]), &mut out);
    let event = client.next(&mut &b"250 a\r\n250 b\r\n354 go\r\n250 taken\r\n"[..], &mut out);
    assert!(matches!(event, Err(ClientError::Unexpected(_))), "{event:?}");
    // One too many after the message: it was taken, and nothing more is asked there.
    let mut client = ready("250-x\r\n250 PIPELINING\r\n");
    client.send(message(&["x@y"]), &mut out);
    let event = client.next(&mut &b"250 a\r\n250 b\r\n354 go\r\n"[..], &mut out);
    assert_eq!(event, Ok(ClientEvent::Body));
    let done = client.next(&mut &b"250 taken\r\n250 really\r\n"[..], &mut out);
    assert_eq!(codes(done), [250]);
    assert!(client.is_closing());
}

#[test]
fn a_probe_asks_and_sends_nothing() {
    for ehlo in ["250-x\r\n250 PIPELINING\r\n", "250 x\r\n"] {
        let mut client = ready(ehlo);
        for answer in ["250 2.1.5 ok\r\n", "550 5.1.1 no\r\n"] {
            let mut out = Vec::new();
            client.ask("x@y", &mut out);
            let mut event = Ok(ClientEvent::More);
            while event == Ok(ClientEvent::More) {
                let said = String::from_utf8(std::mem::take(&mut out)).unwrap();
                assert!(!said.contains("DATA"), "{said}");
                let answers: String = said
                    .lines()
                    .map(|l| if l.starts_with("RCPT") { answer } else { "250 ok\r\n" })
                    .collect();
                event = client.next(&mut answers.as_bytes(), &mut out);
            }
            assert_eq!(codes(event), [answer[..3].parse::<u16>().unwrap()]);
        }
        let mut out = Vec::new();
        client.send(message(&["x@y"]), &mut out);
        assert!(out.starts_with(b"RSET"), "what was begun is reset");
    }
}

#[test]
fn required_tls_is_required() {
    let config = ClientConfig { helo: "gw".into(), tls_required: true, ..ClientConfig::default() };
    let mut client = Client::new(config, false);
    let mut out = Vec::new();
    let mut input = &b"220 hi\r\n250 x\r\n"[..];
    assert_eq!(client.next(&mut input, &mut out), Err(ClientError::NoTls));
}

#[test]
fn answers_of_a_broken_transaction_count_unless_the_server_is_out_of_step() {
    let lost = Reply::new(421, (4, 4, 2), "lost");
    let sent = |input: &[u8]| {
        let mut client = ready("250 PIPELINING\r\n");
        let mut out = Vec::new();
        client.send(message(&["x@y", "z@y"]), &mut out);
        let mut input = input;
        let last = client.next(&mut input, &mut out);
        (client, last)
    };
    let (mut client, _) = sent(b"250 ok\r\n550 5.1.1 no\r\n250 ok\r\n354 go\r\n");
    let replies = client.break_off(&lost).unwrap();
    assert_eq!(replies.iter().map(|r| r.code).collect::<Vec<_>>(), [550, 421]);
    assert!(client.is_closing());
    let (mut client, _) = sent(b"250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n");
    assert_eq!(client.break_off(&lost), None, "nothing is settled");
    let (mut client, last) = sent(b"250 ok\r\n550 5.1.1 no\r\n250 ok\r\n299 what\r\n");
    assert!(last.is_err());
    assert_eq!(client.break_off(&lost), None, "no answer can be trusted");
}
