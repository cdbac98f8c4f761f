//! Notifications that a policy asks for (`notify`): a message about a message.
//!
//! Safe against loops and backscatter (RFC 3834): from the null sender, marked `Auto-Submitted:
//! auto-generated`, to addresses that the policy names alone, and never about mail that is itself
//! from the null sender or an automatic answer.

use gauntlet_mail::{date, fields};
use gauntlet_smtp::text::excerpt;
use gauntlet_store::LogRecord;
use gauntlet_verdict::{Change, Disposition};

use crate::outbound::queued_message::{QueuedMessage, own_record};

/// Longest line about the message, in bytes.
const LINE_BYTES_MAX: usize = 500;
/// Recipients of the message that one notification lists.
const RECIPIENTS_MAX: usize = 50;

/// A notification for one address about one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Address of the recipient.
    pub to: String,
    /// Texts of the rules that ask for it, each once.
    texts: Vec<String>,
    /// Recipient, disposition and rule.
    about: Vec<String>,
    /// Names of the rules, each once.
    pub rules: Vec<String>,
}

/// What the dispositions ask for: one notification for each address. Each says of the message's
/// recipients only those whose disposition names its address.
pub fn wanted(dispositions: &[Disposition]) -> Vec<Notification> {
    let mut all: Vec<Notification> = Vec::new();
    for disposition in dispositions {
        for change in &disposition.changes {
            let Change::Notify { to, template, rule } = change else { continue };
            for address in to {
                let known = all.iter().position(|n| n.to.eq_ignore_ascii_case(address));
                let at = known.unwrap_or_else(|| {
                    let (texts, about, rules) = Default::default();
                    all.push(Notification { to: address.clone(), texts, about, rules });
                    all.len() - 1
                });
                let Some(notification) = all.get_mut(at) else { continue };
                let about =
                    format!("{}: {} (rule {rule:?})", disposition.recipient, disposition.end);
                for (list, text) in [
                    (&mut notification.texts, template),
                    (&mut notification.about, &about),
                    (&mut notification.rules, rule),
                ] {
                    if !text.is_empty() && !list.contains(text) {
                        list.push(text.clone());
                    }
                }
            }
        }
    }
    all
}

/// Why nobody is notified of this message, if that is so.
pub fn unsafe_reason(record: &LogRecord, raw: &[u8]) -> Option<&'static str> {
    if record.envelope.mail_from.is_empty() {
        return Some("the message is from the null sender");
    }
    let is_automatic = |field: &[u8]| {
        let value = field.iter().position(|b| *b == b':').and_then(|at| field.get(at + 1..));
        let value = String::from_utf8_lossy(value.unwrap_or_default()).trim().to_lowercase();
        fields::is_named(field, b"auto-submitted") && value.split(';').next() != Some("no")
    };
    let automatic = fields::fields(raw).any(is_automatic);
    automatic.then_some("the message is itself an automatic one (Auto-Submitted)")
}

/// The notification as a message of `host` named `id`.
pub fn compose(
    notification: &Notification,
    original: &LogRecord,
    (host, id): (&str, &str),
    now_ms: i64,
) -> (QueuedMessage, Vec<u8>) {
    let LogRecord { envelope, verdict, .. } = original;
    let subject = format!("Notice about message {}: {}", original.id, verdict.class);
    let mut text = String::new();
    for one in &notification.texts {
        text.push_str(one.trim_end());
        text.push_str("\n\n");
    }
    let score = format!("{} ({:.1} points)", verdict.class, verdict.score);
    for (name, value) in [
        ("Reference", original.id.as_str()),
        ("Received", &date::rfc5322(original.received_ms)),
        ("Sender", &envelope.mail_from),
        ("From", &original.from),
        ("Subject", &original.subject),
        ("Class", &score),
    ] {
        text.push_str(&format!("{name:<11}{}\n", excerpt(value, LINE_BYTES_MAX)));
    }
    for about in notification.about.iter().take(RECIPIENTS_MAX) {
        text.push_str(&format!("{:<11}{}\n", "Recipient", excerpt(about, LINE_BYTES_MAX)));
    }
    if let Some(more @ 1..) = notification.about.len().checked_sub(RECIPIENTS_MAX) {
        text.push_str(&format!("{:<11}and {more} more\n", "Recipient"));
    }
    let to = excerpt(&notification.to, LINE_BYTES_MAX);
    let mut raw = format!(
        "From: Mail gateway <postmaster@{host}>\r\nTo: <{to}>\r\nSubject: {subject}\r\nDate: {}\r\n\
         Message-ID: <{id}@{host}>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\n",
        date::rfc5322(now_ms),
    );
    if text.is_ascii() && text.lines().all(|line| line.len() <= 900) {
        raw.push_str("\r\n");
        raw.push_str(&text.replace('\n', "\r\n"));
    } else {
        raw.push_str("Content-Transfer-Encoding: base64\r\n\r\n");
        let encoded = base64_simd::STANDARD.encode_to_string(text.replace('\n', "\r\n"));
        for line in encoded.as_bytes().chunks(76) {
            raw.push_str(&String::from_utf8_lossy(line));
            raw.push_str("\r\n");
        }
    }
    let record = LogRecord {
        size: raw.len() as u64,
        from: format!("postmaster@{host}"),
        subject,
        message_id: format!("{id}@{host}"),
        ..own_record(id, now_ms, host, &notification.to)
    };
    let mut message = QueuedMessage::straight(record, std::slice::from_ref(&notification.to));
    message.utf8 = !notification.to.is_ascii();
    (message, raw.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::{Envelope, Message};
    use gauntlet_verdict::Final;

    fn disposition(recipient: &str, to: &[&str], template: &str) -> Disposition {
        let to = to.iter().map(|a| (*a).to_owned()).collect();
        Disposition {
            recipient: recipient.into(),
            end: Final::Quarantine { folder: "spam".into() },
            changes: vec![Change::Notify { to, template: template.into(), rule: "r".into() }],
            rules: vec!["r".into()],
            release: None,
        }
    }

    #[test]
    fn one_for_each_address_and_recipients_do_not_learn_of_each_other() {
        let all = wanted(&[
            disposition("a@x", &["ops@x", "a@x"], "one"),
            disposition("b@x", &["OPS@x", "b@x"], "one"),
        ]);
        let to: Vec<&str> = all.iter().map(|n| n.to.as_str()).collect();
        assert_eq!(to, ["ops@x", "a@x", "b@x"]);
        assert_eq!((all[0].about.len(), all[0].texts.len()), (2, 1));
        assert!(all[1].about.len() == 1 && all[1].about[0].starts_with("a@x: quarantine:spam"));
    }

    #[test]
    fn nothing_answers_the_null_sender_or_automatic_mail() {
        let from = |mail_from: &str| LogRecord {
            envelope: Envelope { mail_from: mail_from.into(), ..Envelope::default() },
            ..LogRecord::default()
        };
        assert!(unsafe_reason(&from(""), b"Subject: x\r\n\r\n").is_some());
        assert!(unsafe_reason(&from("a@x"), b"Auto-Submitted: Auto-Generated\r\n\r\n").is_some());
        assert!(
            unsafe_reason(&from("a@x"), b"auto-submitted:\r\n auto-replied; x\r\n\r\n").is_some()
        );
        assert!(unsafe_reason(&from("a@x"), b"Auto-Submitted: no\r\n\r\n").is_none());
        assert!(
            unsafe_reason(&from("a@x"), b"Subject: x\r\n\r\nAuto-Submitted: yes\r\n").is_none()
        );
    }

    #[test]
    fn the_message_is_well_formed_and_cannot_be_injected_into() {
        let record = LogRecord {
            id: "ORIGINAL".into(),
            subject: "h\u{e9}\r\nBcc: victim@example.org".into(),
            from: "x\r\n.\r\ny".into(),
            ..LogRecord::default()
        };
        for template in ["It was held.\nSee the console.", "Gehalten für Sie"] {
            let all = wanted(&[disposition("a@x", &["ops@x"], template)]);
            let (message, raw) = compose(&all[0], &record, ("gw.test", "NEW"), 0);
            let parsed = Message::parse(&raw);
            assert_eq!(parsed.defects(), []);
            assert!(parsed.header("Bcc").is_none());
            let text = parsed.parts()[0].text().unwrap();
            assert!(text.contains(template.lines().last().unwrap()), "{text}");
            assert!(text.contains("Reference  ORIGINAL"), "{text}");
            assert!(message.record.envelope.mail_from.is_empty());
            assert_eq!(message.targets[0].address, "ops@x");
        }
    }
}
