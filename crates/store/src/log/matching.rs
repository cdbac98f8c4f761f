//! A query against single messages, for logs that are not kept in days of SQLite: the same terms,
//! so the same messages are found wherever a log is kept.

use std::collections::BTreeSet;

use super::index::Clause;
use super::query::{LoggedMessage, Query, RecipientSummary, Summary, Wanted};
use super::search::{SUMMARY_RECIPIENTS_MAX, clauses, page_limit, seq_range};
use super::terms::{self, Field, KnownTerms};
use crate::record::Outcome;

/// A query, ready to be asked of many messages.
#[derive(Debug)]
pub struct Matcher {
    clauses: Vec<Clause>,
    score_min: Option<f64>,
    id: String,
    range: (i64, i64),
    limit: usize,
    wanted: Wanted,
}

impl Matcher {
    /// Prepares a query.
    pub fn new(query: &Query) -> Self {
        Matcher {
            clauses: clauses(query),
            score_min: query.score_min,
            id: query.id.trim().to_owned(),
            range: seq_range(query),
            limit: page_limit(query),
            wanted: Wanted::of(query),
        }
    }

    /// Cursors `[since, until)` of the messages that are asked for.
    pub fn range(&self) -> (i64, i64) {
        self.range
    }

    /// Most messages of the page that is asked for.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Terms that a message must have: of each list at least one. A word of a subject that may go
    /// on (`invoice*`) gives none.
    pub fn required(&self) -> Vec<Vec<String>> {
        let whole = self.clauses.iter().filter(|any| any.iter().all(|p| !p.is_prefix));
        let mut all: Vec<Vec<String>> =
            whole.map(|any| any.iter().map(|p| p.term.clone()).collect()).collect();
        if !self.id.is_empty() {
            all.push(vec![id_term(&self.id)]);
        }
        all
    }

    /// Whether this message, with these [terms](terms_of), is asked for.
    pub fn matches(&self, message: &LoggedMessage, terms: &BTreeSet<String>) -> bool {
        let record = &message.record;
        let (since, until) = self.range;
        let has = |pattern: &super::index::Pattern| match pattern.is_prefix {
            false => terms.contains(&pattern.term),
            true => terms
                .range(pattern.term.clone()..)
                .next()
                .is_some_and(|term| term.starts_with(&pattern.term)),
        };
        (since..until).contains(&message.cursor.0)
            && self.score_min.is_none_or(|least| record.verdict.score >= least)
            && (self.id.is_empty() || record.id == self.id)
            && self.clauses.iter().all(|any| any.iter().any(has))
    }

    /// What a list of results shows of this message.
    pub fn summary(&self, message: &LoggedMessage) -> Summary {
        let record = &message.record;
        let outcome = |recipient: &str| -> Option<Outcome> {
            record.deliveries.iter().find(|d| d.address == recipient).map(|d| d.outcome)
        };
        let recipients = record.dispositions.iter().map(|d| RecipientSummary {
            recipient: d.recipient.clone(),
            action: d.end.name().to_owned(),
            outcome: outcome(&d.recipient),
        });
        let mut recipients: Vec<_> =
            recipients.take(self.wanted.read(SUMMARY_RECIPIENTS_MAX)).collect();
        self.wanted.keep(&mut recipients, SUMMARY_RECIPIENTS_MAX);
        Summary {
            cursor: message.cursor,
            id: record.id.clone(),
            received_ms: record.received_ms,
            class: record.verdict.class,
            score: record.verdict.score,
            size: record.size,
            from: if record.from.is_empty() {
                record.envelope.mail_from.clone()
            } else {
                record.from.clone()
            },
            subject: record.subject.clone(),
            recipients,
            recipients_count: record.dispositions.len() as u64,
            node: message.node.clone(),
        }
    }
}

/// The terms by which a search finds this message.
pub fn terms_of(message: &LoggedMessage) -> BTreeSet<String> {
    let LoggedMessage { record, events, .. } = message;
    let (mut out, mut known) = (String::new(), KnownTerms::default());
    terms::push_message(&mut out, record, &mut known);
    for disposition in &record.dispositions {
        terms::push_disposition(&mut out, &mut known, record.verdict.class, disposition);
    }
    for delivery in &record.deliveries {
        terms::push_name(&mut out, Field::Outcome, delivery.outcome.name());
    }
    for event in events {
        terms::push_name(&mut out, Field::Event, &event.kind);
    }
    terms::push_exact(&mut out, Field::Id, &record.id);
    out.split(' ').filter(|term| !term.is_empty()).map(str::to_owned).collect()
}

/// The term of a message's id.
pub fn id_term(id: &str) -> String {
    let mut out = String::new();
    terms::push_exact(&mut out, Field::Id, id);
    out
}
