//! Opening what a node works with.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_store::spool::Recovery;
use gauntlet_store::{Log, LogOptions, Quarantine, Spool, StoreError};

use super::{Addresses, folder};
use crate::clock::Clock;
use crate::clock::steady::SteadyClock;
use crate::config::{Config, ListenerRole, SpoolBackend};
use crate::current::Current;
use crate::ids::Ids;
use crate::metrics::Metrics;
use crate::net::resolver::Resolver;
use crate::outbound::disarming::Disarming;
use crate::outbound::exchangers::Ourselves;
use crate::outbound::hold::Holder;
use crate::outbound::mta_sts::MtaSts;
use crate::outbound::queue::arrivals::{ArrivalParts, Arrivals};
use crate::outbound::queue::cut_through_journal::CutThroughJournal;
use crate::outbound::queue::in_flight::InFlight;
use crate::outbound::queue::{Queue, QueueParts};
use crate::outbound::sender::{ConnectionLimits, Sender, SenderContext};
use crate::outbound::settings::OutboundSettings;
use crate::outbound::tls_outcomes::TlsOutcomes;
use crate::random::Random;
use crate::traces::Traces;

/// How long records of the log gather for one commit: no client waits for them.
const LOG_BATCH_WAIT: Duration = Duration::from_millis(25);

/// The Sender of a node that takes mail at these addresses.
pub(super) fn sender(
    config: &Config,
    settings: Current<OutboundSettings>,
    addresses: &Addresses,
    resolver: &Arc<Resolver>,
    (outcomes, metrics): (&Arc<TlsOutcomes>, &Arc<Metrics>),
) -> Arc<Sender> {
    let inbound = addresses.iter().filter(|(role, _)| *role == ListenerRole::Inbound);
    let listeners = inbound.map(|(_, address)| *address).collect();
    let policies = config.node.data.join("mta-sts.json");
    let port = config.sender.mta_sts_port;
    let context = SenderContext {
        clock: resolver.clock().clone(),
        resolver: resolver.clone(),
        sts: Arc::new(MtaSts::open(resolver.clone(), settings.clone(), port, &policies)),
        settings,
        us: Arc::new(Ourselves { host: config.node.host_name(), listeners }),
        random: Arc::new(Random::of_the_system()),
        outcomes: outcomes.clone(),
        connection_limits: ConnectionLimits::new(&config.sender),
        metrics: metrics.clone(),
    };
    Arc::new(Sender::new(context, tokio::runtime::Handle::current()))
}

/// The queue, with the threads before Maildir and quarantine.
///
/// # Errors
/// If a folder or a thread cannot be had.
pub(super) fn queue(
    config: &Config,
    (spool, log, quarantine): (&Arc<Spool>, &Arc<Log>, &Arc<Quarantine>),
    (ids, metrics, clock): (Arc<Ids>, Arc<Metrics>, Arc<SteadyClock>),
    (sender, settings): (Arc<Sender>, Current<OutboundSettings>),
) -> anyhow::Result<Arc<Queue>> {
    let body_ms_max = config.receiver.body_seconds_max.saturating_mul(1_000);
    let body_ms_max = Some(i64::try_from(body_ms_max).unwrap_or(i64::MAX));
    let stores = (spool, log, quarantine);
    Ok(Queue::new(QueueParts {
        arrivals: arrivals(config, stores, &ids, (clock.clock(), body_ms_max))?,
        spool: spool.clone(),
        log: log.clone(),
        holder: Holder::start(quarantine.clone())?,
        disarming: Disarming::start(config.content.workers())?,
        maildir: folder::open_maildir(&config.node.inside(&config.route.maildir))?,
        sender,
        settings,
        ids,
        metrics,
        host: config.node.host_name(),
        in_flight: in_flight(config)?,
        cut_through_journal: cut_through_journal(config, log)?,
        clock,
        null: is_null(config),
    }))
}

/// Takes in what other nodes hand over, and finishes what a crash interrupted of it.
pub(super) fn arrivals(
    config: &Config,
    (spool, log, quarantine): (&Arc<Spool>, &Arc<Log>, &Arc<Quarantine>),
    ids: &Arc<Ids>,
    (clock, body_ms_max): (&Clock, Option<i64>),
) -> anyhow::Result<Arrivals> {
    let folder = config.node.data.join("queue");
    let parts = ArrivalParts {
        spool: spool.clone(),
        log: log.clone(),
        quarantine: quarantine.clone(),
        ids: ids.clone(),
        clock: clock.clone(),
        body_ms_max,
        is_durable: config.spool.backend == SpoolBackend::Disk,
    };
    std::fs::create_dir_all(&folder)
        .and_then(|()| Arrivals::open(&folder, parts))
        .with_context(|| format!("{}/arrivals", folder.display()))
}

/// How connections to others were encrypted.
pub(super) fn outcomes(config: &Config) -> Arc<TlsOutcomes> {
    let path = config.node.data.join("tls-outcomes.json");
    Arc::new(TlsOutcomes::open(&path, config.tls_reports.enabled))
}

/// When the newest mail came that this node has, as far as its stores know. A due time in the queue
/// is later than the message by a pause at most.
pub(super) fn newest_mail_ms(log: &Log, quarantine: &Quarantine, queue: &Recovery) -> Option<i64> {
    let of_store = |newest: Result<Option<i64>, StoreError>| {
        newest.unwrap_or_else(|error| {
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

/// The message log, which notes what an array has not got, and what traces are made of. A thread of
/// its own looks through its days, so that the first search is fast.
pub(super) fn open_log(config: &Config) -> anyhow::Result<(Arc<Log>, Option<Traces>)> {
    let options = LogOptions {
        batch_wait: LOG_BATCH_WAIT,
        sets_damaged_days_aside: true,
        feeds_array: config.array.is_on(),
        ..LogOptions::default()
    };
    let log = Arc::new(Log::open_with(&config.node.data.join("log"), options)?);
    let warming = log.clone();
    let thread = std::thread::Builder::new().name("log-warm".to_owned());
    thread.spawn(move || warming.warm()).context("a thread for the log")?;
    let traces = traces(config, &log)?;
    Ok((log, traces))
}

/// Traces for an OpenTelemetry collector, if there is one; they see what the log gets.
fn traces(config: &Config, log: &Log) -> anyhow::Result<Option<Traces>> {
    if config.traces.otlp.is_empty() {
        return Ok(None);
    }
    let tls = crate::net::web::hop_tls(&config.sender.roots)?;
    let traces = Traces::start(&config.traces, &config.node.host_name(), tls);
    let observer = traces.clone();
    log.observe(Box::new(move |record| observer.observe(record)));
    Ok(Some(traces))
}

/// The messages in flight when the last process ended.
pub(super) fn in_flight(config: &Config) -> anyhow::Result<InFlight> {
    if config.spool.backend != SpoolBackend::Disk {
        return Ok(InFlight::nowhere());
    }
    let folder = config.node.data.join("queue");
    std::fs::create_dir_all(&folder)
        .and_then(|()| InFlight::open(&folder, config.sender.crashes_max))
        .with_context(|| folder.display().to_string())
}

/// Outcomes that wait for the log; those that the last process left are in it.
pub(super) fn cut_through_journal(
    config: &Config,
    log: &Log,
) -> anyhow::Result<Arc<CutThroughJournal>> {
    let folder = config.node.data.join("queue");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(Arc::new(CutThroughJournal::recover(&folder, log)?))
}

/// The spool keeps nothing: for measuring.
pub(super) fn is_null(config: &Config) -> bool {
    config.spool.backend == SpoolBackend::Null
}
