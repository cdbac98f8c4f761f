//! What rules cost on live packets: every so manieth is measured, by all threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use gauntlet_ids::detect::{Clock, Cost, Program, Taken};
use serde_json::{Value, json};

/// Rules of a record, those that took longest.
const RULES_MAX: usize = 500;
/// Rules of the summary at the end.
const SUMMARY_MAX: usize = 10;

/// Nanoseconds since the first call.
pub(crate) const CLOCK: Clock = || {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let since = BEGUN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
};

/// Sums of all threads.
#[derive(Debug, Default)]
pub(super) struct Costs(Mutex<Sum>);

#[derive(Debug, Default)]
struct Sum {
    detection: Cost,
    /// By generator, number and revision.
    rules: BTreeMap<[u32; 3], Cost>,
}

impl Costs {
    /// Adds what a thread has counted; the numbers are those of this program.
    pub(super) fn add(&self, program: &Program, taken: &Taken) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sum.detection.join(&taken.detection);
        for (number, cost) in &taken.rules {
            let Some(rule) = program.rules.rules.get(*number as usize) else { continue };
            sum.rules.entry([rule.gid, rule.sid, rule.rev]).or_default().join(cost);
        }
    }

    /// The rules that took longest, with the most first.
    fn costly(&self) -> (Cost, Vec<([u32; 3], Cost)>) {
        let sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules: Vec<_> = sum.rules.iter().map(|(rule, cost)| (*rule, *cost)).collect();
        rules.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.nanoseconds));
        (sum.detection, rules)
    }

    /// The fields of a record: what was measured since the start; each rule with how often it was
    /// tried, how often it matched, and nanoseconds.
    pub(super) fn record(&self, every: u32) -> Value {
        let (detection, rules) = self.costly();
        let rule = |(rule, cost): &([u32; 3], Cost)| {
            json!([name(*rule), cost.checks, cost.matches, cost.nanoseconds])
        };
        json!({
            "every": every,
            "packets": detection.checks,
            "nanoseconds": detection.nanoseconds,
            "rules": rules.iter().take(RULES_MAX).map(rule).collect::<Vec<_>>(),
        })
    }

    /// For people, at the end; empty if nothing was measured.
    pub(super) fn summary(&self) -> String {
        let (detection, rules) = self.costly();
        if detection.checks == 0 {
            return String::new();
        }
        let all = detection.nanoseconds.max(1) as f64;
        let each = all / detection.checks as f64 / 1e3;
        let mut text =
            format!("rules cost {each:.1} us a packet ({} measured); most:", detection.checks);
        for (rule, cost) in rules.iter().take(SUMMARY_MAX) {
            let share = cost.nanoseconds as f64 * 100.0 / all;
            let (name, checks, matches) = (name(*rule), cost.checks, cost.matches);
            text.push_str(&format!("\n  {share:.1} %  {name}, tried {checks}, matched {matches}"));
        }
        text
    }
}

fn name([gid, sid, rev]: [u32; 3]) -> String {
    format!("{gid}:{sid}:{rev}")
}
