//! One generation of settings: everything that a reload changes, in one immutable value behind one
//! swap.
//!
//! ```text
//! configuration ─▶ Generation::prepare (may fail: nothing has changed) ─▶ swap ─▶ apply (cannot
//! fail)
//! ```
//!
//! Stages read their part of it ([`InboundSettings`], [`OutboundSettings`]) through [`Current`].
//! What has state of its own (counts of sessions, byte budgets, the resolver's cache, handshakes of
//! a listener) outlives generations and is handed its limits after the swap.

use std::sync::Arc;

use arc_swap::ArcSwap;
use gauntlet_engine::Learned;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_store::History;

use super::budgets::session_limits;
use super::{MakeJudge, Node};
use crate::admin::{policy_source, quarantine};
use crate::config::Config;
use crate::current::Current;
use crate::facts::FactCollector;
use crate::facts::local_lists::LocalLists;
use crate::inbound::rate_limiter::RateRules;
use crate::inbound::recipients::Recipients;
use crate::inbound::settings::InboundSettings;
use crate::net::resolver::Resolver;
use crate::net::tls::{CertifiedKeys, ListenerTls};
use crate::outbound::settings::OutboundSettings;
use crate::priority;
use crate::scan::judge::Judge;
use crate::secrets::Secrets;

/// Settings of one reading of the configuration.
#[derive(Debug, Clone)]
pub(super) struct Generation {
    /// As it was read.
    pub(super) config: Arc<Config>,
    /// For mail that comes in.
    pub(super) inbound: Arc<InboundSettings>,
    /// For mail that goes out.
    pub(super) outbound: Arc<OutboundSettings>,
}

/// The generation in force.
#[derive(Debug, Clone)]
pub(super) struct InForce(Arc<ArcSwap<Generation>>);

/// What a generation is made with; it outlives all of them.
pub(super) struct Sources<'s> {
    pub(super) make_judge: &'s MakeJudge,
    pub(super) resolver: &'s Arc<Resolver>,
    pub(super) history: &'s Arc<History>,
    pub(super) secrets: Option<&'s Arc<Secrets>>,
}

impl Generation {
    /// Reads everything that a configuration names. Nothing is changed.
    ///
    /// # Errors
    /// The part that cannot be read, by its setting.
    pub(super) fn prepare(config: Config, sources: &Sources<'_>) -> anyhow::Result<Self> {
        // Rules are compiled while mail flows.
        let judge = priority::in_background(|| (sources.make_judge)(&config))?;
        let facts = fact_collector(&config, sources, &judge)?;
        let recipients = Recipients::load(&config)?;
        let rates = RateRules::of(&config)?;
        let disarming = judge.unpacking.as_ref().map(|unpacking| unpacking.tools());
        let outbound = OutboundSettings::load(&config, sources.secrets, disarming)?;
        let inbound = InboundSettings {
            receiver: config.receiver.clone(),
            stress: config.stress,
            traps: config.traps.clone(),
            rates,
            recipients: Arc::new(recipients),
            routes: outbound.routes.clone(),
            facts: Arc::new(facts),
            policy: config.policy.clone(),
            digest: config.digest.clone(),
            judge: Arc::new(judge),
        };
        let (config, inbound, outbound) = (Arc::new(config), Arc::new(inbound), Arc::new(outbound));
        Ok(Generation { config, inbound, outbound })
    }

    fn with_judge(&self, judge: Judge) -> Self {
        let inbound = InboundSettings { judge: Arc::new(judge), ..(*self.inbound).clone() };
        Generation { inbound: Arc::new(inbound), ..self.clone() }
    }
}

fn fact_collector(
    config: &Config,
    sources: &Sources<'_>,
    judge: &Judge,
) -> anyhow::Result<FactCollector> {
    let (host, resolver) = (config.node.host_name(), sources.resolver.clone());
    let folder = config.node.data.join("lists");
    let clock = resolver.clock().clone();
    let lists = LocalLists::open(&config.local_list, &folder, &config.sender.roots, clock)?;
    let collector = FactCollector::new(resolver, &config.facts, &config.dns_list, &host)?
        .with_limits(&config.limits)
        .with_local_lists(lists)
        .with_rules(judge.snapshot.ruleset.as_ref());
    Ok(match config.facts.history {
        true => collector.with_history(sources.history.clone()),
        false => collector,
    })
}

impl InForce {
    pub(super) fn new(first: Generation) -> Self {
        InForce(Arc::new(ArcSwap::from_pointee(first)))
    }

    pub(super) fn get(&self) -> Arc<Generation> {
        self.0.load_full()
    }

    pub(super) fn inbound(&self) -> Current<InboundSettings> {
        Current::of(&self.0, |generation| &generation.inbound)
    }

    pub(super) fn outbound(&self) -> Current<OutboundSettings> {
        Current::of(&self.0, |generation| &generation.outbound)
    }

    fn replace(&self, next: Generation) {
        self.0.store(Arc::new(next));
    }

    fn change_judge(&self, change: impl Fn(&Judge) -> Judge) {
        self.0.rcu(|generation| generation.with_judge(change(&generation.inbound.judge)));
    }
}

impl Node {
    /// The configuration in force, as the last reload read it.
    pub fn config(&self) -> Arc<Config> {
        self.in_force.get().config.clone()
    }

    /// The judge in force; taken once for each message.
    pub fn judge(&self) -> Arc<Judge> {
        self.in_force.get().inbound.judge.clone()
    }

    /// Version of ruleset, model and lists.
    pub fn ruleset(&self) -> String {
        self.judge().snapshot.version.to_string()
    }

    /// Judges with this from now on. Scans under way end with what they began with; none waits.
    pub fn apply_learned(&self, learned: &Learned) {
        self.in_force.change_judge(|judge| judge.with_learned(learned.clone()));
    }

    /// Judges with this known mail of channels from now on, as [`Self::apply_learned`].
    pub fn apply_published(&self, published: &[Arc<KnownSignatures>]) {
        self.in_force.change_judge(|judge| judge.with_published(published.to_vec()));
    }

    /// Reads the policy in force again and applies it: messages judged from now on are decided by
    /// it, those under way by the one before.
    ///
    /// # Errors
    /// If it cannot be read, or is none; then the one before stays.
    pub fn reload_policy(&self) -> anyhow::Result<()> {
        let policy = policy_source::load_with(&self.config(), self.logins.users())?;
        self.in_force.change_judge(|judge| judge.with_policy(policy.clone()));
        Ok(())
    }

    /// Applies new settings without dropping a session. Listeners, data folder, spool and scan
    /// threads stay as they are until the next start.
    ///
    /// # Errors
    /// The part that cannot be read; then everything stays as it was.
    pub fn reload(&self, config: Config) -> anyhow::Result<()> {
        if let Some(secrets) = &self.secrets {
            secrets.reload()?;
        }
        let sources = Sources {
            make_judge: &self.make_judge,
            resolver: &self.resolver,
            history: &self.history,
            secrets: self.secrets.as_ref(),
        };
        let resolver = Resolver::with_clock(&config.dns, self.clock.clone())?;
        let certificates = self.prepare_certificates(&config)?;
        let next = Generation::prepare(config, &sources)?;
        let config = next.config.clone();
        // From here on nothing can fail.
        self.in_force.replace(next);
        for (tls, keys) in certificates {
            tls.apply(keys);
        }
        self.resolver.apply(resolver);
        self.logins.forget();
        self.admission.set_limits(session_limits(&config));
        self.quarantine.set_folder_release(quarantine::folder_release(&config));
        self.quarantine.set_own_packs(quarantine::folders_with_own_packs(&config));
        self.budgets.set_limits(&config);
        self.outcomes.enable(config.tls_reports.enabled);
        if let Some(secrets) = &self.secrets {
            secrets.keep_reloaded();
        }
        self.reloaded.notify_one();
        Ok(())
    }

    /// The certificates of the listeners, read again: of those whose address stayed the same.
    pub(super) fn prepare_certificates(
        &self,
        config: &Config,
    ) -> anyhow::Result<Vec<(&Arc<ListenerTls>, CertifiedKeys)>> {
        let before = self.config();
        let mut all = Vec::new();
        for (old, tls) in before.mail_listeners().zip(&self.certificates) {
            let now = config.mail_listeners().find(|new| new.address == old.address);
            if let (Some(now), Some(tls)) = (now, tls) {
                all.push((tls, tls.prepare(config, now)?));
            }
        }
        Ok(all)
    }
}
