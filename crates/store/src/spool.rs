//! The spool: messages in flight, on stable storage.
//!
//! A thread appends messages to segment files, makes many durable with one sync (group commit) and
//! only then reports them; design invariant 2 rests on that. Large messages have a thread and
//! segments of their own ([`Lane`]): writing 10 MB and syncing them takes tens of milliseconds, for
//! which small ones would wait. Delivery states go into a second file beside each segment, without
//! a sync: losing the end of that file repeats a delivery, it never loses a message. A segment
//! without live messages is removed; one that is kept by only a few is compacted by moving them to
//! the newest segment of its lane.
//!
//! ```text
//! put ──▶ queue ──▶ commit thread: append all, fdatasync once ──▶ done(Ok) for each
//!                    0000000000000001.seg   messages
//!                    0000000000000001.sta   their states: due times, progress, done
//!                    8000000000000001.seg   large messages (and .sta)
//! ```
//!
//! After a failed write the segment is truncated to its last valid length and closed; after a
//! failed sync the kernel's cache is not trusted: the segment is closed and a new one begun. Either
//! way the messages of that batch are reported as failed.

mod error;
pub mod fault;
mod lane;
mod load;
pub mod medium;
mod options;
mod record;
mod recover;
mod states;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::clock::Clock;
use crate::inbox::{Inbox, inbox};
pub use error::SpoolError;
use lane::{LANES, Lane};
use load::load;
pub use medium::{Disk, Medium, MediumFile, Ram, ReadOnlyDisk, Volatile};
pub use options::SpoolOptions;
pub(crate) use record::{FILE_MAGIC, VERSION};
use record::{Format, HEAD_BYTES, Head};
use recover::Entry;
use states::{UnsavedStates, UnwrittenDone};
use writer::{Command, Writer};

/// Location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    /// Number of the segment.
    pub segment: u64,
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Bytes of its payload.
    pub bytes: u32,
}

/// A message of the spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Metadata that [`Spool::put`] was given.
    pub meta: Vec<u8>,
    /// The message's bytes as [`Spool::put`] was given them.
    pub body: Vec<u8>,
    /// The last state of [`Spool::set_state`].
    pub state: Option<Vec<u8>>,
    /// Due time of the next action, in Unix milliseconds.
    pub due: i64,
}

/// Result of reading the spool back when it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Messages that are not done: id and due time.
    pub messages: Vec<(u64, i64)>,
    /// Bytes of torn writes that were truncated.
    pub torn_bytes: u64,
    /// Damaged regions that were skipped.
    pub damaged: u64,
    /// Ids of messages found behind damage in a file of the old format, where nothing distinguishes
    /// them from bytes that a sender put into a body. An administrator should review them before
    /// delivery.
    pub unverified: Vec<u64>,
}

/// Fill level of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Messages that are not done.
    pub messages: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Number of segment files.
    pub segments: u64,
}

/// Called on the commit thread when a message is durable, or failed; must be quick.
pub type OnDurable = Box<dyn FnOnce(Result<(), SpoolError>) + Send>;

/// Files and counters of a segment.
#[derive(Debug, Clone)]
struct Segment {
    messages: Arc<dyn MediumFile>,
    format: Format,
    states: Option<(Arc<dyn MediumFile>, Format)>,
    /// Bytes of the message file.
    bytes: u64,
    /// Bytes of the state file.
    state_bytes: u64,
    /// Messages that are not done, and their bytes.
    live: u64,
    live_bytes: u64,
}

/// State that the commit threads and readers share.
#[derive(Debug, Default)]
struct Index {
    entries: BTreeMap<u64, Entry>,
    segments: BTreeMap<u64, Segment>,
    /// Ids of messages that are being written.
    arriving: BTreeSet<u64>,
    /// The segments that are appended to, by [`Lane`]. Only the lane's own thread removes one that
    /// is open: it may be writing to it.
    open: [Option<u64>; LANES],
}

impl Index {
    fn is_open(&self, number: u64) -> bool {
        self.open.contains(&Some(number))
    }

    /// Notes that a message is being written; no if there is one of its id.
    fn arrives(&mut self, id: u64) -> bool {
        !self.entries.contains_key(&id) && self.arriving.insert(id)
    }
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    medium: Arc<dyn Medium>,
    index: Mutex<Index>,
    /// Locked while states are written and segments removed, always before `index`. Has the
    /// messages that are done and not yet recorded as such, by segment.
    states: Mutex<UnwrittenDone>,
    /// States that could not be written. Locked last.
    unsaved: Mutex<UnsavedStates>,
    /// Bytes of all segments.
    bytes: AtomicU64,
    free: Mutex<(Instant, u64)>,
    /// Errors of the last writes of messages, by [`Lane`]; none if it succeeded.
    failures: Mutex<[Option<String>; LANES]>,
}

impl Shared {
    fn failures(&self) -> MutexGuard<'_, [Option<String>; LANES]> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last state of a message.
    fn state_of(
        &self,
        id: u64,
        entry: &Entry,
        segment: &Segment,
    ) -> Result<Option<Vec<u8>>, SpoolError> {
        if let Some(state) = self.unsaved_state(id) {
            return Ok(Some(state));
        }
        match (entry.state, &segment.states) {
            (Some(location), Some((file, format))) => {
                Ok(Some(read_payload(&**file, format, location)?.1))
            }
            _ => Ok(None),
        }
    }
}

/// How long a measurement of free space is valid: a system call for each message would cost more
/// than the little that is written meanwhile, for which `free_bytes_min` leaves room.
const FREE_MEASURED_FOR: Duration = Duration::from_millis(200);

/// An open spool. Share it as `Arc<Spool>`; every method may be called from any thread.
///
/// Dropping it writes what is queued.
#[derive(Debug)]
pub struct Spool {
    shared: Arc<Shared>,
    options: SpoolOptions,
    /// By [`Lane`].
    queues: Option<[Inbox<Command>; LANES]>,
    threads: Vec<JoinHandle<()>>,
}

impl Spool {
    /// Opens a spool on this medium and reads its messages back.
    ///
    /// The caller ensures that no other process has it open (a lock on the data folder).
    ///
    /// # Errors
    /// If the medium cannot be read or a file is of a newer format. Torn writes and damage are no
    /// errors; see [`Recovery`].
    pub fn open(
        medium: Arc<dyn Medium>,
        options: SpoolOptions,
    ) -> Result<(Self, Recovery), SpoolError> {
        Self::open_with_clock(medium, options, Clock::system())
    }

    /// Like [`Spool::open`]; `clock` says when free space is measured and a failed medium probed
    /// again.
    ///
    /// # Errors
    /// As [`Spool::open`].
    pub fn open_with_clock(
        medium: Arc<dyn Medium>,
        options: SpoolOptions,
        clock: Clock,
    ) -> Result<(Self, Recovery), SpoolError> {
        let (index, recovery, newest) = load(&*medium)?;
        let bytes = index.segments.values().map(|s| s.bytes).sum();
        let shared = Arc::new(Shared {
            medium,
            index: Mutex::new(index),
            states: Mutex::default(),
            unsaved: Mutex::default(),
            bytes: AtomicU64::new(bytes),
            free: Mutex::new((clock.now(), u64::MAX)),
            clock,
            failures: Mutex::default(),
        });
        let spool_free = shared.medium.free_bytes().unwrap_or(u64::MAX);
        *shared.free.lock().unwrap_or_else(PoisonError::into_inner) =
            (shared.clock.now(), spool_free);
        let (small, small_commands) = inbox(usize::MAX);
        let (large, large_commands) = inbox(usize::MAX);
        let queues = Some([small, large]);
        let mut spool = Spool { shared, options, queues, threads: Vec::new() };
        for (lane, commands) in Lane::ALL.into_iter().zip([small_commands, large_commands]) {
            let writer = Writer::new(spool.shared.clone(), options, lane, newest.after(lane));
            let thread = std::thread::Builder::new()
                .name(lane.thread_name().to_owned())
                .spawn(move || writer.run(&commands))
                .map_err(|source| SpoolError::Io {
                    path: spool.shared.medium.describe(),
                    what: "start a commit thread of",
                    source,
                })?;
            spool.threads.push(thread);
        }
        Ok((spool, recovery))
    }

    /// Checks whether a message of this many bytes can be accepted now.
    ///
    /// # Errors
    /// [`SpoolError::Full`]: reply 452 before the body is received.
    pub fn reserve(&self, bytes: u64) -> Result<(), SpoolError> {
        let used = self.shared.bytes.load(Ordering::Relaxed);
        let free = {
            let mut measured = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
            let clock = &self.shared.clock;
            if clock.elapsed(measured.0) > FREE_MEASURED_FOR {
                // A disk that does not answer would not take the message either.
                *measured = (clock.now(), self.shared.medium.free_bytes().unwrap_or(0));
            }
            measured.1
        };
        if free < self.options.free_bytes_min.saturating_add(bytes)
            || used.saturating_add(bytes) > self.options.bytes_max
        {
            return Err(SpoolError::Full { free, used });
        }
        Ok(())
    }

    /// Stores a message. `done` is called once it is durable, or failed.
    ///
    /// `due` is the due time of the first action, in Unix milliseconds. An id that is there already
    /// is refused: it would take the place of another message.
    pub fn put(&self, id: u64, due: i64, meta: Vec<u8>, body: Bytes, done: OnDurable) {
        let lane = Lane::of_message(meta.len() + body.len(), &self.options);
        let command = Command::Put { id, due, meta, body, done };
        if let Some(Command::Put { done, .. }) = self.send(lane, command) {
            done(Err(SpoolError::Closed));
        }
    }

    /// Records the delivery state of a durable message, and the due time of the next action.
    /// Written when it returns, but not synced: a power failure may lose it, which repeats work. On
    /// a full disk it holds for this process alone, until there is room.
    pub fn set_state(&self, id: u64, due: i64, state: &[u8]) {
        let mut unwritten = self.shared.states_lock();
        self.shared.write_state(&mut unwritten, id, due, state);
    }

    /// Sets the due time of the next action; the state stays. As durable as [`Spool::set_state`].
    pub fn set_due(&self, id: u64, due: i64) {
        let mut unwritten = self.shared.states_lock();
        let state = {
            let index = self.shared.index();
            let Some(entry) = index.entries.get(&id).copied() else { return };
            let segment = index.segments.get(&entry.location.segment);
            entry.state.zip(segment.and_then(|s| s.states.clone()))
        };
        let state = state
            .and_then(|(location, (file, format))| read_payload(&*file, &format, location).ok());
        // Without a readable state the message counts as untried, which repeats work.
        let written = || state.map(|(_, state)| state).unwrap_or_default();
        let state = self.shared.unsaved_state(id).unwrap_or_else(written);
        self.shared.write_state(&mut unwritten, id, due, &state);
    }

    /// Records the states of durable messages, each with the due time of its next action, and makes
    /// them durable: for what must not be forgotten by a power failure either.
    ///
    /// # Errors
    /// If one is not there any more, or could not be written or synced. What was written before
    /// may be in force.
    pub fn set_states_durably(&self, states: &[(u64, i64, Vec<u8>)]) -> Result<(), SpoolError> {
        let mut unwritten = self.shared.states_lock();
        let mut segments = BTreeMap::new();
        for (id, due, state) in states {
            let failed = |source| SpoolError::Io {
                path: self.shared.medium.describe(),
                what: "write a state in",
                source,
            };
            let segment = self.shared.try_write_state(&mut unwritten, *id, *due, state);
            let segment = segment.map_err(failed)?.ok_or(SpoolError::Unknown(*id))?;
            segments.insert(segment, ());
        }
        for number in segments.into_keys() {
            let file = self.shared.index().segments.get(&number).and_then(|s| s.states.clone());
            let synced = file.map_or(Ok(()), |(file, _)| file.sync());
            synced.map_err(|source| SpoolError::Io {
                path: file_name(number, STATES),
                what: "sync",
                source,
            })?;
        }
        // The names of state files that this began.
        self.shared.medium.sync_folder().map_err(|source| SpoolError::Io {
            path: self.shared.medium.describe(),
            what: "sync",
            source,
        })
    }

    /// Records that a durable message is done. Written with the next state of its segment, at the
    /// latest when the spool is idle: after a crash its last state shows that nothing is left to
    /// do.
    pub fn done(&self, id: u64) {
        let mut unwritten = self.shared.states_lock();
        self.shared.finish(&mut unwritten, id);
    }

    /// Waits until everything queued before is done, and states are durable.
    pub fn flush(&self) {
        let (reply, finished) = channel();
        for lane in Lane::ALL {
            let _it_has_ended = self.send(lane, Command::Flush { reply: reply.clone() });
        }
        drop(reply);
        // Until each has answered, or ended.
        finished.iter().for_each(drop);
    }

    fn send(&self, lane: Lane, command: Command) -> Option<Command> {
        match &self.queues {
            Some([small, large]) => {
                let queue = if lane == Lane::Small { small } else { large };
                let urgent = matches!(command, Command::Flush { .. });
                queue.send(command, urgent).err()
            }
            None => Some(command),
        }
    }

    /// A message of this id is there and not done.
    pub fn contains(&self, id: u64) -> bool {
        self.shared.index().entries.contains_key(&id)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is done, unknown or damaged, or the medium cannot be read.
    pub fn read(&self, id: u64) -> Result<Stored, SpoolError> {
        let (entry, segment) = {
            let index = self.shared.index();
            let entry = index.entries.get(&id).copied().ok_or(SpoolError::Unknown(id))?;
            let segment = index.segments.get(&entry.location.segment).cloned();
            (entry, segment.ok_or(SpoolError::Unknown(id))?)
        };
        let (head, mut meta) = read_payload(&*segment.messages, &segment.format, entry.location)?;
        let body = meta.split_off((head.meta as usize).min(meta.len()));
        let state = self.shared.state_of(id, &entry, &segment)?;
        Ok(Stored { meta, body, state, due: entry.due })
    }

    /// Error of the last write of messages; none once one succeeded. The spool probes the medium
    /// itself every few seconds: a failing node gets no mail, whose write could show that the error
    /// is over.
    pub fn last_failure(&self) -> Option<String> {
        self.shared.failures().iter().flatten().next().cloned()
    }

    /// How many messages are not done, and what the files that hold them take.
    pub fn usage(&self) -> Usage {
        let index = self.shared.index();
        Usage {
            messages: index.entries.len() as u64,
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            segments: index.segments.len() as u64,
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        drop(self.queues.take());
        for thread in self.threads.drain(..) {
            let _a_panic_was_reported_by_the_thread = thread.join();
        }
    }
}

/// Reads and verifies the record at `location`.
fn read_payload(
    file: &dyn MediumFile,
    format: &Format,
    location: RecordLocation,
) -> Result<(Head, Vec<u8>), SpoolError> {
    let RecordLocation { segment, offset, bytes } = location;
    let mut record = vec![0; HEAD_BYTES + bytes as usize];
    file.read_at(&mut record, offset).map_err(|source| SpoolError::Io {
        path: file_name(segment, MESSAGES),
        what: "read",
        source,
    })?;
    let payload = record.split_off(HEAD_BYTES);
    match Head::decode(&record, format) {
        Some(head) if head.payload == bytes && crc32fast::hash(&payload) == head.payload_crc => {
            Ok((head, payload))
        }
        _ => Err(SpoolError::Damaged { segment, offset }),
    }
}

/// Suffix of message files.
const MESSAGES: &str = "seg";
/// Suffix of state files.
const STATES: &str = "sta";

fn file_name(segment: u64, suffix: &str) -> String {
    format!("{segment:016x}.{suffix}")
}

fn segment_of(name: &str, suffix: &str) -> Option<u64> {
    let number = name.strip_suffix(suffix)?.strip_suffix('.')?;
    (number.len() == 16).then(|| u64::from_str_radix(number, 16).ok()).flatten()
}

#[cfg(test)]
mod lane_tests;
#[cfg(test)]
mod tests;
