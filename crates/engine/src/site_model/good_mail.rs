//! Good mail that nobody corrected: messages of known and proven authors, and released ones, as
//! samples for the thresholds.
//!
//! They are a sample of mail of people who are known here. Of mail of strangers, whose classes the
//! thresholds decide, they say less than corrections do, however many there are: see [`SHARE`] and
//! [`SHARE_OF_ALL`].

use std::collections::BTreeMap;

use crate::corrections::reporter_id;

use super::calibration::PRIOR_GOOD;

/// What a sample counts, in good corrections.
const SHARE: f64 = 1.0 / 3.0;
/// What all samples of one author count together at most: an account that is taken over, or one
/// that writes all day, moves as much as one correction.
const AUTHOR_SHARE: f64 = 1.0;
/// Most that all samples are of what the tail of good mail rests on, the shipped tail and the
/// corrections included.
const SHARE_OF_ALL: f64 = 1.0 / 3.0;

/// One message that counts as good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoodSample {
    /// How it came to count.
    pub kind: SampleKind,
    /// Log odds that it is unwanted, as if nobody here knew its author
    /// ([`gauntlet_verdict::Verdict::stranger_odds`]).
    pub odds: f32,
    /// Names its author: [`author_id`].
    pub author: u32,
    /// Days since 1970 at which it came, or was released.
    pub day: u32,
}

/// How a message came to count as good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// Somebody here wrote to its author before, and DMARC proves the author.
    KnownAuthor,
    /// Somebody released it from quarantine and did not ask that it be learned from.
    Released,
}

/// Names an author by a hash of 32 bits, so that the share of each can be bounded.
pub fn author_id(address: &str) -> u32 {
    (reporter_id(address.trim()) & 0xffff_ffff) as u32
}

/// The samples of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct GoodMail {
    samples: Vec<GoodSample>,
    version: String,
}

impl GoodMail {
    /// These samples; none if there are none, or none with a number.
    pub fn new(mut samples: Vec<GoodSample>) -> Option<Self> {
        samples.retain(|sample| sample.odds.is_finite());
        if samples.is_empty() {
            return None;
        }
        let mut hash = blake3::Hasher::new();
        for sample in &samples {
            hash.update(&sample.odds.to_le_bytes());
            hash.update(&sample.author.to_le_bytes());
        }
        let version = hash.finalize().to_hex().get(..12).unwrap_or_default().to_owned();
        Some(GoodMail { samples, version })
    }

    /// Names what is known.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Samples of this kind.
    pub(super) fn count(&self, kind: SampleKind) -> usize {
        self.samples.iter().filter(|sample| sample.kind == kind).count()
    }

    /// The log odds with what each counts, beside good corrections that count so much.
    pub(super) fn weighted(&self, corrected: f64) -> Vec<(f64, f64)> {
        let mut by_author: BTreeMap<u32, f64> = BTreeMap::new();
        for sample in &self.samples {
            *by_author.entry(sample.author).or_insert(0.0) += 1.0;
        }
        let share = |author| {
            let count = by_author.get(&author).copied().unwrap_or(1.0);
            SHARE.min(AUTHOR_SHARE / count)
        };
        let all: f64 = self.samples.iter().map(|sample| share(sample.author)).sum();
        let most = (PRIOR_GOOD + corrected) * SHARE_OF_ALL / (1.0 - SHARE_OF_ALL);
        let bound = (most / all.max(1e-9)).min(1.0);
        let of = |sample: &GoodSample| (f64::from(sample.odds), bound * share(sample.author));
        self.samples.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(authors: u32, each: u32) -> GoodMail {
        let one = |i| GoodSample {
            kind: SampleKind::KnownAuthor,
            odds: -3.0,
            author: i % authors,
            day: 20_000,
        };
        GoodMail::new((0..authors * each).map(one).collect()).unwrap()
    }

    fn sum(mail: &GoodMail, corrected: f64) -> f64 {
        mail.weighted(corrected).iter().map(|sample| sample.1).sum()
    }

    #[test]
    fn a_sample_counts_a_third_and_an_author_one_correction() {
        assert!((sum(&samples(2, 1), 0.0) - 2.0 / 3.0).abs() < 1e-9);
        assert!((sum(&samples(1, 1_000), 0.0) - 1.0).abs() < 1e-9);
        assert!((sum(&samples(4, 100), 0.0) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn all_samples_are_a_third_of_what_the_tail_rests_on_at_most() {
        for corrected in [0.0, 100.0] {
            let own = sum(&samples(1_000, 2), corrected);
            assert!((own / (own + corrected + PRIOR_GOOD) - SHARE_OF_ALL).abs() < 1e-9);
        }
    }

    #[test]
    fn what_is_no_number_is_no_sample() {
        let odd = GoodSample {
            kind: SampleKind::Released,
            odds: f32::NAN,
            author: author_id("Ann@example.org "),
            day: 1,
        };
        assert_eq!(GoodMail::new(vec![odd]), None);
        assert_eq!(odd.author, author_id("ann@example.org"));
    }
}
