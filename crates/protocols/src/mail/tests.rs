use super::*;
use Direction::{ToClient as S, ToServer as C};

/// Plays a talk, cut into pieces of so many bytes.
fn play(protocol: Protocol, talk: &[(Direction, &str)], step: usize) -> Vec<Mail> {
    let mut tap = Tap::new(protocol, &Settings::default(), true).unwrap();
    let mut done = Vec::new();
    for (way, text) in talk {
        for piece in text.as_bytes().chunks(step) {
            tap.more(*way, piece);
            done.extend(tap.take());
        }
    }
    tap.end();
    done.extend(tap.take());
    done
}

/// The messages, equal whatever the pieces are.
fn texts(protocol: Protocol, talk: &[(Direction, &str)]) -> Vec<(String, MailEnd)> {
    let of = |step| {
        let told = play(protocol, talk, step).into_iter();
        told.map(|mail| (String::from_utf8(mail.bytes).unwrap(), mail.end)).collect::<Vec<_>>()
    };
    let whole = of(usize::MAX);
    for step in 1..5 {
        assert_eq!(of(step), whole, "in pieces of {step}");
    }
    whole
}

fn whole(text: &str) -> (String, MailEnd) {
    (text.to_owned(), MailEnd::Whole)
}

const HELLO: [(Direction, &str); 6] = [
    (S, "220-mx.example\r\n220 ready\r\n"),
    (C, "EHLO client.example\r\n"),
    (S, "250-mx.example\r\n250 PIPELINING\r\n"),
    (C, "mail from:<@a,@b:alice@example.com> SIZE=9\r\nRCPT TO:<bob@example.net>\r\n"),
    (C, "RCPT TO:<nobody@example.net>\r\n"),
    (S, "250 ok\r\n250 ok\r\n550 no\r\n"),
];

fn smtp(rest: &[(Direction, &'static str)]) -> Vec<(Direction, &'static str)> {
    HELLO.iter().chain(rest).copied().collect()
}

#[test]
fn a_message_by_data_has_its_envelope_and_no_added_dots() {
    let talk = smtp(&[
        (C, "DATA\r\n"),
        (S, "354 go on\r\n"),
        (C, "Subject: x\r\n\r\n..dot\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<c@example.net>\r\nDATA\r\n"),
        (S, "250 queued\r\n250 ok\r\n250 ok\r\n354 go\r\n"),
        (C, "second\r\n.\r\nQUIT\r\n"),
    ]);
    let expected = [whole("Subject: x\r\n\r\n.dot\r\n"), whole("second\r\n")];
    assert_eq!(texts(Protocol::Smtp, &talk), expected);
    let told = play(Protocol::Smtp, &talk, usize::MAX);
    let first = MailEnvelope {
        helo: "client.example".into(),
        mail_from: "alice@example.com".into(),
        rcpt_to: vec!["bob@example.net".into()],
        auth_user: None,
    };
    assert_eq!(told[0].envelope, first);
    let rcpt_to = vec!["c@example.net".to_owned()];
    assert_eq!(told[1].envelope, MailEnvelope { mail_from: String::new(), rcpt_to, ..first });
}

#[test]
fn chunks_are_put_together_wherever_they_are_cut() {
    let talk = smtp(&[
        (C, "BDAT 7\r\nSubjectBDAT 6\r\n: x\r\n\rBDAT 3 LAST\r\n\ny.BDAT 1 LAST\r\nz"),
        (S, "250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n"),
        (C, "BDAT 0 LAST\r\n"),
    ]);
    assert_eq!(
        texts(Protocol::Smtp, &talk),
        [whole("Subject: x\r\n\r\ny."), whole("z"), whole("")]
    );
}

#[test]
fn data_that_the_server_refuses_is_read_as_commands() {
    let talk = smtp(&[
        (C, "DATA\r\n"),
        (S, "554 no\r\n"),
        (C, "RSET\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n"),
        (S, "250 ok\r\n250 ok\r\n250 ok\r\n"),
        (C, "DATA\r\n"),
        (S, "354 go\r\n"),
        (C, "x\r\n.\r\n"),
    ]);
    assert_eq!(texts(Protocol::Smtp, &talk), [whole("x\r\n")]);
    assert_eq!(play(Protocol::Smtp, &talk, 9)[0].envelope.mail_from, "a@b");
}

#[test]
fn a_client_alone_is_believed() {
    let talk: Vec<_> = smtp(&[(C, "DATA\r\n"), (C, "x\r\n.\r\n"), (C, "QUIT\r\n")]);
    let talk: Vec<_> = talk.into_iter().filter(|(way, _)| *way == C).collect();
    let mut tap = Tap::new(Protocol::Smtp, &Settings::default(), false).unwrap();
    talk.iter().for_each(|(way, text)| tap.more(*way, text.as_bytes()));
    let told = tap.take();
    assert_eq!((told.len(), told[0].bytes.as_slice()), (1, &b"x\r\n"[..]));
    assert_eq!(told[0].envelope.rcpt_to, ["bob@example.net", "nobody@example.net"]);
}

#[test]
fn logins_are_known_and_passwords_are_not() {
    let plain = "AUTH PLAIN AGFsaWNlAHNlY3JldA==\r\n";
    let data = [(C, "DATA\r\n"), (S, "354 go\r\n"), (C, "x\r\n.\r\n")];
    let talk = smtp(&[&[(C, plain), (S, "235 ok\r\n")][..], &data].concat());
    let told = play(Protocol::Smtp, &talk, 7);
    assert_eq!(told[0].envelope.auth_user.as_deref(), Some("alice"));
    let login = [
        (C, "AUTH LOGIN\r\n"),
        (S, "334 VXNlcm5hbWU6\r\n"),
        (C, "Ym9i\r\n"),
        (S, "334 UGFzc3dvcmQ6\r\n"),
        (C, "REFUQQ==\r\n"),
        (S, "235 ok\r\n"),
    ];
    let told = play(Protocol::Smtp, &smtp(&[&login[..], &data].concat()), 3);
    assert_eq!(told[0].envelope.auth_user.as_deref(), Some("bob"));
}

#[test]
fn other_ends_of_messages_are_noted() {
    for (text, noted) in [
        ("a\n.\nMAIL\r\n.\r\n", true),
        ("a\n.\r\nMAIL\r\n.\r\n", true),
        ("a\r\n.\nMAIL\r\n.\r\n", true),
        ("a\nb\r\n..\r\n.\r\n", false),
    ] {
        let talk = smtp(&[(C, "DATA\r\n"), (S, "354 go\r\n"), (C, text)]);
        let told = play(Protocol::Smtp, &talk, 2);
        assert_eq!(told.len(), 1, "{text:?}");
        assert_eq!(told[0].has_other_end, noted, "{text:?}");
    }
}

#[test]
fn what_is_not_whole_is_told_with_its_reason() {
    let begin = smtp(&[(C, "DATA\r\n"), (S, "354 go\r\n"), (C, "Subject: x\r\n\r\nab")]);
    assert_eq!(texts(Protocol::Smtp, &begin), [("Subject: x\r\n\r\nab".into(), MailEnd::Cut)]);
    let told = |settings: &Settings, gap: bool| {
        let mut tap = Tap::new(Protocol::Smtp, settings, true).unwrap();
        begin.iter().for_each(|(way, text)| tap.more(*way, text.as_bytes()));
        if gap {
            tap.gap();
        } else {
            tap.more(C, b"\r\n.\r\n");
        };
        let told = tap.take().remove(0);
        (told.end, told.size, told.bytes.len())
    };
    assert_eq!(told(&Settings::default(), true), (MailEnd::Gap, 16, 16));
    assert_eq!(told(&Settings::new(17, 100), false), (MailEnd::TooLarge, 18, 16));
    let settings = Settings::new(100, 17);
    assert_eq!(told(&settings, false), (MailEnd::NoRoom, 18, 16));
    // The room was given back.
    assert_eq!(told(&settings, true), (MailEnd::Gap, 16, 16));
    // Encrypted, and so nothing more.
    let talk = smtp(&[(C, "STARTTLS\r\n"), (S, "220 go\r\n"), (C, "DATA\r\nx\r\n.\r\n")]);
    assert_eq!(texts(Protocol::Smtp, &talk), []);
}

#[test]
fn messages_of_pop3() {
    let talk = [
        (S, "+OK ready\r\n"),
        (C, "CAPA\r\n"),
        (S, "+OK\r\nUSER\r\nRETR\r\n.\r\n"),
        (C, "AUTH PLAIN\r\n"),
        (S, "+ \r\n"),
        (C, "RETR 1\r\n"),
        (S, "+OK welcome\r\n"),
        (C, "LIST\r\nRETR 1\r\nRETR 9\r\nTOP 1 0\r\nTOP 1 5\r\nLIST 1\r\n"),
        (S, "+OK\r\n1 10\r\n.\r\n+OK 10 octets\r\nA: b\r\n\r\n..x\r\n.\r\n-ERR none\r\n"),
        (S, "+OK\r\nA: b\r\n\r\n.\r\n+OK\r\nA: b\r\n\r\ny\r\n.\r\n+OK 1 10\r\n"),
        (C, "RETR 2\r\n"),
        (S, "+OK\r\nend"),
    ];
    let expected =
        [whole("A: b\r\n\r\n.x\r\n"), whole("A: b\r\n\r\ny\r\n"), ("end".to_owned(), MailEnd::Cut)];
    assert_eq!(texts(Protocol::Pop3, &talk), expected);
}

#[test]
fn messages_of_imap() {
    let talk = [
        (S, "* OK ready\r\n"),
        (C, "a1 FETCH 1:2 (FLAGS BODY.PEEK[])\r\n"),
        (S, "* 1 FETCH (FLAGS (\\Seen) BODY[] {5}\r\none\r\n BODY[HEADER] {3}\r\nxyz)\r\n"),
        (S, "* 2 FETCH (RFC822 {3}\r\ntwo)\r\na1 OK\r\n"),
        (C, "a2 APPEND {5}\r\n"),
        (S, "+ go\r\n"),
        (C, "INBOX (\\Seen) {4}\r\n"),
        (S, "+ go\r\n"),
        (C, "four\r\na3 APPEND x {3}\r\n"),
        (S, "a2 OK\r\na3 NO\r\n"),
        (C, "a4 APPEND x {3+}\r\nnow\r\na5 FETCH 3 (BODY.PEEK[]<0.4>)\r\n"),
        (S, "* 3 FETCH (BODY[]<0> {4}\r\nabcd)\r\n"),
        (C, "a6 FETCH 3 (BODY.PEEK[]<4.4>)\r\n"),
        (S, "* 3 FETCH (BODY[]<4> {2}\r\nef)\r\n"),
        (C, "a7 FETCH 4 (BODY.PEEK[]<0.4>)\r\n"),
        (S, "* 4 FETCH (BODY[]<0> {2}\r\ngh)\r\n* 5 FETCH (BODY[]<4> {2}\r\nno)\r\n"),
        (C, "a8 STARTTLS\r\n"),
        (S, "a8 OK\r\n* 6 FETCH (BODY[] {2}\r\nxx)\r\n"),
    ];
    let expected: Vec<_> =
        ["one\r\n", "two", "four", "now", "abcdef", "gh"].map(whole).into_iter().collect();
    assert_eq!(texts(Protocol::Imap, &talk), expected);
}

#[test]
fn no_bytes_break_it() {
    let talks = [
        (Protocol::Smtp, "EHLO\r\nMAIL FROM:<\"a>\r\nBDAT 5\r\nBDAT 18446744073709551615\r\nx"),
        (Protocol::Smtp, "BDAT x\r\nDATA\r\n.\r\n.\r\n..\r\n\r.\r\n\n.\n\r\n.\r\n"),
        (
            Protocol::Imap,
            "* 1 FETCH BODY[]<x> {1}\r\n* 1 FETCH RFC822 {0}\r\n {99999999999999}\r\n",
        ),
        (Protocol::Imap, "+\r\na APPEND {3+}\r\nabc {0+}\r\n {}\r\n{+}\r\nx BODY[]<0> {0}\r\n"),
        (Protocol::Pop3, "AUTH\r\nRETR\r\n+OK\r\n.\r\n+ \r\nTOP\r\n-ERR\r\n+OK\r\n..\r\n.\r\n"),
    ];
    for (protocol, text) in talks {
        for end in 0..text.len() {
            for byte in [None, Some(0), Some(b'\n'), Some(b'.'), Some(b'{')] {
                let mut bytes = text.as_bytes()[..=end].to_vec();
                bytes[end] = byte.unwrap_or(bytes[end]);
                let mut tap = Tap::new(protocol, &Settings::default(), end % 2 == 0).unwrap();
                for piece in bytes.chunks(3) {
                    tap.more(C, piece);
                    tap.more(S, piece);
                }
                tap.end();
                assert!(tap.is_over() && tap.take().iter().all(|mail| mail.size < 100));
            }
        }
    }
}
