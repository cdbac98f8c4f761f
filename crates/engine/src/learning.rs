//! From a message, and what somebody says of it, to a correction that is learned from.

use gauntlet_mail::{Envelope, Facts, Message};

use crate::corrections::Correction;
use crate::fusion::{Signals, Weights, log_odds};
use crate::scan::log_odds_as_shipped;
use crate::scratch::Scratch;
use crate::signatures::fingerprint;
use crate::site_model::identities_of;
use crate::snapshot::Snapshot;

/// A message that somebody says something about, with what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Said<'m> {
    /// The message, parsed as the engine reads it.
    pub message: &'m Message<'m>,
    /// The envelope that it came with.
    pub envelope: &'m Envelope,
    /// What the network said when it came.
    pub facts: &'m Facts,
    /// True if it is unwanted, false if it is good mail.
    pub spam: bool,
    /// Hash of who says so; 0 is the administrator.
    pub reporter: u64,
    /// Unix time in seconds.
    pub at: i64,
}

impl Said<'_> {
    /// What is learned from it, beside what the snapshot knows without what the site has learned.
    pub fn correction(&self, snapshot: &Snapshot, scratch: &mut Scratch) -> Correction {
        let Said { message, envelope, facts, spam, reporter, at } = *self;
        let base = log_odds_as_shipped(message, envelope, facts, snapshot, scratch);
        let scratch = &mut scratch.classifier;
        scratch.read(message);
        let (features, ends) = scratch.features();
        let found = fingerprint::of_message(message, scratch);
        Correction {
            spam,
            reporter,
            at,
            base: base as f32,
            features: features.to_vec(),
            ends: ends.map(|e| e as u16),
            identities: identities_of(message, envelope, facts),
            fingerprints: found.into_iter().map(|f| f.fingerprint).collect(),
        }
    }
}

/// The log odds of a message of which only those of the shipped classifier are known: what earlier
/// builds wrote down.
pub fn base_of_classifier(logit: f32) -> f32 {
    let signals = Signals { classifier: Some(f64::from(logit)), ..Signals::default() };
    log_odds(&signals, &Weights::default()).map_or(logit, |odds| odds as f32)
}
