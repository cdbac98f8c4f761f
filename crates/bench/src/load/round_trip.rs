//! A gateway measured from both sides: messages go out to it by SMTP and come back from it to us,
//! as with MailMarshal's Bench-Tool. What came back drives what is sent: so many messages an
//! instance are in flight at most.
//!
//! Each message is stamped with the run, its instance and a sequence number, so that quarantined
//! messages, repeated and reordered ones are counted by themselves: one that has not come back in
//! time no longer counts as in flight, and the run goes on. From and To are rewritten from the
//! users of three domains a side.

mod address_pool;
mod stamp;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::health::{self, Health, Run};
use super::tally::Latency;
use super::wire::{Failure, Link, Outcome};
use super::{Corpus, smtp};
use crate::histogram::latency_histogram;
use crate::machine::Manifest;
use crate::sink::{self, Behaviour, Counts, Delivery};
use crate::token_bucket::TokenBucket;

pub use address_pool::AddressPool;
use stamp::{Stamp, Template};

/// Messages in flight of an instance at most.
pub const WINDOW_MAX: usize = 100_000;
/// Pause after a failed connection.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How often messages are looked for that did not come back.
const SWEEP: Duration = Duration::from_millis(100);

/// What is sent, through which gateway.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address and port of the gateway under test, or of the nodes of one: load generators are
    /// dealt out to them in turn.
    pub gateways: Vec<SocketAddr>,
    /// Where it delivers to: we listen there.
    pub listen: SocketAddr,
    /// Load generators, each with a window and a count of its own.
    pub instances: usize,
    /// Messages in flight of each.
    pub window: usize,
    /// Connections of each load generator.
    pub connections: usize,
    /// Time before what is counted.
    pub warm_up: Duration,
    /// Time that is counted.
    pub time: Duration,
    /// Length of a sample.
    pub sample: Duration,
    /// A message that has not come back in that time is taken for held.
    pub return_timeout: Duration,
    /// Bytes/s of the link, in each direction.
    pub link: Option<f64>,
    /// Envelope addresses are taken from it.
    pub people: AddressPool,
    /// Threads of the client.
    pub threads: usize,
}

/// What became of the messages. `accepted = returned + held + outstanding`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// Messages begun, warm-up included.
    pub sent: u64,
    /// Messages that were accepted (250).
    pub accepted: u64,
    /// Messages that were rejected (5xx).
    pub refused: u64,
    /// Refused for now; not sent again.
    pub deferred: u64,
    /// No answer. The gateway may have it or not.
    pub unanswered: u64,
    /// Came back, to every recipient.
    pub returned: u64,
    /// Had not come back (to every recipient) when patience ended: quarantined, discarded or stuck.
    pub held: u64,
    /// Of those, came back after all.
    pub returned_late: u64,
    /// Deliveries to a recipient that already had the message.
    pub duplicates: u64,
    /// Messages that came back after a later one of their instance.
    pub reordered: u64,
    /// Deliveries without a stamp of this run.
    pub strange: u64,
}

/// What one of the gateways did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayShare {
    /// Its address and port.
    pub gateway: String,
    /// Messages/s through it that came back within the time counted.
    pub messages_per_second: f64,
    /// Messages that it accepted, warm-up included.
    pub accepted: u64,
    /// Messages that it refused, for now or for ever.
    pub refused: u64,
    /// Messages that it gave no answer to.
    pub unanswered: u64,
    /// Messages of it that came back within the time counted.
    #[serde(skip)]
    counted: u64,
}

impl GatewayShare {
    fn of(gateway: SocketAddr) -> Self {
        GatewayShare {
            gateway: gateway.to_string(),
            messages_per_second: 0.0,
            accepted: 0,
            refused: 0,
            unanswered: 0,
            counted: 0,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Messages/s that came back within the time counted.
    pub messages_per_second: f64,
    /// Megabytes/s of them as they were sent.
    pub megabytes_per_second: f64,
    /// Messages/s of each sample.
    pub samples: Vec<f64>,
    /// Seconds of a sample.
    pub sample_seconds: f64,
    /// From the beginning of the sending to the last recipient's delivery.
    pub latency: Latency,
    /// Where every message went.
    pub accounts: Accounts,
    /// Errors with how often each came.
    pub errors: std::collections::BTreeMap<String, u64>,
    /// What each gateway did, in the order of the plan.
    pub gateways: Vec<GatewayShare>,
    /// Number of load generators.
    pub instances: usize,
    /// Messages in flight of each at most.
    pub window: usize,
    /// Share of all places in the windows, over the run, in which messages waited that were taken
    /// for held in the end, 0 to 1. Near 1 the rate is that of the waiting, not the gateway's.
    pub held_share: f64,
    /// Bytes/s of the link.
    pub link: Option<f64>,
    /// Messages and their bytes.
    pub workload: super::trial::Workload,
    /// CPU and timers of the client during the run.
    pub health: Health,
    /// Why the figures are not the gateway's.
    pub invalid: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// A message that is out.
struct Flight {
    begun: Instant,
    bytes: u64,
    /// Recipients that have it not yet; each once.
    missing: Vec<String>,
    /// It no longer counts as in flight.
    held: bool,
    /// The server has answered with 250.
    accepted: bool,
    _slot: Option<OwnedSemaphorePermit>,
}

/// What all connections and the receiving side share.
struct Shared {
    plan: Plan,
    run: String,
    templates: Vec<Template>,
    order: Vec<usize>,
    bucket: Option<Arc<TokenBucket>>,
    start: Instant,
    stop: AtomicBool,
    book: Mutex<InFlight>,
    next: Vec<AtomicU64>,
}

/// The books: what is out, what came back, and how long it took.
struct InFlight {
    flights: HashMap<Stamp, Flight>,
    accounts: Accounts,
    gateways: Vec<GatewayShare>,
    latency: Histogram<u64>,
    samples: Vec<u64>,
    bytes: u64,
    newest: Vec<u64>,
    errors: std::collections::BTreeMap<String, u64>,
    dropped: u64,
}

impl InFlight {
    /// The gateway that this load generator sends to.
    fn gateway(&mut self, instance: usize) -> Option<&mut GatewayShare> {
        let at = instance % self.gateways.len().max(1);
        self.gateways.get_mut(at)
    }
}

impl Shared {
    fn book(&self) -> std::sync::MutexGuard<'_, InFlight> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books a delivery: its message has come back for a recipient.
    fn take(&self, delivery: &Delivery) {
        let now = Instant::now();
        let mut book = self.book();
        let Some(stamp) = Stamp::find(&delivery.head, &self.run) else {
            book.accounts.strange += 1;
            return;
        };
        let Some(flight) = book.flights.get_mut(&stamp) else {
            book.accounts.duplicates += delivery.recipients.len() as u64;
            return;
        };
        let mut twice = 0;
        for recipient in &delivery.recipients {
            match flight.missing.iter().position(|m| m.eq_ignore_ascii_case(recipient)) {
                Some(at) => drop(flight.missing.swap_remove(at)),
                None => twice += 1,
            }
        }
        let done = flight.missing.is_empty();
        book.accounts.duplicates += twice;
        if done {
            self.settle(&mut book, stamp, now);
        }
    }

    /// A message has come back to all.
    fn settle(&self, book: &mut InFlight, stamp: Stamp, now: Instant) {
        let Some(flight) = book.flights.get_mut(&stamp) else { return };
        let (begun, bytes, held) = (flight.begun, flight.bytes, flight.held);
        if !flight.accepted {
            // It came back before its 250; the sender will settle it.
            return;
        }
        book.flights.remove(&stamp);
        if held {
            book.accounts.returned_late += 1;
            return;
        }
        book.accounts.returned += 1;
        if let Some(newest) = book.newest.get_mut(stamp.instance) {
            let reordered = stamp.sequence < *newest;
            *newest = stamp.sequence.max(*newest);
            book.accounts.reordered += u64::from(reordered);
        }
        let into = now.saturating_duration_since(self.start);
        if now >= self.start && into < self.plan.time {
            let nanos = now.saturating_duration_since(begun).as_nanos();
            book.latency.saturating_record(u64::try_from(nanos).unwrap_or(u64::MAX));
            book.bytes += bytes;
            if let Some(gateway) = book.gateway(stamp.instance) {
                gateway.counted += 1;
            }
            let sample = (into.as_secs_f64() / self.plan.sample.as_secs_f64()) as usize;
            if let Some(count) = book.samples.get_mut(sample) {
                *count += 1;
            }
        }
    }

    /// Gives up on what has not come back in time.
    fn sweep(&self) {
        let mut book = self.book();
        let mut held = 0;
        for flight in book.flights.values_mut() {
            if !flight.held && flight.accepted && flight.begun.elapsed() > self.plan.return_timeout
            {
                flight.held = true;
                flight._slot = None;
                held += 1;
            }
        }
        book.accounts.held += held;
    }
}

/// Runs as planned.
///
/// # Errors
/// A plan that makes no sense, an address that cannot be listened on, a gateway that takes nothing.
pub fn run(plan: &Plan, corpus: &Corpus, version: &str) -> anyhow::Result<Report> {
    if plan.window == 0 || plan.window > WINDOW_MAX || plan.instances == 0 || plan.connections == 0
    {
        bail!(
            "instances, connections and window must be at least 1, the window at most {WINDOW_MAX}"
        );
    }
    if plan.gateways.is_empty() || plan.gateways.len() > plan.instances {
        bail!(
            "each of the {} gateways needs a load generator: more instances",
            plan.gateways.len()
        );
    }
    if plan.time.is_zero() || plan.sample.is_zero() || plan.sample > plan.time {
        bail!("the time must be above 0 and hold a sample");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(plan.threads.max(1))
        .enable_all()
        .build()
        .context("cannot start the client's threads")?;
    let watch = health::Watch::start();
    let shared = Arc::new(shared(plan, corpus)?);
    let lag = runtime.block_on(drive(&shared))?;
    runtime.shutdown_background();
    report(&shared, corpus, watch.stop(plan.threads.max(1), &lag), version)
}

fn shared(plan: &Plan, corpus: &Corpus) -> anyhow::Result<Shared> {
    let samples = (plan.time.as_secs_f64() / plan.sample.as_secs_f64()).floor() as usize;
    let book = InFlight {
        flights: HashMap::new(),
        accounts: Accounts::default(),
        gateways: plan.gateways.iter().copied().map(GatewayShare::of).collect(),
        latency: latency_histogram()?,
        samples: vec![0; samples.max(1)],
        bytes: 0,
        newest: vec![0; plan.instances],
        errors: Default::default(),
        dropped: 0,
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Shared {
        plan: plan.clone(),
        run: format!("{:x}", now.map_or(0, |d| d.as_nanos())),
        templates: corpus.items.iter().map(|i| Template::new(&i.raw)).collect(),
        order: corpus.order.clone(),
        bucket: plan.link.map(|rate| Arc::new(TokenBucket::new(rate))),
        start: Instant::now() + plan.warm_up,
        stop: AtomicBool::new(false),
        book: Mutex::new(book),
        next: (0..plan.instances).map(|_| AtomicU64::new(0)).collect(),
    })
}

async fn drive(shared: &Arc<Shared>) -> anyhow::Result<Histogram<u64>> {
    let plan = &shared.plan;
    let listener = tokio::net::TcpListener::bind(plan.listen)
        .await
        .with_context(|| format!("cannot listen on {}, where the gateway delivers", plan.listen))?;
    let taker = shared.clone();
    let behaviour = Behaviour {
        hook: Some(Arc::new(move |delivery| taker.take(&delivery))),
        link: plan.link.map(|rate| Arc::new(TokenBucket::new(rate))),
        ..Behaviour::default()
    };
    let protocol = super::Protocol::Smtp;
    tokio::spawn(sink::serve(listener, protocol, behaviour, Arc::new(Counts::default())));
    let prober = shared.clone();
    let probe = tokio::spawn(async move {
        let mut lag = latency_histogram()?;
        health::probe(&prober.stop, &mut lag).await;
        anyhow::Ok(lag)
    });
    let mut senders = tokio::task::JoinSet::new();
    for instance in 0..plan.instances {
        let window = Arc::new(Semaphore::new(plan.window));
        for _ in 0..plan.connections {
            senders.spawn(sender(shared.clone(), instance, window.clone()));
        }
    }
    let end = shared.start + plan.time;
    while Instant::now() < end {
        tokio::time::sleep(SWEEP).await;
        shared.sweep();
    }
    // Those that wait for a slot wait no longer; those that send may finish; what is out may come.
    let last = Instant::now() + plan.return_timeout;
    while Instant::now() < last {
        tokio::time::sleep(SWEEP).await;
        shared.sweep();
        while senders.try_join_next().is_some() {}
        if shared.book().flights.values().all(|flight| flight.held) {
            break;
        }
    }
    senders.shutdown().await;
    shared.stop.store(true, Ordering::Relaxed);
    probe.await.context("the probe of the client's timers failed")?
}

/// Sends over one connection after the other until the time is over.
async fn sender(shared: Arc<Shared>, instance: usize, window: Arc<Semaphore>) {
    let plan = &shared.plan;
    let end = shared.start + plan.time;
    let mut open: Option<smtp::Conversation> = None;
    while Instant::now() < end {
        let slot = window.clone().acquire_owned();
        let Ok(Ok(slot)) = tokio::time::timeout_at(end.into(), slot).await else { return };
        let Some(next) = shared.next.get(instance) else { return };
        let stamp = Stamp { instance, sequence: next.fetch_add(1, Ordering::Relaxed) + 1 };
        let begun = Instant::now();
        let result =
            tokio::time::timeout(plan.return_timeout, one(&shared, &mut open, stamp, slot)).await;
        let result = result.unwrap_or(Err(Failure::Timeout));
        answered(&shared, stamp, &result);
        if result.is_err() {
            open = None;
            if begun.elapsed() < RECONNECT_PAUSE {
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        }
    }
    if let Some(mut conversation) = open {
        let _ = tokio::time::timeout(Duration::from_secs(1), conversation.quit()).await;
    }
}

async fn one(
    shared: &Shared,
    open: &mut Option<smtp::Conversation>,
    stamp: Stamp,
    slot: OwnedSemaphorePermit,
) -> Result<Vec<Outcome>, Failure> {
    let mut conversation = match open.take().filter(smtp::Conversation::is_open) {
        Some(conversation) => conversation,
        None => {
            let gateways = &shared.plan.gateways;
            let gateway = gateways[stamp.instance % gateways.len()];
            let link = Link::open(gateway, shared.bucket.clone()).await?;
            smtp::Conversation::open(link, false).await?
        }
    };
    let number = stamp.sequence.wrapping_sub(1) as usize + stamp.instance * 7_919;
    let template = &shared.templates[shared.order[number % shared.order.len()]];
    let (from, to) = shared.plan.people.envelope(stamp.instance, stamp.sequence);
    let head = stamp.head(&shared.run, &from, &to);
    let size = (head.len() + template.rest.len()) as u64;
    let flight = Flight {
        begun: Instant::now(),
        bytes: size,
        missing: to.clone(),
        held: false,
        accepted: false,
        _slot: Some(slot),
    };
    {
        let mut book = shared.book();
        book.flights.insert(stamp, flight);
        book.accounts.sent += 1;
    }
    let message = smtp::outgoing(&from, &to, size, template.eight_bit);
    let codes = conversation.send(message, &[head.as_bytes(), &template.rest]).await?;
    *open = Some(conversation);
    codes.into_iter().map(smtp::outcome).collect()
}

/// Books the gateway's answer.
fn answered(shared: &Shared, stamp: Stamp, result: &Result<Vec<Outcome>, Failure>) {
    let now = Instant::now();
    let mut book = shared.book();
    match result {
        Ok(outcomes) if outcomes.contains(&Outcome::Passed) => {
            book.accounts.accepted += 1;
            if let Some(gateway) = book.gateway(stamp.instance) {
                gateway.accepted += 1;
            }
            let Some(flight) = book.flights.get_mut(&stamp) else { return };
            flight.accepted = true;
            if flight.missing.is_empty() {
                shared.settle(&mut book, stamp, now);
            }
        }
        Ok(outcomes) => {
            let refused = outcomes.contains(&Outcome::Refused);
            book.accounts.refused += u64::from(refused);
            book.accounts.deferred += u64::from(!refused);
            if let Some(gateway) = book.gateway(stamp.instance) {
                gateway.refused += 1;
            }
            book.flights.remove(&stamp);
        }
        Err(failure) => {
            book.accounts.unanswered += 1;
            if let Some(gateway) = book.gateway(stamp.instance) {
                gateway.unanswered += 1;
            }
            book.dropped += u64::from(failure.is_clients());
            book.flights.remove(&stamp);
            let text = failure.to_string();
            if book.errors.len() < 8 || book.errors.contains_key(&text) {
                *book.errors.entry(text).or_default() += 1;
            }
        }
    }
}

fn report(
    shared: &Shared,
    corpus: &Corpus,
    health: Health,
    version: &str,
) -> anyhow::Result<Report> {
    let plan = &shared.plan;
    let book = shared.book();
    let accounts = book.accounts.clone();
    if accounts.accepted == 0 {
        let error = book.errors.keys().next().cloned();
        let refused = format!("it refused {} of {}", accounts.refused, accounts.sent);
        let names: Vec<String> = plan.gateways.iter().map(ToString::to_string).collect();
        bail!("{} takes no message: {}", names.join(", "), error.unwrap_or(refused));
    }
    let seconds = plan.time.as_secs_f64();
    let mut gateways = book.gateways.clone();
    for gateway in &mut gateways {
        gateway.messages_per_second = gateway.counted as f64 / seconds;
    }
    let rate = book.latency.len() as f64 / seconds;
    let places = (plan.instances * plan.window) as f64 * (plan.warm_up + plan.time).as_secs_f64();
    let waited = accounts.held as f64 * plan.return_timeout.as_secs_f64();
    let latency = Latency::of(&book.latency);
    let run = Run {
        rate,
        ceiling: None,
        tried: accounts.sent,
        dropped: book.dropped,
        latency_p99_us: latency.p99_us,
        open_loop: false,
    };
    Ok(Report {
        messages_per_second: rate,
        megabytes_per_second: book.bytes as f64 / 1e6 / seconds,
        samples: book.samples.iter().map(|n| *n as f64 / plan.sample.as_secs_f64()).collect(),
        sample_seconds: plan.sample.as_secs_f64(),
        latency,
        errors: book.errors.clone(),
        gateways,
        instances: plan.instances,
        window: plan.window,
        held_share: (waited / places).min(1.0),
        link: plan.link,
        workload: super::trial::Workload {
            messages: corpus.items.len(),
            bytes: corpus.bytes,
            hash: corpus.hash.clone(),
        },
        invalid: health::invalid(&health, &run),
        health,
        accounts,
        manifest: Manifest::here(version),
    })
}

#[cfg(test)]
mod tests;
