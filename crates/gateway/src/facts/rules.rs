//! What rules in SpamAssassin's language ask of the DNS: `check_rbl`, `check_uridnsbl`, `askdns`
//! and their kin.
//!
//! The ruleset says what it asks about a message ([`Ruleset::questions`]); here it is asked, and
//! the answers become facts, under the questions' text. Only what the DNS said for certain is a
//! fact: where nobody answered, a rule has nothing to read.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gauntlet_mail::facts::{Facts, RuleAnswer};
use gauntlet_mail::{Envelope, Message};
use gauntlet_rules::RecordType;
use gauntlet_spamassassin::questions::parents;
use gauntlet_spamassassin::{About, Question, Ruleset, TextViews};
use tokio::sync::Semaphore;

use super::lists::{DnsLists, Meaning, meaning};
use super::lookup_context::{Effect, LookupContext};
use crate::net::resolver::{Answer, Data, Kind, Outcome, reversed};

/// Answers of one message that are kept.
const ANSWERS_MAX: usize = 128;
/// Records of one answer that are kept.
const RECORDS_MAX: usize = 16;
/// Bytes of one record that are kept.
const RECORD_BYTES_MAX: usize = 512;
/// Most of a message's text that is kept for the scan; of larger ones it is worked out again.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Name servers of a domain, and addresses of a host, that are looked up.
const STEPS_MAX: usize = 4;

/// What became known of a message's text, with the version of the rules that it is for.
pub type CachedViews = Option<(Arc<str>, TextViews)>;

/// Asks the DNS what the rules of a ruleset ask, before the scan.
#[derive(Debug)]
pub struct RuleLookups {
    ruleset: Arc<Ruleset>,
    /// Messages at once whose questions are worked out: that takes a CPU each.
    working: Arc<Semaphore>,
    /// What a rule has ended for now.
    blocks: Blocks,
}

impl RuleLookups {
    /// Asks for these rules.
    pub fn new(ruleset: Arc<Ruleset>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        RuleLookups {
            ruleset,
            working: Arc::new(Semaphore::new(threads)),
            blocks: Blocks::default(),
        }
    }

    /// The answers to all that the rules ask about a message, by question.
    pub async fn ask(
        &self,
        lookups: &LookupContext<'_>,
        lists: &DnsLists,
        raw: &[u8],
        envelope: &Envelope,
        facts: &Facts,
    ) -> (Vec<RuleAnswer>, CachedViews) {
        let (questions, text) = self.questions(raw, envelope, facts).await;
        let asked = questions.iter().map(|question| self.answer(lookups, question));
        let found = join_all(asked).await;
        let mut answers = Vec::new();
        for (question, found) in questions.iter().zip(found) {
            report_refusals(lookups, lists, question, &found.records);
            let says_nothing = found.records.is_empty() && !(question.absence && found.is_nothing);
            if !says_nothing && answers.len() < ANSWERS_MAX {
                let question = question.to_string();
                answers.push(RuleAnswer { question, answers: found.records });
            }
        }
        answers.sort_by(|a, b| a.question.cmp(&b.question));
        (answers, text)
    }

    /// Works the questions out, away from the threads that serve connections.
    async fn questions(
        &self,
        raw: &[u8],
        envelope: &Envelope,
        facts: &Facts,
    ) -> (Vec<Question>, CachedViews) {
        let Ok(permit) = self.working.clone().acquire_owned().await else {
            return (Vec::new(), None);
        };
        let (ruleset, raw) = (self.ruleset.clone(), raw.to_vec());
        let (envelope, facts) = (envelope.clone(), facts.clone());
        let worked_out = tokio::task::spawn_blocking(move || {
            let _until_done = permit;
            let message = Message::parse(&raw);
            let (questions, text) = ruleset.questions_and_text(&message, &envelope, &facts);
            (questions, text.filter(|(_, text)| text.bytes() <= TEXT_BYTES_MAX))
        });
        worked_out.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the DNS questions of rules could not be determined");
            (Vec::new(), None)
        })
    }

    /// Asks one question, after those that must be answered first.
    async fn answer(&self, lookups: &LookupContext<'_>, question: &Question) -> Found {
        let kind = kind_of(question.kind);
        let labels: Vec<String> = match &question.about {
            About::Name(_) => {
                let name = question.name().unwrap_or_default();
                let answer = self.ask_one(lookups, &name, kind).await;
                return match question.status {
                    true => Found::status_of(&answer),
                    false => Found::of(&[answer]),
                };
            }
            About::AddressesOf(host) => self.addresses(lookups, host).await,
            About::ServersOf(domain) => {
                let servers = self.servers(lookups, domain).await;
                let each = servers.iter().map(|server| self.addresses(lookups, server));
                join_all(each).await.concat()
            }
            About::ServerNamesOf { domain, whole } => {
                let servers = self.servers(lookups, domain).await;
                let trimmed = |name: String| {
                    if *whole { name } else { self.ruleset.registered_domain(&name) }
                };
                servers.into_iter().map(trimmed).collect()
            }
            About::AuthoritiesOf(host) => self.authorities(lookups, host).await,
        };
        let mut names: Vec<String> =
            labels.iter().map(|label| format!("{label}.{}", question.zone)).collect();
        names.sort();
        names.dedup();
        let asked = names.iter().map(|name| self.ask_one(lookups, name, kind));
        Found::of(&join_all(asked).await)
    }

    /// Asks, if the rules' settings allow it and no rule has ended it for now.
    async fn ask_one(&self, lookups: &LookupContext<'_>, name: &str, kind: Kind) -> Arc<Answer> {
        if !self.ruleset.restrictions().allow(name) {
            return Arc::new(Answer::empty(Outcome::NotAsked));
        }
        if let Some((domain, rule)) = self.blocks.of(name, lookups.clock().now()) {
            lookups.note(format!("rules: {domain} is not asked for now (dns_block_rule {rule})"));
            return Arc::new(Answer::empty(Outcome::NotAsked));
        }
        lookups.ask(Effect::Rule, name, kind).await
    }

    /// The name servers of a domain, the first few by name.
    async fn servers(&self, lookups: &LookupContext<'_>, domain: &str) -> Vec<String> {
        let answer = self.ask_one(lookups, domain, Kind::Ns).await;
        answer.names().take(STEPS_MAX).map(str::to_owned).collect()
    }

    /// The name servers of a host's domain: those of the host itself, else of the registered
    /// domain, and the first one of the zone.
    async fn authorities(&self, lookups: &LookupContext<'_>, host: &str) -> Vec<String> {
        let domain = self.ruleset.registered_domain(host);
        let mut servers = self.servers(lookups, host).await;
        if servers.is_empty() && domain != host {
            servers = self.servers(lookups, &domain).await;
        }
        let answer = self.ask_one(lookups, &domain, Kind::Soa).await;
        servers.extend(answer.data.iter().filter_map(|data| match data {
            Data::Authority { server, .. } => Some(server.clone()),
            _ => None,
        }));
        servers
    }

    /// The addresses of a host, backwards.
    async fn addresses(&self, lookups: &LookupContext<'_>, host: &str) -> Vec<String> {
        let answer = self.ask_one(lookups, host, Kind::A).await;
        answer.addresses().take(STEPS_MAX).map(reversed).collect()
    }

    /// Applies rules that fired: those that `dns_block_rule` names end questions for a while.
    pub fn apply(&self, fired: &[&str], now: Instant) {
        let restrictions = self.ruleset.restrictions();
        for (rule, domain) in &restrictions.blocks {
            if fired.contains(&rule.as_str()) {
                let time = Duration::from_secs(restrictions.block_seconds);
                self.blocks.add(domain, rule, time, now);
            }
        }
    }
}

/// Domains that are not asked for a while, by the domain.
#[derive(Debug, Default)]
struct Blocks(RwLock<BTreeMap<String, (String, Instant)>>);

impl Blocks {
    /// The domain at or above this name that is not asked for now, and the rule that said so.
    fn of(&self, name: &str, now: Instant) -> Option<(String, String)> {
        let blocks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if blocks.is_empty() {
            return None;
        }
        parents(name).find_map(|domain| {
            let (rule, until) = blocks.get(domain)?;
            (*until > now).then(|| (domain.to_owned(), rule.clone()))
        })
    }

    fn add(&self, domain: &str, rule: &str, time: Duration, now: Instant) {
        let mut blocks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let until = now + time;
        if blocks.insert(domain.to_owned(), (rule.to_owned(), until)).is_none() {
            let seconds = time.as_secs();
            tracing::warn!(domain, rule, seconds, "rules do not ask this domain for a while");
        }
    }
}

/// What came of a question.
struct Found {
    /// Texts of the records, sorted, each once.
    records: Vec<String>,
    /// The DNS said that there is nothing.
    is_nothing: bool,
}

impl Found {
    fn of(answers: &[Arc<Answer>]) -> Self {
        let data = answers.iter().flat_map(|a| &a.data).take(RECORDS_MAX);
        let mut records: Vec<String> =
            data.map(|d| gauntlet_smtp::text::excerpt(&d.to_string(), RECORD_BYTES_MAX)).collect();
        records.sort();
        records.dedup();
        let is_nothing = answers.iter().all(|a| a.outcome.is_nothing());
        Found { records, is_nothing }
    }

    /// How the question ended, as a response code; nothing if nobody said.
    fn status_of(answer: &Answer) -> Self {
        let code = match answer.outcome {
            Outcome::Answered | Outcome::NoData => "NOERROR",
            Outcome::NoName => "NXDOMAIN",
            Outcome::Failed => "SERVFAIL",
            Outcome::Refused => "REFUSED",
            Outcome::Looping => "SERVFAIL",
            Outcome::Timeout | Outcome::TooLarge | Outcome::Bogus | Outcome::NotAsked => {
                return Found { records: Vec::new(), is_nothing: false };
            }
        };
        Found { records: vec![code.to_owned()], is_nothing: false }
    }
}

/// A list that refuses to answer us is named, once in the node's log and with the message.
fn report_refusals(
    lookups: &LookupContext<'_>,
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
            lookups.note(format!("list {}: it refuses to answer us ({v4})", question.zone));
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
        RecordType::Soa => Kind::Soa,
        RecordType::Txt => Kind::Txt,
    }
}
