//! What a site's own corrections add: a second table of weights on top of the shipped model.
//!
//! The table is a pure function of the current corrections: learning a message twice changes
//! nothing, taking a correction back leaves no trace, and the order of corrections does not count.
//! Learning makes a new table; scans go on with the old one until the new one is published.
//!
//! **No single reporter can poison it.** A reporter's corrections count [`REPORTER_SHARE`] messages
//! together at most: who reports a thousand messages counts [`REPORTER_SHARE`] thousandths a
//! message. The effect of all reports together is bounded for each message by ± [`LOGIT_BOUND`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classifier::ClassifierScratch;
use crate::classifier::group::{GROUPS, TABLE_BITS};
use crate::corrections::{Correction, MessageId, is_policy, voter};

/// Messages that one reporter's corrections count together at most.
pub const REPORTER_SHARE: f32 = 20.0;
/// Messages that all rules of the policy that teach (`learn`) count together at most: half a
/// message of a person, since steps adapt to small weights and many messages reach more words than
/// a few.
pub const POLICY_SHARE: f32 = REPORTER_SHARE / 40.0;
/// Most that the site's weights move a message's log odds.
pub const LOGIT_BOUND: f64 = 6.0;
/// Times that all corrections are gone through.
const EPOCHS: u32 = 3;
/// First step of a weight.
const RATE: f32 = 0.5;

/// The weights that a site's corrections put on top of the shipped model's.
pub struct SiteModel {
    weights: Vec<f32>,
    version: Arc<str>,
}

impl std::fmt::Debug for SiteModel {
    /// Leaves out a million weights.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SiteModel").field("version", &self.version).finish_non_exhaustive()
    }
}

impl SiteModel {
    /// Trains on all current corrections, from zero weights.
    pub fn learn(corrections: &BTreeMap<MessageId, Correction>) -> Self {
        let mut by_reporter: BTreeMap<u64, f32> = BTreeMap::new();
        let mut hash = blake3::Hasher::new();
        for (id, c) in corrections {
            *by_reporter.entry(voter(c.reporter)).or_insert(0.0) += 1.0;
            hash.update(id);
            hash.update(&[u8::from(c.spam)]);
        }
        let share = |reporter: u64| match by_reporter.get(&voter(reporter)) {
            Some(&count) if is_policy(reporter) => (POLICY_SHARE / count).min(1.0),
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
    use crate::classifier::Model;
    use crate::corrections::{message_id, reporter_id};
    use gauntlet_mail::Message;

    fn newsletter(i: usize) -> String {
        format!(
            "From: Garden News <news@garden.example.org>\nSubject: Roses in week {i}\n\n\
             This week: offers on roses, save {i} %. Order now at http://garden.example.org/{i}\n"
        )
    }

    struct Site {
        model: Arc<Model>,
        scratch: ClassifierScratch,
        corrections: BTreeMap<MessageId, Correction>,
    }

    impl Site {
        fn new() -> Self {
            Site {
                model: Model::shipped(),
                scratch: ClassifierScratch::default(),
                corrections: BTreeMap::new(),
            }
        }

        fn report(&mut self, raw: &str, spam: bool, reporter: &str) {
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
        let mut site = Site::new();
        assert_eq!(site.moves(&newsletter(99)), 0.0);
        for i in 0..10 {
            site.report(&newsletter(i), true, "ann");
        }
        let learned = site.moves(&newsletter(99));
        assert!(learned > 0.5, "{learned}");
        for i in 0..10 {
            site.report(&newsletter(i), true, "ann");
        }
        assert_eq!(site.moves(&newsletter(99)), learned, "learned twice");
        site.corrections.clear();
        assert_eq!(site.moves(&newsletter(99)), 0.0, "taken back");
    }

    #[test]
    fn who_calls_all_mail_spam_does_not_make_good_mail_spam() {
        use crate::{Learned, Scratch, Settings, Snapshot, scan};
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
        let mut site = Site::new();
        for i in 0..2_000 {
            site.report(&good(i), true, "mallory");
        }
        let moved = site.moves(&good(5_000));
        assert!(moved > 0.0 && moved <= LOGIT_BOUND, "{moved}");
        let site = Some(Arc::new(SiteModel::learn(&site.corrections)));
        let snapshot = Snapshot::build(&Settings::default()).unwrap();
        let snapshot = snapshot.with_learned(Learned { site, signatures: None });
        let raw = good(5_000);
        let message = Message::parse(raw.as_bytes());
        let (envelope, facts) = Default::default();
        let verdict = scan(&message, &envelope, &facts, &snapshot, &mut Scratch::default());
        assert!(verdict.class < Class::Suspect, "{:?} {:?}", verdict.class, verdict.probability);
    }

    #[test]
    fn a_policy_cannot_outvote_a_person() {
        use crate::corrections::policy_reporter_id;
        let mut site = Site::new();
        // Ten rules that have each taught thirty messages, against twenty of one person.
        for i in 0..300 {
            let raw = newsletter(i);
            site.report(&raw, true, "x");
            let rule = policy_reporter_id(&format!("rule {}", i % 10));
            site.corrections.get_mut(&message_id(raw.as_bytes())).unwrap().reporter = rule;
        }
        let alone = site.moves(&newsletter(999));
        for i in 300..320 {
            site.report(&newsletter(i), false, "ann");
        }
        let together = site.moves(&newsletter(999));
        assert!(alone > 0.0 && together < 0.0, "{together} against {alone}");
    }

    #[test]
    fn one_reporter_cannot_outvote_the_others() {
        let mut site = Site::new();
        for i in 0..300 {
            site.report(&newsletter(i), true, "mallory");
        }
        let alone = site.moves(&newsletter(999));
        for i in 300..320 {
            site.report(&newsletter(i), false, &format!("user{i}"));
        }
        let together = site.moves(&newsletter(999));
        assert!(alone.abs() <= LOGIT_BOUND);
        assert!(together < alone / 2.0, "{together} against {alone}");
    }
}
