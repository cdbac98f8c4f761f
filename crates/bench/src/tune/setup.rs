//! A state of a node, and the states beside it that are tried.

use std::path::PathBuf;

use serde::Serialize;

use crate::compare::peers::Around;
use crate::topology::{CpuSet, TooFew, Topology};

/// What differs from the state out of the box.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Setup {
    /// `scan.threads` of the node; `None` is its default.
    pub scan_threads: Option<usize>,
    /// Threads for sockets (`TOKIO_WORKER_THREADS`).
    pub io_threads: Option<usize>,
    /// CPUs that the node may use.
    pub place: Option<CpuSet>,
    /// Another allocator than the program's own.
    pub allocator: Option<Allocator>,
    /// Expressions are interpreted, not compiled to machine code.
    pub interpreted: bool,
    /// Messages a sync (`spool.batch_messages_max`).
    pub batch_messages_max: Option<usize>,
    /// Milliseconds that a batch waits for more (`spool.batch_wait_ms`).
    pub batch_wait_ms: Option<u64>,
}

impl Setup {
    /// Its part of the configuration.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        if let Some(threads) = self.scan_threads {
            text.push_str(&format!("[scan]\nthreads = {threads}\n"));
        }
        if self.batch_messages_max.is_some() || self.batch_wait_ms.is_some() {
            text.push_str("[spool]\n");
        }
        if let Some(batch) = self.batch_messages_max {
            text.push_str(&format!("batch_messages_max = {batch}\n"));
        }
        if let Some(wait) = self.batch_wait_ms {
            text.push_str(&format!("batch_wait_ms = {wait}\n"));
        }
        text
    }

    /// What a configuration file cannot say, as lines of a systemd unit.
    pub fn unit(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(threads) = self.io_threads {
            lines.push(format!("Environment=TOKIO_WORKER_THREADS={threads}"));
        }
        for (name, value) in self.allocator.iter().flat_map(Allocator::environment) {
            lines.push(format!("Environment={name}={value}"));
        }
        if let Some(place) = &self.place {
            let cpus: Vec<String> = place.cpus.iter().map(ToString::to_string).collect();
            lines.push(format!("CPUAffinity={}", cpus.join(" ")));
        }
        if self.interpreted {
            lines.push("MemoryDenyWriteExecute=yes".to_owned());
        }
        lines
    }

    /// What is put around the process.
    pub(super) fn around(&self) -> Around {
        let mut environment = Vec::new();
        if let Some(threads) = self.io_threads {
            environment.push(("TOKIO_WORKER_THREADS", threads.to_string()));
        }
        environment.extend(self.allocator.iter().flat_map(Allocator::environment));
        Around {
            environment,
            cpus: self.place.as_ref().map(|p| p.cpus.clone()).unwrap_or_default(),
            no_machine_code: self.interpreted,
        }
    }
}

/// Where a node gets its memory, if not from its own allocator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// That of the C library.
    System,
    /// A library that is loaded before it (`LD_PRELOAD`).
    Preloaded(PathBuf),
}

impl Allocator {
    /// Variables that choose it.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("GAUNTLET_ALLOCATOR", "system".to_owned())];
        if let Allocator::Preloaded(library) = self {
            variables.push(("LD_PRELOAD", library.display().to_string()));
        }
        variables
    }
}

/// A change to a state.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Dotted name of the setting.
    pub setting: &'static str,
    /// The value that is tried, as the report shows it.
    pub name: String,
    change: Change,
}

#[derive(Debug, Clone)]
enum Change {
    ScanThreads(usize),
    IoThreads(usize),
    CpuSet(CpuSet),
    Allocator(Allocator),
    Interpreted,
    Batch(usize),
    BatchWait(u64),
}

impl Candidate {
    /// The state with the change.
    pub(super) fn applied_to(&self, setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        match &self.change {
            Change::ScanThreads(n) => setup.scan_threads = Some(*n),
            Change::IoThreads(n) => setup.io_threads = Some(*n),
            Change::CpuSet(place) => setup.place = Some(place.clone()),
            Change::Allocator(allocator) => setup.allocator = Some(allocator.clone()),
            Change::Interpreted => setup.interpreted = true,
            Change::Batch(n) => setup.batch_messages_max = Some(*n),
            Change::BatchWait(ms) => setup.batch_wait_ms = Some(*ms),
        }
        setup
    }
}

/// A setting, what it may become, and what this machine lacks to try more.
pub(super) struct Dimension {
    pub(super) setting: &'static str,
    pub(super) candidates: Vec<Candidate>,
    pub(super) missing: Vec<String>,
}

impl Dimension {
    fn new(setting: &'static str) -> Self {
        Dimension { setting, candidates: Vec::new(), missing: Vec::new() }
    }

    fn add(&mut self, name: String, change: Change) {
        self.candidates.push(Candidate { setting: self.setting, name, change });
    }
}

/// Allocators that are known to be preloaded in place of the system's.
const ALLOCATORS: [&str; 3] =
    ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtbbmalloc_proxy.so.2"];

/// All settings, in the order in which the study turned to them.
pub(super) fn dimensions(topology: &Topology, libraries: &[PathBuf]) -> Vec<Dimension> {
    let cpus = topology.cpus.len();
    let mut threads = Dimension::new("threads");
    for count in [1, cpus, cpus * 2, cpus * 4] {
        let named = |d: &Dimension, name: &str| d.candidates.iter().any(|c| c.name == name);
        let name = format!("{count} that scan");
        // 0 in the configuration means one for each CPU: that is out of the box.
        if count != cpus && !named(&threads, &name) {
            threads.add(name, Change::ScanThreads(count));
        }
    }
    // Half as many as CPUs are out of the box.
    for count in [1, cpus, cpus * 2] {
        if count != (cpus / 2).max(1) {
            threads.add(format!("{count} for sockets"), Change::IoThreads(count));
        }
    }
    let mut wait = Dimension::new("sync-interval");
    for ms in [0, 5, 20] {
        wait.add(format!("{ms} ms"), Change::BatchWait(ms));
    }
    let mut batch = Dimension::new("batch");
    for count in [1, 16, 1_024] {
        batch.add(format!("{count} messages a sync"), Change::Batch(count));
    }
    let mut automata = Dimension::new("automata");
    if cfg!(target_os = "linux") {
        let name = "interpreted (memory is never written and run)".to_owned();
        automata.add(name, Change::Interpreted);
    }
    vec![threads, placement(topology), allocator(libraries), automata, batch, wait]
}

fn placement(topology: &Topology) -> Dimension {
    let mut dimension = Dimension::new("placement");
    let all = topology.cpus.len();
    let mut seen: Vec<Vec<usize>> = vec![topology.numbers()];
    let one = topology.numbers().first().map(|n| CpuSet { name: "one CPU".into(), cpus: vec![*n] });
    let places = [
        one.ok_or(TooFew::Threads { count: 1, most: 0 }),
        topology.same_core(2),
        topology.other_cores(2),
        topology.other_cores(4),
        topology.other_sockets(2),
    ];
    for place in places {
        match place {
            Ok(place) if seen.contains(&place.cpus) => {
                let name = &place.name;
                dimension.missing.push(format!("placement: {name}: that is all {all} CPUs here"));
            }
            Ok(place) => {
                seen.push(place.cpus.clone());
                dimension.add(place.name.clone(), Change::CpuSet(place));
            }
            Err(why) => dimension.missing.push(format!("placement: {why}")),
        }
    }
    dimension
}

fn allocator(libraries: &[PathBuf]) -> Dimension {
    let mut dimension = Dimension::new("allocator");
    dimension.add("the C library's".to_owned(), Change::Allocator(Allocator::System));
    for name in ALLOCATORS {
        match libraries.iter().map(|folder| folder.join(name)).find(|path| path.is_file()) {
            Some(path) => {
                let allocator = Allocator::Preloaded(path);
                dimension.add(name.to_owned(), Change::Allocator(allocator));
            }
            None => dimension.missing.push(format!("allocator: {name} is not installed")),
        }
    }
    dimension
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cpu;

    fn two() -> Topology {
        let cpu = |number| Cpu { number, core: number as i64, socket: 0 };
        Topology { cpus: vec![cpu(0), cpu(1)] }
    }

    #[test]
    fn what_a_machine_lacks_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libjemalloc.so.2"), "x").unwrap();
        let all = dimensions(&two(), &[folder.path().to_owned()]);
        let settings: Vec<_> = all.iter().map(|d| d.setting).collect();
        assert_eq!(
            settings,
            ["threads", "placement", "allocator", "automata", "batch", "sync-interval"]
        );
        let missing: Vec<_> = all.iter().flat_map(|d| &d.missing).cloned().collect();
        let text = missing.join("\n");
        for words in ["no core here has 2 threads", "not 2 sockets", "all 2 CPUs", "libtcmalloc"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(all[2].candidates.len(), 2);
        assert!(all[0].candidates.iter().all(|c| c.name != "2 that scan"), "that is the default");
    }

    #[test]
    fn a_state_is_written_as_settings() {
        assert_eq!(Setup::default().toml(), "");
        let library = PathBuf::from("/usr/lib/libx.so");
        let setup = Setup {
            scan_threads: Some(4),
            io_threads: Some(1),
            place: Some(CpuSet { name: "x".into(), cpus: vec![0, 2] }),
            allocator: Some(Allocator::Preloaded(library)),
            interpreted: true,
            batch_messages_max: Some(16),
            batch_wait_ms: Some(5),
        };
        assert_eq!(
            setup.toml(),
            "[scan]\nthreads = 4\n[spool]\nbatch_messages_max = 16\nbatch_wait_ms = 5\n"
        );
        let unit = setup.unit().join("\n");
        for line in [
            "TOKIO_WORKER_THREADS=1",
            "GAUNTLET_ALLOCATOR=system",
            "LD_PRELOAD=/usr/lib/libx.so",
            "CPUAffinity=0 2",
        ] {
            assert!(unit.contains(line), "{unit}");
        }
        let around = setup.around();
        assert_eq!((around.environment.len(), around.cpus.as_slice()), (3, &[0, 2][..]));
        assert!(around.no_machine_code);
    }
}
