//! How connections to mail exchangers of other domains were encrypted (RFC 8460 section 4): counted
//! by day and domain, and kept in a file, so that a restart loses a minute at most.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gauntlet_store::files;
use serde::{Deserialize, Serialize};

use crate::clock::Day;

/// Domains of one day that are counted; others are not.
const DOMAINS_MAX: usize = 10_000;
/// Policies of one domain that are counted by themselves on one day.
const POLICIES_MAX: usize = 8;
/// Failures of one policy with a row of their own; others are counted only.
const FAILURES_MAX: usize = 50;
/// Days that are kept.
const DAYS_MAX: usize = 3;
/// Bytes of a reason that are kept.
const REASON_BYTES_MAX: usize = 200;

/// The policy that a connection was made under.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicySeen {
    /// `tlsa`, `sts` or `no-policy-found`.
    pub kind: String,
    /// Its lines, as far as they are known.
    pub lines: Vec<String>,
    /// Hosts that it names.
    pub hosts: Vec<String>,
}

/// Connections that failed alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Failed {
    /// As RFC 8460 section 4.3 names it, e.g. `certificate-expired`.
    pub kind: String,
    /// Host name of the mail exchanger.
    pub host: String,
    /// Its address; none if it did not come to a connection.
    pub address: Option<IpAddr>,
    /// What the failure said.
    pub reason: String,
    /// Number of sessions that failed so.
    pub count: u64,
}

/// Connections under one policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// The policy that was in force (RFC 8460 section 4.4).
    pub policy: PolicySeen,
    /// Encrypted as the policy asks.
    pub good: u64,
    /// Not, or not at all.
    pub bad: u64,
    /// Failed sessions, by what failed.
    pub failed: Vec<Failed>,
}

type Days = BTreeMap<i64, BTreeMap<String, Vec<Counted>>>;

#[derive(Debug, Default)]
struct State {
    days: Days,
    changed: bool,
}

/// What was counted. Share it as `Arc<TlsOutcomes>`.
#[derive(Debug)]
pub struct TlsOutcomes {
    path: PathBuf,
    enabled: AtomicBool,
    state: Mutex<State>,
}

impl TlsOutcomes {
    /// With what this file holds, if it can be read.
    pub fn open(path: &Path, enabled: bool) -> Self {
        let state = State { days: files::read_cache(path), changed: false };
        TlsOutcomes {
            path: path.to_owned(),
            enabled: AtomicBool::new(enabled),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now on, or no more.
    pub fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Counts a connection to a mail exchanger of `domain`: encrypted as the policy asks, or how it
    /// failed. `failed.count` does not matter.
    pub fn count(&self, domain: &str, policy: &PolicySeen, failed: Option<Failed>, now_ms: i64) {
        if !self.enabled.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        state.changed = true;
        let days = &mut state.days;
        let domains = days.entry(Day::of(now_ms).0).or_default();
        if domains.len() >= DOMAINS_MAX && !domains.contains_key(domain) {
            return;
        }
        let policies = domains.entry(domain.to_owned()).or_default();
        let index = policies.iter().position(|c| c.policy == *policy);
        let index = match index {
            Some(index) => index,
            None if policies.len() >= POLICIES_MAX => return,
            None => {
                policies.push(Counted { policy: policy.clone(), ..Counted::default() });
                policies.len() - 1
            }
        };
        let Some(counted) = policies.get_mut(index) else { return };
        match failed {
            None => counted.good += 1,
            Some(mut failed) => {
                counted.bad += 1;
                failed.reason = gauntlet_smtp::text::excerpt(&failed.reason, REASON_BYTES_MAX);
                failed.count = 0;
                let like = |f: &&mut Failed| Failed { count: 0, ..(**f).clone() } == failed;
                if let Some(known) = counted.failed.iter_mut().find(like) {
                    known.count += 1;
                } else if counted.failed.len() < FAILURES_MAX {
                    failed.count = 1;
                    counted.failed.push(failed);
                }
            }
        }
        while days.len() > DAYS_MAX {
            days.pop_first();
        }
    }

    /// What was counted on a day, by domain.
    pub fn of(&self, day: Day) -> BTreeMap<String, Vec<Counted>> {
        self.state().days.get(&day.0).cloned().unwrap_or_default()
    }

    /// Writes the file, if there is something new. Blocks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&self) -> std::io::Result<()> {
        let text = {
            let mut state = self.state();
            if !state.changed {
                return Ok(());
            }
            state.changed = false;
            serde_json::to_vec(&state.days)?
        };
        files::write_durably(&self.path, &text)
    }
}

/// The kind of a failed handshake (RFC 8460 section 4.3), from what it said.
pub fn kind_of(reason: &str, policy: &PolicySeen) -> &'static str {
    let says = |word: &str| reason.contains(word);
    match () {
        () if says("sender.roots") => "validation-failure",
        () if policy.kind == "tlsa" && says("certificate") => "validation-failure",
        () if says("NotValidForName") || says("not valid for name") => "certificate-host-mismatch",
        () if says("Expired") || says("expired") => "certificate-expired",
        () if says("UnknownIssuer") || says("CaUsedAsEndEntity") => "certificate-not-trusted",
        () => "validation-failure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(reason: &str) -> Option<Failed> {
        let (kind, host) = ("certificate-expired".to_owned(), "mx.example".to_owned());
        Some(Failed { kind, host, reason: reason.to_owned(), ..Failed::default() })
    }

    #[test]
    fn counts_survive_a_restart_and_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.json");
        let (day, policy) = (Day(20_000), PolicySeen::default());
        let now = day.begin_ms() + 5;
        let outcomes = TlsOutcomes::open(&path, true);
        for n in 0..200 {
            outcomes.count("a.example", &policy, failed(&format!("{}", n % 60)), now);
        }
        outcomes.count("a.example", &policy, None, now);
        for n in 0..20_000 {
            outcomes.count(&format!("d{n}.example"), &policy, None, now);
        }
        outcomes.flush().unwrap();
        let again = TlsOutcomes::open(&path, false);
        let read = again.of(day);
        assert_eq!(read, outcomes.of(day));
        assert_eq!(read.len(), DOMAINS_MAX);
        let counted = &read["a.example"][0];
        assert_eq!((counted.good, counted.bad, counted.failed.len()), (1, 200, FAILURES_MAX));
        assert_eq!(counted.failed[0].count, 4);
        // Not enabled: nothing is counted. Old days go.
        again.count("a.example", &policy, None, now);
        assert_eq!(again.of(day), read);
        again.enable(true);
        for n in 1..=3 {
            again.count("a.example", &policy, None, now + n * gauntlet_mail::date::DAY_MS);
        }
        assert!(again.of(day).is_empty() && !again.of(Day(20_003)).is_empty());
    }
}
