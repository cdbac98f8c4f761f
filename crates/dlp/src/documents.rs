//! Fingerprints of documents: a passage that was copied out of one is found.
//!
//! Every eight words in a row are a *shingle*; of every eight shingles in a row the one with the
//! least hash is kept (winnowing: S. Schleimer, D. Wilkerson, A. Aiken, Winnowing: Local Algorithms
//! for Document Fingerprinting, SIGMOD 2003). Of 31 equal words in a row at least three
//! fingerprints are equal, whatever stands around them; letters, spaces, punctuation and quoting do
//! not matter.

use std::collections::{BTreeMap, BTreeSet};

use crate::words::{Word, shingle, words};

/// Words of a shingle.
const SHINGLE_WORDS: usize = 8;
/// Shingles of which one is kept.
const WINDOW_SHINGLES: usize = 8;
/// Equal fingerprints that are a copy: less may be a phrase that both took from somewhere.
const MATCHES_MIN: usize = 3;
/// Fingerprints of all documents: some 4.5 million words, 16 bytes each.
pub const FINGERPRINTS_MAX: usize = 1_000_000;
/// Documents that one fingerprint is kept for.
const DOCUMENTS_PER_FINGERPRINT_MAX: usize = 8;

/// A fingerprint and the bytes of the text that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fingerprint {
    hash: u64,
    start: usize,
    end: usize,
}

/// Keeps one shingle of every window: the least hash, of equal ones the last.
fn winnow(words: &[Word]) -> Vec<Fingerprint> {
    let shingles: Vec<Fingerprint> = words
        .windows(SHINGLE_WORDS)
        .map(|run| {
            let (start, end) = (run[0].start, run[SHINGLE_WORDS - 1].end);
            Fingerprint { hash: shingle(run), start, end }
        })
        .collect();
    let window = WINDOW_SHINGLES.min(shingles.len().max(1));
    let mut kept: Vec<Fingerprint> = Vec::new();
    for window in shingles.windows(window) {
        let least = window.iter().rev().min_by_key(|f| f.hash);
        if let Some(least) = least.filter(|least| kept.last() != Some(least)) {
            kept.push(*least);
        }
    }
    kept
}

/// The documents whose passages are looked for.
#[derive(Debug, Default)]
pub struct Documents {
    names: Vec<String>,
    /// Different fingerprints of each document.
    totals: Vec<usize>,
    /// Hash and document, ordered.
    all: Vec<(u64, u32)>,
}

/// What of one document is in a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Copied {
    pub(crate) document: usize,
    /// Share of the document's fingerprints, 0 to 1.
    pub(crate) share: f64,
    /// About how many words.
    pub(crate) words: usize,
    /// Text, first and last byte of what is copied, for each text.
    pub(crate) places: BTreeMap<usize, (usize, usize)>,
}

/// Fingerprints that a message has of each document.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    of: BTreeMap<u32, SeenOfOne>,
}

/// Different fingerprints, and first and last byte of what has them by text.
#[derive(Debug, Default)]
struct SeenOfOne {
    hashes: BTreeSet<u64>,
    places: BTreeMap<usize, (usize, usize)>,
}

/// Fingerprints of documents, until all have been read.
#[derive(Debug, Default)]
pub struct DocumentsBuilder {
    names: Vec<String>,
    all: Vec<(u64, u32)>,
    ignored: BTreeSet<u64>,
    is_full: bool,
}

impl DocumentsBuilder {
    /// Adds a document's text. False once there are more fingerprints than [`FINGERPRINTS_MAX`].
    pub fn add(&mut self, name: &str, text: &str) -> bool {
        let hashes: BTreeSet<u64> = winnow(&words(text)).iter().map(|f| f.hash).collect();
        if self.all.len() + hashes.len() > FINGERPRINTS_MAX {
            self.is_full = true;
        }
        let Ok(document) = u32::try_from(self.names.len()) else { return false };
        if self.is_full {
            return false;
        }
        self.names.push(name.to_owned());
        self.all.extend(hashes.into_iter().map(|hash| (hash, document)));
        true
    }

    /// Leaves out what this text has: letterheads, disclaimers, what is published.
    pub fn ignore(&mut self, text: &str) {
        // All shingles: which of them are kept depends on what stands around.
        let words = words(text);
        if self.ignored.len() + words.len() <= FINGERPRINTS_MAX {
            self.ignored.extend(words.windows(SHINGLE_WORDS).map(shingle));
        }
    }

    /// The documents, ready to be looked for.
    pub fn build(self) -> Documents {
        let DocumentsBuilder { names, mut all, ignored, is_full: _ } = self;
        all.retain(|(hash, _)| !ignored.contains(hash));
        all.sort_unstable();
        let mut totals = vec![0; names.len()];
        for (_, document) in &all {
            totals[*document as usize] += 1;
        }
        Documents { names, totals, all }
    }
}

impl Documents {
    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Name and number of fingerprints of each document; 0 if it is too short, or ignored as a
    /// whole.
    pub fn fingerprints(&self) -> impl Iterator<Item = (&str, usize)> {
        self.names.iter().map(String::as_str).zip(self.totals.iter().copied())
    }

    pub(crate) fn name(&self, document: usize) -> &str {
        self.names.get(document).map_or("", String::as_str)
    }

    /// Adds what the text with this index has.
    pub(crate) fn read(&self, index: usize, words: &[Word], seen: &mut Seen) {
        if self.is_empty() {
            return;
        }
        for found in winnow(words) {
            let from = self.all.partition_point(|(hash, _)| *hash < found.hash);
            let same = self.all[from..].iter().take_while(|(hash, _)| *hash == found.hash);
            for (hash, document) in same.take(DOCUMENTS_PER_FINGERPRINT_MAX) {
                let of_one = seen.of.entry(*document).or_default();
                of_one.hashes.insert(*hash);
                let place = of_one.places.entry(index).or_insert((found.start, found.end));
                *place = (place.0.min(found.start), place.1.max(found.end));
            }
        }
    }

    /// The documents of which enough was seen, the largest share first.
    pub(crate) fn copied(&self, seen: Seen) -> Vec<Copied> {
        let enough = seen.of.into_iter().filter(|(_, of_one)| of_one.hashes.len() >= MATCHES_MIN);
        let copied = |(document, SeenOfOne { hashes, places }): (u32, SeenOfOne)| {
            let document = document as usize;
            let share = hashes.len() as f64 / self.totals[document].max(1) as f64;
            // A window of shingles has two fingerprints in nine shingles on average.
            let words = SHINGLE_WORDS + hashes.len() * (WINDOW_SHINGLES + 1) / 2;
            Copied { document, share: share.min(1.0), words, places }
        };
        let mut all: Vec<Copied> = enough.map(copied).collect();
        all.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.document.cmp(&b.document)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of different sentences.
    fn text(seed: u64, words: usize) -> String {
        let mut state = seed;
        let word = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            format!("w{}", (state >> 33) % 5000)
        };
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    }

    fn found(documents: &Documents, text: &str) -> Vec<(String, f64)> {
        let mut seen = Seen::default();
        documents.read(0, &words(text), &mut seen);
        let copied = documents.copied(seen);
        copied.iter().map(|c| (documents.name(c.document).to_owned(), c.share)).collect()
    }

    fn two() -> Documents {
        let mut builder = DocumentsBuilder::default();
        assert!(builder.add("plan.docx", &text(1, 2000)) && builder.add("list.txt", &text(2, 300)));
        builder.build()
    }

    #[test]
    fn a_paragraph_of_forty_words_is_found_wherever_it_is_cut() {
        let (documents, plan) = (two(), text(1, 2000));
        let plan: Vec<&str> = plan.split(' ').collect();
        for start in (0..1900).step_by(37) {
            let paragraph = plan[start..start + 40].join(",\n> ").to_uppercase();
            let mail = format!("{} {paragraph} {}", text(7, 200), text(8, 200));
            let found = found(&documents, &mail);
            assert_eq!(found.len(), 1, "from word {start}");
            assert_eq!(found[0].0, "plan.docx");
            assert!((0.005..0.06).contains(&found[0].1), "{}", found[0].1);
        }
    }

    #[test]
    fn a_whole_copy_has_the_whole_share_and_other_texts_none() {
        let documents = two();
        assert_eq!(found(&documents, &text(2, 300)), [("list.txt".to_owned(), 1.0)]);
        assert_eq!(found(&documents, &text(3, 5000)), []);
        assert_eq!(found(&documents, &text(1, 2000)[..40]), [], "eight words are no passage");
        assert_eq!(found(&documents, ""), []);
    }

    #[test]
    fn what_is_public_does_not_count() {
        let disclaimer = text(9, 100);
        let mut builder = DocumentsBuilder::default();
        builder.add("letter.txt", &format!("{} {disclaimer}", text(4, 300)));
        builder.ignore(&format!("{} {disclaimer}", text(5, 50)));
        let documents = builder.build();
        assert_eq!(found(&documents, &disclaimer), []);
        assert_eq!(found(&documents, &text(4, 300)).len(), 1);
    }
}
