//! Reading the records of a pack in order.
//!
//! A pack may end in a torn record: what follows the last valid one, and holds no valid one itself.
//! Damage before that is skipped and reported: by the length in the header where that is intact,
//! else by a search for the next tag (see [`super::record`]). Each byte is read once.

use std::io;

use super::record::{FileKey, HEAD_BYTES, Head};
use crate::spool::MediumFile;

/// Bytes read at once while searching behind damage.
const SEARCH_BYTES: usize = 1 << 20;

/// What a pack holds from some offset on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Every valid record and its offset.
    pub records: Vec<(Head, u64)>,
    /// Offsets at which damage begins that was skipped.
    pub damaged: Vec<u64>,
    /// End of the last valid or skipped record: what follows is torn.
    pub valid_bytes: u64,
    /// Bytes of a torn write at the end.
    pub torn_bytes: u64,
}

/// Scans the records from `from` on, where one begins.
pub(super) fn scan(file: &dyn MediumFile, key: Option<&FileKey>, from: u64) -> io::Result<Scan> {
    let size = file.size()?;
    let mut found = Scan { valid_bytes: from.min(size), ..Scan::default() };
    let mut at = from;
    while at < size {
        match read(file, key, at, size)? {
            Read::Valid(head) => {
                found.records.push((head, at));
                at += head.record_bytes();
                found.valid_bytes = at;
            }
            Read::DamagedPayload(head) => {
                found.damaged.push(at);
                at += head.record_bytes();
                found.valid_bytes = at;
            }
            Read::Invalid => match search(file, key, at + 1, size)? {
                Some(next) => {
                    found.damaged.push(at);
                    at = next;
                }
                None if key.is_some() => {
                    found.torn_bytes = size - found.valid_bytes;
                    break;
                }
                // Nothing can be searched for: it stays for inspection.
                None => {
                    found.damaged.push(at);
                    found.valid_bytes = size;
                    break;
                }
            },
        }
    }
    Ok(found)
}

/// What is read where a record is known to begin.
enum Read {
    Valid(Head),
    /// The header is valid, so its length is.
    DamagedPayload(Head),
    /// The header is damaged, or the record is longer than the file.
    Invalid,
}

fn read(file: &dyn MediumFile, key: Option<&FileKey>, at: u64, size: u64) -> io::Result<Read> {
    if size - at < HEAD_BYTES as u64 {
        return Ok(Read::Invalid);
    }
    let mut bytes = [0; HEAD_BYTES];
    file.read_at(&mut bytes, at)?;
    let Some(head) = Head::decode(&bytes, key, at) else { return Ok(Read::Invalid) };
    if head.record_bytes() > size - at {
        return Ok(Read::Invalid);
    }
    let mut payload = vec![0; head.length as usize];
    file.read_at(&mut payload, at + HEAD_BYTES as u64)?;
    Ok(if head.describes(&payload) { Read::Valid(head) } else { Read::DamagedPayload(head) })
}

/// Offset of the next record from `from` on, which only a key can prove.
fn search(
    file: &dyn MediumFile,
    key: Option<&FileKey>,
    from: u64,
    size: u64,
) -> io::Result<Option<u64>> {
    let Some(key) = key else { return Ok(None) };
    let mut start = from;
    while size.saturating_sub(start) >= HEAD_BYTES as u64 {
        let rest = usize::try_from(size - start).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest.min(SEARCH_BYTES)];
        file.read_at(&mut bytes, start)?;
        let locations = bytes.len() + 1 - HEAD_BYTES;
        for i in 0..locations {
            let at = start + i as u64;
            let window = bytes.get(i..).unwrap_or_default();
            let Some(head) = Head::decode(window, Some(key), at) else { continue };
            if head.record_bytes() <= size - at {
                return Ok(Some(at));
            }
        }
        start += locations as u64;
    }
    Ok(None)
}
