//! Lists of phrases, read from files.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::io;
use std::path::{Path, PathBuf};

use crate::charset::{self, Charsets};
use crate::fold;
use crate::limits::{
    ALL_PHRASES_BYTES_MAX, CATEGORIES_MAX, CATEGORY_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX,
    INCLUDE_DEPTH_MAX, LINE_BYTES_MAX, LINES_MAX, PHRASE_BYTES_MAX, PHRASES_MAX,
};
use crate::line::{self, Format, Line, Phrases, Weight};
use crate::problem::{ProblemKind, Problems};

/// What a phrase without a weight means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A page that has it is blocked.
    Banned,
    /// A page that has it passes.
    Exception,
}

impl Role {
    /// By the file's name, as e2guardian calls its lists: `exceptionphraselist`,
    /// `exception_email`; every other name is [`Role::Banned`].
    pub fn of_name(path: &Path) -> Role {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name.starts_with("exception") {
            true => Role::Exception,
            false => Role::Banned,
        }
    }
}

/// What a phrase does if it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Adds to the score.
    Weighted(Weight),
    /// Blocks.
    Banned,
    /// Lets pass.
    Exception,
}

/// A phrase, or several that must all be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In the form in which texts are searched; sorted, each once.
    pub parts: Vec<String>,
    /// What it does.
    pub kind: Kind,
    /// Index in [`Lists::categories`].
    pub category: u32,
    /// Index in [`Lists::files`].
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFile {
    /// As it was named.
    pub path: String,
    /// How its lines are written.
    pub format: Format,
    /// The charset of lines that are not UTF-8; `UTF-8` if all are.
    pub charset: &'static str,
    /// Its lines.
    pub lines: u64,
    /// Lines with phrases that count, duplicates among them.
    pub phrases: u64,
    /// Lines that are not read.
    pub not_read: u64,
}

/// Everything that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// In the order of reading, each once.
    pub entries: Vec<Entry>,
    /// Names of categories; the first is empty, for phrases without one.
    pub categories: Vec<String>,
    /// In the order of reading.
    pub files: Vec<ListFile>,
    /// What was wrong.
    pub problems: Problems,
}

/// Reads a file, given its path: at most [`FILE_BYTES_MAX`] bytes and one more.
pub type Fetch<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Reads a file of the file system.
///
/// # Errors
/// If it cannot be read, or is no regular file.
pub fn fetch(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads lists and what they include.
pub struct Reader<'a> {
    fetch: Fetch<'a>,
    lists: Lists,
    seen: HashMap<(Vec<String>, u8), u32>,
    categories: HashMap<String, u32>,
    bytes: usize,
    lines: u64,
    is_full: bool,
}

/// Where a reading is.
struct At<'p> {
    role: Role,
    category: u32,
    depth: usize,
    /// The file and those that include it.
    chain: &'p [PathBuf],
    /// The folder of the list that was named first.
    top: &'p Path,
}

impl<'a> Reader<'a> {
    /// Files come from `fetch`.
    pub fn new(fetch: Fetch<'a>) -> Self {
        let lists = Lists { categories: vec![String::new()], ..Lists::default() };
        let (seen, mut categories) = (HashMap::new(), HashMap::new());
        categories.insert(String::new(), 0);
        Reader { fetch, lists, seen, categories, bytes: 0, lines: 0, is_full: false }
    }

    /// Reads a list, and what it includes. `role` is what phrases without a weight mean, also in
    /// included files, whatever their names.
    pub fn read(&mut self, path: &Path, role: Role) {
        let top = path.parent().unwrap_or(Path::new(""));
        let chain = [path.to_owned()];
        self.file(path, &At { role, category: 0, depth: 0, chain: &chain, top });
    }

    /// What was read.
    pub fn finish(self) -> Lists {
        self.lists
    }

    fn file(&mut self, path: &Path, at: &At<'_>) {
        let name = path.display().to_string();
        if self.is_full {
            return;
        }
        if self.lists.files.len() >= FILES_MAX {
            return self.full(&name, 0, "FILES_MAX");
        }
        let bytes = match (self.fetch)(path) {
            Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                return self.lists.problems.add(&name, 0, ProblemKind::Limit("FILE_BYTES_MAX"), "");
            }
            Ok(bytes) => bytes,
            Err(error) => {
                let kind = ProblemKind::Unreadable(error.to_string());
                return self.lists.problems.add(&name, 0, kind, "");
            }
        };
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let charsets = match std::str::from_utf8(bytes) {
            Ok(_) => charset::UTF_8,
            Err(_) => charset::of_path(path),
        };
        let format = line::format(&String::from_utf8_lossy(bytes));
        let charset = charsets.name;
        let file = ListFile { path: name, format, charset, lines: 0, phrases: 0, not_read: 0 };
        self.lists.files.push(file);
        // FILES_MAX fits.
        let index = self.lists.files.len() - 1;
        self.lines_of(bytes, (index, charsets, format), at);
    }

    fn lines_of(
        &mut self,
        bytes: &[u8],
        (index, charsets, format): (usize, Charsets, Format),
        at: &At<'_>,
    ) {
        let name = self.lists.files.get(index).map(|f| f.path.clone()).unwrap_or_default();
        let mut category = at.category;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for (number, raw) in bytes.split(|b| *b == b'\n').enumerate() {
            // LINES_MAX fits.
            let number = u32::try_from(number + 1).unwrap_or(u32::MAX);
            self.lines += 1;
            if self.lines > LINES_MAX {
                self.full(&name, number, "LINES_MAX");
            }
            if self.is_full {
                return;
            }
            self.count(index, |file| file.lines += 1);
            let decoded = match raw.len() > LINE_BYTES_MAX {
                true => Err(ProblemKind::LongLine),
                false => charset::line(raw, charsets).map_err(ProblemKind::Charset),
            };
            let read = match &decoded {
                Ok(text) => line::read(text, format),
                Err(kind) => Err(kind.clone()),
            };
            let text = decoded.as_deref().map(str::trim_end).unwrap_or_default();
            let done = match read {
                Ok(Line::Nothing) => Ok(()),
                Ok(Line::Category(name)) => self.category(name).map(|c| category = c),
                Ok(Line::Include(file)) => self.include(file, category, at),
                Ok(Line::Phrases(phrases)) => {
                    let place = (index, number, category);
                    self.phrases(&phrases, at.role, place, text)
                }
                Err(kind) => Err(kind),
            };
            if let Err(kind) = done {
                self.count(index, |file| file.not_read += 1);
                self.lists.problems.add(&name, number, kind, text);
            }
        }
    }

    fn count(&mut self, index: usize, change: impl FnOnce(&mut ListFile)) {
        if let Some(file) = self.lists.files.get_mut(index) {
            change(file);
        }
    }

    fn full(&mut self, name: &str, line: u32, limit: &'static str) {
        self.is_full = true;
        self.lists.problems.add(name, line, ProblemKind::Limit(limit), "");
    }

    fn category(&mut self, name: &str) -> Result<u32, ProblemKind> {
        if let Some(index) = self.categories.get(name) {
            return Ok(*index);
        }
        if name.len() > CATEGORY_BYTES_MAX {
            return Err(ProblemKind::Limit("CATEGORY_BYTES_MAX"));
        }
        let index = self.lists.categories.len();
        if index >= CATEGORIES_MAX {
            return Err(ProblemKind::Limit("CATEGORIES_MAX"));
        }
        // CATEGORIES_MAX fits.
        let index = u32::try_from(index).unwrap_or_default();
        self.lists.categories.push(name.to_owned());
        self.categories.insert(name.to_owned(), index);
        Ok(index)
    }

    fn include(&mut self, file: &str, category: u32, at: &At<'_>) -> Result<(), ProblemKind> {
        let top = at.top.display().to_string();
        let file = PathBuf::from(file.replace("__LISTDIR__", &top));
        let folder = at.chain.last().and_then(|f| f.parent()).unwrap_or(Path::new(""));
        let path = folder.join(file);
        if at.depth + 1 >= INCLUDE_DEPTH_MAX || at.chain.contains(&path) {
            return Err(ProblemKind::IncludeDepth);
        }
        let mut chain = at.chain.to_vec();
        chain.push(path.clone());
        let depth = at.depth + 1;
        self.file(&path, &At { role: at.role, category, depth, chain: &chain, top: at.top });
        Ok(())
    }

    /// Keeps the phrases of a line. A problem of the whole list is told here and is none of the
    /// line.
    fn phrases(
        &mut self,
        phrases: &Phrases<'_>,
        role: Role,
        (index, number, category): (usize, u32, u32),
        text: &str,
    ) -> Result<(), ProblemKind> {
        let mut parts = phrases.parts.iter().map(|part| folded(part, phrases.is_word));
        let mut parts = parts.by_ref().collect::<Result<Vec<String>, ProblemKind>>()?;
        parts.sort_unstable();
        parts.dedup();
        let kind = match (phrases.weight, role) {
            (Some(weight), _) => Kind::Weighted(weight),
            (None, Role::Banned) => Kind::Banned,
            (None, Role::Exception) => Kind::Exception,
        };
        let bytes: usize = parts.iter().map(String::len).sum();
        if self.lists.entries.len() >= PHRASES_MAX {
            self.is_full = true;
            return Err(ProblemKind::Limit("PHRASES_MAX"));
        }
        if self.bytes + bytes > ALL_PHRASES_BYTES_MAX {
            self.is_full = true;
            return Err(ProblemKind::Limit("ALL_PHRASES_BYTES_MAX"));
        }
        self.count(index, |file| file.phrases += 1);
        let path = self.lists.files.get(index).map(|f| f.path.clone()).unwrap_or_default();
        if let Some(note) = &phrases.note {
            self.lists.problems.add(&path, number, note.clone(), text);
        }
        // PHRASES_MAX and FILES_MAX fit.
        let place = u32::try_from(self.lists.entries.len()).unwrap_or_default();
        match self.seen.entry((parts.clone(), class(kind))) {
            MapEntry::Vacant(vacant) => drop(vacant.insert(place)),
            MapEntry::Occupied(first) => {
                let first = self.lists.entries.get(*first.get() as usize);
                let place = first.map(|f| place_of(&self.lists, f)).unwrap_or_default();
                let kind = ProblemKind::Duplicate(place);
                self.lists.problems.add(&path, number, kind, text);
                return Ok(());
            }
        }
        self.bytes += bytes;
        let file = u32::try_from(index).unwrap_or_default();
        self.lists.entries.push(Entry { parts, kind, category, file, line: number });
        Ok(())
    }
}

/// `file:line` of an entry.
pub(crate) fn place_of(lists: &Lists, entry: &Entry) -> String {
    let file = lists.files.get(entry.file as usize).map_or("", |file| file.path.as_str());
    format!("{file}:{}", entry.line)
}

/// The same phrase may be weighted and banned.
fn class(kind: Kind) -> u8 {
    match kind {
        Kind::Weighted(_) => 0,
        Kind::Banned => 1,
        Kind::Exception => 2,
    }
}

fn folded(part: &str, is_word: bool) -> Result<String, ProblemKind> {
    let folded = match is_word {
        true => fold::phrase(&format!(" {part} ")),
        false => fold::phrase(part),
    };
    if folded.trim().is_empty() {
        return Err(ProblemKind::Empty);
    }
    match folded.len() > PHRASE_BYTES_MAX {
        true => Err(ProblemKind::LongPhrase),
        false => Ok(folded),
    }
}
