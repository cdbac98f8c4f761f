//! Dictionaries: words and phrases with weights, added up over a text or within a span of words.
//!
//! ```text
//! # Comments and empty lines are left out. Without a weight a phrase counts 1.
//! project heron = 5
//! acquisition
//! due diligence = 2.5
//! ```

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use crate::words::{Word, words};

/// Phrases of one dictionary.
const PHRASES_MAX: usize = 100_000;
/// Words of one phrase.
const PHRASE_WORDS_MAX: usize = 32;

/// What is wrong with a dictionary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DictionaryError {
    /// A weight that is no number above 0.
    #[error(
        "line {line}: {text:?} is no weight; write a number above 0 behind the last =, or none"
    )]
    Weight {
        /// Line of the file, from 1.
        line: usize,
        /// What stands in the place of a weight.
        text: String,
    },
    /// A phrase without letters and digits, or with too many words.
    #[error("line {line}: a phrase has 1 to {PHRASE_WORDS_MAX} words of letters and digits")]
    Phrase {
        /// Line of the file, from 1.
        line: usize,
    },
    /// More phrases than are read.
    #[error("line {line}: more than {PHRASES_MAX} phrases")]
    TooMany {
        /// Line of the file, from 1.
        line: usize,
    },
    /// A file without a single phrase.
    #[error("no phrase in it; write one a line")]
    Empty,
}

#[derive(Debug)]
struct Phrase {
    words: Vec<u64>,
    weight: f64,
}

/// Words and phrases that together say something of a text.
#[derive(Debug)]
pub struct Dictionary {
    name: String,
    threshold: f64,
    within_words: Option<usize>,
    phrases: Vec<Phrase>,
    by_first_word: HashMap<u64, Vec<usize>, FixedState>,
}

/// What a text has of a dictionary.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Score {
    /// Sum of the weights: of a message's texts together, or of the best span of words.
    pub(crate) points: f64,
    /// Place and bytes of each phrase that counts, the first time it occurs: text, begin, end.
    pub(crate) phrases: BTreeMap<usize, (usize, usize, usize)>,
}

/// An occurrence: which phrase, index of its first word, bytes.
#[derive(Debug, Clone, Copy)]
struct Occurrence {
    phrase: usize,
    word: usize,
    bytes: (usize, usize),
}

impl Dictionary {
    /// Reads a dictionary. It is found in a message whose phrases weigh `threshold` together, each
    /// counted once; with `within_words`, those that begin within so many words of each other.
    ///
    /// # Errors
    /// [`DictionaryError`] names the line.
    pub fn parse(
        name: &str,
        text: &str,
        threshold: f64,
        within_words: Option<usize>,
    ) -> Result<Self, DictionaryError> {
        let mut phrases: Vec<Phrase> = Vec::new();
        let mut by_first_word: HashMap<u64, Vec<usize>, FixedState> = HashMap::default();
        for (line, entry) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            let (phrase, weight) = match entry.rsplit_once('=') {
                Some((phrase, weight)) => (phrase, weight_of(weight.trim(), line)?),
                None => (entry, 1.0),
            };
            let hashes: Vec<u64> = words(phrase).iter().map(|w| w.hash).collect();
            let first = match hashes[..] {
                [first, ..] if hashes.len() <= PHRASE_WORDS_MAX => first,
                _ => return Err(DictionaryError::Phrase { line }),
            };
            if phrases.len() == PHRASES_MAX {
                return Err(DictionaryError::TooMany { line });
            }
            by_first_word.entry(first).or_default().push(phrases.len());
            phrases.push(Phrase { words: hashes, weight });
        }
        if phrases.is_empty() {
            return Err(DictionaryError::Empty);
        }
        Ok(Dictionary { name: name.to_owned(), threshold, within_words, phrases, by_first_word })
    }

    /// The name in settings, policies and findings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many phrases it has.
    pub fn phrases(&self) -> usize {
        self.phrases.len()
    }

    /// Whether a score reaches the dictionary's threshold.
    pub(crate) fn is_reached(&self, score: &Score) -> bool {
        score.points >= self.threshold
    }

    /// Adds what the text with this index has.
    pub(crate) fn read(&self, index: usize, words: &[Word], score: &mut Score) {
        let found = self.occurrences(words);
        let place = |o: &Occurrence| (o.phrase, (index, o.bytes.0, o.bytes.1));
        match self.within_words {
            None => {
                for (phrase, place) in found.iter().map(place) {
                    if score.phrases.insert(phrase, place).is_none() {
                        score.points += self.phrases[phrase].weight;
                    }
                }
            }
            Some(span) => {
                let (points, best) = self.best_span(&found, span);
                if points > score.points {
                    *score = Score { points, phrases: best.iter().map(place).collect() };
                }
            }
        }
    }

    fn occurrences(&self, words: &[Word]) -> Vec<Occurrence> {
        let mut found = Vec::new();
        for (at, word) in words.iter().enumerate() {
            for &phrase in self.by_first_word.get(&word.hash).into_iter().flatten() {
                let wanted = &self.phrases[phrase].words;
                let Some(run) = words.get(at..at + wanted.len()) else { continue };
                if run.iter().map(|w| w.hash).eq(wanted.iter().copied()) {
                    let bytes = (run[0].start, run[run.len() - 1].end);
                    found.push(Occurrence { phrase, word: at, bytes });
                }
            }
        }
        found
    }

    /// The span of words whose different phrases weigh most.
    fn best_span<'o>(&self, found: &'o [Occurrence], span: usize) -> (f64, &'o [Occurrence]) {
        let mut inside: HashMap<usize, usize> = HashMap::new();
        let (mut first, mut points, mut best) = (0, 0.0, (0.0, &found[..0]));
        for (last, occurrence) in found.iter().enumerate() {
            let count = inside.entry(occurrence.phrase).or_default();
            *count += 1;
            if *count == 1 {
                points += self.phrases[occurrence.phrase].weight;
            }
            while occurrence.word - found[first].word > span {
                let leaves = found[first].phrase;
                first += 1;
                let count = inside.entry(leaves).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    points -= self.phrases[leaves].weight;
                }
            }
            if points > best.0 {
                best = (points, &found[first..=last]);
            }
        }
        best
    }
}

fn weight_of(text: &str, line: usize) -> Result<f64, DictionaryError> {
    let weight = text.parse().ok().filter(|w: &f64| w.is_finite() && *w > 0.0);
    weight.ok_or_else(|| DictionaryError::Weight { line, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# plans\nproject heron = 5\nacquisition\ndue diligence = 2.5\n";

    fn points(within: Option<usize>, text: &str) -> f64 {
        let dictionary = Dictionary::parse("plans", TEXT, 5.0, within).unwrap();
        let mut score = Score::default();
        dictionary.read(0, &words(text), &mut score);
        score.points
    }

    #[test]
    fn each_phrase_counts_once() {
        assert_eq!(points(None, "Project\nHERON, project heron: the Acquisition"), 6.0);
        assert_eq!(points(None, "a project; the heron. Due process"), 0.0);
        assert_eq!(points(None, ""), 0.0);
    }

    #[test]
    fn texts_of_a_message_add_up() {
        let dictionary = Dictionary::parse("plans", TEXT, 5.0, None).unwrap();
        let mut score = Score::default();
        dictionary.read(0, &words("project heron"), &mut score);
        dictionary.read(1, &words("project heron, due diligence"), &mut score);
        assert_eq!((score.points, score.phrases.len()), (7.5, 2));
        assert!(dictionary.is_reached(&score));
    }

    #[test]
    fn phrases_far_from_each_other_do_not_add_up() {
        let far = format!("project heron {} due diligence acquisition", "word ".repeat(30));
        assert_eq!(points(None, &far), 8.5);
        assert_eq!(points(Some(10), &far), 5.0);
        assert_eq!(points(Some(10), "acquisition: due diligence of project heron"), 8.5);
        assert_eq!(points(Some(0), "acquisition acquisition"), 1.0);
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let error = |text: &str| Dictionary::parse("x", text, 1.0, None).unwrap_err().to_string();
        assert!(error("a\n\nb = heavy").starts_with("line 3: \"heavy\""));
        assert!(error("a = -1").contains("line 1"));
        assert!(error("--- = 2").contains("line 1: a phrase"));
        assert!(error("# only a comment").contains("no phrase"));
    }
}
