//! Files that transactions carry: names, sizes, hashes and the part of their data that rules may
//! look at.

use std::cell::Cell;

use md5::{Digest, Md5};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use crate::buffer::Bytes;
use crate::file_magic;
use crate::window::Window;

/// The most bytes of one file that wait for inspection.
const WINDOW_MAX: usize = 4 * 1024 * 1024;
/// The longest name of a file.
pub(crate) const NAME_MAX: usize = 4096;
/// The most files of one direction of one transaction.
const FILES_MAX: usize = 1024;

/// Where a file is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FileState {
    /// More may come.
    #[default]
    Open,
    /// All of it was seen.
    Closed,
    /// Its end was not seen (limits, gaps, the connection's end).
    Truncated,
    /// Something went wrong.
    Error,
}

impl FileState {
    /// As EVE names it.
    pub fn name(self) -> &'static str {
        match self {
            FileState::Open => "UNKNOWN",
            FileState::Closed => "CLOSED",
            FileState::Truncated => "TRUNCATED",
            FileState::Error => "ERROR",
        }
    }
}

/// Which hashes of files are computed, whether their kinds are told, and their data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSettings {
    /// MD5 (RFC 1321).
    pub md5: bool,
    /// SHA-1.
    pub sha1: bool,
    /// SHA-256.
    pub sha256: bool,
    /// What file(1) would call it, though that is no hash.
    pub magic: bool,
    /// Data is kept for rules that look at it, and for who is told of it ([`File::untold`]).
    pub data: bool,
}

impl Default for HashSettings {
    fn default() -> Self {
        Self { md5: true, sha1: true, sha256: true, magic: false, data: true }
    }
}

/// When the data of a file that still grows is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As HTTP/1 has it: so many bytes at the beginning, afterwards windows with a part of what was
    /// looked at before. In bytes.
    Windows { window: u64, min: u64 },
    /// As other protocols have it: once so many bytes are there, or so many of all.
    Whole { limit: u64, min: u64 },
}

impl Default for Pace {
    fn default() -> Self {
        Pace::Whole { limit: 100_000, min: 32 * 1024 }
    }
}

/// What a file is opened with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Opening<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its number within the flow.
    pub track_id: u32,
    /// When it is looked at.
    pub pace: Pace,
    /// What is computed of it.
    pub hashes: HashSettings,
}

#[derive(Default)]
struct Hashes {
    md5: Option<Md5>,
    sha1: Option<Context>,
    sha256: Option<Context>,
}

/// A file.
#[derive(Default)]
pub struct File {
    /// Its name; empty if none is known.
    pub name: Vec<u8>,
    /// Number within the flow, from 0.
    pub track_id: u32,
    /// Bytes seen of it, gaps included.
    pub size: u64,
    /// Where it is.
    pub state: FileState,
    /// Parts of it are missing.
    pub gaps: bool,
    /// First byte and last of a range that the protocol named, if one was named.
    pub range: Option<(u64, u64)>,
    /// The detection engine wants it kept.
    pub store: bool,
    /// Numbers of the rules that want it kept.
    pub stored_for: Vec<u32>,
    /// The record of it was written.
    pub logged: bool,
    /// It is over, and rules have had their look at it: they do not see it any more.
    pub passed: bool,
    /// Bytes up to here were handed to whoever stores files.
    pub told: u64,
    /// Of a closed file.
    pub md5: Option<[u8; 16]>,
    /// Of a closed file.
    pub sha1: Option<[u8; 20]>,
    /// Of a closed or truncated file; of one with gaps that of what was seen.
    pub sha256: Option<[u8; 32]>,
    /// What file(1) would call it, by its first bytes, once there are enough.
    pub magic: Option<String>,
    wants_magic: bool,
    keeps_data: bool,
    hashes: Hashes,
    window: Window,
    inspected: u64,
    handed: Cell<u64>,
    pace: Pace,
}

impl File {
    pub(crate) fn open(opening: Opening<'_>) -> Self {
        let context = |wanted: bool, algorithm| wanted.then(|| Context::new(algorithm));
        let hashes = Hashes {
            md5: opening.hashes.md5.then(Md5::new),
            sha1: context(opening.hashes.sha1, &SHA1_FOR_LEGACY_USE_ONLY),
            sha256: context(opening.hashes.sha256, &SHA256),
        };
        Self {
            name: opening.name.get(..NAME_MAX).unwrap_or(opening.name).to_vec(),
            track_id: opening.track_id,
            pace: opening.pace,
            hashes,
            wants_magic: opening.hashes.magic,
            keeps_data: opening.hashes.data || opening.hashes.magic,
            ..Self::default()
        }
    }

    /// Adds data to an open file.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if self.state != FileState::Open {
            return;
        }
        self.size += bytes.len() as u64;
        if self.keeps_data {
            self.window.append(bytes, WINDOW_MAX);
        } else {
            self.window.pass(bytes.len());
        }
        if self.wants_magic && self.window.end() >= file_magic::BYTES_MIN {
            self.describe();
        }
        if let Some(md5) = &mut self.hashes.md5 {
            md5.update(bytes);
        }
        if let Some(sha1) = &mut self.hashes.sha1 {
            sha1.update(bytes);
        }
        if let Some(sha256) = &mut self.hashes.sha256 {
            sha256.update(bytes);
        }
    }

    /// Only the beginning tells what it is.
    fn describe(&mut self) {
        let (bytes, start) = self.window.from(0);
        if self.magic.is_none() && start == 0 && !bytes.is_empty() {
            self.magic = Some(file_magic::describe(bytes));
        }
    }

    /// So many bytes are missing.
    pub(crate) fn gap(&mut self, len: u64) {
        self.size += len;
        self.gaps = true;
    }

    /// Closes it; `truncated` if that was not its end.
    pub(crate) fn close(&mut self, truncated: bool) {
        if self.state != FileState::Open {
            return;
        }
        if self.wants_magic {
            self.describe();
        }
        let hashes = std::mem::take(&mut self.hashes);
        self.sha256 = hashes.sha256.and_then(|hash| hash.finish().as_ref().try_into().ok());
        if truncated || self.gaps {
            self.state = FileState::Truncated;
            return;
        }
        self.state = FileState::Closed;
        self.md5 = hashes.md5.map(|hash| hash.finalize().into());
        self.sha1 = hashes.sha1.and_then(|hash| hash.finish().as_ref().try_into().ok());
    }

    /// It is not complete, and nothing more comes; without a hash of what was seen.
    pub fn truncate(&mut self) {
        if self.state == FileState::Open {
            self.hashes = Hashes::default();
            self.state = FileState::Truncated;
        }
    }

    /// Bytes behind [`File::told`] that are still kept, and where they begin.
    pub fn untold(&self) -> (&[u8], u64) {
        self.window.from(self.told)
    }

    /// What `file.data` is to look at now, if anything.
    pub(crate) fn data(&self, look: Look) -> Option<Bytes<'_>> {
        let size = self.window.end();
        if size == 0 || self.inspected >= size {
            return None;
        }
        let closed = self.state > FileState::Open;
        let offset = match self.pace {
            Pace::Windows { window, min } => {
                let limited = look.body_limit == 0 || size < look.body_limit;
                let done = look.body_done || look.end;
                if !look.inline && limited && size < min && !done {
                    return None;
                }
                let force = done || closed || look.inline;
                if self.inspected == 0 {
                    if !force && size < min {
                        return None;
                    }
                    0
                } else {
                    window_start(self.inspected, size, window)
                }
            }
            Pace::Whole { limit, min } => {
                if (limit == 0 || size < limit) && size < min && !look.end && !closed {
                    return None;
                }
                self.inspected
            }
        };
        let (data, offset) = self.window.from(offset);
        let wait = matches!(self.pace, Pace::Windows { min, .. } if look.inline && size < min);
        if !wait {
            self.handed.set(self.handed.get().max(offset + data.len() as u64));
        }
        Some(Bytes {
            data: data.into(),
            offset,
            begin: offset == 0,
            end: self.state == FileState::Closed,
        })
    }

    /// What was handed out counts as looked at.
    pub(crate) fn inspected(&mut self) {
        self.inspected = self.inspected.max(self.handed.get());
    }

    /// Forgets data that is not needed any more.
    pub(crate) fn prune(&mut self) {
        self.passed |= self.state > FileState::Open;
        let mut edge = self.window.end().min(self.inspected);
        if let Pace::Windows { window, min } = self.pace {
            let kept = self.window.end() - self.window.offset();
            let window = if self.window.offset() == 0 { window.max(min) } else { window };
            if kept > window * 3 {
                self.inspected = self.inspected.max(self.window.end().saturating_sub(window));
            }
            edge = edge.saturating_sub(window);
        }
        self.window.slide(edge);
    }
}

/// What decides whether a file's data is looked at yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// No more data comes in this direction.
    pub end: bool,
    /// The transaction's body is over.
    pub body_done: bool,
    /// The limit of bodies in bytes, 0 is none.
    pub body_limit: u64,
    /// Bodies are looked at at once.
    pub inline: bool,
}

/// Where the next part to look at begins: new data fills a window, or has a quarter of one before
/// it.
pub(crate) fn window_start(inspected: u64, size: u64, window: u64) -> u64 {
    let new = size.saturating_sub(inspected);
    if new < window {
        inspected.saturating_sub(window - new)
    } else {
        inspected.saturating_sub(window / 4)
    }
}

/// Adds a file, unless there are too many.
pub(crate) fn add(files: &mut Vec<File>, opening: Opening<'_>) -> bool {
    if files.len() >= FILES_MAX {
        return false;
    }
    files.push(File::open(opening));
    true
}
