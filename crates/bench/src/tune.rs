//! The tuning study of 2006 to 2009, done by the machine: from the out-of-the-box state one setting
//! after the other is varied, what helps beyond noise is kept, and the ladder from before to after
//! is reported.
//!
//! Every candidate runs beside the best so far: two private nodes, the same messages, in turn (A B
//! B A, so that neither profits from its place), with the ratio by round. First the out-of-the-box
//! state runs beside itself: that ratio is the noise, and a candidate is kept only if the lower end
//! of its interval is above 1 and its mean is above what noise alone reached; and if both hold
//! again in a second measurement, because of many candidates some look good by chance. At the end
//! the first and the last state are measured beside each other once more.

pub mod page;
pub mod parallel;
mod setup;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::compare::peers::Node;
use crate::compare::server::Server;
use crate::load::trial::{self, Estimate, ROUNDS_MAX, Round, Target};
use crate::load::{ATTEMPTS_MAX, Addresses, Corpus, NothingTried, Plan, until_tried};
use crate::machine::Manifest;
use crate::null::NullServer;
use crate::protocol::Protocol;
use crate::topology::Topology;
pub use setup::{Allocator, Candidate, Setup};

/// Share by which tuning may still gain on the state out of the box.
pub const WITHIN: f64 = 0.05;
/// Messages after which a connection is closed: nodes refuse more than so many in one session.
const MESSAGES_PER_CONNECTION: u64 = 500;
/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Time of a run against a server that does nothing.
const CALIBRATION: Duration = Duration::from_secs(2);
/// Most folders that libraries are looked for in.
const FOLDERS_MAX: usize = 64;

/// What is measured, and how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `gauntlet` that is started for each setup.
    pub program: PathBuf,
    /// Folders of messages that the load is made of.
    pub folders: Vec<PathBuf>,
    /// Connections at once, in closed loop.
    pub connections: usize,
    /// Time of a run.
    pub time: Duration,
    /// Runs of each of two, in turn.
    pub rounds: u32,
    /// Hand messages on inside the session where that is safe; else spool all of them.
    pub cut_through: bool,
    /// Names of the settings that are varied; all if there are none.
    pub only: Vec<String>,
}

/// A candidate beside the best so far.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The setting that was varied.
    pub setting: &'static str,
    /// The value that it was set to.
    pub name: String,
    /// Its messages/s over those of the best so far.
    pub ratio: Estimate,
    /// CPU time a message of the best so far over its own.
    pub cpu_ratio: Option<Estimate>,
    /// Messages/s over those of the best so far, measured once more, of the candidate that helped
    /// most.
    pub again: Option<Estimate>,
    /// It helped twice, and is part of the tuned setup.
    pub kept: bool,
}

/// A rung of the ladder: a state that was better than the one before.
#[derive(Debug, Clone, Serialize)]
pub struct Rung {
    /// The setting that was changed, and to what.
    pub name: String,
    /// Messages/s of the node in this state.
    pub messages_per_second: Estimate,
    /// Over the rung before.
    pub gain: Option<Estimate>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// CPUs, cores and sockets of the machine, in words.
    pub topology: String,
    /// The out-of-the-box state beside itself; none if it could not be measured, and then nothing
    /// is kept.
    pub noise: Option<Estimate>,
    /// All candidates, in the order in which they were tried.
    pub steps: Vec<Step>,
    /// From out of the box to the best.
    pub ladder: Vec<Rung>,
    /// The best state that was found.
    pub tuned: Setup,
    /// Messages/s of the tuned state over those out of the box, measured beside each other at the
    /// end; none if it could not be measured.
    pub tuned_over_first: Option<Estimate>,
    /// That is at most [`WITHIN`] above 1; false if it is not known.
    pub out_of_the_box_will_do: bool,
    /// What could not be tried, and why.
    pub missing: Vec<String>,
    /// Steps in which no message was tried, however often they were repeated with longer time.
    pub unmeasured: Vec<String>,
    /// Messages/s of this client against a server that does nothing.
    pub ceiling: f64,
    /// Why figures are not the node's.
    pub invalid: Vec<String>,
    /// The messages that were sent.
    pub workload: trial::Workload,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// What all measurements share.
struct Workbench<'a> {
    options: &'a Options,
    version: &'a str,
    corpus: Corpus,
    next_hop: SocketAddr,
    ceiling: f64,
    invalid: Vec<String>,
    /// Steps of which nothing is known, and why.
    unmeasured: Vec<String>,
}

/// One state beside another.
struct Beside {
    rates: (Vec<f64>, Vec<f64>),
    ratio: Estimate,
    cpu_ratio: Option<Estimate>,
}

/// Tunes. `progress` hears what is done.
///
/// # Errors
/// No messages, or a node that does not start out of the box. A step in which no message is tried
/// is no error.
pub fn run(
    options: &Options,
    version: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    if options.connections == 0 || options.time.is_zero() {
        bail!("there is nothing to measure over no connection or in no time");
    }
    let topology = Topology::here()?;
    let sink = NullServer::start(Protocol::Smtp)?;
    let mut bench = Workbench::new(options, version, sink.address)?;
    progress(&topology.describe());
    let first = Setup::default();
    let noise = bench.measure("noise", &first, &first)?;
    let mut ladder = Vec::new();
    if let Some(noise) = &noise {
        let ratio = noise.ratio.mean;
        progress(&format!("noise: the same beside itself is {ratio:.3} times as fast"));
        ladder.push(Rung {
            name: "out of the box".to_owned(),
            messages_per_second: Estimate::of(&noise.rates.0).context("no run was counted")?,
            gain: None,
        });
    }
    let noise = noise.map(|noise| noise.ratio);
    let (mut best, mut steps, mut missing) = (first.clone(), Vec::new(), Vec::new());
    for dimension in setup::dimensions(&topology, &library_folders()) {
        let wanted = options.only.is_empty() || options.only.iter().any(|o| o == dimension.setting);
        if !wanted {
            continue;
        }
        missing.extend(dimension.missing);
        let tried = climb(&mut bench, &best, dimension.candidates, noise.as_ref(), &mut missing)?;
        for (step, _) in &tried {
            progress(&step_line(step));
        }
        let (tried, better) = confirmed(&mut bench, &best, tried, noise.as_ref())?;
        if let Some((setup, rung)) = better {
            progress(&format!("{}: confirmed", rung.name));
            best = setup;
            ladder.push(rung);
        }
        steps.extend(tried);
    }
    let last = bench.measure("tuned over out of the box", &best, &first)?.map(|last| last.ratio);
    bench.invalid.sort();
    bench.invalid.dedup();
    Ok(Report {
        topology: topology.describe(),
        noise,
        steps,
        ladder,
        tuned: best,
        out_of_the_box_will_do: last.is_some_and(|ratio| ratio.mean <= 1.0 + WITHIN),
        tuned_over_first: last,
        missing,
        ceiling: bench.ceiling,
        workload: bench.workload(),
        unmeasured: bench.unmeasured,
        invalid: bench.invalid,
        manifest: Manifest::here(version),
    })
}

fn step_line(step: &Step) -> String {
    format!(
        "{}: {}: {:.3} times as fast{}",
        step.setting,
        step.name,
        step.ratio.mean,
        if step.kept { ", helps: once more" } else { "" }
    )
}

/// A candidate with what it changes to.
type Tried = (Step, Setup);

/// The steps of a setting, and the state and rung above if one of them helped twice.
type Confirmed = (Vec<Step>, Option<(Setup, Rung)>);

/// Of several that help the best stays, if it helps again.
fn confirmed(
    bench: &mut Workbench<'_>,
    best: &Setup,
    tried: Vec<Tried>,
    noise: Option<&Estimate>,
) -> anyhow::Result<Confirmed> {
    let helped = tried.iter().enumerate().filter(|(_, (step, _))| step.kept);
    let most = helped.max_by(|a, b| a.1.0.ratio.mean.total_cmp(&b.1.0.ratio.mean));
    let (at, again) = match most {
        Some((at, (step, setup))) => {
            let what = format!("{}: {}, once more", step.setting, step.name);
            (at, bench.measure(&what, setup, best)?)
        }
        None => (0, None),
    };
    let (mut steps, mut better) = (Vec::new(), None);
    for (number, (mut step, setup)) in tried.into_iter().enumerate() {
        step.kept = false;
        if let Some(again) = again.as_ref().filter(|_| number == at) {
            step.again = Some(again.ratio);
            step.kept = helps(&again.ratio, noise);
        }
        if let Some(again) = again.as_ref().filter(|_| step.kept) {
            let rung = Rung {
                name: format!("{}: {}", step.setting, step.name),
                messages_per_second: Estimate::of(&again.rates.0).context("no run was counted")?,
                gain: Some(again.ratio),
            };
            better = Some((setup, rung));
        }
        steps.push(step);
    }
    Ok((steps, better))
}

/// Every candidate of a setting beside the best so far. One that does not start is missing; one
/// whose runs try no message is unmeasured.
fn climb(
    bench: &mut Workbench<'_>,
    best: &Setup,
    candidates: Vec<Candidate>,
    noise: Option<&Estimate>,
    missing: &mut Vec<String>,
) -> anyhow::Result<Vec<Tried>> {
    let mut tried = Vec::new();
    for candidate in candidates {
        let setup = candidate.applied_to(best);
        if setup == *best {
            continue;
        }
        let Candidate { setting, name, .. } = candidate;
        let beside = match bench.measure(&format!("{setting}: {name}"), &setup, best) {
            Ok(Some(beside)) => beside,
            Ok(None) => continue,
            Err(error) => {
                missing.push(format!("{setting}: {name}: {error:#}"));
                continue;
            }
        };
        let Beside { ratio, cpu_ratio, .. } = beside;
        let (again, kept) = (None, helps(&ratio, noise));
        tried.push((Step { setting, name, ratio, cpu_ratio, again, kept }, setup));
    }
    Ok(tried)
}

/// Whether a ratio is more than noise. One run has no interval and proves nothing, nor does a ratio
/// of which nobody knows how much of it is noise.
fn helps(ratio: &Estimate, noise: Option<&Estimate>) -> bool {
    let above = ratio.low.is_some_and(|low| low > 1.0);
    above && noise.is_some_and(|noise| ratio.mean > noise.mean.max(1.0 / noise.mean))
}

impl<'a> Workbench<'a> {
    fn new(options: &'a Options, version: &'a str, sink: SocketAddr) -> anyhow::Result<Self> {
        let corpus = Corpus::load(&options.folders)?;
        let (invalid, unmeasured) = (Vec::new(), Vec::new());
        let mut bench = Workbench {
            options,
            version,
            corpus,
            next_hop: sink,
            ceiling: 0.0,
            invalid,
            unmeasured,
        };
        let plan = bench.plan(sink);
        bench.ceiling =
            until_tried(CALIBRATION, |time| trial::ceiling(&plan, sink, time, &bench.corpus))?;
        Ok(bench)
    }

    fn workload(&self) -> trial::Workload {
        trial::Workload {
            messages: self.corpus.items.len(),
            bytes: self.corpus.bytes,
            hash: self.corpus.hash.clone(),
        }
    }

    fn plan(&self, target: SocketAddr) -> Plan {
        Plan {
            target,
            protocol: Protocol::Smtp,
            connections: self.options.connections,
            per_connection: MESSAGES_PER_CONNECTION,
            rate: None,
            time: self.options.time,
            messages: 0,
            warm_up: Duration::from_millis(500),
            timeout: ANSWER_MAX,
            threads: 1,
            addresses: Addresses {
                from: "sender@bench.example".to_owned(),
                to: "user{}@bench.example".to_owned(),
                users: 1_000,
            },
        }
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Server> {
        let path = if self.options.cut_through { "true" } else { "false" };
        let settings = format!(
            "[route]\nnext_hop = \"{}\"\ncut_through = {path}\n[rates]\n\
             client_connections_per_minute = 0\nnetwork_connections_per_minute = 0\n\
             client_messages_per_hour = 0\nnetwork_messages_per_hour = 0\n{}",
            self.next_hop,
            setup.toml()
        );
        let around = setup.around();
        let node = Node {
            program: &self.options.program,
            version: self.version,
            name: "gauntlet",
            protocol: Protocol::Smtp,
            settings: &settings,
            notes: &[],
            around: &around,
        };
        node.start()
    }

    /// [`Workbench::measure_pair`]; none, which is noted under the name of the step, if no message
    /// was tried in a run.
    fn measure(&mut self, step: &str, new: &Setup, old: &Setup) -> anyhow::Result<Option<Beside>> {
        match self.measure_pair(new, old, self.options.rounds) {
            Err(error) if error.is::<NothingTried>() => {
                self.unmeasured.push(format!("{step}: {error}, after {ATTEMPTS_MAX} attempts"));
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Both in turn, now the one first, now the other.
    fn measure_pair(&mut self, new: &Setup, old: &Setup, rounds: u32) -> anyhow::Result<Beside> {
        let (new, old) = (self.start(new)?, self.start(old)?);
        let (mut news, mut olds) = (Vec::new(), Vec::new());
        for turn in 0..=rounds.clamp(1, ROUNDS_MAX) {
            let mut both = [(&old, &mut olds), (&new, &mut news)];
            if turn % 2 == 0 {
                both.reverse();
            }
            for (server, rounds) in both {
                let round = self.round(server)?;
                // The first of each fills caches and compiles expressions.
                if turn > 0 {
                    self.invalid.extend(round.invalid.clone());
                    rounds.push(round);
                }
            }
        }
        let rates = |rounds: &[Round]| rounds.iter().map(passed_on).collect::<Vec<_>>();
        let pairs = |of: fn(&Round) -> Option<f64>| {
            let both = news.iter().zip(&olds).filter_map(|(n, o)| Some((of(n)?, of(o)?)));
            both.collect::<Vec<_>>()
        };
        let ratio = Estimate::ratio(&pairs(|r| Some(passed_on(r))));
        let cpu = pairs(|r| r.server_cpu_us_per_message);
        let cpu: Vec<_> = cpu.into_iter().map(|(new, old)| (old, new)).collect();
        Ok(Beside {
            rates: (rates(&news), rates(&olds)),
            ratio: ratio.context("no message was taken")?,
            cpu_ratio: Estimate::ratio(&cpu),
        })
    }

    fn round(&self, server: &Server) -> anyhow::Result<Round> {
        let target = Target {
            name: server.name.clone(),
            address: server.address,
            process: Some(server.process),
        };
        until_tried(self.options.time, |time| {
            let plan = Plan { time, ..self.plan(server.address) };
            trial::round(&plan, &self.corpus, &target, Some(self.ceiling), ANSWER_MAX)
        })
    }
}

/// Messages/s until the node had passed on the last: one that only takes them faster is no faster.
fn passed_on(round: &Round) -> f64 {
    let m = &round.measured;
    m.messages_per_second * m.seconds / (m.seconds + round.drain_seconds)
}

/// Folders in which the system keeps libraries.
fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib"].map(PathBuf::from).into();
    for entry in std::fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        // Debian's: /usr/lib/x86_64-linux-gnu.
        if entry.file_name().to_string_lossy().contains("-linux-") {
            folders.push(entry.path());
        }
    }
    folders.truncate(FOLDERS_MAX);
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_noise_is_kept() {
        let estimate = |mean, low, high| Estimate { mean, low: Some(low), high: Some(high) };
        let noise = estimate(0.98, 0.95, 1.01);
        assert!(helps(&estimate(1.2, 1.1, 1.3), Some(&noise)));
        assert!(!helps(&estimate(1.2, 0.9, 1.5), Some(&noise)), "the interval holds 1");
        assert!(!helps(&estimate(1.01, 1.005, 1.015), Some(&noise)), "noise did as much");
        assert!(!helps(&estimate(0.8, 0.7, 0.9), Some(&noise)), "slower");
        let one = Estimate { mean: 1.5, low: None, high: None };
        assert!(!helps(&one, Some(&noise)), "one run proves nothing");
        assert!(!helps(&estimate(9.0, 8.0, 10.0), None), "how much is noise is not known");
    }

    #[test]
    fn a_run_in_which_nothing_was_tried_is_repeated_with_longer_time() {
        let nothing = |time: Duration| NothingTried { seconds: time.as_secs_f64() };
        let mut times = Vec::new();
        let third = until_tried(Duration::from_secs(1), |time| {
            times.push(time.as_secs());
            if times.len() < 3 { Err(nothing(time).into()) } else { Ok(times.len()) }
        });
        assert_eq!((third.unwrap(), times), (3, vec![1, 4, 16]));
        let mut attempts = 0;
        let none: anyhow::Result<()> = until_tried(Duration::from_secs(1), |time| {
            attempts += 1;
            Err(nothing(time).into())
        });
        assert!(none.unwrap_err().is::<NothingTried>() && attempts == 3, "{attempts}");
        let mut attempts = 0;
        let other: anyhow::Result<()> = until_tried(Duration::from_secs(1), |_| {
            attempts += 1;
            bail!("the server is gone")
        });
        assert!(other.is_err() && attempts == 1, "{attempts}");
    }
}
