//! What people have used of the policy's quotas, in memory and within bounds. Who keeps it over a
//! restart takes [`Quotas::entries`] from time to time and gives them back.
//!
//! A minute of the clock counts if there was a request in it, or bytes passed; ten requests at once
//! are one minute, and a page that is read for an hour is as many minutes as it asks for something.
//! The minute that is now is not used until it is over: who has an hour, has all of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use gauntlet_policy::web_rules::{QuotaUse, WebQuota};
use serde::{Deserialize, Serialize};

use crate::counters::Counter;

/// Of many people more than the limit, so many in a hundred are forgotten at once.
const FORGOTTEN_PERCENT: usize = 10;

/// What was used of all quotas.
#[derive(Debug)]
pub struct Quotas {
    used: Mutex<Used>,
    entries_max: usize,
    has_changed: AtomicBool,
    refused: Counter,
    forgotten: Counter,
}

#[derive(Debug, Default)]
struct Used {
    /// By quota, then by person.
    by_quota: HashMap<String, HashMap<String, Entry>>,
    all: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    period_start: i64,
    last_minute: i64,
    used: QuotaUse,
}

/// What a person has used of a quota, as it is kept over a restart. Times are Unix seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaEntry {
    /// Name of the quota.
    pub quota: String,
    /// Login, or address.
    pub person: String,
    /// When the period began.
    pub period_start: i64,
    /// The last minute that was counted, in minutes since 1970.
    pub last_minute: i64,
    /// Minutes so far.
    pub minutes: u32,
    /// Bytes so far.
    pub bytes: u64,
}

/// What all people together have used of a quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaSums {
    /// Who used any of it.
    pub people: u64,
    /// Who has used it up.
    pub used_up: u64,
    /// Minutes of all.
    pub minutes: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl Quotas {
    /// With at most so many pairs of quota and person.
    pub fn new(entries_max: usize) -> Self {
        Quotas {
            used: Mutex::default(),
            entries_max,
            has_changed: AtomicBool::new(false),
            refused: Counter::default(),
            forgotten: Counter::default(),
        }
    }

    /// What a person has used of a quota at this time, without the minute that is now.
    pub fn get(&self, quota: &WebQuota, person: &str, unix: i64) -> QuotaUse {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = used.by_quota.get(&quota.name).and_then(|people| people.get(person));
        let entry = entry.filter(|entry| entry.period_start == quota.period_start(unix));
        let Some(Entry { last_minute, used, .. }) = entry else { return QuotaUse::default() };
        let is_now = *last_minute == unix.div_euclid(60);
        QuotaUse { minutes: used.minutes.saturating_sub(is_now.into()), bytes: used.bytes }
    }

    /// Counts a request that a rule has refused since a quota is used up.
    pub fn refused(&self) {
        self.refused.add(1);
    }

    /// Counts this minute, and bytes.
    pub fn add(&self, quota: &WebQuota, person: &str, bytes: u64, unix: i64) {
        let (period_start, minute) = (quota.period_start(unix), unix.div_euclid(60));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let people = used.by_quota.get_mut(&quota.name);
        if people.and_then(|people| people.get_mut(person)).is_none() {
            self.make_room(&mut used);
            used.all += 1;
            let people = used.by_quota.entry(quota.name.clone()).or_default();
            let entry = Entry { period_start, last_minute: i64::MIN, used: QuotaUse::default() };
            people.insert(person.to_owned(), entry);
        }
        let people = used.by_quota.get_mut(&quota.name);
        let Some(entry) = people.and_then(|people| people.get_mut(person)) else {
            return;
        };
        if entry.period_start != period_start {
            *entry = Entry { period_start, last_minute: i64::MIN, used: QuotaUse::default() };
        }
        // A clock that is set back counts no minute twice.
        if minute > entry.last_minute {
            entry.last_minute = minute;
            entry.used.minutes = entry.used.minutes.saturating_add(1);
        }
        entry.used.bytes = entry.used.bytes.saturating_add(bytes);
        self.has_changed.store(true, Ordering::Relaxed);
    }

    /// Forgets those who came last the longest time ago, if there are too many.
    fn make_room(&self, used: &mut Used) {
        if used.all < self.entries_max {
            return;
        }
        let entries = used.by_quota.values().flat_map(HashMap::values);
        let mut last: Vec<i64> = entries.map(|entry| entry.last_minute).collect();
        let most = last.len() * FORGOTTEN_PERCENT / 100;
        let (_, bound, _) = last.select_nth_unstable(most);
        let bound = *bound;
        // Many may have come in the same minute.
        let mut left = most + 1;
        for people in used.by_quota.values_mut() {
            people.retain(|_, entry| {
                let goes = left > 0 && entry.last_minute <= bound;
                left -= usize::from(goes);
                !goes
            });
        }
        let before = used.all;
        used.all = used.by_quota.values().map(HashMap::len).sum();
        self.forgotten.add((before - used.all) as u64);
        tracing::warn!(forgotten = before - used.all, "more people than limits.quota_people_max");
    }

    /// Everything, to be kept, in a fixed order; none if nothing has changed since the last time.
    pub fn changed_entries(&self) -> Option<Vec<QuotaEntry>> {
        if !self.has_changed.swap(false, Ordering::Relaxed) {
            return None;
        }
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let all = used.by_quota.iter().flat_map(|(quota, people)| {
            people.iter().map(move |(person, entry)| QuotaEntry {
                quota: quota.clone(),
                person: person.clone(),
                period_start: entry.period_start,
                last_minute: entry.last_minute,
                minutes: entry.used.minutes,
                bytes: entry.used.bytes,
            })
        });
        let mut all: Vec<QuotaEntry> = all.collect();
        all.sort_by(|a, b| (&a.quota, &a.person).cmp(&(&b.quota, &b.person)));
        Some(all)
    }

    /// Something was counted that was not written: it is to be written again.
    pub fn not_written(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }

    /// Takes what was kept, up to the limit.
    pub fn restore(&self, entries: Vec<QuotaEntry>) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for kept in entries.into_iter().take(self.entries_max) {
            let entry = Entry {
                period_start: kept.period_start,
                last_minute: kept.last_minute,
                used: QuotaUse { minutes: kept.minutes, bytes: kept.bytes },
            };
            used.by_quota.entry(kept.quota).or_default().insert(kept.person, entry);
        }
        used.all = used.by_quota.values().map(HashMap::len).sum();
    }

    /// Forgets quotas that are not among these, and periods that are long over.
    pub fn retain(&self, quotas: &[WebQuota], unix: i64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.by_quota.retain(|name, people| {
            let Some(quota) = quotas.iter().find(|quota| quota.name == *name) else { return false };
            people.retain(|_, entry| entry.period_start == quota.period_start(unix));
            !people.is_empty()
        });
        used.all = used.by_quota.values().map(HashMap::len).sum();
    }

    /// What all people together have used of these quotas in the present period, by quota.
    pub fn sums<'a>(&self, quotas: &'a [WebQuota], unix: i64) -> Vec<(&'a str, QuotaSums)> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |quota: &'a WebQuota| {
            let people = used.by_quota.get(&quota.name).into_iter().flat_map(HashMap::values);
            let start = quota.period_start(unix);
            let mut sums = QuotaSums::default();
            for entry in people.filter(|entry| entry.period_start == start) {
                sums.people += 1;
                sums.used_up += u64::from(quota.is_used_up(entry.used));
                sums.minutes += u64::from(entry.used.minutes);
                sums.bytes = sums.bytes.saturating_add(entry.used.bytes);
            }
            (quota.name.as_str(), sums)
        };
        quotas.iter().map(sum).collect()
    }

    /// Numbers by their names, for metrics.
    pub fn all(&self) -> Vec<(String, u64)> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let named = [
            ("quota_people_now", used.all as u64),
            ("quota_requests_refused", self.refused.get()),
            ("quota_people_forgotten", self.forgotten.get()),
        ];
        named.map(|(name, n)| (name.to_owned(), n)).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_policy::{Groups, Policy};

    use super::*;

    /// Midnight.
    const DAY: i64 = 1_795_651_200;

    fn quotas(text: &str) -> Vec<WebQuota> {
        Policy::parse(text, &Groups::default()).unwrap().web_quotas
    }

    fn social() -> WebQuota {
        quotas("[[web_quota]]\nname = \"S\"\nminutes = 2\nbytes = \"1 MB\"\n").remove(0)
    }

    #[test]
    fn minutes_with_a_request_count_once_and_begin_anew_with_the_period() {
        let (all, quota) = (Quotas::new(100), social());
        let minutes = |at| all.get(&quota, "ann", at).minutes;
        for second in [0, 1, 59] {
            all.add(&quota, "ann", 10, DAY + second);
        }
        assert_eq!(all.get(&quota, "ann", DAY + 59), QuotaUse { minutes: 0, bytes: 30 });
        assert_eq!(minutes(DAY + 60), 1, "it is over");
        assert_eq!(all.get(&quota, "bob", DAY + 60), QuotaUse::default());
        // Nobody asked for half an hour.
        all.add(&quota, "ann", 0, DAY + 1800);
        assert_eq!(minutes(DAY + 1801), 1);
        all.add(&quota, "ann", 0, DAY + 60);
        assert_eq!(minutes(DAY + 1860), 2, "the clock was set back for a moment");
        assert!(quota.is_used_up(all.get(&quota, "ann", DAY + 86_399)));
        assert_eq!(all.get(&quota, "ann", DAY + 86_400), QuotaUse::default());
        all.add(&quota, "ann", 5, DAY + 86_400);
        assert_eq!(all.get(&quota, "ann", DAY + 86_460), QuotaUse { minutes: 1, bytes: 5 });
    }

    #[test]
    fn what_was_used_is_kept_and_given_back() {
        let (all, quota) = (Quotas::new(100), social());
        assert_eq!(all.changed_entries(), None);
        all.add(&quota, "bob", 7, DAY);
        all.add(&quota, "ann", 8, DAY + 60);
        let kept = all.changed_entries().unwrap();
        assert_eq!((kept.len(), kept[0].person.as_str()), (2, "ann"));
        assert_eq!(all.changed_entries(), None, "nothing since");
        let again = Quotas::new(100);
        again.restore(kept);
        again.add(&quota, "ann", 0, DAY + 70);
        let used = again.get(&quota, "ann", DAY + 120);
        assert_eq!(used, QuotaUse { minutes: 1, bytes: 8 }, "the minute was known");
        let quotas = [quota.clone()];
        let sums = QuotaSums { people: 2, used_up: 0, minutes: 2, bytes: 15 };
        assert_eq!(again.sums(&quotas, DAY + 120), [("S", sums)]);
        assert_eq!(again.sums(&quotas, DAY + 86_400), [("S", QuotaSums::default())]);
        again.retain(std::slice::from_ref(&quota), DAY + 70);
        assert_eq!(again.used.lock().unwrap().all, 2);
        again.retain(&[quota], DAY + 86_400);
        assert_eq!(again.used.lock().unwrap().all, 0);
    }

    #[test]
    fn who_came_last_long_ago_is_forgotten_first() {
        let (all, quota) = (Quotas::new(20), social());
        for n in 0..100 {
            all.add(&quota, &n.to_string(), 0, DAY + n * 60);
        }
        let used = all.used.lock().unwrap();
        assert!(used.all <= 20 && used.all >= 18, "{}", used.all);
        assert!(used.by_quota["S"].contains_key("99") && !used.by_quota["S"].contains_key("0"));
        drop(used);
        for n in 0..100 {
            all.add(&quota, &format!("x{n}"), 0, DAY + 6_000);
        }
        assert!(all.used.lock().unwrap().all <= 20, "all in one minute");
    }
}
