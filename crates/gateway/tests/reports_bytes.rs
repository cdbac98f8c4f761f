//! Any bytes as the parts of a report to a sender: it is a well-formed message with one header,
//! nothing that an address, a reply, a subject or the message itself holds becomes a line of the
//! header or a part of its own, and it quotes no body unless it was asked for.

use gauntlet_gateway::outbound::dsn::{Original, report};
use gauntlet_gateway::outbound::queued_message::{News, QueuedMessage};
use gauntlet_mail::{Envelope, Message};
use gauntlet_store::{Delivery, LogRecord, Outcome};

/// Names of the fields of a report's header; one more says how the rest is encoded where that is
/// not ASCII.
const FIELDS: [&str; 8] = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "MIME-Version",
    "Content-Type",
];

/// Builds reports of all kinds from the pieces of the input, cut at each `|`.
pub(crate) fn ask(input: &[u8]) {
    let mut pieces = input.split(|b| *b == b'|').map(|p| String::from_utf8_lossy(p).into_owned());
    let mut next = || pieces.next().unwrap_or_default();
    let (sender, subject, envid, to, reply, orcpt) =
        (next(), next(), next(), next(), next(), next());
    let body = [next().as_bytes(), b"\r\n\r\nSECRET-BODY\r\n"].concat();
    let record = LogRecord {
        id: "ID".into(),
        subject,
        envelope: Envelope { mail_from: sender, ..Envelope::default() },
        ..LogRecord::default()
    };
    let mut message = QueuedMessage::straight(record, std::slice::from_ref(&to));
    message.ret_full = [None, Some(false), Some(true)][envid.len() % 3];
    message.envid = Some(envid);
    for target in &mut message.targets {
        target.orcpt = Some(orcpt.clone());
    }
    let about = [Delivery { address: to, outcome: Outcome::Failed, reply, ..Delivery::default() }];
    for news in [News::Failed, News::Delayed, News::Delivered] {
        let original = Original { message: &message, body: &body };
        let made = report("gw.test", "REPORT", &original, news, &about, 0, 1);
        let head_end = memchr(&made, b"\r\n\r\n");
        let head = &made[..head_end];
        let lines = head.split(|b| *b == b'\n').filter(|line| !line.starts_with(b"\t"));
        let names: Vec<_> =
            lines.map(|line| String::from_utf8_lossy(&line[..memchr(line, b":")])).collect();
        let names = names.iter().filter(|name| *name != "Content-Transfer-Encoding");
        assert!(names.eq(FIELDS.iter()), "{}", String::from_utf8_lossy(head));
        let start = memchr(head, b"boundary=\"") + b"boundary=\"".len();
        let boundary = [&b"\r\n--"[..], &head[start..head.len() - 1]].concat();
        let delimiters = made.windows(boundary.len()).filter(|w| **w == boundary).count();
        assert_eq!(delimiters, 4, "three parts: {}", String::from_utf8_lossy(&made));
        let bare =
            made.iter().enumerate().any(|(i, b)| *b == b'\n' && (i == 0 || made[i - 1] != b'\r'));
        let quoted_is_bare =
            body.iter().enumerate().any(|(i, b)| *b == b'\n' && (i == 0 || body[i - 1] != b'\r'));
        assert!(!bare || quoted_is_bare, "{}", String::from_utf8_lossy(&made));
        let header = memchr(&body, b"\r\n\r\n");
        let in_full = message.ret_full == Some(true) && news == News::Failed;
        if !in_full && !body[..header].windows(11).any(|w| w == b"SECRET-BODY") {
            assert!(!made.windows(11).any(|w| w == b"SECRET-BODY"), "bodies are not quoted");
        }
        let _parses = Message::parse(&made).parts().len();
    }
}

fn memchr(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|w| w == needle).unwrap_or(bytes.len())
}
