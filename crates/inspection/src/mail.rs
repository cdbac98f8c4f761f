//! Messages: envelope and verdict.

use std::time::Instant;

use gauntlet_ids::pipeline::observer::MailEvent;
use gauntlet_mail::{Direction, Envelope};
use gauntlet_protocols::mail::{Mail, MailEnd};
use gauntlet_verdict::{Class, Verdict};
use serde_json::{Value, json};

use crate::action::Item;
use crate::settings::Settings;

/// Judges messages.
pub trait JudgeMail: Send {
    /// Judges a message by what its connection says of it.
    ///
    /// # Errors
    /// Why there is no verdict.
    fn judge(&mut self, raw: &[u8], envelope: &Envelope) -> Result<Verdict, String>;
}

/// Judges a message that was carried.
pub(crate) fn look(event: &MailEvent<'_>, judge: &mut dyn JudgeMail, settings: &Settings) -> Item {
    let mail = event.mail;
    let envelope = envelope(event);
    let begun = Instant::now();
    let judged = judge.judge(&mail.bytes, &envelope);
    let cost_us = begun.elapsed().as_secs_f64() * 1e6;
    let mut fields = json!({
        "kind": "mail",
        "envelope": {
            "client_ip": envelope.client_ip,
            "helo": envelope.helo,
            "mail_from": envelope.mail_from,
            "rcpt_to": envelope.rcpt_to,
            "auth_user": envelope.auth_user,
        },
        "bytes": mail.size,
        "end": mail.end.name(),
        "cost_us": (cost_us * 10.0).round() / 10.0,
    });
    let class = match judged {
        Ok(verdict) => {
            let class = class(verdict.class, mail);
            describe(&verdict, class, &mut fields);
            class
        }
        Err(error) => {
            fields["error"] = error.into();
            Class::Unscannable
        }
    };
    fields["class"] = class.name().into();
    if mail.has_other_end {
        fields["other_end"] = true.into();
    }
    Item::new(mail.protocol, fields, settings.drops(class))
}

/// What was not seen whole is unscannable, unless the worst is known of it already, as the engine
/// has it of what a message hides.
fn class(judged: Class, mail: &Mail) -> Class {
    let is_seen = mail.end == MailEnd::Whole && !mail.has_other_end;
    if is_seen || judged >= Class::Phishing { judged } else { Class::Unscannable }
}

fn describe(verdict: &Verdict, class: Class, fields: &mut Value) {
    fields["score"] = verdict.score.into();
    fields["probability"] = verdict.probability.into();
    fields["ruleset"] = (*verdict.ruleset).into();
    // Types of ours, which are written into the message log, too.
    fields["hits"] = serde_json::to_value(&verdict.hits).unwrap_or_default();
    fields["defects"] = serde_json::to_value(&verdict.defects).unwrap_or_default();
    if !verdict.url_lists.is_empty() {
        fields["url_lists"] = serde_json::to_value(&verdict.url_lists).unwrap_or_default();
    }
    if class != verdict.class {
        fields["judged"] = verdict.class.name().into();
    }
}

/// What the connection says. Of POP3 and IMAP nothing is known but the message: who fetches it is
/// not who sent it.
fn envelope(event: &MailEvent<'_>) -> Envelope {
    use gauntlet_packet::Direction::ToServer;
    use gauntlet_protocols::Protocol;
    let mail = event.mail;
    let said = &mail.envelope;
    let is_sent = mail.direction == ToServer && mail.protocol == Protocol::Smtp;
    Envelope {
        direction: match said.auth_user {
            Some(_) => Direction::Outbound,
            None => Direction::Inbound,
        },
        client_ip: is_sent.then(|| event.core.client().address),
        helo: said.helo.clone(),
        mail_from: said.mail_from.clone(),
        rcpt_to: said.rcpt_to.clone(),
        auth_user: said.auth_user.clone(),
        received_at: event.time.seconds,
        ..Envelope::default()
    }
}
