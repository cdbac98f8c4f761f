//! Accuracy source by source, on mail that the model has not seen.

use std::collections::BTreeMap;
use std::io::{self, Write};

use gauntlet_engine::classifier::Model;
use gauntlet_engine::classifier::metrics::{Metrics, Ranking, Scored, upper_bound_percent};
use serde::Serialize;

use super::report::Table;
use crate::train::corpus::Corpus;

/// Thresholds on the probability that are reported.
pub(crate) const THRESHOLDS: [f64; 3] = [0.5, 0.9, 0.99];

/// What became of one source at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct AtThreshold {
    /// Probability from which a message is called spam.
    pub(crate) threshold: f64,
    /// Ham called spam.
    pub(crate) false_positives: u64,
    /// In per cent of the ham.
    pub(crate) false_positive_percent: f64,
    /// 95 % upper bound of that.
    pub(crate) false_positive_bound_percent: f64,
    /// Spam called spam.
    pub(crate) caught: u64,
    /// In per cent of the spam.
    pub(crate) caught_percent: f64,
    /// 95 % upper bound of the share of spam that is missed.
    pub(crate) missed_bound_percent: f64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct SourceAccuracy {
    pub(crate) source: String,
    /// Measures over thresholds; those that need both classes are 0 without one.
    #[serde(flatten)]
    pub(crate) metrics: Metrics,
    /// At each of [`THRESHOLDS`].
    pub(crate) at: Vec<AtThreshold>,
    /// Log odds and labels.
    #[serde(skip)]
    pub(crate) scored: Vec<Scored>,
}

/// Scores of the messages at these positions of the corpus, by source and for all.
pub(crate) fn measure(corpus: &Corpus, of: &[usize], model: &Model) -> Vec<SourceAccuracy> {
    let mut by_source: BTreeMap<&str, Vec<Scored>> = BTreeMap::new();
    for m in of.iter().filter_map(|&i| corpus.mail.get(i)) {
        let score = model.logit_of(m.example.features(), m.example.ends());
        let name = corpus.sources.get(usize::from(m.example.source)).map_or("", String::as_str);
        by_source.entry(name).or_default().push(Scored { score, spam: m.example.spam });
    }
    let whole: Vec<Scored> = by_source.values().flatten().copied().collect();
    let mut all: Vec<_> = by_source.iter().map(|(name, s)| accuracy(name, s)).collect();
    all.push(accuracy("all", &whole));
    all
}

fn accuracy(source: &str, scored: &[Scored]) -> SourceAccuracy {
    let metrics = Ranking::new(scored).metrics();
    let percent = |n: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * n as f64 / of as f64 };
    let at = THRESHOLDS.map(|threshold| {
        let logit = (threshold / (1.0 - threshold)).ln();
        let over =
            |spam| scored.iter().filter(|s| s.spam == spam && s.score >= logit).count() as u64;
        let (false_positives, caught) = (over(false), over(true));
        AtThreshold {
            threshold,
            false_positives,
            false_positive_percent: percent(false_positives, metrics.ham),
            false_positive_bound_percent: upper_bound_percent(false_positives, metrics.ham),
            caught,
            caught_percent: percent(caught, metrics.spam),
            missed_bound_percent: upper_bound_percent(metrics.spam - caught, metrics.spam),
        }
    });
    SourceAccuracy { source: source.to_owned(), metrics, at: at.to_vec(), scored: scored.to_vec() }
}

/// The same as a table for a page.
pub(crate) fn html(rows: &[SourceAccuracy]) -> Table {
    let columns = [
        "source",
        "threshold",
        "ham",
        "called spam",
        "in %",
        "95 % bound",
        "spam",
        "caught",
        "in %",
    ];
    let of_row = |row: &SourceAccuracy| {
        let (source, m) = (row.source.clone(), row.metrics);
        row.at.clone().into_iter().map(move |at| {
            vec![
                source.clone(),
                at.threshold.to_string(),
                m.ham.to_string(),
                at.false_positives.to_string(),
                format!("{:.2}", at.false_positive_percent),
                format!("{:.2}", at.false_positive_bound_percent),
                m.spam.to_string(),
                at.caught.to_string(),
                format!("{:.2}", at.caught_percent),
            ]
        })
    };
    Table {
        caption: "By source, at thresholds on the probability",
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().flat_map(of_row).collect(),
    }
}

/// Prints a table, as Markdown so that it can stand in a document.
pub(crate) fn table(out: &mut impl Write, rows: &[SourceAccuracy]) -> io::Result<()> {
    writeln!(out, "| Source | Ham | Called spam (95 % bound) | Spam | Caught | Threshold |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|")?;
    for row in rows {
        for at in &row.at {
            let ham = match row.metrics.ham {
                0 => "".to_owned(),
                _ => format!(
                    "{} = {:.2} % ({:.2} %)",
                    at.false_positives, at.false_positive_percent, at.false_positive_bound_percent
                ),
            };
            let spam = match row.metrics.spam {
                0 => "".to_owned(),
                _ => format!("{} = {:.2} %", at.caught, at.caught_percent),
            };
            writeln!(
                out,
                "| {} | {} | {ham} | {} | {spam} | {} |",
                row.source, row.metrics.ham, row.metrics.spam, at.threshold
            )?;
        }
    }
    writeln!(out)?;
    writeln!(out, "| Source | (1-ROCA)% | Caught at 1 % | at 0.1 % |")?;
    writeln!(out, "|---|---:|---:|---:|")?;
    for row in rows.iter().filter(|r| r.metrics.ham > 0 && r.metrics.spam > 0) {
        let m = &row.metrics;
        writeln!(
            out,
            "| {} | {:.4} | {:.2} % | {:.2} % |",
            row.source,
            m.one_minus_roca_percent,
            m.caught_at_fp_1_percent,
            m.caught_at_fp_0_1_percent
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bounds_at_a_threshold() {
        let scored: Vec<Scored> =
            (0..100).map(|i| Scored { score: f64::from(i) - 50.0, spam: i >= 50 }).collect();
        let row = accuracy("x", &scored);
        let half = row.at[0];
        assert_eq!((half.false_positives, half.caught), (0, 50));
        assert!((half.false_positive_bound_percent - 5.816).abs() < 0.01, "1 - 0.05^(1/50)");
        assert_eq!(row.at[2].caught, 45, "logit 4.6: scores 5 to 49");
    }
}
