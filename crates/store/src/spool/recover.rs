//! Reading a spool back after a stop or a crash.
//!
//! Only the newest message file can end in a torn record: a file is synced before the next begins.
//! There everything is checked, payloads too; in older files the heads are enough, and a payload is
//! checked when it is read. What follows the last sound record of the newest is a torn tail and is cut
//! off. Damage elsewhere is no torn tail: it is stepped over, reported and left in place.
//!
//! A record with a sound head and a damaged payload is stepped over by the length that the head tells:
//! nothing inside a body is ever taken for a record. Where the head itself is damaged the next record is
//! searched for by its tag (see [`super::record`]). Each byte is looked at once.
//!
//! Files of format 1 have no tags. There any sound record will have to do, and whatever comes from behind
//! such a search is reported as unproven: whoever sent the damaged message may have written it.

use std::collections::BTreeMap;
use std::io;

use super::medium::MediumFile;
use super::record::{FILE_HEAD_BYTES, FILE_HEAD_BYTES_1, Format, HEAD_BYTES, Head, Kind};
use super::{Place, SpoolError};

/// Bytes read at once while stepping over damage.
const SEARCH_BYTES: usize = 1 << 20;
/// In files of format 1: most payload bytes checked while searching, in lengths of the file. Forged heads
/// may each claim all that follows.
const SEARCH_PAYLOADS_MAX: u64 = 2;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Messages, in the newest file: its end may be torn.
    NewestMessages,
    /// Messages, in a file that was synced before a newer one was begun.
    OlderMessages,
    /// States: to lose the end repeats work, to take a forged one may lose a message.
    States,
}

/// What a file held.
#[derive(Debug)]
pub(super) struct Found {
    /// How it tells its records.
    pub format: Format,
    /// Every sound record and where it begins.
    pub records: Vec<(Head, u64)>,
    /// Bytes up to the end of what is to be kept.
    pub sound_bytes: u64,
    /// Bytes cut off as a torn tail.
    pub torn_bytes: u64,
    /// Damaged places that were stepped over.
    pub damaged: u64,
    /// Records from here on were found by a search without tags: they may be forged.
    pub unproven_from: Option<u64>,
}

impl Found {
    /// Of no file, or of one whose creation was torn.
    pub(super) fn nothing(torn_bytes: u64) -> Self {
        Found {
            format: Format::Plain,
            records: Vec::new(),
            sound_bytes: 0,
            torn_bytes,
            damaged: 0,
            unproven_from: None,
        }
    }
}

/// Reads the records of a file.
pub(super) fn scan(name: &str, file: &dyn MediumFile, role: Role) -> Result<Found, SpoolError> {
    let io = |source| SpoolError::Io { path: name.to_owned(), what: "read", source };
    let size = file.size().map_err(io)?;
    if size < FILE_HEAD_BYTES_1 {
        // Its creation was torn; it cannot hold a record.
        return Ok(Found::nothing(size));
    }
    let mut head = vec![0; usize::try_from(size.min(FILE_HEAD_BYTES)).unwrap_or_default()];
    file.read_at(&mut head, 0).map_err(io)?;
    let format = Format::read(&head).map_err(|newer| match newer {
        Some(found) => SpoolError::Newer { path: name.to_owned(), found },
        None => SpoolError::NoSpoolFile { path: name.to_owned() },
    })?;
    if size < format.file_head_bytes() {
        return Ok(Found::nothing(size));
    }
    scan_records(file, format, role, size).map_err(io)
}

fn scan_records(file: &dyn MediumFile, format: Format, role: Role, size: u64) -> io::Result<Found> {
    let mut at = format.file_head_bytes();
    let mut found = Found { format, sound_bytes: at, ..Found::nothing(0) };
    let mut search = Search { file, format, size, payloads: SEARCH_PAYLOADS_MAX * size };
    while at < size {
        let next = match read_record(file, &format, at, size, role != Role::OlderMessages)? {
            Read::Sound(head) => {
                found.records.push((head, at));
                at += head.record_bytes();
                found.sound_bytes = at;
                continue;
            }
            Read::DamagedPayload(head) => {
                found.damaged += 1;
                at += head.record_bytes();
                found.sound_bytes = at;
                continue;
            }
            // Written last, and not to its end: nothing can follow.
            Read::CutShort if found.unproven_from.is_none() => Next::None,
            Read::CutShort | Read::NoHead if role == Role::States && !search.has_tags() => {
                Next::None
            }
            Read::CutShort | Read::NoHead => search.next_record(at + 1)?,
        };
        match next {
            Next::At(next) => {
                found.damaged += 1;
                if !search.has_tags() {
                    found.unproven_from.get_or_insert(next);
                }
                at = next;
            }
            Next::None if role != Role::OlderMessages && found.unproven_from.is_none() => {
                found.torn_bytes = size - found.sound_bytes;
                break;
            }
            // Not torn, and nobody knows what it is: it stays for somebody to look at.
            Next::None | Next::Unknown => {
                found.damaged += 1;
                found.sound_bytes = size;
                break;
            }
        }
    }
    Ok(found)
}

/// What is where a record is known to begin.
enum Read {
    Sound(Head),
    /// The head is sound, so its length is.
    DamagedPayload(Head),
    /// The head is sound and tells of more bytes than the file has.
    CutShort,
    NoHead,
}

fn read_record(
    file: &dyn MediumFile,
    format: &Format,
    at: u64,
    size: u64,
    check_payload: bool,
) -> io::Result<Read> {
    if size - at < HEAD_BYTES as u64 {
        return Ok(Read::NoHead);
    }
    let mut bytes = [0; HEAD_BYTES];
    file.read_at(&mut bytes, at)?;
    let Some(head) = Head::decode(&bytes, format) else { return Ok(Read::NoHead) };
    if head.record_bytes() > size - at {
        return Ok(Read::CutShort);
    }
    if check_payload && !has_sound_payload(file, &head, at)? {
        return Ok(Read::DamagedPayload(head));
    }
    Ok(Read::Sound(head))
}

fn has_sound_payload(file: &dyn MediumFile, head: &Head, at: u64) -> io::Result<bool> {
    let mut payload = vec![0; head.payload as usize];
    file.read_at(&mut payload, at + HEAD_BYTES as u64)?;
    Ok(crc32fast::hash(&payload) == head.payload_crc)
}

/// What a search came to.
enum Next {
    /// A record begins here.
    At(u64),
    /// There is none any more.
    None,
    /// There may be one, which nobody can tell.
    Unknown,
}

/// A search for records behind damage.
struct Search<'f> {
    file: &'f dyn MediumFile,
    format: Format,
    size: u64,
    /// Payload bytes that may still be checked.
    payloads: u64,
}

impl Search<'_> {
    /// The file's records can be told from what only looks like one.
    fn has_tags(&self) -> bool {
        matches!(self.format, Format::Keyed(Some(_)))
    }

    /// The next record from `from` on.
    fn next_record(&mut self, from: u64) -> io::Result<Next> {
        if self.format == Format::Keyed(None) {
            return Ok(Next::Unknown);
        }
        let mut start = from;
        while self.size.saturating_sub(start) >= HEAD_BYTES as u64 {
            let rest = usize::try_from(self.size - start).unwrap_or(usize::MAX);
            let mut bytes = vec![0; rest.min(SEARCH_BYTES)];
            self.file.read_at(&mut bytes, start)?;
            let places = bytes.len() + 1 - HEAD_BYTES;
            for i in 0..places {
                let at = start + i as u64;
                let window = bytes.get(i..).unwrap_or_default();
                let Some(head) = Head::decode_found(window, &self.format, at) else { continue };
                if head.record_bytes() > self.size - at {
                    continue;
                }
                if self.has_tags() {
                    return Ok(Next::At(at));
                }
                let Some(left) = self.payloads.checked_sub(u64::from(head.payload)) else {
                    return Ok(Next::Unknown);
                };
                self.payloads = left;
                if has_sound_payload(self.file, &head, at)? {
                    return Ok(Next::At(at));
                }
            }
            start += places as u64;
        }
        Ok(Next::None)
    }
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
        // One that may be forged takes no other's place.
        let proven = messages.unproven_from.is_none_or(|from| *at < from);
        if !proven && live.contains_key(&head.id) {
            continue;
        }
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
