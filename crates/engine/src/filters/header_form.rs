//! Header fields that are missing, repeated or malformed, as hurried software writes them.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `HEADER_NO_FROM` | 2.0 | no From field |
//! | `HEADER_NO_DATE` | 1.4 | no Date field |
//! | `HEADER_NO_TO` | 0.3 | neither To nor Cc nor Bcc |
//! | `HEADER_NO_SUBJECT` | 0.5 | no Subject, or an empty one |
//! | `HEADER_NO_MESSAGE_ID` | 0.7 | no Message-ID |
//! | `HEADER_TWO_FROM` | 2.5 | From fields that name different addresses |
//! | `HEADER_REPEATED` | 0.8 | Date, Subject, To or Message-ID twice, with different values |
//! | `HEADER_8BIT` | 1.0 | Subject or From with bytes that are neither ASCII nor UTF-8 |
//! | `HEADER_NUL` | 2.0 | a NUL byte in the header block |
//! | `FROM_NOT_ADDRESS` | 2.5 | From holds no address with a dotted domain |
//! | `FROM_BARE_NAME` | 2.0 | the first sender is a name without an address (an unquoted comma) |
//! | `DATE_INVALID` | 1.6 | Date cannot be read |
//! | `DATE_FUTURE` | 2.5 | Date is more than 6 hours after reception |
//! | `DATE_PAST` | 0.8 | Date is more than 4 days before reception |
//! | `MESSAGE_ID_FORM` | 0.9 | Message-ID is not `<left@right>` |
//! | `MESSAGE_ID_HOST` | 0.3 | the right side is no host name that others could know |
//! | `SUBJECT_CAPITALS` | 1.3 | Subject in capitals |
//! | `SUBJECT_GAPPED` | 1.8 | Subject spelt with gaps between single letters |
//!
//! Limits: the first field of each name, and at most 64 repeated ones, are looked at. Times are
//! compared with the envelope's when the message came over a connection, else with the topmost
//! Received field; without either the two date rules are silent.

use std::borrow::Cow;

use gauntlet_mail::address::{self, Mailbox};
use gauntlet_mail::{Evidence, Header, Message, View, date};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

const REPEATED_MAX: usize = 64;
/// Senders of one From field that are looked at.
const MAILBOXES_MAX: usize = 4;
const FUTURE_SECONDS_MAX: i64 = 6 * 3600;
const PAST_SECONDS_MAX: i64 = 4 * date::DAY_SECONDS;
/// Shorter subjects are often an acronym.
const CAPITALS_LETTERS_MIN: usize = 12;
const GAPPED_LETTERS_MIN: usize = 6;
const ONCE_ONLY: [&str; 4] = ["date", "subject", "to", "message-id"];

/// Looks at the form of header fields.
#[derive(Debug)]
pub struct HeaderForm {
    no_from: Rule,
    no_date: Rule,
    no_to: Rule,
    no_subject: Rule,
    no_message_id: Rule,
    two_from: Rule,
    repeated: Rule,
    eight_bit: Rule,
    nul: Rule,
    from_not_address: Rule,
    from_bare_name: Rule,
    date_invalid: Rule,
    date_future: Rule,
    date_past: Rule,
    message_id_form: Rule,
    message_id_host: Rule,
    subject_capitals: Rule,
    subject_gapped: Rule,
}

impl HeaderForm {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let mut rule = |name, score, description| registry.points(name, score, description);
        HeaderForm {
            no_from: rule("HEADER_NO_FROM", 2.0, "Missing From: header"),
            no_date: rule("HEADER_NO_DATE", 1.4, "Missing Date: header"),
            no_to: rule("HEADER_NO_TO", 0.3, "Missing To:, Cc: and Bcc: headers"),
            no_subject: rule("HEADER_NO_SUBJECT", 0.5, "Missing or empty Subject: header"),
            no_message_id: rule("HEADER_NO_MESSAGE_ID", 0.7, "Missing Message-ID: header"),
            two_from: rule(
                "HEADER_TWO_FROM",
                2.5,
                "Multiple From: headers with different addresses",
            ),
            repeated: rule(
                "HEADER_REPEATED",
                0.8,
                "Unique header field occurs twice with different values",
            ),
            eight_bit: rule(
                "HEADER_8BIT",
                1.0,
                "Subject: or From: has raw 8-bit bytes that are not UTF-8",
            ),
            nul: rule("HEADER_NUL", 2.0, "NUL byte in the header"),
            from_not_address: rule("FROM_NOT_ADDRESS", 2.5, "From: has no valid address"),
            from_bare_name: rule("FROM_BARE_NAME", 2.0, "From: first mailbox has no address"),
            date_invalid: rule("DATE_INVALID", 1.6, "Invalid Date: header"),
            date_future: rule("DATE_FUTURE", 2.5, "Date: is hours after reception"),
            date_past: rule("DATE_PAST", 0.8, "Date: is days before reception"),
            message_id_form: rule("MESSAGE_ID_FORM", 0.9, "Malformed Message-ID"),
            message_id_host: rule("MESSAGE_ID_HOST", 0.3, "Message-ID has no public host name"),
            subject_capitals: rule("SUBJECT_CAPITALS", 1.3, "Subject: is all capitals"),
            subject_gapped: rule(
                "SUBJECT_GAPPED",
                1.8,
                "Subject: has spaces between single letters",
            ),
        }
    }

    fn presence(&self, message: &Message<'_>, findings: &mut Findings) {
        let has = |name: &str| message.header(name).is_some();
        let missing = [
            (&self.no_from, "From", has("from")),
            (&self.no_date, "Date", has("date")),
            (&self.no_to, "To", has("to") || has("cc") || has("bcc")),
            (&self.no_subject, "Subject", !message.subject().trim().is_empty()),
            (&self.no_message_id, "Message-ID", has("message-id")),
        ];
        for (rule, name, present) in missing {
            if !present {
                findings.add(rule, absent(name));
            }
        }
        for name in ONCE_ONLY {
            let mut fields = message.headers_named(name).take(REPEATED_MAX);
            let Some(first) = fields.next() else { continue };
            let first = first.unfolded();
            if let Some(other) = fields.find(|f| f.unfolded() != first) {
                findings.add(&self.repeated, field_evidence(other));
            }
        }
    }

    fn from(&self, message: &Message<'_>, findings: &mut Findings) {
        let Some(field) = message.header("from") else { return };
        let first = field.unfolded();
        let complete = |m: &Mailbox| m.domain().contains('.') && !m.local_part().is_empty();
        let mailboxes = address::mailboxes(&first, MAILBOXES_MAX);
        if !mailboxes.iter().any(complete) {
            findings.add(&self.from_not_address, field_evidence(field));
        } else if !mailboxes.first().is_some_and(complete) {
            findings.add(&self.from_bare_name, field_evidence(field));
        }
        let other =
            message.headers_named("from").take(REPEATED_MAX).find(|f| f.unfolded() != first);
        if let Some(other) = other {
            findings.add(&self.two_from, field_evidence(other));
        }
    }

    fn bytes(&self, message: &Message<'_>, findings: &mut Findings) {
        for name in ["subject", "from"] {
            let Some(field) = message.header(name) else { continue };
            if !field.raw_value.is_ascii() && std::str::from_utf8(field.raw_value).is_err() {
                findings.add(&self.eight_bit, field_evidence(field));
            }
        }
        let Some(root) = message.parts().first() else { return };
        let block = &message.raw()[root.header_range.clone()];
        if let Some(at) = memchr::memchr(0, block) {
            findings
                .add(&self.nul, Evidence::new(View::Raw, 0, root.header_range.start + at, b"\0"));
        }
    }

    fn date(&self, item: &Item<'_>, findings: &mut Findings) {
        let Some(field) = item.message.header("date") else { return };
        let Some(written) = date::parse(&field.unfolded()) else {
            findings.add(&self.date_invalid, field_evidence(field));
            return;
        };
        let Some(received) = received_at(item) else { return };
        if written > received + FUTURE_SECONDS_MAX {
            findings.add(&self.date_future, field_evidence(field));
        } else if written < received - PAST_SECONDS_MAX {
            findings.add(&self.date_past, field_evidence(field));
        }
    }

    fn message_id(&self, message: &Message<'_>, findings: &mut Findings) {
        let Some(field) = message.header("message-id") else { return };
        let value = field.unfolded();
        let inner = value.strip_prefix(b"<").and_then(|v| v.strip_suffix(b">"));
        let sides = inner.and_then(|v| memchr::memrchr(b'@', v).map(|at| v.split_at(at)));
        let Some((left, right)) = sides.filter(|(l, r)| !l.is_empty() && r.len() > 1) else {
            findings.add(&self.message_id_form, field_evidence(field));
            return;
        };
        if left.iter().chain(right).any(u8::is_ascii_whitespace) {
            findings.add(&self.message_id_form, field_evidence(field));
            return;
        }
        let host = right[1..].to_ascii_lowercase();
        let literal =
            host.starts_with(b"[") || host.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        let unknown = [&b"localhost"[..], b"localhost.localdomain", b"example.com"];
        if literal || unknown.contains(&&host[..]) {
            findings.add(&self.message_id_host, field_evidence(field));
        }
    }

    fn subject(&self, message: &Message<'_>, findings: &mut Findings) {
        let Some(field) = message.header("subject") else { return };
        let subject = field.decoded();
        let letters = || subject.chars().filter(|c| c.is_alphabetic());
        // Scripts without case are neither.
        let lower = letters().filter(|c| c.is_lowercase()).count();
        let upper = letters().filter(|c| c.is_uppercase()).count();
        if upper >= CAPITALS_LETTERS_MIN && lower * 20 <= upper && subject.trim().contains(' ') {
            findings.add(&self.subject_capitals, field_evidence(field));
        }
        let mut run = 0;
        for word in subject.split_whitespace() {
            let mut letters = word.chars().filter(|c| c.is_alphanumeric());
            let single =
                letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
            run = if single { run + 1 } else { 0 };
            if run >= GAPPED_LETTERS_MIN {
                findings.add(&self.subject_gapped, field_evidence(field));
                return;
            }
        }
    }
}

impl Filter for HeaderForm {
    fn name(&self) -> &'static str {
        "header_form"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        // What is no message at all lacks no field of one; the verdict has a defect that says it.
        if item.message.is_blank() {
            return;
        }
        self.presence(item.message, findings);
        self.from(item.message, findings);
        self.bytes(item.message, findings);
        self.date(item, findings);
        self.message_id(item.message, findings);
        self.subject(item.message, findings);
    }
}

/// When the item came: by the connection's clock, else by the topmost Received field that has a
/// date.
fn received_at(item: &Item<'_>) -> Option<i64> {
    if item.envelope.client_ip.is_some() && item.envelope.received_at != 0 {
        return Some(item.envelope.received_at);
    }
    let field = item.message.header("received")?.unfolded();
    let semicolon = memchr::memrchr(b';', &field)?;
    date::parse(&field[semicolon + 1..])
}

/// Evidence that is a field's whole value.
pub(crate) fn field_evidence(field: &Header<'_>) -> Evidence {
    let value: Cow<'_, str> = field.decoded();
    Evidence::new(View::Header, 0, 0, value.as_bytes()).named(&field.name_str())
}

fn absent(name: &str) -> Evidence {
    Evidence::new(View::Header, 0, 0, b"").named(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    const GOOD: &str = "Received: from a.example by b.example; Sat, 21 Nov 2026 10:00:05 +0000\n\
        From: Ann <ann@a.example>\nTo: bob@b.example\nSubject: Lunch on Friday?\n\
        Date: Sat, 21 Nov 2026 10:00:00 +0000\nMessage-ID: <1.2@a.example>\n\nHi Bob\n";

    fn found(mail: &str) -> Vec<String> {
        hits(&HeaderForm::new(&mut RuleRegistry::default()), mail)
    }

    #[test]
    fn a_well_formed_header_hits_nothing() {
        assert!(found(GOOD).is_empty());
    }

    #[test]
    fn missing_fields() {
        let rules = ["FROM", "DATE", "TO", "SUBJECT", "MESSAGE_ID"];
        assert_eq!(found("X-A: b\n\nhello\n"), rules.map(|r| format!("HEADER_NO_{r}")));
        assert!(found("").is_empty() && found("\r\n").is_empty());
    }

    #[test]
    fn each_oddity_alone() {
        let cases = [
            ("From: Ann <ann@a.example>", "From: Ann", "FROM_NOT_ADDRESS"),
            ("From: Ann <ann@a.example>", "From: Ann, Arc <ann@a.example>", "FROM_BARE_NAME"),
            ("To: bob", "Subject: other\nTo: bob", "HEADER_REPEATED"),
            ("To: bob", "From: x@y.example\nTo: bob", "HEADER_TWO_FROM"),
            ("Date: Sat, 21", "Date: Sun, 29", "DATE_FUTURE"),
            ("Date: Sat, 21", "Date: Sun, 1", "DATE_PAST"),
            ("Date: Sat, 21", "Date: Soon, 99", "DATE_INVALID"),
            ("<1.2@a.example>", "1.2@a.example", "MESSAGE_ID_FORM"),
            ("1.2@a.example>", "1.2@localhost>", "MESSAGE_ID_HOST"),
            ("Lunch on Friday?", "CHEAP MEDICINE HERE NOW", "SUBJECT_CAPITALS"),
            ("Lunch on Friday?", "v i a g r a for you", "SUBJECT_GAPPED"),
            ("Lunch", "Lun\0ch", "HEADER_NUL"),
        ];
        for (from, to, rule) in cases {
            assert_eq!(found(&GOOD.replacen(from, to, 1)), [rule], "{to}");
        }
    }
}
