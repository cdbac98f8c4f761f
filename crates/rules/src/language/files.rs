//! From folders and files to lines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rule::Source;

/// Largest file read, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Longest line read, in bytes; a longer one is a problem and skipped.
pub(crate) const LINE_BYTES_MAX: usize = 256 * 1024;
/// Deepest nesting of `include`.
pub(crate) const INCLUDE_DEPTH_MAX: usize = 16;

/// Which files of a folder are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `*.pre`, which load plugins; read before any `*.cf`.
    Pre,
    /// `*.cf`: rules and settings.
    Cf,
}

/// One line, comments and outer white space removed. The text is a *byte string*: each byte of the
/// file is one character U+0000 to U+00FF, as Perl reads it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) at: Source,
    pub(crate) fault: Option<LineFault>,
}

/// What is wrong with a line, whatever its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFault {
    /// Longer than [`LINE_BYTES_MAX`]; the text is left out.
    TooLong,
    /// Not valid UTF-8; read as bytes.
    NotUtf8,
}

/// The files of a source: itself if it is a file, else those of the folder in SpamAssassin's order
/// (the official channel first, else by name). If a folder has no rule files but versions of a
/// channel (`/var/lib/spamassassin`), those of the newest version.
pub(crate) fn list(source: &Path, kind: Kind) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(source)?.is_dir() {
        let pre = source.extension().is_some_and(|e| e == "pre");
        return Ok(if pre == (kind == Kind::Pre) { vec![source.to_owned()] } else { Vec::new() });
    }
    let (files, folders) = entries(source, kind)?;
    if files.is_empty() && kind == Kind::Cf {
        let version = |p: &&PathBuf| {
            p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.parse::<f64>().is_ok())
        };
        if let Some(newest) = folders.iter().rfind(version) {
            return entries(newest, kind).map(|e| e.0);
        }
    }
    Ok(files)
}

fn entries(folder: &Path, kind: Kind) -> std::io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let wanted = if kind == Kind::Pre { "pre" } else { "cf" };
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case(wanted));
        if path.is_dir() {
            folders.push(path);
        } else if named {
            files.push(path);
        }
    }
    let official = |p: &PathBuf| p.file_name().is_none_or(|n| n != "updates_spamassassin_org.cf");
    files.sort_by_key(|p| (official(p), p.clone()));
    folders.sort();
    Ok((files, folders))
}

/// A file's lines. Fails if it cannot be read or is larger than [`FILE_BYTES_MAX`].
pub(crate) fn lines(path: &Path) -> std::io::Result<Vec<Line>> {
    let size = std::fs::metadata(path)?.len();
    if size > FILE_BYTES_MAX {
        let text = format!("{size} bytes, more than the {FILE_BYTES_MAX} that are read");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    let bytes = std::fs::read(path)?;
    Ok(split(&bytes, &path.display().to_string()))
}

/// The lines of a text that is named `file` in messages.
pub(crate) fn split(bytes: &[u8], file: &str) -> Vec<Line> {
    let file: Arc<str> = file.into();
    let mut out = Vec::new();
    for (raw, number) in bytes.split(|b| *b == b'\n').zip(1u32..) {
        let at = Source { file: file.clone(), line: number };
        if raw.len() > LINE_BYTES_MAX {
            out.push(Line { text: String::new(), at, fault: Some(LineFault::TooLong) });
            continue;
        }
        let text = without_comment(raw);
        if !text.is_empty() {
            let utf8 = std::str::from_utf8(raw).is_ok();
            out.push(Line { text, at, fault: (!utf8).then_some(LineFault::NotUtf8) });
        }
    }
    out
}

/// Removes a comment (`#` not after a backslash), turns `\#` into `#`, trims.
fn without_comment(raw: &[u8]) -> String {
    let mut end = raw.len();
    for i in memchr::memchr_iter(b'#', raw) {
        if i == 0 || raw[i - 1] != b'\\' {
            end = i;
            break;
        }
    }
    let text: String = raw[..end].iter().map(|b| char::from(*b)).collect();
    let text = if text.contains("\\#") { text.replace("\\#", "#") } else { text };
    text.trim_matches(|c: char| matches!(c, ' ' | '\t'..='\r')).to_owned()
}

/// The bytes of a byte string.
pub(crate) fn to_bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

/// A byte string as text: its bytes as UTF-8, invalid ones replaced.
pub(crate) fn to_text(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    String::from_utf8_lossy(&to_bytes(text)).into_owned()
}

/// Files read so far, so that none is read twice, and those that are being read.
#[derive(Debug, Default)]
pub(crate) struct IncludeStack {
    seen: BTreeSet<PathBuf>,
    pub(crate) stack: Vec<PathBuf>,
}

impl IncludeStack {
    /// Records a file; the error says why it must not be read.
    pub(crate) fn enter(&mut self, path: &Path) -> Result<(), String> {
        if self.stack.iter().any(|p| p == path) {
            return Err("the file includes itself (include loop)".to_owned());
        }
        if self.stack.len() >= INCLUDE_DEPTH_MAX {
            return Err(format!("include is nested deeper than {INCLUDE_DEPTH_MAX}"));
        }
        if !self.seen.insert(path.to_owned()) {
            return Err("the file was read before".to_owned());
        }
        self.stack.push(path.to_owned());
        Ok(())
    }
}
