//! An evaluation as a page with drawings: one HTML file that needs no other, and the drawings by
//! themselves as SVG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use gauntlet_engine::classifier::metrics::{Ranking, Scored};

use super::draw::{self, Line};

/// What one filter, or one source, came to.
pub(crate) struct Series<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Scores and labels.
    pub(crate) scored: &'a [Scored],
}

/// A table: column names, and rows of as many cells.
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: &'static str,
    /// Names of the columns.
    pub(crate) columns: Vec<String>,
    /// The first cell of a row names it.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Series that are drawn; more cannot be told apart.
const SERIES_MAX: usize = 6;

/// Writes `report.html`, `roc.svg` and one `scores-NAME.svg` a series into the folder.
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
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let drawn = &series[..series.len().min(SERIES_MAX)];
    let lines: Vec<Line> = drawn
        .iter()
        .filter(|s| s.scored.iter().any(|m| m.spam) && s.scored.iter().any(|m| !m.spam))
        .map(|s| Line { name: s.name.to_owned(), points: Ranking::new(s.scored).roc() })
        .collect();
    let roc = draw::roc(&lines);
    put("roc.svg", &roc)?;
    let mut body = format!("<h1>{}</h1>\n", draw::escape(title));
    for table in tables {
        body.push_str(&html(table));
    }
    let _ = write!(
        body,
        "<h2>ROC curve</h2>\n<p>For every threshold: the share of spam that is caught, against the \
         share of ham that is called spam. Both axes are stretched where it matters.</p>\n\
         <figure>{roc}</figure>\n<h2>Scores</h2>\n<p>Messages by score; the columns grow with \
         the logarithm of their number. Above 0 is spam.</p>\n"
    );
    for s in drawn {
        let drawing = draw::histogram(s.name, s.scored);
        put(&format!("scores-{}.svg", file_name(s.name)), &drawing)?;
        let _ = writeln!(body, "<figure>{drawing}</figure>");
    }
    put("report.html", &page(title, &body))
}

fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

fn html(table: &Table) -> String {
    let mut out = format!("<table><caption>{}</caption>\n<tr>", draw::escape(table.caption));
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", draw::escape(column));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            let _ = write!(out, "<{tag}>{}</{tag}>", draw::escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
    out
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>\n\
         body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; \
         max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}\n\
         table {{ border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; \
         font-variant-numeric: tabular-nums }}\n\
         caption {{ text-align: left; font-weight: 600; padding: 0.3rem 0 }}\n\
         th, td {{ padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd }}\n\
         th:first-child {{ text-align: left; font-weight: 500 }}\n\
         figure {{ margin: 0 0 1.5rem; overflow-x: auto }} svg {{ min-width: 30rem; max-width: 100%; height: auto }}\n\
         </style></head><body>\n{body}</body></html>\n",
        draw::escape(title)
    )
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
        assert!(folder.path().join("roc.svg").exists());
        assert!(folder.path().join("scores-ours__1_.svg").exists());
    }
}
