//! The records of the journal: encoding and decoding.

use gauntlet_engine::classifier::group::GROUPS;
use gauntlet_engine::corrections::{Correction, MessageId};
use gauntlet_engine::learning::base_of_classifier;
use gauntlet_engine::signatures::table::{ENTRY_BYTES, Entry};

/// Longest record; longer ones are a broken length.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Good, as earlier builds wrote it: the log odds are the classifier's, and there are no
/// identities.
const KIND_HAM_OLD: u8 = 0;

const KIND_SPAM_OLD: u8 = 1;

const KIND_FORGET: u8 = 2;

const KIND_HAM: u8 = 3;

const KIND_SPAM: u8 = 4;

/// What a record says of a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said<'c> {
    Correction(&'c Correction),
    /// Taken back, at this Unix time in seconds.
    Forgotten(i64),
}

/// What was said of a message last.
#[derive(Debug, Clone, PartialEq)]
pub enum Stated {
    /// This.
    Correction(Correction),
    /// It was taken back, at this Unix time in seconds.
    Forgotten(i64),
}

impl Stated {
    pub(super) fn as_said(&self) -> Said<'_> {
        match self {
            Stated::Correction(correction) => Said::Correction(correction),
            Stated::Forgotten(at) => Said::Forgotten(*at),
        }
    }
}

pub(super) fn record(out: &mut Vec<u8>, id: &MessageId, said: Said<'_>) {
    let mut payload = id.to_vec();
    match said {
        // Earlier builds read no further than the kind.
        Said::Forgotten(at) => {
            payload.push(KIND_FORGET);
            payload.extend_from_slice(&at.to_le_bytes());
        }
        Said::Correction(c) => {
            payload.push(if c.spam { KIND_SPAM } else { KIND_HAM });
            payload.extend_from_slice(&c.reporter.to_le_bytes());
            payload.extend_from_slice(&c.at.to_le_bytes());
            payload.extend_from_slice(&c.base.to_le_bytes());
            c.ends.iter().for_each(|e| payload.extend_from_slice(&e.to_le_bytes()));
            payload.extend_from_slice(&(c.fingerprints.len() as u32).to_le_bytes());
            for &fingerprint in &c.fingerprints {
                let entry = Entry { fingerprint, bad: 0, good: 0, day: 0 };
                payload.extend_from_slice(&entry.to_bytes());
            }
            payload.extend_from_slice(&(c.identities.len() as u32).to_le_bytes());
            c.identities.iter().for_each(|i| payload.extend_from_slice(&i.to_le_bytes()));
            c.features.iter().for_each(|f| payload.extend_from_slice(&f.to_le_bytes()));
        }
    }
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
}

fn take<'b>(bytes: &'b [u8], at: &mut usize, count: usize) -> Option<&'b [u8]> {
    let piece = bytes.get(*at..at.checked_add(count)?)?;
    *at += count;
    Some(piece)
}

pub(super) fn number(bytes: &[u8], at: &mut usize) -> Option<u32> {
    Some(u32::from_le_bytes(take(bytes, at, 4)?.try_into().ok()?))
}

/// The next whole record's payload.
pub(super) fn next<'b>(bytes: &'b [u8], at: &mut usize) -> Option<&'b [u8]> {
    let length = number(bytes, at)? as usize;
    let crc = number(bytes, at)?;
    let payload = take(bytes, at, length).filter(|_| length <= RECORD_BYTES_MAX)?;
    (crc32fast::hash(payload) == crc).then_some(payload)
}

pub(super) fn parse(payload: &[u8]) -> Option<(MessageId, Stated)> {
    let mut at = 0;
    let id: MessageId = take(payload, &mut at, 16)?.try_into().ok()?;
    let (spam, is_old) = match *take(payload, &mut at, 1)?.first()? {
        KIND_FORGET => {
            // Earlier builds wrote no time.
            let at = take(payload, &mut at, 8).and_then(|bytes| bytes.try_into().ok());
            return Some((id, Stated::Forgotten(at.map_or(0, i64::from_le_bytes))));
        }
        KIND_HAM_OLD => (false, true),
        KIND_SPAM_OLD => (true, true),
        KIND_HAM => (false, false),
        KIND_SPAM => (true, false),
        _ => return None,
    };
    let reporter = u64::from_le_bytes(take(payload, &mut at, 8)?.try_into().ok()?);
    let reported_at = i64::from_le_bytes(take(payload, &mut at, 8)?.try_into().ok()?);
    let odds = f32::from_bits(number(payload, &mut at)?);
    let base = if is_old { base_of_classifier(odds) } else { odds };
    let mut ends = [0u16; GROUPS];
    for end in &mut ends {
        *end = u16::from_le_bytes(take(payload, &mut at, 2)?.try_into().ok()?);
    }
    let count = number(payload, &mut at)?;
    let mut fingerprints = Vec::new();
    for _ in 0..count {
        let bytes = take(payload, &mut at, ENTRY_BYTES)?;
        fingerprints.push(Entry::from_bytes(bytes)?.fingerprint);
    }
    let identities = match is_old {
        true => Vec::new(),
        false => {
            let count = number(payload, &mut at)? as usize;
            numbers(take(payload, &mut at, count.checked_mul(4)?)?)
        }
    };
    let features = numbers(payload.get(at..)?);
    let at = reported_at;
    let correction =
        Correction { spam, reporter, at, base, features, ends, identities, fingerprints };
    Some((id, Stated::Correction(correction)))
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).filter_map(|n| Some(u32::from_le_bytes(n.try_into().ok()?))).collect()
}
