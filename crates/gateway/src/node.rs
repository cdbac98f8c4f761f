//! A node: all parts, wired. Receiver -> scan pool -> policy -> spool -> queue -> Sender.

mod budgets;
mod certificates;
mod doors;
mod folder;
mod housekeeping;
mod own_mail;
mod people;
mod reports;

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use gauntlet_spamassassin::Ruleset;
use gauntlet_store::quarantine::{Begin, ReleaseOrder, State};
use gauntlet_store::spool::Recovery;
use gauntlet_store::{
    Event, History, Log, LogOptions, LogRecord, Quarantine, Spool, StoreError, Users,
};
use tokio::sync::{Notify, watch};

use crate::admission::Admission;
use crate::clock::now_ms;
use crate::config::{Config, ListenerRole, ServiceProtocol, SpoolBackend};
use crate::exchangers::Ourselves;
use crate::facts::Gatherer;
use crate::facts::local_lists::LocalLists;
use crate::gate::Gate;
use crate::hold::Holder;
use crate::ids::{self, Ids};
use crate::intake::Intake;
use crate::judge::{CurrentJudge, Judge};
use crate::logins::Logins;
use crate::metrics::{self, Metrics};
use crate::mta_sts::{self, MtaSts};
use crate::queue::drain::{Drain, LOOK_EVERY};
use crate::queue::in_hand::InHand;
use crate::queue::passed_on::PassedOn;
use crate::queue::{Queue, QueueParts};
use crate::random::Random;
use crate::receiver::{Listener, Receiver};
use crate::recipients::Recipients;
use crate::reports::tls_outcomes::TlsOutcomes;
use crate::resolver::Resolver;
use crate::route::Routes;
use crate::sandbox;
use crate::scan_pool::ScanPool;
use crate::secrets::Secrets;
use crate::sender::{Places, Sender, Ways};
use crate::services::{Bench, Service};
use crate::signing::KeyRing;
use crate::tls::{HopTls, ListenerTls};
use crate::transit::Transit;

/// How often lists of our own are looked at, and what was remembered of senders is written.
const WATCH_PAUSE: Duration = Duration::from_secs(10);

/// How often it is looked whether a list is to be fetched.
const FETCH_PAUSE: Duration = Duration::from_secs(2);
/// How long records of the log gather for one commit: nobody waits for them.
const LOG_BATCH_WAIT: Duration = Duration::from_millis(25);

/// The addresses that accept mail, with who they are for.
type Addresses = Vec<(ListenerRole, SocketAddr)>;

use budgets::{Budgets, session_limits};
pub use doors::Doors;
pub use people::{body_keys, folder_release};

/// Makes the judge that a configuration asks for: the program knows how to load rules and models.
pub type MakeJudge = Box<dyn Fn(&Config) -> anyhow::Result<Judge> + Send + Sync>;

/// A running node. Dropping it without [`Node::stop`] is like a crash: safe, but sessions break.
pub struct Node {
    config: ArcSwap<Config>,
    make_judge: MakeJudge,
    judge: CurrentJudge,
    /// The message log.
    pub log: Arc<Log>,
    /// The quarantine.
    pub quarantine: Arc<Quarantine>,
    /// Messages on their way.
    pub queue: Arc<Queue>,
    /// Counts.
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
    shared: Shared,
    stop: watch::Sender<bool>,
    /// Told when the configuration was read again.
    reloaded: Notify,
    addresses: Addresses,
    services: Vec<(ServiceProtocol, String)>,
    maildir: PathBuf,
    started_ms: i64,
    retention: housekeeping::Retention,
    runtime: tokio::runtime::Handle,
    /// Who holds private keys, if it is another process.
    secrets: Option<Arc<Secrets>>,
    _lock: File,
}

/// Settings that a reload swaps.
struct Shared {
    receiver: Arc<ArcSwap<crate::config::ReceiverSettings>>,
    stress: Arc<ArcSwap<crate::config::StressSettings>>,
    sender: Arc<ArcSwap<crate::config::SenderSettings>>,
    routes: Arc<ArcSwap<Routes>>,
    gatherer: Arc<ArcSwap<Gatherer>>,
    key_ring: Arc<ArcSwap<KeyRing>>,
    history: Arc<History>,
    hop_tls: Arc<ArcSwap<HopTls>>,
    outcomes: Arc<TlsOutcomes>,
    gate: Arc<Gate>,
    recipients: Arc<ArcSwap<Recipients>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node behind these doors: locks the data folder, recovers the spool, accepts. Call it on
    /// the runtime that is to run it.
    ///
    /// # Errors
    /// If the data folder is in use or cannot be used, or rules and policy cannot be loaded.
    pub fn start(
        config: Config,
        doors: Doors,
        make_judge: MakeJudge,
        users: Arc<Users>,
    ) -> anyhow::Result<Arc<Self>> {
        let data = &config.node.data;
        let lock = folder::lock(data)?;
        let judge = Arc::new(ArcSwap::from_pointee(make_judge(&config)?));
        let log = open_log(data)?;
        let quarantine = people::open_quarantine(&config)?;
        let (spool, recovery) = folder::open_spool(&config)?;
        let Doors { listeners, services, proofs, addresses, secrets } = doors;
        let logins = Arc::new(Logins::new(users).context("randomness")?);
        let certificates = listeners.iter().map(Listener::tls).collect();
        let (metrics, ids) = (Arc::new(Metrics::default()), Arc::new(Ids::default()));
        let newest_ms = || newest_mail_ms(&log, &quarantine, &recovery);
        let retention = housekeeping::Retention::open(&config, newest_ms);
        let maildir = config.node.inside(&config.route.maildir);
        let resolver = Arc::new(Resolver::new(&config.dns)?);
        let shared = Shared::new(&config, &resolver, &judge.load(), secrets.as_ref())?;
        let runtime = tokio::runtime::Handle::current();
        let queue = Queue::new(QueueParts {
            spool: spool.clone(),
            log: log.clone(),
            holder: Holder::start(quarantine.clone())?,
            maildir: folder::open_maildir(&maildir)?,
            key_ring: shared.key_ring.clone(),
            sender: shared.sender(&config, &addresses, &resolver, runtime),
            routes: shared.routes.clone(),
            settings: shared.sender.clone(),
            ids: ids.clone(),
            metrics: metrics.clone(),
            host: config.node.host_name(),
            in_hand: in_hand(&config)?,
            passed_on: passed_on(&config, &log)?,
            clock: retention.clock(),
            null: is_null(&config),
        });
        queue.recover(&recovery.messages, &recovery.unproven);
        let node = Arc::new(Node {
            admission: Arc::new(Admission::new(session_limits(&config))),
            budgets: Budgets::open(&config)?,
            config: ArcSwap::from_pointee(config),
            make_judge,
            judge,
            log,
            quarantine,
            queue,
            metrics,
            resolver,
            spool,
            ids,
            logins,
            certificates,
            shared,
            stop: watch::channel(false).0,
            reloaded: Notify::new(),
            addresses,
            services: services.iter().map(|s| (s.protocol(), s.place().to_owned())).collect(),
            maildir,
            started_ms: now_ms(),
            retention,
            runtime: tokio::runtime::Handle::current(),
            secrets,
            _lock: lock,
        });
        node.begin(listeners, services, proofs)
    }

    /// Finishes what the last process left, and accepts.
    fn begin(
        self: Arc<Self>,
        listeners: Vec<Listener>,
        services: Vec<Service>,
        proofs: Option<crate::acme::Door>,
    ) -> anyhow::Result<Arc<Self>> {
        self.finish_releases()?;
        self.listen(listeners, services)?;
        tokio::spawn(self.clone().keep_certificate(proofs));
        Ok(self)
    }

    /// Starts the scan pool, the queue and the sessions.
    fn listen(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
        services: Vec<Service>,
    ) -> anyhow::Result<()> {
        let config = self.config();
        let scan = &config.scan;
        let wait = Duration::from_secs(scan.wait_seconds_max);
        let (judge, metrics) = (&self.judge, &self.metrics);
        let scan_pool = ScanPool::start(scan.threads, scan.queue_max, wait, judge, metrics)?;
        let intake = Arc::new(Intake {
            gatherer: self.shared.gatherer.clone(),
            gate: self.shared.gate.clone(),
            scan_pool,
            spool: self.spool.clone(),
            queue: self.queue.clone(),
            log: self.log.clone(),
            settings: self.shared.receiver.clone(),
            metrics: metrics.clone(),
            null: is_null(&config),
        });
        for (place, service) in services.into_iter().enumerate() {
            let (ids, stopping) = (self.ids.clone(), self.stop.subscribe());
            let (judge, host) = (self.judge.clone(), config.node.host_name());
            let (intake, memory) = (intake.clone(), self.budgets.memory.clone());
            let data = config.node.data.clone();
            let idle_min = Duration::from_secs(config.stress.idle_seconds_min);
            let bench = Bench { intake, ids, judge, memory, host, data, place, idle_min };
            tokio::spawn(service.run(bench, stopping));
        }
        let receiver = Arc::new(Receiver {
            host: config.node.host_name(),
            settings: self.shared.receiver.clone(),
            routes: self.shared.routes.clone(),
            recipients: self.shared.recipients.clone(),
            sender: self.queue.sender(),
            admission: self.admission.clone(),
            memory: self.budgets.memory.clone(),
            overflow: self.budgets.overflow.clone(),
            stress: self.shared.stress.clone(),
            gate: self.shared.gate.clone(),
            intake,
            ids: self.ids.clone(),
            logins: self.logins.clone(),
            metrics: metrics.clone(),
            stopping: self.stop.subscribe(),
        });
        tokio::spawn(self.queue.clone().run());
        tokio::spawn(receiver.clone().watch_stress());
        for listener in listeners {
            tokio::spawn(receiver.clone().run(listener));
        }
        tokio::spawn(self.clone().housekeeping());
        tokio::spawn(self.clone().keep_time());
        tokio::spawn(self.clone().watch_groups());
        tokio::spawn(self.clone().watch_lists());
        tokio::spawn(self.clone().fetch_lists());
        self.watch_reports().context("a thread for reports")?;
        Ok(())
    }

    /// The addresses that accept mail.
    pub fn addresses(&self) -> &[(ListenerRole, SocketAddr)] {
        &self.addresses
    }

    /// The places at which mail is judged for other programs.
    pub fn services(&self) -> &[(ServiceProtocol, String)] {
        &self.services
    }

    /// Where mail without a next hop goes.
    pub fn maildir(&self) -> &std::path::Path {
        &self.maildir
    }

    /// The settings of the moment.
    pub fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    /// Unix time in milliseconds of the start.
    pub fn started_ms(&self) -> i64 {
        self.started_ms
    }

    /// Version of ruleset, model and lists.
    pub fn ruleset(&self) -> String {
        self.judge.load().snapshot.version.to_string()
    }

    /// Open SMTP sessions.
    pub fn sessions(&self) -> u64 {
        self.admission.sessions() as u64
    }

    /// Age of the oldest message in the queue in milliseconds.
    pub fn queue_age_ms(&self) -> u64 {
        let oldest = self.queue.oldest().map(ids::time_of);
        oldest.map_or(0, |then| now_ms().saturating_sub(then).max(0).cast_unsigned())
    }

    /// The metrics in Prometheus' text format.
    pub fn render_metrics(&self) -> String {
        let mut text = self.metrics.render();
        let usage = self.spool.usage();
        for (name, help, value) in [
            ("queue_messages", "Messages waiting or on their way", self.queue.count()),
            ("queue_age_milliseconds", "Age of the oldest of them", self.queue_age_ms()),
            ("spool_messages", "Messages in the spool", usage.messages),
            ("spool_bytes", "Bytes of all spool segments", usage.bytes),
            ("spool_segments", "Spool segments", usage.segments),
            ("memory_body_bytes", "Bytes of bodies being received", self.budgets.memory.used()),
            (
                "disk_body_bytes",
                "Bytes of bodies on disk while they come",
                self.budgets.disk.used(),
            ),
        ] {
            metrics::line(&mut text, name, help, "gauge", value);
        }
        text
    }

    /// Takes over what was learned. Scans under way end with what they began with; none waits.
    pub fn teach(&self, learned: &gauntlet_engine::Learned) {
        self.judge.rcu(|judge| judge.with_learned(learned.clone()));
    }

    /// Reads the policy in force again and takes it over: messages judged from now on are decided by
    /// it, those under way by the one before.
    ///
    /// # Errors
    /// If it cannot be read, or is none; then the one before stays.
    pub fn reload_policy(&self) -> anyhow::Result<()> {
        let policy = crate::policy_source::load_with(&self.config(), self.logins.users())?;
        self.judge.rcu(|judge| judge.with_policy(policy.clone()));
        Ok(())
    }

    /// What judges at this moment.
    pub fn judge(&self) -> Arc<Judge> {
        self.judge.load_full()
    }

    /// Takes new settings over without dropping a session. Listeners, data folder, spool and scan
    /// threads stay as they are until the next start.
    ///
    /// # Errors
    /// If rules, policy or recipients cannot be loaded; then everything stays as it was.
    pub fn reload(&self, config: Config) -> anyhow::Result<()> {
        if let Some(secrets) = &self.secrets {
            secrets.reload()?;
        }
        let judge = (self.make_judge)(&config)?;
        let resolver = Resolver::new(&config.dns)?;
        let routes = Routes::of(&config);
        let recipients = Recipients::load(&config)?;
        let ruleset = judge.snapshot.ruleset.as_ref();
        let gatherer = gatherer(&config, &self.resolver, &self.shared.history, ruleset)?;
        let key_ring = key_ring(&config, self.secrets.as_ref())?;
        let hop_tls = mta_sts::hop_tls(&config.sender)?;
        self.reload_certificates(&config)?;
        self.shared.gate.reload(&config)?;
        self.resolver.take_over(resolver);
        self.logins.forget();
        self.admission.set_limits(session_limits(&config));
        self.quarantine.set_folder_release(people::folder_release(&config));
        self.budgets.set_limits(&config);
        self.shared.stress.store(Arc::new(config.stress));
        self.shared.receiver.store(Arc::new(config.receiver.clone()));
        self.shared.sender.store(Arc::new(config.sender.clone()));
        self.shared.routes.store(Arc::new(routes));
        self.shared.recipients.store(Arc::new(recipients));
        self.shared.gatherer.store(Arc::new(gatherer));
        self.shared.key_ring.store(Arc::new(key_ring));
        self.shared.hop_tls.store(Arc::new(hop_tls));
        self.shared.outcomes.enable(config.tls_reports.enabled);
        self.judge.store(Arc::new(judge));
        self.config.store(Arc::new(config));
        self.reloaded.notify_one();
        Ok(())
    }

    /// Stops accepting, lets transactions and deliveries finish up to the drain limit, closes the
    /// stores. What is left waits in the spool.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let limit = Duration::from_secs(self.config().node.drain_seconds_max);
        let start = Instant::now();
        let drain = Drain::within(limit);
        while drain.goes_on(start.elapsed(), self.admission.sessions(), self.queue.is_quiet()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let (spool, log, queue) = (self.spool.clone(), self.log.clone(), self.queue.clone());
        let (history, clock) = (self.shared.history.clone(), self.retention.clock());
        let outcomes = self.shared.outcomes.clone();
        let flushed = tokio::task::spawn_blocking(move || {
            // The log's queue is in order: an empty append ends when all before it are durable.
            let logged = log.append(Vec::new());
            // What stays is logged again by the next start, which changes nothing.
            let _best_effort = queue.forget_passed_on();
            // Counts of a day: what is lost is lost to a report.
            let _counts_are_no_mail = outcomes.flush();
            // What was written a minute ago does as well.
            let _written_before = clock.write();
            spool.flush();
            if let Err(error) = history.write(now_ms() / 1_000) {
                tracing::warn!(%error, "what was remembered of senders cannot be written");
            }
            logged
        });
        if let Ok(Err(error)) = flushed.await {
            tracing::error!(%error, "the log could not be closed cleanly");
        }
        let (sessions, waiting) = (self.admission.sessions(), self.queue.count());
        tracing::info!(sessions, waiting, "stopped");
    }

    /// Hands a held message to the queue, once. Blocks.
    ///
    /// # Errors
    /// A sentence for the person who asked; the message is then still held.
    pub fn release(&self, id: &str, order: &ReleaseOrder) -> Result<Release, String> {
        let now = now_ms();
        let begun = self.quarantine.begin_release(id, order, now).map_err(|e| e.to_string())?;
        match begun {
            Begin::Unknown => Ok(Release::Unknown),
            Begin::NotAllowed => Ok(Release::NotAllowed),
            Begin::NotHeld(state) => Ok(Release::NotHeld(state)),
            Begin::Started(release) => {
                let recipients = release.recipients.clone();
                if order.learn
                    && let Err(error) = self.correct(id, false, &order.who)
                {
                    // The message is what was asked for first; it goes out all the same.
                    tracing::error!(item = id, error, "a correction could not be written");
                }
                self.spool_release(&release)?;
                let item = &release.held.item;
                let released = Event {
                    id: item.message.clone(),
                    received_ms: item.received_ms,
                    at_ms: now,
                    kind: "released".to_owned(),
                    recipient: recipients.join(", "),
                    detail: format!("by {}", order.who),
                };
                self.log.append_then(Vec::new(), vec![released], Box::new(|_| {}));
                Ok(Release::Done(recipients))
            }
        }
    }

    /// Writes down that a held message is unwanted, or not, for the classifier to learn. Blocks.
    ///
    /// # Errors
    /// A sentence for the person who asked.
    pub fn correct(&self, id: &str, spam: bool, who: &str) -> Result<(), String> {
        let body = self.quarantine.body(id).map_err(|e| e.to_string())?;
        let body = body.ok_or("the message's body is gone")?;
        let data = self.config().node.data.clone();
        crate::corrections::correct(&data, &body, spam, who, now_ms() / 1_000)
            .map_err(|e| e.to_string())?;
        if let Ok(Some(held)) = self.quarantine.get(id) {
            let corrected = Event {
                id: held.item.message,
                received_ms: held.item.received_ms,
                at_ms: now_ms(),
                kind: if spam { "corrected_spam" } else { "corrected_ham" }.to_owned(),
                recipient: String::new(),
                detail: format!("by {who}"),
            };
            self.log.append_then(Vec::new(), vec![corrected], Box::new(|_| {}));
        }
        Ok(())
    }

    /// Spools a release that was begun and finishes it.
    fn spool_release(&self, release: &gauntlet_store::quarantine::Release) -> Result<(), String> {
        let give_up = |why: String| {
            let _reported_below = self.quarantine.abandon_release(&release.token, &why, now_ms());
            why
        };
        let body =
            self.quarantine.body(&release.held.item.id).map_err(|e| give_up(e.to_string()))?;
        let body = body.ok_or_else(|| give_up("the message's body is gone".to_owned()))?;
        let now = now_ms();
        let id = self.ids.next(now);
        let item = &release.held.item;
        let record = LogRecord {
            id: ids::to_text(id),
            received_ms: now,
            envelope: item.envelope.clone(),
            size: body.len() as u64,
            from: item.from.clone(),
            subject: item.subject.clone(),
            ..LogRecord::default()
        };
        let mut transit = Transit::straight(record, &release.recipients);
        transit.eight_bit = body.iter().any(|b| *b >= 128);
        transit.release = Some(release.token.clone());
        let meta = serde_json::to_vec(&transit).map_err(|e| give_up(e.to_string()))?;
        let (sender, durable) = std::sync::mpsc::channel();
        let done = move |result| {
            let _the_caller_waits = sender.send(result);
        };
        let body = Arc::new(body);
        self.spool.put(id, now, meta, body.clone(), Box::new(done));
        match durable.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(give_up(error.to_string())),
            Err(_) => return Err(give_up("the spool has ended".to_owned())),
        }
        self.queue.submit(id, transit, body);
        self.quarantine.finish_release(&release.token, now_ms()).map_err(|e| e.to_string())?;
        Ok(())
    }

    /// Releases that a crash interrupted: those that reached the spool are finished, the others done
    /// again.
    fn finish_releases(&self) -> anyhow::Result<()> {
        let open = self.quarantine.unfinished_releases()?;
        if open.is_empty() {
            return Ok(());
        }
        let mut spooled = std::collections::HashSet::new();
        for message in self.queue.list(usize::MAX) {
            let stored = ids::parse(&message.id).and_then(|id| self.spool.read(id).ok());
            let transit = stored.and_then(|s| serde_json::from_slice::<Transit>(&s.meta).ok());
            spooled.extend(transit.and_then(|t| t.release));
        }
        for release in open {
            if spooled.contains(&release.token) {
                self.quarantine.finish_release(&release.token, now_ms())?;
            } else if let Err(error) = self.spool_release(&release) {
                tracing::error!(error, "an interrupted release could not be finished");
            }
        }
        Ok(())
    }

    /// Fetches lists of our own that come from URLs.
    async fn fetch_lists(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let gatherer = self.shared.gatherer.load_full();
            tokio::select! {
                () = gatherer.fetch_lists() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            drop(gatherer);
            tokio::select! {
                () = tokio::time::sleep(FETCH_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Reads lists of our own again that changed, and writes what was remembered of senders.
    async fn watch_lists(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let node = self.clone();
            let done = tokio::task::spawn_blocking(move || {
                node.shared.gatherer.load().reload_lists();
                let now_s = now_ms() / 1_000;
                node.shared.history.write(now_s)?;
                let rules = node.shared.gate.greylist_rules();
                node.shared.history.forget_waiting(&rules, now_s)
            });
            if let Ok(Err(error)) = done.await {
                tracing::warn!(%error, "what was remembered of senders cannot be written");
            }
            tokio::select! {
                () = tokio::time::sleep(WATCH_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// The memory of senders, which also decides about greylisting.
    pub fn history(&self) -> &Arc<History> {
        &self.shared.history
    }
}

/// What became of a request to release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// It is in the queue, for these addresses.
    Done(Vec<String>),
    /// It was not held any more.
    NotHeld(State),
    /// Who asked may not release it.
    NotAllowed,
    /// There is no such message.
    Unknown,
}

impl Shared {
    /// A Sender for a node that takes mail at these addresses.
    fn sender(
        &self,
        config: &Config,
        addresses: &Addresses,
        resolver: &Arc<Resolver>,
        runtime: tokio::runtime::Handle,
    ) -> Arc<Sender> {
        let inbound = addresses.iter().filter(|(role, _)| *role == ListenerRole::Inbound);
        let listeners = inbound.map(|(_, address)| *address).collect();
        let ways = Ways {
            settings: self.sender.clone(),
            tls: self.hop_tls.clone(),
            resolver: resolver.clone(),
            sts: Arc::new(MtaSts::open(
                resolver.clone(),
                self.hop_tls.clone(),
                config.sender.mta_sts_port,
                &config.node.data.join("mta-sts.json"),
            )),
            us: Arc::new(Ourselves { host: config.node.host_name(), listeners }),
            random: Arc::new(Random::of_the_system()),
            outcomes: self.outcomes.clone(),
            places: Places::new(&config.sender),
        };
        Arc::new(Sender::new(ways, runtime))
    }

    fn new(
        config: &Config,
        resolver: &Arc<Resolver>,
        judge: &Judge,
        secrets: Option<&Arc<Secrets>>,
    ) -> anyhow::Result<Self> {
        let history = Arc::new(History::open(&sandbox::history_folder(&config.node.data)?)?);
        let gatherer = gatherer(config, resolver, &history, judge.snapshot.ruleset.as_ref())?;
        Ok(Shared {
            gatherer: Arc::new(ArcSwap::from_pointee(gatherer)),
            gate: Arc::new(Gate::new(config, history.clone())?),
            recipients: Arc::new(ArcSwap::from_pointee(Recipients::load(config)?)),
            history,
            key_ring: Arc::new(ArcSwap::from_pointee(key_ring(config, secrets)?)),
            hop_tls: Arc::new(ArcSwap::from_pointee(mta_sts::hop_tls(&config.sender)?)),
            outcomes: Arc::new(TlsOutcomes::open(
                &config.node.data.join("tls-outcomes.json"),
                config.tls_reports.enabled,
            )),
            receiver: Arc::new(ArcSwap::from_pointee(config.receiver.clone())),
            stress: Arc::new(ArcSwap::from_pointee(config.stress)),
            sender: Arc::new(ArcSwap::from_pointee(config.sender.clone())),
            routes: Arc::new(ArcSwap::from_pointee(Routes::of(config))),
        })
    }
}

/// When the newest mail came that this node has, as far as it can tell. A due time in the queue is later than the
/// message by a pause at most.
fn newest_mail_ms(log: &Log, quarantine: &Quarantine, queue: &Recovery) -> Option<i64> {
    let of_store = |told: Result<Option<i64>, StoreError>| {
        told.unwrap_or_else(|error| {
            tracing::warn!(%error, "the time of the newest mail cannot be read");
            None
        })
    };
    let queued = queue.messages.iter().map(|(_, due_ms)| *due_ms).max();
    [of_store(log.newest_ms()), of_store(quarantine.newest_ms()), queued]
        .into_iter()
        .flatten()
        .max()
}

/// The message log; a thread of its own looks through its days, so that the first search is fast.
fn open_log(data: &std::path::Path) -> anyhow::Result<Arc<Log>> {
    let options =
        LogOptions { batch_wait: LOG_BATCH_WAIT, sets_aside: true, ..LogOptions::default() };
    let log = Arc::new(Log::open_with(&data.join("log"), options)?);
    let warming = log.clone();
    let thread = std::thread::Builder::new().name("log-warm".to_owned());
    thread.spawn(move || warming.warm()).context("a thread for the log")?;
    Ok(log)
}

fn key_ring(config: &Config, secrets: Option<&Arc<Secrets>>) -> anyhow::Result<KeyRing> {
    let ring = match secrets {
        Some(secrets) => KeyRing::of(secrets)?,
        None => KeyRing::load(&config.node.inside(&config.dkim.keys))?,
    };
    ring.with_seal(&config.dkim.seal_as)
}

fn gatherer(
    config: &Config,
    resolver: &Arc<Resolver>,
    history: &Arc<History>,
    ruleset: Option<&Arc<Ruleset>>,
) -> anyhow::Result<Gatherer> {
    let host = config.node.host_name();
    let folder = config.node.data.join("lists");
    let lists = LocalLists::open(&config.local_list, &folder, &config.sender.roots)?;
    let gatherer = Gatherer::new(resolver.clone(), &config.facts, &config.dns_list, &host)?
        .with_limits(&config.limits);
    let gatherer = gatherer.with_local_lists(lists).with_rules(ruleset);
    Ok(if config.facts.history { gatherer.with_history(history.clone()) } else { gatherer })
}

/// What was in hand when the last process ended.
fn in_hand(config: &Config) -> anyhow::Result<InHand> {
    if config.spool.backend != SpoolBackend::Disk {
        return Ok(InHand::nowhere());
    }
    let folder = config.node.data.join("queue");
    std::fs::create_dir_all(&folder)
        .and_then(|()| InHand::open(&folder, config.sender.crashes_max))
        .with_context(|| folder.display().to_string())
}

/// Outcomes that wait for the log; those that the last process left are in it.
fn passed_on(config: &Config, log: &Log) -> anyhow::Result<Arc<PassedOn>> {
    let folder = config.node.data.join("queue");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(Arc::new(PassedOn::recover(&folder, log)?))
}

/// The spool keeps nothing: for measuring.
fn is_null(config: &Config) -> bool {
    config.spool.backend == SpoolBackend::Null
}
