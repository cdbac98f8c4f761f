//! Reading a spool back after a stop or a crash.
//!
//! Only the newest message file of a lane can end in a torn record: a file is synced before the
//! next begins. There everything is verified, payloads too; in older files headers suffice, and a
//! payload is verified when it is read. What follows the last valid record of the newest file is a
//! torn write and is truncated. Damage elsewhere is not a torn write: it is skipped, reported and
//! left in place.
//!
//! A record with a valid header and a damaged payload is skipped by the length in its header:
//! nothing inside a body is ever taken for a record. Where the header itself is damaged the next
//! record is searched for by its tag (see [`super::record`]). Each byte is read once.
//!
//! Files of format 1 have no tags. There any valid record is accepted, and whatever is found by
//! such a search is reported as unverified: the sender of the damaged message may have written it.

use std::collections::BTreeMap;
use std::io;

use super::medium::MediumFile;
use super::record::{FILE_HEAD_BYTES, FILE_HEAD_BYTES_1, Format, HEAD_BYTES, Head, Kind};
use super::{RecordLocation, SpoolError};

/// Bytes read at once while searching behind damage.
const SEARCH_BYTES: usize = 1 << 20;
/// In files of format 1: most payload bytes verified while searching, in multiples of the file's
/// length. Forged headers may each claim all that follows.
const SEARCH_PAYLOADS_MAX: u64 = 2;

/// Role of a file, which decides how damage is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Messages, in the newest file: its end may be torn.
    NewestMessages,
    /// Messages, in a file that was synced before a newer one was begun.
    OlderMessages,
    /// States: losing the end repeats work, accepting a forged one may lose a message.
    States,
}

/// Result of scanning a file.
#[derive(Debug)]
pub(super) struct Scan {
    /// Format of the file.
    pub format: Format,
    /// Every valid record and its offset.
    pub records: Vec<(Head, u64)>,
    /// Bytes up to the end of what is to be kept.
    pub valid_bytes: u64,
    /// Bytes of a torn write at the end.
    pub torn_bytes: u64,
    /// Damaged regions that were skipped.
    pub damaged: u64,
    /// Records from this offset on were found by a search without tags: they may be forged.
    pub unverified_from: Option<u64>,
}

impl Scan {
    /// Of a missing file, or of one whose creation was torn.
    pub(super) fn nothing(torn_bytes: u64) -> Self {
        Scan {
            format: Format::Plain,
            records: Vec::new(),
            valid_bytes: 0,
            torn_bytes,
            damaged: 0,
            unverified_from: None,
        }
    }
}

/// Scans the records of a file.
pub(super) fn scan(name: &str, file: &dyn MediumFile, role: Role) -> Result<Scan, SpoolError> {
    let io = |source| SpoolError::Io { path: name.to_owned(), what: "read", source };
    let size = file.size().map_err(io)?;
    if size < FILE_HEAD_BYTES_1 {
        // Its creation was torn; it cannot hold a record.
        return Ok(Scan::nothing(size));
    }
    let mut head = vec![0; usize::try_from(size.min(FILE_HEAD_BYTES)).unwrap_or_default()];
    file.read_at(&mut head, 0).map_err(io)?;
    let format = Format::read(&head).map_err(|newer| match newer {
        Some(found) => SpoolError::Newer { path: name.to_owned(), found },
        None => SpoolError::NoSpoolFile { path: name.to_owned() },
    })?;
    if size < format.file_head_bytes() {
        return Ok(Scan::nothing(size));
    }
    scan_records(file, format, role, size).map_err(io)
}

fn scan_records(file: &dyn MediumFile, format: Format, role: Role, size: u64) -> io::Result<Scan> {
    let mut at = format.file_head_bytes();
    let mut found = Scan { format, valid_bytes: at, ..Scan::nothing(0) };
    let mut search = Search { file, format, size, payloads: SEARCH_PAYLOADS_MAX * size };
    while at < size {
        let next = match read_record(file, &format, at, size, role != Role::OlderMessages)? {
            Read::Valid(head) => {
                found.records.push((head, at));
                at += head.record_bytes();
                found.valid_bytes = at;
                continue;
            }
            Read::DamagedPayload(head) => {
                found.damaged += 1;
                at += head.record_bytes();
                found.valid_bytes = at;
                continue;
            }
            // The last write was not completed: nothing can follow.
            Read::CutShort if found.unverified_from.is_none() => Next::None,
            Read::CutShort | Read::InvalidHead if role == Role::States && !search.has_tags() => {
                Next::None
            }
            Read::CutShort | Read::InvalidHead => search.next_record(at + 1)?,
        };
        match next {
            Next::At(next) => {
                found.damaged += 1;
                if !search.has_tags() {
                    found.unverified_from.get_or_insert(next);
                }
                at = next;
            }
            Next::None if role != Role::OlderMessages && found.unverified_from.is_none() => {
                found.torn_bytes = size - found.valid_bytes;
                break;
            }
            // Not a torn write but unknown data: it stays for inspection.
            Next::None | Next::Unknown => {
                found.damaged += 1;
                found.valid_bytes = size;
                break;
            }
        }
    }
    Ok(found)
}

/// What is read where a record is known to begin.
enum Read {
    Valid(Head),
    /// The header is valid, so its length is.
    DamagedPayload(Head),
    /// The header is valid and its length is beyond the end of the file.
    CutShort,
    InvalidHead,
}

fn read_record(
    file: &dyn MediumFile,
    format: &Format,
    at: u64,
    size: u64,
    check_payload: bool,
) -> io::Result<Read> {
    if size - at < HEAD_BYTES as u64 {
        return Ok(Read::InvalidHead);
    }
    let mut bytes = [0; HEAD_BYTES];
    file.read_at(&mut bytes, at)?;
    let Some(head) = Head::decode(&bytes, format) else { return Ok(Read::InvalidHead) };
    if head.record_bytes() > size - at {
        return Ok(Read::CutShort);
    }
    if check_payload && !has_valid_payload(file, &head, at)? {
        return Ok(Read::DamagedPayload(head));
    }
    Ok(Read::Valid(head))
}

fn has_valid_payload(file: &dyn MediumFile, head: &Head, at: u64) -> io::Result<bool> {
    let mut payload = vec![0; head.payload as usize];
    file.read_at(&mut payload, at + HEAD_BYTES as u64)?;
    Ok(crc32fast::hash(&payload) == head.payload_crc)
}

/// Result of a search.
enum Next {
    /// A record begins at this offset.
    At(u64),
    /// There is no further record.
    None,
    /// There may be one, which cannot be determined.
    Unknown,
}

/// A search for records behind damage.
struct Search<'f> {
    file: &'f dyn MediumFile,
    format: Format,
    size: u64,
    /// Payload bytes that may still be verified.
    payloads: u64,
}

impl Search<'_> {
    /// Whether tags authenticate the file's records.
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
            let locations = bytes.len() + 1 - HEAD_BYTES;
            for i in 0..locations {
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
                if has_valid_payload(self.file, &head, at)? {
                    return Ok(Next::At(at));
                }
            }
            start += locations as u64;
        }
        Ok(Next::None)
    }
}

/// A message that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Location of its record.
    pub location: RecordLocation,
    /// Location of its latest state, if it has one.
    pub state: Option<RecordLocation>,
    /// Due time of the next action, in Unix milliseconds.
    pub due: i64,
}

/// Applies the records of one message file and its state file. A message that an earlier file has
/// too was moved: the later location counts.
pub(super) fn replay(
    segment: u64,
    messages: &Scan,
    states: &Scan,
    live: &mut BTreeMap<u64, Entry>,
) {
    for (head, at) in messages.records.iter().filter(|(head, _)| head.kind == Kind::Message) {
        // An unverified record must not replace another message.
        let proven = messages.unverified_from.is_none_or(|from| *at < from);
        if !proven && live.contains_key(&head.id) {
            continue;
        }
        let location = RecordLocation { segment, offset: *at, bytes: head.payload };
        live.insert(head.id, Entry { location, state: None, due: head.due });
    }
    for (head, at) in &states.records {
        let Some(entry) = live.get_mut(&head.id).filter(|e| e.location.segment == segment) else {
            continue;
        };
        match head.kind {
            Kind::State => {
                entry.state = Some(RecordLocation { segment, offset: *at, bytes: head.payload });
                entry.due = head.due;
            }
            Kind::Done => {
                live.remove(&head.id);
            }
            Kind::Message => {}
        }
    }
}
