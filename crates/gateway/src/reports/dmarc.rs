//! What came in the name of each domain on one day, from the message log.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gauntlet_mail::Direction;
use gauntlet_mail::address::{ascii_domain, mailboxes};
use gauntlet_mail::facts::{AuthResult, DmarcPolicy};
use gauntlet_store::{Log, LogRecord, Query, StoreError};
use gauntlet_verdict::Final;

use crate::clock::Day;

/// Messages read from the log at once.
const PAGE: usize = 500;
/// Signatures of one message in a report.
const SIGNATURES_MAX: usize = 10;

/// Messages that are one line of a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Where they came from.
    pub client: IpAddr,
    /// Domain of the From field.
    pub header_from: String,
    /// Domain of the envelope sender; empty for `<>`.
    pub envelope_from: String,
    /// What was done: `none`, `quarantine` or `reject`.
    pub disposition: &'static str,
    /// Whether that is what the domain asks for.
    pub as_asked: bool,
    /// Whether the message passed DMARC.
    pub passed: bool,
    /// Domain that SPF checked, whether that is the HELO name, and its result.
    pub spf: (String, bool, &'static str),
    /// Domain, selector and result of each signature.
    pub dkim: Vec<(String, String, &'static str)>,
}

/// What came in the name of one domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of messages by row of the report (RFC 7489 appendix C).
    pub rows: BTreeMap<Row, u64>,
    /// Messages that found no line any more.
    pub left_out: u64,
}

impl Tally {
    /// Number of all messages, those without a line among them.
    pub fn messages(&self) -> u64 {
        self.rows.values().sum::<u64>() + self.left_out
    }
}

/// The day's tallies by the domain whose policy applied; the messages looked at, and whether these
/// are all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Tallies by the domain whose policy applied.
    pub domains: BTreeMap<String, Tally>,
    /// Messages of the log that were looked at.
    pub messages: u64,
    /// There were more than may be looked at.
    pub cut: bool,
}

/// Reads a day of the log. Blocks.
///
/// # Errors
/// If the log cannot be read.
pub fn collect(
    log: &Log,
    day: Day,
    messages_max: u64,
    rows_max: usize,
) -> Result<Collected, StoreError> {
    let mut collected = Collected::default();
    let (since_ms, until_ms) = (Some(day.begin_ms()), Some(day.end_ms()));
    let mut query = Query { since_ms, until_ms, limit: PAGE, ..Query::default() };
    loop {
        let page = log.search(&query)?;
        for summary in &page.messages {
            if collected.messages >= messages_max {
                collected.cut = true;
                return Ok(collected);
            }
            collected.messages += 1;
            let Some(logged) = log.get(&summary.id)? else { continue };
            let Some((domain, row)) = row_of(&logged.record) else { continue };
            let tally = collected.domains.entry(domain).or_default();
            if tally.rows.len() < rows_max || tally.rows.contains_key(&row) {
                *tally.rows.entry(row).or_default() += 1;
            } else {
                tally.left_out += 1;
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(collected);
        }
    }
}

/// The policy domain and the line of a message; none if no policy applied, or it is unknown whether
/// the message complies with it.
fn row_of(record: &LogRecord) -> Option<(String, Row)> {
    let LogRecord { envelope, facts, .. } = record;
    let passed = match facts.dmarc {
        AuthResult::Pass => true,
        AuthResult::Fail => false,
        _ => return None,
    };
    // A message that was deferred comes again, and counts then.
    let is_deferred = record.dispositions.iter().any(|d| matches!(d.end, Final::Defer { .. }));
    if envelope.direction != Direction::Inbound || is_deferred {
        return None;
    }
    let domain = facts.dmarc_domain.clone()?;
    let header_from = match &facts.dmarc_from {
        Some(domain) => domain.clone(),
        // Logged before the fact was kept.
        None => ascii_domain(mailboxes(record.from.as_bytes(), 1).first()?.domain())?,
    };
    let sender = envelope.mail_from.rsplit_once('@').and_then(|(_, d)| ascii_domain(d));
    let (disposition, as_asked) = done_with(record, passed);
    let helo = sender.is_none();
    let envelope_from = sender.unwrap_or_default();
    let checked = match helo {
        true => ascii_domain(&envelope.helo).unwrap_or_default(),
        false => envelope_from.clone(),
    };
    let signatures = facts.dkim.iter().filter(|s| !s.domain.is_empty()).take(SIGNATURES_MAX);
    let dkim = signatures.map(|s| {
        // A signature over a part of the body proves nothing about the rest.
        let result = if s.partial_body { "policy" } else { word(s.result) };
        (s.domain.clone(), s.selector.clone(), result)
    });
    let row = Row {
        client: envelope.client_ip?.to_canonical(),
        header_from,
        envelope_from,
        disposition,
        as_asked,
        passed,
        spf: (checked, helo, word(facts.spf)),
        dkim: dkim.collect(),
    };
    Some((domain, row))
}

/// What was done because of the policy, and whether the domain asks for that.
fn done_with(record: &LogRecord, passed: bool) -> (&'static str, bool) {
    if passed {
        return ("none", true);
    }
    let of = |end: &Final| match end {
        Final::Reject { .. } | Final::Defer { .. } | Final::Discard => 2,
        Final::Quarantine { .. } | Final::Hold { .. } | Final::SpamFolder => 1,
        Final::Deliver | Final::Redirect { .. } => 0,
    };
    let done = record.dispositions.iter().map(|d| of(&d.end)).min().unwrap_or(0);
    let asked = match record.facts.dmarc_policy {
        DmarcPolicy::Reject => 2,
        DmarcPolicy::Quarantine => 1,
        DmarcPolicy::None | DmarcPolicy::Unknown => 0,
    };
    let name = ["none", "quarantine", "reject"].get(done).copied().unwrap_or("none");
    (name, done == asked)
}

/// A result as reports have it (RFC 7489 appendix C).
fn word(result: AuthResult) -> &'static str {
    match result {
        AuthResult::None => "none",
        AuthResult::Pass => "pass",
        AuthResult::Fail => "fail",
        AuthResult::SoftFail => "softfail",
        AuthResult::Neutral => "neutral",
        AuthResult::Policy => "policy",
        AuthResult::PermError => "permerror",
        AuthResult::TempError | AuthResult::Unknown => "temperror",
    }
}
