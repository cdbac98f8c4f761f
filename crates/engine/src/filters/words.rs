//! Weighted words: every occurrence adds its weight, and the sum is compared with thresholds.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `WORDS_SOME` | 1.0 | words that unwanted mail likes; one good message in a hundred has them |
//! | `WORDS_MANY` | 2.2 | one in three hundred does |
//! | `WORDS_MOST` | 3.5 | one in a thousand does |
//!
//! The weight of a word is the log odds of its probability (`data/words.tsv`, fitted by
//! `examples/fit_words.rs`), and the sum is divided by the square root of the text's length, so
//! that a long text is not suspicious for being long.
//!
//! It runs where the classifier is switched off: beside it, it caught nothing more, and called good
//! mail of unseen senders spam (`docs/decisions/213-accuracy-on-mail-of-today.md`).
//!
//! Limits: the first [`TEXT_BYTES_MAX`] bytes of all texts together; [`OCCURRENCES_MAX`]
//! occurrences of a word count; all words of good mail together take at most [`GOOD_SHARE_MAX`] of
//! what the others give, so that padding with good words does not help a spammer out.

use std::ops::Range;

use gauntlet_mail::{Evidence, Message, View};

use crate::filter::{Filter, Findings, Item};
use crate::lexicon::Lexicon;
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::{Scratch, WordCounts};

/// Bytes of text that are read.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Occurrences of one word that count.
pub const OCCURRENCES_MAX: u8 = 3;
/// Share of the unwanted words' sum that good words can take away.
pub const GOOD_SHARE_MAX: f64 = 0.5;
/// Words of a text that is as long as texts usually are: shorter ones are not scaled up.
const USUAL_WORDS: f64 = 100.0;
/// Places kept for evidence until the heaviest are known.
const MATCHES_MAX: usize = 64;

/// Sums from which the rules hit. `examples/fit_words.rs` prints them.
const THRESHOLDS: [f64; 3] = [4.7, 9.7, 17.0];

/// Adds up the weights of words.
#[derive(Debug)]
pub struct Words {
    lexicon: Lexicon,
    rules: [Rule; 3],
}

/// A word that counted, and where.
#[derive(Debug)]
struct WordMatch {
    weight: f64,
    view: View,
    part: u16,
    range: Range<usize>,
}

/// What the words of a message come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sum {
    /// Weights of words of unwanted mail.
    pub bad: f64,
    /// Weights of words of good mail, negative.
    pub good: f64,
    /// Occurrences counted in `bad`.
    pub occurrences: u32,
    /// Words of the text.
    pub words: usize,
}

impl Sum {
    /// What is compared with the thresholds.
    pub fn value(&self) -> f64 {
        let sum = self.bad + self.good.max(-self.bad * GOOD_SHARE_MAX);
        sum / (self.words as f64 / USUAL_WORDS).max(1.0).sqrt()
    }
}

impl Words {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry, lexicon: Lexicon) -> Self {
        let mut rule = |name, score, description| registry.points(name, score, description);
        Words {
            lexicon,
            rules: [
                rule("WORDS_SOME", 1.0, "Contains typical words of spam"),
                rule("WORDS_MANY", 2.2, "Contains many typical words of spam"),
                rule("WORDS_MOST", 3.5, "Consists of typical words of spam"),
            ],
        }
    }

    /// Adds up the words of the message; the heaviest matches of unwanted ones first.
    fn add_up(&self, message: &Message<'_>, counts: &mut WordCounts) -> (Sum, Vec<WordMatch>) {
        let mut sum = Sum { bad: 0.0, good: 0.0, occurrences: 0, words: 0 };
        let mut matches = Vec::new();
        counts.seen.resize(self.lexicon.words().len(), 0);
        let mut room = TEXT_BYTES_MAX;
        let subject = message.subject();
        let texts = message.texts().map(|t| (View::Text, t.index, t.text));
        for (view, part, text) in [(View::Header, 0, &*subject)].into_iter().chain(texts) {
            let text = head(text, room);
            room -= text.len();
            let found = |word: usize, range: Range<usize>| {
                let Some(seen) = counts.seen.get_mut(word) else { return };
                if *seen >= OCCURRENCES_MAX {
                    return;
                }
                if *seen == 0 {
                    counts.touched.push(word);
                }
                *seen += 1;
                let weight = self.lexicon.words()[word].weight;
                if weight < 0.0 {
                    sum.good += weight;
                    return;
                }
                sum.bad += weight;
                sum.occurrences += 1;
                let first = *seen == 1;
                if first && matches.len() < MATCHES_MAX {
                    matches.push(WordMatch { weight, view, part, range });
                }
            };
            sum.words += self.lexicon.find(text, found);
        }
        for word in counts.touched.drain(..) {
            counts.seen[word] = 0;
        }
        // Stable: matches of one weight stay in the order of the text.
        matches.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        (sum, matches)
    }

    /// What the words of the message come to; for fitting and measuring.
    pub fn sum(&self, message: &Message<'_>) -> Sum {
        self.add_up(message, &mut WordCounts::default()).0
    }
}

/// The first `max` bytes, cut at a character.
fn head(text: &str, max: usize) -> &str {
    let end = (0..=text.len().min(max)).rev().find(|&i| text.is_char_boundary(i));
    &text[..end.unwrap_or(0)]
}

impl Filter for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        let (sum, matches) = self.add_up(item.message, &mut scratch.words);
        let value = sum.value();
        let reached = THRESHOLDS.iter().zip(&self.rules).rev().find(|(t, _)| value >= **t);
        let Some((_, rule)) = reached else { return };
        let subject = item.message.subject();
        for found in matches.iter().take(gauntlet_mail::evidence::EVIDENCE_PER_HIT_MAX) {
            let text = match found.view {
                View::Header => Some(&*subject),
                _ => item.message.parts()[usize::from(found.part)].shown_text(),
            };
            let matched = text.and_then(|t| t.get(found.range.clone())).unwrap_or_default();
            let at = Evidence::new(found.view, found.part, found.range.start, matched.as_bytes());
            let at = if found.view == View::Header { at.named("Subject") } else { at };
            findings.add(rule, at);
        }
        if let Some(hit) = findings.hits.iter_mut().find(|h| h.rule == rule.name) {
            hit.count = sum.occurrences;
        }
    }

    fn data_version(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for word in self.lexicon.words() {
            hash.update(word.text.as_bytes()).update(&word.probability.to_le_bytes());
        }
        hash.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{find, hits};
    use gauntlet_mail::Envelope;

    fn filter() -> Words {
        let list = "cheap\t0.9\npills\t0.9\nno prescription\t0.98\nregards\t0.05\n";
        Words::new(&mut RuleRegistry::default(), Lexicon::parse(list).unwrap())
    }

    #[test]
    fn the_sum_decides() {
        let heavy = "Cheap pills, no prescription! Pills, cheap pills, no prescription, cheap, \
            no prescription";
        let mail = |text: &str| format!("Subject: Pills\n\n{text}\n");
        assert_eq!(hits(&filter(), &mail(heavy)), ["WORDS_MOST"]);
        assert!(hits(&filter(), &mail("The doctor says: two a day.")).is_empty());
        let found = find(&filter(), &mail(heavy), &Envelope::default());
        assert_eq!(found.hits[0].evidence[0].text, "no prescription");
        assert_eq!(found.hits[0].count, 9, "three of each count");
    }

    #[test]
    fn good_words_take_away_half_at_most() {
        let padded =
            format!("Subject: x\n\n{}{}\n", "cheap pills ".repeat(3), "regards ".repeat(9));
        let message = Message::parse(padded.as_bytes());
        let sum = filter().sum(&message);
        assert!(sum.good < -8.0);
        assert!((sum.value() - sum.bad / 2.0).abs() < 1e-9);
    }
}
