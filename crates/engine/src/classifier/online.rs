//! The filter that starts from nothing and learns from a stream of mail: what a site's own mail
//! teaches, and what the TREC protocol measures.
//!
//! Several views of a message are learned apart and their scores added. A view that is sure cannot
//! stop the others from learning, and a message that misleads one view (random words in the body, a
//! forged header) is still judged by the rest.

use memchr::memmem;

use super::features::FeatureSet;
use super::linear::{Arow, Logistic};

/// Bits of a table of weights: 4 million weights.
const TABLE_BITS: u32 = 22;
/// Bytes of the message that the baseline reads.
const BASELINE_BYTES: usize = 3_500;
/// Its learning rate.
const BASELINE_RATE: f32 = 0.004;

/// Byte 4-grams of the start of the message, logistic regression.
#[derive(Debug)]
pub struct Baseline {
    features: FeatureSet,
    learner: Logistic,
}

impl Default for Baseline {
    fn default() -> Self {
        Baseline {
            features: FeatureSet::new(TABLE_BITS, BASELINE_BYTES),
            learner: Logistic::new(TABLE_BITS, BASELINE_RATE),
        }
    }
}

impl Baseline {
    fn read(&mut self, raw: &[u8]) {
        self.features.clear();
        self.features.add_ngrams(start(raw, BASELINE_BYTES), 4, 0);
    }
}

/// Bytes of the header that the filter reads.
const HEADER_BYTES: usize = 3_500;
/// Bytes of the body that the filter reads.
const BODY_BYTES: usize = 4_000;
/// Most features of one view.
const VIEW_FEATURES_MAX: usize = 8_000;
/// AROW's slack of the header's and the subject's learner, and of the body's.
const HEADER_SLACK: f32 = 100.0;
const BODY_SLACK: f32 = 500.0;

/// One view and its learner.
#[derive(Debug)]
struct View {
    features: FeatureSet,
    learner: Arow,
    /// What its score counts in the sum.
    weight: f32,
}

impl View {
    fn new(slack: f32, weight: f32) -> Self {
        View {
            features: FeatureSet::new(TABLE_BITS, VIEW_FEATURES_MAX),
            learner: Arow::new(TABLE_BITS, slack),
            weight,
        }
    }
}

/// Header, body and subject, learned apart.
#[derive(Debug)]
pub struct Views {
    header: View,
    body: View,
    subject: View,
}

impl Default for Views {
    fn default() -> Self {
        Views {
            header: View::new(HEADER_SLACK, 1.0),
            body: View::new(BODY_SLACK, 1.0),
            subject: View::new(HEADER_SLACK, 0.3),
        }
    }
}

impl Views {
    fn read(&mut self, raw: &[u8]) {
        let (header, body) = split(raw);
        self.header.features.clear();
        self.header.features.add_ngrams(start(header, HEADER_BYTES), 4, 0);
        self.subject.features.clear();
        self.subject.features.add_ngrams(subject(header), 4, 0);
        self.body.features.clear();
        self.body.features.add_sparse_bigrams(start(body, BODY_BYTES), 1);
    }

    fn score(&self) -> f32 {
        let views = [&self.header, &self.body, &self.subject];
        views.iter().map(|v| v.weight * v.learner.score(&v.features)).sum()
    }

    fn train(&mut self, spam: bool) {
        for view in [&mut self.header, &mut self.body, &mut self.subject] {
            view.learner.train(&view.features, spam);
        }
    }
}

/// A filter that is asked about a message and may later be told what it was.
#[derive(Debug)]
pub enum OnlineFilter {
    /// The bar to beat.
    Baseline(Box<Baseline>),
    /// Ours.
    Views(Box<Views>),
}

impl OnlineFilter {
    /// The baseline, untrained.
    pub fn baseline() -> Self {
        OnlineFilter::Baseline(Box::default())
    }

    /// Our filter, untrained.
    pub fn views() -> Self {
        OnlineFilter::Views(Box::default())
    }

    /// Reads the raw message: what follows is about it, until the next is read.
    pub fn read(&mut self, raw: &[u8]) {
        match self {
            OnlineFilter::Baseline(f) => f.read(raw),
            OnlineFilter::Views(f) => f.read(raw),
        }
    }

    /// How much the message that was read looks like spam; above 0 is spam.
    pub fn score(&self) -> f32 {
        match self {
            OnlineFilter::Baseline(f) => f.learner.score(&f.features),
            OnlineFilter::Views(f) => f.score(),
        }
    }

    /// Learns what the message that was read is.
    pub fn train(&mut self, spam: bool) {
        match self {
            OnlineFilter::Baseline(f) => f.learner.train(&f.features, spam),
            OnlineFilter::Views(f) => f.train(spam),
        }
    }
}

fn start(text: &[u8], bytes: usize) -> &[u8] {
    text.get(..bytes).unwrap_or(text)
}

/// Header block and body of a raw message; a message without an empty line is all header.
fn split(raw: &[u8]) -> (&[u8], &[u8]) {
    let ends = [memmem::find(raw, b"\n\n"), memmem::find(raw, b"\n\r\n")];
    let end = ends.into_iter().flatten().min().unwrap_or(raw.len());
    raw.split_at(end)
}

/// The Subject line without its continuations; empty if there is none.
fn subject(header: &[u8]) -> &[u8] {
    let name = b"subject:";
    let is = |line: &&[u8]| line.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name));
    header.split(|&b| b == b'\n').find(is).unwrap_or(b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_first_empty_line() {
        assert_eq!(split(b"A: b\n\nbody\n\n"), (&b"A: b"[..], &b"\n\nbody\n\n"[..]));
        assert_eq!(split(b"A: b\r\n\r\nbody").0, b"A: b\r");
        assert_eq!(split(b"A: b"), (&b"A: b"[..], &b""[..]));
        assert_eq!(subject(b"From: x\nSUBJECT: hello\nTo: y"), b"SUBJECT: hello");
    }

    #[test]
    fn every_filter_learns() {
        let ham = b"From: ann@example.org\nSubject: minutes\n\nThe minutes of the meeting.";
        let spam = b"From: x@example.net\nSubject: pills\n\nCheap pills, no doctor needed!";
        for mut filter in [OnlineFilter::baseline(), OnlineFilter::views()] {
            for _ in 0..200 {
                for (raw, is_spam) in [(&ham[..], false), (&spam[..], true)] {
                    filter.read(raw);
                    filter.train(is_spam);
                }
            }
            filter.read(ham);
            assert!(filter.score() < -0.5);
            filter.read(spam);
            assert!(filter.score() > 0.5);
            filter.read(b"");
            assert!(filter.score().abs() < 0.5, "nothing known: {}", filter.score());
        }
    }
}
