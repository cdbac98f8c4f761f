//! Comma-separated values (RFC 4180, a record a line): a URL, domain or host, and its categories.
//!
//! A first line of names says which columns count (`url`, `domain`, `host`, `hostname`; `category`,
//! `categories`, `threat`, `type`), even behind a `#`; without one they are the first and the
//! second. Several categories of a cell are separated by `;` or `|`.

use std::sync::Arc;

use super::{LineFormat, plain};
use crate::entry::Entry;
use crate::limits::{CATEGORY_BYTES_MAX, NAMES_A_LINE_MAX};
use crate::problem::Fault;

#[derive(Default)]
pub(super) struct Csv {
    columns: Option<Columns>,
    /// The last category: most lines have the one of the line before.
    last: Option<Arc<str>>,
}

#[derive(Clone, Copy)]
pub(super) struct Columns {
    what: usize,
    category: Option<usize>,
}

const WHAT: [&str; 5] = ["url", "domain", "host", "hostname", "dst"];
const CATEGORY: [&str; 4] = ["category", "categories", "threat", "type"];

/// Columns by the names of a first line; none if it is none.
pub(super) fn columns(line: &str) -> Option<Columns> {
    let cells = cells(line.trim_start_matches(['#', ' ']))?;
    let find = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| cells.iter().position(|cell| cell.trim().eq_ignore_ascii_case(name)))
    };
    Some(Columns { what: find(&WHAT)?, category: find(&CATEGORY) })
}

impl LineFormat for Csv {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        if line.trim().is_empty() {
            return Ok(());
        }
        if self.columns.is_none()
            && let Some(found) = columns(line)
        {
            self.columns = Some(found);
            return Ok(());
        }
        if line.starts_with('#') {
            return Ok(());
        }
        let at = *self.columns.get_or_insert(Columns { what: 0, category: Some(1) });
        let cells = cells(line).ok_or_else(|| {
            Fault::bad(
                "quotes that do not close",
                "close each quote in its line; double those inside",
            )
        })?;
        let what = cells.get(at.what).map(|cell| cell.trim()).unwrap_or_default();
        if what.is_empty() {
            return Err(Fault::bad("no URL in its column", "name the columns in the first line"));
        }
        let pattern = plain::pattern(what)?;
        let cell = at.category.and_then(|column| cells.get(column)).map(String::as_str);
        let names = cell.unwrap_or_default().split([';', '|']).map(str::trim);
        let mut names = names.filter(|name| !name.is_empty()).take(NAMES_A_LINE_MAX).peekable();
        if names.peek().is_none() {
            out.push(Entry::new(pattern));
            return Ok(());
        }
        for name in names {
            let category = Some(self.category(name)?);
            out.push(Entry { category, ..Entry::new(pattern.clone()) });
        }
        Ok(())
    }
}

impl Csv {
    fn category(&mut self, name: &str) -> Result<Arc<str>, Fault> {
        if name.len() > CATEGORY_BYTES_MAX {
            return Err(Fault::bad("category too long", "a category has at most 128 bytes"));
        }
        match &self.last {
            Some(last) if **last == *name => Ok(Arc::clone(last)),
            _ => {
                let category: Arc<str> = name.into();
                self.last = Some(Arc::clone(&category));
                Ok(category)
            }
        }
    }
}

/// The cells of a record; none if a quote does not close.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut cell = String::new();
    let (mut quoted, mut begins) = (false, true);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if begins => quoted = true,
            ',' if !quoted => {
                found.push(std::mem::take(&mut cell));
                begins = true;
                continue;
            }
            // Blanks between a comma and a quote, as some exports have them.
            ' ' if begins => continue,
            _ => cell.push(c),
        }
        begins = false;
    }
    found.push(cell);
    (!quoted).then_some(found)
}
