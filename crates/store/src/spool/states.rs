//! State files beside the segments: written at once by the caller, without a sync.
//!
//! They bypass the commit thread: while that waits for the disk, a completed delivery must be
//! recorded already, or a crash then repeats it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::record::{Format, HEAD_BYTES, Head, Kind};
use super::{MESSAGES, RecordLocation, STATES, Shared, file_name};

/// Messages that are done and not yet recorded as such, by segment. A write for each would cost as
/// much as its state.
pub(super) type UnwrittenDone = BTreeMap<u64, Vec<u64>>;

/// States that could not be written, by message: due time and state. They hold until the process
/// ends, so that a full disk repeats nothing, and are written once there is room.
pub(super) type UnsavedStates = BTreeMap<u64, (i64, Vec<u8>)>;

/// Most such messages of one segment: so many at most are looked at again after a crash.
const UNWRITTEN_MAX: usize = 256;

impl Shared {
    /// Locks the writing of states and the removal of segments.
    pub(super) fn states_lock(&self) -> MutexGuard<'_, UnwrittenDone> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsaved(&self) -> MutexGuard<'_, UnsavedStates> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a message that could not be written.
    pub(super) fn unsaved_state(&self, id: u64) -> Option<Vec<u8>> {
        self.unsaved().get(&id).map(|(_, state)| state.clone())
    }

    /// Appends a state to the file beside a message's segment; one that cannot be written is kept
    /// in memory. The caller holds the lock.
    pub(super) fn write_state(
        &self,
        unwritten: &mut UnwrittenDone,
        id: u64,
        due: i64,
        state: &[u8],
    ) {
        match self.try_write_state(unwritten, id, due, state) {
            Ok(_) => self.save_states(unwritten),
            Err(error) => {
                tracing::error!(
                    %error,
                    id,
                    "the spool cannot write a state; it is kept in memory and tried again"
                );
                if let Some(entry) = self.index().entries.get_mut(&id) {
                    entry.due = due;
                    self.unsaved().insert(id, (due, state.to_vec()));
                }
            }
        }
    }

    /// Writes states that could not be written before, up to the first that still cannot. The
    /// caller holds the lock.
    fn save_states(&self, unwritten: &mut UnwrittenDone) {
        loop {
            let Some((id, (due, state))) = self.unsaved().pop_first() else { return };
            if self.try_write_state(unwritten, id, due, &state).is_err() {
                self.unsaved().insert(id, (due, state));
                return;
            }
        }
    }

    /// The same; returns the message's segment, none if it is not there. The caller holds the lock.
    pub(super) fn try_write_state(
        &self,
        unwritten: &mut UnwrittenDone,
        id: u64,
        due: i64,
        state: &[u8],
    ) -> io::Result<Option<u64>> {
        let Some(entry) = self.index().entries.get(&id).copied() else { return Ok(None) };
        let number = entry.location.segment;
        let head = Head::new(Kind::State, id, due, 0, &[state]);
        let finished = unwritten.remove(&number).unwrap_or_default();
        let offset = self.append_states(number, &finished, Some((&head, state)))?;
        if let Some(entry) = self.index().entries.get_mut(&id) {
            entry.due = due;
            let bytes = head.payload;
            entry.state = Some(RecordLocation { segment: number, offset, bytes });
        }
        self.unsaved().remove(&id);
        Ok(Some(number))
    }

    /// Appends records that these messages are done, then a state if there is one. Returns the
    /// offset of the state.
    fn append_states(
        &self,
        number: u64,
        finished: &[u64],
        state: Option<(&Head, &[u8])>,
    ) -> io::Result<u64> {
        let known = self.index().segments.get(&number).map(|s| (s.states.clone(), s.state_bytes));
        let ((file, format), start) = match known {
            None => return Err(io::ErrorKind::NotFound.into()),
            Some((Some(known), bytes)) => (known, bytes),
            Some((None, _)) => {
                let name = file_name(number, STATES);
                let _left_from_a_torn_creation = self.medium.remove(&name);
                let file = self.medium.create(&name)?;
                let format = Format::new()?;
                file.append(&[&format.file_head()])?;
                let start = format.file_head_bytes();
                if let Some(segment) = self.index().segments.get_mut(&number) {
                    segment.states = Some((file.clone(), format));
                    segment.state_bytes = start;
                }
                ((file, format), start)
            }
        };
        let mut bytes = Vec::with_capacity((finished.len() + 1) * HEAD_BYTES);
        for id in finished {
            let head = Head::new(Kind::Done, *id, 0, 0, &[]);
            let encoded = head.encode(&format, start + bytes.len() as u64);
            bytes.extend_from_slice(&encoded);
        }
        let offset = start + bytes.len() as u64;
        if let Some((head, _)) = state {
            bytes.extend_from_slice(&head.encode(&format, offset));
        }
        let payload = state.map_or(&[][..], |(_, payload)| payload);
        let written = file.append(&[&bytes, payload]);
        if written.is_err() {
            // What cannot be truncated stays; the next record begins behind it.
            if file.truncate(start).is_err()
                && let Ok(size) = file.size()
                && let Some(segment) = self.index().segments.get_mut(&number)
            {
                segment.state_bytes = size;
            }
        } else if let Some(segment) = self.index().segments.get_mut(&number) {
            segment.state_bytes = start + (bytes.len() + payload.len()) as u64;
        }
        written.map(|()| offset)
    }

    /// Records the messages that are done. The caller holds the lock.
    pub(super) fn write_finished(&self, unwritten: &mut UnwrittenDone) {
        for (number, finished) in std::mem::take(unwritten) {
            self.write_finished_of(number, &finished);
        }
    }

    fn write_finished_of(&self, number: u64, finished: &[u64]) {
        if let Err(error) = self.append_states(number, finished, None) {
            let path = file_name(number, STATES);
            tracing::error!(%error, path, "the spool cannot write that messages are done");
        }
    }

    /// Marks a message as done; removes its segment if it was the last live one. The caller holds
    /// the lock.
    pub(super) fn finish(&self, unwritten: &mut UnwrittenDone, id: u64) {
        self.unsaved().remove(&id);
        let number = {
            let mut index = self.index();
            let Some(entry) = index.entries.remove(&id) else { return };
            let number = entry.location.segment;
            let is_open = index.is_open(number);
            if let Some(segment) = index.segments.get_mut(&number) {
                segment.live = segment.live.saturating_sub(1);
                let bytes = u64::from(entry.location.bytes) + HEAD_BYTES as u64;
                segment.live_bytes = segment.live_bytes.saturating_sub(bytes);
                if segment.live == 0 && !is_open {
                    drop(index);
                    return self.remove_segment(unwritten, number);
                }
            }
            number
        };
        let finished = unwritten.entry(number).or_default();
        finished.push(id);
        if finished.len() >= UNWRITTEN_MAX {
            let finished = std::mem::take(finished);
            unwritten.remove(&number);
            self.write_finished_of(number, &finished);
        }
    }

    /// Removes a segment without live messages. The caller holds the lock.
    pub(super) fn remove_segment(&self, unwritten: &mut UnwrittenDone, number: u64) {
        unwritten.remove(&number);
        let mut index = self.index();
        let Some(segment) = index.segments.remove(&number) else { return };
        if let Some(open) = index.open.iter_mut().find(|open| **open == Some(number)) {
            *open = None;
        }
        drop(index);
        self.bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
        let medium = &self.medium;
        // The message file first: a state file alone is ignored, a message file alone would bring
        // its messages back.
        let mut removed = medium.remove(&file_name(number, MESSAGES));
        if segment.states.is_some() {
            removed = removed.and(medium.remove(&file_name(number, STATES)));
        }
        if let Err(error) = removed {
            tracing::error!(%error, number, "the spool cannot remove a finished segment");
        }
    }

    /// Records the messages that are done, and makes states durable.
    pub(super) fn sync_states(&self) {
        let mut unwritten = self.states_lock();
        self.write_finished(&mut unwritten);
        self.save_states(&mut unwritten);
        drop(unwritten);
        self.sync_files();
    }

    /// Makes written states durable.
    pub(super) fn sync_files(&self) {
        let files: Vec<_> =
            self.index().segments.values().filter_map(|s| s.states.clone()).collect();
        for (file, _) in files {
            if let Err(error) = file.sync() {
                tracing::error!(%error, "the spool cannot sync states");
            }
        }
    }
}
