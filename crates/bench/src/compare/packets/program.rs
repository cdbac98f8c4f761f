//! The programs that replay a capture, each a process of its own, and what one run took.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use super::capture::Prepared;
use crate::compare::peers::Around;
use crate::compare::server::{self, write};
use crate::histogram::latency_histogram;
use crate::load::health::{self, Watch};
use crate::usage;

/// Bytes of what a program printed that are quoted when it fails.
const QUOTED_BYTES: usize = 600;
/// Where Suricata's package has its settings.
const STOCK_SETTINGS: &str = "/etc/suricata/suricata.yaml";
/// How often it is looked whether a process has opened its capture.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// What records of alerts contain, and no other.
const ALERT: &str = "\"event_type\":\"alert\"";

/// Suricata's program.
///
/// # Errors
/// If there is none.
pub(super) fn suricata(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => bail!("{} is no file", path.display()),
        None => server::program("suricata", "-t bookworm-backports suricata"),
    }
}

/// The settings that come with it: those that are named, beside the program, or its package's.
///
/// # Errors
/// If there are none.
pub(super) fn settings(program: &Path, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        anyhow::ensure!(path.is_file(), "{} is no file", path.display());
        return Ok(std::path::absolute(path)?);
    }
    let beside = program.with_file_name("suricata.yaml");
    let found = [beside, PathBuf::from(STOCK_SETTINGS)].into_iter().find(|file| file.is_file());
    found.context("there is no suricata.yaml: name one with --suricata-yaml")
}

/// Writes settings that differ in their outputs alone: alerts as EVE, and nothing else; no socket
/// for commands either.
pub(super) fn alerts_alone(stock: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let text = format!(
        "%YAML 1.1\n---\ninclude: {}\noutputs:\n  - eve-log:\n      enabled: yes\n      \
         filetype: regular\n      filename: eve.json\n      types:\n        - alert:\n            \
         tagged-packets: no\nstats:\n  enabled: no\nunix-command:\n  enabled: no\n",
        stock.display()
    );
    write(folder, "settings.yaml", &text)
}

/// What is to be done, and where.
pub(super) struct Job<'a> {
    pub(super) prepared: &'a Prepared,
    /// None: without detection.
    pub(super) rules: Option<&'a Path>,
    /// Where output goes.
    pub(super) folder: &'a Path,
}

/// A program that replays captures.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) version: String,
    /// Settings, the same for all.
    pub(super) settings: PathBuf,
    /// A build of ours; else Suricata.
    pub(super) is_ours: bool,
}

/// What a process took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    /// CPU seconds of all its threads, user and system.
    pub cpu_seconds: f64,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Of these, until it opened the capture; none if that was not seen.
    pub loading: Option<Loading>,
    /// Largest resident memory, in bytes.
    pub peak_bytes: u64,
}

/// What a process took until it opened the capture.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Loading {
    /// CPU seconds of all its threads.
    pub cpu_seconds: f64,
    /// Seconds since its start.
    pub seconds: f64,
}

/// One run of a program, and one over the first packet alone right before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Over the first packet alone.
    pub start: Usage,
    /// Over all packets.
    pub whole: Usage,
    /// Alerts that it wrote.
    pub alerts: u64,
    /// What the machine kept from everybody meanwhile.
    pub disturbed: Vec<String>,
    /// Share of the time in which some process waited for a CPU; none if unknown.
    pub cpu_pressure_share: Option<f64>,
}

impl Run {
    /// CPU seconds that packets took. Loading varies by more than that, so each run's own is taken
    /// from it; what is left of the first packet's run is the end of a process.
    pub fn cpu_seconds(&self) -> f64 {
        let all = self.whole.cpu_seconds - self.start.cpu_seconds;
        all - self.later(|loading| loading.cpu_seconds)
    }

    /// Seconds that packets took.
    pub fn seconds(&self) -> f64 {
        self.whole.seconds - self.start.seconds - self.later(|loading| loading.seconds)
    }

    /// How much more loading took in the whole run.
    fn later(&self, of: fn(Loading) -> f64) -> f64 {
        // A first packet that was done with between two looks took no time to speak of.
        let Usage { cpu_seconds, seconds, .. } = self.start;
        let start = self.start.loading.unwrap_or(Loading { cpu_seconds, seconds });
        self.whole.loading.map_or(0.0, |whole| of(whole) - of(start))
    }
}

/// Rules as a program counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// Those in use.
    pub loaded: u64,
    /// Those that it cannot use.
    pub left_out: u64,
}

impl RuleCount {
    /// Of what we (`20180 rules, 47 left out`) or Suricata (`20180 rules successfully loaded, 47
    /// rules failed`) print.
    fn of(printed: &str) -> Option<Self> {
        let count = |line: &str| {
            let (before, after) = line.split_once(" rules")?;
            let after = after.strip_prefix(" successfully loaded").unwrap_or(after);
            let left_out = after.strip_prefix(", ")?.split(' ').next()?.parse().ok()?;
            Some(RuleCount { loaded: before.rsplit(' ').next()?.parse().ok()?, left_out })
        };
        printed.lines().find_map(|line| line.split(". ").find_map(count))
    }
}

impl Program {
    /// Where this program's output goes.
    fn folder(&self, job: &Job<'_>) -> PathBuf {
        job.folder.join(&self.name)
    }

    /// Where its records are.
    pub(super) fn records(&self, job: &Job<'_>) -> PathBuf {
        self.folder(job).join("eve.json")
    }

    fn printed(&self, job: &Job<'_>) -> PathBuf {
        self.folder(job).join("output.log")
    }

    /// Arguments for a capture.
    fn arguments(&self, capture: &Path, rules: Option<&Path>, folder: &Path) -> Vec<PathBuf> {
        let settings = self.settings.as_path();
        let path = Path::new;
        let mut all = if self.is_ours {
            vec![path("ips"), path("replay"), capture, path("--suricata-yaml"), settings]
        } else {
            vec![path("-v"), path("-c"), settings, path("-r"), capture]
        };
        match (rules, self.is_ours) {
            (Some(rules), true) => all.extend([path("--rules"), rules]),
            (Some(rules), false) => all.extend([path("-S"), rules]),
            (None, true) => {}
            (None, false) => all.push(path("--disable-detection")),
        }
        if self.is_ours {
            all.extend(["--checksums", "none", "--threads", "1", "--eve", "-"].map(path));
        } else {
            all.extend(["-k", "none", "--runmode=single", "--no-random", "-l"].map(path));
            all.push(folder);
        }
        all.into_iter().map(Path::to_owned).collect()
    }

    /// Its command, with words in place of paths.
    pub(super) fn shown(&self, job: &Job<'_>) -> String {
        let rules = job.rules.map(|_| Path::new("RULES"));
        let shown = Program { settings: "SETTINGS".into(), path: PathBuf::new(), ..self.clone() };
        let words = shown.arguments(Path::new("FILE"), rules, Path::new("FOLDER"));
        let words = words.iter().map(|word| word.display().to_string());
        let name = if self.is_ours { "gauntlet" } else { "suricata" };
        [name.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs over all packets once.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn warm_up(&self, job: &Job<'_>) -> anyhow::Result<()> {
        self.run(job, &job.prepared.all).map(drop)
    }

    /// Runs over the first packet, and over all.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn measure(&self, job: &Job<'_>) -> anyhow::Result<Run> {
        let (lag, watch) = (latency_histogram()?, Watch::start());
        let start = self.run(job, &job.prepared.first)?;
        let whole = self.run(job, &job.prepared.all)?;
        let health = watch.stop(1, &lag);
        Ok(Run {
            start,
            whole,
            alerts: self.alerts(job)?,
            disturbed: health::disturbed(&health),
            cpu_pressure_share: health.cpu_pressure_share,
        })
    }

    fn run(&self, job: &Job<'_>, capture: &Path) -> anyhow::Result<Usage> {
        let folder = self.folder(job);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let create = |path: PathBuf| {
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))
        };
        let (records, printed) = (create(self.records(job))?, create(self.printed(job))?);
        let mut command = Command::new(&self.path);
        command.args(self.arguments(capture, job.rules, &folder)).stdin(Stdio::null());
        // Suricata opens its file of records itself, and appends.
        let out = if self.is_ours { records } else { printed.try_clone()? };
        command.stdout(out).stderr(printed);
        Around::default().apply(&mut command);
        let clock = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", self.name))?;
        let loading = until_open(&child, capture).map(|cpu_seconds| {
            let seconds = clock.elapsed().as_secs_f64();
            Loading { cpu_seconds, seconds }
        });
        let ended = usage::wait(child)?;
        let seconds = clock.elapsed().as_secs_f64();
        if !ended.status.success() {
            let text = std::fs::read(self.printed(job)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let tail = text.char_indices().rev().nth(QUOTED_BYTES).map_or(0, |(at, _)| at);
            let tail = text.get(tail..).unwrap_or_default().trim();
            bail!("{} ({}): {}: {tail}", self.name, self.shown(job), ended.status);
        }
        let (cpu_seconds, peak_bytes) = (ended.cpu_seconds, ended.peak_rss_bytes);
        Ok(Usage { cpu_seconds, seconds, loading, peak_bytes })
    }

    fn alerts(&self, job: &Job<'_>) -> anyhow::Result<u64> {
        let file = self.records(job);
        let unreadable = || format!("cannot read {}", file.display());
        let mut count = 0;
        for line in BufReader::new(File::open(&file).with_context(unreadable)?).lines() {
            count += u64::from(line.with_context(unreadable)?.contains(ALERT));
        }
        Ok(count)
    }

    /// Rules as it counted them in its last run.
    pub(super) fn rule_count(&self, job: &Job<'_>) -> Option<RuleCount> {
        RuleCount::of(&std::fs::read_to_string(self.printed(job)).ok()?)
    }
}

/// Waits until a process has opened a file; the CPU seconds that it had used then, or none if it
/// ended before that was seen, or the system does not tell.
fn until_open(child: &Child, file: &Path) -> Option<f64> {
    let file = std::fs::canonicalize(file).ok()?;
    let folder = format!("/proc/{}/fd", child.id());
    loop {
        let mut is_alive = false;
        for opened in std::fs::read_dir(&folder).ok()?.flatten() {
            is_alive = true;
            if std::fs::read_link(opened.path()).is_ok_and(|path| path == file) {
                return usage::cpu_seconds_of(child);
            }
        }
        if !is_alive {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loading_is_what_a_run_took_itself() {
        let usage = |cpu_seconds, loading: Option<f64>| Usage {
            cpu_seconds,
            seconds: cpu_seconds * 2.0,
            loading: loading.map(|cpu| Loading { cpu_seconds: cpu, seconds: cpu * 2.0 }),
            peak_bytes: 1,
        };
        let packets = |start, whole| {
            let (disturbed, cpu_pressure_share) = (Vec::new(), None);
            let run = Run { start, whole, alerts: 0, disturbed, cpu_pressure_share };
            (run.cpu_seconds(), run.seconds())
        };
        // 20 and 25 s of loading, 1 s of ending.
        assert_eq!(packets(usage(21.0, Some(20.0)), usage(29.0, Some(25.0))), (3.0, 6.0));
        // It was not seen that the first packet's run opened its file.
        assert_eq!(packets(usage(20.0, None), usage(29.0, Some(25.0))), (4.0, 8.0));
        assert_eq!(packets(usage(21.0, Some(20.0)), usage(29.0, None)), (8.0, 16.0));
    }

    #[test]
    fn a_process_that_opens_a_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "").unwrap();
        let mut sleeper = Command::new("sleep");
        let mut child = sleeper.arg("60").stdin(File::open(&file).unwrap()).spawn().unwrap();
        assert!(until_open(&child, &file).is_some() || !cfg!(target_os = "linux"));
        child.kill().unwrap();
        child.wait().unwrap();
        let child = Command::new("true").spawn().unwrap();
        assert_eq!(until_open(&child, &file), None);
        usage::wait(child).unwrap();
    }

    #[test]
    fn rules_are_counted_as_programs_print_them() {
        let count = |loaded, left_out| Some(RuleCount { loaded, left_out });
        let ours =
            "3 rules, 1 left out (`gauntlet ips rules check` says why)\n4 frames, 3 alerts\n";
        assert_eq!(RuleCount::of(ours), count(3, 1));
        let theirs = "Notice: suricata: This is Suricata version 7.0.10 RELEASE\n\
            Info: detect: 1 rule files processed. 20180 rules successfully loaded, 47 rules failed\n";
        assert_eq!(RuleCount::of(theirs), count(20_180, 47));
        assert_eq!(RuleCount::of("no rules here"), None);
    }

    #[test]
    fn settings_are_beside_the_program_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("suricata");
        let beside = folder.path().join("suricata.yaml");
        std::fs::write(&beside, "").unwrap();
        assert_eq!(settings(&program, None).unwrap(), beside);
        assert!(settings(&program, Some(Path::new("/nowhere.yaml"))).is_err());
        assert!(suricata(Some(&program)).is_err());
        let own = alerts_alone(&beside, folder.path()).unwrap();
        let text = std::fs::read_to_string(own).unwrap();
        assert!(text.contains(&format!("include: {}\n", beside.display())), "{text}");
    }
}
