//! A node: all parts, wired. Receiver -> scan pool -> policy -> spool -> queue -> Sender.

mod budgets;
mod certificates;
mod draining;
pub mod files;
mod folder;
mod gauges;
mod generation;
mod housekeeping;
mod listeners;
mod lists;
mod lost;
mod opening;
mod own_mail;
mod publishing;
mod release;
mod reports;
mod serving;
mod sharing;
pub mod stopped;
pub mod subsystems;
#[cfg(test)]
pub(crate) mod test_node;
mod users;

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::{History, Log, Quarantine, Spool, Users};
use tokio::sync::{Notify, watch};

use self::budgets::{Budgets, session_limits};
use self::generation::{Generation, InForce, Sources};
pub use self::listeners::Listeners;
pub use self::release::{Release, ReleaseError};
use self::subsystems::Subsystems;
use crate::clock::Clock;
use crate::config::{Config, ListenerRole, ServiceProtocol};
use crate::ids::{self, Ids};
use crate::inbound::admission::Admission;
use crate::inbound::draining::Draining;
use crate::inbound::logins::Logins;
use crate::inbound::rate_limiter::RateLimiter;
use crate::inbound::receiver::Listener;
use crate::metrics::Metrics;
use crate::net::resolver::Resolver;
use crate::net::tls::ListenerTls;
use crate::outbound::queue::Queue;
use crate::outbound::queue::drain::{Drain, POLL_INTERVAL};
use crate::outbound::tls_outcomes::TlsOutcomes;
use crate::scan::good_mail::GoodMailSamples;
use crate::scan::judge::Judge;
use crate::secrets::Secrets;
use crate::traces::Traces;

/// The addresses that accept mail, with who they are for.
type Addresses = Vec<(ListenerRole, SocketAddr)>;

/// Makes the judge that a configuration asks for: the program knows how to load rules and models.
pub type MakeJudge = Box<dyn Fn(&Config) -> anyhow::Result<Judge> + Send + Sync>;

/// A running node. Dropping it without [`Node::stop`] is like a crash: safe, but sessions break.
pub struct Node {
    in_force: InForce,
    make_judge: MakeJudge,
    /// The message log, which the console reads.
    pub log: Arc<Log>,
    /// Held mail, which the console shows and releases.
    pub quarantine: Arc<Quarantine>,
    /// Messages on their way.
    pub queue: Arc<Queue>,
    /// Counters and gauges, which `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// The way to the DNS.
    pub resolver: Arc<Resolver>,
    spool: Arc<Spool>,
    ids: Arc<Ids>,
    logins: Arc<Logins>,
    /// Of each listener, in the configuration's order.
    certificates: Vec<Option<Arc<ListenerTls>>>,
    admission: Arc<Admission>,
    budgets: Budgets,
    rate_limiter: Arc<RateLimiter>,
    history: Arc<History>,
    good_mail: GoodMailSamples,
    outcomes: Arc<TlsOutcomes>,
    stop: watch::Sender<bool>,
    /// Whether it takes mail.
    draining: Draining,
    /// Notified when the configuration was read again.
    reloaded: Notify,
    addresses: Addresses,
    services: Vec<(ServiceProtocol, String)>,
    maildir: PathBuf,
    started_ms: i64,
    retention: housekeeping::Retention,
    runtime: tokio::runtime::Handle,
    clock: Clock,
    /// Who holds private keys, if it is another process.
    secrets: Option<Arc<Secrets>>,
    traces: Option<Traces>,
    subsystems: OnceLock<Box<dyn Subsystems>>,
    _locks: (File, Option<File>),
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node behind these listeners: locks the data folder, recovers the spool, accepts.
    /// Call it on the runtime that is to run it.
    ///
    /// # Errors
    /// If the data folder is in use or cannot be used, or rules and policy cannot be loaded.
    pub fn start(
        config: Config,
        listeners: Listeners,
        make_judge: MakeJudge,
        users: Arc<Users>,
    ) -> anyhow::Result<Arc<Self>> {
        Self::start_with_clock(config, listeners, make_judge, users, Clock::system())
    }

    /// Like [`Node::start`]; retries, expiry, rates and retention go by this clock.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_with_clock(
        config: Config,
        listeners: Listeners,
        make_judge: MakeJudge,
        users: Arc<Users>,
        clock: Clock,
    ) -> anyhow::Result<Arc<Self>> {
        let lock = folder::lock(&config.node.data)?;
        let Listeners { listeners, services, proofs, addresses, secrets } = listeners;
        let history = sharing::open_history(&config, &users)?;
        let resolver = Arc::new(Resolver::with_clock(&config.dns, clock.clone())?);
        let sources = Sources {
            make_judge: &make_judge,
            resolver: &resolver,
            history: &history,
            secrets: secrets.as_ref(),
        };
        let first = Generation::prepare(config, &sources)?;
        let config = first.config.clone();
        let in_force = InForce::new(first);
        let draining = Draining::open(&config.node.data);
        let (log, traces) = opening::open_log(&config)?;
        let quarantine = users::open_quarantine(&config)?;
        let (spool, recovery, spool_lock) = folder::open_spool(&config, clock.clone())?;
        if recovery.damaged > 0 {
            let expires_ms =
                i64::try_from(config.sender.expire_seconds * 1_000).unwrap_or(i64::MAX);
            let now_ms = clock.unix_ms();
            let since_ms = now_ms.saturating_sub(expires_ms).saturating_sub(DAY_MS);
            lost::tell(&lost::settle(&log, &spool, since_ms, now_ms));
        }
        let (metrics, ids) = (Arc::new(Metrics::default()), Arc::new(Ids::default()));
        let newest_ms = || opening::newest_mail_ms(&log, &quarantine, &recovery);
        let retention = housekeeping::Retention::open(&config, clock.clone(), newest_ms);
        let maildir = config.node.inside(&config.route.maildir);
        let outcomes = opening::outcomes(&config);
        let good_mail = GoodMailSamples::start(config.node.data.clone(), clock.clone())?;
        let outbound = in_force.outbound();
        let counts = (&outcomes, &metrics);
        let sender = opening::sender(&config, outbound.clone(), &addresses, &resolver, counts);
        let stores = (&spool, &log, &quarantine);
        let own = (ids.clone(), metrics.clone(), retention.clock());
        let queue = opening::queue(&config, stores, own, (sender, outbound))?;
        queue.recover(&recovery.messages, &recovery.unverified);
        let node = Arc::new(Node {
            admission: Arc::new(Admission::new(session_limits(&config), clock.clone())),
            budgets: Budgets::open(&config)?,
            in_force,
            make_judge,
            log,
            quarantine,
            queue,
            metrics,
            resolver,
            spool,
            ids,
            logins: Arc::new(Logins::new(users, clock.clone()).context("randomness")?),
            certificates: listeners.iter().map(Listener::tls).collect(),
            rate_limiter: Arc::new(RateLimiter::new(history.clone())),
            history,
            good_mail,
            outcomes,
            stop: watch::channel(false).0,
            draining,
            reloaded: Notify::new(),
            addresses,
            services: services.iter().map(|s| (s.protocol(), s.address().to_owned())).collect(),
            maildir,
            started_ms: clock.unix_ms(),
            clock,
            retention,
            runtime: tokio::runtime::Handle::current(),
            secrets,
            traces,
            subsystems: OnceLock::new(),
            _locks: (lock, spool_lock),
        });
        node.begin(listeners, services, proofs)
    }

    /// The addresses that accept mail.
    pub fn addresses(&self) -> &[(ListenerRole, SocketAddr)] {
        &self.addresses
    }

    /// The services at which mail is judged for other programs: protocol and address.
    pub fn services(&self) -> &[(ServiceProtocol, String)] {
        &self.services
    }

    /// Where mail without a next hop goes.
    pub fn maildir(&self) -> &std::path::Path {
        &self.maildir
    }

    /// Unix time in milliseconds of the start.
    pub fn started_ms(&self) -> i64 {
        self.started_ms
    }

    /// Logins of the node's users, for whatever else asks who somebody is.
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// SMTP and LMTP sessions that are open.
    pub fn sessions(&self) -> u64 {
        self.admission.sessions() as u64
    }

    /// Age of the oldest message in the queue in milliseconds.
    pub fn queue_age_ms(&self) -> u64 {
        let oldest = self.queue.oldest().map(ids::time_of);
        oldest.map_or(0, |then| self.clock.unix_ms().saturating_sub(then).max(0).cast_unsigned())
    }

    /// Stops accepting, lets transactions and deliveries finish up to the drain limit, closes the
    /// stores. What is left waits in the spool.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        self.draining.stop();
        let limit = Duration::from_secs(self.config().node.drain_seconds_max);
        let start = Instant::now();
        let drain = Drain::within(limit);
        while drain.goes_on(start.elapsed(), self.admission.sessions(), self.queue.is_quiet()) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let (spool, log, queue) = (self.spool.clone(), self.log.clone(), self.queue.clone());
        let (history, steady) = (self.history.clone(), self.retention.clock());
        let (outcomes, now_s) = (self.outcomes.clone(), self.clock.unix_s());
        let flushed = tokio::task::spawn_blocking(move || {
            // The log's queue is in order: an empty append ends when all before it are durable.
            let logged = log.append(Vec::new());
            // What stays is logged again by the next start, which changes nothing.
            let _best_effort = queue.forget_passed_on();
            // Counts of a day: what is lost is lost to a report.
            let _counts_are_no_mail = outcomes.flush();
            // What was written a minute ago does as well.
            let _written_before = steady.write();
            spool.flush();
            if let Err(error) = history.write(now_s) {
                tracing::warn!(%error, "the history of senders cannot be written");
            }
            logged
        });
        if let Ok(Err(error)) = flushed.await {
            tracing::error!(%error, "the log could not be closed cleanly");
        }
        let (sessions, waiting) = (self.admission.sessions(), self.queue.count());
        tracing::info!(sessions, waiting, "stopped");
    }

    /// The memory of senders, which also decides about greylisting.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }
}
