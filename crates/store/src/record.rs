//! One line of the message log: a message, all that was known, and what became of it.

use std::time::Instant;

use gauntlet_engine::Verdict;
use gauntlet_mail::{Envelope, Facts};
use gauntlet_policy::Disposition;
use serde::{Deserialize, Serialize};

/// How far a message is on its way to one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// In the queue, waiting for its first or next attempt.
    #[default]
    Queued,
    /// The next hop took it, or it is in the Maildir.
    Delivered,
    /// Kept in the quarantine, or held for a reviewer.
    Quarantined,
    /// Given up: refused for good by the next hop, or too old.
    Failed,
    /// Dropped, as the policy said.
    Discarded,
    /// Refused within the SMTP session.
    Rejected,
    /// Taken out of the queue by an administrator.
    Deleted,
}

impl Outcome {
    /// Nothing more will happen to the message at this address.
    pub fn is_final(self) -> bool {
        self != Outcome::Queued
    }

    /// The outcome of this name; [`Outcome::Queued`] if there is none.
    pub fn parse(name: &str) -> Self {
        let finals = [
            Outcome::Delivered,
            Outcome::Quarantined,
            Outcome::Failed,
            Outcome::Discarded,
            Outcome::Rejected,
            Outcome::Deleted,
        ];
        finals.into_iter().find(|o| o.name() == name).unwrap_or_default()
    }

    /// Name in logs and pages: `queued`, `delivered`, ...
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Queued => "queued",
            Outcome::Delivered => "delivered",
            Outcome::Quarantined => "quarantined",
            Outcome::Failed => "failed",
            Outcome::Discarded => "discarded",
            Outcome::Rejected => "rejected",
            Outcome::Deleted => "deleted",
        }
    }
}

/// What became of a message at one address (a recipient, or one that a redirect or copy names).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Delivery {
    /// The address the message goes to.
    pub address: String,
    /// How far it is.
    pub outcome: Outcome,
    /// Unix time in milliseconds of the last change.
    pub at_ms: i64,
    /// Attempts made so far.
    pub attempts: u32,
    /// Where it went: `host:port` of the next hop, `maildir`, a folder of the quarantine.
    pub next_hop: String,
    /// Last answer of the next hop, or the reason of a failure; one line.
    pub reply: String,
}

/// Everything that is kept about a message after it left. About 1 KB; bodies are elsewhere.
///
/// A record is written when the message is accepted or refused, and again, under the same `id`,
/// whenever a delivery changes: the later deliveries replace the earlier; the dispositions logged first stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LogRecord {
    /// The message's id on this node: also the reference code that replies carry.
    pub id: String,
    /// Unix time in milliseconds at which it was received.
    pub received_ms: i64,
    /// Client, HELO, sender, recipients.
    pub envelope: Envelope,
    /// Bytes of the message as received.
    pub size: u64,
    /// Decoded From field.
    pub from: String,
    /// Decoded Subject, at most 200 bytes.
    pub subject: String,
    /// Message-ID field, without angle brackets.
    pub message_id: String,
    /// What the network said.
    pub facts: Facts,
    /// What the engine said.
    pub verdict: Verdict,
    /// What the policy said, one for each accepted recipient.
    pub dispositions: Vec<Disposition>,
    /// What became of it, one for each address it goes to; all final when the message is done.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
    /// Milliseconds from the first byte of DATA to the answer the client got.
    pub latency_ms: u32,
    /// The message's life until it was logged, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
}

/// A stage of a message's life that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// What has happened by then: `received` (the body is complete), `waited` (a scan thread took
    /// it), `scanned`, `decided`, `spooled` (it is durable), `passed on` (the next hop answered).
    pub name: String,
    /// Microseconds from `received_ms` to the stage's end.
    pub at_us: u64,
    /// A word more; mostly empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Stage {
    /// A stage that ends now, of a message that began at `began`.
    pub fn now(name: &str, began: Instant) -> Self {
        let at_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        Stage { name: name.to_owned(), at_us, detail: String::new() }
    }
}

/// Something that happened to a message after it was logged: a delivery attempt, a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The message's id.
    pub id: String,
    /// When the message was received: finds its place in the log.
    pub received_ms: i64,
    /// Unix time in milliseconds of the event.
    pub at_ms: i64,
    /// `delivered`, `deferred`, `bounced`, `released`, `deleted`, `corrected`. One word; searches
    /// find messages by it.
    pub kind: String,
    /// The recipient concerned; empty for all.
    pub recipient: String,
    /// The next hop's answer, who did it, or why.
    pub detail: String,
}
