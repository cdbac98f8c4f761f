//! Buffers of a scan thread.

use std::sync::Arc;

use gauntlet_mail::Message;

use crate::classifier::ClassifierScratch;
use crate::signatures::fingerprint::{self, Found};

/// Buffers of one scan thread, reused from item to item.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Of the filter [`crate::filters::rules::Rules`].
    pub(crate) rules: gauntlet_rules::RulesScratch,
    /// Of the filter [`crate::filters::spamassassin::SpamAssassin`].
    pub(crate) spamassassin: gauntlet_spamassassin::RulesScratch,
    /// Of the filter [`crate::filters::classifier::Classifier`].
    pub(crate) classifier: ClassifierScratch,
    /// Of the filter [`crate::filters::words::Words`].
    pub(crate) words: WordCounts,
}

impl Scratch {
    /// What is known already of the text of the item that is scanned next; none forgets what was
    /// given before. Verdicts are the same with it and without.
    pub fn give(&mut self, text: Option<(Arc<str>, gauntlet_spamassassin::TextViews)>) {
        self.spamassassin.give(text);
    }

    /// Every fingerprint of a message, whether or not it was the last that was scanned.
    pub fn fingerprints(&mut self, message: &Message<'_>) -> Vec<Found> {
        self.classifier.read(message);
        fingerprint::of_message(message, &self.classifier)
    }
}

/// How often the words of the lexicon occurred in one message.
#[derive(Debug, Default)]
pub(crate) struct WordCounts {
    /// How often each word of the lexicon occurred, by its index there.
    pub(crate) seen: Vec<u8>,
    /// Indices of the words that occurred, so that only these counts are set back to 0.
    pub(crate) touched: Vec<usize>,
}
