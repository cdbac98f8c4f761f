//! Lists of known files by SHA-256 or MD5, with names: millions of lines, of which only eight bytes
//! of each hash and its place are kept in memory; names are read from the file when they are
//! needed.
//!
//! A line has a hash and, behind a space, tab, comma, semicolon or colon, more: a name, or the size
//! and the name of ClamAV's `.hdb` and `.hsb` files. Quotes and lines that begin with `#` are what
//! they are in exports of public lists.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Answer, Engine, EngineError, EngineItem};

/// Bytes of a line that are read when its hash is found.
const LINE_BYTES_MAX: usize = 512;
/// Bytes of the list itself that a hash needs, at least.
const MD5_DIGITS: usize = 32;
const SHA256_DIGITS: usize = 64;
/// Lines without a hash that are reported one by one.
const PROBLEMS_MAX: usize = 10;

/// An engine that looks files up in one list by SHA-256 and MD5.
#[derive(Debug)]
pub struct HashList {
    path: PathBuf,
    file: File,
    version: String,
    /// The first 64 bits of each hash, with the place of its line; sorted.
    sha256: Vec<(u64, u64)>,
    md5: Vec<(u64, u64)>,
}

/// What a list has.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HashListReport {
    /// Lines with a hash, SHA-256 and MD5 together.
    pub hashes: u64,
    /// Lines that have none: number, beginning with 1, and what is wrong.
    pub problems: Vec<(u64, String)>,
    /// Such lines in all.
    pub lines_skipped: u64,
}

impl HashList {
    /// Reads a list.
    ///
    /// # Errors
    /// If it cannot be read, or has no hash at all.
    pub fn load(path: &Path) -> io::Result<(Self, HashListReport)> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut list = HashList {
            path: path.to_owned(),
            file: file.try_clone()?,
            version: String::new(),
            sha256: Vec::new(),
            md5: Vec::new(),
        };
        let mut report = HashListReport::default();
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let (mut line, mut at, mut number) = (Vec::new(), 0u64, 0u64);
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            context.update(&line);
            number += 1;
            list.add(&line, at, number, &mut report);
            at += line.len() as u64;
        }
        list.sha256.sort_unstable();
        list.md5.sort_unstable();
        list.sha256.shrink_to_fit();
        list.md5.shrink_to_fit();
        if report.hashes == 0 && length > 0 {
            let why = "no line begins with 64 (SHA-256) or 32 (MD5) hexadecimal digits";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let digest = context.finish();
        let mark: String = digest.as_ref()[..6].iter().map(|b| format!("{b:02x}")).collect();
        list.version = format!("{} hashes, {mark}", report.hashes);
        Ok((list, report))
    }

    fn add(&mut self, line: &[u8], at: u64, number: u64, report: &mut HashListReport) {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            return;
        }
        let hash = hash_of(text);
        let entry = hash.and_then(prefix).map(|prefix| (prefix, at));
        match (hash.map(<[u8]>::len), entry) {
            (Some(SHA256_DIGITS), Some(entry)) => self.sha256.push(entry),
            (Some(MD5_DIGITS), Some(entry)) => self.md5.push(entry),
            _ => {
                report.lines_skipped += 1;
                if report.problems.len() < PROBLEMS_MAX {
                    let why = "no SHA-256 or MD5 at its beginning".to_owned();
                    report.problems.push((number, why));
                }
                return;
            }
        }
        report.hashes += 1;
    }

    /// The name behind a hash, if the list has it.
    ///
    /// # Errors
    /// If the list can no longer be read.
    pub fn find(&self, hash: &str) -> io::Result<Option<String>> {
        let Some(prefix) = prefix(hash.as_bytes()) else { return Ok(None) };
        let entries = if hash.len() == SHA256_DIGITS { &self.sha256 } else { &self.md5 };
        let first = entries.partition_point(|(p, _)| *p < prefix);
        for (_, at) in entries[first..].iter().take_while(|(p, _)| *p == prefix) {
            let mut line = [0; LINE_BYTES_MAX];
            let got = read_at(&self.file, &mut line, *at)?;
            let line = line[..got].split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
            // Eight bytes of a hash may agree by chance, or the file has changed under us.
            if hash_of(line).is_some_and(|h| h.eq_ignore_ascii_case(hash.as_bytes())) {
                return Ok(Some(name_of(line, hash.len())));
            }
        }
        Ok(None)
    }
}

fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], at + got as u64)? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

/// The digits at the beginning of a line, if they are a hash.
fn hash_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_prefix(b"\"").unwrap_or(line);
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let ends = line.get(digits).is_none_or(|b| b" \t,;:\"\r\n".contains(b));
    (ends && [MD5_DIGITS, SHA256_DIGITS].contains(&digits)).then(|| &line[..digits])
}

fn prefix(hash: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(hash.get(..16)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// What stands behind the hash: the last field of ClamAV's files, else the first that is no number.
fn name_of(line: &[u8], digits: usize) -> String {
    let text = String::from_utf8_lossy(line);
    let rest = text.trim_start_matches('"').get(digits..).unwrap_or_default();
    let fields = rest.split([',', ';', ':', '\t', '"']).map(|f| f.trim().trim_matches('"'));
    let is_name = |f: &&str| !f.is_empty() && *f != "*" && !f.bytes().all(|b| b.is_ascii_digit());
    let name = fields.into_iter().find(is_name).unwrap_or("known malware").trim_start_matches('*');
    name.chars().take(120).collect()
}

impl Engine for HashList {
    fn version(&self, _: Instant) -> Result<String, EngineError> {
        Ok(self.version.clone())
    }

    fn scan(&self, item: &EngineItem<'_>, _: Instant) -> Result<Answer, EngineError> {
        let failed = |error: io::Error| {
            EngineError::Unreachable(format!("{}: {error}", self.path.display()))
        };
        for hash in [item.sha256, item.md5] {
            if let Some(name) = self.find(hash).map_err(failed)? {
                return Ok(Answer::Found(vec![name]));
            }
        }
        Ok(Answer::Clean)
    }

    fn is_expensive(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> io::Result<(HashList, HashListReport)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, text).unwrap();
        HashList::load(&path)
    }

    #[test]
    fn formats_of_lists() {
        let (a, b, c) = ("a".repeat(64), "B".repeat(64), "c".repeat(32));
        let text = format!(
            "# comment\n{a}\n\"{b}\", \"Evil.B\"\r\n{c}:1234:Win.Test.C-1\nno hash\n{}:x\n",
            "d".repeat(40)
        );
        let (list, report) = list(&text).unwrap();
        assert_eq!((report.hashes, report.lines_skipped), (3, 2));
        assert_eq!(report.problems[0].0, 5);
        assert_eq!(list.find(&a).unwrap().as_deref(), Some("known malware"));
        assert_eq!(list.find(&b.to_lowercase()).unwrap().as_deref(), Some("Evil.B"));
        assert_eq!(list.find(&c).unwrap().as_deref(), Some("Win.Test.C-1"));
        assert_eq!(list.find(&"e".repeat(64)).unwrap(), None);
        assert_eq!(list.find("").unwrap(), None);
        let near = format!("{}f", "a".repeat(63));
        assert_eq!(list.find(&near).unwrap(), None, "all digits count");
    }

    #[test]
    fn what_is_no_list() {
        assert!(list("").unwrap().0.sha256.is_empty(), "an empty list is a list");
        assert_eq!(list("hello\nworld\n").unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(HashList::load(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_list_that_shrinks_finds_nothing_and_does_not_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, format!("{}\n{} name\n", "1".repeat(64), "2".repeat(64))).unwrap();
        let (list, _) = HashList::load(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
        assert_eq!(list.find(&"2".repeat(64)).unwrap(), None);
    }
}
