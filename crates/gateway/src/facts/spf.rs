//! Who may send for a domain: SPF (RFC 7208).
//!
//! Written here rather than taken from a library because every question goes through the message's
//! [`LookupContext`], which counts, bounds and records it (`docs/decisions/051-sender-checks.md`).

pub mod macros;
pub mod record;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use gauntlet_mail::facts::AuthResult;

use self::macros::{Template, Values};
use self::record::{Lengths, Mechanism, Record};
use super::lookup_context::{Effect, LookupContext};
use crate::net::resolver::{Answer, Data, Kind, Outcome};

/// Terms of all records of one check that ask the DNS (RFC 7208 section 4.6.4).
const TERMS_MAX: u32 = 10;
/// Questions of one check that find nothing (section 4.6.4).
const VOIDS_MAX: u32 = 2;
/// Hosts of one `mx` term, and names of a client that are looked up (section 4.6.4).
const HOSTS_MAX: usize = 10;

/// Whom SPF is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Address of the client.
    pub client: IpAddr,
    /// What it called itself.
    pub helo: &'a str,
    /// The envelope sender; empty checks the HELO name.
    pub mail_from: &'a str,
    /// Our own name, for explanations.
    pub host: &'a str,
    /// Unix time in seconds, for explanations.
    pub now: i64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The result, as `Authentication-Results` has it.
    pub result: AuthResult,
    /// The domain that was checked, in lower case.
    pub domain: String,
    /// Why the result is an error.
    pub reason: Option<String>,
    /// What the domain says about a failure.
    pub explanation: Option<String>,
}

/// Evaluates SPF for a client (RFC 7208 section 4.6).
pub async fn check(lookups: &LookupContext<'_>, subject: &Subject<'_>) -> Checked {
    let helo = subject.helo.trim_end_matches('.');
    let sender = match subject.mail_from.rsplit_once('@') {
        _ if subject.mail_from.is_empty() => format!("postmaster@{helo}"),
        Some(("", domain)) => format!("postmaster@{domain}"),
        Some(_) => subject.mail_from.to_owned(),
        None => format!("postmaster@{}", subject.mail_from),
    };
    let domain = sender.rsplit_once('@').map_or("", |(_, domain)| domain);
    let domain = gauntlet_mail::address::ascii_domain(domain).unwrap_or_default();
    let client = subject.client.to_canonical();
    let mut check =
        Check { lookups, subject, client, sender: &sender, terms: 0, voids: 0, name: None };
    let ended = check.host(&domain, 0).await;
    let (result, reason) = match ended.result {
        Ok(result) => (result, None),
        Err(Failure { result, reason }) => (result, Some(reason)),
    };
    let explanation = match (result, ended.explanation) {
        (AuthResult::Fail, Some((template, at))) => check.explain(&template, &at).await,
        _ => None,
    };
    Checked { result, domain, reason, explanation }
}

/// Why there is no result.
#[derive(Debug)]
struct Failure {
    /// What the check comes to.
    result: AuthResult,
    reason: String,
}

fn permanent<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { result: AuthResult::PermError, reason: reason.into() })
}

/// The end of `check_host`, and where its explanation is, with the domain it is for.
struct Ended {
    result: Result<AuthResult, Failure>,
    explanation: Option<(Template, String)>,
}

impl From<Result<AuthResult, Failure>> for Ended {
    fn from(result: Result<AuthResult, Failure>) -> Self {
        Ended { result, explanation: None }
    }
}

/// One check under way.
struct Check<'a> {
    lookups: &'a LookupContext<'a>,
    subject: &'a Subject<'a>,
    client: IpAddr,
    sender: &'a str,
    terms: u32,
    voids: u32,
    /// The client's validated name, once it was needed.
    name: Option<String>,
}

type Later<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

impl Check<'_> {
    /// `check_host()` (section 4) for a domain, `depth` records deep.
    fn host<'f>(&'f mut self, domain: &'f str, depth: u32) -> Later<'f, Ended> {
        Box::pin(async move {
            let record = match self.record(domain, depth).await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(AuthResult::None).into(),
                Err(failure) => return Err(failure).into(),
            };
            for (result, mechanism) in &record.directives {
                match self.matches(mechanism, domain, depth).await {
                    Ok(true) => {
                        let explanation = record.explanation.map(|t| (t, domain.to_owned()));
                        return Ended { result: Ok(*result), explanation };
                    }
                    Ok(false) => {}
                    Err(failure) => return Err(failure).into(),
                }
            }
            let Some(redirect) = &record.redirect else { return Ok(AuthResult::Neutral).into() };
            if let Err(failure) = self.count_term() {
                return Err(failure).into();
            }
            let target = self.expand(redirect, domain).await;
            let ended = self.host(&target, depth + 1).await;
            match ended.result {
                Ok(AuthResult::None) => permanent(format!("{target} has no SPF record")).into(),
                _ => ended,
            }
        })
    }

    /// The domain's record; none if it publishes none.
    async fn record(&mut self, domain: &str, depth: u32) -> Result<Option<Record>, Failure> {
        if !is_domain(domain) {
            return Ok(None);
        }
        let answer = self.lookups.ask(Effect::Spf, domain, Kind::Txt).await;
        if answer.outcome == Outcome::TooLarge {
            return permanent(format!("the TXT records of {domain} are too many"));
        }
        let texts = certain(&answer, domain)?.texts();
        let mut records = texts.filter(|text| record::is_record(text));
        let Some(text) = records.next() else { return Ok(None) };
        if records.next().is_some() {
            return permanent(format!("{domain} has several SPF records"));
        }
        // The depth is bounded by the count of terms; this is for the reader of the reason.
        debug_assert!(depth <= TERMS_MAX);
        match Record::parse(text) {
            Ok(record) => Ok(Some(record)),
            Err(why) => permanent(format!("the SPF record of {domain} is malformed: {why}")),
        }
    }

    fn count_term(&mut self) -> Result<(), Failure> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return permanent(format!("more than {TERMS_MAX} terms ask the DNS"));
        }
        Ok(())
    }

    fn count_void(&mut self, answer: &Answer) -> Result<(), Failure> {
        self.voids += u32::from(answer.outcome.is_nothing());
        if self.voids > VOIDS_MAX {
            return permanent(format!("more than {VOIDS_MAX} names have nothing"));
        }
        Ok(())
    }

    async fn matches(
        &mut self,
        mechanism: &Mechanism,
        domain: &str,
        depth: u32,
    ) -> Result<bool, Failure> {
        match mechanism {
            Mechanism::All => return Ok(true),
            Mechanism::Ip4(base, bits) => return Ok(within(self.client, (*base).into(), *bits)),
            Mechanism::Ip6(base, bits) => {
                // A mapped IPv4 network is the IPv4 network.
                return Ok(match base.to_ipv4_mapped().zip(bits.checked_sub(96)) {
                    Some((v4, bits)) => within(self.client, v4.into(), bits),
                    None => within(self.client, (*base).into(), *bits),
                });
            }
            _ => self.count_term()?,
        }
        match mechanism {
            Mechanism::Include(target) => {
                let target = self.expand(target, domain).await;
                match self.host(&target, depth + 1).await.result? {
                    AuthResult::Pass => Ok(true),
                    AuthResult::None => permanent(format!("{target} has no SPF record")),
                    _ => Ok(false),
                }
            }
            Mechanism::A(target, lengths) => {
                let name = self.target(target.as_ref(), domain).await;
                self.has_client(&name, *lengths).await
            }
            Mechanism::Mx(target, lengths) => {
                let name = self.target(target.as_ref(), domain).await;
                self.exchanges(&name, *lengths).await
            }
            Mechanism::Exists(target) => {
                let name = self.expand(target, domain).await;
                let answer = self.lookups.ask(Effect::Spf, &name, Kind::A).await;
                self.count_void(&answer)?;
                Ok(certain(&answer, &name)?.outcome == Outcome::Answered)
            }
            Mechanism::Ptr(target) => {
                let name = self.target(target.as_ref(), domain).await.to_ascii_lowercase();
                let names = self.validated_names().await;
                Ok(names.iter().any(|n| is_at_or_below(n, &name)))
            }
            Mechanism::All | Mechanism::Ip4(..) | Mechanism::Ip6(..) => Ok(false),
        }
    }

    /// One of the domain's mail exchangers has the client's address.
    async fn exchanges(&mut self, domain: &str, lengths: Lengths) -> Result<bool, Failure> {
        let answer = self.lookups.ask(Effect::Spf, domain, Kind::Mx).await;
        self.count_void(&answer)?;
        let hosts = certain(&answer, domain)?.data.iter().filter_map(|data| match data {
            Data::Exchanger { host, .. } => Some(host.clone()),
            _ => None,
        });
        let hosts: Vec<String> = hosts.collect();
        for (count, host) in hosts.iter().filter(|host| !host.is_empty()).enumerate() {
            if count >= HOSTS_MAX {
                return permanent(format!("{domain} has more than {HOSTS_MAX} mail exchangers"));
            }
            if self.has_client(host, lengths).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The host has the client's address, or one in its network.
    async fn has_client(&mut self, host: &str, lengths: Lengths) -> Result<bool, Failure> {
        let (kind, bits) = match self.client {
            IpAddr::V4(_) => (Kind::A, lengths.v4),
            IpAddr::V6(_) => (Kind::Aaaa, lengths.v6),
        };
        let answer = self.lookups.ask(Effect::Spf, host, kind).await;
        self.count_void(&answer)?;
        Ok(certain(&answer, host)?.addresses().any(|ip| within(self.client, ip, bits)))
    }

    /// Names of the client that have its address (section 5.5). Failures count as no name.
    async fn validated_names(&self) -> Vec<String> {
        let names = self.lookups.ask_names(Effect::Spf, self.client).await;
        let kind = if self.client.is_ipv4() { Kind::A } else { Kind::Aaaa };
        let mut validated = Vec::new();
        for name in names.names().take(HOSTS_MAX) {
            let addresses = self.lookups.ask(Effect::Spf, name, kind).await;
            if addresses.addresses().any(|ip| ip == self.client) {
                validated.push(name.to_owned());
            }
        }
        validated
    }

    async fn target(&mut self, target: Option<&Template>, domain: &str) -> String {
        match target {
            Some(template) => self.expand(template, domain).await,
            None => domain.to_owned(),
        }
    }

    async fn expand(&mut self, template: &Template, domain: &str) -> String {
        if template.needs_validated_name() && self.name.is_none() {
            let names = self.validated_names().await;
            let equal = names.iter().find(|n| n.eq_ignore_ascii_case(domain));
            let below = || names.iter().find(|n| is_at_or_below(n, &domain.to_ascii_lowercase()));
            let name = equal.or_else(below).or_else(|| names.first());
            self.name = Some(name.cloned().unwrap_or_else(|| "unknown".to_owned()));
        }
        template.expand_name(&self.values(domain))
    }

    fn values<'v>(&'v self, domain: &'v str) -> Values<'v> {
        Values {
            sender: self.sender,
            domain,
            client: self.client,
            helo: self.subject.helo,
            validated: self.name.as_deref().unwrap_or("unknown"),
            host: self.subject.host,
            now: self.subject.now,
        }
    }

    /// The domain's own words about a failure (section 6.2); none if anything is wrong with them.
    async fn explain(&mut self, template: &Template, domain: &str) -> Option<String> {
        let name = self.expand(template, domain).await;
        let answer = self.lookups.ask(Effect::Spf, &name, Kind::Txt).await;
        let mut texts = answer.texts();
        let (text, none) = (texts.next()?, texts.next());
        let text = std::str::from_utf8(text).ok().filter(|t| t.is_ascii() && none.is_none())?;
        let text = Template::parse_text(text, true).ok()?.expand(&self.values(domain));
        Some(text.chars().filter(|c| !gauntlet_smtp::text::breaks_line(*c)).take(400).collect())
    }
}

/// An answer that says something; else the check cannot end.
fn certain<'a>(answer: &'a Answer, name: &str) -> Result<&'a Answer, Failure> {
    if answer.outcome.is_certain() {
        return Ok(answer);
    }
    let reason = format!("{name}: {}", answer.outcome.name());
    // Unanswered, too (section 2.6.6): a sender could see to it that its own answers come late.
    Err(Failure { result: AuthResult::TempError, reason })
}

/// Two labels at least, of 1 to 63 characters (section 4.3).
fn is_domain(domain: &str) -> bool {
    let labels = domain.strip_suffix('.').unwrap_or(domain).split('.');
    domain.len() <= 253
        && domain.contains('.')
        && domain.parse::<IpAddr>().is_err()
        && !domain.starts_with('[')
        && labels.into_iter().all(|label| (1..=63).contains(&label.len()))
}

fn is_at_or_below(name: &str, domain: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.strip_suffix(domain).is_some_and(|head| head.is_empty() || head.ends_with('.'))
}

/// The addresses agree in their first bits.
fn within(address: IpAddr, base: IpAddr, bits: u8) -> bool {
    match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let shift = 32 - u32::from(bits.min(32));
            (u64::from(a.to_bits()) ^ u64::from(b.to_bits())) >> shift == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differ = a.to_bits() ^ b.to_bits();
            differ.checked_shr(128 - u32::from(bits.min(128))).unwrap_or(0) == 0
        }
        _ => false,
    }
}
