//! A measurement of the store as tables and charts.

use super::{Entry, Report};
use crate::load::page::estimate;
use crate::plot::{self, Axis, Line, Scale};
use crate::report::{Chart, Page, Table};

/// Lines of the chart at most.
const LINES_MAX: usize = 6;

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    let mut table = Table::new(
        &format!("Spool and message log, {} s a run", report.seconds),
        &[
            "case",
            "messages/s",
            "beside the first",
            "store's CPU us",
            "all CPU us",
            "syncs/s",
            "messages a sync",
            "median ms",
            "99 % ms",
            "99.9 % ms",
            "client's ceiling",
        ],
    );
    table.rows = report.entries.iter().map(cells).collect();
    table.notes = vec![
        "a message counts when it is durable, logged and marked done; writers in closed loop"
            .into(),
        "syncs: fdatasync and fsync of the spool, transactions of the log (checkpoints apart)"
            .into(),
        "the store's CPU is that of the threads of spool and log; all CPU has the writers'".into(),
        "the client's ceiling: the same writers against a store that only answers, messages/s"
            .into(),
    ];
    table.notes.extend(report.missing.iter().map(|why| format!("not measured: {why}")));
    let invalid = report.entries.iter().flat_map(|entry| {
        let reasons = entry.runs.iter().flat_map(|run| &run.invalid);
        reasons.map(|why| format!("{}: {why}", entry.case.name()))
    });
    Page {
        title: "Spool and message log".to_owned(),
        invalid: invalid.collect(),
        tables: vec![table],
        charts: charts(&report.entries),
        manifest: report.manifest.clone(),
    }
}

fn cells(entry: &Entry) -> Vec<String> {
    let ms = |us: f64| format!("{:.2}", us / 1e3);
    let l = &entry.latency;
    vec![
        entry.case.name(),
        estimate(&entry.messages_per_second),
        entry.rate_over_first.as_ref().map(estimate).unwrap_or_default(),
        estimate(&entry.store_cpu_us),
        estimate(&entry.cpu_us),
        format!("{:.0}", entry.syncs_per_second),
        format!("{:.1}", entry.messages_per_sync),
        ms(l.p50_us),
        ms(l.p99_us),
        ms(l.p999_us),
        format!("{:.0}", entry.ceiling),
    ]
}

/// Messages/s by writers, a line for each other setting; if there are several numbers of writers.
fn charts(entries: &[Entry]) -> Vec<Chart> {
    let mut lines: Vec<Line> = Vec::new();
    for entry in entries {
        let case = &entry.case;
        let name = format!("{} {} {}/{}", case.kept(), case.what(), case.batch, case.bytes);
        let point = (case.writers as f64, entry.messages_per_second.mean);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, points: vec![point] }),
        }
    }
    lines.retain(|line| line.points.len() > 1);
    if lines.is_empty() {
        return Vec::new();
    }
    // So many lines of a chart are distinct; more of them make a further chart.
    let chart = |(number, lines): (usize, &[Line])| Chart {
        name: format!("writers-{}", number + 1),
        drawing: plot::chart(
            "Messages/s by writers (batch/bytes)",
            Axis { name: "writers", scale: Scale::Logarithmic },
            Axis { name: "messages/s", scale: Scale::Linear },
            lines,
        ),
    };
    lines.chunks(LINES_MAX).enumerate().map(chart).collect()
}
