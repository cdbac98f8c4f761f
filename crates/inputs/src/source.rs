//! Where messages come from: files, folders, Maildirs, mailboxes, tar archives, standard input.
//!
//! What a file is, its first bytes say: a gzip stream is undone, `ustar` is an archive, a `From `
//! line that a delivery agent wrote begins a mailbox (of one message or more), anything else is one
//! message. Names of messages in a mailbox are `box#1`, `box#2` ...; in an archive
//! `archive/member`. Nothing is held in memory but the message at hand.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use flate2::read::MultiGzDecoder;

/// Folders nested deeper than this are reported instead of read.
const FOLDER_DEPTH_MAX: usize = 64;
/// Bytes at the head of a file that say what it is: the `ustar` mark of a tar ends at 262.
const HEAD_BYTES: usize = 512;

/// One message, or why there is none.
#[derive(Debug)]
pub struct Input {
    /// What to call it in the output.
    pub name: String,
    /// Where its bytes are.
    pub content: Content,
}

/// The bytes of a message, if they are at hand already.
#[derive(Debug)]
pub enum Content {
    /// A file that holds just this message; the scan thread reads it.
    File(PathBuf),
    /// Read already, from a mailbox, an archive or standard input.
    Bytes(Vec<u8>),
    /// Could not be read.
    Failed(String),
}

/// A folder, whatever path leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folder {
    device: u64,
    inode: u64,
}

impl Folder {
    fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Folder { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Takes the inputs one by one; `Break` ends the walk.
pub type Emit<'e> = dyn FnMut(Input) -> ControlFlow<()> + 'e;

/// Walks through what the user named, in order.
#[derive(Debug, Clone)]
pub struct Source {
    /// Largest message in bytes; larger ones are reported as unreadable.
    pub message_bytes_max: u64,
    /// Whether mailboxes and archives are taken apart into messages; if not, each file is one
    /// input as it is.
    pub splits: bool,
    /// Bytes of input taken so far, for the progress bar.
    pub taken: Arc<AtomicU64>,
    /// Files of folders that were passed over, because they are no mail by their names.
    pub passed_over: Arc<AtomicU64>,
}

/// Extensions of what stands beside messages and is none: verdicts, settings, notes.
const NO_MAIL: [&str; 3] = ["json", "toml", "md"];
/// Name of the file that says what the messages beside it are.
const LABELS: &str = "labels.tsv";

/// A file that a folder holds is no mail by its name. Names in a Maildir end with that of a host,
/// which says nothing (`.md` is a country).
pub fn is_no_mail(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    if folder.is_some_and(|name| name == "cur" || name == "new") {
        return false;
    }
    let extension = path.extension().and_then(OsStr::to_str);
    path.file_name().is_some_and(|name| name == LABELS)
        || extension.is_some_and(|e| NO_MAIL.iter().any(|known| e.eq_ignore_ascii_case(known)))
}

/// Files that were passed over, for the end of a line; empty if there are none.
pub fn passed_over(files: u64) -> String {
    match files {
        0 => String::new(),
        1 => "; 1 file that is no mail was passed over".to_owned(),
        n => format!("; {n} files that are no mail were passed over"),
    }
}

/// Why pipes, sockets and devices are left alone.
const NO_FILE: &str = "neither a file nor a folder; not opened";

impl Source {
    /// Walks to messages of so many bytes at most.
    pub fn of_messages(message_bytes_max: u64) -> Self {
        let (taken, passed_over) = Default::default();
        Source { message_bytes_max, splits: true, taken, passed_over }
    }

    /// Says on standard error how many files were passed over, if any.
    pub fn say_passed_over(&self) {
        let files = self.passed_over.load(Ordering::Relaxed);
        if let Some(text) = passed_over(files).strip_prefix("; ") {
            eprintln!("gauntlet: {text}");
        }
    }

    /// Emits every message below the path; `-` is standard input. What cannot be read is emitted as
    /// [`Content::Failed`].
    pub fn walk(&self, path: &Path, emit: &mut Emit<'_>) -> ControlFlow<()> {
        if path.as_os_str() == "-" {
            let stdin = counted(io::stdin().lock(), &self.taken);
            return match self.splits {
                true => self.stream("-", stdin, emit),
                false => self.one("-", stdin, emit),
            };
        }
        self.entry(path, &path.to_string_lossy(), &[], emit)
    }

    /// Emits the paths of a list, one a line, blank lines skipped. A file in a list is one message,
    /// whatever it looks like, so that the output has one line for each line of the list.
    ///
    /// # Errors
    /// If the list itself cannot be read; files in it that cannot are emitted as failed.
    pub fn list(&self, list: &Path, emit: &mut Emit<'_>) -> anyhow::Result<()> {
        let reader: Box<dyn BufRead> = if list.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            let file = File::open(list)
                .with_context(|| format!("cannot read the list {}", list.display()))?;
            Box::new(BufReader::new(file))
        };
        for line in reader.split(b'\n') {
            let mut line =
                line.with_context(|| format!("cannot read the list {}", list.display()))?;
            if line.ends_with(b"\r") {
                line.pop();
            }
            if line.is_empty() {
                continue;
            }
            let name = String::from_utf8_lossy(&line).into_owned();
            let path = path_from_bytes(&line);
            let flow = if path.is_dir() {
                self.entry(&path, &name, &[], emit)
            } else if std::fs::metadata(&path).is_ok_and(|m| !m.is_file()) {
                failed(&name, &NO_FILE, emit)
            } else {
                emit(Input { name, content: Content::File(path) })
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Emits what is at the path; `above` are the folders it is in.
    fn entry(
        &self,
        path: &Path,
        name: &str,
        above: &[Folder],
        emit: &mut Emit<'_>,
    ) -> ControlFlow<()> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return failed(name, &error, emit),
        };
        if metadata.is_dir() {
            let folder = Folder::of(&metadata);
            if above.contains(&folder) {
                return failed(name, &"a link to a folder that it is in; not followed", emit);
            }
            return self.folder(path, name, &[above, &[folder]].concat(), emit);
        }
        // A pipe that the user names is read; one that the walk meets would block, and is not
        // opened.
        if !above.is_empty() && !metadata.is_file() {
            return failed(name, &NO_FILE, emit);
        }
        if self.splits && !above.is_empty() && is_no_mail(path) {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            return ControlFlow::Continue(());
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return failed(name, &error, emit),
        };
        if !self.splits && metadata.is_file() {
            return emit(Input { name: name.to_owned(), content: Content::File(path.to_owned()) });
        }
        let mut head = [0; HEAD_BYTES];
        match read_head(&file, &mut head) {
            Ok(length) if kind(&head[..length]) == Kind::Message && metadata.is_file() => {
                emit(Input { name: name.to_owned(), content: Content::File(path.to_owned()) })
            }
            Ok(length) => {
                let whole = io::Cursor::new(head[..length].to_vec()).chain(file);
                self.stream(name, counted(whole, &self.taken), emit)
            }
            Err(error) => failed(name, &error, emit),
        }
    }

    /// Entries in order of their names, so that two runs print the same. Hidden files are left out,
    /// and what is no mail ([`is_no_mail`]) where messages are looked for; of a Maildir `new` and
    /// `cur` are read, and its sub-folders (`.Name`, Maildir++).
    fn folder(
        &self,
        path: &Path,
        name: &str,
        chain: &[Folder],
        emit: &mut Emit<'_>,
    ) -> ControlFlow<()> {
        if chain.len() > FOLDER_DEPTH_MAX {
            let why = format!("folders nested deeper than {FOLDER_DEPTH_MAX}");
            return failed(name, &why, emit);
        }
        let entries = match list_folder(path) {
            Ok(entries) => entries,
            Err(error) => return failed(name, &error, emit),
        };
        for entry in entries {
            let below = path.join(&entry);
            let below_name = format!("{}/{}", name.trim_end_matches('/'), entry.to_string_lossy());
            self.entry(&below, &below_name, chain, emit)?;
        }
        ControlFlow::Continue(())
    }

    /// Emits what a stream of unknown kind holds.
    fn stream(&self, name: &str, reader: impl Read, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut reader = BufReader::with_capacity(64 * 1024, reader);
        let head = match fill(&mut reader) {
            Ok(kind) => kind,
            Err(error) => return failed(name, &error, emit),
        };
        match head {
            Kind::Gzip => {
                // One level only: a gzip inside a gzip is a message that looks like nothing.
                let mut inner = BufReader::with_capacity(64 * 1024, MultiGzDecoder::new(reader));
                match fill(&mut inner) {
                    Ok(Kind::Tar) => self.tar(name, inner, emit),
                    Ok(Kind::Mailbox) => self.mailbox(name, inner, emit),
                    Ok(Kind::Message | Kind::Gzip) => self.one(name, inner, emit),
                    Err(error) => failed(name, &error, emit),
                }
            }
            Kind::Tar => self.tar(name, reader, emit),
            Kind::Mailbox => self.mailbox(name, reader, emit),
            Kind::Message => self.one(name, reader, emit),
        }
    }

    fn one(&self, name: &str, reader: impl Read, emit: &mut Emit<'_>) -> ControlFlow<()> {
        match read_bounded(reader, self.message_bytes_max) {
            Ok(bytes) => emit(Input { name: name.to_owned(), content: Content::Bytes(bytes) }),
            Err(error) => failed(name, &error, emit),
        }
    }

    fn tar(&self, name: &str, reader: impl Read, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut archive = tar::Archive::new(reader);
        let entries = match archive.entries() {
            Ok(entries) => entries,
            Err(error) => return failed(name, &error, emit),
        };
        for entry in entries {
            let mut entry = match entry {
                Ok(entry) => entry,
                Err(error) => return failed(name, &error, emit),
            };
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let member = format!("{name}/{}", String::from_utf8_lossy(&entry.path_bytes()));
            self.one(&member, &mut entry, emit)?;
        }
        ControlFlow::Continue(())
    }

    /// Splits a mailbox at its `From ` lines (RFC 4155). Quoted `>From ` lines stay as they are.
    fn mailbox(&self, name: &str, reader: impl BufRead, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut splitter = Mailbox { reader, line: Vec::new(), max: self.message_bytes_max };
        let mut number = 0u64;
        loop {
            let (bytes, more) = match splitter.next_message() {
                Ok(next) => next,
                Err(error) => return failed(name, &error, emit),
            };
            number += 1;
            // A single message with its `From ` line in front keeps the name of its file.
            let name =
                if number == 1 && !more { name.to_owned() } else { format!("{name}#{number}") };
            let content = match bytes {
                Some(bytes) => Content::Bytes(bytes),
                None => Content::Failed(too_large(self.message_bytes_max).to_string()),
            };
            emit(Input { name, content })?;
            if !more {
                return ControlFlow::Continue(());
            }
        }
    }
}

/// Bytes below the path, for the progress bar; what cannot be read counts nothing. `depth` is how
/// many folders were entered before: 0.
pub fn size_of(path: &Path, depth: usize) -> u64 {
    // Links below are not followed: several that lead back would be walked without end.
    let found = if depth == 0 { std::fs::metadata(path) } else { path.symlink_metadata() };
    match found {
        Ok(metadata) if metadata.is_dir() && depth < FOLDER_DEPTH_MAX => list_folder(path)
            .unwrap_or_default()
            .iter()
            .map(|entry| size_of(&path.join(entry), depth + 1))
            .sum(),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    }
}

/// Reads a file that is one message.
///
/// # Errors
/// If it is a folder, cannot be read, or has more than `max` bytes.
pub fn read_file(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.len() > max {
        return Err(too_large(max));
    }
    read_bounded(file, max)
}

fn list_folder(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = std::fs::read_dir(path)?
        .map(|entry| entry.map(|e| e.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    let is_maildir = ["cur", "new", "tmp"].iter().all(|n| names.iter().any(|m| m == n));
    let hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    if is_maildir {
        names.retain(|n| n == "cur" || n == "new" || (hidden(n) && path.join(n).is_dir()));
    } else {
        names.retain(|n| !hidden(n));
    }
    Ok(names)
}

fn failed(name: &str, why: &dyn std::fmt::Display, emit: &mut Emit<'_>) -> ControlFlow<()> {
    emit(Input { name: name.to_owned(), content: Content::Failed(why.to_string()) })
}

fn too_large(max: u64) -> io::Error {
    io::Error::other(format!("larger than {max} bytes, the most that is read"))
}

/// Reads all of a stream.
///
/// # Errors
/// If it cannot be read, or has more than `max` bytes.
pub fn read_bounded(reader: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max { Err(too_large(max)) } else { Ok(bytes) }
}

#[cfg(unix)]
fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// What the first bytes say a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Mailbox,
    Tar,
    Gzip,
}

fn kind(head: &[u8]) -> Kind {
    if head.starts_with(&[0x1f, 0x8b, 8]) {
        return Kind::Gzip;
    }
    if head.get(257..262) == Some(b"ustar") {
        return Kind::Tar;
    }
    let line = head.split_inclusive(|&b| b == b'\n').next().unwrap_or(head);
    if is_from_line(line) { Kind::Mailbox } else { Kind::Message }
}

fn read_head(mut file: &File, head: &mut [u8; HEAD_BYTES]) -> io::Result<usize> {
    let mut length = 0;
    while length < head.len() {
        match file.read(&mut head[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Looks at the head of a stream without taking it. A pipe may give fewer bytes than the head
/// needs; then the kind is judged by those.
fn fill(reader: &mut impl BufRead) -> io::Result<Kind> {
    Ok(kind(reader.fill_buf()?))
}

/// A line that begins a message in a mailbox: `From `, a sender, and a date whose time of day has
/// two colons and whose year has four digits. Text that begins with "From " has not.
fn is_from_line(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    let words = rest.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    let (mut time, mut year) = (false, false);
    for word in words.skip(1).take(10) {
        let colons = word.iter().filter(|&&b| b == b':').count();
        time |= colons >= 1 && word.iter().all(|b| b.is_ascii_digit() || *b == b':');
        year |= time && word.len() == 4 && word.iter().all(u8::is_ascii_digit);
    }
    time && year
}

struct Mailbox<R> {
    reader: R,
    /// The `From ` line that the next message begins with; empty at the start.
    line: Vec<u8>,
    max: u64,
}

impl<R: BufRead> Mailbox<R> {
    /// The next message (none if it was too large) and whether another follows.
    fn next_message(&mut self) -> io::Result<(Option<Vec<u8>>, bool)> {
        let mut bytes = std::mem::take(&mut self.line);
        let (mut blank_before, mut dropped) = (bytes.is_empty(), false);
        loop {
            let start = bytes.len();
            // A line longer than the limit is taken in pieces; each is dropped at once.
            let read = (&mut self.reader).take(self.max + 1).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(((!dropped).then_some(bytes), false));
            }
            let line = &bytes[start..];
            if start > 0 && blank_before && is_from_line(line) {
                self.line = bytes.split_off(start);
                return Ok(((!dropped).then_some(bytes), true));
            }
            blank_before = matches!(line, b"\n" | b"\r\n");
            dropped |= bytes.len() as u64 > self.max;
            if dropped {
                // One byte stays, so that the message is not taken for the first line.
                bytes.truncate(1);
            }
        }
    }
}

/// Counts what is read, for the progress bar.
struct Counted<R> {
    reader: R,
    taken: Arc<AtomicU64>,
}

fn counted<R: Read>(reader: R, taken: &Arc<AtomicU64>) -> Counted<R> {
    Counted { reader, taken: taken.clone() }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<(String, usize)> {
        let source = Source::of_messages(1000);
        let mut found = Vec::new();
        let _ = source.walk(path, &mut |input| {
            let size = match input.content {
                Content::File(path) => std::fs::metadata(path).unwrap().len() as usize,
                Content::Bytes(bytes) => bytes.len(),
                Content::Failed(_) => usize::MAX,
            };
            let base = path.to_string_lossy().into_owned();
            found.push((input.name.replacen(&base, "", 1), size));
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn folders_maildirs_and_hidden_files() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a/1", "a/.hidden", "m/cur/x:2,S", "m/new/y", "m/tmp/z", "m/.Sent/cur/s"] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "A: b\n\n").unwrap();
        }
        let found: Vec<String> = names(root.path()).into_iter().map(|f| f.0).collect();
        assert_eq!(found, ["/a/1", "/m/.Sent/cur/s", "/m/cur/x:2,S", "/m/new/y"]);
    }

    #[test]
    fn what_is_no_mail_is_passed_over_in_folders_and_counted() {
        let root = tempfile::tempdir().unwrap();
        let beside = ["a.JSON", "notes.md", "b/labels.tsv", "b/gauntlet.toml"];
        let mail = ["a.eml", "b/1.txt", "json", "m/new/1.M2P3.mail.example.md", "m/cur/x.json"];
        for name in beside.iter().chain(&mail).chain(&["m/tmp/x"]) {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "A: b\n\n").unwrap();
        }
        let walk = |path: &Path, splits| {
            let source = Source { splits, ..Source::of_messages(1000) };
            let mut found = 0;
            let _ = source.walk(path, &mut |_| {
                found += 1;
                ControlFlow::Continue(())
            });
            (found, source.passed_over.load(Ordering::Relaxed))
        };
        assert_eq!(walk(root.path(), true), (mail.len(), beside.len() as u64));
        assert_eq!(walk(root.path(), false), (mail.len() + beside.len(), 0), "any files");
        assert_eq!(walk(&root.path().join("notes.md"), true), (1, 0), "it was named");
    }

    #[test]
    fn mailboxes_split_at_from_lines_only() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("box");
        let first = "From a@b Sat Apr  7 01:02:03 2007\nA: 1\n\nFrom here on text\n\n";
        let second = "From b@c Sun Apr  8 01:02:03 2007\nA: 2\n\nx\n";
        std::fs::write(&path, first).unwrap();
        assert_eq!(names(&path), [(String::new(), first.len())], "one message keeps its name");
        std::fs::write(&path, [first, second].concat()).unwrap();
        let expected = [("#1".to_owned(), first.len()), ("#2".to_owned(), second.len())];
        assert_eq!(names(&path), expected);
        let large = [first, &"y".repeat(5000), "\n\n", second].concat();
        std::fs::write(&path, large).unwrap();
        let expected = [("#1".to_owned(), usize::MAX), ("#2".to_owned(), second.len())];
        assert_eq!(names(&path), expected, "too large, and the next one is still found");
    }

    #[test]
    fn archives_plain_and_gzipped() {
        let root = tempfile::tempdir().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, "d/m.eml", &b"A: b\n"[..]).unwrap();
        let bytes = builder.into_inner().unwrap();
        let plain = root.path().join("x.tar");
        std::fs::write(&plain, &bytes).unwrap();
        assert_eq!(names(&plain), [("/d/m.eml".to_owned(), 5)]);
        let zipped = root.path().join("x.tgz");
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&zipped).unwrap(), Default::default());
        io::Write::write_all(&mut encoder, &bytes).unwrap();
        encoder.finish().unwrap();
        assert_eq!(names(&zipped), [("/d/m.eml".to_owned(), 5)]);
    }
}
