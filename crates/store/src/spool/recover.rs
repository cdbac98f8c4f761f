//! Reading a spool back after a stop or a crash.
//!
//! Only the newest message file can end in a torn record: a file is synced before the next begins.
//! There everything is checked, payloads too; in older files the heads are enough, and a payload is
//! checked when it is read. What follows the last sound record is a torn tail and is cut off. Damage
//! with sound records behind it is no torn tail: it is stepped over, reported and left in place.

use std::collections::BTreeMap;

use super::medium::MediumFile;
use super::record::{FILE_HEAD_BYTES, HEAD_BYTES, Head, Kind, RECORD_MAGIC, VERSION, file_version};
use super::{Place, SpoolError};

/// Bytes read at once while stepping over damage.
const SEARCH_BYTES: usize = 1 << 20;

/// What a file held.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Every sound record and where it begins.
    pub records: Vec<(Head, u64)>,
    /// Bytes up to the end of the last sound record.
    pub sound_bytes: u64,
    /// Bytes cut off as a torn tail.
    pub torn_bytes: u64,
    /// Damaged places that were stepped over.
    pub damaged: u64,
}

/// Reads the records of a file. `check_payloads`: trust no payload; for the newest file.
pub(super) fn scan(
    name: &str,
    file: &dyn MediumFile,
    check_payloads: bool,
) -> Result<Found, SpoolError> {
    let io = |source| SpoolError::Io { path: name.to_owned(), what: "read", source };
    let size = file.size().map_err(io)?;
    let mut found = Found { sound_bytes: FILE_HEAD_BYTES.min(size), ..Found::default() };
    let mut head = [0; FILE_HEAD_BYTES as usize];
    if size < FILE_HEAD_BYTES {
        // Its creation was torn; it cannot hold a record.
        found.sound_bytes = 0;
        found.torn_bytes = size;
        return Ok(found);
    }
    file.read_at(&mut head, 0).map_err(io)?;
    match file_version(&head) {
        Some(version) if version > VERSION => {
            return Err(SpoolError::Newer { path: name.to_owned(), found: version });
        }
        Some(_) => {}
        None => return Err(SpoolError::NoSpoolFile { path: name.to_owned() }),
    }
    let mut at = FILE_HEAD_BYTES;
    while at < size {
        if let Some(head) = read_record(file, at, size, check_payloads).map_err(io)? {
            found.records.push((head, at));
            at += head.record_bytes();
            found.sound_bytes = at;
            continue;
        }
        match next_record(file, at + 1, size).map_err(io)? {
            Some(next) => {
                found.damaged += 1;
                at = next;
            }
            None => {
                found.torn_bytes = size - found.sound_bytes;
                break;
            }
        }
    }
    Ok(found)
}

/// The head at `at`, if a sound record that fits into the file begins there.
fn read_record(
    file: &dyn MediumFile,
    at: u64,
    size: u64,
    check_payload: bool,
) -> std::io::Result<Option<Head>> {
    if size - at < HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEAD_BYTES];
    file.read_at(&mut bytes, at)?;
    let Some(head) = Head::decode(&bytes) else { return Ok(None) };
    if head.record_bytes() > size - at {
        return Ok(None);
    }
    if check_payload && head.payload > 0 {
        let mut payload = vec![0; head.payload as usize];
        file.read_at(&mut payload, at + HEAD_BYTES as u64)?;
        if crc32fast::hash(&payload) != head.payload_crc {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

/// Where the next sound record begins, from `from` on.
fn next_record(file: &dyn MediumFile, from: u64, size: u64) -> std::io::Result<Option<u64>> {
    let mut start = from;
    while size.saturating_sub(start) >= HEAD_BYTES as u64 {
        let length = usize::try_from(size - start).unwrap_or(usize::MAX).min(SEARCH_BYTES);
        let mut bytes = vec![0; length];
        file.read_at(&mut bytes, start)?;
        for (i, window) in bytes.windows(RECORD_MAGIC.len()).enumerate() {
            if window == RECORD_MAGIC && read_record(file, start + i as u64, size, true)?.is_some()
            {
                return Ok(Some(start + i as u64));
            }
        }
        if start + length as u64 >= size {
            break;
        }
        start += (length - RECORD_MAGIC.len()) as u64;
    }
    Ok(None)
}

/// A message that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its record.
    pub place: Place,
    /// Its latest state, if it has one.
    pub state: Option<Place>,
    /// When something is to be done next, Unix time in milliseconds.
    pub due: i64,
}

/// Plays the records of one message file and its state file. A message that an earlier file holds
/// too was moved here: the later place counts.
pub(super) fn replay(
    segment: u64,
    messages: &Found,
    states: &Found,
    live: &mut BTreeMap<u64, Entry>,
) {
    for (head, at) in messages.records.iter().filter(|(head, _)| head.kind == Kind::Message) {
        let place = Place { segment, offset: *at, bytes: head.payload };
        live.insert(head.id, Entry { place, state: None, due: head.due });
    }
    for (head, at) in &states.records {
        let Some(entry) = live.get_mut(&head.id).filter(|e| e.place.segment == segment) else {
            continue;
        };
        match head.kind {
            Kind::State => {
                entry.state = Some(Place { segment, offset: *at, bytes: head.payload });
                entry.due = head.due;
            }
            Kind::Done => {
                live.remove(&head.id);
            }
            Kind::Message => {}
        }
    }
}
