//! Rules for packets (`[[ips.rule]]`) as the gate before pipelines: countries, names of interfaces,
//! counters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use gauntlet_ids::config;
use gauntlet_ids::detect::Countries;
use gauntlet_ids::pipeline::Gate;
use gauntlet_ids::pipeline::gate::{Decided, LinkKind, Question, Refusal};
use gauntlet_packet::Time;
use gauntlet_packet::flow::{Admission, Basis, Passage};
use gauntlet_policy::packets::{
    Action, Carried, Carry, Country, Decision, LinkProtocol, Opening, PacketPolicy, PacketSettings,
};

use serde_json::json;

use crate::dlp;

/// The number of the default in [`Admission::rule`].
const DEFAULT: u16 = u16::MAX;
/// Names of interfaces that are remembered; all are forgotten each second.
const NAMES_MAX: usize = 1_024;
/// An interface that has no name any more.
const NAMELESS: &str = "?";

/// Options of the policy for packets.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GateArgs {
    /// Decide about flows by the [[ips.rule]]s of this configuration, before all else
    #[arg(long, value_name = "FILE")]
    packet_policy: Option<PathBuf>,
}

impl GateArgs {
    /// Whether a policy is named.
    pub(super) fn is_used(&self) -> bool {
        self.packet_policy.is_some()
    }

    /// Reads the policy. `earlier`: the one whose place it takes.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn open(
        &self,
        database: Option<&Path>,
        earlier: Option<&PacketGate>,
    ) -> anyhow::Result<Option<Arc<PacketGate>>> {
        let Some(file) = &self.packet_policy else { return Ok(None) };
        let Some((settings, policy)) = read(file)? else { return Ok(None) };
        let gate = PacketGate::new(settings, policy, database, earlier);
        Ok(Some(Arc::new(gate.with_context(|| file.display().to_string())?)))
    }
}

/// The policy of a configuration; none if that has no rules for packets.
///
/// # Errors
/// If the configuration cannot be used.
pub(super) fn read(file: &Path) -> anyhow::Result<Option<(PacketSettings, PacketPolicy)>> {
    let ips = dlp::config_of(Some(file))?.ips;
    let policy = ips.packet_policy();
    let policy = policy.map_err(|problems| match problems.into_iter().next() {
        Some(problem) => anyhow::Error::new(problem),
        None => anyhow::anyhow!("[[ips.rule]] cannot be used"),
    })?;
    Ok(policy.map(|policy| (ips.packet_settings(), policy)))
}

/// The database that `geoip-database` names.
pub(crate) fn database(settings: &config::Settings, directory: &Path) -> Option<PathBuf> {
    settings.get("geoip-database").map(|file| directory.join(file))
}

/// Opens the database if the policy asks for countries.
///
/// # Errors
/// If it has to be there and is not.
pub(super) fn countries(
    policy: &PacketPolicy,
    database: Option<&Path>,
) -> anyhow::Result<Option<Countries>> {
    if !policy.asks_countries() {
        return Ok(None);
    }
    let Some(file) = database else {
        bail!(
            "a rule asks for a country, and geoip-database names no database: set it, e.g. by \
             --set geoip-database=/path/to/countries.mmdb (of a node: ips.set)"
        );
    };
    let opened = Countries::open(file);
    Ok(Some(opened.with_context(|| format!("geoip-database {}", file.display()))?))
}

/// The country of an address.
pub(super) fn country(countries: Option<&Countries>, address: std::net::IpAddr) -> Option<Country> {
    countries?.of(address)?.as_bytes().try_into().ok()
}

/// What was counted of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuleCount {
    /// Its name, or why packets were refused by none.
    pub(crate) rule: String,
    pub(crate) action: &'static str,
    /// Decisions: flows that were let in, or first packets that were refused.
    pub(crate) decisions: u64,
    /// Packets that were refused.
    pub(crate) refused: u64,
}

impl RuleCount {
    /// Whether anything was counted.
    pub(crate) fn is_used(&self) -> bool {
        self.decisions > 0 || self.refused > 0
    }

    /// As summaries and `stats` have it.
    pub(crate) fn json(&self) -> serde_json::Value {
        let Self { rule, action, decisions, refused } = self;
        json!({ "rule": rule, "action": action, "decisions": decisions, "refused": refused })
    }
}

/// Names of interfaces by number, as they were in a second.
type Names = (i64, BTreeMap<u32, Arc<str>>);

#[derive(Debug, Default)]
struct Count {
    decisions: AtomicU64,
    refused: AtomicU64,
}

impl Count {
    fn add(&self, is_first: bool, is_refused: bool) {
        self.decisions.fetch_add(u64::from(is_first), Ordering::Relaxed);
        self.refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
    }
}

/// The policy, asked by pipelines.
#[derive(Debug)]
pub(crate) struct PacketGate {
    policy: PacketPolicy,
    settings: PacketSettings,
    countries: Option<Countries>,
    generation: u32,
    /// Of rules, and of the default last.
    counts: Vec<Arc<Count>>,
    fragments: Arc<Count>,
    malformed: Arc<Count>,
    links: Arc<Count>,
    /// Records of this second.
    records: Mutex<(i64, u32)>,
    unrecorded: Arc<AtomicU64>,
    /// Names of interfaces by number, as they were in this second; not asked for if no zone has
    /// any.
    names: Option<Mutex<Names>>,
}

impl PacketGate {
    fn new(
        settings: PacketSettings,
        policy: PacketPolicy,
        database: Option<&Path>,
        earlier: Option<&PacketGate>,
    ) -> anyhow::Result<Self> {
        let countries = countries(&policy, database)?;
        let rules = (0..).take(policy.len()).map(Some).chain([None]);
        let counts = rules.map(|rule| {
            let name = policy.name(rule);
            earlier.and_then(|earlier| earlier.count_of(name)).unwrap_or_default()
        });
        let counts = counts.collect();
        let names = (!policy.interfaces().is_empty()).then(Mutex::default);
        let kept =
            |of: fn(&PacketGate) -> &Arc<Count>| earlier.map(of).cloned().unwrap_or_default();
        Ok(Self {
            counts,
            fragments: kept(|gate| &gate.fragments),
            malformed: kept(|gate| &gate.malformed),
            links: kept(|gate| &gate.links),
            records: Mutex::default(),
            unrecorded: earlier.map(|gate| Arc::clone(&gate.unrecorded)).unwrap_or_default(),
            generation: earlier.map_or(0, |earlier| earlier.generation.wrapping_add(1)),
            names,
            policy,
            settings,
            countries,
        })
    }

    /// Counters go on under a rule's name.
    fn count_of(&self, name: &str) -> Option<Arc<Count>> {
        let mut rules = (0..).take(self.policy.len()).map(Some).chain([None]);
        let place = rules.position(|rule| self.policy.name(rule) == name)?;
        self.counts.get(place).cloned()
    }

    /// What was counted, by rule.
    pub(crate) fn counted(&self) -> Vec<RuleCount> {
        let rules = (0..).take(self.policy.len()).map(Some).chain([None]);
        let mut all: Vec<RuleCount> = Vec::with_capacity(self.counts.len() + 3);
        let mut add = |rule: &str, action, count: &Count| {
            all.push(RuleCount {
                rule: rule.to_owned(),
                action,
                decisions: count.decisions.load(Ordering::Relaxed),
                refused: count.refused.load(Ordering::Relaxed),
            });
        };
        for (rule, count) in rules.zip(&self.counts) {
            add(self.policy.name(rule), self.policy.action(rule).name(), count);
        }
        add(Refusal::Fragment.reason(), "drop", &self.fragments);
        add(Refusal::Malformed.reason(), "drop", &self.malformed);
        add(Refusal::Link.reason(), "drop", &self.links);
        all
    }

    /// Whether senders of what a rule refuses go into the kernel's sets.
    pub(crate) fn blocks(&self, number: Option<u16>) -> bool {
        self.policy.blocks(number.and_then(rule_of))
    }

    /// Decisions that were to be recorded, and were too many.
    pub(crate) fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    /// Whether one more record may be written in this second.
    fn may_record(&self, second: i64) -> bool {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.0 != second {
            *records = (second, 0);
        }
        records.1 = records.1.saturating_add(1);
        let may = records.1 <= self.settings.records_per_second_max;
        drop(records);
        self.unrecorded.fetch_add(u64::from(!may), Ordering::Relaxed);
        may
    }

    fn interface(&self, number: Option<u32>, second: i64) -> Option<Arc<str>> {
        let (number, names) = (number?, self.names.as_ref()?);
        let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.0 != second || names.1.len() >= NAMES_MAX {
            *names = (second, BTreeMap::new());
        }
        let name = names.1.entry(number).or_insert_with(|| {
            let name = gauntlet_netio::interface_name(number);
            name.map_or_else(|| NAMELESS.into(), Into::into)
        });
        Some(Arc::clone(name))
    }
}

/// A rule of the policy by the number that flows keep.
fn rule_of(number: u16) -> Option<u16> {
    (number != DEFAULT).then_some(number)
}

impl Gate for PacketGate {
    fn generation(&self) -> u32 {
        self.generation
    }

    fn decide(&self, question: &Question) -> Admission {
        let second = question.time.seconds;
        let incoming = self.interface(question.interfaces.incoming, second);
        let outgoing = self.interface(question.interfaces.outgoing, second);
        let carried = match (question.icmp, question.protocol) {
            (Some((kind, code)), _) => Carried::Icmp { kind, code },
            (None, 6 | 17 | 132) => Carried::Ports {
                source: question.source.port,
                destination: question.destination.port,
            },
            _ => Carried::Nothing,
        };
        let opening = Opening {
            source: question.source.address,
            destination: question.destination.address,
            protocol: question.protocol,
            carried,
            incoming: incoming.as_deref(),
            outgoing: outgoing.as_deref(),
            unix: second,
        };
        let of = |address| country(self.countries.as_ref(), address);
        let Decision { rule, action, functions } = self.policy.decide(&opening, &of);
        Admission {
            generation: self.generation,
            rule: rule.unwrap_or(DEFAULT),
            passage: match action {
                Action::Inspect => Passage::Inspected,
                Action::Allow => Passage::Free,
                Action::Drop => Passage::Dropped,
                Action::Reject => Passage::Rejected,
            },
            functions: functions.0,
            basis: Basis::First,
        }
    }

    fn lets_pass(&self, kind: LinkKind) -> bool {
        let protocol = match kind {
            LinkKind::Arp => LinkProtocol::Arp,
            LinkKind::Ndp => LinkProtocol::Ndp,
            LinkKind::Stp => LinkProtocol::Stp,
            LinkKind::Lldp => LinkProtocol::Lldp,
            LinkKind::Other => LinkProtocol::Other,
        };
        self.settings.link_protocols.contains(&protocol)
    }

    fn takes_fragments(&self) -> bool {
        self.settings.fragments == Carry::Inspect
    }

    fn takes_malformed(&self) -> bool {
        self.settings.malformed == Carry::Inspect
    }

    fn pick_up_seconds(&self) -> u32 {
        self.settings.pick_up_seconds
    }

    fn name(&self, rule: u16) -> &str {
        self.policy.name(rule_of(rule))
    }

    fn count(&self, decided: Decided, is_first: bool, time: Time) -> bool {
        let (count, logs, is_refused) = match decided {
            Decided::Refused(Refusal::Fragment) => (Some(&self.fragments), true, true),
            Decided::Refused(Refusal::Malformed) => (Some(&self.malformed), true, true),
            Decided::Refused(Refusal::Link) => (Some(&self.links), true, true),
            Decided::Admitted(rule) | Decided::Refused(Refusal::Rule(rule)) => {
                let place = rule_of(rule).map_or(self.policy.len(), usize::from);
                let is_refused = matches!(decided, Decided::Refused(_));
                (self.counts.get(place), self.policy.logs(rule_of(rule)), is_refused)
            }
        };
        if let Some(count) = count {
            count.add(is_first, is_refused);
        }
        is_first && logs && self.may_record(time.seconds)
    }
}
