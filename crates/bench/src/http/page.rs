//! Experiments with HTTP as tables and charts.

use super::{Measured, Report, Subject, wrk};
use crate::load::page::estimate;
use crate::plot::{self, Axis, Line, Scale};
use crate::report::{Chart, Page, Table};

/// For the terminal and the page. `price` is that of a kilowatt hour.
pub fn sheet(report: &Report, price: Option<f64>) -> Page {
    let ladders = report.subjects.iter().filter(|s| !s.ladder.is_empty());
    let mut tables = vec![rates(report)];
    tables.extend(ladders.map(concurrency_table));
    tables.extend(download(report));
    tables.push(energy(report, price));
    Page {
        title: "HTTP".to_owned(),
        invalid: invalid(report),
        tables,
        charts: charts(report),
        manifest: report.manifest.clone(),
    }
}

/// Why figures are not the servers'.
pub(crate) fn invalid(report: &Report) -> Vec<String> {
    let of = |subject: &Subject| {
        let reasons = subject.rounds.iter().flat_map(|run| &run.invalid);
        reasons.map(|why| format!("{}: {why}", subject.target.url)).collect::<Vec<_>>()
    };
    let mut invalid: Vec<String> = report.subjects.iter().flat_map(of).collect();
    invalid.extend(report.download.iter().flat_map(|d| d.invalid.clone()));
    invalid
}

/// The comparison with wrk.
pub fn beside_wrk(report: &wrk::Report) -> Page {
    let mut table = Table::new(
        &format!("This client and {} in turn, against a server that does nothing", report.wrk),
        &["round", "requests/s", "CPU us", "wrk's requests/s", "wrk's CPU us"],
    );
    let rows = report.rounds.iter().enumerate().map(|(number, pair)| {
        let mut row = vec![(number + 1).to_string(), format!("{:.0}", pair.ours)];
        row.push(format!("{:.2}", pair.our_cpu_us));
        row.extend([format!("{:.0}", pair.wrks), format!("{:.2}", pair.wrk_cpu_us)]);
        row
    });
    table.rows = rows.collect();
    table.notes = vec![
        format!("requests/s over wrk's: {}", estimate(&report.rate_ratio)),
        format!("wrk's CPU a request over ours: {}", estimate(&report.cpu_ratio)),
    ];
    Page {
        title: "Beside wrk".to_owned(),
        invalid: Vec::new(),
        tables: vec![table],
        charts: Vec::new(),
        manifest: report.manifest.clone(),
    }
}

pub(crate) fn milliseconds(us: f64) -> String {
    format!("{:.2}", us / 1e3)
}

pub(crate) fn rates(report: &Report) -> Table {
    let mut table = Table::new(
        "Requests a second",
        &[
            "server",
            "connections",
            "requests/s",
            "CPU us",
            "requests/CPU s",
            "median ms",
            "90 % ms",
            "99 % ms",
            "99.9 % ms",
            "longest ms",
            "failed",
        ],
    );
    for subject in &report.subjects {
        let (first, l) = (subject.rounds.first(), &subject.latency);
        table.rows.push(vec![
            subject.target.url.clone(),
            first.map(|m| m.connections.to_string()).unwrap_or_default(),
            estimate(&subject.requests_per_second),
            subject.server_cpu_us.as_ref().map_or_else(|| "not read".to_owned(), estimate),
            subject.requests_per_cpu_second.as_ref().map_or_else(String::new, estimate),
            milliseconds(l.p50_us),
            milliseconds(l.p90_us),
            milliseconds(l.p99_us),
            milliseconds(l.p999_us),
            milliseconds(l.max_us),
            subject.rounds.iter().map(|m| m.failed).sum::<u64>().to_string(),
        ]);
        let errors = subject.rounds.iter().flat_map(|m| &m.errors);
        table
            .notes
            .extend(errors.map(|(error, n)| format!("{}: {n} x {error}", subject.target.url)));
        let sum = |of: fn(&Measured) -> u64| subject.rounds.iter().map(of).sum::<u64>();
        for (count, what) in [
            (sum(|m| m.blocked), "were blocked, as they should be"),
            (sum(|m| m.unsent), "were due and could not be begun: all connections were busy"),
        ] {
            if count > 0 {
                table.notes.push(format!("{}: {count} requests {what}", subject.target.url));
            }
        }
    }
    if let Some(ratio) = &report.rate_ratio {
        table.notes.push(format!("the first over the second: {} times", estimate(ratio)));
    }
    if let Some(ratio) = &report.cpu_ratio {
        let text = format!("the same of requests a CPU second: {} times", estimate(ratio));
        table.notes.push(text);
    }
    if let Some(ceiling) = report.ceiling {
        let text =
            format!("this client against a server that does nothing: {ceiling:.0} requests/s");
        table.notes.push(text);
    }
    table
}

pub(crate) fn concurrency_table(subject: &Subject) -> Table {
    let mut table = Table::new(
        &format!("Latency against concurrency: {}", subject.target.url),
        &[
            "connections",
            "requests/s",
            "median ms",
            "99 % ms",
            "longest ms",
            "failed %",
            "of the client",
        ],
    );
    let row = |m: &Measured| {
        let mut row = vec![m.connections.to_string(), format!("{:.0}", m.requests_per_second)];
        row.extend([m.latency.p50_us, m.latency.p99_us, m.latency.max_us].map(milliseconds));
        row.push(format!("{:.2}", m.failed_share() * 100.0));
        row.push(if m.invalid.is_empty() { "" } else { "the client may be the limit" }.to_owned());
        row
    };
    table.rows = subject.ladder.iter().map(row).collect();
    table.notes.push(match subject.half_fails_at {
        Some(connections) => format!("half of the requests failed at {connections} connections"),
        None => "half of the requests failed at no step that was tried".to_owned(),
    });
    table.notes.push(match subject.recovery_seconds {
        Some(seconds) => format!("answered as before {seconds:.2} s after the last step"),
        None => "had not recovered from the last step when the wait was over".to_owned(),
    });
    table
}

pub(crate) fn download(report: &Report) -> Option<Table> {
    let download = report.download.as_ref()?;
    let mut table =
        Table::new("One download", &["file", "MB/s", "CPU seconds a GB", "client's ceiling MB/s"]);
    table.rows.push(vec![
        download.url.clone(),
        estimate(&download.megabytes_per_second),
        match &download.cpu_seconds_per_gigabyte {
            Some(cpu) => format!("{:.3}", cpu.mean),
            None => "unknown".to_owned(),
        },
        download.ceiling.map_or_else(|| "not measured".to_owned(), |c| format!("{c:.0}")),
    ]);
    Some(table)
}

fn energy(report: &Report, price: Option<f64>) -> Table {
    let mut table = Table::new(
        "Energy of the processors, of the whole machine during the last round",
        &["server", "watts", "joules a request", "kWh a year", "cost a year"],
    );
    for subject in &report.subjects {
        let mut row = vec![subject.target.url.clone()];
        match &subject.energy {
            Ok(energy) => {
                let answered = subject.rounds.last().map_or(1, |m| m.answered.max(1));
                row.push(format!("{:.1}", energy.watts));
                row.push(format!("{:.4}", energy.joules / answered as f64));
                row.push(format!("{:.0}", energy.kwh_per_year));
                let cost = price.map(|price| format!("{:.2}", energy.yearly_cost(price)));
                row.push(cost.unwrap_or_else(|| "no price given".to_owned()));
            }
            Err(why) => {
                row.extend(["unknown"; 4].map(str::to_owned));
                table.notes.push(format!("unknown: {why}"));
            }
        }
        table.rows.push(row);
    }
    table.notes.dedup();
    table.notes.extend(report.missing.iter().map(|why| format!("not measured: {why}")));
    table
}

pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let lines = |of: fn(&Measured) -> f64| -> Vec<Line> {
        let line = |subject: &Subject| Line {
            name: subject.target.url.clone(),
            points: subject.ladder.iter().map(|m| (m.connections as f64, of(m))).collect(),
        };
        report.subjects.iter().filter(|s| s.ladder.len() > 1).map(line).collect()
    };
    if lines(|_| 0.0).is_empty() {
        return Vec::new();
    }
    let x = Axis { name: "connections", scale: Scale::Logarithmic };
    let latency = Axis { name: "median ms", scale: Scale::Logarithmic };
    let rate = Axis { name: "requests/s", scale: Scale::Linear };
    let medians = lines(|m| m.latency.p50_us / 1e3);
    let rates = lines(|m| m.requests_per_second);
    vec![
        Chart {
            name: "latency".to_owned(),
            drawing: plot::chart("Latency against concurrency", x, latency, &medians),
        },
        Chart {
            name: "rate".to_owned(),
            drawing: plot::chart("Requests/s against concurrency", x, rate, &rates),
        },
    ]
}
