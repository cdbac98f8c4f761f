//! Is this client good enough? It and wrk (Debian: wrk) in turn against the null server: same
//! connections, same threads, no pipelining.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use super::client::{self, Plan};
use super::null_target;
use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::machine::Manifest;
use crate::null::NullServer;
use crate::usage;

/// The settings of both.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Connections of each client.
    pub connections: usize,
    /// Threads of each client.
    pub threads: usize,
    /// Time of a run, in whole seconds.
    pub time: Duration,
    /// Runs of each client, in turn.
    pub rounds: u32,
}

/// A run of each.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Pair {
    /// Requests/s of this client.
    pub ours: f64,
    /// CPU time of this client for each request, in microseconds.
    pub our_cpu_us: f64,
    /// Requests answered to wrk, a second.
    pub wrks: f64,
    /// CPU time of wrk for each request, in microseconds.
    pub wrk_cpu_us: f64,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What wrk says that it is.
    pub wrk: String,
    /// Requests/s of both clients, by round.
    pub rounds: Vec<Pair>,
    /// Our requests/s over wrk's.
    pub rate_ratio: Estimate,
    /// wrk's CPU time a request over ours.
    pub cpu_ratio: Estimate,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// Measures both in turn.
///
/// # Errors
/// wrk is not there or says nothing that is understood.
pub fn run(options: &Options, version: &str) -> anyhow::Result<Report> {
    let null = NullServer::http()?;
    let target = null_target(null.address, "/");
    let mut rounds = Vec::new();
    for _ in 0..options.rounds.clamp(1, ROUNDS_MAX) {
        let plan = Plan {
            target: target.address,
            asks: target.asks(true),
            rate: None,
            connections: options.connections,
            keep_alive: true,
            warm_up: Duration::ZERO,
            time: options.time,
            timeout: Duration::from_secs(5),
            threads: options.threads,
            requests: 0,
            tls: None,
        };
        let cpu = usage::cpu_seconds();
        let counts = client::run(&plan)?;
        let cpu = usage::cpu_seconds() - cpu;
        let (wrks, wrk_cpu_us) = wrk(options, &target.url)?;
        rounds.push(Pair {
            ours: counts.answered as f64 / counts.seconds,
            our_cpu_us: cpu * 1e6 / counts.answered.max(1) as f64,
            wrks,
            wrk_cpu_us,
        });
    }
    let ratio = |pairs: Vec<(f64, f64)>| Estimate::ratio(&pairs).context("no run was made");
    Ok(Report {
        wrk: name(),
        rate_ratio: ratio(rounds.iter().map(|p| (p.ours, p.wrks)).collect())?,
        cpu_ratio: ratio(rounds.iter().map(|p| (p.wrk_cpu_us, p.our_cpu_us)).collect())?,
        rounds,
        manifest: Manifest::here(version),
    })
}

/// The first words of `wrk -v`.
fn name() -> String {
    let output = Command::new("wrk").arg("-v").stdin(Stdio::null()).output();
    let text = output.map(|o| [o.stdout, o.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Requests/s of wrk, and its CPU time a request in microseconds.
fn wrk(options: &Options, url: &str) -> anyhow::Result<(f64, f64)> {
    let before = usage::children_cpu_seconds();
    let output = Command::new("wrk")
        .args(["-t", &options.threads.to_string(), "-c", &options.connections.to_string()])
        .args(["-d", &format!("{}s", options.time.as_secs().max(1)), url])
        .stdin(Stdio::null())
        .output()
        .context("cannot start wrk (Debian: apt-get install wrk)")?;
    let cpu = usage::children_cpu_seconds() - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some((rate, requests)) = figures(&text) else {
        bail!("wrk said {:?}", text.trim());
    };
    Ok((rate, cpu * 1e6 / requests))
}

/// Requests/s and requests of wrk's report.
fn figures(text: &str) -> Option<(f64, f64)> {
    let rate = text.lines().find_map(|l| l.trim().strip_prefix("Requests/sec:"))?;
    let line = text.lines().find(|l| l.contains(" requests in "))?;
    let requests: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some((rate.trim().parse().ok()?, requests.max(1.0)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn reports_are_read() {
        let text = "Running 1s test @ http://x/\n  90210 requests in 1.10s, 3.2MB read\n\
                    Requests/sec:  82009.09\nTransfer/sec:      3.2MB\n";
        assert_eq!(super::figures(text), Some((82_009.09, 90_210.0)));
        assert_eq!(super::figures("unable to connect"), None);
    }
}
