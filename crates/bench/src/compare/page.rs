//! A comparison as text, as a Markdown table, and as one self-contained HTML page.

use std::fmt::Write as _;

use super::{Contest, Entry, Judged, Report};
use crate::load::page::estimate;
use crate::load::trial::Estimate;
use crate::plot;

/// Heads of the columns.
const COLUMNS: [&str; 8] = [
    "program",
    "messages/s",
    "CPU µs a message",
    "the peer's CPU beside it",
    "memory MB",
    "median ms",
    "99 % ms",
    "spam caught; ham called spam",
];

/// Heads of the columns of what CPU time was spent on.
const SHARES: [&str; 7] = [
    "CPU µs a message of",
    "receiving",
    "scanning",
    "storing",
    "logging",
    "passing on",
    "all else",
];

/// The tables in Markdown, with what they were measured on: what a README quotes.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for contest in &report.contests {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "**{}**\n\n| {} |", title(contest), COLUMNS.join(" | "));
        let _ = writeln!(out, "|{}", "---|".repeat(COLUMNS.len()));
        for entry in &contest.entries {
            let _ = writeln!(out, "| {} |", cells(entry).join(" | "));
        }
        out.push('\n');
        let rows = share_rows(contest);
        if !rows.is_empty() {
            let _ = writeln!(out, "| {} |", SHARES.join(" | "));
            let _ = writeln!(out, "|{}", "---|".repeat(SHARES.len()));
            for row in rows {
                let _ = writeln!(out, "| {} |", row.join(" | "));
            }
            out.push('\n');
        }
        for note in notes(contest) {
            let _ = writeln!(out, "- {note}");
        }
        out.push('\n');
    }
    for condition in conditions(report) {
        let _ = writeln!(out, "- {condition}");
    }
    out
}

/// The report as an HTML page.
pub fn html(report: &Report) -> String {
    let mut body = String::new();
    for contest in &report.contests {
        let heads: String = COLUMNS.iter().map(|c| format!("<th>{c}</th>")).collect();
        let _ =
            write!(body, "<h2>{}</h2>\n<table><tr>{heads}</tr>\n", plot::escape(&title(contest)));
        for entry in &contest.entries {
            let cells = cells(entry);
            let cells = cells.iter().map(|c| format!("<td>{}</td>", plot::escape(c)));
            let _ = writeln!(body, "<tr>{}</tr>", cells.collect::<String>());
        }
        let rows = share_rows(contest);
        if !rows.is_empty() {
            let heads: String = SHARES.iter().map(|c| format!("<th>{c}</th>")).collect();
            let _ = write!(body, "</table>\n<table><tr>{heads}</tr>\n");
            for row in rows {
                let cells = row.iter().map(|c| format!("<td>{}</td>", plot::escape(c)));
                let _ = writeln!(body, "<tr>{}</tr>", cells.collect::<String>());
            }
        }
        let notes = notes(contest);
        let notes = notes.iter().map(|n| format!("<li>{}</li>\n", plot::escape(n)));
        let _ = write!(body, "</table>\n<ul>{}</ul>\n", notes.collect::<String>());
    }
    let conditions = conditions(report);
    let conditions = conditions.iter().map(|c| format!("<li>{}</li>\n", plot::escape(c)));
    let _ = write!(body, "<h2>Conditions</h2>\n<ul>{}</ul>\n", conditions.collect::<String>());
    plot::page("Beside peers", &body)
}

fn title(contest: &Contest) -> String {
    let connections = match contest.connections {
        0 => String::new(),
        n => format!(", {n} connections in closed loop"),
    };
    format!("{:?}: {}{connections}", contest.peer, contest.job)
}

fn cells(entry: &Entry) -> [String; 8] {
    let dash = || "–".to_owned();
    let ms = |us: Option<f64>| us.map_or_else(dash, |us| format!("{:.1}", us / 1e3));
    [
        entry.name.clone(),
        estimate(&entry.messages_per_second),
        entry.cpu_us_per_message.as_ref().map_or_else(dash, estimate),
        entry.peer_cpu_ratio.as_ref().map_or_else(dash, times),
        entry.memory_bytes.map_or_else(dash, |bytes| format!("{:.0}", bytes as f64 / 1e6)),
        ms(entry.latency.map(|l| l.p50_us)),
        ms(entry.latency.map(|l| l.p99_us)),
        entry.judged.as_ref().map_or_else(dash, judged),
    ]
}

/// What the CPU time of each node of ours was spent on.
fn share_rows(contest: &Contest) -> Vec<[String; 7]> {
    let row = |entry: &Entry| {
        let s = entry.shares.as_ref()?;
        let [receiving, scanning, storing, logging, passing_on, other] =
            [s.receiving, s.scanning, s.storing, s.logging, s.passing_on, s.other]
                .map(|value| format!("{:.0}", value.mean));
        let name = entry.name.clone();
        Some([name, receiving, scanning, storing, logging, passing_on, other])
    };
    contest.entries.iter().filter_map(row).collect()
}

/// `12.3 (11.9 to 12.8) times`.
fn times(ratio: &Estimate) -> String {
    format!("{} times", estimate(ratio))
}

/// `88.8 % (2,100 of 2,365); 0.20 % (7 of 3,500)`.
fn judged(judged: &Judged) -> String {
    let part = |some: u64, all: u64| {
        if all == 0 {
            return "none shown".to_owned();
        }
        format!("{:.2} % ({some} of {all})", 100.0 * some as f64 / all as f64)
    };
    format!(
        "{}; {}",
        part(judged.spam_caught, judged.spam),
        part(judged.ham_called_spam, judged.ham)
    )
}

/// How each was set up, and what is wrong with the figures.
fn notes(contest: &Contest) -> Vec<String> {
    let entry = |entry: &Entry| {
        let setting = format!("{} ({}): {}", entry.name, entry.version, entry.notes.join("; "));
        let invalid = entry.invalid.iter().map(|why| format!("{}: INVALID: {why}", entry.name));
        [setting].into_iter().chain(invalid).collect::<Vec<_>>()
    };
    let ceiling = contest.ceiling.map(|rate| {
        format!("this client alone, against a server that does nothing: {rate:.0} messages/s")
    });
    contest.entries.iter().flat_map(entry).chain(ceiling).collect()
}

fn conditions(report: &Report) -> Vec<String> {
    let (m, w) = (&report.manifest, &report.workload);
    let mut lines = vec![
        format!(
            "{}, {} messages, {:.1} MB ({})",
            report.date,
            w.messages,
            w.bytes as f64 / 1e6,
            w.hash
        ),
        format!("{}, {} CPUs, {}, kernel {}", m.cpu_model, m.cpus, m.system, m.kernel),
        format!(
            "gauntlet {} build {}, commit {}, governor {}",
            m.version, m.build, m.commit, m.governor
        ),
        "client and servers share the machine; runs in turn; ratios by run; 95 % intervals".into(),
    ];
    lines.push(report.judged.clone().unwrap_or_else(|| {
        "verdicts were not counted: --judge DIR names labelled mail that no model has seen".into()
    }));
    if !m.optimised {
        lines.push("INVALID: this program was built without optimisation".to_owned());
    }
    lines.extend(report.missing.iter().map(|why| format!("not measured: {why}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_name_their_counts() {
        let some = Judged { spam: 8, spam_caught: 7, ham: 0, ham_called_spam: 0 };
        assert_eq!(judged(&some), "87.50 % (7 of 8); none shown");
    }
}
