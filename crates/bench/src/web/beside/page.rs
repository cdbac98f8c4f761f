//! Proxies beside each other as tables.

use super::download::Downloads;
use super::{Contest, Entry, Report};
use crate::http::page::milliseconds;
use crate::load::page::estimate;
use crate::load::trial::Estimate;
use crate::report::{Page, Table};

const COLUMNS: [&str; 10] = [
    "proxy",
    "requests/s",
    "requests/CPU s",
    "median",
    "beside the peer",
    "requests/s beside it",
    "memory MB",
    "99 % ms",
    "at half load: median ms",
    "99 % ms",
];

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    let mut tables: Vec<Table> = report.contests.iter().map(table).collect();
    tables.extend(report.downloads.iter().map(downloads));
    let mut notes = vec![
        format!("{}, a list of {} domains, origin {}", report.date, report.entries, report.origin),
        "client, origin and proxies share the machine; runs in turn; ratios by run with 95 % \
         intervals; every peer and we blocked 100 hosts of the list, and no other, before"
            .to_owned(),
        "half load: half of what the slower of the contest does, in open loop, from when a request \
         was due"
            .to_owned(),
    ];
    notes.extend(report.missing.iter().map(|why| format!("not measured: {why}")));
    match tables.last_mut() {
        Some(last) => last.notes.extend(notes),
        None => tables.push(Table { notes, ..Table::new("Nothing was measured", &[]) }),
    }
    let invalid = |contest: &Contest| {
        let entry = |entry: &Entry| {
            let of = |why: &String| format!("{}: {}: {why}", contest.job, entry.name);
            entry.invalid.iter().map(of).collect::<Vec<_>>()
        };
        contest.entries.iter().flat_map(entry).collect::<Vec<_>>()
    };
    Page {
        title: "Proxies beside each other".to_owned(),
        invalid: report.contests.iter().flat_map(invalid).collect(),
        tables,
        charts: Vec::new(),
        manifest: report.manifest.clone(),
    }
}

fn downloads(downloads: &Downloads) -> Table {
    let Downloads { peer, bytes, direct, entries } = downloads;
    let title = format!("{peer:?}: one download of {bytes} bytes");
    let mut table = Table::new(&title, &["proxy", "MB/s", "of that without a proxy"]);
    table.rows = vec![vec!["none".to_owned(), estimate(direct), String::new()]];
    table.rows.extend(entries.iter().map(|entry| {
        let share = entry.of_direct.as_ref();
        let share = share.map_or_else(|| "-".to_owned(), |s| format!("{} times", estimate(s)));
        vec![entry.name.clone(), estimate(&entry.megabytes_per_second), share]
    }));
    table
}

fn table(contest: &Contest) -> Table {
    let Contest { peer, job, connections, .. } = contest;
    let title = format!("{peer:?}: {job}, {connections} connections");
    let mut table = Table::new(&title, &COLUMNS);
    let or_not = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let times = |ratio: &Estimate| format!("{} times", estimate(ratio));
    let row = |entry: &Entry| {
        vec![
            entry.name.clone(),
            estimate(&entry.requests_per_second),
            or_not(entry.requests_per_cpu_second.as_ref().map(estimate)),
            or_not(entry.requests_per_cpu_second_median.map(|m| format!("{m:.0}"))),
            or_not(entry.cpu_second_ratio.as_ref().map(times)),
            or_not(entry.rate_ratio.as_ref().map(times)),
            or_not(entry.memory_bytes.map(|bytes| format!("{:.0}", bytes as f64 / 1e6))),
            milliseconds(entry.latency.p99_us),
            milliseconds(entry.half_load.p50_us),
            milliseconds(entry.half_load.p99_us),
        ]
    };
    table.rows = contest.entries.iter().map(row).collect();
    let setting = |e: &Entry| format!("{} ({}): {}", e.name, e.version, e.notes.join("; "));
    table.notes = contest.entries.iter().map(setting).collect();
    table.notes.push(format!(
        "at half load ({:.0} requests/s) without a proxy: median {} ms, 99 % {} ms; this client against a \
         server that does nothing (within TLS: against the origin): {:.0} requests/s",
        contest.half_rate,
        milliseconds(contest.direct.p50_us),
        milliseconds(contest.direct.p99_us),
        contest.ceiling
    ));
    table
}
