//! What an evaluation prints.

use std::collections::BTreeMap;
use std::io::{self, Write};

use gauntlet_engine::classifier::metrics::{
    Interval, MEASURES, Metrics, Ranking, interval, resample,
};
use serde::Serialize;

use super::report::Table;
use super::trec::Run;

/// Measures of one filter.
#[derive(Debug, Serialize)]
struct Measured {
    learner: &'static str,
    #[serde(flatten)]
    metrics: Metrics,
    messages_per_second: f64,
    /// 95 %, by measure.
    intervals: BTreeMap<&'static str, Interval>,
}

/// The JSON object: the first filter's measures at the top, the baseline's and the difference
/// below.
#[derive(Debug, Serialize)]
struct Report<'m> {
    #[serde(flatten)]
    first: &'m Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'m Measured>,
    /// Ours minus the baseline on the same resamples.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    difference: BTreeMap<&'static str, Interval>,
}

/// Prints the measures of one or two filters. Result: the same as a table.
pub(crate) fn trec(runs: &[Run], rounds: u32, seed: u64, json: bool) -> io::Result<Table> {
    let rankings: Vec<Ranking> = runs.iter().map(|r| Ranking::new(&r.scored)).collect();
    let resamples = resample(&rankings.iter().collect::<Vec<_>>(), rounds, seed);
    let column = |i: usize, measure: fn(&Metrics) -> f64| {
        resamples.iter().filter_map(move |row| row.get(i)).map(measure)
    };
    let mut measured = Vec::new();
    for (i, (run, ranking)) in runs.iter().zip(&rankings).enumerate() {
        let intervals =
            MEASURES.iter().map(|&(key, measure)| (key, interval(column(i, measure)))).collect();
        measured.push(Measured {
            learner: run.name,
            metrics: ranking.metrics(),
            messages_per_second: run.scored.len() as f64 / run.spent.as_secs_f64().max(1e-9),
            intervals: if rounds == 0 { BTreeMap::new() } else { intervals },
        });
    }
    let html = as_table(&measured);
    let Some(first) = measured.first() else { return Ok(html) };
    let mut difference = BTreeMap::new();
    if runs.len() > 1 && rounds > 0 {
        for (key, measure) in MEASURES {
            let pairs = column(0, measure).zip(column(1, measure));
            difference.insert(key, interval(pairs.map(|(ours, theirs)| ours - theirs)));
        }
    }
    let report = Report { first, baseline: measured.get(1), difference };
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        table(&mut out, &report)?;
    }
    Ok(html)
}

fn as_table(measured: &[Measured]) -> Table {
    let mut rows = vec![vec!["messages per second".to_owned()]];
    for m in measured {
        rows[0].push(format!("{:.0}", m.messages_per_second));
    }
    for (key, measure) in MEASURES {
        let mut row = vec![key.replace('_', " ")];
        for m in measured {
            let value = measure(&m.metrics);
            row.push(match m.intervals.get(key) {
                Some(i) => format!("{value:.4} ({:.4} to {:.4})", i.low, i.high),
                None => format!("{value:.4}"),
            });
        }
        rows.push(row);
    }
    let mut columns = vec![String::new()];
    columns.extend(measured.iter().map(|m| m.learner.to_owned()));
    Table { caption: "Measures, with 95 % intervals", columns, rows }
}

fn table(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let first = report.first;
    writeln!(out, "{} ham, {} spam", first.metrics.ham, first.metrics.spam)?;
    for measured in [Some(first), report.baseline].into_iter().flatten() {
        writeln!(out, "\n{}, {:.0} messages/s", measured.learner, measured.messages_per_second)?;
        for (key, measure) in MEASURES {
            write!(out, "  {key:<28} {:>9.4}", measure(&measured.metrics))?;
            match measured.intervals.get(key) {
                Some(i) => writeln!(out, "  ({:.4} to {:.4})", i.low, i.high)?,
                None => writeln!(out)?,
            }
        }
    }
    if !report.difference.is_empty() {
        writeln!(out, "\ndefault minus baseline, on the same resamples")?;
        for (key, _) in MEASURES {
            if let Some(i) = report.difference.get(key) {
                writeln!(out, "  {key:<28} {:>+9.4} to {:+.4}", i.low, i.high)?;
            }
        }
    }
    Ok(())
}
