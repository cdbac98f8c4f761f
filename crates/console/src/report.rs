//! Reports: what passed in some days, how good the verdicts were by users' corrections, who sent
//! and who got most; and what passed of the web. As a page, CSV, PDF, JSON and mail.

pub mod csv;
pub mod mail;
pub mod pdf;
pub mod web;

use std::collections::BTreeMap;

use gauntlet_mail::date::{DAY_MS, day_name};
use gauntlet_store::StoreError;
use gauntlet_store::log::MessageLog;
use gauntlet_store::log::TopKind;
use gauntlet_verdict::Class;
use serde::Serialize;

use crate::text::translatable;

/// Most days of a report.
pub const DAYS_MAX: i64 = 100;
/// Names in a list.
const NAMES_MAX: usize = 20;

/// What passed in some days.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// First day (UTC), `2026-11-15`.
    pub since: String,
    /// Last day (UTC), included.
    pub until: String,
    /// Day by day, oldest first; days without mail, too.
    pub days: Vec<Day>,
    /// Number of messages by class.
    pub classes: BTreeMap<Class, u64>,
    /// Messages by final disposition of their first recipient.
    pub actions: BTreeMap<String, u64>,
    /// Bytes of all messages.
    pub bytes: u64,
    /// How good the verdicts were.
    pub accuracy: Accuracy,
    /// Domains that sent most.
    pub senders: Vec<Name>,
    /// Recipients who got most.
    pub recipients: Vec<Name>,
    /// Our domains, the busiest first.
    pub domains: Vec<Domain>,
    /// Rules that hit most.
    pub rules: Vec<Name>,
    /// Web requests of these days; none if the node has no web log, or who asks may not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<web::WebReport>,
}

/// Numbers of one day.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Day {
    /// Day of UTC, `2026-11-15`.
    pub day: String,
    /// Number of messages by class.
    pub classes: BTreeMap<Class, u64>,
    /// Bytes of its messages.
    pub bytes: u64,
}

/// How often users corrected verdicts. What no user looked at is not known: shares are of all
/// messages, so a bound from below on mistakes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Accuracy {
    /// Messages judged worse than bulk.
    pub unwanted: u64,
    /// Of those, how many users released or called wanted.
    pub wrongly_unwanted: u64,
    /// Messages judged ham or bulk.
    pub wanted: u64,
    /// Of those, how many users called unwanted.
    pub wrongly_wanted: u64,
}

impl Accuracy {
    /// Share of the unwanted that users took for wanted, 0 to 1; none without any.
    pub fn false_positives(&self) -> Option<f64> {
        (self.unwanted > 0).then(|| self.wrongly_unwanted as f64 / self.unwanted as f64)
    }

    /// Share of the wanted that users took for unwanted, 0 to 1; none without any.
    pub fn false_negatives(&self) -> Option<f64> {
        (self.wanted > 0).then(|| self.wrongly_wanted as f64 / self.wanted as f64)
    }
}

/// A name and how often it occurred.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Name {
    /// A domain or a rule.
    pub name: String,
    /// In how many messages.
    pub messages: u64,
}

/// One of our domains.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Domain {
    /// Name of the domain.
    pub domain: String,
    /// Messages by class, in both directions.
    pub classes: BTreeMap<Class, u64>,
}

impl Domain {
    /// Number of messages of all classes.
    pub fn messages(&self) -> u64 {
        self.classes.values().sum()
    }
}

impl Report {
    /// Number of messages of all classes.
    pub fn messages(&self) -> u64 {
        self.classes.values().sum()
    }

    /// The lists of names with their titles, which are phrases.
    pub(crate) fn tops(&self) -> [(&'static str, &[Name]); 3] {
        [
            (translatable("Top sender domains"), &self.senders),
            (translatable("Top recipients"), &self.recipients),
            (translatable("Top rules"), &self.rules),
        ]
    }
}

/// The time of the `days` whole days (UTC) that end with the one of `until_ms`: from the first
/// millisecond to the one after the last.
pub fn span(days: i64, until_ms: i64) -> (i64, i64) {
    let last = until_ms.div_euclid(DAY_MS);
    let first = last - days.clamp(1, DAYS_MAX) + 1;
    (first * DAY_MS, (last + 1) * DAY_MS)
}

/// The report of the `days` whole days (UTC) that end with the one of `until_ms`.
///
/// # Errors
/// If the log cannot be read.
pub fn report(log: &dyn MessageLog, days: i64, until_ms: i64) -> Result<Report, StoreError> {
    let (since_ms, end_ms) = span(days, until_ms);
    let (first, last) = (since_ms / DAY_MS, end_ms / DAY_MS - 1);
    let mut report = Report { since: day_name(first), until: day_name(last), ..Report::default() };
    report.days = (first..=last).map(|d| Day { day: day_name(d), ..Day::default() }).collect();
    // Spans of 24 hours begin at midnight UTC, as minute 0 did.
    for bucket in log.volume(since_ms, end_ms, 24 * 60)? {
        let at = usize::try_from(bucket.start_ms.div_euclid(DAY_MS) - first).ok();
        if let Some(day) = at.and_then(|at| report.days.get_mut(at)) {
            *day.classes.entry(bucket.class).or_default() += bucket.messages;
            day.bytes += bucket.bytes;
        }
        *report.classes.entry(bucket.class).or_default() += bucket.messages;
        *report.actions.entry(bucket.action).or_default() += bucket.messages;
        report.bytes += bucket.bytes;
    }
    report.accuracy = accuracy(log, &report.classes, since_ms, end_ms)?;
    report.senders = most(log.tops(TopKind::Sender, since_ms, end_ms)?);
    report.recipients = most(log.top_recipients(since_ms, end_ms)?);
    report.rules = most(log.tops(TopKind::Rule, since_ms, end_ms)?);
    report.domains = domains(log, since_ms, end_ms)?;
    Ok(report)
}

fn is_unwanted(class: Class) -> bool {
    class > Class::Bulk
}

fn accuracy(
    log: &dyn MessageLog,
    classes: &BTreeMap<Class, u64>,
    since_ms: i64,
    until_ms: i64,
) -> Result<Accuracy, StoreError> {
    let sum = |unwanted| {
        classes.iter().filter(|(c, _)| is_unwanted(**c) == unwanted).map(|(_, n)| n).sum()
    };
    let mut accuracy = Accuracy { unwanted: sum(true), wanted: sum(false), ..Accuracy::default() };
    // A user who releases and trains reports it twice: the larger of both counts, by class.
    let mut wanted: BTreeMap<Class, u64> = BTreeMap::new();
    for said in log.feedback(since_ms, until_ms)? {
        match said.kind.as_str() {
            "corrected_spam" if !is_unwanted(said.class) => {
                accuracy.wrongly_wanted += said.messages;
            }
            "released" | "corrected_ham" if is_unwanted(said.class) => {
                let known = wanted.entry(said.class).or_default();
                *known = (*known).max(said.messages);
            }
            _ => {}
        }
    }
    accuracy.wrongly_unwanted = wanted.values().sum();
    Ok(accuracy)
}

fn most(names: BTreeMap<String, u64>) -> Vec<Name> {
    let mut all: Vec<Name> =
        names.into_iter().map(|(name, messages)| Name { name, messages }).collect();
    all.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.name.cmp(&b.name)));
    all.truncate(NAMES_MAX);
    all
}

fn domains(log: &dyn MessageLog, since_ms: i64, until_ms: i64) -> Result<Vec<Domain>, StoreError> {
    let mut found: BTreeMap<String, BTreeMap<Class, u64>> = BTreeMap::new();
    for class in Class::ALL {
        for (domain, n) in log.tops(TopKind::Ours(class), since_ms, until_ms)? {
            *found.entry(domain).or_default().entry(class).or_default() += n;
        }
    }
    let mut all: Vec<Domain> =
        found.into_iter().map(|(domain, classes)| Domain { domain, classes }).collect();
    all.sort_by(|a, b| b.messages().cmp(&a.messages()).then_with(|| a.domain.cmp(&b.domain)));
    all.truncate(NAMES_MAX);
    Ok(all)
}

/// A share as text: `0.12 %`.
pub(crate) fn percent(share: Option<f64>) -> Option<String> {
    share.map(|s| format!("{:.2} %", 100.0 * s))
}
