//! A fault-injecting medium for tests: it knows what was synced and what only written, and
//! simulates power failures at any point.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::medium::{Medium, MediumFile, copy_at};

/// The fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Every write and sync succeeds.
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
    /// Files whose removal would not survive a power failure.
    removed: BTreeMap<String, Bytes>,
    fault: Fault,
    /// A fault that begins after so many writes and syncs.
    later: Option<(u64, Fault)>,
    /// Files that were begun, also those that could not be written.
    created: u64,
    observer: Option<Observer>,
}

/// Called before and after every change of the medium.
#[derive(Clone)]
struct Observer(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer(..)")
    }
}

/// What a power failure leaves of removals that were not made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removals {
    /// Removed files stay away.
    Kept,
    /// The files are there again.
    Undone,
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
        let mut state = self.state();
        (state.fault, state.later) = (fault, None);
    }

    /// Sets the fault that begins after so many writes and syncs.
    pub fn set_fault_after(&self, calls: u64, fault: Fault) {
        self.state().later = Some((calls, fault));
    }

    /// Calls this before and after every change from now on.
    pub fn observe(&self, observer: impl Fn() + Send + Sync + 'static) {
        self.state().observer = Some(Observer(Arc::new(observer)));
    }

    /// Runs a change between two calls of the observer.
    fn observed<T>(&self, change: impl FnOnce() -> T) -> T {
        let observer = self.state().observer.clone();
        observer.iter().for_each(|o| (o.0)());
        let value = change();
        observer.iter().for_each(|o| (o.0)());
        value
    }

    /// The fault of a write or sync now.
    fn fault(&self) -> Fault {
        let mut state = self.state();
        match state.later {
            Some((0, fault)) => (state.fault, state.later) = (fault, None),
            Some((calls, fault)) => state.later = Some((calls - 1, fault)),
            None => {}
        }
        state.fault
    }

    /// The medium after the process was killed now: what was written stays.
    pub fn killed(&self) -> Faulty {
        let state = State { files: self.state().files.clone(), ..State::default() };
        Faulty { state: Arc::new(Mutex::new(state)) }
    }

    /// How many files were begun, also those that could not be written.
    pub fn created(&self) -> u64 {
        self.state().created
    }

    /// The medium after a power failure now. Of unsynced bytes `keep(unsynced)` survive; names that
    /// were not made durable are gone.
    pub fn power_cut(&self, keep: impl FnMut(usize) -> usize) -> Faulty {
        self.power_cut_with(keep, Removals::Kept)
    }

    /// The same; says what becomes of removals that were not made durable.
    pub fn power_cut_with(
        &self,
        mut keep: impl FnMut(usize) -> usize,
        removals: Removals,
    ) -> Faulty {
        let mut files = BTreeMap::new();
        let state = self.state();
        let removed = state.removed.iter().filter(|_| removals == Removals::Undone);
        for (name, bytes) in state.files.iter().chain(removed) {
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
        self.observed(|| {
            let mut state = self.state();
            state.created += 1;
            state.files.insert(name.to_owned(), Bytes::default());
        });
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        if !self.state().files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(FaultyFile { medium: self.clone(), name: name.to_owned() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.observed(|| {
            let mut state = self.state();
            let removed = state.files.remove(name).filter(|bytes| bytes.named);
            state.removed.extend(removed.map(|bytes| (name.to_owned(), bytes)));
        });
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.observed(|| {
            let mut state = self.state();
            state.files.values_mut().for_each(|bytes| bytes.named = true);
            state.removed.clear();
        });
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
    fn with<T>(&self, change: impl FnOnce(&mut Bytes) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.medium.state();
        match state.files.get_mut(&self.name) {
            Some(bytes) => change(bytes),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl MediumFile for FaultyFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let (all, fault) = (parts.concat(), self.medium.fault());
        let write = |bytes: &mut Bytes| match fault {
            Fault::NoSpace => Err(io::ErrorKind::StorageFull.into()),
            Fault::ShortWrite => {
                bytes.written.extend_from_slice(all.get(..all.len() / 2).unwrap_or_default());
                Err(io::Error::other("input/output error"))
            }
            Fault::None | Fault::SyncFails => {
                bytes.written.extend_from_slice(&all);
                Ok(())
            }
        };
        self.medium.observed(|| self.with(write))
    }

    fn sync(&self) -> io::Result<()> {
        let fault = self.medium.fault();
        let sync = |bytes: &mut Bytes| {
            if fault == Fault::SyncFails {
                return Err(io::Error::other("input/output error"));
            }
            bytes.synced = bytes.written.len();
            // As on common file systems, syncing a new file makes its name durable too.
            bytes.named = true;
            Ok(())
        };
        self.medium.observed(|| self.with(sync))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|bytes| copy_at(&bytes.written, buffer, offset))
    }

    fn size(&self) -> io::Result<u64> {
        self.with(|bytes| Ok(bytes.written.len() as u64))
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let cut = |bytes: &mut Bytes| {
            bytes.written.truncate(usize::try_from(size).unwrap_or(usize::MAX));
            bytes.synced = bytes.synced.min(bytes.written.len());
            Ok(())
        };
        self.medium.observed(|| self.with(cut))
    }
}
