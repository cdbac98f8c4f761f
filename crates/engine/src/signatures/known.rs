//! What is known, from the table on disk and from what was learned since, and what a message
//! resembles.
//!
//! Corrections count by who made them: the administrator's and those of probe accounts in full,
//! those of other reporters only once [`REPORTERS_MIN`] of them agree. So no single reporter can
//! make the newsletter that all others read known as bad.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::fingerprint::{Fingerprint, Found, Kind};
use super::table::{Entry, Table};

/// Different reporters that have to agree before they count like one administrator.
pub const REPORTERS_MIN: usize = 2;
/// Most that signatures move the log odds towards spam, and towards ham: mail that imitates good
/// mail word by word is what phishing does.
pub const BAD_BOUND: f64 = 6.0;
/// Most that signatures move the log odds towards ham; see [`BAD_BOUND`].
pub const GOOD_BOUND: f64 = 2.0;
/// Days that what was learned is believed, unless set otherwise.
pub const DAYS_DEFAULT: u16 = 90;

/// Somebody's word about one fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What it is about.
    pub fingerprint: Fingerprint,
    /// Whether it was reported as unwanted; otherwise as good.
    pub spam: bool,
    /// Who; 0 is the administrator or a probe account.
    pub reporter: u64,
    /// Days from 1970 to when it was said.
    pub day: u16,
}

/// What was said about one fingerprint of the recent ones.
#[derive(Debug, Clone)]
struct Recent {
    fingerprint: Fingerprint,
    /// Administrator's and probes' words: bad and good.
    full: [u16; 2],
    /// Reporters who said bad, and good.
    reporters: [BTreeSet<u64>; 2],
    day: u16,
}

impl Recent {
    fn entry(&self) -> Entry {
        let count = |side: usize| {
            let reporters = self.reporters[side].len();
            let counted = if reporters >= REPORTERS_MIN { reporters } else { 0 };
            self.full[side].saturating_add(u16::try_from(counted).unwrap_or(u16::MAX))
        };
        let (bad, good) = (count(0), count(1));
        Entry { fingerprint: self.fingerprint, bad, good, day: self.day }
    }
}

/// All that is known. Immutable: learning makes another one.
#[derive(Debug, Default)]
pub struct KnownSignatures {
    table: Option<Arc<Table>>,
    recent: Vec<Recent>,
    keys: HashMap<u32, Vec<u32>>,
    days: u16,
    version: String,
}

/// Something known that a message resembles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resemblance {
    /// Which of the fingerprints of the message it was.
    pub kind: Kind,
    /// Index of the part of the message that resembles it.
    pub part: u16,
    /// Share of the sketch in common with the closest, 0 to 1.
    pub closeness: f32,
    /// Times that its like was bad.
    pub bad: u32,
    /// Times that its like was good.
    pub good: u32,
    /// The last of those days.
    pub day: u16,
}

impl Resemblance {
    /// What it says about the message: log odds that it is unwanted.
    pub fn log_odds(&self) -> f64 {
        let (bad, good) = (f64::from(self.bad), f64::from(self.good));
        if bad + good == 0.0 {
            return 0.0;
        }
        let weight = match self.kind {
            Kind::Text | Kind::File => 1.0,
            // A firm's picture is in its good mail and in that of its imitators.
            Kind::Image => 0.6,
            // Made with the same tool, or from the same template.
            Kind::Page => 0.3,
        };
        let certain = 3.0 + (1.0 + (bad - good).abs()).ln();
        let one_sided = (bad - good) / (bad + good);
        let odds = weight * certain * one_sided * f64::from(self.closeness);
        odds.clamp(-GOOD_BOUND, BAD_BOUND)
    }
}

impl KnownSignatures {
    /// A table, entries and reports that are not in it. `days` is how long they are believed.
    pub fn new(
        table: Option<Arc<Table>>,
        entries: &[Entry],
        reports: &[Report],
        days: u16,
    ) -> Self {
        let mut known = KnownSignatures { table, days, ..KnownSignatures::default() };
        let mut hash = blake3::Hasher::new();
        for entry in entries {
            if let Some(recent) = known.recent_like(&entry.fingerprint) {
                let [bad, good] = &mut recent.full;
                *bad = bad.saturating_add(entry.bad);
                *good = good.saturating_add(entry.good);
                recent.day = recent.day.max(entry.day);
            }
            hash.update(&entry.to_bytes());
        }
        for report in reports {
            known.learn(report);
            hash.update(&report.reporter.to_le_bytes());
            let (bad, good) = (u16::from(report.spam), u16::from(!report.spam));
            let entry = Entry { fingerprint: report.fingerprint, bad, good, day: report.day };
            hash.update(&entry.to_bytes());
        }
        let table = known.table.as_ref().map_or((0, 0), |t| (t.len(), t.generation()));
        hash.update(&table.0.to_le_bytes());
        hash.update(&table.1.to_le_bytes());
        hash.update(&days.to_le_bytes());
        let name = hash.finalize().to_hex();
        known.version = name.get(..12).unwrap_or_default().to_owned();
        known
    }

    fn learn(&mut self, report: &Report) {
        let Some(recent) = self.recent_like(&report.fingerprint) else { return };
        let side = usize::from(!report.spam);
        match report.reporter {
            0 => recent.full[side] = recent.full[side].saturating_add(1),
            who => {
                recent.reporters[side].insert(who);
            }
        }
        recent.day = recent.day.max(report.day);
    }

    /// The recent one that this is the same as; a new one if there is none.
    fn recent_like(&mut self, fingerprint: &Fingerprint) -> Option<&mut Recent> {
        let same = |r: &Recent| is_same(&r.fingerprint, fingerprint);
        let number = fingerprint.keys().find_map(|key| {
            let numbers = self.keys.get(&key)?;
            numbers.iter().copied().find(|&n| self.recent.get(n as usize).is_some_and(same))
        });
        let number = number.unwrap_or_else(|| {
            let number = self.recent.len() as u32;
            for key in fingerprint.keys() {
                let numbers = self.keys.entry(key).or_default();
                if numbers.len() < PER_KEY_MAX {
                    numbers.push(number);
                }
            }
            self.recent.push(Recent {
                fingerprint: *fingerprint,
                full: [0; 2],
                reporters: Default::default(),
                day: 0,
            });
            number
        });
        self.recent.get_mut(number as usize)
    }

    /// Names what is known, for versions of rulesets.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Number of fingerprints in the table and of those learned since.
    pub fn len(&self) -> usize {
        self.recent.len() + self.table.as_ref().map_or(0, |t| t.len() as usize)
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The recent entries, for writing them into a table.
    pub fn recent(&self) -> impl Iterator<Item = Entry> + '_ {
        self.recent.iter().map(Recent::entry)
    }

    /// What of a message is known, given the day on which it was received. Counts of all near
    /// duplicates are added up.
    pub fn resembles(&self, found: &[Found], today: u16) -> Vec<Resemblance> {
        found.iter().filter_map(|f| self.resemblance(f, today)).collect()
    }

    fn resemblance(&self, found: &Found, today: u16) -> Option<Resemblance> {
        let wanted = &found.fingerprint;
        let mut seen = Resemblance {
            kind: wanted.kind,
            part: found.part,
            closeness: 0.0,
            bad: 0,
            good: 0,
            day: 0,
        };
        let mut weigh = |entry: &Entry| {
            let closeness = wanted.resemblance(&entry.fingerprint);
            let expired = u32::from(entry.day) + u32::from(self.days) < u32::from(today);
            let counted = entry.bad > 0 || entry.good > 0;
            if counted && !expired && closeness >= wanted.kind.resemblance_min() {
                seen.closeness = seen.closeness.max(closeness);
                seen.bad += u32::from(entry.bad);
                seen.good += u32::from(entry.good);
                seen.day = seen.day.max(entry.day);
            }
        };
        if let Some(table) = &self.table {
            table.candidates(wanted, &mut |_, entry| weigh(&entry));
        }
        let mut numbers: Vec<u32> = Vec::new();
        for key in wanted.keys() {
            numbers.extend(self.keys.get(&key).into_iter().flatten());
        }
        numbers.sort_unstable();
        numbers.dedup();
        for recent in numbers.iter().filter_map(|&n| self.recent.get(n as usize)) {
            weigh(&recent.entry());
        }
        (seen.closeness > 0.0).then_some(seen)
    }
}

/// Whether a report about one is about the other.
pub fn is_same(a: &Fingerprint, b: &Fingerprint) -> bool {
    a == b || (a.kind.is_fuzzy() && a.resemblance(b) >= SAME)
}

/// Resemblance from which a report is about a fingerprint that is there already.
const SAME: f32 = 0.9;
/// Recent fingerprints of one key.
const PER_KEY_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::signatures::fingerprint::SKETCH_LENGTH;
    use crate::signatures::table::in_memory;

    fn text(seed: u64) -> Fingerprint {
        let mut random = Random::new(seed);
        let sketch = std::array::from_fn(|_| random.next_u64() as u16);
        Fingerprint { kind: Kind::Text, size: 100, sketch }
    }

    fn changed(mut fingerprint: Fingerprint, values: usize) -> Fingerprint {
        for value in fingerprint.sketch.iter_mut().rev().take(values) {
            *value ^= 1;
        }
        fingerprint
    }

    fn report(fingerprint: Fingerprint, spam: bool, reporter: u64) -> Report {
        Report { fingerprint, spam, reporter, day: 20_000 }
    }

    fn says(known: &KnownSignatures, fingerprint: Fingerprint, today: u16) -> Option<Resemblance> {
        known.resembles(&[Found { fingerprint, part: 0 }], today).into_iter().next()
    }

    #[test]
    fn near_duplicates_of_a_correction_are_found_with_their_closeness() {
        let known = KnownSignatures::new(None, &[], &[report(text(1), true, 0)], 90);
        let like = says(&known, changed(text(1), 6), 20_001).unwrap();
        assert_eq!((like.bad, like.good, like.day), (1, 0, 20_000));
        assert!((like.closeness - 0.75).abs() < 1e-6 && like.log_odds() > 2.0);
        assert!(says(&known, changed(text(1), 14), 20_001).is_none(), "too far");
        assert!(says(&known, text(2), 20_001).is_none());
        assert!(says(&known, text(1), 20_091).is_none(), "expired");
        let good = KnownSignatures::new(None, &[], &[report(text(1), false, 0)], 90);
        let odds = says(&good, text(1), 20_001).unwrap().log_odds();
        assert!((-GOOD_BOUND..0.0).contains(&odds));
    }

    #[test]
    fn one_reporter_alone_makes_nothing_known() {
        let alone = vec![report(text(1), true, 7); 1_000];
        assert!(says(&KnownSignatures::new(None, &[], &alone, 90), text(1), 20_000).is_none());
        let two = [report(text(1), true, 7), report(text(1), true, 8)];
        let like = says(&KnownSignatures::new(None, &[], &two, 90), text(1), 20_000).unwrap();
        assert_eq!(like.bad, 2);
        // The administrator's word against theirs.
        let against = [two[0], two[1], report(text(1), false, 0), report(text(1), false, 0)];
        let known = KnownSignatures::new(None, &[], &against, 90);
        assert_eq!(says(&known, text(1), 20_000).unwrap().log_odds(), 0.0);
    }

    #[test]
    fn table_and_recent_reports_are_added_up() {
        let old = Entry { fingerprint: text(1), bad: 5, good: 0, day: 19_990 };
        let table = Arc::new(Table::new(Box::new(in_memory(&[old]))).unwrap());
        let known =
            KnownSignatures::new(Some(table), &[], &[report(changed(text(1), 1), true, 0)], 90);
        let like = says(&known, text(1), 20_000).unwrap();
        assert_eq!((like.bad, like.day, known.len()), (6, 20_000, 2));
        assert!(SKETCH_LENGTH > 2 && !known.version().is_empty());
    }
}
