//! What a site's own corrections add: weights on top of everything that ships, how far they are
//! trusted, and where the classes begin on this site's mail.
//!
//! ```text
//! corrections ─▶ weights ──────────────────────────▶ evidence of a message (log odds)
//!          └───▶ weights without a fifth, five times: what each correction would have been judged
//!                  ├─▶ trust in the weights        ├─▶ bias of a mailbox that taught enough
//!                  └─▶ upper end of good mail's log odds ─▶ probabilities that keep the errors
//! good mail that nobody corrected ───────▲
//! ```
//!
//! All of what is learned from corrections is a pure function of the current ones: learning a
//! message twice changes nothing, taking a correction back leaves no trace, and the order of
//! corrections does not count.
//! Learning makes a new model; scans go on with the old one until the new one is published.
//!
//! **No single reporter can poison it.** A reporter's corrections count [`REPORTER_SHARE`] messages
//! together at most: who reports a thousand messages counts [`REPORTER_SHARE`] thousandths a
//! message. Corrections that contradict each other predict each other badly, and so are trusted
//! less. The effect of all together is bounded for each message by ± [`LOGIT_BOUND`].

mod calibration;
pub mod good_mail;
mod identities;
mod thresholds;
mod weights;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::{SiteCalibration, Thresholds};

use self::calibration::{HeldOut, Tail};
use self::good_mail::{GoodMail, SampleKind};
use self::weights::{Sample, Weights, credibility};
use crate::classifier::ClassifierScratch;
use crate::classifier::group::TABLE_BITS;
use crate::corrections::{Correction, MessageId, is_policy, reporter_id, voter};

pub(crate) use self::identities::of_message as identities_of;

/// Messages that one reporter's corrections count together at most.
pub const REPORTER_SHARE: f32 = 20.0;
/// Messages that all rules of the policy that teach (`learn`) count together at most: half a
/// message of a person, since steps adapt to small weights and many messages reach more words than
/// a few.
pub const POLICY_SHARE: f32 = REPORTER_SHARE / 40.0;
/// Messages by which the corrections of one kind, unwanted or good, may outweigh those of the
/// other: who only ever releases mail must not make all mail good.
pub const ONE_SIDED_MAX: f32 = 15.0;
/// Most that the site's weights move a message's log odds.
pub const LOGIT_BOUND: f64 = 12.0;
/// Parts into which corrections are dealt, each judged by weights of the others.
const PARTS: u8 = 5;
/// Corrections up to which all parts are judged; of more one part is enough, and quick.
const ALL_PARTS_MAX: usize = 2_000;
/// Corrections with which what contradicts one of them counts half.
const CREDIBILITY_FROM: f64 = 20.0;
/// Corrections of a mailbox from which it has a bias of its own.
const MAILBOX_MIN: usize = 10;
/// Names by which the services call the user of a mailbox when they learn.
const REPORTER_PREFIXES: [&str; 4] = ["", "spamd:", "rspamd:", "http:"];

/// What a site's corrections put on top of what ships.
pub struct SiteModel {
    weights: Weights,
    /// What the weights are multiplied by.
    trust: f64,
    /// By reporter: how far the mail of a mailbox is from what was expected of it.
    biases: BTreeMap<u64, f64>,
    /// Held-out log odds of good corrections with their shares, for the thresholds.
    good: Vec<(f64, f64)>,
    /// Corrections, of unwanted and of good mail.
    counts: (usize, usize),
    version: Arc<str>,
}

impl std::fmt::Debug for SiteModel {
    /// Leaves out a million weights.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SiteModel")
            .field("version", &self.version)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

impl SiteModel {
    /// Trains on all current corrections, from zero weights.
    pub fn learn(corrections: &BTreeMap<MessageId, Correction>) -> Self {
        let shares = shares(corrections);
        let of_reporter = |c: &Correction| shares.get(&c.reporter).copied().unwrap_or(1.0);
        let kinds = kinds(corrections.values().map(|c| (c.spam, of_reporter(c))));
        let share = |c: &Correction| of_reporter(c) * kinds[usize::from(c.spam)];
        let train = |part: u8| {
            let kept = corrections.iter().filter(|(id, _)| part_of(id) != part);
            let samples: Vec<Sample<'_>> = kept.map(|(_, c)| sample(c, share(c))).collect();
            Weights::train(&samples, TABLE_BITS)
        };
        let parts = if corrections.len() > ALL_PARTS_MAX { 1 } else { PARTS };
        let (mut held_out, mut held_out_ids) = (Vec::new(), Vec::new());
        for part in 0..parts {
            let others = train(part);
            for (id, c) in corrections.iter().filter(|(id, _)| part_of(id) == part) {
                let sample = sample(c, share(c));
                held_out.push(HeldOut {
                    base: f64::from(c.base),
                    site: f64::from(others.sum(&sample)),
                    spam: c.spam,
                    share: f64::from(of_reporter(c)),
                });
                held_out_ids.push(*id);
            }
        }
        let trust = calibration::trust(&held_out);
        let judged = |one: &HeldOut| one.base + (trust * one.site).clamp(-LOGIT_BOUND, LOGIT_BOUND);
        let sure = corrections.len() as f64 / (corrections.len() as f64 + CREDIBILITY_FROM);
        let agreed = |one: &HeldOut| sure * if one.spam { judged(one) } else { -judged(one) };
        let credible = held_out_ids.iter().zip(&held_out);
        let credible: BTreeMap<&MessageId, f32> =
            credible.map(|(id, one)| (id, credibility(agreed(one)))).collect();
        let samples = corrections.iter().map(|(id, c)| Sample {
            credibility: credible.get(id).copied().unwrap_or(1.0),
            ..sample(c, share(c))
        });
        let reporters: Vec<u64> = held_out_ids.iter().map(|id| corrections[id].reporter).collect();
        let good = held_out.iter().filter(|h| !h.spam).map(|h| (judged(h), h.share)).collect();
        let spam = corrections.values().filter(|c| c.spam).count();
        SiteModel {
            weights: Weights::train(&samples.collect::<Vec<_>>(), TABLE_BITS),
            trust,
            biases: biases(&reporters, &held_out, judged),
            good,
            counts: (spam, corrections.len() - spam),
            version: version(corrections),
        }
    }

    /// How far the site moves the log odds of a message that the scratch has read.
    pub(crate) fn evidence(
        &self,
        (message, envelope, facts): (&Message<'_>, &Envelope, &Facts),
        scratch: &ClassifierScratch,
    ) -> SiteEvidence {
        let (features, ends) = scratch.features();
        let ends = ends.map(|end| u16::try_from(end).unwrap_or(u16::MAX));
        let identities = identities_of(message, envelope, facts);
        let moved = self.trust
            * f64::from(self.weights.sum(&Sample {
                base: 0.0,
                spam: false,
                share: 1.0,
                credibility: 1.0,
                features,
                ends: &ends,
                identities: &identities,
            }));
        let mailbox = match &*envelope.rcpt_to {
            [address] => self.bias_of(address),
            _ => 0.0,
        };
        let (weights, mailbox) =
            (rounded(moved.clamp(-LOGIT_BOUND, LOGIT_BOUND)), rounded(mailbox));
        SiteEvidence { weights, mailbox, corrections: self.counts.0 + self.counts.1 }
    }

    fn bias_of(&self, address: &str) -> f64 {
        let bias = |prefix: &&str| self.biases.get(&reporter_id(&format!("{prefix}{address}")));
        REPORTER_PREFIXES.iter().find_map(bias).copied().unwrap_or(0.0)
    }

    /// Names what was learned.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// What a site knows of its good mail, and what its corrections say of themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SiteMail<'s> {
    /// What was corrected.
    pub(crate) site: Option<&'s SiteModel>,
    /// What counts as good without a correction.
    pub(crate) good_mail: Option<&'s GoodMail>,
}

impl SiteMail<'_> {
    /// Where classes begin for this site's mail: the configured errors as what is known of its good
    /// mail carries them.
    pub(crate) fn thresholds(&self, configured: &Thresholds) -> Thresholds {
        match self {
            SiteMail { site: None, good_mail: None } => *configured,
            _ => thresholds::of_site(configured, &tail(self.good())),
        }
    }

    /// What is promised, what was found on good mail that had no part in it, and how sure that is.
    pub(crate) fn calibration(&self, configured: &Thresholds) -> SiteCalibration {
        let good = self.good();
        let corrected = self.site.map_or(&[][..], |site| &site.good).len();
        let (spam, corrected_good) = self.site.map_or((0, 0), |site| site.counts);
        let samples = |kind| self.good_mail.map_or(0, |mail| mail.count(kind));
        SiteCalibration {
            spam,
            good: corrected_good,
            released: samples(SampleKind::Released),
            known_authors: samples(SampleKind::KnownAuthor),
            // From 0, since the sum of no floats at all is -0.
            uncorrected_share: good.iter().skip(corrected).fold(0.0, |sum, g| sum + g.1),
            trust: self.site.map_or(1.0, |site| site.trust),
            checks: thresholds::checks(configured, &tail(good.clone()), &good),
        }
    }

    /// Log odds of good mail with what each counts: corrections first.
    fn good(&self) -> Vec<(f64, f64)> {
        let mut good = self.site.map_or_else(Vec::new, |site| site.good.clone());
        let corrected = good.iter().map(|g| g.1).sum();
        good.extend(self.good_mail.map(|mail| mail.weighted(corrected)).unwrap_or_default());
        good
    }
}

fn tail(good: Vec<(f64, f64)>) -> Tail {
    Tail::fit(thresholds::shipped_tail(), good)
}

/// What the site says of one message, in log odds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SiteEvidence {
    /// What its corrections taught about such mail.
    pub(crate) weights: f64,
    /// What the mailbox taught about its mail.
    pub(crate) mailbox: f64,
    /// Corrections that it rests on.
    pub(crate) corrections: usize,
}

fn rounded(odds: f64) -> f64 {
    (odds * 1e6).round() / 1e6
}

fn part_of(id: &MessageId) -> u8 {
    id[0] % PARTS
}

fn sample(c: &Correction, share: f32) -> Sample<'_> {
    Sample {
        base: c.base,
        spam: c.spam,
        share,
        credibility: 1.0,
        features: &c.features,
        ends: &c.ends,
        identities: &c.identities,
    }
}

/// What each correction of a reporter counts.
fn shares(corrections: &BTreeMap<MessageId, Correction>) -> BTreeMap<u64, f32> {
    let mut by_voter: BTreeMap<u64, f32> = BTreeMap::new();
    for c in corrections.values() {
        *by_voter.entry(voter(c.reporter)).or_insert(0.0) += 1.0;
    }
    let share = |reporter: u64| match by_voter.get(&voter(reporter)) {
        Some(&count) if is_policy(reporter) => (POLICY_SHARE / count).min(1.0),
        Some(&count) if reporter != 0 => (REPORTER_SHARE / count).min(1.0),
        _ => 1.0,
    };
    corrections.values().map(|c| (c.reporter, share(c.reporter))).collect()
}

/// What the corrections of each kind, good and unwanted, count.
fn kinds(said: impl Iterator<Item = (bool, f32)>) -> [f32; 2] {
    let mut sums = [0.0_f32; 2];
    said.for_each(|(spam, share)| sums[usize::from(spam)] += share);
    let [good, spam] = sums;
    let of = |own: f32, other: f32| ((other + ONE_SIDED_MAX) / own.max(1.0)).min(1.0);
    [of(good, spam), of(spam, good)]
}

/// How far the mail of each person who corrected enough is from what is expected.
fn biases(
    reporters: &[u64],
    held_out: &[HeldOut],
    judged: impl Fn(&HeldOut) -> f64,
) -> BTreeMap<u64, f64> {
    let mut by_reporter: BTreeMap<u64, Vec<(f64, bool)>> = BTreeMap::new();
    for (&reporter, one) in reporters.iter().zip(held_out) {
        if reporter != 0 && !is_policy(reporter) {
            by_reporter.entry(reporter).or_default().push((judged(one), one.spam));
        }
    }
    by_reporter.retain(|_, said| said.len() >= MAILBOX_MIN);
    by_reporter.into_iter().map(|(who, said)| (who, calibration::bias(&said))).collect()
}

fn version(corrections: &BTreeMap<MessageId, Correction>) -> Arc<str> {
    let mut hash = blake3::Hasher::new();
    for (id, c) in corrections {
        hash.update(id);
        hash.update(&[u8::from(c.spam)]);
        hash.update(&c.reporter.to_le_bytes());
    }
    hash.finalize().to_hex().get(..12).unwrap_or_default().into()
}

/// The network of a client: /24 of IPv4, /64 of IPv6.
fn network(client: IpAddr) -> String {
    match client.to_canonical() {
        IpAddr::V4(ip) => format!("{:?}", &ip.octets()[..3]),
        IpAddr::V6(ip) => format!("{:?}", &ip.segments()[..4]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corrections::message_id;
    use crate::learning::Said;
    use crate::scan::weigh;
    use crate::{Learned, Scratch, Snapshot, scan};
    use gauntlet_verdict::{Class, Verdict};

    fn newsletter(i: usize) -> String {
        format!(
            "From: Garden News <news@garden.example.org>\nSubject: Roses in week {i}\n\n\
             This week: offers on roses, save {i} %. Order now at http://garden.example.org/{i}\n"
        )
    }

    fn minutes(i: usize) -> String {
        let (day, room) = (["Monday", "Tuesday", "Friday"][i % 3], i % 17);
        format!(
            "From: Ann Miller <ann{}@example.org>\nTo: bob@example.net\nSubject: Re: meeting on {day}\n\
             In-Reply-To: <{i}@example.org>\nReferences: <{i}@example.org>\n\
             Date: Mon, 6 Jan 2025 10:00:00 +0100\nMessage-ID: <x{i}@example.org>\n\n\
             > could we meet on {day}?\n\nYes, at ten in room {room}. I will bring the minutes \
             and the list of changes for the patch.\n\nThanks, Ann\n",
            i % 5
        )
    }

    struct Site {
        snapshot: Snapshot,
        scratch: Scratch,
        corrections: BTreeMap<MessageId, Correction>,
    }

    impl Site {
        fn new() -> Self {
            Site {
                snapshot: Snapshot::default_rules(),
                scratch: Scratch::default(),
                corrections: BTreeMap::new(),
            }
        }

        fn report(&mut self, raw: &str, spam: bool, reporter: &str) {
            let message = Message::parse(raw.as_bytes());
            let (envelope, facts) = Default::default();
            let (message, envelope, facts) = (&message, &envelope, &facts);
            let said =
                Said { message, envelope, facts, spam, reporter: reporter_id(reporter), at: 0 };
            let correction = said.correction(&self.snapshot, &mut self.scratch);
            self.corrections.insert(message_id(raw.as_bytes()), correction);
        }

        fn learned(&self) -> Snapshot {
            let site = Some(Arc::new(SiteModel::learn(&self.corrections)));
            self.snapshot.clone().with_learned(Learned { site, ..Learned::default() })
        }

        fn judge(&mut self, raw: &str) -> Verdict {
            let message = Message::parse(raw.as_bytes());
            let (envelope, facts) = Default::default();
            scan(&message, &envelope, &facts, &self.learned(), &mut self.scratch)
        }

        /// How far the site moves a message.
        fn moves(&mut self, raw: &str) -> f64 {
            let message = Message::parse(raw.as_bytes());
            let (envelope, facts) = Default::default();
            weigh(&message, &envelope, &facts, &self.learned(), &mut self.scratch)
                .site
                .unwrap_or(0.0)
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
    fn one_correction_is_felt_by_the_next_near_duplicate() {
        let letter = |name: &str, number: usize| {
            format!(
                "From: \"Lucky Draw\" <win{number}@prizes.example.net>\nTo: {name}@example.org\n\
                 Subject: You have won, {name}\nDate: Mon, 6 Jan 2025 10:00:00 +0100\n\
                 Message-ID: <{number}@prizes.example.net>\n\n\
                 Dear {name}, your address was drawn by our computer in the lottery of the month \
                 and you have won 850,000 dollars. To claim your prize send us your bank account, \
                 a copy of your passport and the processing fee within five days. Ref {number}.\n\
                 http://prizes.example.net/claim/{number}\n"
            )
        };
        let mut site = Site::new();
        let shipped = site.judge(&letter("bob", 7)).probability.unwrap();
        site.report(&letter("ann", 1), false, "ann");
        let released = site.judge(&letter("bob", 7));
        assert!(released.probability.unwrap() < shipped, "{shipped} {:?}", released.probability);
        assert!(released.class < Class::Spam, "{:?} {:?}", released.class, released.probability);
        let hit = released.hit("SITE_HAM").unwrap();
        assert!(hit.evidence[0].text.starts_with("1 correction of this site (-"), "{hit:?}");
    }

    #[test]
    fn one_wrong_correction_makes_no_other_good_mail_spam() {
        let mut site = Site::new();
        site.report(&newsletter(1), true, "ann");
        let other = site.judge(&minutes(1));
        assert!(other.class < Class::Suspect, "{:?} {:?}", other.class, other.probability);
    }

    #[test]
    fn a_few_corrections_that_contradict_the_verdict_leave_other_mail_alone() {
        let lottery = |i: usize| {
            format!(
                "From: \"Lucky Draw\" <win{i}@prizes{i}.example.net>\nTo: ann@example.org\n\
                 Subject: You have won\nDate: Mon, 6 Jan 2025 10:00:00 +0100\n\
                 Message-ID: <{i}@prizes{i}.example.net>\n\nDear winner, your address was drawn \
                 and you have won 850,000 dollars. Send us your bank account, a copy of your \
                 passport and the processing fee.\nhttp://prizes{i}.example.net/claim\n"
            )
        };
        let loan = "From: Fast Credit <loan@credit.example.com>\nTo: ann@example.org\n\
            Subject: Loan offer\nDate: Mon, 6 Jan 2025 10:00:00 +0100\n\
            Message-ID: <1@credit.example.com>\n\nDear customer, we offer you a loan of 50,000 \
            dollars at 2 % without any check. Send us your name, your address and a copy of your \
            passport and you have the money in two days.\nhttp://credit.example.com/apply\n";
        let mut site = Site::new();
        for (number, most) in [(1, 0.5), (3, 2.0)] {
            (0..number).for_each(|i| site.report(&lottery(i), false, "ann"));
            let moved = site.moves(loan);
            assert!(moved.abs() < most, "{number} corrections: {moved}");
        }
    }

    #[test]
    fn tens_of_corrections_move_classes_visibly() {
        let mut site = Site::new();
        assert!(site.judge(&newsletter(99)).class < Class::Suspect);
        for i in 0..30 {
            site.report(&newsletter(i), true, "");
            site.report(&minutes(i), false, "");
        }
        assert_eq!(site.judge(&newsletter(99)).class, Class::Spam);
        assert!(site.judge(&minutes(99)).class < Class::Suspect);
    }

    #[test]
    fn ten_who_teach_the_contrary_do_not_turn_a_site_around() {
        let mut site = Site::new();
        for i in 0..40 {
            site.report(&newsletter(i), true, "");
            site.report(&minutes(i), false, "");
        }
        let (spam, ham) = (site.moves(&newsletter(999)), site.moves(&minutes(999)));
        // Each of the ten says the contrary of fifty messages of their own: together they count 200
        // messages, more than the 80 of the administrator.
        for i in 0..250 {
            site.report(&newsletter(100 + i), false, &format!("contrary{}", i % 10));
            site.report(&minutes(100 + i), true, &format!("contrary{}", i % 10));
        }
        assert!(site.judge(&minutes(999)).class < Class::Spam);
        let after = (site.moves(&newsletter(999)), site.moves(&minutes(999)));
        assert!(after.0 < spam && after.1 > ham, "{spam} {ham} {after:?}");
    }

    #[test]
    fn one_contrary_person_hardly_moves_what_the_others_taught() {
        let mut site = Site::new();
        for i in 0..60 {
            let who = format!("user{}", i % 6);
            site.report(&newsletter(i), true, &who);
            site.report(&minutes(i), false, &who);
        }
        for i in 0..300 {
            site.report(&minutes(100 + i), true, "contrary");
            site.report(&newsletter(1_000 + i), false, "contrary");
        }
        assert!(site.judge(&minutes(999)).class < Class::Suspect);
        assert!(site.moves(&newsletter(999)) > 0.0);
    }

    #[test]
    fn a_mailbox_that_taught_enough_has_a_bias_of_its_own() {
        let mut site = Site::new();
        // Nothing but who says it tells their mail apart.
        for i in 0..30 {
            site.report(&newsletter(2 * i), i % 10 != 0, "ann@example.org");
            site.report(&newsletter(2 * i + 1), false, "bob@example.org");
        }
        let model = SiteModel::learn(&site.corrections);
        let (ann, bob) = (model.bias_of("Ann@example.org"), model.bias_of("bob@example.org"));
        assert!(ann > 0.0 && bob < 0.0, "{ann} {bob}");
        assert_eq!(model.bias_of("eve@example.org"), 0.0);
    }

    #[test]
    fn thresholds_move_as_far_as_there_are_corrections() {
        let mut site = Site::new();
        let configured = site.snapshot.thresholds;
        assert_eq!(site.learned().thresholds, configured, "nothing was corrected");
        let mut moved = Vec::new();
        for upto in [3, 30] {
            for i in 0..upto {
                site.report(&newsletter(i), true, "");
                site.report(&minutes(i), false, "");
            }
            moved.push(site.learned().thresholds.spam_probability);
        }
        // Its good mail is easy to tell, so the promise is kept further down.
        assert!(configured.spam_probability > moved[0] && moved[0] > moved[1], "{moved:?}");
        let found = site.learned().calibration().unwrap();
        assert_eq!((found.spam, found.good), (30, 30));
        let spam = &found.checks[1];
        assert_eq!((spam.class.as_str(), spam.promised), ("spam", configured.errors[1]));
        assert!(spam.interval[0] <= spam.interval[1] && spam.found_max > spam.found);
        assert!(found.checks.iter().all(|c| c.found.is_sign_positive()), "no -0.00 % is shown");
    }

    fn known(authors: u32, each: u32, odds: f32) -> Option<Arc<GoodMail>> {
        let kind = SampleKind::KnownAuthor;
        let sample = |i| good_mail::GoodSample { kind, odds, author: i % authors, day: 20_000 };
        GoodMail::new((0..authors * each).map(sample).collect()).map(Arc::new)
    }

    #[test]
    fn mail_of_known_authors_moves_classes_a_third_of_the_way_and_no_author_far() {
        let snapshot = Snapshot::default_rules();
        let configured = snapshot.thresholds;
        let odds = |p: f64| (p / (1.0 - p)).ln();
        let moved = |good_mail| {
            let learned = Learned { good_mail, ..Learned::default() };
            let learned = snapshot.clone().with_learned(learned);
            let found = learned.calibration().unwrap();
            (odds(configured.spam_probability) - odds(learned.thresholds.spam_probability), found)
        };
        let ((all, found), (one, _)) = (moved(known(600, 3, -6.0)), moved(known(1, 600, -6.0)));
        assert!(all > 0.5 && all <= 3.0, "{all}");
        assert!(one > 0.0 && one < all / 4.0, "{one} of {all}");
        assert_eq!((found.good, found.released, found.known_authors), (0, 0, 1_800));
        assert!((found.uncorrected_share - 10.0).abs() < 1e-6, "{found:?}");
        // An account that was taken over sends spam for weeks: its spam does not make spam good.
        let (raised, _) = moved(known(1, 600, 12.0));
        assert!(raised < 0.0 && raised > -0.3, "{raised}");
    }

    #[test]
    fn a_sample_of_good_mail_is_judged_as_if_nobody_knew_its_author() {
        use gauntlet_mail::facts::AuthResult;
        let mut site = Site::new();
        let odds = |learned: &Snapshot, days, raw: &str| {
            let facts =
                Facts { correspondent_days: days, dmarc: AuthResult::Pass, ..Facts::default() };
            let message = Message::parse(raw.as_bytes());
            scan(&message, &Envelope::default(), &facts, learned, &mut Scratch::default())
        };
        let shipped = site.snapshot.clone();
        let (known, stranger) =
            (odds(&shipped, Some(0), &minutes(1)), odds(&shipped, None, &minutes(1)));
        assert_eq!(known.stranger_odds, stranger.stranger_odds);
        assert!(known.probability < stranger.probability && known.stranger_odds.is_some());
        // What was learned for such mail does not count, what was learned against it does.
        for i in 0..20 {
            site.report(&minutes(i), false, "");
            site.report(&newsletter(i), true, "");
        }
        let learned = site.learned();
        let good = odds(&learned, Some(0), &minutes(99));
        assert_eq!(good.stranger_odds, odds(&shipped, None, &minutes(99)).stranger_odds);
        let bad = odds(&learned, Some(0), &newsletter(99)).stranger_odds;
        assert!(bad > odds(&shipped, None, &newsletter(99)).stranger_odds);
    }

    #[test]
    fn who_calls_all_mail_spam_does_not_make_good_mail_spam() {
        let mut site = Site::new();
        for i in 0..2_000 {
            site.report(&minutes(i), true, "mallory");
        }
        let moved = site.moves(&minutes(5_000));
        assert!(moved > 0.0 && moved <= LOGIT_BOUND, "{moved}");
        let verdict = site.judge(&minutes(5_000));
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
