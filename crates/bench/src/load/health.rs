//! Was it the client? What the load generator used of the machine while it drove, and what the
//! machine kept from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::histogram::latency_histogram;
use crate::usage;

/// Share of its threads' time above which the generator itself was the limit.
pub const BUSY_MAX: f64 = 0.9;
/// Share of the ceiling against a null server above which the generator may have been the limit.
pub const CEILING_SHARE_MAX: f64 = 0.8;
/// Share of the machine's time that a hypervisor gave to others above which nothing is valid.
pub const STEAL_MAX: f64 = 0.1;
/// Share of the time in which something waited for memory above which nothing is valid.
pub const MEMORY_PRESSURE_MAX: f64 = 0.1;
/// Lag (99th percentile) that is always forgiven: the timer ticks in milliseconds.
const LAG_FORGIVEN: Duration = Duration::from_millis(5);
/// Share of the latency's 99th percentile that lag may be.
const LAG_SHARE_MAX: f64 = 0.25;
/// Share of messages that may fail for want of something on the client's side.
const DROPS_MAX: f64 = 0.001;
/// How often the lag is probed.
const PROBE_EVERY: Duration = Duration::from_millis(10);

/// What the client used and lacked.
#[derive(Debug, Clone, Serialize)]
pub struct Health {
    /// CPU seconds of the client's process.
    pub cpu_seconds: f64,
    /// The same as a share of what its threads could have used.
    pub busy_share: f64,
    /// 99th percentile of how late a timer of the client woke, in microseconds.
    pub lag_p99_us: f64,
    /// Latest of all, in microseconds.
    pub lag_max_us: f64,
    /// Share of the machine's CPU time that the hypervisor gave to others; none if unknown.
    pub steal_share: Option<f64>,
    /// Share of the time in which some process waited for memory; none if unknown.
    pub memory_pressure_share: Option<f64>,
    /// Share of the time in which some process waited for a CPU; none if unknown. On a machine that
    /// client and server share this is high in every saturated run.
    pub cpu_pressure_share: Option<f64>,
}

/// Reads the counters when a run begins.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    cpu: f64,
    stat: Option<(f64, f64)>,
    memory: Option<f64>,
    pressure: Option<f64>,
}

impl Watch {
    /// Begins to watch CPU time and timers of the client.
    pub fn start() -> Self {
        Watch {
            start: Instant::now(),
            cpu: usage::cpu_seconds(),
            stat: steal_and_all(),
            memory: stalled("memory"),
            pressure: stalled("cpu"),
        }
    }

    /// Ends, for a client of so many threads whose timers lagged like that (nanoseconds).
    pub fn stop(&self, threads: usize, lag: &Histogram<u64>) -> Health {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu_seconds = usage::cpu_seconds() - self.cpu;
        let share = |before: Option<f64>, now: Option<f64>| Some((now? - before?) / seconds);
        let steal_share = self.stat.zip(steal_and_all()).and_then(|(before, now)| {
            let all = now.1 - before.1;
            (all > 0.0).then(|| (now.0 - before.0) / all)
        });
        Health {
            cpu_seconds,
            busy_share: cpu_seconds / (seconds * threads as f64),
            lag_p99_us: lag.value_at_quantile(0.99) as f64 / 1e3,
            lag_max_us: lag.max() as f64 / 1e3,
            steal_share,
            memory_pressure_share: share(self.memory, stalled("memory")),
            cpu_pressure_share: share(self.pressure, stalled("cpu")),
        }
    }
}

/// Jiffies stolen by the hypervisor, and all (proc(5), `/proc/stat`).
fn steal_and_all() -> Option<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of user.
    let fields: Vec<f64> =
        line.split_ascii_whitespace().take(8).filter_map(|f| f.parse().ok()).collect();
    Some((*fields.get(7)?, fields.iter().sum()))
}

/// Seconds in which some process waited for the resource (Linux pressure stall information).
fn stalled(resource: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/pressure/{resource}")).ok()?;
    let total = text.lines().find(|l| l.starts_with("some "))?.rsplit_once("total=")?.1;
    Some(total.trim().parse::<f64>().ok()? / 1e6)
}

/// Sleeps again and again until `stop` and records how late each sleep ended, in nanoseconds.
pub(crate) async fn probe(stop: &AtomicBool, lag: &mut Histogram<u64>) {
    while !stop.load(Ordering::Relaxed) {
        let due = Instant::now() + PROBE_EVERY;
        tokio::time::sleep_until(due.into()).await;
        lag.saturating_record(u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

/// What is needed besides [`Health`] to judge a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Run {
    /// Messages/s of the run.
    pub rate: f64,
    /// Messages/s against a null server, if that was measured.
    pub ceiling: Option<f64>,
    /// Messages tried, whatever their outcome.
    pub tried: u64,
    /// Those that failed for want of ports, descriptors or memory on the client's side.
    pub dropped: u64,
    /// 99th percentile of the latency in microseconds.
    pub latency_p99_us: f64,
    /// Messages were sent by the clock.
    pub open_loop: bool,
}

/// Why the figures of a run are not the server's; empty if they are.
pub fn invalid(health: &Health, run: &Run) -> Vec<String> {
    let mut why = Vec::new();
    if health.busy_share > BUSY_MAX {
        why.push(format!(
            "the client's threads were busy {} of the time: give it more --threads or another machine",
            percent(health.busy_share)
        ));
    }
    if let Some(ceiling) = run.ceiling.filter(|c| run.rate > c * CEILING_SHARE_MAX) {
        why.push(format!(
            "the client was the limit: {:.0}/s are {} of the {ceiling:.0} that it does against a \
             server that does nothing",
            run.rate,
            percent(run.rate / ceiling)
        ));
    }
    let lag_max = (run.latency_p99_us * LAG_SHARE_MAX).max(LAG_FORGIVEN.as_micros() as f64);
    if run.open_loop && health.lag_p99_us > lag_max {
        why.push(format!(
            "the client's timers were late by {:.1} ms (99th percentile), beside a latency of {:.1} ms",
            health.lag_p99_us / 1e3,
            run.latency_p99_us / 1e3
        ));
    }
    why.extend(disturbed(health));
    if run.dropped as f64 > run.tried as f64 * DROPS_MAX {
        why.push(format!(
            "{} of {} messages failed for want of ports, descriptors or memory of the client",
            run.dropped, run.tried
        ));
    }
    why
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What the machine kept from everybody, so that no figure of that time is worth anything.
pub fn disturbed(health: &Health) -> Vec<String> {
    let mut why = Vec::new();
    if let Some(steal) = health.steal_share.filter(|s| *s > STEAL_MAX) {
        why.push(format!("the hypervisor gave {} of the CPU time to others", percent(steal)));
    }
    if let Some(share) = health.memory_pressure_share.filter(|s| *s > MEMORY_PRESSURE_MAX) {
        why.push(format!("processes waited for memory {} of the time", percent(share)));
    }
    why
}

/// A thread that records how late its sleeps end, for a client without a runtime.
#[derive(Debug)]
pub struct LagProbe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Histogram<u64>>,
}

impl LagProbe {
    /// Begins to watch CPU time and timers of the client.
    ///
    /// # Errors
    /// If there is no room for a histogram, or for a thread.
    pub fn start() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, mut lag) = (stop.clone(), latency_histogram()?);
        let watch = move || {
            while !seen.load(Ordering::Relaxed) {
                let due = Instant::now() + PROBE_EVERY;
                std::thread::sleep(PROBE_EVERY);
                let late = due.elapsed().as_nanos();
                lag.saturating_record(u64::try_from(late).unwrap_or(u64::MAX));
            }
            lag
        };
        let thread = std::thread::Builder::new().name("lag-probe".to_owned()).spawn(watch)?;
        Ok(LagProbe { stop, thread })
    }

    /// Ends; how late the sleeps were, in nanoseconds.
    ///
    /// # Errors
    /// If the thread panicked, which it cannot.
    pub fn stop(self) -> anyhow::Result<Histogram<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the probe of the client's timers failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Health {
        Health {
            cpu_seconds: 1.0,
            busy_share: 0.2,
            lag_p99_us: 900.0,
            lag_max_us: 2_000.0,
            steal_share: Some(0.0),
            memory_pressure_share: None,
            cpu_pressure_share: Some(0.9),
        }
    }

    #[test]
    fn the_client_as_the_limit_is_named() {
        let run = Run { rate: 100.0, ceiling: Some(1_000.0), tried: 1_000, ..Run::default() };
        assert_eq!(invalid(&well(), &run), Vec::<String>::new());
        let busy = invalid(&Health { busy_share: 0.97, ..well() }, &run);
        assert!(busy.len() == 1 && busy[0].contains("busy 97 %"), "{busy:?}");
        let near = invalid(&well(), &Run { rate: 900.0, ..run });
        assert!(near.len() == 1 && near[0].contains("90 % of the 1000"), "{near:?}");
        let stolen = Health { steal_share: Some(0.5), memory_pressure_share: Some(0.5), ..well() };
        assert_eq!(invalid(&stolen, &run).len(), 2);
        assert_eq!(invalid(&well(), &Run { dropped: 2, ..run }).len(), 1);
        let late = Health { lag_p99_us: 50_000.0, ..well() };
        assert_eq!(invalid(&late, &Run { open_loop: true, ..run }).len(), 1);
        let slow = Run { open_loop: true, latency_p99_us: 900_000.0, ..run };
        assert!(invalid(&late, &slow).is_empty(), "it does not matter beside that latency");
    }

    #[test]
    fn counters_are_read() {
        let lag = Histogram::new_with_bounds(1, 1_000, 1).unwrap();
        let health = Watch::start().stop(1, &lag);
        assert!(health.cpu_seconds >= 0.0);
        if cfg!(target_os = "linux") {
            assert!(steal_and_all().is_some());
        }
    }
}
