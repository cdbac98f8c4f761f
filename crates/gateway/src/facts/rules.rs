//! What rules in SpamAssassin's language ask of the DNS: `check_rbl`, `check_uridnsbl`, `askdns` and
//! their kin.
//!
//! The ruleset says what it asks about a message ([`Ruleset::questions`]); here it is asked, and the
//! answers become facts, under the questions' text. Only what the DNS said for certain is a fact:
//! where nobody answered, a rule has nothing to read.

use std::net::IpAddr;
use std::sync::Arc;

use gauntlet_mail::facts::{Facts, RuleAnswer};
use gauntlet_mail::{Envelope, Message};
use gauntlet_rules::{About, Question, RecordType, Ruleset};
use tokio::sync::Semaphore;

use super::inquiry::{Effect, Inquiry};
use super::lists::{DnsLists, Meaning, meaning};
use crate::resolver::{Answer, Kind, reversed};

/// Answers of one message that are kept.
const ANSWERS_MAX: usize = 128;
/// Records of one answer that are kept.
const RECORDS_MAX: usize = 16;
/// Bytes of one record that are kept.
const RECORD_BYTES_MAX: usize = 512;
/// Name servers of a domain, and addresses of a host, that are looked up.
const STEPS_MAX: usize = 4;

/// Asks for rules.
#[derive(Debug)]
pub struct Asker {
    ruleset: Arc<Ruleset>,
    /// Messages at once whose questions are worked out: that takes a CPU each.
    working: Arc<Semaphore>,
}

impl Asker {
    /// Asks for these rules.
    pub fn new(ruleset: Arc<Ruleset>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Asker { ruleset, working: Arc::new(Semaphore::new(threads)) }
    }

    /// The answers to all that the rules ask about a message, by question.
    pub async fn ask(
        &self,
        inquiry: &Inquiry<'_>,
        lists: &DnsLists,
        raw: &[u8],
        envelope: &Envelope,
        facts: &Facts,
    ) -> Vec<RuleAnswer> {
        let questions = self.questions(raw, envelope, facts).await;
        let asked = questions.iter().map(|question| self.answer(inquiry, question));
        let found = super::all(asked.collect()).await;
        let mut answers = Vec::new();
        for (question, found) in questions.iter().zip(found) {
            report_refusals(inquiry, lists, question, &found.records);
            let says_nothing = found.records.is_empty() && !(question.absence && found.is_nothing);
            if !says_nothing && answers.len() < ANSWERS_MAX {
                let question = question.to_string();
                answers.push(RuleAnswer { question, answers: found.records });
            }
        }
        answers.sort_by(|a, b| a.question.cmp(&b.question));
        answers
    }

    /// Works the questions out, away from the threads that serve connections.
    async fn questions(&self, raw: &[u8], envelope: &Envelope, facts: &Facts) -> Vec<Question> {
        let Ok(permit) = self.working.clone().acquire_owned().await else { return Vec::new() };
        let (ruleset, raw) = (self.ruleset.clone(), raw.to_vec());
        let (envelope, facts) = (envelope.clone(), facts.clone());
        let worked_out = tokio::task::spawn_blocking(move || {
            let _until_done = permit;
            ruleset.questions(&Message::parse(&raw), &envelope, &facts)
        });
        worked_out.await.unwrap_or_else(|error| {
            tracing::error!(%error, "what rules ask about a message could not be worked out");
            Vec::new()
        })
    }

    /// Asks one question, after those that must be answered first.
    async fn answer(&self, inquiry: &Inquiry<'_>, question: &Question) -> Found {
        let kind = kind_of(question.kind);
        let labels: Vec<String> = match &question.about {
            About::Name(_) => {
                let name = question.name().unwrap_or_default();
                let answer = inquiry.ask(Effect::Rule, &name, kind).await;
                return Found::of(&[answer]);
            }
            About::AddressesOf(host) => addresses(inquiry, host).await,
            About::ServersOf(domain) => {
                let servers = servers(inquiry, domain).await;
                let each = servers.iter().map(|server| addresses(inquiry, server)).collect();
                super::all(each).await.concat()
            }
            About::ServerNamesOf { domain, whole } => {
                let servers = servers(inquiry, domain).await;
                let trimmed = |name: String| {
                    if *whole { name } else { self.ruleset.registered_domain(&name) }
                };
                servers.into_iter().map(trimmed).collect()
            }
        };
        let mut names: Vec<String> =
            labels.iter().map(|label| format!("{label}.{}", question.zone)).collect();
        names.sort();
        names.dedup();
        let asked = names.iter().map(|name| inquiry.ask(Effect::Rule, name, kind));
        Found::of(&super::all(asked.collect()).await)
    }
}

/// What came of a question.
struct Found {
    /// Sorted, each once.
    records: Vec<String>,
    /// The DNS said that there is nothing.
    is_nothing: bool,
}

impl Found {
    fn of(answers: &[Arc<Answer>]) -> Self {
        let data = answers.iter().flat_map(|a| &a.data).take(RECORDS_MAX);
        let mut records: Vec<String> =
            data.map(|d| super::cut(&d.to_string(), RECORD_BYTES_MAX)).collect();
        records.sort();
        records.dedup();
        let is_nothing = answers.iter().all(|a| a.outcome.is_nothing());
        Found { records, is_nothing }
    }
}

/// The name servers of a domain, the first few by name.
async fn servers(inquiry: &Inquiry<'_>, domain: &str) -> Vec<String> {
    let answer = inquiry.ask(Effect::Rule, domain, Kind::Ns).await;
    answer.names().take(STEPS_MAX).map(str::to_owned).collect()
}

/// The addresses of a host, backwards.
async fn addresses(inquiry: &Inquiry<'_>, host: &str) -> Vec<String> {
    let answer = inquiry.ask(Effect::Rule, host, Kind::A).await;
    answer.addresses().take(STEPS_MAX).map(reversed).collect()
}

/// A list that refuses to answer us is named, once in the node's log and with the message.
fn report_refusals(
    inquiry: &Inquiry<'_>,
    lists: &DnsLists,
    question: &Question,
    records: &[String],
) {
    if question.zone.is_empty() || question.kind != RecordType::A {
        return;
    }
    for record in records {
        if let Ok(IpAddr::V4(v4)) = record.parse()
            && meaning(v4) == Meaning::Refused
        {
            lists.refused(&question.zone, v4);
            inquiry.note(format!("list {}: it refuses to answer us ({v4})", question.zone));
        }
    }
}

fn kind_of(kind: RecordType) -> Kind {
    match kind {
        RecordType::A => Kind::A,
        RecordType::Aaaa => Kind::Aaaa,
        RecordType::Mx => Kind::Mx,
        RecordType::Ns => Kind::Ns,
        RecordType::Ptr => Kind::Ptr,
        RecordType::Txt => Kind::Txt,
    }
}
