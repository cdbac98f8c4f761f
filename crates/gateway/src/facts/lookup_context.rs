//! The questions of one message: bounded in number and time, and written down.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_mail::facts::Lookup;

use crate::clock::Clock;
use crate::net::resolver::{Answer, Kind, Outcome, Resolver, reverse_name};

/// Makes the DNS queries of one message, and remembers them.
#[derive(Debug)]
pub struct LookupContext<'r> {
    resolver: &'r Resolver,
    /// Queries that are left.
    left: AtomicUsize,
    /// The same for policies of From domains: no other question takes their place.
    policies_left: AtomicUsize,
    /// After this, everything unanswered is unknown.
    until: Instant,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    lookups: Vec<(Effect, Lookup)>,
    notes: Vec<String>,
}

/// Which fact a question is for, in the order of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Reverse name of the client.
    Reverse,
    /// SPF of HELO or MAIL FROM.
    Spf,
    /// Keys of DKIM signatures.
    Dkim,
    /// Keys of an ARC chain.
    Arc,
    /// Policy of the From domain.
    Dmarc,
    /// A BIMI record, which names a logo.
    Bimi,
    /// Listings in DNS lists.
    List,
    /// Whether the sender's domain can take mail.
    Sender,
    /// What a rule asks for by itself.
    Rule,
}

impl Effect {
    /// Its name, as records and commands have it.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Reverse => "reverse",
            Effect::Spf => "spf",
            Effect::Dkim => "dkim",
            Effect::Arc => "arc",
            Effect::Dmarc => "dmarc",
            Effect::Bimi => "bimi",
            Effect::List => "list",
            Effect::Sender => "sender",
            Effect::Rule => "rule",
        }
    }
}

/// Questions for the policies of From domains. Whom a message says it is from must be known however
/// much else it makes us ask. Enough for the names of the domains of
/// [`gauntlet_mail::Limits::authors_max`] authors.
const POLICY_QUESTIONS_MAX: usize = 150;
/// Most of an answer that is written down, in bytes.
const ANSWER_BYTES_MAX: usize = 512;
/// Most notes that are written down.
const NOTES_MAX: usize = 16;

impl<'r> LookupContext<'r> {
    /// The look-ups of a message that may ask so much, for so long by the resolver's clock.
    pub fn new(resolver: &'r Resolver, questions_max: usize, wait: Duration) -> Self {
        LookupContext {
            resolver,
            left: AtomicUsize::new(questions_max),
            policies_left: AtomicUsize::new(POLICY_QUESTIONS_MAX),
            until: resolver.clock().now() + wait,
            record: Mutex::default(),
        }
    }

    /// The records of a name; [`Outcome::Timeout`] when the message's time is over,
    /// [`Outcome::NotAsked`] when it has asked enough.
    pub async fn ask(&self, effect: Effect, name: &str, kind: Kind) -> Arc<Answer> {
        let may = |left: usize| left.checked_sub(1);
        let left = if effect == Effect::Dmarc { &self.policies_left } else { &self.left };
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may).is_err() {
            self.note("not all questions were asked: the message has too many".to_owned());
            let answer = Answer::empty(Outcome::NotAsked);
            self.write_down(effect, name, kind, &answer, false, Duration::ZERO);
            return Arc::new(answer);
        }
        let answer = self.ask_within_time(effect, name, kind).await;
        let what = match answer.outcome {
            Outcome::TooLarge => "the answer is too large to be kept",
            Outcome::Looping => "aliases (CNAME) without end",
            Outcome::Bogus => "the answer is not what its signatures say",
            _ => return answer,
        };
        self.note(format!(
            "dns: {} {}: {what}",
            gauntlet_smtp::text::excerpt(name, 255),
            kind.name()
        ));
        answer
    }

    async fn ask_within_time(&self, effect: Effect, name: &str, kind: Kind) -> Arc<Answer> {
        let start = self.clock().now();
        // What is known costs no wait, so it is taken even when the time is over.
        if let Some(answer) = self.resolver.known(name, kind) {
            self.write_down(effect, name, kind, &answer, true, Duration::ZERO);
            return answer;
        }
        let left = self.until.saturating_duration_since(start);
        let asked = tokio::time::timeout(left, self.resolver.ask(name, kind)).await;
        let (answer, cached) = match asked {
            Ok(asked) => (asked.answer, asked.cached),
            Err(_) => (Arc::new(Answer::empty(Outcome::Timeout)), false),
        };
        self.write_down(effect, name, kind, &answer, cached, self.clock().elapsed(start));
        answer
    }

    /// The names of an address.
    pub async fn ask_names(&self, effect: Effect, address: IpAddr) -> Arc<Answer> {
        self.ask(effect, &reverse_name(address), Kind::Ptr).await
    }

    /// The clock that breakers and caches of answers go by.
    pub fn clock(&self) -> &Clock {
        self.resolver.clock()
    }

    /// Whether the message's time is over.
    pub fn is_late(&self) -> bool {
        self.clock().now() >= self.until
    }

    /// Notes an anomaly, once.
    pub fn note(&self, text: String) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.notes.len() < NOTES_MAX && !record.notes.contains(&text) {
            record.notes.push(text);
        }
    }

    /// The look-ups in an order that does not depend on who answered first, and the notes.
    pub fn finish(self) -> (Vec<Lookup>, Vec<String>) {
        let mut record = self.record.into_inner().unwrap_or_else(PoisonError::into_inner);
        record.lookups.sort_by(|(e, a), (f, b)| (e, &a.name, &a.kind).cmp(&(f, &b.name, &b.kind)));
        record.notes.sort();
        (record.lookups.into_iter().map(|(_, lookup)| lookup).collect(), record.notes)
    }

    fn write_down(
        &self,
        effect: Effect,
        name: &str,
        kind: Kind,
        answer: &Answer,
        cached: bool,
        took: Duration,
    ) {
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |l: &Lookup| l.kind == kind.name() && l.name.eq_ignore_ascii_case(name);
        if record.lookups.iter().any(|(e, l)| *e == effect && same(l)) {
            return;
        }
        let mut left = ANSWER_BYTES_MAX;
        let mut answers = Vec::with_capacity(answer.data.len().min(8));
        for data in &answer.data {
            let text = gauntlet_smtp::text::excerpt(&data.to_string(), left);
            left = left.saturating_sub(text.len());
            answers.push(text);
            if left == 0 {
                break;
            }
        }
        let lookup = Lookup {
            effect: effect.name().to_owned(),
            name: gauntlet_smtp::text::excerpt(name, 255),
            kind: kind.name().to_owned(),
            answers,
            outcome: answer.outcome.name().to_owned(),
            cached,
            millis: u32::try_from(took.as_millis()).unwrap_or(u32::MAX),
        };
        record.lookups.push((effect, lookup));
    }
}
