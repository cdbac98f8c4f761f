//! What a capture costs: loading time of the rules, user CPU time, packets a second, peak memory.
//!
//! `cargo bench -p gauntlet-ids --bench replay -- [--threads N] [--alerts] [--set KEY=VALUE]
//! CAPTURE [RULES...]`; `--alerts` prints them.
#![expect(clippy::print_stdout, reason = "alerts are printed on demand")]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, Replayer};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut files = Vec::new();
    let (mut threads, mut print) = (NonZeroUsize::MIN, false);
    let mut settings = Settings::stock();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bench" => {}
            "--alerts" => print = true,
            "--threads" => {
                threads = args.next().and_then(|n| n.parse().ok()).expect("a number of threads");
            }
            "--set" => {
                let assignment = args.next().unwrap_or_default();
                settings.assign(&assignment).expect("KEY=VALUE");
            }
            file => files.push(PathBuf::from(file)),
        }
    }
    if files.is_empty() {
        eprintln!("usage: replay [--threads N] [--alerts] [--set KEY=VALUE] CAPTURE [RULES...]");
        return;
    }
    let capture = files.remove(0);
    let options = Options {
        settings,
        directory: PathBuf::from("."),
        rules: files,
        inline: false,
        checksums: None,
    };
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    let replayer = Replayer::new(&options).expect("rules that can be read").on_threads(threads);
    let (used, time) = (cpu_seconds() - cpu, clock.elapsed().as_secs_f64());
    eprintln!("loading: {used:.2} s of user CPU, {time:.2} s, {} MB", memory("VmRSS:"));
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    let done = replayer.run(&capture, &mut |line| {
        if print {
            println!("{line}");
        }
    });
    let summary = done.expect("a capture that can be read");
    let (cpu, time) = (cpu_seconds() - cpu, clock.elapsed().as_secs_f64());
    let frames = summary.frames as f64;
    eprintln!("{} rules, {} frames, {} alerts", summary.rules, summary.frames, summary.alerts);
    eprintln!("{cpu:.2} s of user CPU, {:.3} us a frame; {time:.2} s", cpu / frames * 1e6);
    eprintln!("{:.0} frames a second of CPU, {:.0} of time", frames / cpu, frames / time);
    eprintln!("peak memory: {} MB", memory("VmHWM:"));
}

/// User time of this process, in seconds (of 10 ms).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11));
    ticks.and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default() / 100.0
}

/// A line of the process's status, in MB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or_default() / 1024
}
