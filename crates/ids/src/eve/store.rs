//! Files that are kept: `DIRECTORY/ab/ab12...`, by their SHA-256.
//!
//! A file is written to `DIRECTORY/tmp` as it comes, and moved when it ended. What comes before a
//! rule says that it is to be kept waits in memory.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gauntlet_packet::Direction;
use ring::digest::{Context, SHA256};

use crate::config::{Settings as Table, parse_flag};
use crate::pipeline::observer::FilePart;

/// Bytes of one file that wait for a rule; one that has more before a rule matched is not stored.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes of all files that wait.
const ALL_WAITING_BYTES_MAX: usize = 64 << 20;

/// The longest file that is stored, in bytes; of a longer one nothing is.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Settings of the store (`outputs.N.file-store`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where files go.
    pub directory: PathBuf,
    /// All files are kept, not only those that rules name.
    pub force: bool,
    /// Each occurrence has a record beside the file.
    pub writes_records: bool,
    /// Reassembly depth of streams with stored files, in bytes; 0 is no limit.
    pub stream_depth: Option<u32>,
}

impl Settings {
    /// The first store of `outputs` that is enabled. `beside`: where relative paths begin.
    pub fn read(table: &Table, beside: &Path) -> Option<Self> {
        (0..64).find_map(|number| {
            let value = |name: &str| table.get(&format!("outputs.{number}.file-store.{name}"));
            let flag = |name: &str| value(name).and_then(parse_flag).unwrap_or(false);
            let depth = format!("outputs.{number}.file-store.stream-depth");
            flag("enabled").then(|| Self {
                directory: beside.join(value("dir").unwrap_or("filestore")),
                force: flag("force-filestore"),
                writes_records: flag("write-fileinfo"),
                stream_depth: table.number(&depth),
            })
        })
    }

    /// Whether a key of the settings is one of these.
    pub fn knows(key: &str) -> bool {
        let names = ["enabled", "dir", "force-filestore", "write-fileinfo", "stream-depth"];
        let of_store = key.split_once(".file-store.").filter(|(at, _)| at.starts_with("outputs."));
        of_store.is_some_and(|(_, name)| names.contains(&name) || name == "version")
    }
}

/// A file of a flow: transaction, direction, place.
type Key = (u64, Direction, usize);

/// A file that is not complete yet.
#[derive(Default)]
struct Pending {
    /// Not written yet.
    waiting: Vec<u8>,
    /// Where it is written, once it is.
    path: Option<PathBuf>,
    hash: Option<Context>,
    bytes: u64,
    number: u64,
    /// It cannot be stored: too long, or something went wrong.
    is_given_up: bool,
}

/// A folder of stored files.
pub struct Store {
    settings: Settings,
    /// By flow.
    pending: HashMap<u64, HashMap<Key, Pending>>,
    waiting_bytes: usize,
    next: u64,
    /// Where the record of the last file that was stored goes.
    last: Option<PathBuf>,
    problem: Option<io::Error>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store; its folder is made if it is not there.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made.
    pub fn open(settings: Settings) -> io::Result<Self> {
        fs::create_dir_all(settings.directory.join("tmp"))?;
        Ok(Self {
            settings,
            pending: HashMap::new(),
            waiting_bytes: 0,
            next: 1,
            last: None,
            problem: None,
        })
    }

    /// What it was opened with.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The first thing that went wrong.
    pub(super) fn problem(&self) -> Option<&io::Error> {
        self.problem.as_ref()
    }

    pub(super) fn writes_records(&self) -> bool {
        self.settings.writes_records
    }

    /// Takes a part of a file. The file's number in the store, if it is there now.
    pub(super) fn take(&mut self, part: &FilePart<'_>) -> Option<u64> {
        let flow = part.moment.flow.map_or(0, |flow| flow.core.number);
        let key = (part.state.id, part.direction, part.index);
        let of_flow = self.pending.get_mut(&flow);
        let known = of_flow.and_then(|of_flow| of_flow.remove(&key));
        let mut pending = known.unwrap_or_default();
        self.waiting_bytes = self.waiting_bytes.saturating_sub(pending.waiting.len());
        let is_wanted = self.settings.force || part.file.store;
        let taken = self.add(&mut pending, part, is_wanted);
        let stored = match taken {
            Ok(()) if part.is_end && is_wanted && !pending.is_given_up => {
                let time = part.moment.packet.time.seconds;
                self.finish(&mut pending, part.file.sha256, time)
            }
            other => other.map(|()| false),
        };
        let stored = stored.unwrap_or_else(|error| {
            self.problem.get_or_insert(error);
            pending.is_given_up = true;
            false
        });
        let number = pending.number;
        if part.is_end {
            if let Some(path) = pending.path.take() {
                // It was moved, or is not wanted any more.
                let _ = fs::remove_file(path);
            }
        } else {
            self.waiting_bytes += pending.waiting.len();
            self.pending.entry(flow).or_default().insert(key, pending);
        }
        stored.then_some(number)
    }

    /// A flow has ended: what is not complete of its files goes.
    pub(super) fn forget(&mut self, flow: u64) {
        for pending in self.pending.remove(&flow).unwrap_or_default().into_values() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(pending.waiting.len());
            if let Some(path) = pending.path
                && let Err(error) = fs::remove_file(path)
            {
                self.problem.get_or_insert(error);
            }
        }
    }

    fn add(&mut self, pending: &mut Pending, part: &FilePart<'_>, wanted: bool) -> io::Result<()> {
        pending.bytes += part.data.len() as u64;
        if pending.bytes > FILE_BYTES_MAX {
            pending.is_given_up = true;
        }
        if pending.is_given_up {
            pending.waiting = Vec::new();
            return Ok(());
        }
        if !wanted {
            let len = pending.waiting.len() + part.data.len();
            if len > WAITING_BYTES_MAX || self.waiting_bytes + len > ALL_WAITING_BYTES_MAX {
                pending.is_given_up = true;
                pending.waiting = Vec::new();
            } else {
                pending.waiting.extend_from_slice(part.data);
            }
            return Ok(());
        }
        let path = match &pending.path {
            Some(path) => path.clone(),
            None => {
                let path = self.settings.directory.join(format!("tmp/file.{}", self.next));
                pending.number = self.next;
                self.next += 1;
                pending.path = Some(path.clone());
                path
            }
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let hash = pending.hash.get_or_insert_with(|| Context::new(&SHA256));
        for bytes in [std::mem::take(&mut pending.waiting).as_slice(), part.data] {
            hash.update(bytes);
            file.write_all(bytes)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        pending: &mut Pending,
        hash: Option<[u8; 32]>,
        seconds: i64,
    ) -> io::Result<bool> {
        let (Some(path), Some(own)) = (pending.path.take(), pending.hash.take()) else {
            return Ok(false);
        };
        let name = match hash {
            Some(hash) => hex(&hash),
            None => hex(own.finish().as_ref()),
        };
        let folder = self.settings.directory.join(name.get(..2).unwrap_or_default());
        fs::create_dir_all(&folder)?;
        let target = folder.join(&name);
        fs::rename(path, &target)?;
        let record = format!("{}.{seconds}.{}.json", target.display(), pending.number);
        self.last = Some(PathBuf::from(record));
        Ok(true)
    }

    /// Writes the record of the file that was stored last.
    pub(super) fn write_record(&mut self, text: &str) {
        if let Some(path) = self.last.take()
            && let Err(error) = fs::write(path, text)
        {
            self.problem.get_or_insert(error);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
