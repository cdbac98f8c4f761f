//! Experiments with an HTTP server: requests/s, latency against concurrency until half of the
//! requests fail, the time to recover from that, one large download, energy.
//!
//! The client measures itself first, against a server that does nothing (a process of its own); a
//! figure near its ceiling is marked INVALID. Several servers are measured in turn (A B A B).

pub mod ask;
pub mod client;
pub mod energy;
mod head;
pub mod page;
pub mod sink;
pub mod wrk;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio_rustls::rustls::ClientConfig;

use crate::histogram::latency_histogram;
use crate::load::health::{self, Health, LagProbe, Run, Watch};
use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::load::{CONNECTIONS_MAX, Latency, RATE_MAX};
use crate::machine::Manifest;
use crate::null::NullServer;
use crate::process::ResourceUsage;
use ask::{Ask, Expect};
use client::{Counts, Plan};
use energy::{Counters, Energy};

/// Share of a step's time that opening its connections may take.
const OPENING_SHARE_MAX: f64 = 0.5;
/// Share of requests that fail at which a server counts as overloaded.
const HALF: f64 = 0.5;
/// Descriptors that the client needs beside its connections.
const DESCRIPTORS_KEPT: u64 = 64;
/// A server has recovered when so many requests in a row are answered as before.
const RECOVERED_REQUESTS: u32 = 10;
/// As before: within so many times the median before, and so much more.
const RECOVERED_TIMES: f64 = 3.0;
const RECOVERED_SLACK: Duration = Duration::from_millis(20);
/// Time of a run against the null server.
const CALIBRATION: Duration = Duration::from_secs(1);

/// A server and a file of it.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// The URL as it was given.
    pub url: String,
    /// Address and port of its listener.
    pub address: SocketAddr,
    /// Host and port of the URL.
    pub host: String,
    /// Path and query of the URL.
    pub path: String,
    /// Its process, whose CPU time is read, those of its children included.
    pub process: Option<u32>,
    /// What it is asked in place of the path; empty for the path.
    #[serde(skip)]
    pub asks: Arc<[Ask]>,
}

impl Target {
    /// A server at an address that is asked these requests, under a name of its own.
    pub fn named(name: &str, address: SocketAddr, process: Option<u32>, asks: Arc<[Ask]>) -> Self {
        let (url, host, path) = (name.to_owned(), address.to_string(), "/".to_owned());
        Target { url, address, host, path, process, asks }
    }

    /// What it is asked.
    fn asks(&self, keep_alive: bool) -> Arc<[Ask]> {
        match self.asks.is_empty() {
            true => [Ask::get(&self.path, &self.host, keep_alive, Expect::Success)].into(),
            false => Arc::clone(&self.asks),
        }
    }

    /// Of `http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// Another kind of URL, or a host without an address.
    pub fn parse(url: &str, process: Option<u32>) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://");
        let rest = rest.with_context(|| format!("{url:?} is not http://HOST:PORT/PATH"))?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            bail!("{url:?}: a space or control character in a URL");
        }
        let port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if port { host.to_owned() } else { format!("{host}:80") };
        let mut found = with_port
            .to_socket_addrs()
            .with_context(|| format!("{host:?} is no host that resolves"))?;
        let address = found.next().with_context(|| format!("{host} has no address"))?;
        let (url, host, path) = (url.to_owned(), host.to_owned(), path.to_owned());
        Ok(Target { url, address, host, path, process, asks: Arc::default() })
    }
}

/// Bytes of an answer's head, and of the body that it announces; none before it is whole.
pub(crate) fn head_of(answer: &[u8]) -> std::io::Result<Option<(usize, Option<u64>)>> {
    Ok(head::parse(answer)?.map(|head| (head.bytes, head.length)))
}

/// What is measured: servers, connections and times.
#[derive(Debug, Clone)]
pub struct Options {
    /// Servers, measured in turn.
    pub targets: Vec<Target>,
    /// Connections of the run that counts requests/s.
    pub connections: usize,
    /// Requests/s of an open loop; none is a closed loop. Of the runs, not of the ladder.
    pub rate: Option<f64>,
    /// Threads of the client.
    pub threads: usize,
    /// Ask again over the same connection.
    pub keep_alive: bool,
    /// Time of each run.
    pub time: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Runs of each server.
    pub rounds: u32,
    /// Connections at once, step by step; the last step that is tried is the one at which half
    /// fail.
    pub ladder: Vec<usize>,
    /// Longest wait until the server has recovered from the last step.
    pub recovery_max: Duration,
    /// A large file for one download, of the first server.
    pub download: Option<Target>,
    /// Measure the client against the null server.
    pub calibrate: bool,
    /// What the null server is asked; empty for a byte.
    pub calibration_asks: Arc<[Ask]>,
    /// How TLS is spoken where requests want it.
    pub tls: Option<Arc<ClientConfig>>,
}

/// One run against one server.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Connections open at the same time.
    pub connections: usize,
    /// Requests answered a second.
    pub requests_per_second: f64,
    /// Bytes of bodies a second, 10^6.
    pub megabytes_per_second: f64,
    /// Requests that were answered as expected.
    pub answered: u64,
    /// Of those, refusals by a proxy that were expected.
    pub blocked: u64,
    /// Open loop: requests that were due and could not be begun.
    pub unsent: u64,
    /// Not answered in time, refused, broken off, or with another answer than expected.
    pub failed: u64,
    /// Errors with how often each came.
    pub errors: BTreeMap<String, u64>,
    /// Of the failed, those that the server refused or broke off.
    pub broken_off: u64,
    /// To the last byte: from asking, from connecting of a new connection; in open loop from when
    /// the request was due.
    pub latency: Latency,
    /// CPU time of the server for each request, in microseconds, if its process is known.
    pub server_cpu_us: Option<f64>,
    /// Requests that the server answers with a second of CPU time.
    pub requests_per_cpu_second: Option<f64>,
    /// CPU time of this client for each request, in microseconds.
    pub client_cpu_us: f64,
    /// The client and the machine.
    pub health: Health,
    /// Why the figures are not the server's.
    pub invalid: Vec<String>,
    /// All latencies in nanoseconds.
    #[serde(skip)]
    pub(crate) histogram: Histogram<u64>,
}

impl Measured {
    /// Share of requests that failed.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.failed + self.answered).max(1) as f64
    }

    /// Whether half failed by the server's doing: all else is right, or it broke half of them off
    /// itself, which no busy client does.
    fn half_by_server(&self) -> bool {
        let broken_off = self.broken_off as f64 / (self.failed + self.answered).max(1) as f64;
        self.failed_share() >= HALF && (self.invalid.is_empty() || broken_off >= HALF)
    }
}

/// What a server did.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The server that was asked.
    pub target: Target,
    /// Requests answered a second.
    pub requests_per_second: Estimate,
    /// CPU time a request of the server.
    pub server_cpu_us: Option<Estimate>,
    /// Requests that the server answers with a second of CPU time.
    pub requests_per_cpu_second: Option<Estimate>,
    /// Time from request to answer, over all runs.
    pub latency: Latency,
    /// Runs with the same number of connections.
    pub rounds: Vec<Measured>,
    /// Runs with more and more connections.
    pub ladder: Vec<Measured>,
    /// Connections at which half of the requests failed.
    pub half_fails_at: Option<usize>,
    /// Seconds from the end of the last step until requests were answered as before; none if that
    /// took longer than the wait.
    pub recovery_seconds: Option<f64>,
    /// Energy of the runs; or why it is unknown.
    pub energy: Result<Energy, String>,
}

/// One large download, which shows what bandwidth does.
#[derive(Debug, Clone, Serialize)]
pub struct Download {
    /// Address of the resource.
    pub url: String,
    /// 10^6 bytes a second, by round.
    pub megabytes_per_second: Estimate,
    /// CPU seconds of the server for 10^9 bytes, by round; its children's included.
    pub cpu_seconds_per_gigabyte: Option<Estimate>,
    /// 10^6 bytes a second from the null server.
    pub ceiling: Option<f64>,
    /// Why the figures are not the server's.
    pub invalid: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Requests/s of this client against a server that does nothing.
    pub ceiling: Option<f64>,
    /// Results of each server, in the order of the options.
    pub subjects: Vec<Subject>,
    /// Requests/s of the first over those of the second.
    pub rate_ratio: Option<Estimate>,
    /// The same of requests a CPU second.
    pub cpu_ratio: Option<Estimate>,
    /// The large download, if one was requested.
    pub download: Option<Download>,
    /// Steps that were not tried, and why.
    pub missing: Vec<String>,
    /// All figures are the servers'.
    pub valid: bool,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

fn check(options: &Options) -> anyhow::Result<()> {
    let all = options.ladder.iter().chain([&options.connections]);
    if let Some(wrong) = all.into_iter().find(|n| **n == 0 || **n > CONNECTIONS_MAX) {
        bail!("{wrong} connections: it must be 1 to {CONNECTIONS_MAX}");
    }
    if let Some(rate) = options.rate.filter(|r| !(*r > 0.0 && *r <= RATE_MAX)) {
        bail!("{rate} requests/s: it must be above 0 and at most {RATE_MAX}");
    }
    if options.time.is_zero() || options.threads == 0 || options.targets.is_empty() {
        bail!("there is nothing to measure in no time, on no thread, or of no server");
    }
    Ok(())
}

/// Files that this process may have open.
fn descriptors_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes to the struct, which is valid for that.
    let result_line = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if result_line { limit.rlim_cur } else { 1_024 }
}

/// Measures. `progress` hears of each run when it ends.
///
/// # Errors
/// Settings that make no sense, or a server that answers nothing at all.
pub fn run(
    options: &Options,
    version: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    check(options)?;
    let null = if options.calibrate { Some(NullServer::http()?) } else { None };
    let ceiling = null.as_ref().map(|null| ceiling(options, null.address)).transpose()?;
    let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); options.targets.len()];
    let counters = Counters::read(Path::new(energy::POWERCAP));
    let mut energies = vec![Err("unknown: nothing was measured".to_owned()); rounds.len()];
    for _ in 0..options.rounds.clamp(1, ROUNDS_MAX) {
        for ((target, rounds), energy) in options.targets.iter().zip(&mut rounds).zip(&mut energies)
        {
            // Of the last round: counters that wrap around twice are ambiguous.
            let before = counters.clone().and_then(|_| Counters::read(Path::new(energy::POWERCAP)));
            let before = before.map_err(|e| e.to_string());
            let began = Instant::now();
            let measured = measure(options, target, options.connections, ceiling)?;
            let seconds = began.elapsed().as_secs_f64();
            *energy = before.and_then(|counters| {
                counters.since(seconds).ok_or_else(|| "the counters went away".to_owned())
            });
            progress(&result_line(target, &measured));
            rounds.push(measured);
        }
    }
    let (mut subjects, mut missing) = (Vec::new(), Vec::new());
    for ((target, rounds), energy) in options.targets.iter().zip(rounds).zip(energies) {
        let mut subject = subject(target.clone(), rounds, energy)?;
        climb(options, &mut subject, &mut missing, ceiling, progress)?;
        subjects.push(subject);
    }
    let ratio = |of: fn(&Measured) -> Option<f64>| match subjects.as_slice() {
        [a, b] => {
            let pairs = a.rounds.iter().zip(&b.rounds).filter_map(|(a, b)| of(a).zip(of(b)));
            Estimate::ratio(&pairs.collect::<Vec<_>>())
        }
        _ => None,
    };
    let rate_ratio = ratio(|round| Some(round.requests_per_second));
    let cpu_ratio = ratio(|round| round.requests_per_cpu_second);
    let null = null.as_ref().map(|null| null.address);
    let download = options.download.as_ref();
    let download = download.map(|target| fetch(options, target, null)).transpose()?;
    let valid = subjects.iter().flat_map(|s| &s.rounds).all(|m| m.invalid.is_empty())
        && download.as_ref().is_none_or(|d| d.invalid.is_empty());
    let manifest = Manifest::here(version);
    Ok(Report { ceiling, subjects, rate_ratio, cpu_ratio, download, missing, valid, manifest })
}

fn result_line(target: &Target, measured: &Measured) -> String {
    format!(
        "{}: {} connections: {:.0} requests/s, {:.1} % failed{}",
        target.url,
        measured.connections,
        measured.requests_per_second,
        measured.failed_share() * 100.0,
        if measured.invalid.is_empty() { "" } else { ", INVALID" }
    )
}

fn plan(options: &Options, target: &Target, connections: usize) -> Plan {
    Plan {
        target: target.address,
        asks: target.asks(options.keep_alive),
        connections,
        rate: None,
        keep_alive: options.keep_alive,
        warm_up: Duration::from_millis(300),
        time: options.time,
        timeout: options.timeout,
        threads: options.threads,
        requests: 0,
        tls: options.tls.clone(),
    }
}

/// Requests/s against a server that does nothing.
pub(crate) fn ceiling(options: &Options, null: SocketAddr) -> anyhow::Result<f64> {
    let asks = Arc::clone(&options.calibration_asks);
    let target = Target { asks, ..null_target(null, "/") };
    let plan = Plan { time: CALIBRATION, ..plan(options, &target, options.connections) };
    let counts = client::run(&plan)?;
    Ok(counts.answered as f64 / counts.seconds)
}

fn null_target(address: SocketAddr, path: &str) -> Target {
    let host = address.to_string();
    let url = format!("http://{host}{path}");
    Target { url, address, host, path: path.into(), process: None, asks: Arc::default() }
}

/// One run against one server.
pub(crate) fn measure(
    options: &Options,
    target: &Target,
    connections: usize,
    ceiling: Option<f64>,
) -> anyhow::Result<Measured> {
    let used = || target.process.and_then(ResourceUsage::of).map(|used| used.cpu_seconds);
    let plan = Plan { rate: options.rate, ..plan(options, target, connections) };
    let lag = LagProbe::start()?;
    let (before, watch) = (used(), Watch::start());
    let counts = client::run(&plan)?;
    let health = watch.stop(plan.threads, &lag.stop()?);
    let server = before.zip(used()).map(|(before, after)| after - before);
    let Counts { answered, failed, .. } = counts;
    let latency = Latency::of(&counts.latency);
    let rate = answered as f64 / counts.seconds.max(1e-9);
    let run = Run {
        rate,
        ceiling,
        tried: answered + failed,
        dropped: counts.dropped,
        latency_p99_us: latency.p99_us,
        open_loop: plan.rate.is_some(),
    };
    let mut invalid = health::invalid(&health, &run);
    let whole = (plan.warm_up + plan.time).as_secs_f64();
    if counts.opening_seconds > whole * OPENING_SHARE_MAX {
        invalid.push(format!(
            "the client took {:.1} of {whole:.1} s to ask for {connections} connections: a longer --timeout \
             leaves it time",
            counts.opening_seconds
        ));
    }
    // The warm-up is in the CPU times and not in the counts.
    let share = counts.seconds / (counts.seconds + plan.warm_up.as_secs_f64());
    let each = |seconds: f64| seconds * share * 1e6 / (answered + counts.late).max(1) as f64;
    let server_cpu_us = server.map(each);
    Ok(Measured {
        connections,
        requests_per_second: rate,
        megabytes_per_second: counts.body_bytes as f64 / 1e6 / counts.seconds.max(1e-9),
        answered,
        blocked: counts.blocked,
        unsent: counts.unsent,
        failed,
        errors: counts.errors,
        broken_off: counts.broken_off,
        latency,
        server_cpu_us,
        requests_per_cpu_second: server_cpu_us.filter(|us| *us > 0.0).map(|us| 1e6 / us),
        client_cpu_us: each(health.cpu_seconds),
        invalid,
        health,
        histogram: counts.latency,
    })
}

fn subject(
    target: Target,
    rounds: Vec<Measured>,
    energy: Result<Energy, String>,
) -> anyhow::Result<Subject> {
    if rounds.iter().all(|r| r.answered == 0) {
        let errors = rounds.iter().flat_map(|r| &r.errors);
        let worst = errors.max_by_key(|(_, count)| **count);
        let why = worst.map_or_else(|| "no answer in time".to_owned(), |(error, _)| error.clone());
        bail!("{} answers nothing: {why}", target.url);
    }
    let mut latency = latency_histogram()?;
    for round in &rounds {
        latency.add(&round.histogram)?;
    }
    let rates: Vec<f64> = rounds.iter().map(|r| r.requests_per_second).collect();
    let cpu: Vec<f64> = rounds.iter().filter_map(|r| r.server_cpu_us).collect();
    let per_cpu_second: Vec<f64> =
        rounds.iter().filter_map(|r| r.requests_per_cpu_second).collect();
    Ok(Subject {
        target,
        requests_per_second: Estimate::of(&rates).context("no run was made")?,
        server_cpu_us: Estimate::of(&cpu),
        requests_per_cpu_second: Estimate::of(&per_cpu_second),
        latency: Latency::of(&latency),
        rounds,
        ladder: Vec::new(),
        half_fails_at: None,
        recovery_seconds: None,
        energy,
    })
}

/// More and more connections until half of the requests fail; then, how long the server needs.
fn climb(
    options: &Options,
    subject: &mut Subject,
    missing: &mut Vec<String>,
    ceiling: Option<f64>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let room = descriptors_max().saturating_sub(DESCRIPTORS_KEPT);
    for &connections in &options.ladder {
        if connections as u64 > room {
            missing.push(format!(
                "{connections} connections to {}: this client may open {room} at once (ulimit -n)",
                subject.target.url
            ));
            continue;
        }
        // Long enough that a request without an answer counts as failed.
        let time = options.time.max(options.timeout);
        let step = Options { time, rate: None, ..options.clone() };
        let measured = measure(&step, &subject.target, connections, ceiling)?;
        progress(&result_line(&subject.target, &measured));
        let half = measured.failed_share() >= HALF;
        subject.ladder.push(measured);
        if half {
            let servers = subject.ladder.last().is_some_and(Measured::half_by_server);
            subject.half_fails_at = servers.then_some(connections);
            if !servers {
                missing.push(format!(
                    "{connections} connections to {}: the client was the limit",
                    subject.target.url
                ));
            }
            break;
        }
    }
    if !subject.ladder.is_empty() {
        subject.recovery_seconds = recovery(options, subject)?;
    }
    Ok(())
}

/// Asks one request after the other until they are answered as before the load.
fn recovery(options: &Options, subject: &Subject) -> anyhow::Result<Option<f64>> {
    let before = subject.ladder.first().map_or(subject.latency.p50_us, |m| m.latency.p50_us);
    let enough = Duration::from_secs_f64(before * RECOVERED_TIMES / 1e6) + RECOVERED_SLACK;
    let start = Instant::now();
    let (mut row, mut since) = (0, 0.0);
    while start.elapsed() < options.recovery_max {
        let plan = Plan {
            connections: 1,
            threads: 1,
            keep_alive: false,
            warm_up: Duration::ZERO,
            time: enough,
            timeout: enough,
            requests: 1,
            ..plan(options, &subject.target, 1)
        };
        let asked = start.elapsed().as_secs_f64();
        if client::run(&plan)?.answered == 0 {
            row = 0;
            continue;
        }
        if row == 0 {
            since = asked;
        }
        row += 1;
        if row == RECOVERED_REQUESTS {
            return Ok(Some(since));
        }
    }
    Ok(None)
}

/// One large file over one connection, once a round.
fn fetch(options: &Options, target: &Target, null: Option<SocketAddr>) -> anyhow::Result<Download> {
    let once = |target: &Target| {
        let once = Plan {
            connections: 1,
            threads: 1,
            warm_up: Duration::ZERO,
            time: options.timeout,
            requests: 1,
            ..plan(options, target, 1)
        };
        let began = Instant::now();
        let counts = client::run(&once)?;
        if counts.answered == 0 {
            let why = counts.errors.keys().next().cloned();
            bail!("{}: {}", target.url, why.unwrap_or_else(|| "not in time".to_owned()));
        }
        Ok((counts.body_bytes, counts.body_bytes as f64 / 1e6 / began.elapsed().as_secs_f64()))
    };
    let cpu = || Some(ResourceUsage::of(target.process?)?.cpu_seconds);
    let (mut rates, mut costs, mut bytes) = (Vec::new(), Vec::new(), 0);
    let lag = LagProbe::start()?;
    let watch = Watch::start();
    for _ in 0..options.rounds.clamp(1, ROUNDS_MAX) {
        let before = cpu();
        let (length, rate) = once(target)?;
        rates.push(rate);
        let cost = before.zip(cpu()).map(|(before, now)| now - before);
        costs.extend(cost.map(|cost| cost * 1e9 / length.max(1) as f64));
        bytes = length;
    }
    let mut invalid = health::disturbed(&watch.stop(1, &lag.stop()?));
    let ceiling = null.map(|null| once(&null_target(null, &format!("/bytes/{bytes}"))));
    let ceiling = ceiling.transpose()?.map(|(_, rate)| rate);
    let megabytes_per_second = Estimate::of(&rates).context("no run was made")?;
    let rate = megabytes_per_second.mean;
    if let Some(ceiling) = ceiling.filter(|c| rate > c * health::CEILING_SHARE_MAX) {
        invalid.push(format!(
            "{rate:.0} MB/s of one download are near the {ceiling:.0} of this client against a server \
             that does nothing"
        ));
    }
    let cpu_seconds_per_gigabyte = Estimate::of(&costs);
    let url = target.url.clone();
    Ok(Download { url, megabytes_per_second, cpu_seconds_per_gigabyte, ceiling, invalid })
}

#[cfg(test)]
mod tests;
