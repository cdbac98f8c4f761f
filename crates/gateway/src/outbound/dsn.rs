//! Delivery status notifications (RFC 3464): reports to a sender of what became of a message.

use gauntlet_mail::date;
use gauntlet_store::{Delivery, LogRecord};

use crate::outbound::queued_message::{News, QueuedMessage};

/// Bytes of the original's header that are quoted.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Largest original that is returned in full where its sender asks for that (`RET=FULL`), in
/// bytes; of a larger one the header is (RFC 3461 section 4.3 allows it). A message for many
/// addresses can come back as many times.
const ORIGINAL_BYTES_MAX: usize = 256 * 1024;
/// Longest subject of a report, in bytes.
const SUBJECT_BYTES_MAX: usize = 200;
/// Longest diagnostic text, in bytes.
const DIAGNOSTIC_BYTES_MAX: usize = 1_000;

impl News {
    /// The report's subject, without the message.
    pub fn subject(self) -> &'static str {
        match self {
            News::Failed => "Undelivered mail",
            News::Delayed => "Delayed mail",
            News::Delivered => "Delivered mail",
        }
    }

    fn opening(self) -> &'static str {
        match self {
            News::Failed => "Your message could not be delivered to",
            News::Delayed => "Your message has not yet been delivered to",
            News::Delivered => "Your message was delivered to, or passed on towards",
        }
    }

    fn closing(self, expires_ms: i64) -> String {
        match self {
            News::Failed => "It will not be tried again.".to_owned(),
            News::Delayed => {
                format!(
                    "It is tried until {}; you need not send it again.",
                    date::rfc5322(expires_ms)
                )
            }
            News::Delivered => "You asked for this report.".to_owned(),
        }
    }

    /// RFC 3464 section 2.3.3. `delivered` is for what this machine delivered itself.
    fn action(self, delivery: &Delivery) -> &'static str {
        match self {
            News::Failed => "failed",
            News::Delayed => "delayed",
            News::Delivered if delivery.next_hop == "maildir" => "delivered",
            News::Delivered => "relayed",
        }
    }
}

/// The message that a report is about.
#[derive(Debug, Clone, Copy)]
pub struct Original<'a> {
    /// Its envelope and targets.
    pub message: &'a QueuedMessage,
    /// The message as it is in the spool.
    pub body: &'a [u8],
}

/// The subject of a report about this message, as the report and its line of the log have it.
pub fn subject(news: News, original: &LogRecord) -> String {
    let subject = format!("{}: {}", news.subject(), ascii(&original.subject));
    gauntlet_smtp::text::excerpt(&subject, SUBJECT_BYTES_MAX)
}

/// The report about these deliveries of a message, from `host` at this time. Late messages are
/// tried until `expires_ms`.
pub fn report(
    host: &str,
    id: &str,
    original: &Original<'_>,
    news: News,
    about: &[Delivery],
    now_ms: i64,
    expires_ms: i64,
) -> Vec<u8> {
    let Original { message: original, body } = *original;
    let envelope = &original.record.envelope;
    let date = date::rfc5322(now_ms);
    let (content_type, returned) = returned(original, body, news);
    let boundary = boundary(id, returned);
    // RFC 2045 section 6.4: whatever a part has, what holds it has.
    let encoding = match returned.is_ascii() {
        true => "",
        false => "Content-Transfer-Encoding: 8bit\r\n",
    };
    let mut text = format!(
        "From: Mail delivery <MAILER-DAEMON@{host}>\r\nTo: <{}>\r\n\
         Subject: {}\r\nDate: {date}\r\nMessage-ID: <{id}@{host}>\r\n\
         Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n{encoding}\
         Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
         {}\r\n\r\n",
        clean(&envelope.mail_from),
        subject(news, &original.record),
        news.opening(),
    );
    for delivery in about {
        text.push_str(&format!("  <{}>\r\n", clean(&delivery.address)));
        text.push_str(&format!("     {}\r\n", clean(&delivery.reply)));
    }
    let closing = news.closing(expires_ms);
    text.push_str(&format!(
        "\r\nIt was received on {} and has the reference {}.\r\n{}\r\n\r\n\
         --{boundary}\r\nContent-Type: message/delivery-status\r\n\r\n\
         Reporting-MTA: dns; {host}\r\nArrival-Date: {}\r\n",
        date::rfc5322(original.record.received_ms),
        original.record.id,
        closing,
        date::rfc5322(original.record.received_ms),
    ));
    if let Some(envid) = &original.envid {
        text.push_str(&format!("Original-Envelope-Id: {}\r\n", clean(envid)));
    }
    for delivery in about {
        text.push_str(&fields(original, news, delivery, now_ms, expires_ms));
    }
    text.push_str(&format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\n{encoding}\r\n"));
    let mut report = text.into_bytes();
    report.extend_from_slice(returned);
    report.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    report
}

/// The fields of a report about one delivery (RFC 3464 section 2.3).
fn fields(
    original: &QueuedMessage,
    news: News,
    delivery: &Delivery,
    now_ms: i64,
    expires_ms: i64,
) -> String {
    let mut text = "\r\n".to_owned();
    let target = original.targets.iter().find(|t| t.address == delivery.address);
    if let Some(orcpt) = target.and_then(|t| t.orcpt.as_deref()) {
        text.push_str(&format!("Original-Recipient: {}\r\n", clean(orcpt)));
    }
    text.push_str(&format!(
        "Final-Recipient: rfc822; {}\r\nAction: {}\r\nStatus: {}\r\nDiagnostic-Code: smtp; {}\r\n\
         Last-Attempt-Date: {}\r\n",
        clean(&delivery.address),
        news.action(delivery),
        status(&delivery.reply, news),
        clean(&delivery.reply),
        date::rfc5322(now_ms),
    ));
    if news == News::Delayed {
        text.push_str(&format!("Will-Retry-Until: {}\r\n", date::rfc5322(expires_ms)));
    }
    text
}

/// What a report returns of the message, with its media type: all of it only if its sender asked
/// for that, it failed (RFC 3461 section 4.3) and it is not too large.
fn returned<'b>(original: &QueuedMessage, body: &'b [u8], news: News) -> (&'static str, &'b [u8]) {
    let in_full = original.ret_full == Some(true) && news == News::Failed;
    match in_full && body.len() <= ORIGINAL_BYTES_MAX {
        // RFC 6533 section 3: a header in UTF-8 is not one of message/rfc822.
        true if original.utf8 => ("message/global", body),
        true => ("message/rfc822", body),
        false => ("text/rfc822-headers", header_of(body)),
    }
}

/// What stands between the parts of a report, and nowhere in what it returns (RFC 2046 section
/// 5.1.1): who can guess the report's id must not add parts to it.
fn boundary(id: &str, returned: &[u8]) -> String {
    let mut boundary = format!("=_gauntlet_{id}");
    while memchr::memmem::find(returned, boundary.as_bytes()).is_some() {
        boundary.push('_');
    }
    boundary
}

/// The header of a message, cut at a line end.
fn header_of(body: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(body, b"\r\n\r\n").map_or(body.len(), |n| n + 2);
    let end = end.min(HEADER_BYTES_MAX);
    let header = body.get(..end).unwrap_or_default();
    let line_end = header.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
    header.get(..line_end).unwrap_or_default()
}

/// The enhanced code in a reply (RFC 3463), else one that fits its first digit.
fn status(reply: &str, news: News) -> String {
    let class = match news {
        News::Failed => "45",
        News::Delayed => "4",
        News::Delivered => "2",
    };
    let is_code = |word: &&str| {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() == 3
            && parts.first().is_some_and(|first| class.contains(first))
            && parts
                .iter()
                .all(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
    };
    match reply.split(' ').take(3).find(is_code) {
        Some(code) => code.to_owned(),
        None => format!("{}.0.0", class.chars().last().unwrap_or('5')),
    }
}

/// The text as one line of bounded length, for fields of a report.
fn clean(text: &str) -> String {
    gauntlet_smtp::text::excerpt(text, DIAGNOSTIC_BYTES_MAX)
}

/// The text without what would need an encoded word.
fn ascii(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::{Envelope, Message};
    use gauntlet_store::Outcome;

    #[test]
    fn the_report_is_well_formed_and_cannot_be_injected_into() {
        let record = LogRecord {
            id: "ORIGINAL".into(),
            subject: "a\r\nBcc: victim@example.org".into(),
            envelope: Envelope { mail_from: "sender@example.org".into(), ..Envelope::default() },
            ..LogRecord::default()
        };
        let message = QueuedMessage::straight(record, &["nobody@example.net".to_owned()]);
        let failed = Delivery {
            address: "nobody@example.net".into(),
            outcome: Outcome::Failed,
            reply: "550 5.1.1 no such user\r\nX: y".into(),
            ..Delivery::default()
        };
        let body = b"Subject: hello\r\nFrom: x\r\n\r\nsecret body\r\n";
        let original = Original { message: &message, body };
        let report = report("gw.example", "REPORT", &original, News::Failed, &[failed], 0, 0);
        let text = String::from_utf8(report.clone()).unwrap();
        assert!(text.contains("\r\nStatus: 5.1.1\r\n"), "{text}");
        assert!(text.contains("\r\nFinal-Recipient: rfc822; nobody@example.net\r\n"));
        assert!(text.contains("\r\nSubject: hello\r\n"), "the original's header is quoted");
        assert!(!text.contains("secret body"));
        assert!(!text.contains("\nBcc:") && !text.contains("\nX: y"));
        let message = Message::parse(&report);
        assert_eq!(message.parts().len(), 4);
        assert_eq!(message.defects(), []);
        assert!(text.contains("\r\nSubject: Undelivered mail: a  Bcc: victim@example.org\r\n"));
        assert_eq!(status("451 later", News::Failed), "5.0.0");
        assert_eq!(status("550 5.1.10 no", News::Failed), "5.1.10");
        assert_eq!(status("550 5.1.1 no", News::Delayed), "4.0.0");
        assert_eq!(status("250 2.0.0 ok", News::Delivered), "2.0.0");
    }

    /// The report about a message that failed, with this wish for what it returns.
    fn report_on(ret_full: Option<bool>, news: News, body: &[u8]) -> Vec<u8> {
        let record = LogRecord { id: "ORIGINAL".into(), ..LogRecord::default() };
        let mut message = QueuedMessage::straight(record, &["nobody@example.net".to_owned()]);
        message.ret_full = ret_full;
        let about = message.record.deliveries.clone();
        let original = Original { message: &message, body };
        report("gw.example", "REPORT", &original, news, &about, 0, 0)
    }

    fn has(report: &[u8], text: &str) -> bool {
        memchr::memmem::find(report, text.as_bytes()).is_some()
    }

    #[test]
    fn a_sender_that_asks_for_it_gets_its_message_back() {
        let body = b"Subject: hello\r\nFrom: x@example.org\r\n\r\nbody in full\r\n";
        let full = report_on(Some(true), News::Failed, body);
        assert!(memchr::memmem::find(&full, body).is_some(), "as it came");
        let message = Message::parse(&full);
        let parts = message.parts();
        assert!(parts.iter().any(|part| part.content_type.is("message", "rfc822")));
        assert!(!has(&full, "Content-Transfer-Encoding"));
        for (ret_full, news) in [
            (Some(false), News::Failed),
            (None, News::Failed),
            // Only what failed comes back in full.
            (Some(true), News::Delayed),
            (Some(true), News::Delivered),
        ] {
            let headers = report_on(ret_full, news, body);
            assert!(!has(&headers, "body in full"), "{ret_full:?} {news:?}");
            assert!(has(
                &headers,
                "\r\nContent-Type: text/rfc822-headers\r\n\r\nSubject: hello\r\n"
            ));
        }
    }

    #[test]
    fn what_is_returned_has_a_bound_and_an_encoding() {
        let mut large = b"Subject: hello\r\n\r\nbody in full\r\n".to_vec();
        large.resize(ORIGINAL_BYTES_MAX + 1, b'x');
        assert!(!has(&report_on(Some(true), News::Failed, &large), "body in full"));
        large.truncate(ORIGINAL_BYTES_MAX);
        assert!(has(&report_on(Some(true), News::Failed, &large), "body in full"));
        let eight_bit = "Subject: hello\r\n\r\ngrüße\r\n".as_bytes();
        let report = report_on(Some(true), News::Failed, eight_bit);
        let fields = report.split(|b| *b == b'\n');
        let encodings = fields.filter(|f| *f == b"Content-Transfer-Encoding: 8bit\r").count();
        assert_eq!(encodings, 2, "of the part, and of what holds it");
    }
}
