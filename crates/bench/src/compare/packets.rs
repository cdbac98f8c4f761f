//! Suricata beside our packet path: both replay the same capture file by the same rules and
//! settings, one thread each, in turn (A B A B), alerts as their only output.
//!
//! What counts is the CPU time that the system saw a whole process use, less that of the same
//! command over a capture of the first packet alone: loading rules, starting and ending, which is
//! told apart. Loading may vary by more than packets take, so it is measured in both runs (until
//! the capture is opened), and each run's own is subtracted. Ratios are by round. With rules, the
//! alerts of both are compared.

mod alerts;
mod capture;
mod page;
mod program;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;

pub use self::alerts::Agreement;
pub use self::capture::Facts;
use self::capture::Prepared;
pub use self::page::sheet;
pub use self::program::RuleCount;
use self::program::{Job, Program, Run};
use super::OTHER_BUILD;
use super::server::{folder, version};
use crate::load::trial::ROUNDS_MAX;
use crate::machine::Manifest;

/// How many times as much CPU time as the least one round may take before neither is believed.
const ROUNDS_APART_MAX: f64 = 1.5;
/// CPU seconds of packets below which what starting varies by decides.
const CPU_SECONDS_MIN: f64 = 0.2;

/// A program to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketPeer {
    /// Suricata, which reads the capture in one thread.
    Suricata,
}

/// What to measure, and how often.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of this program.
    pub program: PathBuf,
    /// Version of this program, for the report.
    pub version: String,
    /// Day of the report (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// Peers, in the order of the report.
    pub peers: Vec<PacketPeer>,
    /// Captures, each measured by itself.
    pub captures: Vec<PathBuf>,
    /// Files of rules; with none, all run without rules alone.
    pub rules: Vec<PathBuf>,
    /// Suricata's program; none is the system's.
    pub suricata: Option<PathBuf>,
    /// Suricata's settings, which we take, too; none are those of its package.
    pub suricata_yaml: Option<PathBuf>,
    /// Copies of a capture, with other client addresses, one after the other.
    pub copies: u32,
    /// Runs of each program that count.
    pub rounds: u32,
    /// Another build of this program, which is measured in turn.
    pub beside: Option<PathBuf>,
}

/// The figure in the middle, with the ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Least.
    pub least: f64,
    /// Most.
    pub most: f64,
}

impl Spread {
    /// Of figures; none of none.
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let lower = if values.len().is_multiple_of(2) { *values.get(middle - 1)? } else { upper };
        Some(Spread { median: f64::midpoint(lower, upper), least, most })
    }
}

/// What a program came to.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Name of the program.
    pub name: String,
    /// What it says that it is.
    pub version: String,
    /// Its command, with FILE, RULES, SETTINGS and FOLDER in place of paths.
    pub command: String,
    /// Rules that it uses and leaves out, as it says.
    pub rules: Option<RuleCount>,
    /// CPU seconds that packets took, user and system, without starting.
    pub cpu_seconds: Spread,
    /// Seconds that packets took, without starting.
    pub seconds: Spread,
    /// CPU seconds of starting and ending: a run over the first packet alone.
    pub start_cpu_seconds: Spread,
    /// Seconds of starting.
    pub start_seconds: Spread,
    /// Packets/s.
    pub packets_per_second: Option<Spread>,
    /// Packets for a second of CPU time.
    pub packets_per_cpu_second: Option<Spread>,
    /// Captured bits, in 10^9 a second.
    pub gigabits_per_second: Option<Spread>,
    /// Largest resident memory of all runs, in bytes.
    pub peak_bytes: u64,
    /// Alerts of a run.
    pub alerts: u64,
    /// How many times its CPU seconds the peer takes. None for the peer.
    pub peer_cpu_ratio: Option<Spread>,
    /// How many times its seconds the peer takes. None for the peer.
    pub peer_time_ratio: Option<Spread>,
    /// Its alerts beside the peer's. None for the peer, and without rules.
    pub agreement: Option<Agreement>,
    /// Why figures may not be the program's.
    pub invalid: Vec<String>,
    /// Every run that counts, in order.
    pub runs: Vec<Run>,
}

/// One job, done by us and by a peer.
#[derive(Debug, Clone, Serialize)]
pub struct Contest {
    /// Who is compared with.
    pub peer: PacketPeer,
    /// What the capture is.
    pub capture: Facts,
    /// Whether rules were used.
    pub with_rules: bool,
    /// Ours first, the peer last.
    pub entries: Vec<Entry>,
}

/// All contests of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Day (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// Runs of each program that count.
    pub rounds: u32,
    /// Names of the files of rules.
    pub rules: Vec<String>,
    /// By capture and job.
    pub contests: Vec<Contest>,
    /// Peers that were not measured, with the reason.
    pub missing: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

impl Report {
    /// All figures are the programs'.
    pub fn is_valid(&self) -> bool {
        self.contests.iter().flat_map(|c| &c.entries).all(|entry| entry.invalid.is_empty())
    }
}

/// Holds all contests. `progress` gets a line for each event.
///
/// # Errors
/// A capture or rules that cannot be read, or a run that fails. A peer that is not installed is
/// reported as missing.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    for capture in &options.captures {
        capture::open(capture)?;
    }
    let files = folder()?;
    let rules = rules_file(&options.rules, files.path())?;
    let (mut contests, mut missing) = (Vec::new(), Vec::new());
    for &peer in &options.peers {
        let programs = match programs(options, files.path()) {
            Ok(programs) => programs,
            Err(error) => {
                progress(&format!("{peer:?}: {error:#}"));
                missing.push(format!("{peer:?}: {error:#}"));
                continue;
            }
        };
        for path in &options.captures {
            let own = folder()?;
            let prepared = Prepared::write(path, options.copies, own.path())?;
            for rules in rules.iter().map(|file| Some(file.as_path())).chain([None]) {
                let job = Job { prepared: &prepared, rules, folder: own.path() };
                contests.push(hold(options, peer, &programs, &job, progress)?);
            }
        }
    }
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Report {
        date: options.date.clone(),
        rounds: options.rounds.min(ROUNDS_MAX),
        rules: options.rules.iter().map(name).collect(),
        contests,
        missing,
        manifest: Manifest::here(&options.version),
    })
}

/// One file of all rules, since Suricata takes no more; none without rules.
fn rules_file(rules: &[PathBuf], folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let mut all = Vec::new();
    for file in rules {
        let text = std::fs::read(file)
            .with_context(|| format!("cannot read the rules {}", file.display()))?;
        all.extend(text);
        all.push(b'\n');
    }
    match rules {
        [] => Ok(None),
        // Files that rules name are beside them.
        [one] => Ok(Some(std::path::absolute(one)?)),
        _ => {
            let path = folder.join("all.rules");
            std::fs::write(&path, all)
                .with_context(|| format!("cannot write {}", path.display()))?;
            Ok(Some(path))
        }
    }
}

/// Ours, another build of it, and the peer.
fn programs(options: &Options, folder: &Path) -> anyhow::Result<Vec<Program>> {
    let suricata = program::suricata(options.suricata.as_deref())?;
    let stock = program::settings(&suricata, options.suricata_yaml.as_deref())?;
    let settings = program::alerts_alone(&stock, folder)?;
    let ours = |path: &Path, name: &str, version: String| Program {
        path: path.to_owned(),
        name: name.to_owned(),
        version,
        settings: settings.clone(),
        is_ours: true,
    };
    let mut programs = vec![ours(&options.program, "gauntlet", options.version.clone())];
    if let Some(other) = &options.beside {
        if !other.is_file() {
            bail!("--beside: {} is no file", other.display());
        }
        programs.push(ours(other, OTHER_BUILD, version(other, "--version")));
    }
    let says = version(&suricata, "-V");
    let version = says.strip_prefix("This is ").unwrap_or(&says).to_owned();
    let name = "Suricata".to_owned();
    programs.push(Program { path: suricata, name, version, settings, is_ours: false });
    Ok(programs)
}

/// Lets the programs do the job in turn; the last is the peer.
fn hold(
    options: &Options,
    peer: PacketPeer,
    programs: &[Program],
    job: &Job<'_>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Contest> {
    let facts = &job.prepared.facts;
    let what = if job.rules.is_some() { "with rules" } else { "without rules" };
    progress(&format!("{peer:?}: {}, {} packets, {what}", facts.name, facts.packets));
    let mut rounds: Vec<Vec<Run>> = vec![Vec::new(); programs.len()];
    for round in 0..=options.rounds.clamp(1, ROUNDS_MAX) {
        for (program, rounds) in programs.iter().zip(&mut rounds) {
            // The first run of each is not counted: programs, rules and capture come from the disk.
            if round == 0 {
                program.warm_up(job)?;
                continue;
            }
            let run = program.measure(job)?;
            progress(&format!(
                "{}: {:.2} CPU s of packets, {:.2} of starting",
                program.name,
                run.cpu_seconds(),
                run.start.cpu_seconds
            ));
            rounds.push(run);
        }
    }
    let alerts: Vec<Vec<alerts::Alert>> = match job.rules {
        Some(_) => {
            programs.iter().map(|p| alerts::read(&p.records(job))).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    let theirs = rounds.last().cloned().unwrap_or_default();
    let mut entries = Vec::new();
    for (at, (program, runs)) in programs.iter().zip(rounds).enumerate() {
        let is_peer = at + 1 == programs.len();
        let mut entry = entry(program, job, runs, (!is_peer).then_some(theirs.as_slice()))?;
        if let (Some(ours), Some(theirs), false) = (alerts.get(at), alerts.last(), is_peer) {
            entry.agreement = Some(alerts::compare(ours, theirs));
        }
        entries.push(entry);
    }
    Ok(Contest { peer, capture: facts.clone(), with_rules: job.rules.is_some(), entries })
}

fn entry(
    program: &Program,
    job: &Job<'_>,
    runs: Vec<Run>,
    theirs: Option<&[Run]>,
) -> anyhow::Result<Entry> {
    let facts = &job.prepared.facts;
    let spread = |of: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(of));
    // What took no time at all has no rate.
    let rate = |of: &dyn Fn(&Run) -> f64| {
        let rates: Vec<f64> = runs.iter().map(of).filter(|rate| *rate > 0.0).collect();
        Spread::of(rates.into_iter().filter(|rate| rate.is_finite()))
    };
    let ratio = |of: &dyn Fn(&Run) -> f64| {
        let pairs = runs.iter().zip(theirs?).map(|(a, b)| (of(a), of(b)));
        Spread::of(pairs.filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| b / a))
    };
    let (packets, bits) = (facts.packets as f64, facts.bytes as f64 * 8.0);
    let none = "no run was counted";
    Ok(Entry {
        name: program.name.clone(),
        version: program.version.clone(),
        command: program.shown(job),
        rules: job.rules.and_then(|_| program.rule_count(job)),
        cpu_seconds: spread(&Run::cpu_seconds).context(none)?,
        seconds: spread(&Run::seconds).context(none)?,
        start_cpu_seconds: spread(&|run| run.start.cpu_seconds).context(none)?,
        start_seconds: spread(&|run| run.start.seconds).context(none)?,
        packets_per_second: rate(&|run| packets / run.seconds()),
        packets_per_cpu_second: rate(&|run| packets / run.cpu_seconds()),
        gigabits_per_second: rate(&|run| bits / 1e9 / run.seconds()),
        peak_bytes: runs.iter().map(|run| run.whole.peak_bytes).max().unwrap_or(0),
        alerts: runs.last().map_or(0, |run| run.alerts),
        peer_cpu_ratio: ratio(&Run::cpu_seconds),
        peer_time_ratio: ratio(&Run::seconds),
        agreement: None,
        invalid: invalid(&runs),
        runs,
    })
}

/// Why the figures of these runs are not the program's; empty if they are.
fn invalid(runs: &[Run]) -> Vec<String> {
    let mut why: Vec<String> = Vec::new();
    for reason in runs.iter().flat_map(|run| &run.disturbed) {
        if !why.contains(reason) {
            why.push(reason.clone());
        }
    }
    if let Some(Spread { median, least, most }) = Spread::of(runs.iter().map(Run::cpu_seconds)) {
        if median < CPU_SECONDS_MIN {
            why.push(format!(
                "its packets took {median:.3} CPU seconds, less than {CPU_SECONDS_MIN}: more --copies, or a \
                 larger capture"
            ));
        } else if most > least * ROUNDS_APART_MAX {
            why.push(format!(
                "its packets took {least:.2} to {most:.2} CPU seconds in different rounds: others use \
                 the machine, or more --copies are needed beside what starting varies by"
            ));
        }
    }
    let alerts: std::collections::BTreeSet<u64> = runs.iter().map(|run| run.alerts).collect();
    if let (Some(least), Some(most), 2..) = (alerts.first(), alerts.last(), alerts.len()) {
        why.push(format!("{least} to {most} alerts in different rounds"));
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::Usage;

    fn run(cpu_seconds: f64, alerts: u64, disturbed: &[&str]) -> Run {
        let usage =
            |cpu_seconds| Usage { cpu_seconds, seconds: cpu_seconds, loading: None, peak_bytes: 1 };
        Run {
            start: usage(1.0),
            whole: usage(1.0 + cpu_seconds),
            alerts,
            disturbed: disturbed.iter().map(|&why| why.to_owned()).collect(),
            cpu_pressure_share: None,
        }
    }

    #[test]
    fn medians_with_their_ends() {
        assert_eq!(Spread::of([]), None);
        let three = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(three, Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).map(|s| s.median), Some(2.5));
    }

    #[test]
    fn rounds_that_cannot_be_believed_are_named() {
        assert_eq!(invalid(&[run(1.0, 5, &[]), run(1.4, 5, &[])]), Vec::<String>::new());
        let apart = invalid(&[run(1.0, 5, &[]), run(1.6, 5, &[])]);
        assert!(apart.len() == 1 && apart[0].contains("1.00 to 1.60"), "{apart:?}");
        let short = invalid(&[run(0.01, 5, &[]), run(-0.01, 5, &[])]);
        assert!(short.len() == 1 && short[0].contains("more --copies"), "{short:?}");
        let stolen = invalid(&[run(1.0, 5, &["stolen"]), run(1.0, 6, &["stolen"])]);
        assert_eq!(stolen, ["stolen", "5 to 6 alerts in different rounds"]);
    }

    #[test]
    fn several_files_of_rules_become_one() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a.rules", "b.rules"].map(|name| folder.path().join(name));
        std::fs::write(&a, "one").unwrap();
        std::fs::write(&b, "two").unwrap();
        assert_eq!(rules_file(&[], folder.path()).unwrap(), None);
        assert_eq!(rules_file(std::slice::from_ref(&a), folder.path()).unwrap(), Some(a.clone()));
        let all = rules_file(&[a, b], folder.path()).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(all).unwrap(), "one\ntwo\n");
        let absent = rules_file(&[folder.path().join("c.rules")], folder.path()).unwrap_err();
        assert!(format!("{absent:#}").contains("c.rules"));
    }
}
