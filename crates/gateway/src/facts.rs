//! What the network says about a message, gathered before the scan.
//!
//! ```text
//! envelope, message ─▶ Inquiry (bounded, recorded) ─┬─▶ reverse name ──────────────┐
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
pub mod inquiry;
mod list_fetch;
pub mod lists;
pub mod local_lists;
pub mod memory;
pub mod reverse;
pub mod rules;
pub mod spf;
pub mod tags;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use gauntlet_engine::Verdict;
use gauntlet_mail::address::{ascii_domain, mailboxes};
use gauntlet_mail::facts::{AuthResult, Facts};
use gauntlet_mail::{Direction, Envelope, Message};

use self::country::Countries;
use self::dkim::Verifier;
use self::inquiry::Inquiry;
use self::lists::{DnsLists, Subjects};
use self::local_lists::LocalLists;
use self::rules::KnownText;
use crate::config::{DnsListSettings, FactSettings};
use crate::network::Network;
use crate::resolver::Resolver;
use gauntlet_rules::Ruleset;
use gauntlet_store::History;

/// Gathers facts. Share it as `Arc<Gatherer>`.
#[derive(Debug)]
pub struct Gatherer {
    resolver: Arc<Resolver>,
    verifier: Verifier,
    dns_lists: DnsLists,
    local_lists: LocalLists,
    history: Option<Arc<History>>,
    rules: Option<rules::Asker>,
    countries: Option<Countries>,
    settings: FactSettings,
    /// Clients that are ours: nothing is asked about them.
    ours: Vec<Network>,
    /// Our name.
    host: String,
}

impl Gatherer {
    /// A gatherer of these settings.
    ///
    /// # Errors
    /// If a network, a list or the database of countries is malformed; the message names the setting.
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
        Ok(Gatherer {
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
        })
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
        self.rules = ruleset.filter(|r| r.asks()).map(|r| rules::Asker::new(r.clone()));
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
            history.see(&keys, spam, envelope.received_at);
        }
    }

    /// Heeds what fired: rules may end questions of theirs for a while (`dns_block_rule`).
    pub fn heed(&self, verdict: &Verdict) {
        if let Some(rules) = &self.rules {
            let fired: Vec<&str> = verdict.hits.iter().map(|hit| &*hit.rule).collect();
            rules.heed(&fired);
        }
    }

    /// Gathers what there is to know about a message. `raw` has CRLF line ends.
    pub async fn gather(&self, envelope: &Envelope, raw: &[u8]) -> Facts {
        self.gather_for_scan(envelope, raw).await.0
    }

    /// The same, with what became known of the message's text on the way, for the scan to go on with.
    pub async fn gather_for_scan(&self, envelope: &Envelope, raw: &[u8]) -> (Facts, KnownText) {
        let settings = &self.settings;
        if !settings.enabled {
            return (Facts::default(), None);
        }
        let wait = Duration::from_millis(settings.wait_ms_max);
        let inquiry = Inquiry::new(&self.resolver, settings.questions_max, wait);
        let client = envelope.client_ip.filter(|ip| self.is_foreign(*ip, envelope));
        let claims = auth_results::claims(raw, &self.host);
        if claims > 0 && envelope.direction == Direction::Inbound {
            inquiry.note(format!(
                "authentication-results: {claims} in the message claim to be ours and do not count"
            ));
        }
        let (authenticated, reverse) =
            both(self.authenticate(&inquiry, envelope, client, raw), async {
                match client {
                    Some(client) => reverse::confirm(&inquiry, client).await,
                    None => reverse::Reverse::default(),
                }
            })
            .await;
        let (mut facts, from) = authenticated;
        let about = Subjects { client, envelope, from: from.as_deref(), dkim: &facts.dkim, raw };
        let (mut listings, (rule_answers, text)) =
            both(self.dns_lists.ask(&inquiry, &about), async {
                match &self.rules {
                    Some(rules) => {
                        rules.ask(&inquiry, &self.dns_lists, raw, envelope, &facts).await
                    }
                    None => (Vec::new(), None),
                }
            })
            .await;
        listings.extend(self.local_lists.ask(&about));
        (facts.listings, facts.rule_answers) = (listings, rule_answers);
        if let (Some(history), Some(client)) = (&self.history, client) {
            memory::recall(history, client, envelope, &mut facts);
        }
        facts.country = client.zip(self.countries.as_ref()).and_then(|(ip, all)| all.of(ip));
        facts.reverse_name = reverse.name;
        facts.reverse_confirmed = reverse.confirmed;
        if inquiry.is_late() {
            inquiry.note("the time for look-ups was over before all were answered".to_owned());
        }
        (facts.lookups, facts.notes) = inquiry.finish();
        (facts, text)
    }

    /// Our name, as `Authentication-Results` has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The client is somebody else's: neither in our networks nor logged in.
    fn is_foreign(&self, client: IpAddr, envelope: &Envelope) -> bool {
        envelope.auth_user.is_none() && !self.ours.iter().any(|n| n.contains(client))
    }

    /// SPF, DKIM, ARC, DMARC, BIMI; and the From domain.
    async fn authenticate(
        &self,
        inquiry: &Inquiry<'_>,
        envelope: &Envelope,
        client: Option<IpAddr>,
        raw: &[u8],
    ) -> (Facts, Option<String>) {
        let mut facts = Facts::default();
        let signatures_max = self.settings.signatures_max;
        let signed = self.verifier.verify(inquiry, raw, signatures_max, envelope.received_at);
        let (spf, signed) = both(self.spf(inquiry, envelope, client), signed).await;
        if let Some((helo, mail_from)) = &spf {
            facts.spf_helo = helo.result;
            facts.spf = mail_from.result;
            facts.spf_explanation.clone_from(&mail_from.explanation);
            for checked in [helo, mail_from] {
                if let Some(reason) = &checked.reason {
                    inquiry.note(format!("spf: {reason}"));
                }
            }
        }
        facts.dkim = signed.dkim;
        facts.arc = signed.arc;
        facts.arc_domain = signed.arc_domain;
        let Some(from) = from_domain(raw, inquiry) else { return (facts, None) };
        // Behind a client of ours SPF says nothing: then only a signature can decide.
        if spf.is_none() && !facts.dkim.iter().any(|s| s.result == AuthResult::Pass) {
            return (facts, Some(from));
        }
        let who = dmarc::Identities {
            from: &from,
            spf_domain: spf.as_ref().map_or("", |(_, checked)| &checked.domain),
            spf: facts.spf,
            dkim: &facts.dkim,
        };
        let judged = dmarc::judge(inquiry, &who).await;
        if spf.is_some() || judged.result == AuthResult::Pass {
            facts.dmarc = judged.result;
        }
        facts.dmarc_policy = judged.policy;
        facts.dmarc_domain = judged.domain;
        if self.settings.bimi && facts.dmarc == AuthResult::Pass {
            facts.bimi = dmarc::logo(inquiry, &from, facts.dmarc_domain.as_deref()).await;
        }
        (facts, Some(from))
    }

    /// SPF of HELO and of MAIL FROM.
    async fn spf(
        &self,
        inquiry: &Inquiry<'_>,
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
        Some(both(spf::check(inquiry, &subject), spf::check(inquiry, &with_sender)).await)
    }
}

/// The one domain of the From field; none if there is none, or several.
fn from_domain(raw: &[u8], inquiry: &Inquiry<'_>) -> Option<String> {
    /// Addresses of From fields that are read.
    const AUTHORS_MAX: usize = 64;
    let header: Vec<&[u8]> = fields(raw).filter(|f| is_named(f, b"from")).take(4).collect();
    let header = header.concat();
    let message = Message::parse(&header);
    let mut domains = Vec::new();
    for field in message.headers() {
        for mailbox in mailboxes(&field.unfolded(), AUTHORS_MAX) {
            domains.extend(ascii_domain(mailbox.domain()).filter(|d| !d.is_empty()));
        }
    }
    domains.sort();
    domains.dedup();
    if domains.len() > 1 {
        inquiry.note("dmarc: several From domains, so none is judged".to_owned());
        return None;
    }
    domains.pop()
}

pub(crate) use gauntlet_mail::fields::{fields, is_named};

/// The text up to so many bytes, cut at a character, on one line.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    crate::judge::cut(&gauntlet_smtp::text::one_line(text, ' '), bytes_max)
}

/// Runs both at once.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    tokio::join!(a, b)
}

/// Runs all at once; the results are in the order of the futures.
pub(crate) async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut under_way: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = under_way.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut open = false;
        for (future, output) in under_way.iter_mut().zip(&mut outputs) {
            if output.is_some() {
                continue;
            }
            match future.as_mut().poll(context) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => open = true,
            }
        }
        if open { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
