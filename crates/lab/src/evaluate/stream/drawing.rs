//! A stream as a page: what is caught and what is called spam wrongly, over time.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use gauntlet_bench::plot::{self, Axis, Line, Scale};
use gauntlet_bench::report::Chart;

use super::figures::{Part, Run};
use super::mailbox::Mailbox;
use super::output::{COLUMNS, cells, place};
use crate::evaluate::report::{Table, html};

/// Lines of a drawing; more are not distinct.
const LINES_MAX: usize = 6;

/// Writes `report.html`, `caught.svg` and `false-positives.svg` into the folder.
pub(super) fn write(folder: &Path, mailbox: &Mailbox, runs: &[Run]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let charts = [
        chart(("caught", "Spam caught, % of a block"), runs, |part| part.caught.percent),
        chart(("false-positives", "Good mail called spam, % of a block"), runs, |part| {
            part.false_positives.percent
        }),
    ];
    charts.iter().try_for_each(|chart| chart.write(folder))?;
    let mut body = String::new();
    for chart in &charts {
        let _ = writeln!(body, "<figure>{}</figure>", chart.drawing.svg());
    }
    body.push_str(&html(&table("Second half", runs, |run| &run.second_half)));
    body.push_str(&html(&table("All of it", runs, |run| &run.all)));
    for run in runs {
        let rows = run.blocks.iter().map(|part| row(place(part), part)).collect();
        let _ = write!(body, "<h2>{}</h2>\n<p>{}</p>\n", escaped(&run.name()), escaped(&run.about));
        body.push_str(&html(&Table { caption: "By block", columns: columns(), rows }));
    }
    let path = folder.join("report.html");
    let title = format!("A mailbox as it comes: {}", mailbox.name);
    std::fs::write(&path, plot::page(&title, &body))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn escaped(text: &str) -> String {
    plot::escape(text)
}

fn columns() -> Vec<String> {
    [""].into_iter().chain(COLUMNS).map(str::to_owned).collect()
}

fn row(name: String, part: &Part) -> Vec<String> {
    [name].into_iter().chain(cells(part)).collect()
}

fn table(caption: &'static str, runs: &[Run], part: fn(&Run) -> &Part) -> Table {
    let rows = runs.iter().map(|run| row(run.name(), part(run))).collect();
    Table { caption, columns: columns(), rows }
}

fn chart((name, title): (&str, &str), runs: &[Run], of: fn(&Part) -> f64) -> Chart {
    let line = |run: &Run| Line {
        name: run.name(),
        points: drawn(run).map(|part| (part.to as f64, of(part))).collect(),
    };
    let lines: Vec<Line> = runs.iter().take(LINES_MAX).map(line).collect();
    let across = Axis { name: "messages judged", scale: Scale::Linear };
    let up = Axis { name: "%", scale: Scale::Linear };
    Chart { name: name.to_owned(), drawing: plot::chart(title, across, up, &lines) }
}

/// The blocks that a curve shows: a last one of a few messages would be a leap that says nothing.
fn drawn(run: &Run) -> impl Iterator<Item = &Part> {
    let size = |part: &Part| part.to - part.from;
    let half = run.blocks.first().map_or(0, size) / 2;
    run.blocks.iter().filter(move |part| size(part) >= half)
}
