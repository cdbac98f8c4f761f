//! The spool: messages in flight, on stable storage.
//!
//! Messages are appended to segment files by one thread that makes many durable with one sync (group
//! commit) and only then reports them done; design invariant 2 rests on that. How far each message is
//! goes into a second file beside each segment, without a sync: losing the end of that file repeats a
//! delivery, it never loses a message. A segment whose messages are all done is removed; one that is
//! kept alive by a few is emptied by moving them to the newest segment.
//!
//! ```text
//! put ──▶ queue ──▶ commit thread: append all, fdatasync once ──▶ done(Ok) for each
//!                    0000000000000001.seg   messages
//!                    0000000000000001.sta   their states: due times, progress, done
//! ```
//!
//! After a failed write the segment is cut back to its last good length and closed; after a failed
//! sync nothing in the kernel's cache is trusted: the segment is closed and a new one begun. Either
//! way the messages of that batch are reported as not taken.

pub mod fault;
pub mod medium;
mod record;
mod recover;
mod states;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::inbox::{Inbox, inbox};
pub use medium::{Disk, Medium, MediumFile, Ram, Volatile};
use record::{Format, HEAD_BYTES, Head};
use recover::{Entry, Role};
use states::Unwritten;
use writer::{Command, Writer};

/// Limits of a spool.
#[derive(Debug, Clone, Copy)]
pub struct SpoolOptions {
    /// A segment over this size is closed, in bytes.
    pub segment_bytes_max: u64,
    /// Most messages made durable by one sync.
    pub batch_messages_max: usize,
    /// Most bytes made durable by one sync.
    pub batch_bytes_max: u64,
    /// How long a sync waits for more messages to share it, unless the batch is full. A message that comes
    /// alone, the one before it as well, waits for nothing.
    pub batch_wait: Duration,
    /// Free bytes of the medium below which no message is taken.
    pub free_bytes_min: u64,
    /// Bytes of all segments above which no message is taken.
    pub bytes_max: u64,
}

impl Default for SpoolOptions {
    fn default() -> Self {
        SpoolOptions {
            segment_bytes_max: 64 << 20,
            batch_messages_max: 256,
            batch_bytes_max: 32 << 20,
            batch_wait: Duration::from_millis(1),
            free_bytes_min: 256 << 20,
            bytes_max: 64 << 30,
        }
    }
}

/// Why the spool cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The medium refused.
    #[error("spool file {path}: cannot {what}: {source}")]
    Io {
        /// File or folder.
        path: String,
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "spool file {path} has format {found}; this program knows 2: run the version that wrote it"
    )]
    Newer {
        /// File.
        path: String,
        /// Its format version.
        found: u32,
    },
    /// The file is none of the spool's.
    #[error("{path} bears the name of a spool file but is none: move it out of the spool's folder")]
    NoSpoolFile {
        /// File.
        path: String,
    },
    /// A record that cannot be read back.
    #[error(
        "spool file of segment {segment}, offset {offset}: the record is damaged and stays there; put the \
         spool's folder back from a backup while the node is stopped, or have the message sent again"
    )]
    Damaged {
        /// Segment.
        segment: u64,
        /// Offset in bytes.
        offset: u64,
    },
    /// No such message, or it is done.
    #[error("message {0:x} is not in the spool")]
    Unknown(u64),
    /// No room: try again later.
    #[error("the spool is full: {free} bytes are free, {used} are used")]
    Full {
        /// Free bytes of the medium.
        free: u64,
        /// Bytes of all segments.
        used: u64,
    },
    /// The batch that the message was in could not be written.
    #[error("the spool could not write: {0}")]
    NotWritten(String),
    /// The spool is closed.
    #[error("the spool is closed")]
    Closed,
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Bytes of its payload.
    pub bytes: u32,
}

/// A message read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What [`Spool::put`] was given.
    pub meta: Vec<u8>,
    /// The message.
    pub body: Vec<u8>,
    /// What [`Spool::set_state`] was given last.
    pub state: Option<Vec<u8>>,
    /// When something is to be done next, Unix time in milliseconds.
    pub due: i64,
}

/// What recovery found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Messages that are not done, with their due times, by id.
    pub messages: Vec<(u64, i64)>,
    /// Bytes of torn records cut off.
    pub torn_bytes: u64,
    /// Damaged places that were stepped over.
    pub damaged: u64,
    /// Messages, by id, that were found behind damage in a file of the old format, where nothing tells them
    /// from what a sender wrote into a body. A person should look at them before they go on.
    pub unproven: Vec<u64>,
}

/// How full the spool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Messages that are not done.
    pub messages: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segment files.
    pub segments: u64,
}

/// Called when a message is durable, or could not be made so; on the commit thread: be quick.
pub type OnDurable = Box<dyn FnOnce(Result<(), SpoolError>) + Send>;

/// A segment's files.
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

/// What the commit thread and readers share.
#[derive(Debug, Default)]
struct Index {
    entries: BTreeMap<u64, Entry>,
    segments: BTreeMap<u64, Segment>,
    /// The segment that is appended to.
    open: Option<u64>,
}

#[derive(Debug)]
struct Shared {
    medium: Arc<dyn Medium>,
    index: Mutex<Index>,
    /// Held while states are written and segments removed: messages that are done, which nobody wrote down
    /// yet, with their segments.
    states: Mutex<Unwritten>,
    /// Bytes promised to sessions that are about to send a message.
    bytes: AtomicU64,
    free: Mutex<(Instant, u64)>,
    /// Why the last write of messages failed; none if it did not.
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a measurement of free space is good for.
const FREE_MEASURED_FOR: Duration = Duration::from_millis(200);

/// An open spool. Share it as `Arc<Spool>`; every method may be called from any thread.
///
/// Dropping it writes what is queued.
#[derive(Debug)]
pub struct Spool {
    shared: Arc<Shared>,
    options: SpoolOptions,
    queue: Option<Inbox<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Spool {
    /// Opens a spool on this medium and reads back what is in it.
    ///
    /// The caller makes sure that nobody else has it open (a lock on the data folder).
    ///
    /// # Errors
    /// If the medium cannot be read or a file is of a newer format. Torn tails and damage are no
    /// errors; see [`Recovery`].
    pub fn open(
        medium: Arc<dyn Medium>,
        options: SpoolOptions,
    ) -> Result<(Self, Recovery), SpoolError> {
        let (index, recovery, newest) = load(&*medium)?;
        let bytes = index.segments.values().map(|s| s.bytes).sum();
        let shared = Arc::new(Shared {
            medium,
            index: Mutex::new(index),
            states: Mutex::default(),
            bytes: AtomicU64::new(bytes),
            free: Mutex::new((Instant::now(), u64::MAX)),
            failure: Mutex::default(),
        });
        let spool_free = shared.medium.free_bytes().unwrap_or(u64::MAX);
        *shared.free.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), spool_free);
        let (queue, commands) = inbox(usize::MAX);
        let writer = Writer::new(shared.clone(), options, newest + 1);
        let thread = std::thread::Builder::new()
            .name("spool".to_owned())
            .spawn(move || writer.run(&commands))
            .map_err(|source| SpoolError::Io {
                path: shared.medium.describe(),
                what: "start the commit thread of",
                source,
            })?;
        Ok((Spool { shared, options, queue: Some(queue), thread: Some(thread) }, recovery))
    }

    /// Whether a message of this many bytes can be taken now.
    ///
    /// # Errors
    /// [`SpoolError::Full`]: answer 452 before the body is read.
    pub fn reserve(&self, bytes: u64) -> Result<(), SpoolError> {
        let used = self.shared.bytes.load(Ordering::Relaxed);
        let free = {
            let mut measured = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
            if measured.0.elapsed() > FREE_MEASURED_FOR {
                *measured = (Instant::now(), self.shared.medium.free_bytes().unwrap_or(0));
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

    /// Takes a message. `done` is called once it is durable, or cannot be.
    ///
    /// `id` must be new; `due` is when something is to be done first, Unix time in milliseconds.
    pub fn put(&self, id: u64, due: i64, meta: Vec<u8>, body: Arc<Vec<u8>>, done: OnDurable) {
        let command = Command::Put { id, due, meta, body, done };
        if let Some(Command::Put { done, .. }) = self.send(command) {
            done(Err(SpoolError::Closed));
        }
    }

    /// Notes how far a message that is durable is, and when something is to be done next. Written
    /// when it returns, but not synced: a power cut may forget it, which repeats work.
    pub fn set_state(&self, id: u64, due: i64, state: &[u8]) {
        let mut unwritten = self.shared.states_lock();
        self.shared.write_state(&mut unwritten, id, due, state);
    }

    /// Notes when something is to be done next; what was noted before stays. As durable as
    /// [`Spool::set_state`].
    pub fn set_due(&self, id: u64, due: i64) {
        let mut unwritten = self.shared.states_lock();
        let state = {
            let index = self.shared.index();
            let Some(entry) = index.entries.get(&id).copied() else { return };
            let segment = index.segments.get(&entry.place.segment);
            entry.state.zip(segment.and_then(|s| s.states.clone()))
        };
        let state =
            state.and_then(|(place, (file, format))| read_payload(&*file, &format, place).ok());
        let state = state.map(|(_, state)| state).unwrap_or_default();
        self.shared.write_state(&mut unwritten, id, due, &state);
    }

    /// Notes that a message that is durable needs nothing more. Written with what is written next beside
    /// its segment, at the latest when the spool is idle: what a crash forgets of it is found by its state.
    pub fn done(&self, id: u64) {
        let mut unwritten = self.shared.states_lock();
        self.shared.finish(&mut unwritten, id);
    }

    /// Waits until everything asked for before is done, and states are durable.
    pub fn flush(&self) {
        let (reply, finished) = channel();
        if self.send(Command::Flush { reply }).is_none() {
            let _ended_with_the_thread = finished.recv();
        }
    }

    fn send(&self, command: Command) -> Option<Command> {
        match &self.queue {
            Some(queue) => {
                let urgent = matches!(command, Command::Flush { .. });
                queue.send(command, urgent).err()
            }
            None => Some(command),
        }
    }

    /// Reads a message back.
    ///
    /// # Errors
    /// If it is done or unknown, damaged, or the medium cannot be read.
    pub fn read(&self, id: u64) -> Result<Stored, SpoolError> {
        let (entry, segment) = {
            let index = self.shared.index();
            let entry = index.entries.get(&id).copied().ok_or(SpoolError::Unknown(id))?;
            let segment = index.segments.get(&entry.place.segment).cloned();
            (entry, segment.ok_or(SpoolError::Unknown(id))?)
        };
        let (head, mut meta) = read_payload(&*segment.messages, &segment.format, entry.place)?;
        let body = meta.split_off((head.meta as usize).min(meta.len()));
        let state = match (entry.state, &segment.states) {
            (Some(place), Some((file, format))) => Some(read_payload(&**file, format, place)?.1),
            _ => None,
        };
        Ok(Stored { meta, body, state, due: entry.due })
    }

    /// Why the last write of messages failed; none once one worked. The spool tries by itself every few
    /// seconds: where a failing node is sent no mail, no message would.
    pub fn last_failure(&self) -> Option<String> {
        self.shared.failure().clone()
    }

    /// How full it is.
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
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _a_panic_was_reported_by_the_thread = thread.join();
        }
    }
}

/// Reads and checks the record at `place`.
fn read_payload(
    file: &dyn MediumFile,
    format: &Format,
    place: Place,
) -> Result<(Head, Vec<u8>), SpoolError> {
    let Place { segment, offset, bytes } = place;
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

/// Reads all files. Returns the index, what was found, and the newest segment's number.
fn load(medium: &dyn Medium) -> Result<(Index, Recovery, u64), SpoolError> {
    let failed = |what| {
        let path = medium.describe();
        move |source| SpoolError::Io { path, what, source }
    };
    let names = medium.list().map_err(failed("list"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_of(n, MESSAGES)).collect();
    numbers.sort_unstable();
    let newest = numbers.last().copied().unwrap_or(0);
    let (mut index, mut recovery) = (Index::default(), Recovery::default());
    let mut unproven_from = BTreeMap::new();
    for &number in &numbers {
        let name = file_name(number, MESSAGES);
        let messages = medium.open(&name).map_err(failed("open a file of"))?;
        let role = if number == newest { Role::NewestMessages } else { Role::OlderMessages };
        let found = recover::scan(&name, &*messages, role)?;
        let state_name = file_name(number, STATES);
        let (states, state_file) = if names.contains(&state_name) {
            let file = medium.open(&state_name).map_err(failed("open a file of"))?;
            (recover::scan(&state_name, &*file, Role::States)?, Some(file))
        } else {
            (recover::Found::nothing(0), None)
        };
        for (file, found) in [(Some(&messages), &found), (state_file.as_ref(), &states)] {
            if let (Some(file), true) = (file, found.torn_bytes > 0) {
                file.truncate(found.sound_bytes).map_err(failed("cut a torn record off in"))?;
            }
            recovery.torn_bytes += found.torn_bytes;
            recovery.damaged += found.damaged;
        }
        recover::replay(number, &found, &states, &mut index.entries);
        let sound_states = states.sound_bytes;
        // A state file whose head was torn cannot be appended to.
        let states = state_file.filter(|_| sound_states > 0).map(|file| (file, states.format));
        let bytes = found.sound_bytes;
        let state_bytes = sound_states;
        let format = found.format;
        if let Some(from) = found.unproven_from {
            unproven_from.insert(number, from);
        }
        let segment =
            Segment { messages, format, states, bytes, state_bytes, live: 0, live_bytes: 0 };
        index.segments.insert(number, segment);
    }
    for entry in index.entries.values() {
        if let Some(segment) = index.segments.get_mut(&entry.place.segment) {
            segment.live += 1;
            segment.live_bytes += u64::from(entry.place.bytes) + HEAD_BYTES as u64;
        }
    }
    for name in &names {
        // The message file goes first; a state file alone is left from a removal cut short.
        if segment_of(name, STATES).is_some_and(|n| !index.segments.contains_key(&n)) {
            medium.remove(name).map_err(failed("remove a file of"))?;
        }
    }
    let is_unproven =
        |place: &Place| unproven_from.get(&place.segment).is_some_and(|from| place.offset >= *from);
    let unproven = index.entries.iter().filter(|(_, entry)| is_unproven(&entry.place));
    recovery.unproven = unproven.map(|(id, _)| *id).collect();
    recovery.messages = index.entries.iter().map(|(id, entry)| (*id, entry.due)).collect();
    Ok((index, recovery, newest))
}

#[cfg(test)]
mod tests;
