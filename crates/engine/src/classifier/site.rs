//! What a site's own people taught: a second table of weights on top of the shipped model.
//!
//! The table is a pure function of the corrections that stand: learning a message twice changes
//! nothing, taking a correction back leaves no trace, and the order of corrections does not count.
//! Learning makes a new table; scans go on with the old one until the new one is published.
//!
//! **Nobody can poison it alone.** A reporter's corrections count [`REPORTER_SHARE`] messages
//! together at most: who reports a thousand messages counts [`REPORTER_SHARE`] thousandths a message.
//! What all reporters together teach is bounded for each message by ± [`LOGIT_BOUND`].

use std::collections::BTreeMap;
use std::sync::Arc;

use gauntlet_mail::Message;

use super::model::{GROUPS, Model, TABLE_BITS};
use super::scratch::ClassifierScratch;
use crate::signatures::fingerprint::{self, Fingerprint};
use crate::signatures::known::Report;

/// Messages that one reporter's corrections count together at most.
pub const REPORTER_SHARE: f32 = 20.0;
/// Most that the site's weights move a message's log odds.
pub const LOGIT_BOUND: f64 = 6.0;
/// Corrections kept; the oldest make room for new ones.
pub const CORRECTIONS_MAX: usize = 20_000;
/// Times that all corrections are gone through.
const EPOCHS: u32 = 3;
/// First step of a weight.
const RATE: f32 = 0.5;

/// A message that somebody said the truth about.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    /// What it is.
    pub spam: bool,
    /// Hash of who said so; 0 is the administrator, whose corrections count in full.
    pub reporter: u64,
    /// Unix time in seconds at which it was said.
    pub at: i64,
    /// The shipped model's log odds, so that only what it does not know is learned.
    pub logit: f32,
    /// Features.
    pub features: Vec<u32>,
    /// Where each group of features ends.
    pub ends: [u16; GROUPS],
    /// What its near duplicates are known by.
    pub fingerprints: Vec<Fingerprint>,
}

impl Correction {
    /// What `reporter` says about a message.
    pub fn new(
        message: &Message<'_>,
        model: &Model,
        scratch: &mut ClassifierScratch,
        spam: bool,
        (reporter, at): (u64, i64),
    ) -> Self {
        scratch.read(message);
        let (features, ends) = scratch.features();
        let found = fingerprint::of_message(message, scratch);
        Correction {
            spam,
            reporter,
            at,
            logit: model.logit(scratch) as f32,
            features: features.to_vec(),
            ends: ends.map(|e| e as u16),
            fingerprints: found.into_iter().map(|f| f.fingerprint).collect(),
        }
    }
}

/// What the corrections that stand say about fingerprints.
pub fn reports(corrections: &BTreeMap<MessageId, Correction>) -> Vec<Report> {
    let of = |c: &Correction| {
        let day = u16::try_from(c.at.max(0) / 86_400).unwrap_or(u16::MAX);
        let (spam, reporter) = (c.spam, c.reporter);
        let report = move |fingerprint| Report { fingerprint, spam, reporter, day };
        c.fingerprints.clone().into_iter().map(report)
    };
    corrections.values().flat_map(of).collect()
}

/// Names a message: the hash of its bytes.
pub type MessageId = [u8; 16];

/// Names a message by its bytes.
pub fn message_id(raw: &[u8]) -> MessageId {
    let hash = blake3::hash(raw);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// Names a reporter; an empty name is the administrator.
pub fn reporter_id(name: &str) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let hash = blake3::hash(name.to_lowercase().as_bytes());
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i])).max(1)
}

/// The weights.
pub struct SiteModel {
    weights: Vec<f32>,
    version: Arc<str>,
}

impl std::fmt::Debug for SiteModel {
    /// A million weights tell nobody anything.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SiteModel").field("version", &self.version).finish_non_exhaustive()
    }
}

impl SiteModel {
    /// Learns all corrections that stand, from nothing.
    pub fn learn(corrections: &BTreeMap<MessageId, Correction>) -> Self {
        let mut by_reporter: BTreeMap<u64, f32> = BTreeMap::new();
        let mut hash = blake3::Hasher::new();
        for (id, c) in corrections {
            *by_reporter.entry(c.reporter).or_insert(0.0) += 1.0;
            hash.update(id);
            hash.update(&[u8::from(c.spam)]);
        }
        let share = |reporter: u64| match by_reporter.get(&reporter) {
            Some(&count) if reporter != 0 => (REPORTER_SHARE / count).min(1.0),
            _ => 1.0,
        };
        let mut weights = vec![0f32; 1 << TABLE_BITS];
        let mut squares = vec![0f32; 1 << TABLE_BITS];
        for _ in 0..EPOCHS {
            for c in corrections.values() {
                let logit = c.logit + sum(&weights, &c.features, c.ends.map(usize::from));
                let wanted = f32::from(u8::from(c.spam));
                let gradient = share(c.reporter) * (wanted - 1.0 / (1.0 + (-logit).exp()));
                step(c, gradient, &mut weights, &mut squares);
            }
        }
        let version = hash.finalize().to_hex().get(..12).unwrap_or_default().into();
        SiteModel { weights, version }
    }

    /// How far the site moves the log odds of the message that the scratch has read.
    pub fn logit(&self, scratch: &ClassifierScratch) -> f64 {
        let (features, ends) = scratch.features();
        let moved = f64::from(sum(&self.weights, features, *ends));
        (moved.clamp(-LOGIT_BOUND, LOGIT_BOUND) * 1e6).round() / 1e6
    }

    /// Names what was learned.
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn sum(weights: &[f32], features: &[u32], ends: [usize; GROUPS]) -> f32 {
    let mut from = 0;
    let mut total = 0.0;
    for end in ends {
        let group = features.get(from..end).unwrap_or_default();
        let sum: f32 = group.iter().map(|&i| weights.get(i as usize).copied().unwrap_or(0.0)).sum();
        total += sum / (group.len().max(1) as f32).sqrt();
        from = end;
    }
    total
}

fn step(c: &Correction, gradient: f32, weights: &mut [f32], squares: &mut [f32]) {
    let mut from = 0;
    for end in c.ends.map(usize::from) {
        let group = c.features.get(from..end).unwrap_or_default();
        let part = gradient / (group.len().max(1) as f32).sqrt();
        for &i in group {
            let i = i as usize;
            if let (Some(weight), Some(square)) = (weights.get_mut(i), squares.get_mut(i)) {
                *square += part * part;
                *weight += RATE * part / (1.0 + *square).sqrt();
            }
        }
        from = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newsletter(i: usize) -> String {
        format!(
            "From: Garden News <news@garden.example.org>\nSubject: Roses in week {i}\n\n\
             This week: offers on roses, save {i} %. Order now at http://garden.example.org/{i}\n"
        )
    }

    struct School {
        model: Arc<Model>,
        scratch: ClassifierScratch,
        corrections: BTreeMap<MessageId, Correction>,
    }

    impl School {
        fn new() -> Self {
            School {
                model: Model::shipped(),
                scratch: ClassifierScratch::default(),
                corrections: BTreeMap::new(),
            }
        }

        fn say(&mut self, raw: &str, spam: bool, reporter: &str) {
            let by = (reporter_id(reporter), 0);
            let message = Message::parse(raw.as_bytes());
            let c = Correction::new(&message, &self.model, &mut self.scratch, spam, by);
            self.corrections.insert(message_id(raw.as_bytes()), c);
        }

        /// How far the site moves a message.
        fn moves(&mut self, raw: &str) -> f64 {
            let site = SiteModel::learn(&self.corrections);
            self.scratch.read(&Message::parse(raw.as_bytes()));
            site.logit(&self.scratch)
        }
    }

    #[test]
    fn corrections_reach_similar_mail_and_can_be_taken_back() {
        let mut school = School::new();
        assert_eq!(school.moves(&newsletter(99)), 0.0);
        for i in 0..10 {
            school.say(&newsletter(i), true, "ann");
        }
        let taught = school.moves(&newsletter(99));
        assert!(taught > 0.5, "{taught}");
        for i in 0..10 {
            school.say(&newsletter(i), true, "ann");
        }
        assert_eq!(school.moves(&newsletter(99)), taught, "learned twice");
        school.corrections.clear();
        assert_eq!(school.moves(&newsletter(99)), 0.0, "taken back");
    }

    #[test]
    fn who_calls_all_mail_spam_does_not_make_good_mail_spam() {
        use crate::{Scratch, Settings, Snapshot, scan, snapshot::Learned};
        use gauntlet_verdict::Class;
        let good = |i: usize| {
            let (day, room) = (["Monday", "Tuesday", "Friday"][i % 3], i % 17);
            format!(
                "From: Ann Miller <ann{}@example.org>\nTo: bob@example.net\nSubject: Re: meeting on {day}\n\
                 In-Reply-To: <{i}@example.org>\nReferences: <{i}@example.org>\n\
                 Date: Mon, 6 Jan 2025 10:00:00 +0100\nMessage-ID: <x{i}@example.org>\n\n\
                 > could we meet on {day}?\n\nYes, at ten in room {room}. I will bring the minutes \
                 and the list of changes for the patch.\n\nThanks, Ann\n",
                i % 5
            )
        };
        let mut school = School::new();
        for i in 0..2_000 {
            school.say(&good(i), true, "mallory");
        }
        let moved = school.moves(&good(5_000));
        assert!(moved > 0.0 && moved <= LOGIT_BOUND, "{moved}");
        let site = Some(Arc::new(SiteModel::learn(&school.corrections)));
        let snapshot = Snapshot::build(&Settings::default()).unwrap();
        let snapshot = snapshot.with_learned(Learned { site, signatures: None });
        let raw = good(5_000);
        let message = Message::parse(raw.as_bytes());
        let (envelope, facts) = Default::default();
        let verdict = scan(&message, &envelope, &facts, &snapshot, &mut Scratch::default());
        assert!(verdict.class < Class::Suspect, "{:?} {:?}", verdict.class, verdict.probability);
    }

    #[test]
    fn one_reporter_cannot_outvote_the_others() {
        let mut school = School::new();
        for i in 0..300 {
            school.say(&newsletter(i), true, "mallory");
        }
        let alone = school.moves(&newsletter(999));
        for i in 300..320 {
            school.say(&newsletter(i), false, &format!("user{i}"));
        }
        let together = school.moves(&newsletter(999));
        assert!(alone.abs() <= LOGIT_BOUND);
        assert!(together < alone / 2.0, "{together} against {alone}");
    }
}
