//! What another process and its children used of the machine so far (Linux: `/proc`).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

/// CPU time and memory of a process and all its children.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ResourceUsage {
    /// CPU seconds, user and system, children that ended included. The system counts in steps of
    /// 10 ms.
    pub cpu_seconds: f64,
    /// Resident bytes, shared pages split among those that share them.
    pub memory_bytes: u64,
    /// Number of processes: the named one and its children.
    pub processes: usize,
}

impl ResourceUsage {
    /// Of the process with this number; none if there is none, or no `/proc`.
    pub fn of(process: u32) -> Option<Self> {
        let mut used = ResourceUsage::default();
        for process in family(process) {
            let folder = format!("/proc/{process}");
            let Some(ticks) = ticks(&folder) else { continue };
            used.cpu_seconds += ticks / ticks_per_second();
            used.memory_bytes += memory(Path::new(&folder)).unwrap_or(0);
            used.processes += 1;
        }
        (used.processes > 0).then_some(used)
    }
}

/// A process and its children, parents first.
pub fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut at = 0;
    while let Some(process) = all.get(at).copied() {
        // Children belong to the thread that made them.
        for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten() {
            let Ok(thread) = thread else { continue };
            let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in text.split_ascii_whitespace().filter_map(|c| c.parse().ok()) {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
        at += 1;
    }
    all
}

/// Fields 14 to 17 of `stat`: utime, stime, and those of children that ended (proc(5)).
fn ticks(folder: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("{folder}/stat")).ok()?;
    // The name may hold spaces; what follows its parenthesis begins with field 3.
    let fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(fields.skip(11).take(4).filter_map(|f| f.parse::<f64>().ok()).sum())
}

/// Proportional set size; resident size where the system keeps the former from us.
fn memory(folder: &Path) -> Option<u64> {
    let kib = |file: &str, name: &str| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix(name))?.trim().to_owned();
        line.strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(kib("smaps_rollup", "Pss:").or_else(|| kib("status", "VmRSS:"))? * 1024)
}

/// CPU time of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadTime {
    /// Its name, at most 15 bytes, as the system keeps it.
    pub name: String,
    /// CPU seconds so far, user and system.
    pub seconds: f64,
}

/// CPU time so far of the threads of a process that still run, by their numbers.
pub fn threads_cpu_seconds(process: u32) -> BTreeMap<String, ThreadTime> {
    let mut threads = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten()
    {
        let folder = thread.path();
        let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        // Nanoseconds on a CPU come first (Linux, sched-stats); without them, ticks.
        let exact = std::fs::read_to_string(folder.join("schedstat")).ok();
        let nanos = exact.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let ticks = || ticks(folder.to_str()?).map(|ticks| ticks / ticks_per_second());
        let seconds = nanos.map(|n| n / 1e9).or_else(ticks).unwrap_or(0.0);
        let time = ThreadTime { name: name.trim_end().to_owned(), seconds };
        threads.insert(thread.file_name().to_string_lossy().into_owned(), time);
    }
    threads
}

/// CPU seconds so far of this process' threads of these names that still run, by their numbers.
pub fn own_threads_cpu_seconds(names: &[&str]) -> BTreeMap<String, f64> {
    let all = threads_cpu_seconds(std::process::id()).into_iter();
    let named = all.filter(|(_, thread)| names.contains(&thread.name.as_str()));
    named.map(|(number, thread)| (number, thread.seconds)).collect()
}

/// CPU seconds between two looks at threads. What ended in between counts for nothing.
pub fn cpu_seconds_between(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> f64 {
    let of = |(number, spent): (&String, &f64)| spent - before.get(number).unwrap_or(&0.0);
    after.iter().map(of).sum()
}

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes a number and returns one.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ended_takes_nothing_back() {
        let at = |all: &[(&str, f64)]| all.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
        let (before, after) = (at(&[("7", 5.0), ("8", 1.0)]), at(&[("8", 1.5), ("9", 0.25)]));
        assert_eq!(cpu_seconds_between(&before, &after), 0.75);
    }

    #[test]
    fn this_process_and_its_children_are_counted() {
        let own = std::process::id();
        let before = ResourceUsage::of(own).unwrap();
        assert!(before.memory_bytes > 100_000 && before.processes >= 1, "{before:?}");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(family(own).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!family(own).contains(&child.id()));
        assert_eq!(ResourceUsage::of(u32::MAX - 1), None);
    }
}
