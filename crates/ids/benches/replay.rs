//! What a capture costs: `cargo bench -p gauntlet-ids --bench replay -- CAPTURE [RULES...]`. Prints
//! loading time, user CPU time, packets a second and peak memory. `--threads N` comes first.

use std::path::PathBuf;
use std::time::Instant;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, Replayer};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    files.retain(|file| file.as_os_str() != "--bench");
    let print = files.iter().position(|file| file.as_os_str() == "--alerts");
    if let Some(place) = print {
        files.remove(place);
    }
    if files.is_empty() {
        eprintln!("usage: replay [--alerts] CAPTURE [RULES...]");
        return;
    }
    let capture = files.remove(0);
    let options = Options {
        settings: Settings::stock(),
        directory: PathBuf::from("."),
        rules: files,
        inline: false,
        checksums: None,
    };
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    let replayer = Replayer::new(&options).expect("rules that can be read");
    let loaded = cpu_seconds() - cpu;
    eprintln!("loaded: {loaded:.2} s CPU, {:.2} s", clock.elapsed().as_secs_f64());
    eprintln!("memory after loading: {} MB", memory("VmRSS:") / 1024);
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    let done = replayer.run(&capture, &mut |line| {
        if print.is_some() {
            println!("{line}");
        }
    });
    let summary = done.expect("a capture that can be read");
    let (cpu, wall) = (cpu_seconds() - cpu, clock.elapsed().as_secs_f64());
    let frames = summary.frames as f64;
    eprintln!("{} rules, {} left out", summary.rules, summary.left_out);
    eprintln!("{} frames, {} alerts", summary.frames, summary.alerts);
    eprintln!("{cpu:.2} s user CPU ({:.3} us a frame), {wall:.2} s", cpu / frames * 1e6);
    eprintln!("{:.0} frames a second of CPU, {:.0} of time", frames / cpu, frames / wall);
    eprintln!("peak memory: {} MB", memory("VmHWM:") / 1024);
}

/// User time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11));
    ticks.and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default() / 100.0
}

/// A line of the process's status, in KiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
