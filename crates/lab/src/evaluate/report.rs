//! An evaluation as a page with drawings: one HTML file that needs no other, and the drawings by
//! themselves as SVG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use gauntlet_bench::plot;
use gauntlet_bench::report::Chart;
use gauntlet_engine::classifier::metrics::{Ranking, Scored};

use super::chart::{self, Line};

/// What one filter, or one source, came to.
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) scored: &'a [Scored],
}

/// A table: column names, and rows of as many cells.
pub(crate) struct Table {
    pub(crate) caption: &'static str,
    /// Names of the columns.
    pub(crate) columns: Vec<String>,
    /// The first cell of a row names it.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Series that are drawn; more are not distinct.
const SERIES_MAX: usize = 6;

/// Writes `report.html`, and `roc` and one `scores-NAME` a series as `.svg`, into the folder.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn write(
    folder: &Path,
    title: &str,
    series: &[Series<'_>],
    tables: &[Table],
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let drawn = &series[..series.len().min(SERIES_MAX)];
    let lines: Vec<Line> = drawn
        .iter()
        .filter(|s| s.scored.iter().any(|m| m.spam) && s.scored.iter().any(|m| !m.spam))
        .map(|s| Line { name: s.name.to_owned(), points: Ranking::new(s.scored).roc() })
        .collect();
    let mut charts = vec![Chart { name: "roc".to_owned(), drawing: chart::roc(&lines) }];
    charts.extend(drawn.iter().map(|s| Chart {
        name: format!("scores-{}", file_name(s.name)),
        drawing: chart::histogram(s.name, s.scored),
    }));
    charts.iter().try_for_each(|chart| chart.write(folder))?;
    let mut figures = charts.iter().map(|c| format!("<figure>{}</figure>\n", c.drawing.svg()));
    let mut body = String::new();
    for table in tables {
        body.push_str(&html(table));
    }
    let _ = write!(
        body,
        "<h2>ROC curve</h2>\n<p>For every threshold: the share of spam that is caught, against the \
         share of ham that is called spam. Both axes are stretched where it matters.</p>\n\
         {}<h2>Scores</h2>\n<p>Messages by score; the columns grow with \
         the logarithm of their number. Above 0 is spam.</p>\n",
        figures.next().unwrap_or_default()
    );
    body.extend(figures);
    let path = folder.join("report.html");
    std::fs::write(&path, plot::page(title, &body))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// The table as HTML.
pub(crate) fn html(table: &Table) -> String {
    let mut out = format!("<table><caption>{}</caption>\n<tr>", plot::escape(table.caption));
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", plot::escape(column));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            let _ = write!(out, "<{tag}>{}</{tag}>", plot::escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_alone() {
        let folder = tempfile::tempdir().unwrap();
        let scored: Vec<Scored> =
            (0..200).map(|i| Scored { score: f64::from(i) - 90.0, spam: i >= 100 }).collect();
        let series = [Series { name: "ours <1>", scored: &scored }];
        let tables = [Table {
            caption: "Measures",
            columns: vec!["".into(), "ours".into()],
            rows: vec![vec!["(1-ROCA)%".into(), "0".into()]],
        }];
        write(folder.path(), "A & B", &series, &tables).unwrap();
        let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
        assert!(page.contains("<title>A &amp; B</title>") && page.contains("ours &lt;1&gt;"));
        assert!(!page.contains("src=") && !page.contains("href="), "nothing from elsewhere");
        assert_eq!(page.matches("<svg").count(), 2);
        for name in ["roc", "scores-ours__1_"] {
            assert!(folder.path().join(format!("{name}.svg")).exists());
        }
    }
}
