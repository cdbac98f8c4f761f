//! SMTP and its messages as rules see them.

use std::sync::Arc;

use gauntlet_packet::Direction::{ToClient, ToServer};
use gauntlet_protocols::{Carrier, Conversation, Flow, Settings, mail};

use super::talk::Talk;

pub(super) const CLIENT: &[u8] = b"EHLO client.example\r\nMAIL FROM:<a@example.com>\r\n\
    RCPT TO:<b@example.org>\r\nDATA\r\nFrom: A <a@example.com>\r\nTo: b@example.org\r\n\
    Subject: hello\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"q\"\r\n\r\n\
    --q\r\nContent-Type: text/plain\r\n\r\nsee http://evil.example/x now\r\n\
    --q\r\nContent-Type: application/octet-stream; name=\"f.bin\"\r\n\
    Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=\"f.bin\"\r\n\r\n\
    aGVsbG8gd29ybGQ=\r\n--q--\r\n.\r\nQUIT\r\n";
pub(super) const SERVER: &[u8] =
    b"220 mx\r\n250-mx\r\n250 PIPELINING\r\n250 ok\r\n250 ok\r\n354 go\r\n\
    250 queued\r\n221 bye\r\n";

fn read() -> Talk {
    let mut talk = Talk::tcp(25);
    let (head, data) =
        CLIENT.split_at(CLIENT.windows(6).position(|w| w == b"DATA\r\n").unwrap() + 6);
    talk.say(ToClient, b"220 mx ESMTP\r\n")
        .say(ToServer, b"EHLO client.example\r\n")
        .say(ToClient, b"250-mx\r\n250 PIPELINING\r\n")
        .say(ToServer, head.get(21..).unwrap())
        .say(ToClient, b"250 ok\r\n250 ok\r\n354 go\r\n");
    for piece in data.chunks(50) {
        talk.say(ToServer, piece);
    }
    talk.say(ToClient, b"250 queued\r\n221 bye\r\n").end();
    talk
}

#[test]
fn a_mail_has_its_envelope() {
    let talk = read();
    assert_eq!(talk.protocol(), "smtp");
    assert_eq!(talk.texts(0, "smtp.helo", ToServer), ["client.example"]);
    assert_eq!(talk.texts(0, "smtp.mail_from", ToServer), ["<a@example.com>"]);
    assert_eq!(talk.texts(0, "smtp.rcpt_to", ToServer), ["<b@example.org>"]);
}

#[test]
fn a_mail_has_its_header_and_urls() {
    let talk = read();
    assert_eq!(talk.texts(0, "email.subject", ToServer), ["hello"]);
    assert_eq!(talk.texts(0, "email.url", ToServer), ["evil.example/x"]);
}

#[test]
fn attachments_are_files() {
    let talk = read();
    let state = talk.conversation.state(0).expect("there is a mail");
    let files = state.files(ToServer);
    let file = files.iter().find(|file| file.name == b"f.bin").expect("there is the attachment");
    assert_eq!(file.size, 11);
}

#[test]
fn replies_without_commands_are_events() {
    let mut talk = Talk::tcp(25);
    talk.say(ToClient, b"220 mx ESMTP\r\n").say(ToServer, b"EHLO a\r\n");
    talk.say(ToClient, b"250 ok\r\nnonsense\r\n");
    assert_eq!(talk.events(0), ["invalid_reply"]);
}

#[test]
fn after_starttls_it_is_tls() {
    let mut talk = Talk::tcp(25);
    talk.say(ToClient, b"220 mx ESMTP\r\n")
        .say(ToServer, b"EHLO a\r\n")
        .say(ToClient, b"250-mx\r\n250 STARTTLS\r\n")
        .say(ToServer, b"STARTTLS\r\n")
        .say(ToClient, b"220 go\r\n")
        .say(ToServer, super::tls::CLIENT_HELLO);
    assert_eq!(talk.protocol(), "tls");
    assert_eq!(talk.texts(talk.conversation.count() - 1, "tls.sni", ToServer), ["a.example"]);
}

/// A conversation whose messages are wanted.
fn with_messages(port: u16) -> Conversation {
    let settings = Settings { mail: Some(mail::Settings::default()), ..Settings::default() };
    let flow =
        Flow { carrier: Carrier::Tcp, ports: (40_000, port), midstream: false, inline: false };
    Conversation::new(Arc::new(settings), flow)
}

#[test]
fn messages_are_read_on_where_a_parser_stops() {
    let mut talk = with_messages(25);
    for (way, bytes) in [
        (ToClient, "220 mx.example ESMTP\r\n"),
        (ToServer, "EHLO c.example\r\n"),
        (ToClient, "250 mx.example\r\n"),
        (ToServer, "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\n"),
        (ToClient, "250 ok\r\n250 ok\r\n"),
        // A chunk that does not end with a line, which Suricata's parser cannot read.
        (ToServer, "BDAT 4\r\nA: bBDAT 5 LAST\r\n\r\n\r\nc"),
        (ToServer, "MAIL FROM:<e@f.example>\r\n"),
        (ToClient, "250 ok\r\n250 ok\r\n250 ok\r\n"),
        (ToServer, "BDAT 1 LAST\r\nx"),
    ] {
        talk.data(way, bytes.as_bytes(), false);
    }
    assert!(talk.is_over() && talk.is_tapped());
    let told = talk.take_mail(false);
    let texts: Vec<_> = told.iter().map(|mail| (&*mail.envelope.mail_from, &*mail.bytes)).collect();
    let expected: [(&str, &[u8]); 2] = [("a@b.example", b"A: b\r\n\r\nc"), ("e@f.example", b"x")];
    assert_eq!(texts, expected);
    assert!(talk.take_mail(true).is_empty() && !talk.is_tapped());
}

#[test]
fn imap_is_followed_if_its_messages_are_wanted() {
    let mut talk = with_messages(143);
    let greeting = "* OK ready\r\n";
    let fetched = "* 1 FETCH (BODY[] {6}\r\nA: b\r\n)\r\na OK\r\n";
    talk.data(ToClient, greeting.as_bytes(), false);
    talk.data(ToServer, b"a FETCH 1 BODY[]\r\n", false);
    talk.data(ToClient, fetched.as_bytes(), false);
    assert_eq!(talk.take_mail(false)[0].bytes, b"A: b\r\n");
    // A gap ends it: nothing behind it can be told from what was before.
    talk.gap(ToClient, 10);
    assert!(!talk.is_tapped());
    let mut without = Conversation::new(
        Arc::new(Settings::default()),
        Flow { carrier: Carrier::Tcp, ports: (40_000, 143), midstream: false, inline: false },
    );
    without.data(ToClient, greeting.as_bytes(), false);
    assert!(without.is_over(), "it is recognised, and no more");
}
