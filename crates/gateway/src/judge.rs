//! What judges a message: one snapshot and one policy, swapped together (design invariant 4).

use std::sync::Arc;

use crate::probes::Probes;
use gauntlet_engine::{Learned, Scratch, Snapshot, Verdict, scan};
use gauntlet_mail::{Facts, Limits, Message};
use gauntlet_policy::{Policy, PolicyInput};
use gauntlet_store::LogRecord;
use gauntlet_store::record::Stage;

use crate::scan_pool::Work;

/// Longest subject in the log, in bytes.
const SUBJECT_BYTES_MAX: usize = 200;
/// Longest From and Message-ID in the log, in bytes.
const FIELD_BYTES_MAX: usize = 320;

/// Answers of one look-up in the log, and bytes of each.
const ANSWERS_MAX: usize = 2;
const ANSWER_BYTES_MAX: usize = 48;

/// Snapshot, policy and bounds of one version.
#[derive(Debug)]
pub struct Judge {
    /// Ruleset, model, lists and thresholds.
    pub snapshot: Snapshot,
    /// What is done with mail.
    pub policy: Policy,
    /// Bounds of a message.
    pub limits: Limits,
    /// Accounts whose mail becomes signatures.
    pub probes: Option<Probes>,
    /// Mail is scanned; else all of it is ham.
    pub scans: bool,
}

impl Judge {
    /// The same judge, having learned this.
    #[must_use]
    pub fn with_learned(&self, learned: Learned) -> Self {
        Judge {
            snapshot: self.snapshot.clone().with_learned(learned),
            policy: self.policy.clone(),
            limits: self.limits,
            probes: self.probes.clone(),
            scans: self.scans,
        }
    }

    /// The same judge with another policy.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Self {
        Judge {
            snapshot: self.snapshot.clone(),
            policy,
            limits: self.limits,
            probes: self.probes.clone(),
            scans: self.scans,
        }
    }

    /// Judges a message: its line of the log, with the dispositions. Deterministic but for
    /// costs and times.
    pub fn judge(&self, work: &Work, scratch: &mut Scratch) -> LogRecord {
        let Work { id, raw, envelope, facts, rates, received_ms, began, text: _ } = work;
        let mut stages = vec![Stage::now("waited", *began)];
        let message = Message::parse_with(raw, &self.limits);
        let verdict = match self.scans {
            true => scan(&message, envelope, facts, &self.snapshot, scratch),
            false => Verdict::default(),
        };
        stages.push(Stage::now("scanned", *began));
        if let Some(probes) = &self.probes {
            probes.notice(&message, envelope, *received_ms, scratch);
        }
        let dispositions = self.policy.decide(&PolicyInput {
            id,
            message: &message,
            envelope,
            facts,
            verdict: &verdict,
            thresholds: &self.snapshot.thresholds,
            rates,
        });
        stages.push(Stage::now("decided", *began));
        let message_id = message.header("Message-ID").map(|h| h.decoded().into_owned());
        LogRecord {
            id: id.clone(),
            received_ms: *received_ms,
            size: raw.len() as u64,
            from: message
                .header("From")
                .map(|h| cut(&h.decoded(), FIELD_BYTES_MAX))
                .unwrap_or_default(),
            subject: cut(&message.subject(), SUBJECT_BYTES_MAX),
            message_id: cut(
                message_id.unwrap_or_default().trim().trim_matches(['<', '>']),
                FIELD_BYTES_MAX,
            ),
            envelope: envelope.clone(),
            facts: kept(facts),
            verdict,
            dispositions,
            stages,
            ..LogRecord::default()
        }
    }
}

/// What the log keeps of the facts: all but look-ups that were answered from the cache, which no
/// verdict reads. They are on the line of the message that asked the network first; without them, a
/// line stays small.
pub fn kept(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    facts.lookups.retain(|l| !l.cached);
    for lookup in &mut facts.lookups {
        lookup.answers.truncate(ANSWERS_MAX);
        for answer in &mut lookup.answers {
            *answer = cut(answer, ANSWER_BYTES_MAX);
        }
    }
    facts
}

/// A handle on the judge of the moment; taking one keeps it for an item's whole way.
pub type CurrentJudge = Arc<arc_swap::ArcSwap<Judge>>;

/// The text up to so many bytes, cut at a character.
pub fn cut(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&i| text.is_char_boundary(i));
    text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}
