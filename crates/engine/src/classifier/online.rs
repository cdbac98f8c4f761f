//! The filter that starts from nothing and learns from a stream of mail: what a site's own mail
//! trains it on, and what the TREC protocol measures.
//!
//! Several views of a message are learned apart and their scores added. A view that is sure cannot
//! stop the others from learning, and a message that misleads one view (random words in the body, a
//! forged header) is still judged by the rest.

use memchr::memmem;

use super::features::FeatureSet;
use super::linear::{AdaptiveLogistic, Arow, Logistic};

/// Bits of a table of weights: 4 million weights.
const TABLE_BITS: u32 = 22;
/// Bytes of the message that the baseline reads.
const BASELINE_BYTES: usize = 3_500;
/// Step of the gradient of the baseline.
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
/// Bits of the tables of header, subject and body.
const HEADER_BITS: u32 = 20;
const SUBJECT_BITS: u32 = 18;
const BODY_BITS: u32 = 21;
/// AROW's slack for the header.
const HEADER_SLACK: f32 = 100.0;
/// Rate of the subject's adaptive logistic regression.
const SUBJECT_RATE: f32 = 0.1;
/// AROW's slack for the body: one correction is nearly enough.
const BODY_SLACK: f32 = 1.0;
/// Rate of the body's adaptive logistic regression.
const BODY_RATE: f32 = 0.04;
/// What the header, the two learners of the body and the subject count in the sum. All together
/// weigh little more than half of the header: where only some recipients report what they got,
/// bodies like those of the others were never learned, and what is unknown looks like spam
/// (decision 060).
const VOTES: [f32; 4] = [1.0, 0.25, 0.15, 0.15];
/// Messages learned after which a sum counts half: before, scores are as large as later ones and
/// say less, and the good mail among the first would outrank much of the spam that follows.
const HALF_TRUST_MESSAGES: f32 = 25.0;

/// Brings a learner's scores to one scale, and bends them: beyond twice its usual size a score says
/// hardly more, so that no view outvotes all others.
#[derive(Debug)]
struct Scale {
    /// Running mean of the absolute score.
    usual: f32,
}

/// How fast the running mean follows: about the last 500 messages.
const SCALE_RATE: f32 = 0.002;
/// A learner that has seen nothing yet has scores near 0; they are not blown up beyond this.
const SCALE_MIN: f32 = 0.2;
/// What remains of a score's growth beyond the bend.
const SCALE_TAIL: f32 = 0.05;

impl Scale {
    fn bend(&self, score: f32) -> f32 {
        let x = score / self.usual.max(SCALE_MIN);
        2.0 * x.tanh() + SCALE_TAIL * x
    }

    fn follow(&mut self, score: f32) {
        self.usual += SCALE_RATE * (score.abs() - self.usual);
    }
}

/// Header, body and subject, learned apart.
#[derive(Debug)]
pub struct Views {
    header: FeatureSet,
    body: FeatureSet,
    subject: FeatureSet,
    header_learner: Arow,
    body_slow: AdaptiveLogistic,
    body_quick: Arow,
    subject_learner: AdaptiveLogistic,
    scales: [Scale; 4],
    /// Messages learned so far, of both kinds.
    learned: f32,
}

impl Default for Views {
    fn default() -> Self {
        let set = |bits| FeatureSet::new(bits, VIEW_FEATURES_MAX);
        Views {
            header: set(HEADER_BITS),
            body: set(BODY_BITS),
            subject: set(SUBJECT_BITS),
            header_learner: Arow::new(HEADER_BITS, HEADER_SLACK),
            body_slow: AdaptiveLogistic::new(BODY_BITS, BODY_RATE),
            body_quick: Arow::new(BODY_BITS, BODY_SLACK),
            subject_learner: AdaptiveLogistic::new(SUBJECT_BITS, SUBJECT_RATE),
            scales: [1.0; 4].map(|usual| Scale { usual }),
            learned: 0.0,
        }
    }
}

impl Views {
    fn read(&mut self, raw: &[u8]) {
        let (header, body) = split(raw);
        self.header.clear();
        self.header.add_ngrams(start(header, HEADER_BYTES), 4, 0);
        self.subject.clear();
        self.subject.add_ngrams(subject(header), 4, 0);
        self.body.clear();
        self.body.add_sparse_bigrams(start(body, BODY_BYTES), 1);
    }

    fn scores(&self) -> [f32; 4] {
        [
            self.header_learner.score(&self.header),
            self.body_slow.score(&self.body),
            self.body_quick.score(&self.body),
            self.subject_learner.score(&self.subject),
        ]
    }

    /// The bent votes, added, and trusted by how much was learned.
    fn fuse(&self, scores: [f32; 4]) -> f32 {
        let bent = scores.iter().zip(&self.scales).map(|(&score, scale)| scale.bend(score));
        let sum: f32 = bent.zip(VOTES).map(|(bent, vote)| vote * bent).sum();
        sum * self.learned / (self.learned + HALF_TRUST_MESSAGES)
    }

    fn train(&mut self, scores: [f32; 4], spam: bool) {
        let [header, slow, quick, subject] = scores;
        self.header_learner.train(&self.header, header, spam);
        self.body_slow.train(&self.body, slow, spam);
        self.body_quick.train(&self.body, quick, spam);
        self.subject_learner.train(&self.subject, subject, spam);
        self.learned += 1.0;
        for (scale, score) in self.scales.iter_mut().zip(scores) {
            scale.follow(score);
        }
    }
}

/// A filter that scores a message and may later be trained with its label.
#[derive(Debug)]
pub enum OnlineFilter {
    /// Logistic regression on byte 4-grams, which every other filter has to beat.
    Baseline(Box<Baseline>),
    /// Learners on header, body and Subject apart, whose scores are fused.
    Views(Box<Views>),
}

impl OnlineFilter {
    /// A new baseline that has not learned from any message.
    pub fn baseline() -> Self {
        OnlineFilter::Baseline(Box::default())
    }

    /// A new filter of several views that has not learned from any message.
    pub fn views() -> Self {
        OnlineFilter::Views(Box::default())
    }

    /// How much a raw message looks like spam; above 0 is spam.
    pub fn score(&mut self, raw: &[u8]) -> f32 {
        self.read(raw);
        match self {
            OnlineFilter::Baseline(f) => f.learner.score(&f.features),
            OnlineFilter::Views(f) => f.fuse(f.scores()),
        }
    }

    /// Learns what a raw message is. Result: what [`Self::score`] said before.
    pub fn train(&mut self, raw: &[u8], spam: bool) -> f32 {
        self.read(raw);
        match self {
            OnlineFilter::Baseline(f) => {
                let score = f.learner.score(&f.features);
                f.learner.train(&f.features, score, spam);
                score
            }
            OnlineFilter::Views(f) => {
                let scores = f.scores();
                let score = f.fuse(scores);
                f.train(scores, spam);
                score
            }
        }
    }

    fn read(&mut self, raw: &[u8]) {
        match self {
            OnlineFilter::Baseline(f) => f.read(raw),
            OnlineFilter::Views(f) => f.read(raw),
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
                    filter.train(raw, is_spam);
                }
            }
            assert!(filter.score(ham) < -0.5);
            assert!(filter.score(spam) > 0.5);
            assert!(filter.score(b"").abs() < 0.5, "nothing known: {}", filter.score(b""));
        }
    }
}
