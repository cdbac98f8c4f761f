//! One line of the message log: a message, all that was known, and what became of it.

use gauntlet_engine::Verdict;
use gauntlet_mail::{Envelope, Facts};
use gauntlet_policy::Disposition;
use serde::{Deserialize, Serialize};

/// Everything that is kept about a message after it left. About 1 KB; bodies are elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// What was done, one for each accepted recipient.
    pub dispositions: Vec<Disposition>,
    /// Milliseconds from the first byte of DATA to the last disposition.
    pub latency_ms: u32,
}
