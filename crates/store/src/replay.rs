//! Policy replay: what a policy would have done with the logged mail of the last days.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_policy::Rates;
use gauntlet_policy::replay::{PastDecision, Replay, Replayed};
use gauntlet_policy::{Policy, PolicyInput};
use gauntlet_verdict::{Change, Class, Disposition, Thresholds, Verdict};
use serde::Serialize;

use crate::error::StoreError;
use crate::log::{Log, Query};
use crate::quarantine::Quarantine;
use crate::record::LogRecord;

/// Messages read from the log at once.
const PAGE: usize = 500;
/// Most changes that are listed; further ones are only counted.
const CHANGES_MAX: usize = 100_000;

/// Scans a message again whose body is still held, with the facts of then; none keeps its verdict.
pub type Rescan<'a> = dyn FnMut(&Message<'_>, &Envelope, &Facts) -> Option<Rescanned> + 'a;

/// What a message is that was judged again.
#[derive(Debug)]
pub struct Rescanned {
    /// The verdict of today's rules and models.
    pub verdict: Verdict,
    /// The facts that it was made of: those of the log, with the files as they are opened today.
    pub facts: Facts,
}

/// What to replay, over which mail.
#[derive(Debug, Clone, Copy)]
pub struct ReplayRequest<'a> {
    /// The policy to test.
    pub policy: &'a Policy,
    /// The policy that was in force.
    pub before: &'a Policy,
    /// Scores from which each class begins.
    pub thresholds: Thresholds,
    /// Mail received at or after this Unix time in milliseconds.
    pub since_ms: i64,
}

/// One recipient of one message with a different decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedDecision {
    /// Id of the message.
    pub id: String,
    /// Unix time in milliseconds at which it was received.
    pub received_ms: i64,
    /// Address of the recipient.
    pub recipient: String,
    /// The From field, decoded.
    pub from: String,
    /// The Subject, encoded words (RFC 2047) decoded.
    pub subject: String,
    /// Class, by the verdict that was used.
    pub class: Class,
    /// Score, by the same verdict.
    pub score: f64,
    /// Spam probability, by the same verdict.
    pub probability: Option<f64>,
    /// The logged decision, e.g. `deliver` or `quarantine:spam`.
    pub was: String,
    /// The decision of the tested policy.
    pub would_be: String,
    /// The rule that decides now; empty if none does.
    pub rule: String,
    /// The message was delivered and would not be: the lower its spam probability, the likelier a
    /// false positive.
    pub withheld: bool,
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// Messages that the policy was tried on.
    pub messages: u64,
    /// If not all mail was replayed: time of reception of the oldest replayed message, in Unix
    /// milliseconds.
    pub reached_ms: Option<i64>,
    /// Messages whose body is still held.
    pub whole: u64,
    /// Recipients of these messages: each has its own disposition.
    pub recipients: u64,
    /// Recipients with the same decision.
    pub same: u64,
    /// Recipients with a different decision.
    pub different: u64,
    /// Recipients whose decision is unknown, by the rule that needs data which was not kept.
    pub unknown: BTreeMap<String, u64>,
    /// Number of changes by `old -> new` decision.
    pub transitions: BTreeMap<String, u64>,
    /// Number of changes by the rule that decides now.
    pub rules: BTreeMap<String, u64>,
    /// Number of changes by recipient.
    pub users: BTreeMap<String, u64>,
    /// The changes, likely false positives first.
    pub changes: Vec<ChangedDecision>,
}

/// Progress of a replay, which runs from the newest item to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Messages, or web requests, replayed so far.
    pub items: u64,
    /// When the last of them came, in Unix milliseconds.
    pub reached_ms: i64,
}

/// Replays a policy over the log. `rescan` is called for mail whose body is still held; other mail
/// keeps its verdict. `progress` is called after every page and returns whether to continue; if
/// not, the report covers the mail so far.
///
/// # Errors
/// If the log or a held body cannot be read.
pub fn replay(
    log: &Log,
    quarantine: &Quarantine,
    request: &ReplayRequest<'_>,
    rescan: &mut Rescan<'_>,
    mut progress: impl FnMut(Progress) -> bool,
) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let compared = Replay::new(request.policy, request.before);
    let mut query = Query { since_ms: Some(request.since_ms), limit: PAGE, ..Query::default() };
    loop {
        let page = log.search(&query)?;
        for summary in &page.messages {
            // Retention may have removed it meanwhile.
            let Some(logged) = log.get(&summary.id)? else { continue };
            // No policy decided about what was released or made here.
            if !logged.record.is_received() {
                continue;
            }
            let body = quarantine.body(&summary.id)?;
            let (record, body) = (&logged.record, body.as_deref());
            replay_message(&compared, request, record, body, rescan, &mut report);
        }
        let reached_ms = page.messages.last().map_or(request.since_ms, |m| m.received_ms);
        let go_on = progress(Progress { items: report.messages, reached_ms });
        match page.next {
            Some(next) if go_on => query.after = Some(next),
            Some(_) => {
                report.reached_ms = Some(reached_ms);
                break;
            }
            None => break,
        }
    }
    // Delivered mail that would be withheld comes first, the lowest spam probability before all.
    let innocence = |c: &ChangedDecision| (!c.withheld, c.probability.unwrap_or(0.5), c.score);
    report.changes.sort_by(|a, b| {
        let (a, b) = (innocence(a), innocence(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    Ok(report)
}

/// Decides about one message again.
fn replay_message(
    compared: &Replay<'_>,
    request: &ReplayRequest<'_>,
    record: &LogRecord,
    body: Option<&[u8]>,
    rescan: &mut Rescan<'_>,
    report: &mut Report,
) {
    let fields = fields_of(record);
    let message = Message::parse(body.unwrap_or(&fields));
    let envelope = &record.envelope;
    let judged = body.and_then(|_| rescan(&message, envelope, &record.facts));
    let (judged, facts) = match judged {
        Some(Rescanned { verdict, facts }) => (Some(verdict), Cow::Owned(facts)),
        None => (None, Cow::Borrowed(&record.facts)),
    };
    let facts = facts.as_ref();
    // Rules and filters are run again, data loss prevention is not.
    let data_loss = || record.verdict.data_loss.clone();
    let judged = judged.map(|verdict| Verdict { data_loss: data_loss(), ..verdict });
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
            thresholds: &request.thresholds,
            rates: &Rates::default(),
        };
        let past =
            PastDecision { input, size: record.size, is_complete: body.is_some(), disposition };
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
    fn add(&mut self, changed: ChangedDecision) {
        self.different += 1;
        let transition = format!("{} -> {}", changed.was, changed.would_be);
        *self.transitions.entry(transition).or_default() += 1;
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
) -> ChangedDecision {
    let reaches = |d: &Disposition| matches!(d.end.name(), "deliver" | "redirect");
    let (was_text, mut would_be) = (was.end.to_string(), now.end.to_string());
    if was_text == would_be {
        would_be.push_str(" with other changes");
    }
    ChangedDecision {
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

/// The same final disposition and the same changes; header fields that carry the verdict or the id
/// do not count.
fn is_same(now: &Disposition, was: &Disposition) -> bool {
    let counts = |c: &&Change| !matches!(c, Change::AddHeader { name, .. } if name.starts_with("X-Gauntlet-"));
    now.end == was.end && now.changes.iter().filter(counts).eq(was.changes.iter().filter(counts))
}

/// A message with the header fields that the log keeps.
fn fields_of(record: &LogRecord) -> Vec<u8> {
    let line = |text: &str| text.replace(['\r', '\n'], " ");
    let (from, subject) = (line(&record.from), line(&record.subject));
    let id = line(&record.message_id);
    format!("From: {from}\r\nSubject: {subject}\r\nMessage-ID: <{id}>\r\n\r\n").into_bytes()
}
