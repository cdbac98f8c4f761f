//! What a figure was measured on: without it a figure says nothing.

use serde::Serialize;

/// The machine and the program of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Manifest {
    /// Model name of the processor, as the system tells it.
    pub cpu_model: String,
    /// CPUs that the process may use.
    pub cpus: usize,
    /// Operating system and architecture.
    pub system: String,
    /// Version of this program.
    pub version: String,
    /// Built with optimisation.
    pub optimised: bool,
}

impl Manifest {
    /// Of this machine, for a program of this version.
    pub fn here(version: &str) -> Self {
        Manifest {
            cpu_model: cpu_model().unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            version: version.to_owned(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
