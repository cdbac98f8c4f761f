//! Delivery status notifications (RFC 3464): telling a sender that a message was given up.

use gauntlet_store::Delivery;

use crate::clock;
use crate::transit::Transit;

/// Bytes of the original's header that are quoted.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Longest diagnostic text, in bytes.
const DIAGNOSTIC_BYTES_MAX: usize = 1_000;

/// The report about these deliveries of a message, all failed, from `host` at this time.
pub fn failure(
    host: &str,
    id: &str,
    original: &Transit,
    body: &[u8],
    failed: &[&Delivery],
    now_ms: i64,
) -> Vec<u8> {
    let envelope = &original.record.envelope;
    let date = clock::rfc5322(now_ms);
    let boundary = format!("=_gauntlet_{id}");
    let mut text = format!(
        "From: Mail delivery <MAILER-DAEMON@{host}>\r\nTo: <{}>\r\n\
         Subject: Undelivered mail: {}\r\nDate: {date}\r\nMessage-ID: <{id}@{host}>\r\n\
         Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
         Your message could not be delivered to\r\n\r\n",
        clean(&envelope.mail_from),
        clean(&ascii(&original.record.subject)),
    );
    for delivery in failed {
        text.push_str(&format!("  <{}>\r\n", clean(&delivery.address)));
        text.push_str(&format!("     {}\r\n", clean(&delivery.reply)));
    }
    text.push_str(&format!(
        "\r\nIt was received on {} and has the reference {}.\r\nIt will not be tried again.\r\n\r\n\
         --{boundary}\r\nContent-Type: message/delivery-status\r\n\r\n\
         Reporting-MTA: dns; {host}\r\nArrival-Date: {}\r\n",
        clock::rfc5322(original.record.received_ms),
        original.record.id,
        clock::rfc5322(original.record.received_ms),
    ));
    if let Some(envid) = &original.envid {
        text.push_str(&format!("Original-Envelope-Id: {}\r\n", clean(envid)));
    }
    for delivery in failed {
        let target = original.targets.iter().find(|t| t.address == delivery.address);
        text.push_str("\r\n");
        if let Some(orcpt) = target.and_then(|t| t.orcpt.as_deref()) {
            text.push_str(&format!("Original-Recipient: {}\r\n", clean(orcpt)));
        }
        text.push_str(&format!(
            "Final-Recipient: rfc822; {}\r\nAction: failed\r\nStatus: {}\r\nDiagnostic-Code: smtp; {}\r\n\
             Last-Attempt-Date: {date}\r\n",
            clean(&delivery.address),
            status(&delivery.reply),
            clean(&delivery.reply),
        ));
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
fn status(reply: &str) -> String {
    let is_code = |word: &&str| {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() == 3
            && matches!(parts.first(), Some(&"4" | &"5"))
            && parts
                .iter()
                .all(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
    };
    match reply.split(' ').take(3).find(is_code) {
        Some(code) => code.to_owned(),
        None => "5.0.0".to_owned(),
    }
}

/// One line without control characters, cut.
fn clean(text: &str) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    crate::judge::cut(&one_line, DIAGNOSTIC_BYTES_MAX)
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
        let transit = Transit::straight(record, &["nobody@example.net".to_owned()]);
        let failed = Delivery {
            address: "nobody@example.net".into(),
            outcome: Outcome::Failed,
            reply: "550 5.1.1 no such user\r\nX: y".into(),
            ..Delivery::default()
        };
        let body = b"Subject: hello\r\nFrom: x\r\n\r\nsecret body\r\n";
        let report = failure("gw.example", "REPORT", &transit, body, &[&failed], 0);
        let text = String::from_utf8(report.clone()).unwrap();
        assert!(text.contains("\r\nStatus: 5.1.1\r\n"), "{text}");
        assert!(text.contains("\r\nFinal-Recipient: rfc822; nobody@example.net\r\n"));
        assert!(text.contains("\r\nSubject: hello\r\n"), "the original's header is quoted");
        assert!(!text.contains("secret body"));
        assert!(!text.contains("\nBcc:") && !text.contains("\nX: y"));
        let message = Message::parse(&report);
        assert_eq!(message.parts().len(), 4);
        assert_eq!(message.defects(), Vec::new());
        assert_eq!(status("451 later"), "5.0.0");
    }
}
