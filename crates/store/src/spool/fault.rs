//! A fault-injecting medium for tests: it knows what was synced and what only written, and
//! simulates power failures at any point.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::medium::{Medium, MediumFile, copy_at};

/// The fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// Writes fail with ENOSPC, and write nothing.
    NoSpace,
    /// Writes write half, then fail with EIO.
    ShortWrite,
    /// Syncs fail with EIO.
    SyncFails,
}

#[derive(Debug, Clone, Default)]
struct Bytes {
    /// The content that a reader sees.
    written: Vec<u8>,
    /// How many bytes of it survive a power failure.
    synced: usize,
    /// Whether the name survives a power failure.
    named: bool,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Bytes>,
    fault: Fault,
    /// Files that were begun, also those that could not be written.
    created: u64,
}

/// The medium. Clones share its files.
#[derive(Debug, Clone, Default)]
pub struct Faulty {
    state: Arc<Mutex<State>>,
}

impl Faulty {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the fault from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// How many files were begun, also those that could not be written.
    pub fn created(&self) -> u64 {
        self.state().created
    }

    /// The medium after a power failure now. Of unsynced bytes `keep(unsynced)` survive; names that
    /// were not made durable are gone.
    pub fn power_cut(&self, mut keep: impl FnMut(usize) -> usize) -> Faulty {
        let mut files = BTreeMap::new();
        for (name, bytes) in &self.state().files {
            if !bytes.named {
                continue;
            }
            let unsynced = bytes.written.len().saturating_sub(bytes.synced);
            let length = bytes.synced + keep(unsynced).min(unsynced);
            let written = bytes.written.get(..length).unwrap_or_default().to_vec();
            files.insert(name.clone(), Bytes { written, synced: length, named: true });
        }
        Faulty { state: Arc::new(Mutex::new(State { files, ..State::default() })) }
    }

    /// Flips one byte of a file.
    pub fn damage(&self, name: &str, offset: usize) {
        if let Some(byte) =
            self.state().files.get_mut(name).and_then(|bytes| bytes.written.get_mut(offset))
        {
            *byte ^= 0xff;
        }
    }
}

impl Medium for Faulty {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().files.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let mut state = self.state();
        state.created += 1;
        state.files.insert(name.to_owned(), Bytes::default());
        drop(state);
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(FaultyFile { medium: self.clone(), name: name.to_owned() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().files.remove(name);
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.state().files.values_mut().for_each(|bytes| bytes.named = true);
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(if self.state().fault == Fault::NoSpace { 0 } else { u64::MAX })
    }

    fn describe(&self) -> String {
        "a faulty medium".to_owned()
    }
}

#[derive(Debug)]
struct FaultyFile {
    medium: Faulty,
    name: String,
}

impl FaultyFile {
    fn with<T>(&self, change: impl FnOnce(&mut Bytes, Fault) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.medium.state();
        let fault = state.fault;
        match state.files.get_mut(&self.name) {
            Some(bytes) => change(bytes, fault),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl MediumFile for FaultyFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let all = parts.concat();
        self.with(|bytes, fault| match fault {
            Fault::NoSpace => Err(io::ErrorKind::StorageFull.into()),
            Fault::ShortWrite => {
                bytes.written.extend_from_slice(all.get(..all.len() / 2).unwrap_or_default());
                Err(io::Error::other("input/output error"))
            }
            Fault::None | Fault::SyncFails => {
                bytes.written.extend_from_slice(&all);
                Ok(())
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|bytes, fault| {
            if fault == Fault::SyncFails {
                return Err(io::Error::other("input/output error"));
            }
            bytes.synced = bytes.written.len();
            // As on common file systems, syncing a new file makes its name durable too.
            bytes.named = true;
            Ok(())
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|bytes, _| copy_at(&bytes.written, buffer, offset))
    }

    fn size(&self) -> io::Result<u64> {
        self.with(|bytes, _| Ok(bytes.written.len() as u64))
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.with(|bytes, _| {
            bytes.written.truncate(usize::try_from(size).unwrap_or(usize::MAX));
            bytes.synced = bytes.synced.min(bytes.written.len());
            Ok(())
        })
    }
}
