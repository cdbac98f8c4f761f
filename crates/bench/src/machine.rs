//! What a figure was measured on: without it a figure says nothing.

use serde::Serialize;

/// The machine and the program of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Manifest {
    /// Model name of the processor, as the system reports it.
    pub cpu_model: String,
    /// CPUs that the process may use.
    pub cpus: usize,
    /// Operating system and architecture.
    pub system: String,
    /// Release of the kernel.
    pub kernel: String,
    /// What decides the clock rate of the first CPU (`scaling_governor`).
    pub governor: String,
    /// Version of this program.
    pub version: String,
    /// First 64 bits of a hash over the program's file: names this very build.
    pub build: String,
    /// Commit of the work tree in which the program's file lies, with `+` if the tree differs from
    /// it.
    pub commit: String,
    /// The program was built with optimisation.
    pub optimised: bool,
}

impl Manifest {
    /// Of this machine, for a program of this version.
    pub fn here(version: &str) -> Self {
        Manifest {
            cpu_model: cpu_model().unwrap_or_else(|| UNKNOWN.to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: read("/proc/sys/kernel/osrelease"),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            version: version.to_owned(),
            build: build().unwrap_or_else(|| UNKNOWN.to_owned()),
            commit: commit().unwrap_or_else(|| UNKNOWN.to_owned()),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// What this system does not report.
const UNKNOWN: &str = "unknown";

fn read(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if text.trim().is_empty() { UNKNOWN.to_owned() } else { text.trim().to_owned() }
}

fn build() -> Option<String> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(std::fs::File::open(std::env::current_exe().ok()?).ok()?).ok()?;
    Some(hash.finalize().to_hex()[..16].to_owned())
}

/// What git says of the folder of this program; none without git, or outside of a work tree.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(program.parent()?).args(arguments);
        let output = git.stdin(std::process::Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { commit + "+" })
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
