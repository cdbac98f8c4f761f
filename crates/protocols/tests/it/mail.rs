//! SMTP and its messages as rules see them.

use gauntlet_packet::Direction::{ToClient, ToServer};

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

fn mail() -> Talk {
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
    let talk = mail();
    assert_eq!(talk.protocol(), "smtp");
    assert_eq!(talk.texts(0, "smtp.helo", ToServer), ["client.example"]);
    assert_eq!(talk.texts(0, "smtp.mail_from", ToServer), ["<a@example.com>"]);
    assert_eq!(talk.texts(0, "smtp.rcpt_to", ToServer), ["<b@example.org>"]);
}

#[test]
fn a_mail_has_its_header_and_urls() {
    let talk = mail();
    assert_eq!(talk.texts(0, "email.subject", ToServer), ["hello"]);
    assert_eq!(talk.texts(0, "email.url", ToServer), ["evil.example/x"]);
}

#[test]
fn attachments_are_files() {
    let talk = mail();
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
