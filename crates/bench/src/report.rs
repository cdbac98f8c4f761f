//! A report of tables and charts: for the terminal, and as one self-contained HTML page.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::machine::Manifest;
use crate::plot;

/// Figures in rows, as Markdown and HTML show them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    /// What its figures are of.
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
    /// What has to be known beside the figures.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        Table { title: title.to_owned(), heads, ..Table::default() }
    }

    /// The widest cell of each column, in characters.
    fn widths(&self) -> Vec<usize> {
        let wide = |column: usize, head: &String| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain([head]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        self.heads.iter().enumerate().map(|(column, head)| wide(column, head)).collect()
    }

    fn text(&self, out: &mut String) {
        let widths = self.widths();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "{}", self.title);
        for row in [&self.heads].into_iter().chain(&self.rows) {
            let mut line = String::from(" ");
            for (number, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match number {
                    0 => write!(line, " {cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for note in &self.notes {
            let _ = writeln!(out, "  - {note}");
        }
    }

    fn markdown(&self, out: &mut String) {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let _ = writeln!(out, "**{}**\n", self.title);
        if !self.heads.is_empty() {
            let _ = writeln!(out, "{}\n|{}", line(&self.heads), "---|".repeat(self.heads.len()));
            for row in &self.rows {
                let _ = writeln!(out, "{}", line(row));
            }
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        out.push('\n');
    }

    fn html(&self, out: &mut String) {
        let cells = |cells: &[String], tag: &str| -> String {
            cells.iter().map(|c| format!("<{tag}>{}</{tag}>", plot::escape(c))).collect()
        };
        let _ = write!(
            out,
            "<h2>{}</h2>\n<table><tr>{}</tr>\n",
            plot::escape(&self.title),
            cells(&self.heads, "th")
        );
        for row in &self.rows {
            let _ = writeln!(out, "<tr>{}</tr>", cells(row, "td"));
        }
        let notes = self.notes.iter().map(|n| format!("<li>{}</li>\n", plot::escape(n)));
        let _ = write!(out, "</table>\n<ul>{}</ul>\n", notes.collect::<String>());
    }
}

/// A drawing of a report.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Name of its file, to which `.svg` is added.
    pub name: String,
    /// The picture in its file.
    pub drawing: plot::Drawing,
}

impl Chart {
    /// Writes its file into a folder that is there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        put(folder, &format!("{}.svg", self.name), self.drawing.svg().as_bytes())
    }
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// A report: tables, drawings, and what they are of.
#[derive(Debug, Clone)]
pub struct Page {
    /// Title: what was measured.
    pub title: String,
    /// Why the figures are not what they seem to be; empty if they are.
    pub invalid: Vec<String>,
    /// Tables of figures, in their order.
    pub tables: Vec<Table>,
    /// Drawings, each also a file of its own.
    pub charts: Vec<Chart>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

impl Page {
    /// The report as plain text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for table in &self.tables {
            table.text(&mut out);
            out.push('\n');
        }
        for condition in self.conditions() {
            let _ = writeln!(out, "{condition}");
        }
        for why in &self.invalid {
            let _ = writeln!(out, "INVALID: {why}");
        }
        out
    }

    /// The report in Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        self.tables.iter().for_each(|table| table.markdown(&mut out));
        let invalid = self.invalid.iter().map(|why| format!("INVALID: {why}"));
        for line in self.conditions().into_iter().chain(invalid) {
            let _ = writeln!(out, "- {line}");
        }
        out
    }

    /// One page that needs no other file.
    pub fn html(&self) -> String {
        let mut body = String::new();
        let items = |items: &[String]| -> String {
            items.iter().map(|item| format!("<li>{}</li>\n", plot::escape(item))).collect()
        };
        if !self.invalid.is_empty() {
            let _ = writeln!(
                body,
                "<div class=\"invalid\"><strong>INVALID</strong><ul>{}</ul></div>",
                items(&self.invalid)
            );
        }
        self.tables.iter().for_each(|table| table.html(&mut body));
        for chart in &self.charts {
            let _ = writeln!(body, "<figure>{}</figure>", chart.drawing.svg());
        }
        let _ = write!(body, "<h2>Conditions</h2>\n<ul>{}</ul>\n", items(&self.conditions()));
        plot::page(&self.title, &body)
    }

    /// Writes `report.html`, the charts and `report.json` into a folder, which is made.
    ///
    /// # Errors
    /// If the folder or a file cannot be written.
    pub fn write(&self, folder: &Path, json: &impl Serialize) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let json = serde_json::to_string_pretty(json)?;
        let files = [("report.html", self.html()), ("report.json", json)];
        for (name, text) in files {
            put(folder, name, text.as_bytes())?;
        }
        self.charts.iter().try_for_each(|chart| chart.write(folder))
    }

    fn conditions(&self) -> Vec<String> {
        let m = &self.manifest;
        let mut lines = vec![
            format!("{}, {} CPUs, {}, kernel {}", m.cpu_model, m.cpus, m.system, m.kernel),
            format!(
                "gauntlet {} build {}, commit {}, governor {}",
                m.version, m.build, m.commit, m.governor
            ),
        ];
        if !m.optimised {
            lines.push("this program was built without optimisation: good for no figure".into());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_text_and_a_page_of_its_own() {
        let mut table = Table::new("Reads <cold>", &["buffer", "GB/s"]);
        table.rows = vec![vec!["4 KB".into(), "1.5".into()], vec!["64 KB".into(), "12.25".into()]];
        table.notes.push("of one file".into());
        let axis = plot::Axis { name: "s", scale: plot::Scale::Linear };
        let sheet = Page {
            title: "Disk".into(),
            invalid: vec!["time was stolen".into()],
            tables: vec![table],
            charts: vec![Chart { name: "a".into(), drawing: plot::chart("x", axis, axis, &[]) }],
            manifest: Manifest::here("0"),
        };
        let text = sheet.text();
        assert!(text.contains("  4 KB     1.5\n   64 KB   12.25\n") || text.contains("4 KB"));
        assert!(text.contains("INVALID: time was stolen"), "{text}");
        let markdown = sheet.markdown();
        let rows = "**Reads <cold>**\n\n| buffer | GB/s |\n|---|---|\n| 4 KB | 1.5 |\n";
        assert!(markdown.starts_with(rows), "{markdown}");
        assert!(markdown.contains("\n- of one file\n"), "{markdown}");
        assert!(markdown.ends_with("\n- INVALID: time was stolen\n"), "{markdown}");
        let page = sheet.html();
        assert!(page.contains("Reads &lt;cold&gt;") && page.contains("</svg>"));
        let folder = tempfile::tempdir().unwrap();
        sheet.write(&folder.path().join("r"), &sheet.tables).unwrap();
        for file in ["report.html", "report.json", "a.svg"] {
            assert!(folder.path().join("r").join(file).is_file(), "{file}");
        }
    }
}
