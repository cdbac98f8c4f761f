//! A file that a protocol transfers in pieces, which need not come in order.

use std::collections::BTreeMap;

use crate::files::{File, HashSettings, Opening, Pace};

/// Bytes of pieces that wait for what is before them.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Pieces that wait.
const WAITING_MAX: usize = 4096;

/// Where a transfer stands. The file itself is in the transaction's state.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// Bytes that are through in order.
    pub(crate) tracked: u64,
    /// A file is open.
    pub(crate) is_open: bool,
    is_closed: bool,
    is_truncated: bool,
    left: u64,
    /// Where the current piece belongs, if not behind what is through.
    elsewhere: Option<u64>,
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_bytes: usize,
}

impl Tracker {
    /// A piece of `size` bytes begins, with its first bytes.
    pub(crate) fn piece(
        &mut self,
        files: &mut Vec<File>,
        name: &[u8],
        hashes: HashSettings,
        offset: u64,
        size: u64,
        bytes: &[u8],
    ) {
        if self.left > 0 {
            self.truncate(files);
        }
        self.elsewhere = (offset != self.tracked).then_some(offset);
        self.left = size;
        if self.is_truncated || self.is_closed {
            return;
        }
        if !self.is_open {
            let pace = Pace::default();
            let opening = Opening { name, track_id: 0, pace, hashes };
            self.is_open = crate::files::add(files, opening);
        }
        if self.is_open {
            self.update(files, bytes, false);
        }
    }

    /// More of the current piece; says how many bytes are part of it.
    pub(crate) fn update(&mut self, files: &mut [File], bytes: &[u8], is_gap: bool) -> usize {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.left -= taken.len() as u64;
        if self.is_truncated || taken.is_empty() {
            return taken.len();
        }
        match self.elsewhere {
            None => {
                append(files, taken, is_gap);
                self.tracked += taken.len() as u64;
            }
            Some(offset) => self.keep(files, offset, taken),
        }
        if self.left == 0 {
            self.elsewhere = None;
            while let Some(next) = self.waiting.remove(&self.tracked) {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(next.len());
                append(files, &next, false);
                self.tracked += next.len() as u64;
                if next.is_empty() {
                    break;
                }
            }
        }
        taken.len()
    }

    fn keep(&mut self, files: &mut [File], offset: u64, bytes: &[u8]) {
        self.waiting_bytes += bytes.len();
        if self.waiting_bytes > WAITING_BYTES_MAX || self.waiting.len() > WAITING_MAX {
            self.truncate(files);
            return;
        }
        self.waiting.entry(offset).or_default().extend_from_slice(bytes);
    }

    /// Bytes that wait for what is before them.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// The file is over.
    pub(crate) fn close(&mut self, files: &mut [File]) {
        if !self.is_truncated
            && let Some(file) = files.last_mut()
        {
            file.close(false);
        }
        self.is_open = false;
        self.is_closed = true;
        self.tracked = 0;
    }

    /// The rest of the file is not seen.
    pub(crate) fn truncate(&mut self, files: &mut [File]) {
        if self.is_truncated || !self.is_open {
            return;
        }
        if let Some(file) = files.last_mut() {
            file.close(true);
        }
        self.is_truncated = true;
        self.waiting.clear();
        self.waiting_bytes = 0;
    }
}

fn append(files: &mut [File], bytes: &[u8], is_gap: bool) {
    if let Some(file) = files.last_mut() {
        if is_gap {
            file.gap(bytes.len() as u64);
        } else {
            file.append(bytes);
        }
    }
}
