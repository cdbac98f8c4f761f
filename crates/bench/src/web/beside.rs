//! Peers of the web path beside our proxy: each is started privately with the same list, and both
//! forward the same requests to one nginx in turn (A B A B).
//!
//! Ratios are of requests a CPU second, by round: what a core does, whoever has more threads. At
//! half of what the slower of them does, in open loop, latency is measured, beside that without a
//! proxy.

pub mod download;
mod intercepting;
pub mod page;
pub mod peers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use tokio_rustls::rustls::ClientConfig;

use self::download::Downloads;
use self::peers::Origin;
use super::own;
use super::tls::{self, Authority};
use super::workload::{self, Form, Workload};
use crate::compare::OTHER_BUILD;
use crate::compare::server::{self, Server, folder};
use crate::histogram::latency_histogram;
use crate::http::client::{self, Plan};
use crate::http::{self, Measured, Target};
use crate::load::Latency;
use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::machine::Manifest;
use crate::null::NullServer;
use crate::process::ResourceUsage;

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Hosts of the list that are asked for before anything is measured.
const CHECKED_HOSTS: u64 = 100;
/// Share of requests for objects that were asked for before; no peer keeps copies.
const HOT_SHARE: f64 = 0.9;
/// Longest run that is not counted.
const WARM_UP_MAX: Duration = Duration::from_secs(2);
/// Size of what is asked for through tunnels.
const TUNNEL_BYTES: u64 = 1_024;

/// A program to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WebPeer {
    /// Squid with the list as `dstdomain`.
    Squid,
    /// Squid that asks squidGuard about each request.
    Squidguard,
    /// e2guardian with the list as banned sites, without phrases.
    E2guardian,
    /// Privoxy with the list as actions.
    Privoxy,
    /// nginx as a reverse proxy without a list: the least that a proxy can do.
    Nginx,
    /// mitmproxy with the list as a set of Python.
    Mitmproxy,
}

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of this program, whose proxy is started.
    pub program: PathBuf,
    /// Version of this program, for the report.
    pub version: String,
    /// Day of the report (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// Peers, in the order of the report.
    pub peers: Vec<WebPeer>,
    /// Runs of each.
    pub rounds: u32,
    /// Time of a run.
    pub time: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Domains of the list.
    pub entries: u64,
    /// Bytes of objects.
    pub sizes: Vec<u64>,
    /// Another build of this program, which is measured in turn.
    pub beside: Option<PathBuf>,
    /// Squid's program for decrypted TLS, if it is not the system's.
    pub squid: Option<PathBuf>,
    /// Bytes of the large download; 0 for none.
    pub download_bytes: u64,
}

/// What a server came to.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Name of the server.
    pub name: String,
    /// What it says that it is.
    pub version: String,
    /// How it was set up.
    pub notes: Vec<String>,
    /// Requests/s in closed loop.
    pub requests_per_second: Estimate,
    /// Requests for a second of CPU time.
    pub requests_per_cpu_second: Option<Estimate>,
    /// The median of it.
    pub requests_per_cpu_second_median: Option<f64>,
    /// How many times the peer's. None for the peer.
    pub cpu_second_ratio: Option<Estimate>,
    /// How many times the peer's requests/s. None for the peer.
    pub rate_ratio: Option<Estimate>,
    /// Memory at the end, its children's included, in bytes.
    pub memory_bytes: Option<u64>,
    /// Latency in closed loop.
    pub latency: Latency,
    /// Latency at the contest's half load, from when a request was due.
    pub half_load: Latency,
    /// Requests that failed in all runs.
    pub failed: u64,
    /// Why figures may not be the server's.
    pub invalid: Vec<String>,
}

/// One job, done by us and by a peer.
#[derive(Debug, Clone, Serialize)]
pub struct Contest {
    /// Who is compared with.
    pub peer: WebPeer,
    /// What the job is.
    pub job: String,
    /// Connections at once.
    pub connections: usize,
    /// Requests/s of the client against a server that does nothing.
    pub ceiling: f64,
    /// Requests/s at which latency was measured.
    pub half_rate: f64,
    /// Latency at that rate without a proxy.
    pub direct: Latency,
    /// Ours first, the peer last.
    pub entries: Vec<Entry>,
}

/// All contests of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Day (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// Domains of the list.
    pub entries: u64,
    /// What the origin says that it is.
    pub origin: String,
    /// By peer and job.
    pub contests: Vec<Contest>,
    /// Large downloads, by peer.
    pub downloads: Vec<Downloads>,
    /// Peers that were not measured, with the reason.
    pub missing: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

impl Report {
    /// All figures are the servers'.
    pub fn is_valid(&self) -> bool {
        self.contests.iter().flat_map(|c| &c.entries).all(|entry| entry.invalid.is_empty())
    }
}

/// Holds all contests. `progress` gets a line for each event.
///
/// # Errors
/// No nginx for the origin, a proxy of ours that does not start, or a run that fails. A peer that
/// cannot be started is reported as missing.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    anyhow::ensure!(!options.sizes.contains(&0), "objects of no bytes");
    let large = (options.download_bytes > 0).then_some(options.download_bytes);
    let sizes: Vec<u64> = options.sizes.iter().copied().chain(large).collect();
    let origin = peers::origin(&sizes)?;
    let lists = folder()?;
    let domains = own::write_domains(lists.path(), "domains.txt", options.entries, str::to_owned)?;
    let null = NullServer::http()?;
    let authority = Authority::make(&options.program, lists.path().join("ca"))?;
    let (mut held, mut missing) = (Held::default(), Vec::new());
    for &peer in &options.peers {
        progress(&format!("{peer:?}: starting"));
        let (origin, authority, domains) = (&origin, &authority, domains.as_path());
        let field = Field { options, origin, null: null.address, domains, authority };
        if let Err(error) = field.contests(peer, &mut held, progress) {
            progress(&format!("{peer:?}: {error:#}"));
            missing.push(format!("{peer:?}: {error:#}"));
        }
        if intercepting::can(peer)
            && let Err(error) = field.decrypting(peer, &mut held, progress)
        {
            progress(&format!("{peer:?}, decrypting: {error:#}"));
            missing.push(format!("{peer:?}, decrypting: {error:#}"));
        }
    }
    Ok(Report {
        date: options.date.clone(),
        entries: options.entries,
        origin: origin.server.version.clone(),
        contests: held.contests,
        downloads: held.downloads,
        missing,
        manifest: Manifest::here(&options.version),
    })
}

/// What was held so far.
#[derive(Default)]
struct Held {
    contests: Vec<Contest>,
    downloads: Vec<Downloads>,
}

/// What all contests share.
struct Field<'a> {
    options: &'a Options,
    origin: &'a Origin,
    null: SocketAddr,
    domains: &'a Path,
    /// By which ours decrypts, and Squid.
    authority: &'a Authority,
}

/// What is asked of each server.
struct Job {
    name: String,
    bytes: u64,
    is_tunnelled: bool,
    keep_alive: bool,
    /// Within TLS, and how the client speaks it.
    tls: Option<Arc<ClientConfig>>,
}

impl Field<'_> {
    fn contests(
        &self,
        peer: WebPeer,
        held: &mut Held,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let theirs = peers::start(peer, self.origin.server.address, self.options)?;
        let mut servers = self.own(peer, false)?;
        servers.push(theirs);
        let plain = self.options.sizes.iter().map(|&bytes| Job {
            name: format!("forward {bytes} bytes over kept connections"),
            bytes,
            is_tunnelled: false,
            keep_alive: true,
            tls: None,
        });
        let tunnel = Job {
            name: "a new tunnel (CONNECT) for each request".to_owned(),
            bytes: TUNNEL_BYTES,
            is_tunnelled: true,
            keep_alive: true,
            tls: None,
        };
        let inside = Job {
            name: "a new tunnel with a new session of TLS in it for each request".to_owned(),
            bytes: TUNNEL_BYTES,
            is_tunnelled: true,
            keep_alive: false,
            tls: Some(tls::client(&[&self.origin.files.certificate])?),
        };
        let is_plain_alone = matches!(peer, WebPeer::Nginx | WebPeer::Mitmproxy);
        for job in plain.chain((!is_plain_alone).then_some([tunnel, inside]).into_iter().flatten())
        {
            progress(&format!("{peer:?}: {}", job.name));
            held.contests.push(self.hold(peer, &job, &servers, progress)?);
        }
        if self.options.download_bytes > 0 && peer != WebPeer::Nginx {
            progress(&format!("{peer:?}: one download"));
            held.downloads.push(self.download(peer, &servers)?);
        }
        Ok(())
    }

    /// Our proxy, and another build of it.
    fn own(&self, peer: WebPeer, decrypts: bool) -> anyhow::Result<Vec<Server>> {
        let list = (peer != WebPeer::Nginx).then_some(self.domains);
        let authority = decrypts.then_some((self.authority, &*self.origin.files.certificate));
        let own = |program: &Path, name, version: &str| {
            let connections = self.options.connections;
            let domains = list;
            own::Proxy { program, version, name, domains, connections, workers: 1, authority }
                .start()
        };
        let mut servers = vec![own(&self.options.program, "gauntlet", &self.options.version)?];
        if let Some(other) = &self.options.beside {
            let version = server::version(other, "--version");
            servers.push(own(other, OTHER_BUILD, &version)?);
        }
        Ok(servers)
    }

    /// TLS that the proxies decrypt: new sessions, and requests within kept ones.
    fn decrypting(
        &self,
        peer: WebPeer,
        held: &mut Held,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let theirs = intercepting::start(peer, self.options, self.origin, self.authority)?;
        let ours = self.authority.certificate();
        // The origin's own, for what is asked without a proxy.
        let trusted = [&*ours, &*theirs.certificate, &*self.origin.files.certificate];
        let tls = tls::client(&trusted)?;
        let mut servers = self.own(peer, true)?;
        servers.push(theirs.server);
        for (name, keep_alive) in [
            ("decrypted TLS, a new session for each request", false),
            ("decrypted TLS, sessions kept", true),
        ] {
            let (name, tls) = (name.to_owned(), Some(Arc::clone(&tls)));
            let job = Job { name, bytes: TUNNEL_BYTES, is_tunnelled: true, keep_alive, tls };
            progress(&format!("{peer:?}: {}", job.name));
            held.contests.push(self.hold(peer, &job, &servers, progress)?);
        }
        Ok(())
    }

    fn download(&self, peer: WebPeer, servers: &[Server]) -> anyhow::Result<Downloads> {
        let (bytes, rounds) = (self.options.download_bytes, self.options.rounds);
        let job =
            Job { name: String::new(), bytes, is_tunnelled: false, keep_alive: false, tls: None };
        let workload = self.workload(&job);
        let direct = workload.one(bytes, Form::Origin);
        let asked = workload.one(bytes, Form::Proxy);
        let origin = (self.origin.server.address, direct);
        download::run((peer, bytes, rounds), origin, servers, &asked)
    }

    /// Where the origin takes such requests.
    fn origin_of(&self, job: &Job) -> SocketAddr {
        if job.tls.is_some() { self.origin.secure } else { self.origin.server.address }
    }

    fn workload(&self, job: &Job) -> Workload {
        Workload {
            origin: self.origin_of(job),
            hot_share: HOT_SHARE,
            blocked_share: 0.0,
            blocked: workload::blocked_hosts(self.options.entries, CHECKED_HOSTS),
            is_tunnelled: job.is_tunnelled,
            keep_alive: job.keep_alive,
            is_secure: job.tls.is_some(),
        }
    }

    fn http(&self, job: &Job) -> http::Options {
        http::Options {
            targets: Vec::new(),
            connections: self.options.connections,
            rate: None,
            threads: 1,
            keep_alive: job.keep_alive,
            time: self.options.time,
            timeout: ANSWER_MAX,
            rounds: self.options.rounds,
            ladder: Vec::new(),
            recovery_max: Duration::ZERO,
            download: None,
            calibrate: true,
            calibration_asks: self.workload(job).asks(job.bytes, Form::Origin),
            tls: job.tls.clone(),
        }
    }

    /// Requests/s of the client against a server that does nothing; within TLS against the origin.
    fn ceiling(&self, job: &Job, http: &http::Options) -> anyhow::Result<f64> {
        if job.tls.is_none() {
            return http::ceiling(http, self.null);
        }
        let asks = Arc::clone(&http.calibration_asks);
        let direct = Target::named("no proxy", self.origin.secure, None, asks);
        let http = http::Options { time: http.time.min(WARM_UP_MAX), ..http.clone() };
        Ok(http::measure(&http, &direct, http.connections, None)?.requests_per_second)
    }

    /// Whether servers block what the list has, asked without TLS: not how they tell a client
    /// matters here.
    fn check(&self, server: &Server, job: &Job) -> anyhow::Result<Option<String>> {
        let (name, tls) = (job.name.clone(), None);
        let is_tunnelled = job.is_tunnelled && job.tls.is_none();
        let job = Job { name, tls, is_tunnelled, keep_alive: true, ..*job };
        check(server, &self.workload(&job), &job)
    }

    /// Lets the servers do the job in turn; the last is the peer.
    fn hold(
        &self,
        peer: WebPeer,
        job: &Job,
        servers: &[Server],
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Contest> {
        let (workload, mut http) = (self.workload(job), self.http(job));
        let asks = workload.asks(job.bytes, Form::Proxy);
        let target = |server: &Server| {
            let asks = Arc::clone(&asks);
            Target::named(&server.name, server.address, Some(server.process), asks)
        };
        let mut unblocked = Vec::new();
        for server in servers {
            let is_checked = peer != WebPeer::Nginx;
            unblocked.push(if is_checked { self.check(server, job)? } else { None });
        }
        let ceiling = self.ceiling(job, &http)?;
        let connections = http.connections;
        let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); servers.len()];
        for round in 0..=self.options.rounds.clamp(1, ROUNDS_MAX) {
            let time = if round == 0 { http.time.min(WARM_UP_MAX) } else { http.time };
            let http = http::Options { time, ..http.clone() };
            for (server, rounds) in servers.iter().zip(&mut rounds) {
                let measured = http::measure(&http, &target(server), connections, Some(ceiling))?;
                // The first run of each is not counted: caches and connections are filled.
                if round > 0 {
                    let rate = measured.requests_per_second;
                    let cpu = measured.server_cpu_us.unwrap_or(f64::NAN);
                    progress(&format!("{}: {rate:.0} requests/s, {cpu:.0} us CPU", server.name));
                    rounds.push(measured);
                }
            }
        }
        let mean = |rounds: &Vec<Measured>| {
            let sum: f64 = rounds.iter().map(|m| m.requests_per_second).sum();
            sum / rounds.len().max(1) as f64
        };
        let half_rate = (rounds.iter().map(mean).fold(f64::MAX, f64::min) / 2.0).max(1.0);
        http.rate = Some(half_rate);
        let half = |target: &Target| -> anyhow::Result<(Latency, Vec<String>)> {
            let measured = http::measure(&http, target, connections, None)?;
            Ok((Latency::of(&measured.histogram), measured.invalid))
        };
        let direct = workload.asks(job.bytes, Form::Origin);
        let (direct, _) = half(&Target::named("no proxy", self.origin_of(job), None, direct))?;
        let mut entries = Vec::new();
        let theirs = rounds.last().cloned().unwrap_or_default();
        for ((at, server), (rounds, unblocked)) in
            servers.iter().enumerate().zip(rounds.iter().zip(unblocked))
        {
            let half_load = half(&target(server))?;
            let peers = (at + 1 < servers.len()).then_some(theirs.as_slice());
            let mut entry = entry(server, rounds, peers, half_load)?;
            entry.invalid.extend(unblocked);
            entries.push(entry);
        }
        Ok(Contest {
            peer,
            job: job.name.clone(),
            connections,
            ceiling,
            half_rate,
            direct,
            entries,
        })
    }
}

/// Asks for hosts of the list, and for as many others; what is wrong with the answers.
fn check(server: &Server, workload: &Workload, job: &Job) -> anyhow::Result<Option<String>> {
    let blocked = workload.blocked_asks(job.bytes);
    let others = workload.asks(job.bytes, Form::Proxy);
    let all: Arc<[_]> = blocked.iter().chain(others.iter().take(blocked.len())).cloned().collect();
    let plan = Plan {
        target: server.address,
        requests: all.len() as u64,
        asks: all,
        connections: 1,
        rate: None,
        keep_alive: true,
        warm_up: Duration::ZERO,
        time: ANSWER_MAX * 6,
        timeout: ANSWER_MAX,
        threads: 1,
        tls: None,
    };
    let counts = client::run(&plan)?;
    let is_right = counts.failed == 0 && counts.blocked == blocked.len() as u64;
    Ok((!is_right).then(|| {
        let errors: Vec<String> = counts.errors.iter().map(|(e, n)| format!("{n} x {e}")).collect();
        format!(
            "{} of {} hosts of the list were blocked; {}",
            counts.blocked,
            blocked.len(),
            errors.join(", ")
        )
    }))
}

fn entry(
    server: &Server,
    rounds: &[Measured],
    theirs: Option<&[Measured]>,
    (half_load, half_invalid): (Latency, Vec<String>),
) -> anyhow::Result<Entry> {
    let values =
        |of: fn(&Measured) -> Option<f64>| rounds.iter().filter_map(of).collect::<Vec<_>>();
    let ratio = |of: fn(&Measured) -> Option<f64>| {
        let pairs = rounds.iter().zip(theirs?).filter_map(|(a, b)| of(a).zip(of(b)));
        Estimate::ratio(&pairs.collect::<Vec<_>>())
    };
    let mut latency = latency_histogram()?;
    for round in rounds {
        latency.add(&round.histogram)?;
    }
    let failed: u64 = rounds.iter().map(|m| m.failed).sum();
    let mut invalid: Vec<String> = rounds.iter().flat_map(|m| m.invalid.clone()).collect();
    invalid.extend(half_invalid.into_iter().map(|why| format!("at half load: {why}")));
    if failed > 0 {
        let errors = rounds.iter().flat_map(|m| &m.errors);
        let worst = errors.max_by_key(|(_, count)| **count).map_or("", |(error, _)| error);
        invalid.push(format!("{failed} requests failed: {worst}"));
    }
    let per_cpu_second = values(|m| m.requests_per_cpu_second);
    Ok(Entry {
        name: server.name.clone(),
        version: server.version.clone(),
        notes: server.notes.clone(),
        requests_per_second: Estimate::of(&values(|m| Some(m.requests_per_second)))
            .context("no run was counted")?,
        requests_per_cpu_second: Estimate::of(&per_cpu_second),
        requests_per_cpu_second_median: median(per_cpu_second),
        cpu_second_ratio: ratio(|m| m.requests_per_cpu_second),
        rate_ratio: ratio(|m| Some(m.requests_per_second)),
        memory_bytes: ResourceUsage::of(server.process).map(|used| used.memory_bytes),
        latency: Latency::of(&latency),
        half_load,
        failed,
        invalid,
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { *values.get(middle - 1)? } else { upper };
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
