//! Formats of lists, read as they come: one file each, and the guess which one a file has.
//!
//! A format takes a line and gives entries, or says why it gives none; [`Reader`] does the rest for
//! all of them: lengths of lines, problems, line numbers.

mod adblock;
mod csv;
mod detect;
mod hosts;
mod plain;
mod rpz;
mod squid;
mod squidguard;

use std::collections::VecDeque;
use std::fmt;
use std::io::BufRead;

use crate::entry::Entry;
use crate::lines::{Line, Lines};
use crate::problem::{Fault, Problems};

pub(crate) use self::detect::no_text;
pub use self::detect::{Detected, detect};

/// A format of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// A host, domain or URL a line.
    Plain,
    /// `hosts` files: an address of this machine or none, and the hosts that it is for.
    Hosts,
    /// Network rules of AdBlock Plus.
    AdBlock,
    /// Squid's ACL `dstdomain`.
    SquidDomains,
    /// Squid's ACL `url_regex`.
    SquidRegexes,
    /// squidGuard's and ufdbGuard's `domains`.
    Domains,
    /// squidGuard's and ufdbGuard's `urls`.
    Urls,
    /// squidGuard's and ufdbGuard's `expressions`.
    Expressions,
    /// Response policy zones of name servers.
    Rpz,
    /// A URL or host and its categories.
    Csv,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 10] = [
        Format::Plain,
        Format::Hosts,
        Format::AdBlock,
        Format::SquidDomains,
        Format::SquidRegexes,
        Format::Domains,
        Format::Urls,
        Format::Expressions,
        Format::Rpz,
        Format::Csv,
    ];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Format::Plain => "plain",
            Format::Hosts => "hosts",
            Format::AdBlock => "adblock",
            Format::SquidDomains => "dstdomain",
            Format::SquidRegexes => "url_regex",
            Format::Domains => "domains",
            Format::Urls => "urls",
            Format::Expressions => "expressions",
            Format::Rpz => "rpz",
            Format::Csv => "csv",
        }
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    fn parser(self) -> Box<dyn LineFormat> {
        match self {
            Format::Plain => Box::new(plain::Plain),
            Format::Hosts => Box::new(hosts::Hosts),
            Format::AdBlock => Box::new(adblock::AdBlock),
            Format::SquidDomains => Box::new(squid::Domains),
            Format::SquidRegexes => Box::new(squid::Regexes::default()),
            Format::Domains => Box::new(squidguard::Domains),
            Format::Urls => Box::new(squidguard::Urls),
            Format::Expressions => Box::new(squidguard::Expressions),
            Format::Rpz => Box::new(rpz::Zone::default()),
            Format::Csv => Box::new(csv::Csv::default()),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What reads the lines of a format.
trait LineFormat {
    /// Reads a line: what it says goes to `out`, and what it says wrong is the error. Both may be.
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault>;
}

/// The entries of a file, one after the other.
pub struct Reader<R> {
    lines: Lines<R>,
    file: String,
    parser: Box<dyn LineFormat>,
    waiting: VecDeque<Entry>,
    problems: Problems,
    shown: usize,
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("file", &self.file).finish_non_exhaustive()
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads `reader` in this format; `file` is its name in problems.
    pub fn new(reader: R, file: &str, format: Format) -> Self {
        Reader::of(Lines::new(reader), file, format)
    }

    /// Finds the format by the first lines, and by the file's name where that says it.
    ///
    /// # Errors
    /// If the first lines cannot be read.
    pub fn detect(reader: R, file: &str) -> std::io::Result<(Self, Detected)> {
        let mut lines = Lines::new(reader);
        let detected = detect(file, lines.peek()?);
        Ok((Reader::of(lines, file, detected.format), detected))
    }

    fn of(lines: Lines<R>, file: &str, format: Format) -> Self {
        Reader {
            lines,
            file: file.to_owned(),
            parser: format.parser(),
            waiting: VecDeque::new(),
            problems: Problems::default(),
            shown: 0,
        }
    }

    /// The problems so far.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// The problems, when all is read.
    pub fn into_problems(self) -> Problems {
        self.problems
    }

    /// How many lines were read.
    pub fn lines_read(&self) -> u64 {
        self.lines.number
    }

    /// What is read from.
    pub fn source(&self) -> &R {
        self.lines.reader()
    }

    /// Notes that an entry could not be used by who asked for it.
    pub(crate) fn note(&mut self, line: u64, fault: Fault, quoted: &str) {
        self.problems.note((&self.file, line), fault, quoted.as_bytes(), &mut self.shown);
    }

    /// Reads a line; whether there was one.
    fn read_line(&mut self) -> std::io::Result<bool> {
        let Some(line) = self.lines.next()? else { return Ok(false) };
        let mut found = Vec::new();
        let (fault, bytes) = match line {
            Line::Text(text) => (self.parser.line(text, &mut found).err(), text.as_bytes()),
            Line::NotText(bytes) => {
                (Some(Fault::bad("not UTF-8", "save the file as UTF-8")), bytes)
            }
            Line::TooLong(bytes) => {
                (Some(Fault::bad("line too long", "a line has at most 8192 bytes")), bytes)
            }
        };
        let bytes = fault.as_ref().map(|_| bytes.to_vec());
        let number = self.lines.number;
        if let Some((fault, bytes)) = fault.zip(bytes) {
            self.problems.note((&self.file, number), fault, &bytes, &mut self.shown);
        }
        for entry in &mut found {
            entry.line = number;
        }
        self.waiting.extend(found);
        Ok(true)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = std::io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.waiting.pop_front() {
                return Some(Ok(entry));
            }
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
