//! Records of the message log: a message with its facts, verdict, dispositions and deliveries.

use std::time::Instant;

use gauntlet_mail::{Envelope, Facts};
use gauntlet_verdict::{Disposition, Verdict};
use serde::{Deserialize, Serialize};

/// Delivery status of a message for one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// In the queue, waiting for its first or next attempt.
    #[default]
    Queued,
    /// Accepted by the next hop, or stored in the Maildir.
    Delivered,
    /// Held in the quarantine, or for a reviewer.
    Quarantined,
    /// Failed permanently: rejected by the next hop, or expired.
    Failed,
    /// Discarded, as the policy said.
    Discarded,
    /// Rejected in the SMTP session.
    Rejected,
    /// Removed from the queue by an administrator.
    Deleted,
    /// Handed over to another node of the array, whose log says what became of it.
    Moved,
}

impl Outcome {
    /// Whether the delivery is over.
    pub fn is_final(self) -> bool {
        self != Outcome::Queued
    }

    /// All outcomes.
    pub const ALL: [Outcome; 8] = [
        Outcome::Queued,
        Outcome::Delivered,
        Outcome::Quarantined,
        Outcome::Failed,
        Outcome::Discarded,
        Outcome::Rejected,
        Outcome::Deleted,
        Outcome::Moved,
    ];

    /// The outcome of this name; [`Outcome::Queued`] if there is none.
    pub fn parse(name: &str) -> Self {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name).unwrap_or_default()
    }

    /// Their names, in the order of [`Outcome::ALL`].
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Name in logs and pages: `queued`, `delivered`, ...
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Queued => "queued",
            Outcome::Delivered => "delivered",
            Outcome::Quarantined => "quarantined",
            Outcome::Failed => "failed",
            Outcome::Discarded => "discarded",
            Outcome::Rejected => "rejected",
            Outcome::Deleted => "deleted",
            Outcome::Moved => "moved",
        }
    }
}

/// Delivery of a message to one address (a recipient, or one that a redirect or copy names).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Delivery {
    /// The address the message goes to.
    pub address: String,
    /// Status of the delivery.
    pub outcome: Outcome,
    /// Unix time in milliseconds of the last change.
    pub at_ms: i64,
    /// Delivery attempts so far.
    pub attempts: u32,
    /// Destination: `host:port` of the next hop, `maildir`, a folder of the quarantine.
    pub next_hop: String,
    /// Last reply of the next hop, or the reason of a failure; one line.
    pub reply: String,
}

/// Everything that is kept about a message. About 1 KB; bodies are elsewhere.
///
/// A record is written when the message is accepted or rejected, and again, under the same `id`,
/// whenever a delivery changes: later deliveries replace earlier ones; the first dispositions stay.
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
    /// The From field, decoded.
    pub from: String,
    /// Decoded Subject, at most 200 bytes.
    pub subject: String,
    /// Message-ID field, without angle brackets.
    pub message_id: String,
    /// Facts of network lookups.
    pub facts: Facts,
    /// The verdict of the engine.
    pub verdict: Verdict,
    /// The decisions of the policy, one for each accepted recipient.
    pub dispositions: Vec<Disposition>,
    /// Deliveries, one for each address; all final when the message is done.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
    /// Milliseconds from the first byte of DATA to the answer the client got.
    pub latency_ms: u32,
    /// Processing stages until the message was logged, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
}

impl LogRecord {
    /// Whether it came from somebody and was judged, which a release and the node's own mail were
    /// not. Of builds that did not note it: always.
    pub fn is_received(&self) -> bool {
        !self.stages.first().is_some_and(|stage| [RELEASED, MADE_HERE].contains(&&*stage.name))
    }
}

/// Name of the first stage of a message that was released from the quarantine.
pub const RELEASED: &str = "released";
/// Name of the first stage of the node's own mail.
pub const MADE_HERE: &str = "made here";

/// A completed processing stage of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Name of the stage: `received` (the body is complete), `waited` (a scan thread took it),
    /// `scanned`, `decided`, `spooled` (it is durable), `passed on` (the next hop replied). Of what
    /// nobody judged `released` (from the quarantine) or `made here` (the node's own mail).
    pub name: String,
    /// Microseconds from `received_ms` to the end of the stage.
    pub at_us: u64,
    /// What a reader should know beside the time; empty for most stages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Stage {
    /// A stage that ends now, of a message whose processing began at `began`.
    pub fn now(name: &str, began: Instant) -> Self {
        let at_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        Stage { name: name.to_owned(), at_us, detail: String::new() }
    }
}

/// An event after a message was logged: a delivery attempt, a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Id of the message.
    pub id: String,
    /// Time of reception of the message, which locates it in the log.
    pub received_ms: i64,
    /// Unix time in milliseconds of the event.
    pub at_ms: i64,
    /// `delivered`, `deferred`, `bounced` (failed, and the sender gets a report), `failed` (nobody
    /// gets one), `released`, `deleted`, `corrected`. One word; searches find messages by it.
    pub kind: String,
    /// The recipient concerned; empty for all.
    pub recipient: String,
    /// The next hop's reply, who caused the event, or why.
    pub detail: String,
}
