//! What the disk does: reading a file with buffers of several sizes, and how long it takes until a
//! write is durable.
//!
//! Reads are measured twice: from the system's cache (that is memory and the system call), and
//! cold, after the system was asked to drop the file from its cache (fadvise). Whether it did is
//! looked up (mincore); what a hypervisor caches is not visible here. Cases are measured in turn,
//! round after round.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::histogram::latency_histogram;
use crate::load::health::{self, Health, LagProbe, Watch};
use crate::load::page::estimate;
use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::load::{Latency, health::CEILING_SHARE_MAX};
use crate::machine::Manifest;
use crate::plot::{self, Axis, Line, Scale};
use crate::report::{Chart, Page, Table};
use crate::usage;

/// Sizes of a buffer and of a write, in bytes.
pub const SIZE_MAX: usize = 64 << 20;
/// Different sizes at most.
pub const SIZES_MAX: usize = 32;
/// Bytes of the file that is read, at most.
pub const FILE_BYTES_MAX: u64 = 1 << 40;
/// Share of a file that may still be in the cache when it counts as forgotten.
const RESIDENT_MAX: f64 = 0.01;
/// Bytes of a file that grows with synced writes, after which it is begun anew.
const SYNC_FILE_BYTES_MAX: u64 = 256 << 20;
/// Bytes written at once while the file is made.
const MAKE_BYTES: usize = 1 << 20;

/// What is measured: folder, sizes and times.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder in which files are written and removed again.
    pub folder: PathBuf,
    /// Bytes of the file that is read.
    pub file_bytes: u64,
    /// Sizes of the buffer of reads.
    pub buffers: Vec<usize>,
    /// Sizes of writes that are each made durable.
    pub writes: Vec<usize>,
    /// Longest time of a run.
    pub time: Duration,
    /// Runs of each size, in turn.
    pub rounds: u32,
}

/// Where a read comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The system's cache: the file was read just before.
    Cached,
    /// The disk, as far as the system reports it.
    Cold,
    /// No file at all (`/dev/zero`): what system calls with that buffer do at most.
    Zero,
}

/// Reads with one size of buffer.
#[derive(Debug, Clone, Serialize)]
pub struct Reads {
    /// Bytes of the buffer.
    pub buffer: usize,
    /// Where the bytes came from.
    pub source: Source,
    /// 10^9 bytes a second.
    pub gigabytes_per_second: Estimate,
    /// CPU time for 10^9 bytes, in seconds.
    pub cpu_per_gigabyte: Estimate,
    /// Time of one read.
    pub latency: Latency,
}

/// Writes of one size, each made durable by fdatasync.
#[derive(Debug, Clone, Serialize)]
pub struct Writes {
    /// Bytes appended before each sync.
    pub bytes: usize,
    /// Writes that were made durable, a second.
    pub syncs_per_second: Estimate,
    /// CPU time of a write and its sync, in microseconds.
    pub cpu_us: Estimate,
    /// Time of the write and its sync.
    pub latency: Latency,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Bytes of the file that was read.
    pub file_bytes: u64,
    /// By source and buffer.
    pub reads: Vec<Reads>,
    /// Results by size of the writes.
    pub writes: Vec<Writes>,
    /// The machine in that time.
    pub health: Health,
    /// Why figures are not the disk's.
    pub invalid: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// What one run came to; `amount` is bytes or syncs.
struct Sample {
    amount: f64,
    seconds: f64,
    cpu_seconds: f64,
    latency: Histogram<u64>,
}

/// Runs of one case.
#[derive(Default)]
struct Series(Vec<Sample>);

impl Series {
    /// Amount a second, CPU seconds for each of it, times.
    fn figures(&self) -> anyhow::Result<(Estimate, Estimate, Latency)> {
        let of = |value: fn(&Sample) -> f64| {
            let values: Vec<f64> = self.0.iter().map(value).collect();
            Estimate::of(&values).context("no run was made")
        };
        let mut all = latency_histogram()?;
        for sample in &self.0 {
            all.add(&sample.latency)?;
        }
        let rate = of(|s| s.amount / s.seconds)?;
        Ok((rate, of(|s| s.cpu_seconds / s.amount)?, Latency::of(&all)))
    }
}

fn check(options: &Options) -> anyhow::Result<()> {
    for (name, sizes) in [("buffers", &options.buffers), ("writes", &options.writes)] {
        if sizes.len() > SIZES_MAX || sizes.iter().any(|size| *size == 0 || *size > SIZE_MAX) {
            bail!("{name}: at most {SIZES_MAX} sizes of 1 to {SIZE_MAX} bytes");
        }
    }
    if options.file_bytes == 0 || options.file_bytes > FILE_BYTES_MAX || options.time.is_zero() {
        bail!("a file of 1 to {FILE_BYTES_MAX} bytes, and more than no time");
    }
    Ok(())
}

/// Measures. `progress` hears what is done next.
///
/// # Errors
/// Settings that make no sense, or a folder that cannot be written to.
pub fn run(
    options: &Options,
    version: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    check(options)?;
    let at = options.folder.display();
    let folder = tempfile::tempdir_in(&options.folder)
        .with_context(|| format!("cannot make a folder in {at}"))?;
    let path = folder.path().join("read");
    progress(&format!("writing a file of {} bytes", options.file_bytes));
    make(&path, options.file_bytes).with_context(|| format!("cannot write a file in {at}"))?;
    let lag = LagProbe::start()?;
    let watch = Watch::start();
    let sources = [Source::Zero, Source::Cached, Source::Cold];
    let kinds: Vec<(usize, Source)> =
        options.buffers.iter().flat_map(|&b| sources.map(|source| (b, source))).collect();
    let mut reads: Vec<Series> = kinds.iter().map(|_| Series::default()).collect();
    let mut writes: Vec<Series> = options.writes.iter().map(|_| Series::default()).collect();
    let mut kept: f64 = 0.0;
    let rounds = options.rounds.clamp(1, ROUNDS_MAX);
    for round in 1..=rounds {
        progress(&format!("round {round} of {rounds}"));
        for ((buffer, source), series) in kinds.iter().zip(&mut reads) {
            if *source == Source::Cold {
                kept = kept.max(drop_page_cache(&path)?);
            }
            series.0.push(read(&path, options, *buffer, *source)?);
        }
        for (bytes, series) in options.writes.iter().zip(&mut writes) {
            series.0.push(sync(&folder.path().join("sync"), *bytes, options.time)?);
        }
    }
    let health = watch.stop(1, &lag.stop()?);
    let reads = kinds.iter().zip(&reads).map(|((buffer, source), series)| {
        let (rate, cpu_per_gigabyte, latency) = series.figures()?;
        let (buffer, source) = (*buffer, *source);
        Ok(Reads { buffer, source, gigabytes_per_second: rate, cpu_per_gigabyte, latency })
    });
    let reads: Vec<Reads> = reads.collect::<anyhow::Result<_>>()?;
    let writes = options.writes.iter().zip(&writes).map(|(bytes, series)| {
        let (syncs_per_second, cpu, latency) = series.figures()?;
        let micros = |value: f64| value * 1e6;
        let cpu_us = Estimate {
            mean: micros(cpu.mean),
            low: cpu.low.map(micros),
            high: cpu.high.map(micros),
        };
        Ok(Writes { bytes: *bytes, syncs_per_second, cpu_us, latency })
    });
    Ok(Report {
        file_bytes: options.file_bytes,
        invalid: invalid(&health, &reads, kept),
        reads,
        writes: writes.collect::<anyhow::Result<_>>()?,
        health,
        manifest: Manifest::here(version),
    })
}

/// Why figures are not the disk's.
fn invalid(health: &Health, reads: &[Reads], kept: f64) -> Vec<String> {
    let mut why = health::disturbed(health);
    if kept > RESIDENT_MAX {
        why.push(format!(
            "{:.0} % of the file stayed in the cache: cold reads are none (a file system in memory?)",
            kept * 100.0
        ));
    }
    for cold in reads.iter().filter(|r| r.source == Source::Cold) {
        let same = |r: &&Reads| r.source == Source::Cached && r.buffer == cold.buffer;
        let Some(cached) = reads.iter().find(same) else { continue };
        let (cold_rate, rate) = (cold.gigabytes_per_second.mean, cached.gigabytes_per_second.mean);
        if cold_rate > rate * CEILING_SHARE_MAX {
            why.push(format!(
                "cold reads of {} bytes are as fast as cached ones ({cold_rate:.2} of {rate:.2} GB/s): \
                 they were not the disk's",
                cold.buffer
            ));
        }
    }
    why
}

/// Makes a file whose bytes no disk can guess, durable.
fn make(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let (mut left, mut number) = (bytes, 0_u64);
    let mut piece = vec![0; MAKE_BYTES];
    while left > 0 {
        let length = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut piece);
        file.write_all(&piece[..length])?;
        left -= length as u64;
        number += 1;
    }
    file.sync_all()
}

/// Drops a file from the page cache; the share of it that is still in the cache.
fn drop_page_cache(path: &Path) -> anyhow::Result<f64> {
    let file = File::open(path).context("cannot open the file")?;
    let length = usize::try_from(file.metadata()?.len())?;
    let descriptor = file.as_raw_fd();
    // SAFETY: the call takes numbers only; the descriptor is open.
    unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED) };
    // SAFETY: sysconf takes a number and returns one.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096);
    let mut pages = vec![0_u8; length.div_ceil(page)];
    // SAFETY: a new shared mapping of an open file for reading; nothing reads through it.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0)
    };
    if map == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error()).context("cannot map the file");
    }
    // SAFETY: the mapping is `length` bytes; `pages` has a byte for each of its pages.
    let looked = unsafe { libc::mincore(map, length, pages.as_mut_ptr().cast()) };
    // SAFETY: the mapping was made above with this length, and nothing refers to it.
    unsafe { libc::munmap(map, length) };
    if looked != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot ask for what is cached");
    }
    let resident = pages.iter().filter(|page| **page & 1 == 1).count();
    Ok(resident as f64 / pages.len().max(1) as f64)
}

/// Reads the file through once, or for the time if that is shorter.
fn read(path: &Path, options: &Options, buffer: usize, source: Source) -> anyhow::Result<Sample> {
    let zero = source == Source::Zero;
    let path = if zero { Path::new("/dev/zero") } else { path };
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut bytes = vec![0; buffer];
    if source == Source::Cached {
        std::io::copy(&mut file, &mut std::io::sink())?;
        file.rewind()?;
    }
    let mut latency = latency_histogram()?;
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    let mut total = 0_u64;
    let mut last = start;
    while total < options.file_bytes && last - start < options.time {
        let count = file.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        total += count as u64;
        let now = Instant::now();
        latency.saturating_record(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
    Ok(Sample {
        amount: total as f64 / 1e9,
        seconds: (last - start).as_secs_f64().max(1e-9),
        cpu_seconds: usage::cpu_seconds() - cpu,
        latency,
    })
}

/// Appends and waits for the disk, again and again.
fn sync(path: &Path, bytes: usize, time: Duration) -> anyhow::Result<Sample> {
    let open = || {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
        file.sync_all()?;
        Ok::<_, std::io::Error>(file)
    };
    let mut file = open().with_context(|| format!("cannot write {}", path.display()))?;
    let (piece, mut written) = (vec![b'x'; bytes], 0);
    let mut latency = latency_histogram()?;
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    while start.elapsed() < time {
        if written > SYNC_FILE_BYTES_MAX {
            file = open()?;
            written = 0;
        }
        let begun = Instant::now();
        file.write_all(&piece)?;
        file.sync_data()?;
        latency.saturating_record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        written += bytes as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = usage::cpu_seconds() - cpu;
    std::fs::remove_file(path)?;
    Ok(Sample { amount: latency.len() as f64, seconds, cpu_seconds, latency })
}

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    let mut reads = Table::new(
        &format!("Reading a file of {:.0} MB, one thread", report.file_bytes as f64 / 1e6),
        &["buffer", "from", "GB/s", "CPU s/GB", "median us", "99 % us", "99.9 % us"],
    );
    reads.rows = report
        .reads
        .iter()
        .map(|r| {
            let l = &r.latency;
            let mut row = vec![bytes(r.buffer), from(r.source).to_owned()];
            row.extend([estimate(&r.gigabytes_per_second), estimate(&r.cpu_per_gigabyte)]);
            row.extend([l.p50_us, l.p99_us, l.p999_us].map(|us| format!("{us:.1}")));
            row
        })
        .collect();
    reads.notes.push(
        "cached: memory and the system call; cold: the system forgot the file, a hypervisor may not; \
         /dev/zero: no file, what that many system calls and copies do at most"
            .to_owned(),
    );
    let mut writes = Table::new(
        "Appending and waiting until it is durable (fdatasync), one thread",
        &[
            "bytes",
            "syncs/s",
            "CPU us",
            "median ms",
            "90 % ms",
            "99 % ms",
            "99.9 % ms",
            "longest ms",
        ],
    );
    writes.rows = report
        .writes
        .iter()
        .map(|w| {
            let l = &w.latency;
            let mut row = vec![bytes(w.bytes), estimate(&w.syncs_per_second), estimate(&w.cpu_us)];
            let times = [l.p50_us, l.p90_us, l.p99_us, l.p999_us, l.max_us];
            row.extend(times.map(|us| format!("{:.2}", us / 1e3)));
            row
        })
        .collect();
    let lines = [Source::Zero, Source::Cached, Source::Cold].map(|source| Line {
        name: from(source).to_owned(),
        points: report.reads.iter().filter(|r| r.source == source).map(point).collect(),
    });
    Page {
        title: "Disk".to_owned(),
        invalid: report.invalid.clone(),
        tables: vec![reads, writes],
        charts: vec![Chart {
            name: "reads".to_owned(),
            drawing: plot::chart(
                "Reading by size of the buffer",
                Axis { name: "buffer, bytes", scale: Scale::Logarithmic },
                Axis { name: "GB/s", scale: Scale::Linear },
                &lines,
            ),
        }],
        manifest: report.manifest.clone(),
    }
}

fn point(reads: &Reads) -> (f64, f64) {
    (reads.buffer as f64, reads.gigabytes_per_second.mean)
}

fn from(source: Source) -> &'static str {
    match source {
        Source::Cached => "cached",
        Source::Cold => "cold",
        Source::Zero => "/dev/zero",
    }
}

/// `512 B`, `64 KB`, `4 MB`: powers of two.
fn bytes(count: usize) -> String {
    match count {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            folder: folder.path().to_owned(),
            file_bytes: 3_000_000,
            buffers: vec![4_096, 1 << 20],
            writes: vec![512],
            time: Duration::from_millis(60),
            rounds: 2,
        };
        let report = run(&options, "0", &mut |_| {}).unwrap();
        assert_eq!((report.reads.len(), report.writes.len()), (6, 1));
        assert!(report.reads.iter().all(|r| r.gigabytes_per_second.mean > 0.0), "{report:?}");
        assert!(report.writes[0].syncs_per_second.mean > 0.0);
        let text = sheet(&report).text();
        assert!(text.contains("4 KB") && text.contains("fdatasync"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it tidies up");
        let error = run(&Options { buffers: vec![0], ..options }, "0", &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("buffers: at most"), "{error}");
    }

    #[test]
    fn what_was_not_cold_is_said() {
        let estimate = |mean| Estimate { mean, low: None, high: None };
        let reads = |source, rate| Reads {
            buffer: 4_096,
            source,
            gigabytes_per_second: estimate(rate),
            cpu_per_gigabyte: estimate(0.1),
            latency: Latency::of(&latency_histogram().unwrap()),
        };
        let lag = latency_histogram().unwrap();
        let health = Health { steal_share: None, ..Watch::start().stop(1, &lag) };
        let health = Health { memory_pressure_share: None, ..health };
        let good = [reads(Source::Cached, 3.5), reads(Source::Cold, 0.5)];
        assert!(invalid(&health, &good, 0.0).is_empty());
        let warm = [reads(Source::Cached, 3.5), reads(Source::Cold, 3.4)];
        assert_eq!(invalid(&health, &warm, 0.5).len(), 2);
    }
}
