//! A measurement that can be believed: the client's ceiling first, then the server, or two servers
//! in turn (A B A B), with what each used of the machine, and a verdict on whether the figures are
//! the server's.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::health::{self, Run};
use super::{Corpus, Latency, Measured, Plan};
use crate::histogram::latency_histogram;
use crate::machine::Manifest;
use crate::process::ResourceUsage;

/// Rounds of a measurement, at most.
pub const ROUNDS_MAX: u32 = 100;

/// A server is idle that used next to no CPU time for so long.
const IDLE_FOR: Duration = Duration::from_millis(600);
/// CPU seconds in that time that are nothing.
const IDLE_CPU_SECONDS: f64 = 0.015;
/// How often that is looked at.
const IDLE_PROBE: Duration = Duration::from_millis(50);

/// A server that is measured.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// Its name in the report.
    pub name: String,
    /// Address and port of its listener.
    pub address: SocketAddr,
    /// Its process, whose CPU time and memory are read, those of its children included.
    pub process: Option<u32>,
}

/// One run against one server.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// What came of it.
    #[serde(flatten)]
    pub measured: Measured,
    /// CPU time of the server for each message, in microseconds, if its process is known.
    pub server_cpu_us_per_message: Option<f64>,
    /// Memory of the server at the end, in bytes.
    pub server_memory_bytes: Option<u64>,
    /// Seconds after the last answer until the server had nothing more to do, if they were waited
    /// for.
    pub drain_seconds: f64,
    /// Why the figures are not the server's.
    pub invalid: Vec<String>,
}

/// All runs against one server.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The server that was measured.
    pub target: Target,
    /// Its runs in their order.
    pub rounds: Vec<Round>,
    /// Messages/s over its rounds.
    pub messages_per_second: Estimate,
    /// CPU time of the server for each message in microseconds.
    pub server_cpu_us_per_message: Option<Estimate>,
    /// Latency over all runs.
    pub latency: Latency,
}

/// A mean with the 95 % confidence interval of Student's distribution; no interval from one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Arithmetic mean; geometric of ratios.
    pub mean: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % confidence interval.
    pub high: Option<f64>,
}

impl Estimate {
    /// Of measurements; none of none. What is never below 0 has no interval that is.
    pub fn of(values: &[f64]) -> Option<Self> {
        let estimate = Self::of_any(values)?;
        let floor = if values.iter().all(|v| *v >= 0.0) { 0.0 } else { f64::MIN };
        Some(Estimate { low: estimate.low.map(|low| low.max(floor)), ..estimate })
    }

    fn of_any(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Estimate { mean, low: None, high: None }),
            n => {
                let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
                let error = (squares / (count - 1.0) / count).sqrt() * student(n - 1);
                Some(Estimate { mean, low: Some(mean - error), high: Some(mean + error) })
            }
        }
    }

    /// Of pairs: how many times more the first is than the second (by the mean of the logarithms).
    pub fn ratio(pairs: &[(f64, f64)]) -> Option<Self> {
        let logs: Vec<f64> =
            pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
        let logs = Estimate::of_any(&logs)?;
        let exp = |value: Option<f64>| value.map(f64::exp);
        Some(Estimate { mean: logs.mean.exp(), low: exp(logs.low), high: exp(logs.high) })
    }
}

/// Two-sided 95 % quantile of Student's distribution.
fn student(freedom: usize) -> f64 {
    const QUANTILES: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    QUANTILES.get(freedom.saturating_sub(1)).copied().unwrap_or(2.0)
}

/// How the first server compares with the second, round by round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// Messages/s of the first over those of the second.
    pub rate_ratio: Option<Estimate>,
    /// CPU time a message of the first over that of the second.
    pub cpu_ratio: Option<Estimate>,
}

/// The messages that were sent.
#[derive(Debug, Clone, Serialize)]
pub struct Workload {
    /// Number of different messages.
    pub messages: usize,
    /// Size of all together, in bytes.
    pub bytes: u64,
    /// First 64 bits of a BLAKE3 hash over all of them, in hex: equal workloads have equal names.
    pub hash: String,
}

/// What a trial came to.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// Protocol of every connection.
    pub protocol: super::Protocol,
    /// Connections open at the same time.
    pub connections: usize,
    /// Messages/s of the open loop; none was a closed loop.
    pub rate: Option<f64>,
    /// Threads of the client.
    pub threads: usize,
    /// The messages that were sent.
    pub workload: Workload,
    /// Messages/s of this client, in closed loop, against a server that does nothing.
    pub ceiling: Option<f64>,
    /// Results by server, in the order of the targets.
    pub subjects: Vec<Subject>,
    /// The first against the second.
    pub comparison: Option<Comparison>,
    /// The figures of every run are the server's.
    pub valid: bool,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// Measures what the client can do at most: the plan in closed loop against a null server.
///
/// # Errors
/// As [`super::run`].
pub fn ceiling(
    plan: &Plan,
    null: SocketAddr,
    time: Duration,
    corpus: &Corpus,
) -> anyhow::Result<f64> {
    let plan = Plan { target: null, rate: None, messages: 0, time, ..plan.clone() };
    Ok(super::run(&plan, corpus)?.messages_per_second)
}

/// Measures the servers in turn, `rounds` times each. `progress` hears of each run when it ends.
///
/// # Errors
/// As [`super::run`].
pub fn run(
    plan: &Plan,
    corpus: &Corpus,
    targets: &[Target],
    rounds: u32,
    ceiling: Option<f64>,
    version: &str,
    progress: &mut dyn FnMut(&Target, &Round),
) -> anyhow::Result<Trial> {
    let mut all: Vec<Vec<Round>> = vec![Vec::new(); targets.len()];
    for _ in 0..rounds.clamp(1, ROUNDS_MAX) {
        for (target, rounds) in targets.iter().zip(&mut all) {
            let round = round(plan, corpus, target, ceiling, Duration::ZERO)?;
            progress(target, &round);
            rounds.push(round);
        }
    }
    let comparison = match all.as_slice() {
        [a, b] => Some(compare(a, b)),
        _ => None,
    };
    let valid = all.iter().flatten().all(|round| round.invalid.is_empty());
    let subjects = targets.iter().zip(all).map(|(t, rounds)| subject(t.clone(), rounds));
    Ok(Trial {
        protocol: plan.protocol,
        connections: plan.connections,
        rate: plan.rate,
        threads: plan.threads,
        workload: Workload {
            messages: corpus.items.len(),
            bytes: corpus.bytes,
            hash: corpus.hash.clone(),
        },
        ceiling,
        subjects: subjects.collect::<anyhow::Result<_>>()?,
        comparison,
        valid,
        manifest: Manifest::here(version),
    })
}

/// Measures a server once. A server that works on after its answers, as a relay does, is waited for
/// until it is idle, at most for `drain`; its CPU time until then counts.
///
/// # Errors
/// As [`super::run`].
pub fn round(
    plan: &Plan,
    corpus: &Corpus,
    target: &Target,
    ceiling: Option<f64>,
    drain: Duration,
) -> anyhow::Result<Round> {
    let used = || target.process.and_then(ResourceUsage::of);
    let before = used();
    let measured = super::run(&Plan { target: target.address, ..plan.clone() }, corpus)?;
    let drain = until_idle(drain, || used().map(|u| u.cpu_seconds));
    let after = used();
    let cpu = before.zip(after).map(|(b, a)| a.cpu_seconds - b.cpu_seconds);
    let invalid = health::invalid(
        &measured.health,
        &Run {
            rate: measured.messages_per_second,
            ceiling,
            tried: measured.answered + measured.failed,
            dropped: measured.dropped_by_client,
            latency_p99_us: measured.latency.p99_us,
            open_loop: plan.rate.is_some(),
        },
    );
    Ok(Round {
        server_cpu_us_per_message: cpu.map(|s| s * 1e6 / measured.answered_in_all.max(1) as f64),
        server_memory_bytes: after.map(|used| used.memory_bytes),
        drain_seconds: drain.as_secs_f64(),
        measured,
        invalid,
    })
}

/// Waits until CPU time stands still; how long it still moved.
fn until_idle(longest: Duration, cpu: impl Fn() -> Option<f64>) -> Duration {
    let start = Instant::now();
    let (mut last, mut moved) = (cpu(), Duration::ZERO);
    while start.elapsed() < longest && start.elapsed() - moved < IDLE_FOR {
        std::thread::sleep(IDLE_PROBE);
        let now = cpu();
        // A server that wakes up to look around is not at work.
        let worked = last.zip(now).is_some_and(|(last, now)| now - last > IDLE_CPU_SECONDS);
        if worked {
            (last, moved) = (now, start.elapsed());
        }
    }
    moved
}

fn subject(target: Target, rounds: Vec<Round>) -> anyhow::Result<Subject> {
    let rates: Vec<f64> = rounds.iter().map(|r| r.measured.messages_per_second).collect();
    let cpu: Vec<f64> = rounds.iter().filter_map(|r| r.server_cpu_us_per_message).collect();
    let none = Estimate { mean: 0.0, low: None, high: None };
    Ok(Subject {
        target,
        messages_per_second: Estimate::of(&rates).unwrap_or(none),
        server_cpu_us_per_message: Estimate::of(&cpu),
        latency: latency(&rounds)?,
        rounds,
    })
}

/// Latency over all rounds.
///
/// # Errors
/// Histograms that do not fit together, which those of one program do.
pub fn latency(rounds: &[Round]) -> anyhow::Result<Latency> {
    let mut latency: Histogram<u64> = latency_histogram()?;
    for round in rounds {
        latency.add(&round.measured.histogram)?;
    }
    Ok(Latency::of(&latency))
}

fn compare(a: &[Round], b: &[Round]) -> Comparison {
    let pairs = |of: fn(&Round) -> Option<f64>| {
        let values = a.iter().zip(b).filter_map(|(a, b)| Some((of(a)?, of(b)?)));
        Estimate::ratio(&values.collect::<Vec<_>>())
    };
    Comparison {
        rate_ratio: pairs(|r| Some(r.measured.messages_per_second)),
        cpu_ratio: pairs(|r| r.server_cpu_us_per_message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[3.0]), Some(Estimate { mean: 3.0, low: None, high: None }));
        // Mean 10, standard deviation 1, three values: 4.303 / sqrt(3) either side.
        let three = Estimate::of(&[9.0, 10.0, 11.0]).unwrap();
        assert!((three.mean - 10.0).abs() < 1e-12);
        assert!((three.high.unwrap() - 12.484).abs() < 1e-3, "{three:?}");
        let ratio = Estimate::ratio(&[(2.0, 1.0), (8.0, 1.0), (0.0, 1.0)]).unwrap();
        assert!((ratio.mean - 4.0).abs() < 1e-9, "geometric: {ratio:?}");
    }
}
