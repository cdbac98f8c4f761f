//! What judges a message: one snapshot and one policy, swapped together (design invariant 4).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::scan::probes::{Probes, Scanned, end_in_trap};
use crate::scan::shadow::{Sample, Shadow};
use bytes::Bytes;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::{Learned, Scratch, Snapshot, scan};
use gauntlet_mail::{Direction, Envelope, Facts, Limits, Message};
use gauntlet_policy::{Policy, PolicyInput, Rates};
use gauntlet_smtp::text::truncate;
use gauntlet_store::LogRecord;
use gauntlet_store::record::Stage;

use crate::facts::rules::CachedViews;
use crate::scan::data_loss::DataLossPrevention;
use crate::scan::unpacking::{Unpacking, is_ambiguous};
use gauntlet_verdict::{FilterCost, Verdict};

/// Longest subject in the log, in bytes.
const SUBJECT_BYTES_MAX: usize = 200;
/// Longest From and Message-ID in the log, in bytes.
const FIELD_BYTES_MAX: usize = 320;

/// Objects of one message in the log, without their texts.
const OBJECTS_MAX: usize = 64;
/// Answers of one look-up in the log, and bytes of each.
const ANSWERS_MAX: usize = 2;
const ANSWER_BYTES_MAX: usize = 48;

/// A message to be judged.
#[derive(Debug)]
pub struct Work {
    /// Id of the message, as log and Received field have it.
    pub id: String,
    /// The message with our Received field.
    pub raw: Bytes,
    /// What the connection said.
    pub envelope: Envelope,
    /// What the network said.
    pub facts: Facts,
    /// What is known already of the message's text.
    pub text: CachedViews,
    /// How busy sender, client and recipients were.
    pub rates: Rates,
    /// How long unpacking its files took; none before it was done, or if it has none.
    pub unpacked: Option<Duration>,
    /// Unix time in milliseconds.
    pub received_ms: i64,
    /// The same on the other clock.
    pub began: Instant,
    /// It came to a listener for traps: nobody gets it.
    pub is_trap: bool,
}

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
    /// What opens attachments; none leaves them closed.
    pub unpacking: Option<Arc<Unpacking>>,
    /// What looks for data where the policy asks.
    pub data_loss: Arc<DataLossPrevention>,
    /// A version of rules that is tried on a share of the mail.
    pub shadow: Shadow,
}

impl AsRef<Policy> for Judge {
    fn as_ref(&self) -> &Policy {
        &self.policy
    }
}

impl Judge {
    /// The same judge, having learned this.
    #[must_use]
    pub fn with_learned(&self, learned: Learned) -> Self {
        self.with(self.snapshot.clone().with_learned(learned), self.policy.clone())
    }

    /// The same judge with this known mail of channels.
    #[must_use]
    pub fn with_published(&self, published: Vec<Arc<KnownSignatures>>) -> Self {
        self.with(self.snapshot.clone().with_published(published), self.policy.clone())
    }

    /// The same judge with another policy.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Self {
        self.with(self.snapshot.clone(), policy)
    }

    fn with(&self, snapshot: Snapshot, policy: Policy) -> Self {
        Judge {
            snapshot,
            policy,
            limits: self.limits,
            probes: self.probes.clone(),
            scans: self.scans,
            unpacking: self.unpacking.clone(),
            data_loss: self.data_loss.clone(),
            shadow: self.shadow.clone(),
        }
    }

    /// Whether mail that goes this way is looked through for data.
    pub(crate) fn looks_for_data(&self, direction: Direction) -> bool {
        self.data_loss.is_always() || self.policy.asks_data_loss(direction)
    }

    /// Judges a message: its line of the log, with the dispositions. Deterministic but for
    /// costs and times.
    pub fn judge(&self, work: &Work, scratch: &mut Scratch) -> LogRecord {
        let message = Message::parse_with(&work.raw, &self.limits);
        let scanned = self.scan(work, &message, scratch);
        self.decide(work, &message, scanned, scratch)
    }

    /// The same; none if the message has files that are to be unpacked before it is judged.
    pub(crate) fn judge_unpacked(&self, work: &Work, scratch: &mut Scratch) -> Option<LogRecord> {
        let message = Message::parse_with(&work.raw, &self.limits);
        let reads = || self.scans || self.looks_for_data(work.envelope.direction);
        let unpacking = self.unpacking.as_ref().filter(|_| work.unpacked.is_none());
        if unpacking.is_some_and(|unpacking| reads() && unpacking.wants(&message)) {
            return None;
        }
        let scanned = self.scan(work, &message, scratch);
        // Rare enough to be scanned twice: that a message is ambiguous is known only now.
        if unpacking.is_some() && self.scans && is_ambiguous(&scanned.0.defects) {
            return None;
        }
        Some(self.decide(work, &message, scanned, scratch))
    }

    fn scan(
        &self,
        work: &Work,
        message: &Message<'_>,
        scratch: &mut Scratch,
    ) -> (Verdict, Vec<Stage>) {
        let stages = vec![Stage::now("waited", work.began)];
        let verdict = match self.scans {
            true => scan(message, &work.envelope, &work.facts, &self.snapshot, scratch),
            false => Verdict::default(),
        };
        (verdict, stages)
    }

    /// Hands the message to what learns of it, and to a version that is tried.
    fn notice(&self, work: &Work, message: &Message<'_>, verdict: &Verdict, scratch: &mut Scratch) {
        let Work { id, raw, envelope, facts, received_ms, is_trap, .. } = work;
        let (received_ms, is_trap) = (*received_ms, *is_trap);
        if let Some(probes) = &self.probes {
            probes.notice(
                message,
                Scanned { envelope, facts, verdict, received_ms, is_trap },
                scratch,
            );
        }
        if self.scans {
            self.shadow.notice(raw.len(), || Sample {
                id: id.clone(),
                raw: raw.clone(),
                envelope: envelope.clone(),
                facts: facts.clone(),
                verdict: verdict.clone(),
                limits: self.limits,
            });
        }
    }

    fn decide(
        &self,
        work: &Work,
        message: &Message<'_>,
        (mut verdict, mut stages): (Verdict, Vec<Stage>),
        scratch: &mut Scratch,
    ) -> LogRecord {
        let Work { id, raw, envelope, facts, rates, received_ms, began, unpacked, is_trap, .. } =
            work;
        if let Some(took) = unpacked {
            let micros = took.as_secs_f32() * 1e6;
            verdict.costs.push(FilterCost { filter: "unpacking".into(), micros });
        }
        stages.push(Stage::now("scanned", *began));
        let looks = self.looks_for_data(envelope.direction);
        let data = looks.then(|| self.data_loss.look(message, facts, &mut verdict));
        let (received_ms, is_trap) = (*received_ms, *is_trap);
        self.notice(work, message, &verdict, scratch);
        let mut dispositions = self.policy.decide(&PolicyInput {
            id,
            message,
            envelope,
            facts,
            verdict: &verdict,
            thresholds: &self.snapshot.thresholds,
            rates,
        });
        end_in_trap(self.probes.as_ref(), is_trap, &mut dispositions);
        stages.push(Stage::now("decided", *began));
        let message_id = message.header("Message-ID").map(|h| h.decoded().into_owned());
        // What is masked must not be cut before: half a value is no value.
        let shortened = |text: &str, bytes_max: usize| {
            let text = data.as_ref().map_or(Cow::Borrowed(text), |data| data.masked(text));
            truncate(&text, bytes_max).to_owned()
        };
        let mut record = LogRecord {
            id: id.clone(),
            received_ms,
            size: raw.len() as u64,
            from: message
                .header("From")
                .map(|h| shortened(&h.decoded(), FIELD_BYTES_MAX))
                .unwrap_or_default(),
            subject: shortened(&message.subject(), SUBJECT_BYTES_MAX),
            message_id: shortened(
                message_id.unwrap_or_default().trim().trim_matches(['<', '>']),
                FIELD_BYTES_MAX,
            ),
            envelope: envelope.clone(),
            facts: kept(facts),
            verdict,
            dispositions,
            stages,
            ..LogRecord::default()
        };
        if let Some(data) = &data {
            data.mask(&mut record);
        }
        record
    }
}

/// What the log keeps of the facts: all but look-ups that were answered from the cache, which no
/// verdict reads. They are on the line of the message that asked the network first; without them, a
/// line stays small.
pub fn kept(facts: &Facts) -> Facts {
    let content = facts.content.summary(OBJECTS_MAX);
    let mut facts = Facts { content, ..facts.clone() };
    facts.lookups.retain(|l| !l.cached);
    for lookup in &mut facts.lookups {
        lookup.answers.truncate(ANSWERS_MAX);
        for answer in &mut lookup.answers {
            *answer = truncate(answer, ANSWER_BYTES_MAX).to_owned();
        }
    }
    facts
}
