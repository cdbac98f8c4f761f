//! Packs of the shared message log: up to [`MESSAGES_MAX`] messages of one node and day, in one
//! row.
//!
//! Why not a row a message: each of its terms would be an index entry of its own, and the wire
//! would carry the record without compression.
//! A pack costs the database one row, and its terms (hashes of 32 bits, each once for all messages
//! of the pack) one entry each. A search finds packs by terms, then looks into them: each message
//! has the list of its terms beside it, so that only what matches is decoded, and decoded messages
//! are compared exactly. `docs/decisions/310-the-shared-log.md` has the figures.
//!
//! Format 1: the byte 1, then one Zstandard frame (RFC 8878) of: number of messages; for each its
//! cursor (eight bytes, little-endian), the number of its terms, their places in the sorted list of
//! the pack's terms (each as the distance from the one before), the length of its record; then the
//! records (MessagePack of the fields by name, so that older and newer programs read each other).
//! Numbers are LEB128.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use gauntlet_store::log::{Cursor, LoggedMessage, terms_of};
use gauntlet_store::record::{Event, LogRecord};
use serde::{Deserialize, Serialize};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

use crate::error::ArrayError;

/// Most messages of a pack.
pub const MESSAGES_MAX: usize = 256;
/// Bytes of records that complete a pack.
const RECORD_BYTES: usize = 1 << 20;
/// Most bytes that a pack may unfold to: more is damage.
const UNPACKED_BYTES_MAX: usize = 256 << 20;
/// So much is unfolded for the directory at first: a block of Zstandard is no longer.
const DIRECTORY_BYTES: usize = 128 << 10;
/// Leading byte of format 1.
const FORMAT: u8 = 1;

/// How hard to press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Zstandard's level 3.
    Fast,
    /// Level 9: a tenth fewer bytes (387 records of real mail: 490 to 444 bytes each).
    Tight,
    /// Level 15: three hundredths fewer again, for several times the CPU time.
    Tightest,
}

impl Effort {
    fn level(self) -> i32 {
        match self {
            Effort::Fast => 3,
            Effort::Tight => 9,
            Effort::Tightest => 15,
        }
    }
}

/// A pack, ready for the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    /// Least cursor of its messages.
    pub first: i64,
    /// Greatest cursor of its messages.
    pub last: i64,
    /// Number of messages.
    pub messages: usize,
    /// Keys of all terms, ascending, each once.
    pub terms: Vec<i32>,
    /// The messages.
    pub body: Vec<u8>,
}

/// The key of a term: 32 bits of its hash. Two terms with one key cost a look into a pack.
pub fn key(term: &str) -> i32 {
    let hash = blake3::hash(term.as_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    i32::from_le_bytes([a, b, c, d])
}

#[derive(Serialize)]
struct StoredRef<'a> {
    record: &'a LogRecord,
    #[serde(skip_serializing_if = "<[Event]>::is_empty")]
    events: &'a [Event],
}

#[derive(Deserialize)]
struct Stored {
    record: LogRecord,
    #[serde(default)]
    events: Vec<Event>,
}

/// Packs messages of one day, in their order. What filters cost and how long stages took is kept to
/// about two digits: the others are noise, and would be an eighth of the pack.
///
/// # Errors
/// If a record cannot be encoded.
pub fn pack(messages: &[LoggedMessage], effort: Effort) -> Result<Vec<Pack>, ArrayError> {
    let mut packs = Vec::new();
    let mut builder = Builder::default();
    for message in messages {
        builder.push(message)?;
        if builder.messages.len() >= MESSAGES_MAX || builder.records.len() >= RECORD_BYTES {
            packs.push(std::mem::take(&mut builder).finish(effort)?);
        }
    }
    if !builder.messages.is_empty() {
        packs.push(builder.finish(effort)?);
    }
    Ok(packs)
}

#[derive(Default)]
struct Builder {
    /// Cursor, keys and length of the record of each.
    messages: Vec<(i64, BTreeSet<i32>, usize)>,
    records: Vec<u8>,
}

impl Builder {
    fn push(&mut self, message: &LoggedMessage) -> Result<(), ArrayError> {
        let start = self.records.len();
        let mut record = message.record.clone();
        for cost in &mut record.verdict.costs {
            cost.micros = seven_bits(cost.micros);
        }
        for stage in &mut record.stages {
            stage.at_us = two_digits(stage.at_us);
        }
        let stored = StoredRef { record: &record, events: &message.events };
        rmp_serde::encode::write_named(&mut self.records, &stored).map_err(|error| {
            ArrayError::Damaged {
                what: format!("the log record of {}", message.record.id),
                cause: error.to_string(),
            }
        })?;
        let keys = terms_of(message).iter().map(|term| key(term)).collect();
        self.messages.push((message.cursor.0, keys, self.records.len() - start));
        Ok(())
    }

    fn finish(self, effort: Effort) -> Result<Pack, ArrayError> {
        let all: BTreeSet<i32> =
            self.messages.iter().flat_map(|(_, keys, _)| keys).copied().collect();
        let terms: Vec<i32> = all.into_iter().collect();
        let mut plain = Vec::with_capacity(self.records.len() + 64 * self.messages.len());
        push_number(&mut plain, self.messages.len());
        for (cursor, keys, length) in &self.messages {
            plain.extend_from_slice(&cursor.to_le_bytes());
            push_number(&mut plain, keys.len());
            let mut before = 0;
            for key in keys {
                let place = terms.binary_search(key).unwrap_or_default();
                push_number(&mut plain, place - before);
                before = place;
            }
            push_number(&mut plain, *length);
        }
        plain.extend_from_slice(&self.records);
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
        zstd_safe::compress(&mut frame, &plain, effort.level()).map_err(|code| {
            ArrayError::Damaged {
                what: "a pack of the log".to_owned(),
                cause: zstd_safe::get_error_name(code).to_owned(),
            }
        })?;
        let mut body = Vec::with_capacity(frame.len() + 1);
        body.push(FORMAT);
        body.extend_from_slice(&frame);
        let cursors = self.messages.iter().map(|(cursor, ..)| *cursor);
        Ok(Pack {
            first: cursors.clone().min().unwrap_or_default(),
            last: cursors.max().unwrap_or_default(),
            messages: self.messages.len(),
            terms,
            body,
        })
    }
}

/// The number to seven significant bits, one in a hundred. Its last two bytes are zero then, which
/// those of a number with two decimal digits are not.
fn seven_bits(number: f32) -> f32 {
    const DROPPED: u32 = 17;
    if !number.is_finite() || number <= 0.0 {
        return 0.0;
    }
    let half = 1 << (DROPPED - 1);
    f32::from_bits(number.to_bits().saturating_add(half) >> DROPPED << DROPPED)
}

/// The number, to two decimal digits.
fn two_digits(number: u64) -> u64 {
    let unit = 10_u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1));
    number.saturating_add(unit / 2) / unit * unit
}

/// A pack, unfolded as far as it is read: of many packs a search needs the directory alone, and of
/// others one message.
pub struct Unpacked<'b> {
    frame: &'b [u8],
    /// Bytes of the frame that are unfolded.
    read: usize,
    decoder: DCtx<'static>,
    /// As long as all that it unfolds to; `filled` bytes of it are there.
    plain: Vec<u8>,
    filled: usize,
    messages: Vec<Packed>,
}

impl fmt::Debug for Unpacked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, filled) = (self.messages.len(), self.filled);
        f.debug_struct("Unpacked")
            .field("messages", &messages)
            .field("filled", &filled)
            .finish_non_exhaustive()
    }
}

/// One message of a pack.
#[derive(Debug)]
struct Packed {
    cursor: i64,
    /// Bytes of the places of its terms in the pack's list.
    terms: Range<usize>,
    /// Bytes of its record.
    record: Range<usize>,
}

impl<'b> Unpacked<'b> {
    /// Opens the body of a pack and reads its directory.
    ///
    /// # Errors
    /// If it is damaged, or of a format that a newer program made.
    pub fn new(body: &'b [u8]) -> Result<Self, ArrayError> {
        let (frame, bytes) = frame_of(body)?;
        let plain = vec![0; bytes];
        let decoder = DCtx::create();
        let mut unpacked =
            Unpacked { frame, read: 0, decoder, plain, filled: 0, messages: Vec::new() };
        let mut wanted = DIRECTORY_BYTES;
        loop {
            unpacked.unfold(wanted.min(bytes))?;
            let known = unpacked.plain.get(..unpacked.filled).unwrap_or_default();
            match directory(known, bytes) {
                Some(messages) => {
                    unpacked.messages = messages;
                    return Ok(unpacked);
                }
                None if wanted < bytes => wanted = wanted.saturating_mul(2),
                None => return Err(damaged("its directory is cut short")),
            }
        }
    }

    /// Unfolds the first `wanted` bytes, if they are not there yet.
    fn unfold(&mut self, wanted: usize) -> Result<(), ArrayError> {
        while self.filled < wanted {
            let Some(room) = self.plain.get_mut(self.filled..wanted) else {
                return Err(damaged("it ends too early"));
            };
            let mut output = OutBuffer::around(room);
            let mut input = InBuffer::around(self.frame.get(self.read..).unwrap_or_default());
            self.decoder
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| damaged(zstd_safe::get_error_name(code)))?;
            let (made, taken) = (output.pos(), input.pos());
            if made == 0 && taken == 0 {
                return Err(damaged("it ends too early"));
            }
            (self.filled, self.read) = (self.filled + made, self.read + taken);
        }
        Ok(())
    }

    /// Places of messages that have, for each of these lists, at least one of the keys, newest
    /// first. `terms` are those of the pack's row.
    pub fn find(&self, terms: &[i32], required: &[Vec<i32>]) -> Vec<usize> {
        let place = |key: &i32| terms.binary_search(key).ok();
        let lists: Vec<Vec<usize>> =
            required.iter().map(|any| any.iter().filter_map(place).collect()).collect();
        let mut seen = vec![false; lists.len()];
        let mut has_all = |message: &Packed| {
            seen.fill(false);
            for place in self.places(message) {
                for (list, seen) in lists.iter().zip(&mut seen) {
                    *seen |= list.contains(&place);
                }
            }
            seen.iter().all(|seen| *seen)
        };
        let mut found: Vec<usize> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if has_all(message) {
                found.push(at);
            }
        }
        found.sort_by_key(|&at| std::cmp::Reverse(self.messages.get(at).map(|m| m.cursor)));
        found
    }

    /// Places of a message's terms in the pack's list, ascending.
    fn places(&self, message: &Packed) -> impl Iterator<Item = usize> {
        let mut rest = self.plain.get(message.terms.clone()).unwrap_or_default();
        let mut place = 0_usize;
        std::iter::from_fn(move || {
            place = place.checked_add(take_number(&mut rest)?)?;
            Some(place)
        })
    }

    /// The cursor of the message at this place.
    pub fn cursor(&self, place: usize) -> Option<i64> {
        self.messages.get(place).map(|m| m.cursor)
    }

    /// The message at this place.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn message(&mut self, place: usize) -> Result<LoggedMessage, ArrayError> {
        let packed = self.messages.get(place).ok_or_else(|| damaged("a message is missing"))?;
        let (cursor, record) = (Cursor(packed.cursor), packed.record.clone());
        self.unfold(record.end)?;
        let record = self.plain.get(record).unwrap_or_default();
        let stored: Stored =
            rmp_serde::from_slice(record).map_err(|error| damaged(&error.to_string()))?;
        let Stored { record, events } = stored;
        Ok(LoggedMessage { cursor, record, events, node: String::new() })
    }
}

fn damaged(cause: &str) -> ArrayError {
    ArrayError::Damaged { what: "a pack of the array's log".to_owned(), cause: cause.to_owned() }
}

/// The frame of a body, and the number of bytes that it unfolds to.
fn frame_of(body: &[u8]) -> Result<(&[u8], usize), ArrayError> {
    let (&format, frame) = body.split_first().ok_or_else(|| damaged("it is empty"))?;
    if format != FORMAT {
        return Err(damaged(&format!("format {format} is of a newer program")));
    }
    let length = zstd_safe::get_frame_content_size(frame).map_err(|_| damaged("no frame"))?;
    let length = length.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    match length > UNPACKED_BYTES_MAX {
        true => Err(damaged(&format!("it claims {length} bytes"))),
        false => Ok((frame, length)),
    }
}

/// The messages of a pack of `bytes` bytes, of which the first are known; none if the directory is
/// longer than those, or wrong.
fn directory(known: &[u8], bytes: usize) -> Option<Vec<Packed>> {
    let mut rest = known;
    let at = |rest: &[u8]| known.len() - rest.len();
    let mut lengths = Vec::new();
    let mut messages = Vec::new();
    for _ in 0..take_number(&mut rest)? {
        let (cursor, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        let terms = take_number(&mut rest)?;
        let start = at(rest);
        for _ in 0..terms {
            take_number(&mut rest)?;
        }
        let terms = start..at(rest);
        lengths.push(take_number(&mut rest)?);
        messages.push(Packed { cursor: i64::from_le_bytes(*cursor), terms, record: 0..0 });
    }
    let mut start = at(rest);
    for (message, length) in messages.iter_mut().zip(lengths) {
        let end = start.checked_add(length).filter(|end| *end <= bytes)?;
        message.record = start..end;
        start = end;
    }
    Some(messages)
}

/// Appends a number as LEB128.
fn push_number(out: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front.
fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0_usize;
    for shift in (0..63).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_store::Query;
    use gauntlet_store::log::Matcher;

    fn message(n: i64) -> LoggedMessage {
        let record = LogRecord {
            id: format!("id-{n}"),
            received_ms: n,
            subject: format!("Invoice {n} of {}", n % 7),
            message_id: format!("{n}@mail.example"),
            from: format!("Eve <eve{}@mail.example>", n % 5),
            ..LogRecord::default()
        };
        LoggedMessage { cursor: Cursor(n * 4096), record, events: Vec::new(), node: String::new() }
    }

    #[test]
    fn what_is_packed_is_found_and_read_back() {
        let messages: Vec<LoggedMessage> = (0..300).map(message).collect();
        let packs = pack(&messages, Effort::Tight).unwrap();
        assert_eq!(packs.iter().map(|p| p.messages).collect::<Vec<_>>(), [256, 44]);
        assert_eq!((packs[0].first, packs[0].last), (0, 255 * 4096));
        let mut unpacked = Unpacked::new(&packs[0].body).unwrap();
        for (at, place) in (0..256).zip(0..) {
            assert_eq!(unpacked.message(place).unwrap(), messages[at]);
        }
        let query = Query { subject: "invoice 3".to_owned(), ..Query::default() };
        let matcher = Matcher::new(&query);
        let required: Vec<Vec<i32>> = matcher
            .required()
            .iter()
            .map(|any| any.iter().map(|term| key(term)).collect())
            .collect();
        let found = unpacked.find(&packs[0].terms, &required);
        // The number of the invoice, or what it is of.
        let expected: Vec<usize> = (0..256).rev().filter(|at| at % 7 == 3).collect();
        assert_eq!(found, expected);
        assert_eq!(unpacked.find(&packs[0].terms, &[vec![key("w4711")]]), [0; 0]);
    }

    #[test]
    fn costs_keep_two_digits() {
        for number in [0.001, 0.0567, 1.0, 99.6, 1234.5, 7e9] {
            let kept = seven_bits(number);
            assert!((kept - number).abs() <= number / 128.0, "{number} {kept}");
            assert_eq!(&kept.to_le_bytes()[..2], [0, 0], "{number}");
        }
        for none in [f32::NAN, f32::INFINITY, -1.0, 0.0] {
            assert_eq!(seven_bits(none).to_bits(), 0);
        }
        for (number, kept) in [(0, 0), (7, 7), (99, 99), (1234, 1200), (9960, 10_000)] {
            assert_eq!(two_digits(number), kept);
        }
        assert!(two_digits(u64::MAX) >= u64::MAX / 10 * 9);
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        let packs = pack(&(0..20).map(message).collect::<Vec<_>>(), Effort::Fast).unwrap();
        let body = &packs[0].body;
        let read = |body: &[u8]| {
            let mut unpacked = Unpacked::new(body)?;
            (0..20).try_for_each(|place| unpacked.message(place).map(drop))
        };
        read(body).unwrap();
        for end in 0..body.len() {
            // Its last block ends behind the last record.
            let is_whole = read(&body[..end]).is_ok();
            assert!(!is_whole || end + 4 > body.len(), "cut at {end} of {}", body.len());
        }
        for at in 0..body.len() {
            let mut wrong = body.clone();
            wrong[at] ^= 0x55;
            if let Ok(mut unpacked) = Unpacked::new(&wrong) {
                for place in 0..30 {
                    let _read_or_refused = unpacked.message(place);
                }
            }
        }
        let newer = Unpacked::new(&[9, 1, 2]).unwrap_err().to_string();
        assert!(newer.contains("newer program"), "{newer}");
    }
}
