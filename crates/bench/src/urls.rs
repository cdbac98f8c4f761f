//! Lists of URLs: how fast they are compiled, opened and asked, and what memory that takes.
//!
//! Lists are made of numbers with a fixed seed, or one is given. Look-ups are of URLs that are in
//! their canonical form already, on one thread, of URLs that the list has and of others, apart;
//! what the form costs stands beside it. Baselines are what others do: each line looked for in the
//! URL, a sorted list, and squidGuard itself.

pub(crate) mod composed;
mod others;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_mail::url::{CanonicalUrl, canonical};
use gauntlet_urlfilter::sources::{self, Source};
use gauntlet_urlfilter::{Role, UrlList, UrlLists, compile};
use serde::Serialize;

use crate::load::health::{self, Health, LagProbe, Watch};
use crate::load::page::estimate;
use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::machine::Manifest;
use crate::report::{Page, Table};
use crate::usage;

/// Seed of everything that is made of numbers.
pub(crate) const SEED: u64 = 20_261_125;
/// Entries of a composed list.
pub const ENTRIES_MAX: u64 = 100_000_000;
/// Different URLs of a run: so many that a large list is not served by the processor's caches.
const URLS_MAX: usize = 500_000;
/// Look-ups between two looks at the clock.
const BATCH: usize = 1024;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder in which lists are written and removed again.
    pub folder: PathBuf,
    /// Sizes of composed lists, in entries.
    pub entries: Vec<u64>,
    /// A list, or a folder of lists, beside them.
    pub list: Option<PathBuf>,
    /// Longest time of each run.
    pub time: Duration,
    /// Runs of each case.
    pub rounds: u32,
}

/// Look-ups of one list.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// `composed`, or the list's path.
    pub list: String,
    /// Entries after doubles are merged.
    pub entries: u64,
    /// Time to compile, in seconds.
    pub build_seconds: f64,
    /// Largest resident memory while compiling, pages of mapped files included, in bytes; none if
    /// the system does not say.
    pub build_peak_bytes: Option<u64>,
    /// Time to open, every byte checked, in milliseconds.
    pub open_ms: f64,
    /// Bytes of the compiled file.
    pub file_bytes: u64,
    /// Memory of its own that the open list takes, in bytes.
    pub anonymous_bytes: Option<u64>,
    /// Look-ups a second of URLs that the list has.
    pub hits_per_second: Option<Estimate>,
    /// Look-ups a second of URLs that it has not.
    pub misses_per_second: Estimate,
    /// Share of the URLs for hits that were found.
    pub found: Option<f64>,
    /// Share of the others that were found.
    pub found_of_misses: f64,
    /// Look-ups a second if each line is searched for in the URL; none of large lists.
    pub scan_per_second: Option<f64>,
    /// Look-ups a second by halves in a sorted list of its hosts and domains; none of large lists.
    pub sorted_per_second: Option<f64>,
    /// Look-ups a second of squidGuard with its hosts and domains; none of large lists, or if it is
    /// not installed.
    pub squidguard_per_second: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// By list.
    pub lists: Vec<Figures>,
    /// URLs that were brought into canonical form, a second.
    pub canonical_per_second: f64,
    /// The machine in that time.
    pub health: Health,
    /// Why figures are not those of this program.
    pub invalid: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// A list to measure: its sources, and URLs that it has.
struct Case {
    name: String,
    sources: Vec<Source>,
    hits: Vec<String>,
}

/// Measures. `progress` hears what is done next.
///
/// # Errors
/// Settings that make no sense, a list that cannot be read, a folder that cannot be written to.
pub fn run(
    options: &Options,
    version: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    if options.time.is_zero() || options.entries.iter().any(|n| *n == 0 || *n > ENTRIES_MAX) {
        bail!("lists of 1 to {ENTRIES_MAX} entries, and more than no time");
    }
    let folder = tempfile::tempdir_in(&options.folder)
        .with_context(|| format!("cannot make a folder in {}", options.folder.display()))?;
    let lag = LagProbe::start()?;
    let watch = Watch::start();
    let misses = composed::misses(URLS_MAX);
    let canonical_per_second = canonical_rate(&misses, options.time);
    let misses: Vec<CanonicalUrl> = misses.iter().filter_map(|url| canonical(url)).collect();
    let mut lists = Vec::new();
    for entries in &options.entries {
        progress(&format!("composing a list of {entries} entries"));
        let path = folder.path().join("composed.txt");
        composed::write(&path, *entries).context("cannot write a list")?;
        let sources = sources::collect(&path, None, None)?.files;
        let hits = composed::hits(*entries, URLS_MAX);
        let case = Case { name: "composed".to_owned(), sources, hits };
        lists.push(measure(&case, &misses, options, folder.path(), progress)?);
    }
    if let Some(path) = &options.list {
        let sources = sources::collect(path, None, None)?.files;
        let hits = lines_of(&sources)?;
        let case = Case { name: path.display().to_string(), sources, hits };
        lists.push(measure(&case, &misses, options, folder.path(), progress)?);
    }
    let health = watch.stop(1, &lag.stop()?);
    Ok(Report {
        lists,
        canonical_per_second,
        invalid: health::disturbed(&health),
        health,
        manifest: Manifest::here(version),
    })
}

/// Lines of a list that are URLs, evenly from all of it.
fn lines_of(sources: &[Source]) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for source in sources {
        let text = std::fs::read(&source.path)
            .with_context(|| format!("cannot read {}", source.path.display()))?;
        let text = String::from_utf8_lossy(&text);
        let urls = text.lines().filter(|line| canonical(line).is_some());
        all.extend(urls.map(str::to_owned));
    }
    let step = (all.len() / URLS_MAX).max(1);
    Ok(all.into_iter().step_by(step).collect())
}

fn canonical_rate(urls: &[String], time: Duration) -> f64 {
    let (start, mut count) = (Instant::now(), 0_usize);
    for batch in urls.chunks(BATCH) {
        batch.iter().for_each(|url| drop(black_box(canonical(url))));
        count += batch.len();
        if start.elapsed() > time {
            break;
        }
    }
    count as f64 / start.elapsed().as_secs_f64()
}

fn measure(
    case: &Case,
    misses: &[CanonicalUrl],
    options: &Options,
    folder: &Path,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Figures> {
    progress(&format!("compiling {}", case.name));
    let out = folder.join("list.urls");
    usage::forget_peak_rss();
    let start = Instant::now();
    let (built, _) = compile(&case.sources, &out)?;
    let build_seconds = start.elapsed().as_secs_f64();
    let build_peak_bytes = usage::status_bytes("VmHWM");
    let before = usage::status_bytes("RssAnon");
    let start = Instant::now();
    let list = UrlList::open(&out, "list", Role::Match)?;
    let open_ms = start.elapsed().as_secs_f64() * 1e3;
    let lists = UrlLists::new(vec![Arc::new(list)]);
    let after = usage::status_bytes("RssAnon");
    progress("looking up");
    let hits: Vec<CanonicalUrl> = case.hits.iter().filter_map(|url| canonical(url)).collect();
    let (mut hit_rates, mut miss_rates) = (Vec::new(), Vec::new());
    let (mut found, mut found_of_misses) = (None, 0.0);
    for _ in 0..options.rounds.clamp(1, ROUNDS_MAX) {
        if !hits.is_empty() {
            let (rate, share) = rate(&lists, &hits, options.time);
            hit_rates.push(rate);
            found = Some(share);
        }
        let (rate, share) = rate(&lists, misses, options.time);
        miss_rates.push(rate);
        found_of_misses = share;
    }
    progress("looking up as others do");
    let text = others::text_of(&case.sources)?;
    let text = text.as_deref();
    Ok(Figures {
        list: case.name.clone(),
        entries: built.entries,
        build_seconds,
        build_peak_bytes,
        open_ms,
        file_bytes: built.file_bytes,
        anonymous_bytes: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
        hits_per_second: Estimate::of(&hit_rates),
        misses_per_second: Estimate::of(&miss_rates).context("no run was made")?,
        found,
        found_of_misses,
        scan_per_second: text.map(|text| others::scan_rate(text, misses, options.time)),
        sorted_per_second: text.map(|text| others::sorted_rate(text, misses, options.time)),
        squidguard_per_second: match text {
            Some(text) => others::squidguard_rate(text, misses, folder)?,
            None => None,
        },
    })
}

/// Look-ups a second, and the share of them that found something.
fn rate(lists: &UrlLists, urls: &[CanonicalUrl], time: Duration) -> (f64, f64) {
    let (start, mut count, mut found) = (Instant::now(), 0_usize, 0_usize);
    while start.elapsed() < time {
        for batch in urls.chunks(BATCH) {
            found += batch.iter().filter(|url| !black_box(lists.look_up(url)).is_empty()).count();
            count += batch.len();
            if start.elapsed() >= time {
                break;
            }
        }
    }
    (count as f64 / start.elapsed().as_secs_f64(), found as f64 / count.max(1) as f64)
}

/// Heads of the columns.
const COLUMNS: [&str; 12] = [
    "list",
    "entries",
    "hits M/s",
    "misses M/s",
    "line by line, /s",
    "sorted M/s",
    "squidGuard /s",
    "compiled s",
    "peak MB",
    "opened ms",
    "file MB",
    "own MB",
];

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    let mut table = Table::new("Lists of URLs, one thread", &COLUMNS);
    let or_not = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let millions = |rate: &Estimate| {
        let million = |value: f64| value / 1e6;
        let (low, high) = (rate.low.map(million), rate.high.map(million));
        estimate(&Estimate { mean: million(rate.mean), low, high })
    };
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    table.rows = report
        .lists
        .iter()
        .map(|l| {
            vec![
                l.list.clone(),
                l.entries.to_string(),
                or_not(l.hits_per_second.as_ref().map(millions)),
                millions(&l.misses_per_second),
                or_not(l.scan_per_second.map(|rate| format!("{rate:.0}"))),
                or_not(l.sorted_per_second.map(|rate| format!("{:.2}", rate / 1e6))),
                or_not(l.squidguard_per_second.map(|rate| format!("{rate:.0}"))),
                format!("{:.2}", l.build_seconds),
                or_not(l.build_peak_bytes.map(megabytes)),
                format!("{:.1}", l.open_ms),
                megabytes(l.file_bytes),
                or_not(l.anonymous_bytes.map(megabytes)),
            ]
        })
        .collect();
    table.notes = vec![
        "hits, misses: look-ups of URLs in canonical form, that the list has and has not; of misses: \
         line by line: each line of the text is searched for in the URL; sorted: its hosts and \
         domains by halves; squidGuard: the program itself with these"
            .to_owned(),
        "peak: resident memory while compiling, pages of mapped files included; opened: every byte \
         is checked; own: memory of the open list beside the mapped file"
            .to_owned(),
        format!("canonical form: {:.2} M URLs/s", report.canonical_per_second / 1e6),
    ];
    for list in &report.lists {
        let found = list.found.map(|share| format!("{:.2} % of hits and ", share * 100.0));
        table.notes.push(format!(
            "{} of {} entries: {}{:.2} % of misses were found",
            list.list,
            list.entries,
            found.unwrap_or_default(),
            list.found_of_misses * 100.0
        ));
    }
    Page {
        title: "Lists of URLs".to_owned(),
        invalid: report.invalid.clone(),
        tables: vec![table],
        charts: Vec::new(),
        manifest: report.manifest.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composed_lists_are_measured() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        std::fs::write(&list, "evil.example\nhttp://a.example/x\n").unwrap();
        let options = Options {
            folder: folder.path().to_owned(),
            entries: vec![2_000],
            list: Some(list),
            time: Duration::from_millis(20),
            rounds: 2,
        };
        let report = run(&options, "0", &mut |_| {}).unwrap();
        assert_eq!(report.lists.len(), 2);
        for list in &report.lists {
            assert_eq!(list.found, Some(1.0), "{list:?}");
            assert_eq!(list.found_of_misses, 0.0, "{list:?}");
            assert!(list.misses_per_second.mean > 0.0 && list.scan_per_second.is_some());
        }
        assert_eq!((report.lists[0].entries, report.lists[1].entries), (2_000, 2));
        let text = sheet(&report).text();
        assert!(text.contains("composed") && text.contains("M URLs/s"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "it tidies up");
        let none = Options { entries: vec![0], ..options };
        assert!(run(&none, "0", &mut |_| {}).is_err());
    }
}
