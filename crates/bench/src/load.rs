//! A load generator for mail: so many connections, in closed or open loop, over any of the
//! protocols by which a server takes messages.
//!
//! *Closed loop*: every connection sends its next message when the last is answered; latency counts
//! from the sending. *Open loop*: message number n is due at n / rate, whatever the server does,
//! and latency counts from when it was due. A server that stalls for a second then delays all
//! messages of that second, not just one a connection (G. Tene, "How not to measure latency":
//! coordinated omission).
//!
//! Figures are worth something only if the client was not the limit: see [`health`].

mod clamd;
mod connection;
pub mod corpus;
pub mod health;
mod http;
mod milter;
pub(crate) mod pace;
pub mod page;
pub mod round_trip;
mod smtp;
mod spamd;
pub(crate) mod tally;
pub mod trial;
mod wire;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

pub use connection::Addresses;
pub use corpus::{Corpus, Label};
pub use health::Health;
pub use tally::{Latency, Measured};
pub use wire::Outcome;

use connection::Connection;
use pace::Pace;
use tally::Tally;
use wire::{Failure, Prepared};

use crate::histogram::latency_histogram;
use crate::protocol::Protocol;

/// A pause after a connection could not be opened, so that a dead server is not stormed.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Connections that may be requested: each takes a descriptor.
pub const CONNECTIONS_MAX: usize = 50_000;
/// Messages/s that may be requested in open loop.
pub const RATE_MAX: f64 = 1e6;

/// What is sent, where, and how fast.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address and port of the server.
    pub target: SocketAddr,
    /// Protocol of every connection.
    pub protocol: Protocol,
    /// Connections open at the same time.
    pub connections: usize,
    /// Messages after which a connection is closed and another opened; 0 for never.
    pub per_connection: u64,
    /// Messages/s of an open loop; none is a closed loop.
    pub rate: Option<f64>,
    /// Time that is measured, after the warm-up.
    pub time: Duration,
    /// Messages to stop after, if that is earlier; 0 for no limit.
    pub messages: u64,
    /// Time before it, in which messages are sent and not counted (closed loop only).
    pub warm_up: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Threads of the client.
    pub threads: usize,
    /// Envelope sender and recipients of every message.
    pub addresses: Addresses,
}

impl Plan {
    fn check(&self) -> anyhow::Result<()> {
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            bail!("{} connections: it must be 1 to {CONNECTIONS_MAX}", self.connections);
        }
        if let Some(rate) = self.rate.filter(|r| !(*r > 0.0 && *r <= RATE_MAX)) {
            bail!("{rate} messages/s: it must be above 0 and at most {RATE_MAX}");
        }
        if self.time.is_zero() || self.threads == 0 {
            bail!("there is nothing to measure in no time or on no thread");
        }
        Ok(())
    }
}

/// The time was over before any message was tried: it was too short for this machine as busy as it
/// is.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("no message was tried in {seconds:.1} s")]
pub struct NothingTried {
    /// The time of the run.
    pub seconds: f64,
}

/// How often a run is made until a message was tried in it.
pub(crate) const ATTEMPTS_MAX: u32 = 3;
/// How many times longer each further attempt is.
const ATTEMPT_GROWTH: u32 = 4;

/// Makes a run, again with longer time while no message is tried in it.
pub(crate) fn until_tried<T>(
    time: Duration,
    mut run: impl FnMut(Duration) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut time = time;
    let mut attempt = 1;
    loop {
        match run(time) {
            Err(error) if attempt < ATTEMPTS_MAX && error.is::<NothingTried>() => {
                time = time.saturating_mul(ATTEMPT_GROWTH);
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// What all connections share.
struct Shared {
    plan: Plan,
    messages: Vec<(Prepared, Label)>,
    order: Vec<usize>,
    next: AtomicU64,
    pace: Pace,
    stop: Arc<AtomicBool>,
    tallies: Vec<Mutex<Tally>>,
}

/// The tally, even if a thread panicked while holding it: counts are whole at any time.
fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends as planned and says what came of it.
///
/// # Errors
/// A plan that makes no sense, or a server that did not take a single connection.
pub fn run(plan: &Plan, corpus: &Corpus) -> anyhow::Result<Measured> {
    plan.check()?;
    let messages =
        corpus.items.iter().map(|i| (connection::prepare(plan.protocol, i), i.label)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(plan.threads)
        .enable_all()
        .build()
        .context("cannot start the client's threads")?;
    let watch = health::Watch::start();
    let start = Instant::now() + plan.warm_up;
    let tallies =
        (0..plan.threads).map(|_| Ok(Mutex::new(Tally::new()?))).collect::<anyhow::Result<_>>()?;
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        messages,
        order: corpus.order.clone(),
        next: AtomicU64::new(0),
        pace: Pace::new(start, plan),
        stop: Arc::new(AtomicBool::new(false)),
        tallies,
    });
    let lag = runtime.block_on(drive(&shared))?;
    let seconds = start.elapsed().as_secs_f64().min(plan.time.as_secs_f64());
    drop(runtime);
    let health = watch.stop(plan.threads, &lag);
    let unsent = shared.pace.unsent(shared.next.load(Ordering::Relaxed));
    let Ok(shared) = Arc::try_unwrap(shared) else { bail!("a connection outlived the run") };
    let mut all = Tally::new()?;
    for tally in shared.tallies {
        all.add(tally.into_inner().unwrap_or_else(PoisonError::into_inner))?;
    }
    if all.tried() == 0 && unsent == 0 && plan.messages > 0 && !plan.warm_up.is_zero() {
        let (count, seconds) = (plan.messages, plan.warm_up.as_secs_f64());
        bail!(
            "all {count} messages (--messages) went out in the {seconds:.1} s before the counting: take more of \
             them, or --warm-up 0"
        );
    }
    if all.tried() == 0 && unsent == 0 {
        return Err(NothingTried { seconds }.into());
    }
    if let Some(error) = all.only_failures() {
        bail!("{} takes no message by {}: {error}", plan.target, plan.protocol.name());
    }
    Ok(all.measured(seconds, unsent, health))
}

/// Runs the connections until the time is over; how late timers woke, in nanoseconds.
async fn drive(shared: &Arc<Shared>) -> anyhow::Result<hdrhistogram::Histogram<u64>> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..shared.plan.connections {
        tasks.spawn(connection(shared.clone(), number));
    }
    let stop = shared.stop.clone();
    let probe = tokio::spawn(async move {
        let mut lag = latency_histogram()?;
        health::probe(&stop, &mut lag).await;
        anyhow::Ok(lag)
    });
    let pacer = shared.pace.spawn(shared.stop.clone());
    let end = shared.pace.start + shared.plan.time;
    tokio::time::timeout_at((end + shared.plan.timeout).into(), async {
        while tasks.join_next().await.is_some() {}
    })
    .await
    .ok();
    shared.stop.store(true, Ordering::Relaxed);
    tasks.shutdown().await;
    if let Some(pacer) = pacer {
        // It looks at `stop` every few milliseconds, and cannot panic.
        let _ = pacer.join();
    }
    probe.await.context("the probe of the client's timers failed")?
}

/// One connection after the other until the time is over.
async fn connection(shared: Arc<Shared>, number: usize) {
    let plan = &shared.plan;
    let tally = &shared.tallies[number % shared.tallies.len()];
    let mut open: Option<(Connection, u64)> = None;
    while let Some((turn, due)) = shared.pace.next(&shared.next).await {
        let order = shared.order.len() as u64;
        let index = shared.order[(turn % order) as usize];
        let (message, label) = &shared.messages[index];
        let start = due.unwrap_or_else(Instant::now);
        let result = attempt(plan, &mut open, message, turn).await;
        let end = Instant::now();
        if start >= shared.pace.start {
            let second = end.saturating_duration_since(shared.pace.start).as_secs();
            let late = end > shared.pace.start + plan.time;
            lock(tally).record(*label, &result, end.saturating_duration_since(start), second, late);
        } else if result.is_ok() {
            lock(tally).warm_up();
        }
        if result.is_err() && open.is_none() {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
    if let Some((connection, _)) = open {
        connection.close(plan.timeout.min(Duration::from_secs(1))).await;
    }
}

/// Sends one message, over the connection that is open or a new one.
async fn attempt(
    plan: &Plan,
    open: &mut Option<(Connection, u64)>,
    message: &Prepared,
    turn: u64,
) -> Result<Outcome, Failure> {
    let (mut connection, passed) = match open.take() {
        Some(connection) => connection,
        None => (Connection::open(plan.protocol, plan.target, plan.timeout).await?, 0),
    };
    let to = plan.addresses.to(turn);
    let outcome = connection.pass(message, &plan.addresses.from, &to, plan.timeout).await?;
    let passed = passed + 1;
    let spent = plan.per_connection > 0 && passed >= plan.per_connection;
    if connection.is_open() && !spent {
        *open = Some((connection, passed));
    } else {
        connection.close(plan.timeout.min(Duration::from_secs(1))).await;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests;
