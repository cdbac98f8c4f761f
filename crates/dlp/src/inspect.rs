//! Looking through the texts of one item.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::detector::Detector;
use crate::dictionary::{Dictionary, Score};
use crate::documents::{Documents, Seen};
use crate::mask::{masked, masked_secret};
use crate::numbers::{Numbers, canonical};
use crate::redact::{Secret, redacted};
use crate::secrets::Secrets;
use crate::words::words;

/// The detector of findings of dictionaries, and that of documents.
pub const DICTIONARY: &str = "dictionary";
/// The detector of findings of documents' fingerprints.
pub const DOCUMENT: &str = "document";

/// What one item may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all its texts.
    pub text_bytes_max: usize,
    /// Different values of all detectors.
    pub values_max: usize,
    /// Places reported of one finding.
    pub evidence_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { text_bytes_max: 4 << 20, values_max: 10_000, evidence_max: 5 }
    }
}

/// A text of the item.
#[derive(Debug, Clone, Copy)]
pub struct Text<'t> {
    /// Where it is from, e.g. `subject`, `part 2` or `a.zip/plan.docx`.
    pub place: &'t str,
    /// The text itself, in Unicode.
    pub text: &'t str,
}

/// A place of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Which text it is in: [`Text::place`].
    pub place: String,
    /// First byte in it.
    pub offset: usize,
    /// Length of the finding in bytes.
    pub length: usize,
    /// What stands there, masked.
    pub masked: String,
}

/// What a detector found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The detector's name; [`DICTIONARY`], [`DOCUMENT`].
    pub detector: &'static str,
    /// The detector's family; the detector's name again for dictionaries and documents.
    pub family: &'static str,
    /// Which dictionary or document; empty for detectors.
    pub name: String,
    /// Different values; phrases of a dictionary; about how many words of a document.
    pub count: usize,
    /// Points of a dictionary.
    pub points: f64,
    /// Share of a document that is in the item, 0 to 1.
    pub share: f64,
    /// Where, at most [`Limits::evidence_max`].
    pub evidence: Vec<Evidence>,
}

/// What was found in an item.
#[derive(Debug, Default)]
pub struct Inspected {
    /// By detector in their order, then dictionaries, then documents.
    pub findings: Vec<Finding>,
    /// A limit was reached: not everything was read.
    pub is_cut: bool,
    secrets: Vec<Secret>,
}

impl Inspected {
    /// The text with every value masked that was found anywhere in the item.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match redacted(text, &self.secrets) {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(text),
        }
    }

    /// Whether there is something to mask.
    pub fn has_values(&self) -> bool {
        !self.secrets.is_empty()
    }
}

/// Detectors, dictionaries and documents that are looked for.
#[derive(Debug, Default)]
pub struct Inspector {
    detectors: Vec<&'static Detector>,
    numbers: Option<Numbers>,
    secrets: Option<Secrets>,
    dictionaries: Vec<Dictionary>,
    documents: Documents,
    limits: Limits,
}

/// Different values of one detector, and where the first of them stand.
#[derive(Debug, Default)]
struct Values {
    all: BTreeSet<String>,
    evidence: Vec<Evidence>,
}

/// What is collected of one item.
#[derive(Debug, Default)]
struct Collected<'t> {
    places: Vec<&'t str>,
    /// Values found, by index of the detector.
    values: BTreeMap<usize, Values>,
    secrets: Vec<Secret>,
    scores: Vec<Score>,
    seen: Seen,
    is_cut: bool,
}

impl Inspector {
    /// An inspector that looks for all of these, and for nothing else.
    pub fn new(
        detectors: Vec<&'static Detector>,
        dictionaries: Vec<Dictionary>,
        documents: Documents,
        limits: Limits,
    ) -> Self {
        Inspector {
            numbers: Some(Numbers::new(&detectors)),
            secrets: Secrets::new(&detectors),
            detectors,
            dictionaries,
            documents,
            limits,
        }
    }

    /// Looks through the texts, in order.
    pub fn inspect<'t>(&self, texts: impl IntoIterator<Item = Text<'t>>) -> Inspected {
        let mut collected = Collected::default();
        collected.scores.resize_with(self.dictionaries.len(), Score::default);
        let mut left = self.limits.text_bytes_max;
        for Text { place, text } in texts {
            let end = floor_char_boundary(text, left);
            collected.is_cut |= end < text.len();
            left -= end;
            if end > 0 {
                self.read(place, &text[..end], &mut collected);
            }
        }
        self.findings(collected)
    }

    fn read<'t>(&self, place: &'t str, text: &'t str, collected: &mut Collected<'t>) {
        let index = collected.places.len();
        collected.places.push(place);
        for found in self.numbers.iter().flat_map(|numbers| numbers.find(text)) {
            let value = &text[found.start..found.end];
            let shown = self.detectors[found.detector].shown;
            let range = (index, found.start, found.end);
            self.add(collected, found.detector, range, value, shown, || masked(value, shown));
        }
        for found in self.secrets.iter().flat_map(|secrets| secrets.find(text)) {
            let value = &text[found.start..found.end];
            let range = (index, found.start, found.end);
            let masked = || masked_secret(value, found.prefix);
            // The first letters of the prefix only: a quotation needs no more.
            self.add(collected, found.detector, range, value, (found.prefix.min(4), 0), masked);
        }
        if self.dictionaries.is_empty() && self.documents.is_empty() {
            return;
        }
        let words = words(text);
        for (dictionary, score) in self.dictionaries.iter().zip(&mut collected.scores) {
            dictionary.read(index, &words, score);
        }
        self.documents.read(index, &words, &mut collected.seen);
    }

    fn add(
        &self,
        collected: &mut Collected<'_>,
        detector: usize,
        (index, start, end): (usize, usize, usize),
        value: &str,
        shown: (usize, usize),
        masked: impl FnOnce() -> String,
    ) {
        let canonical = canonical(value);
        let values = collected.values.entry(detector).or_default();
        if values.all.contains(&canonical) {
            return;
        }
        if collected.secrets.len() >= self.limits.values_max {
            collected.is_cut = true;
            return;
        }
        if values.evidence.len() < self.limits.evidence_max {
            let place = collected.places[index].to_owned();
            let (length, masked) = (end - start, masked());
            values.evidence.push(Evidence { place, offset: start, length, masked });
        }
        values.all.insert(canonical.clone());
        collected.secrets.push(Secret { canonical, shown });
    }

    fn findings(&self, collected: Collected<'_>) -> Inspected {
        let Collected { places, values, secrets, scores, seen, is_cut } = collected;
        let mut findings: Vec<Finding> = Vec::new();
        for (detector, Values { all, evidence }) in values {
            let Detector { name, family, .. } = self.detectors[detector];
            let finding = finding(name, family.name(), "", all.len());
            findings.push(Finding { evidence, ..finding });
        }
        let at = |(text, start, end): (usize, usize, usize), masked| {
            let place = places.get(text).map_or_else(String::new, |p| (*p).to_owned());
            Evidence { place, offset: start, length: end - start, masked }
        };
        let reached = |(dictionary, score): &(&Dictionary, Score)| dictionary.is_reached(score);
        for (dictionary, score) in self.dictionaries.iter().zip(scores).filter(reached) {
            let places = score.phrases.values().take(self.limits.evidence_max);
            let evidence = places.map(|&place| at(place, "a phrase".to_owned())).collect();
            let finding = finding(DICTIONARY, DICTIONARY, dictionary.name(), score.phrases.len());
            findings.push(Finding { points: score.points, evidence, ..finding });
        }
        for copied in self.documents.copied(seen) {
            let place = |(&text, &(start, end)): (&usize, &(usize, usize))| {
                at((text, start, end), format!("about {} words", copied.words))
            };
            let evidence = copied.places.iter().take(self.limits.evidence_max).map(place).collect();
            let name = self.documents.name(copied.document);
            let finding = finding(DOCUMENT, DOCUMENT, name, copied.words);
            findings.push(Finding { share: copied.share, evidence, ..finding });
        }
        let mut inspected = Inspected { findings, is_cut, secrets };
        for finding in &mut inspected.findings {
            for evidence in &mut finding.evidence {
                // A file may be called by the number that is in it.
                if let Some(place) = redacted(&evidence.place, &inspected.secrets) {
                    evidence.place = place;
                }
            }
        }
        inspected
    }
}

fn finding(detector: &'static str, family: &'static str, name: &str, count: usize) -> Finding {
    let (name, evidence) = (name.to_owned(), Vec::new());
    Finding { detector, family, name, count, points: 0.0, share: 0.0, evidence }
}

fn floor_char_boundary(text: &str, max: usize) -> usize {
    (0..=max.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detectors;
    use crate::documents::DocumentsBuilder;

    fn inspector(limits: Limits) -> Inspector {
        let dictionary = Dictionary::parse("plans", "project heron = 5", 5.0, None).unwrap();
        let mut documents = DocumentsBuilder::default();
        documents.add("plan.txt", PLAN);
        Inspector::new(detectors::all().collect(), vec![dictionary], documents.build(), limits)
    }

    const PLAN: &str = "In the third quarter the board will sell the northern branch to the bidder that offers \
        to keep the staff for two years, unless the price falls below the amount which the auditors named in \
        their letter of last spring and the bank agrees to wait";

    fn text<'t>(place: &'t str, text: &'t str) -> Text<'t> {
        Text { place, text }
    }

    #[test]
    fn the_same_value_in_two_texts_counts_once() {
        let inspected = inspector(Limits::default()).inspect([
            text("subject", "4111 1111 1111 1111"),
            text("part 1", "4111-1111-1111-1111 and 5555555555554444"),
        ]);
        let [finding] = &inspected.findings[..] else { panic!("{inspected:?}") };
        assert_eq!(
            (finding.detector, finding.family, finding.count),
            ("payment_card", "payment", 2)
        );
        assert_eq!(finding.evidence[0].masked, "4111 **** **** 1111");
        assert_eq!((&*finding.evidence[1].place, finding.evidence[1].offset), ("part 1", 24));
        assert_eq!(inspected.redact("for 4111111111111111"), "for 4111********1111");
        assert!(!inspected.is_cut && inspected.has_values());
    }

    #[test]
    fn dictionaries_and_documents_are_findings_without_their_words() {
        let mail = format!("about Project Heron:\n> {}", PLAN.replace(' ', "\n> "));
        let inspected = inspector(Limits::default()).inspect([text("part 1", &mail)]);
        let names: Vec<_> = inspected.findings.iter().map(|f| (f.detector, &*f.name)).collect();
        assert_eq!(names, [(DICTIONARY, "plans"), (DOCUMENT, "plan.txt")]);
        assert_eq!(inspected.findings[0].points, 5.0);
        assert_eq!(inspected.findings[1].share, 1.0);
        let shown = format!("{:?}", inspected.findings);
        assert!(!shown.to_lowercase().contains("heron") && !shown.contains("auditors"), "{shown}");
    }

    #[test]
    fn limits_are_reported() {
        let cards = "4111111111111111 5555555555554444 4012888888881881";
        let few = Limits { values_max: 2, ..Limits::default() };
        let inspected = inspector(few).inspect([text("a", cards)]);
        assert!(inspected.is_cut && inspected.findings[0].count == 2);
        let short = Limits { text_bytes_max: 20, ..Limits::default() };
        let inspected = inspector(short).inspect([text("a", cards), text("b", "é")]);
        assert!(inspected.is_cut && inspected.findings[0].count == 1);
        let one = Limits { evidence_max: 1, ..Limits::default() };
        let inspected = inspector(one).inspect([text("a", cards)]);
        assert_eq!((inspected.findings[0].count, inspected.findings[0].evidence.len()), (3, 1));
    }

    #[test]
    fn a_value_in_a_file_name_is_masked_in_the_place() {
        let place = "cards 4111111111111111.txt";
        let inspected = inspector(Limits::default()).inspect([text(place, "4111111111111111")]);
        assert_eq!(inspected.findings[0].evidence[0].place, "cards 4111********1111.txt");
    }
}
