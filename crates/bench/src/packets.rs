//! The experiment of the paper on threat management (2012) on the packet path: 80 packets of 1,000
//! bytes through its URL filter and its spam filter, by the number of CPUs.
//!
//! *Paper*: its own algorithm, on the packets alone: the URL is taken from the header of HTTP and
//! compared with one line of the list after the other, the first that fits ends the search; every
//! word is searched for in the whole packet. Shared out by packets (*flow*) or by lines of the
//! list (*static*, *dynamic*, *guided*), see [`parallel`].
//!
//! *Packet path*: a capture with each of these packets in a TCP connection of its own (seven more
//! frames) is read from its file, decoded, followed, reassembled, its HTTP taken apart; the URL is
//! asked of the compiled list, the page's words of the compiled phrases. Whoever calls brings that.

mod composed;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use self::composed::Exchange;
use crate::load::page::estimate;
use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::machine::Manifest;
use crate::report::{Page, Table};
use crate::topology::{Topology, run_on};
use crate::tune::page::rounded;
use crate::tune::parallel::{self, Job, PACKETS, PAPER, SHARINGS, Search, Words};
use crate::urls::composed as urls;

/// Copies of the 80 packets in a capture, so that a run takes long enough to be measured.
const COPIES: u32 = 250;
/// Packets that a packet path has to judge in a run: all of them, in every copy.
const JUDGED: u64 = PACKETS as u64 * COPIES as u64;
/// Lines that are compared between two looks whether another CPU has found one that fits.
const LOOK_EVERY: usize = 256;

/// A function of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// URLs against a list.
    Urls,
    /// Weighted words on pages.
    Words,
}

impl Function {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Urls, Self::Words];

    fn title(self) -> &'static str {
        match self {
            Self::Urls => "URL filter",
            Self::Words => "Spam filter (weighted words)",
        }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Lines of the list of URLs.
    pub entries: u64,
    /// Words.
    pub patterns: usize,
    /// Time of a run of the paper's algorithm; of the packet path a run is a capture.
    pub time: Duration,
    /// Runs of each, in turn.
    pub rounds: u32,
    /// Where captures and lists are written; what is written there is removed again.
    pub folder: PathBuf,
}

/// What the packet path is run with.
#[derive(Debug)]
pub struct Files<'a> {
    /// The capture.
    pub capture: &'a Path,
    /// The list: of URLs, or of phrases with weights (`<word><weight>`).
    pub list: &'a Path,
}

/// Runs a capture through the packet path once on so many threads: frames, and packets that were
/// found to be on the list.
pub type Replay<'a> = dyn Fn(usize) -> anyhow::Result<(u64, u64)> + Sync + 'a;
/// Makes a packet path ready.
pub type Prepare<'a> = dyn Fn(Function, &Files<'_>) -> anyhow::Result<Box<Replay<'a>>> + 'a;

/// Packets a second on so many CPUs.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was done with packets.
    pub function: Function,
    /// CPUs.
    pub cpus: usize,
    /// The paper's algorithm, by [`SHARINGS`].
    pub paper: Vec<Estimate>,
    /// The packet path, shared out by flows.
    pub path: Estimate,
    /// Frames a second of the packet path, those of connections that begin and end among them.
    pub path_frames: f64,
    /// The packet path over the paper's algorithm, shared out by packets.
    pub path_over_paper: Option<Estimate>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Lines of the list of URLs.
    pub entries: u64,
    /// Words.
    pub patterns: usize,
    /// CPUs, cores and sockets of the machine, in words.
    pub topology: String,
    /// By function and CPUs.
    pub rows: Vec<Row>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// Measures. `progress` hears what is done.
///
/// # Errors
/// Settings that make no sense, files that cannot be written, a packet path that fails or that
/// finds other packets on other numbers of threads.
pub fn run(
    options: &Options,
    version: &str,
    prepare: &Prepare<'_>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    if options.entries < PACKETS as u64 || options.time.is_zero() {
        bail!("a list has at least {PACKETS} entries, and a run more than no time");
    }
    if options.patterns == 0 || options.patterns > parallel::PATTERNS_MAX {
        bail!("1 to {} words", parallel::PATTERNS_MAX);
    }
    let topology = Topology::here()?;
    let folder = tempfile::tempdir_in(&options.folder).context("cannot make a folder")?;
    let mut rows = Vec::new();
    for function in Function::ALL {
        let material = Material::new(function, options, folder.path())?;
        let files = Files { capture: &material.capture, list: &material.list };
        let replay = prepare(function, &files)?;
        for cpus in 1..=topology.cpus.len() {
            progress(&format!("{}, {cpus} CPUs", function.title()));
            let place: Vec<usize> = topology.numbers().into_iter().take(cpus).collect();
            rows.push(material.row(options, &place, replay.as_ref())?);
        }
    }
    Ok(Report {
        entries: options.entries,
        patterns: options.patterns,
        topology: topology.describe(),
        rows,
        manifest: Manifest::here(version),
    })
}

/// Packets and lists of a function.
struct Material {
    function: Function,
    lines: Vec<String>,
    job: Job,
    /// The packets' payloads.
    packets: Vec<Vec<u8>>,
    capture: PathBuf,
    list: PathBuf,
}

impl Material {
    fn new(function: Function, options: &Options, folder: &Path) -> anyhow::Result<Self> {
        let job = Job::new(options.patterns);
        let list = folder.join("list");
        let (mut lines, exchanges): (Vec<String>, Vec<Exchange>) = match function {
            Function::Urls => {
                let step = options.entries / PACKETS as u64;
                let hits = (0..PACKETS as u64).map(|n| urls::hit(n * step + step / 2));
                (urls::lines(options.entries), hits.map(|url| composed::request(&url)).collect())
            }
            Function::Words => {
                let words = job.words.iter().map(|(word, probability)| {
                    let word = String::from_utf8_lossy(word);
                    format!("<{word}><{:.0}>", probability * 100.0)
                });
                (words.collect(), job.messages.iter().map(|text| composed::page(text)).collect())
            }
        };
        std::fs::write(&list, lines.join("\n") + "\n").context("cannot write a list")?;
        if function == Function::Words {
            lines.clear();
        }
        let capture = folder.join("capture.pcap");
        composed::write(&capture, &exchanges, COPIES).context("cannot write a capture")?;
        let payload = |exchange: &Exchange| match function {
            Function::Urls => exchange.request.clone(),
            Function::Words => exchange.response.clone(),
        };
        let packets = exchanges.iter().map(payload).collect();
        Ok(Self { function, lines, job, packets, capture, list })
    }

    fn row(&self, options: &Options, cpus: &[usize], replay: &Replay<'_>) -> anyhow::Result<Row> {
        let count = match self.function {
            Function::Urls => self.lines.len(),
            Function::Words => self.job.words.len(),
        };
        let pieces = SHARINGS.map(|sharing| parallel::pieces(sharing, count, cpus.len()));
        let rates = match self.function {
            Function::Urls => {
                let searches = pieces.map(|pieces| Lines::new(&self.packets, &self.lines, pieces));
                parallel::rates(options.time, options.rounds, &searches, cpus)?
            }
            Function::Words => {
                let (job, messages) = (&self.job, &self.packets);
                let searches = pieces.map(|pieces| Words { job, messages, pieces });
                parallel::rates(options.time, options.rounds, &searches, cpus)?
            }
        };
        let mut paths = Vec::new();
        let mut frames_per_second = 0.0;
        let rounds = options.rounds.clamp(1, ROUNDS_MAX);
        for _ in 0..rounds {
            let (seconds, frames, this) = on_cpus(cpus, replay)?;
            // A path that lets packets through unseen would be a fast one.
            if this != JUDGED {
                bail!("the packet path judged {this} of {JUDGED} packets");
            }
            paths.push(PACKETS as f64 * f64::from(COPIES) / seconds);
            frames_per_second += frames as f64 / seconds / f64::from(rounds);
        }
        let flow = rates.first().cloned().unwrap_or_default();
        let pairs: Vec<_> = paths.iter().copied().zip(flow).collect();
        let of = |values: &Vec<f64>| Estimate::of(values).context("no run was made");
        Ok(Row {
            function: self.function,
            cpus: cpus.len(),
            paper: rates.iter().map(of).collect::<anyhow::Result<_>>()?,
            path: of(&paths)?,
            path_frames: frames_per_second,
            path_over_paper: Estimate::ratio(&pairs),
        })
    }
}

/// One run on these CPUs alone, with a thread for each: seconds, frames, packets that were found.
fn on_cpus(cpus: &[usize], replay: &Replay<'_>) -> anyhow::Result<(f64, u64, u64)> {
    std::thread::scope(|scope| {
        let run = || {
            // Threads that are started here are kept to the same CPUs.
            run_on(cpus)?;
            let start = Instant::now();
            let (frames, found) = replay(cpus.len())?;
            Ok((start.elapsed().as_secs_f64(), frames, found))
        };
        let thread = scope.spawn(run);
        thread.join().map_err(|_| anyhow::anyhow!("a thread of the experiment failed"))?
    })
}

/// The paper's URL filter: each piece of the list is compared line by line.
struct Lines<'a> {
    packets: &'a [Vec<u8>],
    lines: &'a [String],
    pieces: Vec<(usize, usize)>,
    /// A line was found that fits: all stop.
    found: AtomicBool,
}

impl<'a> Lines<'a> {
    fn new(packets: &'a [Vec<u8>], lines: &'a [String], pieces: Vec<(usize, usize)>) -> Self {
        Self { packets, lines, pieces, found: AtomicBool::new(false) }
    }
}

/// The URL of a request, without `http://`.
fn url_of(packet: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(packet).ok()?;
    let path = text.strip_prefix("GET ")?.split(' ').next()?;
    let host = text.split("\r\nHost: ").nth(1)?.split('\r').next()?;
    Some(format!("{host}{path}"))
}

impl Search for Lines<'_> {
    type Scratch = ();

    fn begin(&self) {
        self.found.store(false, Ordering::Relaxed);
    }

    fn search(&self, message: usize, piece: usize, (): &mut ()) -> f64 {
        let Some(url) = self.packets.get(message).and_then(|packet| url_of(packet)) else {
            return 0.0;
        };
        let (from, to) = self.pieces.get(piece).copied().unwrap_or_default();
        for chunk in self.lines.get(from..to).unwrap_or_default().chunks(LOOK_EVERY) {
            // Shared out by packets, each CPU has one of its own.
            if self.pieces.len() > 1 && self.found.load(Ordering::Relaxed) {
                return 0.0;
            }
            let fits = |line: &String| {
                let line = line.strip_prefix("http://").unwrap_or(line).trim_start_matches('=');
                url.contains(line)
            };
            if chunk.iter().any(fits) {
                self.found.store(true, Ordering::Relaxed);
                return 1.0;
            }
        }
        0.0
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    Page {
        title: "The paper's experiment on the packet path".to_owned(),
        invalid: Vec::new(),
        tables: Function::ALL.map(|function| table(report, function)).into(),
        charts: Vec::new(),
        manifest: report.manifest.clone(),
    }
}

fn table(report: &Report, function: Function) -> Table {
    let size = match function {
        Function::Urls => format!("{} URLs", report.entries),
        Function::Words => format!("{} words", report.patterns),
    };
    let title = format!("{}: {size}, 1,000-byte packets/s", function.title());
    let heads = [
        "CPUs",
        "packet path",
        "paper's algorithm: flow",
        "static",
        "dynamic",
        "guided",
        "packet path/flow",
        "paper: flow",
        "paper: pattern",
    ];
    let mut table = Table::new(&title, &heads);
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.function == function).collect();
    for row in &rows {
        let mut cells = vec![row.cpus.to_string(), rounded(&row.path)];
        cells.extend(row.paper.iter().map(rounded));
        cells.push(row.path_over_paper.as_ref().map(estimate).unwrap_or_default());
        let printed = PAPER.get(row.cpus - 1).filter(|_| function == Function::Words);
        let text = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
        cells.extend([text(printed.map(|p| p.0)), text(printed.map(|p| p.1))]);
        table.rows.push(cells);
    }
    let frames = rows.iter().map(|row| format!("{:.0}", row.path_frames));
    table.notes = vec![
        format!(
            "packet path: {COPIES} times 80 connections from a capture, shared out by flows; \
             frames/s: {}",
            frames.collect::<Vec<_>>().join(", ")
        ),
        "paper's algorithm: on 80 packets in memory, without any path around it".to_owned(),
        "the paper's columns are its spam filter's; of its URL filter it gives ratios alone"
            .to_owned(),
        format!("this machine: {}", report.topology),
    ];
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_a_thousand_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pcap");
        let text = vec![b'a'; 2_000];
        let exchanges = [composed::request("http://a.example/b?c=d"), composed::page(&text)];
        assert_eq!(composed::write(&file, &exchanges, 3).unwrap(), 3 * 2 * 8);
        let bytes = std::fs::read(&file).unwrap();
        let (mut at, mut sizes) = (24, Vec::new());
        while at < bytes.len() {
            let size = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
            sizes.push(size);
            at += 16 + size as usize;
        }
        assert_eq!(sizes.iter().filter(|size| **size == 1_000).count(), 6);
        let url = url_of(&composed::request("http://a.example/b?c=d").request);
        assert_eq!(url.as_deref(), Some("a.example/b?c=d"));
    }

    #[test]
    fn the_paper_finds_every_packet_however_it_is_shared() {
        let options = Options {
            entries: 800,
            patterns: 40,
            time: Duration::from_millis(20),
            rounds: 2,
            folder: std::env::temp_dir(),
        };
        let prepare = |function: Function, files: &Files<'_>| {
            assert!(files.capture.exists() && files.list.exists());
            assert!([Function::Urls, Function::Words].contains(&function));
            Ok(Box::new(|_| Ok((1_u64, JUDGED))) as Box<Replay<'_>>)
        };
        let report = run(&options, "0", &prepare, &mut |_| {}).unwrap();
        let cpus = Topology::here().unwrap().cpus.len();
        assert_eq!(report.rows.len(), 2 * cpus);
        assert!(report.rows.iter().all(|row| row.paper.len() == 4));
        let text = sheet(&report).text();
        assert!(text.contains("URL filter: 800 URLs") && text.contains("440.92"), "{text}");

        let folder = tempfile::tempdir().unwrap();
        let material = Material::new(Function::Urls, &options, folder.path()).unwrap();
        let whole = vec![(0, material.lines.len())];
        let search = Lines::new(&material.packets, &material.lines, whole);
        assert!((0..PACKETS).all(|n| search.search(n, 0, &mut ()) > 0.0));
        assert!(run(&Options { entries: 1, ..options }, "0", &prepare, &mut |_| {}).is_err());
    }
}
