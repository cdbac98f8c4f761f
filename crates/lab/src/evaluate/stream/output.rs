//! What a stream prints.

use std::io::{self, Write};

use serde::Serialize;

use super::Common;
use super::figures::{AtRate, Part, Run, Share};
use super::mailbox::Mailbox;

/// The JSON object that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    stream: &'a str,
    messages: usize,
    spam: usize,
    left_out: usize,
    seed: u64,
    runs: &'a [Run],
}

/// Prints all runs: a JSON object, or tables that can stand in a document.
pub(super) fn print(mailbox: &Mailbox, runs: &[Run], common: &Common<'_>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if common.json {
        let report = Report {
            stream: &mailbox.name,
            messages: mailbox.mail.len(),
            spam: mailbox.mail.iter().filter(|m| m.spam).count(),
            left_out: mailbox.left_out,
            seed: common.seed,
            runs,
        };
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    for run in runs {
        writeln!(out, "{}\n", run.name())?;
        table(&mut out, run.blocks.iter().map(|part| (place(part), part)))?;
        writeln!(out)?;
    }
    writeln!(out, "Second half of the stream\n")?;
    table(&mut out, runs.iter().map(|run| (run.name(), &run.second_half)))?;
    writeln!(out, "\nAll of it\n")?;
    table(&mut out, runs.iter().map(|run| (run.name(), &run.all)))?;
    writeln!(out)?;
    for run in runs {
        writeln!(out, "{}: {}", run.name(), run.about)?;
    }
    Ok(())
}

pub(super) fn place(part: &Part) -> String {
    format!("{} to {}", part.from, part.to)
}

/// Names of the columns behind the first.
pub(super) const COLUMNS: [&str; 8] = [
    "known",
    "caught",
    "false positives",
    "caught or suspect",
    "ham suspect",
    "by score at 1 %",
    "at 5 %",
    "(1-ROCA)%",
];

/// The cells of a row behind the first.
pub(super) fn cells(part: &Part) -> [String; 8] {
    [
        part.known.to_string(),
        share(&part.caught),
        share(&part.false_positives),
        share(&part.caught_or_suspect),
        share(&part.ham_suspect),
        at_rate(&part.by_score_at_1_percent),
        at_rate(&part.by_score_at_5_percent),
        format!("{:.2}", part.one_minus_roca_percent),
    ]
}

fn share(share: &Share) -> String {
    match share.of {
        0 => String::new(),
        of => format!(
            "{} of {of} = {:.1} % ({:.1} to {:.1})",
            share.count, share.percent, share.low, share.high
        ),
    }
}

fn at_rate(rate: &AtRate) -> String {
    match &rate.interval {
        Some(i) => format!("{:.1} % ({:.1} to {:.1})", rate.percent, i.low, i.high),
        None => format!("{:.1} %", rate.percent),
    }
}

fn table<'a>(
    out: &mut impl Write,
    rows: impl Iterator<Item = (String, &'a Part)>,
) -> io::Result<()> {
    writeln!(out, "| | {} |", COLUMNS.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(COLUMNS.len()))?;
    for (name, part) in rows {
        writeln!(out, "| {name} | {} |", cells(part).join(" | "))?;
    }
    Ok(())
}
