//! Probe accounts and traps: addresses and whole domains without users, and listeners that only
//! bots find, so that whatever comes to them is unwanted.
//!
//! Mail to one of them is fingerprinted after its scan; the fingerprints go to the signatures of
//! the data folder, what it named and hit to its sightings ([`gauntlet_learning::probes`]), by a
//! thread of its own. The node applies signatures with its next poll. Of good mail the domains are
//! noted, so that nothing that it names becomes an entry of a list.
//!
//! What has a sign that it is good ([`has_good_sign`]) teaches nothing, whoever sent it to a trap:
//! a newsletter that somebody subscribes a trap to must not be blocked for all.
//!
//! Mail to a probe account goes on as the policy says; mail to a trap goes nowhere, and nobody is
//! told of that.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use gauntlet_engine::Scratch;
use gauntlet_engine::signatures::fingerprint;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_learning::probes::{
    RULES_MAX, Sighting, URL_BYTES_MAX, URLS_MAX, add_good_domains, append, domain_id,
};
use gauntlet_learning::signatures::SignatureWriter;
use gauntlet_mail::address::ascii_domain;
use gauntlet_mail::date::DAY_MS;
use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Direction, Envelope, Facts, Message, UrlSource, public_suffix};
use gauntlet_smtp::address::domain_of;
use gauntlet_store::history::network_key;
use gauntlet_verdict::{Class, Disposition, Final, Verdict};

use crate::config::{Config, ListenerRole};
use crate::scan::good_signs::has_good_sign;

/// Messages that wait to be written; beyond these, further ones are not learned from.
const QUEUE_MAX: usize = 256;
/// Domains of one good message that are noted.
const GOOD_DOMAINS_MAX: usize = 256;
/// Domains that wait to be written; beyond these they are written before the pause is over.
const WAITING_MAX: usize = 4_096;
/// Between two times that domains of good mail are written.
const WRITE_PAUSE: Duration = Duration::from_secs(60);
/// What log and pages name as the rule that ended the way of mail to a trap.
pub const TRAP_RULE: &str = "trap";

/// The accounts and domains, and the way to the disk. Clones share it.
#[derive(Debug, Clone)]
pub struct Probes {
    addresses: Arc<BTreeSet<String>>,
    /// Whole domains that are traps.
    domains: Arc<BTreeSet<String>>,
    queue: Sender<Seen>,
}

/// What a message was seen to have.
#[derive(Debug)]
enum Seen {
    Bad { entries: Vec<Entry>, sighting: Box<Sighting>, day: u16 },
    Good { domains: Vec<u64>, day: u16 },
}

/// What is known of a message that was just scanned.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<'s> {
    /// How it came.
    pub envelope: &'s Envelope,
    /// What the network said of it.
    pub facts: &'s Facts,
    /// What the engine said of it.
    pub verdict: &'s Verdict,
    /// Unix time in milliseconds.
    pub received_ms: i64,
    /// It came to a listener for traps.
    pub is_trap: bool,
}

impl Probes {
    /// Those of a configuration, if it has any; starts the thread that writes, which ends when the
    /// last clone is gone.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn of(config: &Config) -> io::Result<Option<Self>> {
        let learning = &config.learning;
        let has_trap = config.listener.iter().any(|l| l.role == ListenerRole::Trap);
        if learning.probes.is_empty() && learning.probe_domains.is_empty() && !has_trap {
            return Ok(None);
        }
        let (queue, seen) = bounded(QUEUE_MAX);
        let writer = Writer {
            data: config.node.data.clone(),
            days: learning.signature_days,
            bytes_max: config.traps.kept_bytes_max,
            good: BTreeSet::new(),
            written: Instant::now(),
        };
        std::thread::Builder::new().name("probes".to_owned()).spawn(move || writer.write(&seen))?;
        let plain = |texts: &[String]| {
            Arc::new(texts.iter().map(|text| text.trim().to_lowercase()).collect::<BTreeSet<_>>())
        };
        let domains = plain(&learning.probe_domains);
        Ok(Some(Probes { addresses: plain(&learning.probes), domains, queue }))
    }

    /// The domain of an address is a trap as a whole.
    pub fn is_trap(&self, address: &str) -> bool {
        self.domains.contains(&domain_of(address).to_lowercase())
    }

    fn is_probe(&self, address: &str) -> bool {
        self.addresses.contains(&address.to_lowercase()) || self.is_trap(address)
    }

    /// Learns from a message that was just scanned with this scratch. Never waits.
    pub fn notice(&self, message: &Message<'_>, scanned: Scanned<'_>, scratch: &mut Scratch) {
        let Scanned { envelope, facts, verdict, received_ms, is_trap } = scanned;
        let day = u16::try_from(received_ms.max(0) / DAY_MS).unwrap_or(u16::MAX);
        let is_ours = envelope.direction == Direction::Outbound;
        let is_good = is_ours || has_good_sign(envelope, facts);
        let is_probe = is_trap || envelope.rcpt_to.iter().any(|address| self.is_probe(address));
        let seen = match (is_probe, is_good) {
            (true, true) => {
                tracing::debug!("mail to a probe has a good sign, and teaches nothing");
                return;
            }
            (true, false) => {
                let found = scratch.fingerprints(message);
                let entry = |f: fingerprint::Found| Entry {
                    fingerprint: f.fingerprint,
                    bad: 1,
                    good: 0,
                    day,
                };
                let entries = found.into_iter().map(entry).collect();
                let sighting = Box::new(sighting(message, &scanned));
                Seen::Bad { entries, sighting, day }
            }
            // What the engine calls phishing or malware is no good mail, whoever sent it.
            (false, true) if verdict.class <= Class::Spam => {
                Seen::Good { domains: domains_of(message, Some(facts)), day }
            }
            (false, _) => return,
        };
        if self.queue.try_send(seen).is_err() {
            tracing::debug!("a message was not learned from: too many at once");
        }
    }
}

/// Ends the way of a message for recipients whose domain is a trap, or for all of a listener for
/// traps: it is delivered nowhere, and nobody is told.
pub fn end_in_trap(probes: Option<&Probes>, is_trap: bool, dispositions: &mut [Disposition]) {
    for disposition in dispositions {
        if is_trap || probes.is_some_and(|probes| probes.is_trap(&disposition.recipient)) {
            let recipient = std::mem::take(&mut disposition.recipient);
            let rules = vec![TRAP_RULE.to_owned()];
            let (end, changes) = (Final::Discard, Vec::new());
            *disposition = Disposition { recipient, end, changes, rules, release: None };
        }
    }
}

/// What a message to a probe named and hit.
fn sighting(message: &Message<'_>, scanned: &Scanned<'_>) -> Sighting {
    let Scanned { envelope, verdict, received_ms, .. } = scanned;
    let author = || message.from().map(|from| from.domain().to_lowercase());
    let sender = envelope.mail_from.rsplit_once('@').and_then(|(_, domain)| ascii_domain(domain));
    let mut urls = Vec::new();
    let own = |domain: &str| {
        let of = |address: &String| is_below(&domain_of(address), domain);
        envelope.rcpt_to.iter().any(of)
    };
    for url in message.all_urls() {
        // A word that looks like a host is none that anybody is sent to; pictures are often those
        // of the imitated firm; a link to unsubscribe may have the trap's own domain.
        let leads = url.source != UrlSource::BareHost
            && (!url.source.is_loaded() || url.source == UrlSource::MetaRefresh)
            && url.canonical.scheme().starts_with("http");
        if !leads || own(url.canonical.registrable_domain()) {
            continue;
        }
        let text = url.canonical.as_str();
        if urls.len() < URLS_MAX && text.len() <= URL_BYTES_MAX && !urls.iter().any(|u| u == text) {
            urls.push(text.to_owned());
        }
    }
    let rules = verdict.hits.iter().map(|hit| hit.rule.to_string());
    Sighting {
        at_s: received_ms / 1_000,
        network: envelope.client_ip.map(network_key).unwrap_or_default(),
        sender: sender.or_else(author).unwrap_or_default(),
        class: verdict.class.name().to_owned(),
        urls,
        rules: rules.take(RULES_MAX).collect(),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    let above = host.strip_suffix(domain);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// Registrable domains that a good message names, and of who provably sent it.
pub fn domains_of(message: &Message<'_>, facts: Option<&Facts>) -> Vec<u64> {
    let links = message.all_urls().map(|url| url.canonical.registrable_domain().to_owned());
    let author = message.from().map(|from| from.domain().to_lowercase());
    let signers = facts.iter().flat_map(|facts| &facts.dkim);
    let signers = signers.filter(|signature| signature.result == AuthResult::Pass);
    let signers = signers.map(|signature| signature.domain.to_lowercase());
    let registrable = |host: String| {
        let domain = public_suffix::domain(host.as_bytes());
        domain.and_then(|d| std::str::from_utf8(d).ok()).unwrap_or(&host).to_owned()
    };
    let all = links.chain(author).chain(signers).map(registrable);
    let ids: BTreeSet<u64> =
        all.take(GOOD_DOMAINS_MAX).filter(|d| !d.is_empty()).map(|d| domain_id(&d)).collect();
    ids.into_iter().collect()
}

/// Writes what comes, on a thread of its own.
struct Writer {
    data: PathBuf,
    days: u16,
    bytes_max: u64,
    /// Domains of good mail that are not written yet.
    good: BTreeSet<u64>,
    written: Instant,
}

impl Writer {
    fn write(mut self, queue: &Receiver<Seen>) {
        let mut today = 0;
        loop {
            let come = queue.recv_timeout(WRITE_PAUSE);
            let ends = matches!(come, Err(RecvTimeoutError::Disconnected));
            let (mut entries, mut sightings) = (Vec::new(), Vec::new());
            // All that waits together.
            for seen in come.into_iter().chain(queue.try_iter()) {
                match seen {
                    Seen::Bad { entries: more, sighting, day } => {
                        entries.extend(more);
                        sightings.push(*sighting);
                        today = day;
                    }
                    Seen::Good { domains, day } => {
                        self.good.extend(domains);
                        today = day;
                    }
                }
            }
            self.write_bad(&entries, &sightings, today);
            let due = self.written.elapsed() >= WRITE_PAUSE || self.good.len() > WAITING_MAX;
            if !self.good.is_empty() && (due || ends) {
                self.write_good(today);
            }
            if ends {
                return;
            }
        }
    }

    fn write_bad(&self, entries: &[Entry], sightings: &[Sighting], today: u16) {
        if sightings.is_empty() {
            return;
        }
        // Before the signatures: who sees those finds these.
        if let Err(error) = append(&self.data, sightings, self.bytes_max) {
            tracing::error!(%error, "what mail to probes named could not be written");
        }
        // Open only while writing, so that `gauntlet learn` gets its turn.
        let written = SignatureWriter::open(&self.data, self.days)
            .and_then(|mut writer| writer.append(entries, today));
        if let Err(error) = written {
            tracing::error!(%error, "signatures of probe accounts could not be written");
        }
    }

    fn write_good(&mut self, today: u16) {
        self.written = Instant::now();
        let ids: Vec<u64> = std::mem::take(&mut self.good).into_iter().collect();
        if let Err(error) = add_good_domains(&self.data, &ids, today) {
            tracing::error!(%error, "domains of good mail could not be written");
        }
    }
}
