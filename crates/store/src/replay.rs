//! What a policy would have done with the mail of the last days: the log, read again.

use std::collections::BTreeMap;

use gauntlet_engine::{Class, Scratch, Snapshot, Thresholds, scan};
use gauntlet_mail::Message;
use gauntlet_policy::decide::Rates;
use gauntlet_policy::replay::{Past, Replay, Replayed};
use gauntlet_policy::{Change, Disposition, Policy, PolicyInput};
use serde::Serialize;

use crate::error::StoreError;
use crate::log::{Log, Query};
use crate::quarantine::Quarantine;
use crate::record::LogRecord;

/// Messages read from the log at once.
const PAGE: usize = 500;
/// Changes that are kept one by one; the others are counted only.
const CHANGES_MAX: usize = 100_000;

/// What to replay, over what.
#[derive(Debug)]
pub struct Order<'a> {
    /// The policy to try.
    pub policy: &'a Policy,
    /// The policy that decided then.
    pub before: &'a Policy,
    /// Where classes begin.
    pub thresholds: Thresholds,
    /// Judge mail whose body is still kept again, by this; other mail keeps its verdict.
    pub snapshot: Option<&'a Snapshot>,
    /// Mail received at or after this Unix time in milliseconds.
    pub since_ms: i64,
}

/// One recipient of one message for whom something else would have been done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changed {
    /// The message's id.
    pub id: String,
    /// Unix time in milliseconds at which it was received.
    pub received_ms: i64,
    /// The recipient.
    pub recipient: String,
    /// The From field.
    pub from: String,
    /// Subject.
    pub subject: String,
    /// Class, by the verdict that was used.
    pub class: Class,
    /// Rule points, likewise.
    pub score: f64,
    /// Probability of being unwanted, likewise.
    pub probability: Option<f64>,
    /// What was done, e.g. `deliver` or `quarantine:spam`.
    pub was: String,
    /// What would have been done.
    pub would_be: String,
    /// The rule that decides now; empty if none does.
    pub rule: String,
    /// Mail that reached its recipient would have been kept away: the likelier a false positive, the lower its
    /// probability.
    pub withheld: bool,
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// Messages of the log that were looked at.
    pub messages: u64,
    /// Not all mail was looked at: this is when the oldest that was had been received, in Unix
    /// milliseconds. None if nothing is missing.
    pub reached_ms: Option<i64>,
    /// Of these, those whose body is still kept.
    pub whole: u64,
    /// Recipients decided for again.
    pub recipients: u64,
    /// Recipients for whom the same would have been done.
    pub same: u64,
    /// Recipients for whom something else would have been done.
    pub different: u64,
    /// Recipients for whom it cannot be told, by the rule that asks for what was not kept.
    pub unknown: BTreeMap<String, u64>,
    /// How many went from what to what.
    pub ways: BTreeMap<String, u64>,
    /// Changes by the rule that decides now.
    pub rules: BTreeMap<String, u64>,
    /// Changes by recipient.
    pub users: BTreeMap<String, u64>,
    /// The changes, likely false positives first.
    pub changes: Vec<Changed>,
}

/// How far a replay is. It goes from the newest mail to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Messages looked at.
    pub messages: u64,
    /// When the last of them was received, in Unix milliseconds.
    pub reached_ms: i64,
}

/// Replays a policy over the log. `progress` is called again and again, and answers whether to go on;
/// if not, the report tells what was found until then.
///
/// # Errors
/// If the log or a kept body cannot be read.
pub fn replay(
    log: &Log,
    quarantine: &Quarantine,
    order: &Order<'_>,
    mut progress: impl FnMut(Progress) -> bool,
) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let compared = Replay::new(order.policy, order.before);
    let mut scratch = Scratch::default();
    let mut query = Query { since_ms: Some(order.since_ms), limit: PAGE, ..Query::default() };
    loop {
        let page = log.search(&query)?;
        for summary in &page.messages {
            // It may be forgotten meanwhile.
            let Some(logged) = log.get(&summary.id)? else { continue };
            let body = quarantine.body(&summary.id)?;
            again(&compared, order, &logged.record, body.as_deref(), &mut scratch, &mut report);
        }
        let reached_ms = page.messages.last().map_or(order.since_ms, |m| m.received_ms);
        let go_on = progress(Progress { messages: report.messages, reached_ms });
        match page.next {
            Some(next) if go_on => query.after = Some(next),
            Some(_) => {
                report.reached_ms = Some(reached_ms);
                break;
            }
            None => break,
        }
    }
    // What was delivered and would be kept away comes first, the most innocent before all.
    let innocence = |c: &Changed| (!c.withheld, c.probability.unwrap_or(0.5), c.score);
    report.changes.sort_by(|a, b| {
        let (a, b) = (innocence(a), innocence(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    Ok(report)
}

/// Decides about one message again.
fn again(
    compared: &Replay<'_>,
    order: &Order<'_>,
    record: &LogRecord,
    body: Option<&[u8]>,
    scratch: &mut Scratch,
    report: &mut Report,
) {
    let fields = fields_of(record);
    let message = Message::parse(body.unwrap_or(&fields));
    let (envelope, facts) = (&record.envelope, &record.facts);
    let judged = match (order.snapshot, body) {
        (Some(snapshot), Some(_)) => Some(scan(&message, envelope, facts, snapshot, scratch)),
        _ => None,
    };
    let verdict = judged.as_ref().unwrap_or(&record.verdict);
    report.messages += 1;
    report.whole += u64::from(body.is_some());
    for disposition in &record.dispositions {
        report.recipients += 1;
        let input = PolicyInput {
            id: &record.id,
            message: &message,
            envelope,
            facts,
            verdict,
            thresholds: &order.thresholds,
            rates: &Rates::default(),
        };
        let past = Past { input, size: record.size, whole: body.is_some(), disposition };
        match compared.decide(&past) {
            Replayed::Unknown { rule } => *report.unknown.entry(rule).or_default() += 1,
            Replayed::Decided(now) if is_same(&now, disposition) => report.same += 1,
            Replayed::Decided(now) => {
                let class = (verdict.class, verdict.score, verdict.probability);
                report.add(changed(record, disposition, &now, class));
            }
        }
    }
}

impl Report {
    fn add(&mut self, changed: Changed) {
        self.different += 1;
        let way = format!("{} -> {}", changed.was, changed.would_be);
        *self.ways.entry(way).or_default() += 1;
        *self.rules.entry(changed.rule.clone()).or_default() += 1;
        *self.users.entry(changed.recipient.clone()).or_default() += 1;
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(changed);
        }
    }
}

fn changed(
    record: &LogRecord,
    was: &Disposition,
    now: &Disposition,
    (class, score, probability): (Class, f64, Option<f64>),
) -> Changed {
    let reaches = |d: &Disposition| matches!(d.end.name(), "deliver" | "redirect");
    let (was_text, mut would_be) = (was.end.to_string(), now.end.to_string());
    if was_text == would_be {
        would_be.push_str(" with other changes");
    }
    Changed {
        id: record.id.clone(),
        received_ms: record.received_ms,
        recipient: was.recipient.clone(),
        from: record.from.clone(),
        subject: record.subject.clone(),
        class,
        score,
        probability,
        was: was_text,
        would_be,
        rule: now.rules.last().cloned().unwrap_or_default(),
        withheld: reaches(was) && !reaches(now),
    }
}

/// The same end and the same changes; header fields that only tell the verdict or the id do not count.
fn is_same(now: &Disposition, was: &Disposition) -> bool {
    let tells = |c: &&Change| !matches!(c, Change::AddHeader { name, .. } if name.starts_with("X-Gauntlet-"));
    now.end == was.end && now.changes.iter().filter(tells).eq(was.changes.iter().filter(tells))
}

/// A message of the fields that the log keeps.
fn fields_of(record: &LogRecord) -> Vec<u8> {
    let line = |text: &str| text.replace(['\r', '\n'], " ");
    let (from, subject) = (line(&record.from), line(&record.subject));
    let id = line(&record.message_id);
    format!("From: {from}\r\nSubject: {subject}\r\nMessage-ID: <{id}>\r\n\r\n").into_bytes()
}
