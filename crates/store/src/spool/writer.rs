//! The commit thread of a lane, the only one that writes its messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::lane::Lane;
use super::medium::MediumFile;
use super::record::{Format, Head, Kind};
use super::recover::Entry;
use super::states::UnwrittenDone;
use super::{
    MESSAGES, OnDurable, RecordLocation, Segment, Shared, SpoolError, SpoolOptions, file_name,
    read_payload,
};
use crate::inbox::{Reader, RecvError};

/// Commands of the commit thread.
pub(super) enum Command {
    Put { id: u64, due: i64, meta: Vec<u8>, body: Bytes, done: OnDurable },
    Flush { reply: Sender<()> },
}

/// A message waiting for the batch's sync.
struct Pending {
    head: Head,
    meta: Vec<u8>,
    body: Bytes,
    done: OnDurable,
}

/// Time between two probes of a failed medium.
const PROBE_AFTER: Duration = Duration::from_secs(2);
/// A closed segment is compacted when less than this share of its bytes is live: one in ... So a
/// byte that is copied frees three at least.
const MOVE_BELOW_ONE_IN: u64 = 4;
/// Most bytes moved at once, so that messages do not wait behind it.
const MOVE_BYTES_MAX: u64 = 8 << 20;

pub(super) struct Writer {
    shared: Arc<Shared>,
    options: SpoolOptions,
    lane: Lane,
    /// Number of the next segment.
    next: u64,
    batch: Vec<Pending>,
    batch_bytes: u64,
    /// Time of the last probe of a failed medium.
    tried: Option<Instant>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, options: SpoolOptions, lane: Lane, next: u64) -> Self {
        Writer { shared, options, lane, next, batch: Vec::new(), batch_bytes: 0, tried: None }
    }

    pub(super) fn run(mut self, commands: &Reader<Command>) {
        let mut several = false;
        loop {
            match commands.recv(self.options.compact_after) {
                Ok(command) => self.accept(command),
                Err(RecvError::Timeout) => {
                    self.compact();
                    continue;
                }
                Err(RecvError::Closed) => break,
            }
            if several {
                commands.linger(self.options.batch_wait, self.options.batch_messages_max);
            }
            while self.batch.len() < self.options.batch_messages_max
                && self.batch_bytes < self.options.batch_bytes_max
                && let Some(command) = commands.try_recv()
            {
                self.accept(command);
            }
            // Sequential puts each wait for the one before: waiting for more would share no sync.
            several = self.batch.len() > 1;
            self.commit();
        }
        self.commit();
        self.shared.sync_states();
    }

    fn accept(&mut self, command: Command) {
        match command {
            Command::Put { id, due, meta, body, done } => {
                let meta_bytes = u32::try_from(meta.len()).unwrap_or(u32::MAX);
                if !self.shared.index().arrives(id) {
                    return done(Err(SpoolError::Taken(id)));
                }
                let head = Head::new(Kind::Message, id, due, meta_bytes, &[&meta, &body]);
                self.batch_bytes += head.record_bytes();
                self.batch.push(Pending { head, meta, body, done });
            }
            Command::Flush { reply } => {
                self.commit();
                self.shared.sync_states();
                let _caller_stopped_waiting = reply.send(());
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
            Ok(locations) => {
                // Before `done`: whoever hears of the message can read it at once.
                let mut index = self.shared.index();
                for (pending, location) in batch.iter().zip(&locations) {
                    let due = pending.head.due;
                    let entry = Entry { location: *location, state: None, due };
                    index.arriving.remove(&pending.head.id);
                    index.entries.insert(pending.head.id, entry);
                    if let Some(segment) = index.segments.get_mut(&location.segment) {
                        segment.live += 1;
                        segment.live_bytes += pending.head.record_bytes();
                    }
                }
                // Only now, under the same lock: a closed segment without live messages is removed.
                if locations.last().is_some_and(|p| {
                    let end = p.offset + u64::from(p.bytes);
                    end >= self.options.segment_bytes_max
                }) {
                    index.open[self.lane.number()] = None;
                }
                drop(index);
                batch.into_iter().for_each(|pending| (pending.done)(Ok(())));
            }
            Err(error) => {
                tracing::error!(%error, messages = batch.len(), "the spool cannot write messages");
                let text = error.to_string();
                let mut index = self.shared.index();
                batch.iter().for_each(|pending| {
                    index.arriving.remove(&pending.head.id);
                });
                drop(index);
                for pending in batch {
                    (pending.done)(Err(SpoolError::NotWritten(text.clone())));
                }
            }
        }
    }

    fn write_batch(&mut self, batch: &[Pending]) -> Result<Vec<RecordLocation>, SpoolError> {
        let written = self.append_batch(batch);
        self.set_failure(written.as_ref().err());
        written
    }

    fn set_failure(&self, error: Option<&SpoolError>) {
        self.shared.failures()[self.lane.number()] = error.map(ToString::to_string);
    }

    /// Probes a failed medium: begins a segment, which writes and syncs.
    fn probe_medium(&mut self) {
        let is_due = self.tried.is_none_or(|tried| self.shared.clock.elapsed(tried) >= PROBE_AFTER);
        if self.shared.failures()[self.lane.number()].is_none() || !is_due {
            return;
        }
        self.tried = Some(self.shared.clock.now());
        let tried = self.open_segment();
        self.set_failure(tried.err().as_ref());
    }

    fn append_batch(&mut self, batch: &[Pending]) -> Result<Vec<RecordLocation>, SpoolError> {
        let (number, file, format, start) = self.open_segment()?;
        let mut parts: Vec<&[u8]> = Vec::with_capacity(3 * batch.len());
        let mut locations = Vec::with_capacity(batch.len());
        let mut at = start;
        let mut heads = Vec::with_capacity(batch.len());
        for pending in batch {
            heads.push(pending.head.encode(&format, at));
            at += pending.head.record_bytes();
        }
        at = start;
        for (pending, head) in batch.iter().zip(&heads) {
            parts.extend([&head[..], &pending.meta, &pending.body[..]]);
            locations.push(RecordLocation {
                segment: number,
                offset: at,
                bytes: pending.head.payload,
            });
            at += pending.head.record_bytes();
        }
        let failed =
            |what| move |source| SpoolError::Io { path: file_name(number, MESSAGES), what, source };
        let written = file.append(&parts).map_err(failed("append to"));
        let written = written.and_then(|()| file.sync().map_err(failed("sync")));
        if let Err(error) = written {
            // Best effort: the batch is reported as failed, so it should not come back after a
            // restart; if it does, its client sends it twice.
            let _cut = file.truncate(start);
            // The error may be transient: the next batch begins a new segment. This one is not
            // trusted any more: after a failed sync it is unknown what of the cache is on the disk.
            self.shared.index().open[self.lane.number()] = None;
            return Err(error);
        }
        self.shared.bytes.fetch_add(at - start, Ordering::Relaxed);
        if let Some(segment) = self.shared.index().segments.get_mut(&number) {
            segment.bytes = at;
        }
        Ok(locations)
    }

    /// The segment to append to: number, file, format, length.
    fn open_segment(&mut self) -> Result<(u64, Arc<dyn MediumFile>, Format, u64), SpoolError> {
        {
            let index = self.shared.index();
            if let Some(number) = index.open[self.lane.number()]
                && let Some(segment) = index.segments.get(&number)
            {
                return Ok((number, segment.messages.clone(), segment.format, segment.bytes));
            }
        }
        let number = self.next;
        self.next += 1;
        let name = file_name(number, MESSAGES);
        let create = || -> io::Result<(Arc<dyn MediumFile>, Format)> {
            let format = Format::new()?;
            let file = self.shared.medium.create(&name)?;
            let ready = file.append(&[&format.file_head()]).and_then(|()| {
                file.sync()?;
                self.shared.medium.sync_folder()
            });
            if let Err(error) = ready {
                let _best_effort = self.shared.medium.remove(&name);
                return Err(error);
            }
            Ok((file, format))
        };
        let (messages, format) = create().map_err(|source| SpoolError::Io {
            path: name.clone(),
            what: "create",
            source,
        })?;
        let bytes = format.file_head_bytes();
        let segment = Segment {
            messages: messages.clone(),
            format,
            states: None,
            bytes,
            state_bytes: 0,
            live: 0,
            live_bytes: 0,
        };
        let mut index = self.shared.index();
        index.segments.insert(number, segment);
        index.open[self.lane.number()] = Some(number);
        drop(index);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok((number, messages, format, bytes))
    }

    /// When idle: removes the lane's segments without live messages, compacts sparse ones.
    fn compact(&mut self) {
        self.probe_medium();
        let shared = self.shared.clone();
        let mut unwritten = shared.states_lock();
        shared.write_finished(&mut unwritten);
        let (finished, sparse) = {
            let index = self.shared.index();
            let own = || index.segments.iter().filter(|(n, _)| Lane::of_segment(**n) == self.lane);
            let finished: Vec<u64> = own()
                .filter(|(number, s)| {
                    // A new segment waits for its first message.
                    let begun = s.bytes <= s.format.file_head_bytes();
                    s.live == 0 && !(begun && index.is_open(**number))
                })
                .map(|(number, _)| *number)
                .collect();
            let closed = own().filter(|(number, _)| !index.is_open(**number));
            let mut sparse =
                closed.filter(|(_, s)| s.live > 0 && s.live_bytes * MOVE_BELOW_ONE_IN < s.bytes);
            (finished, sparse.next().map(|(number, _)| *number))
        };
        finished.into_iter().for_each(|number| self.shared.remove_segment(&mut unwritten, number));
        if let Some(number) = sparse
            && let Err(error) = self.move_messages(&mut unwritten, number)
        {
            tracing::warn!(%error, number, "the spool cannot compact a segment");
        }
    }

    /// Moves live messages of a segment, with their states, to the open one.
    fn move_messages(
        &mut self,
        unwritten: &mut UnwrittenDone,
        number: u64,
    ) -> Result<(), SpoolError> {
        let (entries, segment) = {
            let index = self.shared.index();
            let Some(segment) = index.segments.get(&number).cloned() else { return Ok(()) };
            let here = index.entries.iter().filter(|(_, e)| e.location.segment == number);
            let mut bytes = 0;
            let chosen = here.take_while(|(_, e)| {
                bytes += u64::from(e.location.bytes);
                bytes <= MOVE_BYTES_MAX + u64::from(e.location.bytes)
            });
            (chosen.map(|(id, e)| (*id, *e)).collect::<Vec<_>>(), segment)
        };
        for (id, entry) in entries {
            let (head, mut meta) =
                read_payload(&*segment.messages, &segment.format, entry.location)?;
            let state = self.shared.state_of(id, &entry, &segment)?;
            let body = meta.split_off((head.meta as usize).min(meta.len()));
            let head = Head::new(Kind::Message, id, entry.due, head.meta, &[&meta, &body]);
            let done: OnDurable = Box::new(|_| {});
            let pending = Pending { head, meta, body: body.into(), done };
            let location = self.write_batch(&[pending])?.first().copied();
            let Some(location) = location else { continue };
            let mut index = self.shared.index();
            let due = entry.due;
            index.entries.insert(id, Entry { location, state: None, due });
            for (number, is_new) in [(number, false), (location.segment, true)] {
                if let Some(segment) = index.segments.get_mut(&number) {
                    let bytes = head.record_bytes();
                    if is_new {
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
                self.shared.write_state(unwritten, id, due, &state);
            }
        }
        // The copies' states must be durable before the originals go.
        self.shared.sync_files();
        if self.shared.index().segments.get(&number).is_some_and(|s| s.live == 0) {
            self.shared.remove_segment(unwritten, number);
        }
        Ok(())
    }
}
