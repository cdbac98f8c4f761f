//! CSV for spreadsheets (RFC 4180): the one place that writes it.
//!
//! Spreadsheets run what begins with `=`, `+`, `-` or `@` (OWASP, CSV injection), and where a cell
//! begins is theirs to say: where a comma stands in numbers, they split at semicolons, and forget
//! the quotes that do not stand at the beginning of such a piece.

use crate::format;

/// A cell of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell<'a> {
    /// Text, from wherever: what could run in it gets an apostrophe before it.
    Text(&'a str),
    /// A number of ours.
    Count(u64),
    /// Points of ours, which may begin with a minus.
    Points(f64),
    /// An empty cell, where a value is not known.
    Empty,
}

/// Appends a line, with CRLF (RFC 4180).
pub(crate) fn line(out: &mut String, cells: &[Cell<'_>]) {
    for (n, cell) in cells.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        match cell {
            Cell::Text(text) => push_text(out, text),
            Cell::Count(n) => out.push_str(&n.to_string()),
            Cell::Points(points) => out.push_str(&points.to_string()),
            Cell::Empty => {}
        }
    }
    out.push_str("\r\n");
}

fn push_text(out: &mut String, text: &str) {
    let harmless = harmless(&format::plain(text));
    if harmless.contains(['"', ',', ';', '|', '\'']) {
        out.push('"');
        out.push_str(&harmless.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(&harmless);
    }
}

/// With an apostrophe before whatever a spreadsheet could run, at the beginning and behind
/// everything at which one may split. (Tabs and ends of lines are spaces by now.)
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        match c {
            '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' if begins => {
                out.push('\'');
                begins = false;
            }
            ',' | ';' | '|' => begins = true,
            // Skipped at the beginning of a cell, or taken off it.
            '"' => {}
            c if c.is_whitespace() => {}
            _ => begins = false,
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> String {
        let mut out = String::new();
        line(&mut out, &[Cell::Text(text)]);
        out.trim_end_matches("\r\n").to_owned()
    }

    #[test]
    fn nothing_from_outside_runs_or_leaves_its_cell() {
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(cell("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(cell(" @SUM(1)"), "\"' @SUM(1)\"".replace("' @", " '@"));
        // A spreadsheet that splits at semicolons or tabs, and sees no quote at the beginning.
        assert_eq!(cell("hello;=HYPERLINK(A1)"), "\"hello;'=HYPERLINK(A1)\"");
        assert_eq!(cell("hello; \t+1"), "\"hello;  '+1\"");
        assert_eq!(cell("hello;\"\"=1"), "\"hello;\"\"\"\"'=1\"");
        assert_eq!(cell("hello\t=1"), "hello =1", "no tab is left to split at");
        assert_eq!(cell("\t=1"), "\" '=1\"");
        assert_eq!(cell("a\r\n-1"), "a  -1");
        assert_eq!(cell("a|@x"), "\"a|'@x\"");
        assert_eq!(cell("＝1+1"), "\"'＝1+1\"");
        assert_eq!(cell("\u{feff}\u{200b}=1"), "\"'=1\"");
        assert_eq!(cell("a = b - c; d"), "\"a = b - c; d\"", "not in the middle of words");
        let mut out = String::new();
        line(&mut out, &[Cell::Points(-0.4), Cell::Empty, Cell::Count(7), Cell::Text("-7")]);
        assert_eq!(out, "-0.4,,7,\"'-7\"\r\n");
    }
}
