//! Delivery status notifications (RFC 3464): reports to a sender of what became of a message.

use gauntlet_mail::date;
use gauntlet_store::Delivery;

use crate::outbound::queued_message::{News, QueuedMessage};

/// Bytes of the original's header that are quoted.
const HEADER_BYTES_MAX: usize = 64 * 1024;
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
    let boundary = format!("=_gauntlet_{id}");
    let mut text = format!(
        "From: Mail delivery <MAILER-DAEMON@{host}>\r\nTo: <{}>\r\n\
         Subject: {}: {}\r\nDate: {date}\r\nMessage-ID: <{id}@{host}>\r\n\
         Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
         {}\r\n\r\n",
        clean(&envelope.mail_from),
        news.subject(),
        clean(&ascii(&original.record.subject)),
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
        let target = original.targets.iter().find(|t| t.address == delivery.address);
        text.push_str("\r\n");
        if let Some(orcpt) = target.and_then(|t| t.orcpt.as_deref()) {
            text.push_str(&format!("Original-Recipient: {}\r\n", clean(orcpt)));
        }
        text.push_str(&format!(
            "Final-Recipient: rfc822; {}\r\nAction: {}\r\nStatus: {}\r\nDiagnostic-Code: smtp; {}\r\n\
             Last-Attempt-Date: {date}\r\n",
            clean(&delivery.address),
            news.action(delivery),
            status(&delivery.reply, news),
            clean(&delivery.reply),
        ));
        if news == News::Delayed {
            text.push_str(&format!("Will-Retry-Until: {}\r\n", date::rfc5322(expires_ms)));
        }
    }
    text.push_str(&format!("\r\n--{boundary}\r\nContent-Type: text/rfc822-headers\r\n\r\n"));
    let mut report = text.into_bytes();
    report.extend_from_slice(header_of(body));
    report.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    report
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
    use gauntlet_store::{LogRecord, Outcome};

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
        assert_eq!(status("451 later", News::Failed), "5.0.0");
        assert_eq!(status("550 5.1.10 no", News::Failed), "5.1.10");
        assert_eq!(status("550 5.1.1 no", News::Delayed), "4.0.0");
        assert_eq!(status("250 2.0.0 ok", News::Delivered), "2.0.0");
    }
}
