//! What the network says about a message, gathered before the scan.
//!
//! ```text
//! envelope, message ─▶ LookupContext (bounded, recorded) ─┬─▶ reverse name ──────────────┐
//!                                                   ├─▶ SPF ──┐                    ├─▶ Facts
//!                                                   ├─▶ DKIM, ARC ─┴─▶ DMARC, BIMI ─┤
//!                                                   └─ then ─▶ DNS lists, rules ────┘
//! ```
//!
//! Everything runs at once and ends with the message's time (`facts.wait_ms_max`). What was not
//! answered by then is *unknown*: never a pass, never a listing, never a failure.

pub mod auth_results;
pub mod country;
pub mod dkim;
pub mod dmarc;
pub mod key_record;
mod list_fetch;
pub mod lists;
pub mod local_lists;
pub mod lookup_context;
pub mod memory;
pub mod reverse;
pub mod rules;
pub mod sealers;
pub mod spf;
pub mod tags;

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gauntlet_mail::auth_results as front_results;
use gauntlet_mail::authors::Authors;
use gauntlet_mail::facts::{AuthResult, Facts};
use gauntlet_mail::header::unfold;
use gauntlet_mail::{Direction, Envelope, Limits};
use gauntlet_verdict::Verdict;

use self::country::Countries;
use self::dkim::Verifier;
use self::lists::{DnsLists, Subjects};
use self::local_lists::LocalLists;
use self::lookup_context::LookupContext;
use self::rules::CachedViews;
use crate::config::{DnsListSettings, FactSettings};
use crate::net::resolver::Resolver;
use crate::network::Network;
use gauntlet_spamassassin::Ruleset;
use gauntlet_store::History;

/// Gathers facts. Share it as `Arc<FactCollector>`.
#[derive(Debug)]
pub struct FactCollector {
    resolver: Arc<Resolver>,
    verifier: Verifier,
    dns_lists: DnsLists,
    local_lists: LocalLists,
    history: Option<Arc<History>>,
    rules: Option<rules::RuleLookups>,
    countries: Option<Countries>,
    settings: FactSettings,
    /// Clients that are ours: nothing is asked about them.
    ours: Vec<Network>,
    /// Host name of this node, as HELO and trace fields have it.
    host: String,
    /// Authors of a message that are read.
    authors_max: usize,
}

impl FactCollector {
    /// A collector of these settings.
    ///
    /// # Errors
    /// If a network, a list or the database of countries is malformed; the message names the
    /// setting.
    pub fn new(
        resolver: Arc<Resolver>,
        settings: &FactSettings,
        dns_lists: &[DnsListSettings],
        host: &str,
    ) -> anyhow::Result<Self> {
        let ours = settings.our_networks.iter().map(|n| n.parse::<Network>());
        let ours = ours
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| anyhow::anyhow!("facts.our_networks: {e}"))?;
        Ok(FactCollector {
            resolver,
            verifier: Verifier::new()?,
            dns_lists: DnsLists::new(dns_lists)?,
            local_lists: LocalLists::default(),
            history: None,
            rules: None,
            countries: settings.countries.as_deref().map(Countries::open).transpose()?,
            settings: settings.clone(),
            ours,
            host: host.to_owned(),
            authors_max: usize::from(Limits::default().authors_max),
        })
    }

    /// The same with these limits of a message.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.authors_max = usize::from(limits.authors_max);
        self
    }

    /// The same with lists of our own.
    #[must_use]
    pub fn with_local_lists(mut self, lists: LocalLists) -> Self {
        self.local_lists = lists;
        self
    }

    /// The same with a memory of senders.
    #[must_use]
    pub fn with_history(mut self, history: Arc<History>) -> Self {
        self.history = Some(history);
        self
    }

    /// The same for rules that ask the network themselves.
    #[must_use]
    pub fn with_rules(mut self, ruleset: Option<&Arc<Ruleset>>) -> Self {
        self.rules = ruleset.filter(|r| r.asks()).map(|r| rules::RuleLookups::new(r.clone()));
        self
    }

    /// Reads lists of our own again that changed. Blocks.
    pub fn reload_lists(&self) {
        self.local_lists.reload();
    }

    /// Fetches lists of our own that come from a URL and are due.
    pub async fn fetch_lists(&self) {
        self.local_lists.fetch().await;
    }

    /// Remembers what became of a message from the internet.
    pub fn remember(&self, envelope: &Envelope, facts: &Facts, spam: bool) {
        let client = envelope.client_ip.filter(|ip| self.is_foreign(*ip, envelope));
        if let (Some(history), Some(client)) = (&self.history, client) {
            let keys = memory::keys(client, envelope, facts);
            history.record(&keys, spam, envelope.received_at);
        }
        let is_ours = envelope.direction == Direction::Outbound || envelope.auth_user.is_some();
        if let Some(history) = self.history.as_ref().filter(|_| is_ours && !spam) {
            memory::remember_recipients(history, envelope);
        }
    }

    /// Heeds what fired: rules may end questions of theirs for a while (`dns_block_rule`).
    pub fn apply(&self, verdict: &Verdict) {
        if let Some(rules) = &self.rules {
            let fired: Vec<&str> = verdict.hits.iter().map(|hit| &*hit.rule).collect();
            rules.apply(&fired, self.resolver.clock().now());
        }
    }

    /// Gathers what there is to know about a message. `raw` has CRLF line ends.
    pub async fn gather(&self, envelope: &Envelope, raw: &[u8]) -> Facts {
        self.collect_for_scan(envelope, raw).await.0
    }

    /// The same, with what became known of the message's text on the way, for the scan to go on
    /// with.
    pub async fn collect_for_scan(&self, envelope: &Envelope, raw: &[u8]) -> (Facts, CachedViews) {
        let settings = &self.settings;
        if !settings.enabled {
            return (Facts::default(), None);
        }
        let wait = Duration::from_millis(settings.wait_ms_max);
        let lookups = LookupContext::new(&self.resolver, settings.questions_max, wait);
        let client = envelope.client_ip.filter(|ip| self.is_foreign(*ip, envelope));
        let claims = auth_results::claims(raw, &self.host);
        if claims > 0 && envelope.direction == Direction::Inbound {
            lookups.note(format!(
                "authentication-results: {claims} in the message claim to be ours and do not count"
            ));
        }
        let (authenticated, reverse) =
            both(self.authenticate(&lookups, envelope, client, raw), async {
                match client {
                    Some(client) => reverse::confirm(&lookups, client).await,
                    None => reverse::Reverse::default(),
                }
            })
            .await;
        let (mut facts, from) = authenticated;
        let is_passed_on = client.is_none() && envelope.auth_user.is_none();
        if is_passed_on && envelope.direction == Direction::Inbound {
            self.believe_front_server(&lookups, raw, &from, &mut facts);
        }
        let about = Subjects { client, envelope, from: &from, dkim: &facts.dkim, raw };
        let (mut listings, (rule_answers, text)) =
            both(self.dns_lists.ask(&lookups, &about), async {
                match &self.rules {
                    Some(rules) => {
                        rules.ask(&lookups, &self.dns_lists, raw, envelope, &facts).await
                    }
                    None => (Vec::new(), None),
                }
            })
            .await;
        listings.extend(self.local_lists.ask(&about));
        (facts.listings, facts.rule_answers) = (listings, rule_answers);
        if let (Some(history), Some(client)) = (&self.history, client) {
            memory::recall(history, client, envelope, &mut facts);
            let authors = authors(raw, self.authors_max);
            memory::recall_author(history, &authors, envelope.received_at, &mut facts);
        }
        facts.country = client.zip(self.countries.as_ref()).and_then(|(ip, all)| all.of(ip));
        facts.reverse_name = reverse.name;
        facts.reverse_confirmed = reverse.confirmed;
        if lookups.is_late() {
            lookups.note("the time for look-ups was over before all were answered".to_owned());
        }
        (facts.lookups, facts.notes) = lookups.finish();
        (facts, text)
    }

    /// Our name, as `Authentication-Results` has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The client is a stranger's: neither in our networks nor logged in.
    fn is_foreign(&self, client: IpAddr, envelope: &Envelope) -> bool {
        envelope.auth_user.is_none() && !self.ours.iter().any(|n| n.contains(client))
    }

    /// SPF, DKIM, ARC, DMARC, BIMI; and the From domains.
    async fn authenticate(
        &self,
        lookups: &LookupContext<'_>,
        envelope: &Envelope,
        client: Option<IpAddr>,
        raw: &[u8],
    ) -> (Facts, Vec<String>) {
        let mut facts = Facts::default();
        let signatures_max = self.settings.signatures_max;
        let authors = authors(raw, self.authors_max);
        let domains = authors.domains();
        // Policies are requested at once: what a sender makes us ask about itself takes none of
        // their time.
        let signed = self.verifier.verify(lookups, raw, signatures_max, envelope.received_at);
        let walks = async {
            if client.is_none() && !is_signed(raw) {
                return Vec::new();
            }
            join_all(domains.iter().map(|domain| dmarc::walk(lookups, domain))).await
        };
        let ((spf, signed), walks) =
            both(both(self.spf(lookups, envelope, client), signed), walks).await;
        if let Some((helo, mail_from)) = &spf {
            facts.spf_helo = helo.result;
            facts.spf = mail_from.result;
            facts.spf_explanation.clone_from(&mail_from.explanation);
            for checked in [helo, mail_from] {
                if let Some(reason) = &checked.reason {
                    lookups.note(format!("spf: {reason}"));
                }
            }
        }
        facts.dkim = signed.dkim;
        facts.arc = signed.arc;
        facts.arc_domain = signed.arc_domain;
        // Behind a client of ours SPF says nothing: then only a signature can decide.
        if spf.is_none() && !facts.dkim.iter().any(|s| s.result == AuthResult::Pass) {
            return (facts, domains);
        }
        let who = dmarc::Identities {
            from: "",
            spf_domain: spf.as_ref().map_or("", |(_, checked)| &checked.domain),
            spf: facts.spf,
            dkim: &facts.dkim,
        };
        let judged = dmarc::judge_all(lookups, &who, walks, &domains).await;
        let is_known = judged.is_some();
        let (which, mut judged) = judged.unwrap_or_default();
        if authors.incomplete && judged.result != AuthResult::Fail {
            lookups.note("dmarc: not every author of the From fields could be read".to_owned());
            judged.result = AuthResult::PermError;
        } else if domains.len() > 1 {
            lookups.note(format!("dmarc: {} From domains, the worst result counts", domains.len()));
        }
        if spf.is_some() || judged.result == AuthResult::Pass {
            facts.dmarc = judged.result;
        }
        facts.dmarc_policy = judged.policy;
        facts.dmarc_domain = judged.domain;
        if facts.arc == AuthResult::Pass && !domains.is_empty() {
            let trusted = &self.settings.arc_sealers_trusted;
            let vouched = domains.iter().all(|from| signed.chain.vouches_for(from, trusted));
            facts.arc_dmarc = if vouched { AuthResult::Pass } else { AuthResult::Unknown };
        }
        facts.dmarc_from = is_known.then(|| domains.get(which).cloned()).flatten();
        if let ([from], true, AuthResult::Pass) = (&domains[..], self.settings.bimi, facts.dmarc) {
            facts.bimi = dmarc::logo(lookups, from, facts.dmarc_domain.as_deref()).await;
        }
        (facts, domains)
    }

    /// Adds what a trusted server in front of this node found.
    fn believe_front_server(
        &self,
        lookups: &LookupContext<'_>,
        raw: &[u8],
        from: &[String],
        facts: &mut Facts,
    ) {
        let trusted = &self.settings.trust_authserv_id;
        if trusted.is_empty() {
            return;
        }
        if let Some((server, results)) = front_results::of_trusted(raw, trusted) {
            front_results::apply(&results, from, facts);
            lookups.note(format!("authentication-results: those of {server} count"));
        }
    }

    /// SPF of HELO and of MAIL FROM.
    async fn spf(
        &self,
        lookups: &LookupContext<'_>,
        envelope: &Envelope,
        client: Option<IpAddr>,
    ) -> Option<(spf::Checked, spf::Checked)> {
        let subject = spf::Subject {
            client: client?,
            helo: &envelope.helo,
            mail_from: "",
            host: &self.host,
            now: envelope.received_at,
        };
        let with_sender = spf::Subject { mail_from: &envelope.mail_from, ..subject };
        Some(both(spf::check(lookups, &subject), spf::check(lookups, &with_sender)).await)
    }
}

/// Whom the From fields name, at most so many.
pub(crate) fn authors(raw: &[u8], max: usize) -> Authors {
    let values: Vec<_> = fields(raw)
        .filter(|field| is_named(field, b"from"))
        .filter_map(|field| Some(unfold(field.get(memchr::memchr(b':', field)? + 1..)?)))
        .collect();
    Authors::read(values.iter().map(|value| &**value), max)
}

/// The message has a DKIM signature, whatever it is worth.
fn is_signed(raw: &[u8]) -> bool {
    fields(raw).any(|field| is_named(field, b"dkim-signature"))
}

pub(crate) use gauntlet_mail::fields::{fields, is_named};

/// Runs both at once. They are boxed: calls of this one within another would hold the inner ones
/// several times on the stack, and with them all that a message asks.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (a, b) = (Box::pin(a), Box::pin(b));
    tokio::join!(a, b)
}
