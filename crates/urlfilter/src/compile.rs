//! Sources to a compiled file: reads each as it comes, in bounded memory.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{BufRead as _, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::compiled::{Added, BuildError, Built, Writer};
use crate::entry::Entry;
use crate::formats::{Format, Reader, no_text};
use crate::limits::CATEGORY_BYTES_MAX;
use crate::problem::{Fault, Problems};
use crate::sources::Source;

/// Bytes of a source that are read at once; the first of them say its format.
const BUFFER_BYTES: usize = 256 * 1024;

/// What was read of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// What said so.
    pub format_by: &'static str,
    /// Its category.
    pub category: String,
    /// Lines.
    pub lines: u64,
    /// Entries that were taken, doubles among them.
    pub entries: u64,
    /// Lines that gave none though they should.
    pub problems: u64,
}

/// What reading came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// By source, in their order.
    pub sources: Vec<SourceReport>,
    /// What was not taken.
    pub problems: Problems,
}

/// Compiles sources into one file at `path`, which is replaced whole if it is there.
///
/// Bad lines are named in the report and do not stop it. Memory: 12 bytes an entry, 16 more for a
/// prefix, and for a while half as much again.
///
/// # Errors
/// If a source cannot be read or is no text, or the file cannot be written; what was at `path` is
/// still there then.
pub fn compile(sources: &[Source], path: &Path) -> Result<(Built, ReadReport), BuildError> {
    // Keyed anew each time: nobody can write a list of keys that share their hash.
    let mut writer = Writer::new(path, RandomState::new().hash_one(0))?;
    let mut hasher = blake3::Hasher::new();
    let mut report = ReadReport::default();
    for source in sources {
        let number = writer.source(&source.path.to_string_lossy())?;
        let category = source.category.as_str();
        let take = |entry: &Entry| writer.add(entry, number, category_of(entry, category));
        read(source, &mut hasher, &mut report, take)?;
    }
    let built = writer.finish(*hasher.finalize().as_bytes())?;
    Ok((built, report))
}

/// Reads sources and says what is wrong with them, without writing anything.
///
/// # Errors
/// If a source cannot be read or is no text.
pub fn check(sources: &[Source]) -> Result<ReadReport, BuildError> {
    let mut report = ReadReport::default();
    let mut hasher = blake3::Hasher::new();
    for source in sources {
        read(source, &mut hasher, &mut report, |_| Ok(Added::Taken))?;
    }
    Ok(report)
}

/// A list's own category wins over that of its file.
fn category_of<'a>(entry: &'a Entry, of_file: &'a str) -> &'a str {
    let category = entry.category.as_deref().unwrap_or(of_file);
    let end = category.floor_char_boundary(CATEGORY_BYTES_MAX);
    category.get(..end).unwrap_or_default()
}

fn read(
    source: &Source,
    hasher: &mut blake3::Hasher,
    report: &mut ReadReport,
    mut take: impl FnMut(&Entry) -> Result<Added, BuildError>,
) -> Result<(), BuildError> {
    let failed = |cause| BuildError::Read { path: source.path.clone(), cause };
    let file = File::open(&source.path).map_err(failed)?;
    let hashing = Hashing { file, hasher: &mut *hasher };
    let mut input = BufReader::with_capacity(BUFFER_BYTES, hashing);
    if let Some(what) = no_text(input.fill_buf().map_err(failed)?) {
        return Err(failed(std::io::Error::new(ErrorKind::InvalidData, what)));
    }
    let name = source.path.to_string_lossy();
    let (mut reader, format, format_by) = match source.format {
        Some(format) => (Reader::new(input, &name, format), format, "it was said"),
        None => {
            let (reader, detected) = Reader::detect(input, &name).map_err(failed)?;
            (reader, detected.format, detected.by)
        }
    };
    let mut entries = 0;
    while let Some(entry) = reader.next() {
        let entry = entry.map_err(failed)?;
        match fault(take(&entry)?) {
            None => entries += 1,
            Some(fault) => reader.note(entry.line, fault, ""),
        }
    }
    let lines = reader.lines_read();
    let problems = reader.into_problems();
    report.sources.push(SourceReport {
        path: source.path.clone(),
        format,
        format_by,
        category: source.category.clone(),
        lines,
        entries,
        problems: problems.total(),
    });
    report.problems.add(problems);
    Ok(())
}

fn fault(added: Added) -> Option<Fault> {
    let (what, remedy) = match added {
        Added::Taken => return None,
        Added::TooManyEntries => ("too many entries", "compile several lists"),
        Added::TooManyRegexes => (
            "too many regular expressions",
            "a list has at most 4096: each is tried on every URL; compile several lists",
        ),
        Added::TooManyCategories => ("too many categories", "compile several lists"),
    };
    Some(Fault::bad(what, remedy))
}

/// A file whose bytes are hashed as they are read.
struct Hashing<'h> {
    file: File,
    hasher: &'h mut blake3::Hasher,
}

impl Read for Hashing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
