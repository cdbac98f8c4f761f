//! The commit thread: the only one that writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::medium::MediumFile;
use super::record::{FILE_HEAD_BYTES, HEAD_BYTES, Head, Kind, file_head};
use super::recover::Entry;
use super::{
    MESSAGES, OnDurable, Place, STATES, Segment, Shared, SpoolError, SpoolOptions, file_name,
    read_payload,
};

/// What the commit thread is asked to do.
pub(super) enum Command {
    Put { id: u64, due: i64, meta: Vec<u8>, body: Arc<Vec<u8>>, done: OnDurable },
    State { id: u64, due: i64, state: Vec<u8> },
    Done { id: u64 },
    Flush { reply: Sender<()> },
}

/// A message waiting for the batch's sync.
struct Pending {
    head: Head,
    encoded: [u8; HEAD_BYTES],
    meta: Vec<u8>,
    body: Arc<Vec<u8>>,
    done: OnDurable,
}

/// Idle time after which the thread tidies up.
const TIDY_AFTER: Duration = Duration::from_millis(500);
/// A closed segment is emptied when less than this share of its bytes is live: one in ...
const MOVE_BELOW_ONE_IN: u64 = 4;
/// Bytes moved in one go, so that messages do not wait behind it.
const MOVE_BYTES_MAX: u64 = 8 << 20;

pub(super) struct Writer {
    shared: Arc<Shared>,
    options: SpoolOptions,
    /// Number of the segment to be created next.
    next: u64,
    /// The segment that is appended to.
    open: Option<u64>,
    batch: Vec<Pending>,
    batch_bytes: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, options: SpoolOptions, next: u64) -> Self {
        Writer { shared, options, next, open: None, batch: Vec::new(), batch_bytes: 0 }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            match commands.recv_timeout(TIDY_AFTER) {
                Ok(command) => self.take(command),
                Err(RecvTimeoutError::Timeout) => {
                    self.tidy();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while self.batch.len() < self.options.batch_messages_max
                && self.batch_bytes < self.options.batch_bytes_max
            {
                match commands.try_recv() {
                    Ok(command) => self.take(command),
                    Err(_) => break,
                }
            }
            self.commit();
        }
        self.commit();
        self.sync_states();
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Put { id, due, meta, body, done } => {
                let meta_bytes = u32::try_from(meta.len()).unwrap_or(u32::MAX);
                let head = Head::new(Kind::Message, id, due, meta_bytes, &[&meta, &body]);
                self.batch_bytes += head.record_bytes();
                let encoded = head.encode();
                self.batch.push(Pending { head, encoded, meta, body, done });
            }
            Command::State { id, due, state } => self.write_state(Kind::State, id, due, &state),
            Command::Done { id } => self.finish(id),
            Command::Flush { reply } => {
                self.commit();
                self.sync_states();
                let _nobody_waits_any_more = reply.send(());
            }
        }
    }

    /// Appends and syncs the batch, then reports every message of it.
    fn commit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        match self.write_batch(&batch) {
            Ok(places) => {
                let mut index = self.shared.index();
                for (pending, place) in batch.iter().zip(&places) {
                    let due = pending.head.due;
                    let entry = Entry { place: *place, state: None, due };
                    index.entries.insert(pending.head.id, entry);
                    if let Some(segment) = index.segments.get_mut(&place.segment) {
                        segment.live += 1;
                        segment.live_bytes += pending.head.record_bytes();
                    }
                }
                drop(index);
                batch.into_iter().for_each(|pending| (pending.done)(Ok(())));
            }
            Err(error) => {
                tracing::error!(%error, messages = batch.len(), "the spool could not write");
                // What is wrong may pass: the next batch begins a new segment.
                self.open = None;
                let text = error.to_string();
                for pending in batch {
                    (pending.done)(Err(SpoolError::NotWritten(text.clone())));
                }
            }
        }
    }

    fn write_batch(&mut self, batch: &[Pending]) -> Result<Vec<Place>, SpoolError> {
        let (number, file, start) = self.open_segment()?;
        let mut parts: Vec<&[u8]> = Vec::with_capacity(3 * batch.len());
        let mut places = Vec::with_capacity(batch.len());
        let mut at = start;
        for pending in batch {
            parts.extend([&pending.encoded[..], &pending.meta, &pending.body[..]]);
            places.push(Place { segment: number, offset: at, bytes: pending.head.payload });
            at += pending.head.record_bytes();
        }
        let failed =
            |what| move |source| SpoolError::Io { path: file_name(number, MESSAGES), what, source };
        let written = file.append(&parts).map_err(failed("append to"));
        let written = written.and_then(|()| file.sync().map_err(failed("sync")));
        if let Err(error) = written {
            // Best effort: the batch is reported as not taken, so that it had better not come back
            // after a restart; if it does, its client sends it twice.
            let _cut = file.truncate(start);
            return Err(error);
        }
        self.shared.bytes.fetch_add(at - start, Ordering::Relaxed);
        if let Some(segment) = self.shared.index().segments.get_mut(&number) {
            segment.bytes = at;
        }
        if at >= self.options.segment_bytes_max {
            self.open = None;
        }
        Ok(places)
    }

    /// The segment to append to: number, file, length.
    fn open_segment(&mut self) -> Result<(u64, Arc<dyn MediumFile>, u64), SpoolError> {
        if let Some(number) = self.open
            && let Some(segment) = self.shared.index().segments.get(&number)
        {
            return Ok((number, segment.messages.clone(), segment.bytes));
        }
        let number = self.next;
        self.next += 1;
        let name = file_name(number, MESSAGES);
        let create = || -> io::Result<Arc<dyn MediumFile>> {
            let file = self.shared.medium.create(&name)?;
            let ready = file.append(&[&file_head()]).and_then(|()| {
                file.sync()?;
                self.shared.medium.sync_folder()
            });
            if let Err(error) = ready {
                let _best_effort = self.shared.medium.remove(&name);
                return Err(error);
            }
            Ok(file)
        };
        let messages = create().map_err(|source| SpoolError::Io {
            path: name.clone(),
            what: "create",
            source,
        })?;
        let segment = Segment {
            messages: messages.clone(),
            states: None,
            bytes: FILE_HEAD_BYTES,
            live: 0,
            live_bytes: 0,
        };
        self.shared.index().segments.insert(number, segment);
        self.shared.bytes.fetch_add(FILE_HEAD_BYTES, Ordering::Relaxed);
        self.open = Some(number);
        Ok((number, messages, FILE_HEAD_BYTES))
    }

    /// Appends a record to the state file beside a message's segment.
    fn write_state(&mut self, kind: Kind, id: u64, due: i64, state: &[u8]) {
        // The message may be in the batch that waits.
        self.commit_if_holds(id);
        let Some(entry) = self.shared.index().entries.get(&id).copied() else { return };
        let number = entry.place.segment;
        let head = Head::new(kind, id, due, 0, &[state]);
        match self.append_state(number, &head, state) {
            Ok(offset) => {
                if let Some(entry) = self.shared.index().entries.get_mut(&id) {
                    entry.due = due;
                    let bytes = head.payload;
                    entry.state = Some(Place { segment: number, offset, bytes });
                }
            }
            Err(error) => {
                let path = file_name(number, STATES);
                tracing::error!(%error, path, "the spool could not note a state");
            }
        }
    }

    fn commit_if_holds(&mut self, id: u64) {
        if self.batch.iter().any(|pending| pending.head.id == id) {
            self.commit();
        }
    }

    fn append_state(&self, number: u64, head: &Head, state: &[u8]) -> io::Result<u64> {
        let known = self.shared.index().segments.get(&number).map(|s| s.states.clone());
        let file = match known {
            None => return Err(io::ErrorKind::NotFound.into()),
            Some(Some(file)) => file,
            Some(None) => {
                let name = file_name(number, STATES);
                let _left_from_a_torn_creation = self.shared.medium.remove(&name);
                let file = self.shared.medium.create(&name)?;
                file.append(&[&file_head()])?;
                if let Some(segment) = self.shared.index().segments.get_mut(&number) {
                    segment.states = Some(file.clone());
                }
                file
            }
        };
        let offset = file.size()?;
        let written = file.append(&[&head.encode(), state]);
        if written.is_err() {
            let _best_effort = file.truncate(offset);
        }
        written.map(|()| offset)
    }

    /// Notes that a message is done; removes its segment if it was the last there.
    fn finish(&mut self, id: u64) {
        self.commit_if_holds(id);
        let number = {
            let mut index = self.shared.index();
            let Some(entry) = index.entries.remove(&id) else { return };
            let number = entry.place.segment;
            if let Some(segment) = index.segments.get_mut(&number) {
                segment.live = segment.live.saturating_sub(1);
                let bytes = u64::from(entry.place.bytes) + HEAD_BYTES as u64;
                segment.live_bytes = segment.live_bytes.saturating_sub(bytes);
                if segment.live == 0 && self.open != Some(number) {
                    drop(index);
                    return self.remove_segment(number);
                }
            }
            number
        };
        let head = Head::new(Kind::Done, id, 0, 0, &[]);
        if let Err(error) = self.append_state(number, &head, &[]) {
            let path = file_name(number, STATES);
            tracing::error!(%error, path, "the spool could not note a finished message");
        }
    }

    fn remove_segment(&mut self, number: u64) {
        let Some(segment) = self.shared.index().segments.remove(&number) else { return };
        if self.open == Some(number) {
            self.open = None;
        }
        self.shared.bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
        let medium = &self.shared.medium;
        // The message file first: a state file alone says nothing, a message file alone would bring
        // its messages back.
        let mut removed = medium.remove(&file_name(number, MESSAGES));
        if segment.states.is_some() {
            removed = removed.and(medium.remove(&file_name(number, STATES)));
        }
        if let Err(error) = removed {
            tracing::error!(%error, number, "the spool could not remove a finished segment");
        }
    }

    fn sync_states(&self) {
        let files: Vec<_> =
            self.shared.index().segments.values().filter_map(|s| s.states.clone()).collect();
        for file in files {
            if let Err(error) = file.sync() {
                tracing::error!(%error, "the spool could not sync states");
            }
        }
    }

    /// When idle: removes what is finished, moves what is left of nearly finished segments.
    fn tidy(&mut self) {
        let (finished, sparse) = {
            let index = self.shared.index();
            let finished: Vec<u64> = index
                .segments
                .iter()
                .filter(|(_, s)| s.live == 0 && s.bytes > FILE_HEAD_BYTES)
                .map(|(number, _)| *number)
                .collect();
            let closed = index.segments.iter().filter(|(number, _)| self.open != Some(**number));
            let mut sparse =
                closed.filter(|(_, s)| s.live > 0 && s.live_bytes * MOVE_BELOW_ONE_IN < s.bytes);
            (finished, sparse.next().map(|(number, _)| *number))
        };
        finished.into_iter().for_each(|number| self.remove_segment(number));
        if let Some(number) = sparse
            && let Err(error) = self.move_messages(number)
        {
            tracing::warn!(%error, number, "the spool could not empty a segment");
        }
    }

    /// Copies live messages of a segment, with their states, to the open one.
    fn move_messages(&mut self, number: u64) -> Result<(), SpoolError> {
        let (entries, segment) = {
            let index = self.shared.index();
            let Some(segment) = index.segments.get(&number).cloned() else { return Ok(()) };
            let here = index.entries.iter().filter(|(_, e)| e.place.segment == number);
            let mut bytes = 0;
            let chosen = here.take_while(|(_, e)| {
                bytes += u64::from(e.place.bytes);
                bytes <= MOVE_BYTES_MAX + u64::from(e.place.bytes)
            });
            (chosen.map(|(id, e)| (*id, *e)).collect::<Vec<_>>(), segment)
        };
        for (id, entry) in entries {
            let (head, mut meta) = read_payload(&*segment.messages, entry.place)?;
            let state = match (entry.state, &segment.states) {
                (Some(place), Some(file)) => Some(read_payload(&**file, place)?.1),
                _ => None,
            };
            let body = meta.split_off((head.meta as usize).min(meta.len()));
            let head = Head::new(Kind::Message, id, entry.due, head.meta, &[&meta, &body]);
            let encoded = head.encode();
            let done: OnDurable = Box::new(|_| {});
            let pending = Pending { head, encoded, meta, body: Arc::new(body), done };
            let place = self.write_batch(&[pending])?.first().copied();
            let Some(place) = place else { continue };
            let mut index = self.shared.index();
            let due = entry.due;
            index.entries.insert(id, Entry { place, state: None, due });
            for (number, sign) in [(number, false), (place.segment, true)] {
                if let Some(segment) = index.segments.get_mut(&number) {
                    let bytes = head.record_bytes();
                    if sign {
                        segment.live += 1;
                        segment.live_bytes += bytes;
                    } else {
                        segment.live = segment.live.saturating_sub(1);
                        segment.live_bytes = segment.live_bytes.saturating_sub(bytes);
                    }
                }
            }
            drop(index);
            if let Some(state) = state {
                self.write_state(Kind::State, id, due, &state);
            }
        }
        self.sync_states();
        if self.shared.index().segments.get(&number).is_some_and(|s| s.live == 0) {
            self.remove_segment(number);
        }
        Ok(())
    }
}
