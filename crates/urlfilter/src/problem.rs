//! What was not taken from a list: the first lines by name, all of them by count.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{PROBLEM_KINDS_MAX, PROBLEMS_SHOWN_MAX, QUOTED_BYTES_MAX};

/// Whose fault it is that a line was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The line is good, but says what a URL filter cannot use (hiding of elements of a page).
    Skipped,
    /// Nobody can read the line.
    Bad,
}

impl Severity {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Skipped => "skipped",
            Severity::Bad => "bad",
        }
    }
}

/// Why a line gave no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whose fault it is.
    pub severity: Severity,
    /// What is wrong, in words that many lines share.
    pub what: Cow<'static, str>,
    /// What mends it.
    pub remedy: &'static str,
}

impl Fault {
    /// Nobody can read it.
    pub(crate) fn bad(what: impl Into<Cow<'static, str>>, remedy: &'static str) -> Self {
        Fault { severity: Severity::Bad, what: what.into(), remedy }
    }

    /// It is not for us.
    pub(crate) fn skipped(what: impl Into<Cow<'static, str>>, remedy: &'static str) -> Self {
        Fault { severity: Severity::Skipped, what: what.into(), remedy }
    }
}

/// A line that gave no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// Why.
    pub fault: Fault,
    /// The beginning of the line, control characters replaced.
    pub quoted: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { severity, what, remedy } = &self.fault;
        let (file, line) = (&self.file, self.line);
        if line == 0 {
            return write!(f, "{file}: {}: {what}; {remedy}", severity.name());
        }
        write!(f, "{file}:{line}: {}: {what}: {:?}; {remedy}", severity.name(), self.quoted)
    }
}

/// Problems of one or more files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first of each file, in their order.
    pub shown: Vec<Problem>,
    /// How many there are of each kind.
    pub counts: BTreeMap<(Severity, String), u64>,
}

impl Problems {
    /// Notes a problem of a file; `shown_of_file` counts those of it that are kept.
    pub(crate) fn note(
        &mut self,
        place: (&str, u64),
        fault: Fault,
        line: &[u8],
        shown: &mut usize,
    ) {
        let key = (fault.severity, fault.what.to_string());
        let known = self.counts.contains_key(&key) || self.counts.len() < PROBLEM_KINDS_MAX;
        let key = if known { key } else { (fault.severity, "other".to_owned()) };
        *self.counts.entry(key).or_default() += 1;
        if *shown < PROBLEMS_SHOWN_MAX {
            *shown += 1;
            let (file, number) = (place.0.to_owned(), place.1);
            self.shown.push(Problem { file, line: number, fault, quoted: quote(line) });
        }
    }

    /// Adds those of another file.
    pub fn add(&mut self, other: Problems) {
        self.shown.extend(other.shown);
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
    }

    /// How many lines of this severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|((s, _), _)| *s == severity).map(|(_, count)| count).sum()
    }

    /// How many lines in all.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

fn quote(line: &[u8]) -> String {
    let cut = line.get(..QUOTED_BYTES_MAX).unwrap_or(line);
    let text = String::from_utf8_lossy(cut);
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
