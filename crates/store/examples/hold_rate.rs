//! Benchmark of the quarantine: how many messages a second it holds.
//!
//! `cargo run --release -p gauntlet-store --example hold_rate -- FOLDER [MESSAGES [BATCH [BYTES
//! [FOLDERS]]]]`
//!
//! Holds generated messages in an empty folder, so many with one call as the node's thread does
//! when mail waits for it, and prints one line of JSON: messages a second, CPU time of the process
//! a message, bytes on disk a message, and the time that a call takes. Messages are of different
//! sizes around the mean, no two are equal, and each is for one to three recipients.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use gauntlet_mail::Envelope;
use gauntlet_store::{Quarantine, QuarantineItem};
use gauntlet_verdict::Class;

/// 2026-01-01, as Unix milliseconds.
const START_MS: i64 = 20_454 * 86_400_000;

/// SplitMix64: the same messages on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder =
        args.next().ok_or("usage: hold_rate FOLDER [MESSAGES [BATCH [BYTES [FOLDERS]]]]")?;
    let mut number = |default: u64| args.next().map_or(Ok(default), |n| n.parse());
    let (messages, batch) = (number(20_000)?, number(64)?.max(1));
    let (bytes, folders) = (number(8_000)?, number(3)?.max(1));
    let folder = Path::new(&folder);
    if std::fs::read_dir(folder).is_ok_and(|mut found| found.next().is_some()) {
        return Err("the folder is not empty".into());
    }
    std::fs::create_dir_all(folder)?;
    let quarantine = Quarantine::open(folder)?;
    let mut random = Random(1);
    let (mut done, mut calls, mut held_for) = (0, Vec::new(), Duration::ZERO);
    let mut cpu = Duration::ZERO;
    while done < messages {
        // Made outside of what is measured.
        let size = batch.min(messages - done);
        let made: Vec<(QuarantineItem, Vec<u8>)> =
            (done..done + size).map(|n| message(n, bytes, folders, &mut random)).collect();
        let refs: Vec<(&QuarantineItem, &[u8])> =
            made.iter().map(|(item, raw)| (item, raw.as_slice())).collect();
        let (start, cpu_before) = (Instant::now(), cpu_time());
        quarantine.put_many(&refs)?;
        let took = start.elapsed();
        cpu += cpu_time().saturating_sub(cpu_before);
        held_for += took;
        calls.push(took.as_micros());
        done += size;
    }
    calls.sort_unstable();
    let at = |share: usize| calls.get(calls.len() * share / 100).copied().unwrap_or(0);
    let rate = messages as f64 / held_for.as_secs_f64().max(1e-9);
    let line = serde_json::json!({
        "messages": messages,
        "batch": batch,
        "mean_bytes": bytes,
        "folders": folders,
        "messages_per_second": rate.round(),
        "cpu_us_per_message": (cpu.as_secs_f64() * 1e7 / messages as f64).round() / 10.0,
        "disk_bytes_per_message": disk_bytes(folder) / messages.max(1),
        "files": files(folder),
        "call_us_median": at(50),
        "call_us_99": at(99),
    });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

fn message(n: u64, mean: u64, folders: u64, random: &mut Random) -> (QuarantineItem, Vec<u8>) {
    let size = mean / 2 + random.next() % mean.max(1);
    let mut raw = format!("From: s{n}@example.org\r\nSubject: offer {n}\r\n\r\n").into_bytes();
    while (raw.len() as u64) < size {
        raw.extend_from_slice(format!("{:016x} ", random.next()).as_bytes());
    }
    let recipients: Vec<String> = (0..=random.next() % 3)
        .map(|_| format!("user{}@example.net", random.next() % 500))
        .collect();
    let item = QuarantineItem {
        id: format!("{n:013}"),
        message: format!("{n:013}"),
        folder: format!("folder{}", random.next() % folders),
        envelope: Envelope {
            mail_from: format!("s{n}@example.org"),
            rcpt_to: recipients.clone(),
            ..Envelope::default()
        },
        recipients,
        received_ms: START_MS + n as i64,
        class: Class::Spam,
        score: 9.5,
        subject: format!("offer {n}"),
        from: format!("Sender <s{n}@example.org>"),
        release: None,
    };
    (item, raw)
}

/// CPU time of this process, user and system.
fn cpu_time() -> Duration {
    // SAFETY: all bit patterns are valid for this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` may be written and lives through the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let of = |time: libc::timeval| {
        Duration::from_micros((time.tv_sec * 1_000_000 + time.tv_usec).unsigned_abs())
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn files(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|e| if e.path().is_dir() { files(&e.path()) } else { 1 }).sum()
}

fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|e| match e.metadata() {
            Ok(seen) if seen.is_dir() => disk_bytes(&e.path()),
            Ok(seen) => seen.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
