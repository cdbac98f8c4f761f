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
//!
//! Format 2: the byte 2, and the same but for the records, which are [`columns`] there. Nodes make
//! it where all nodes of the array read it.
//!
//! All before the records, the directory, is a block of the frame by itself, so that the start of a
//! body is enough to know which messages have which terms. In packs of older programs the first
//! block goes on with records.

mod columns;
mod newer;
mod reading;

use std::collections::BTreeSet;

use gauntlet_store::log::{LoggedMessage, terms_of};
use gauntlet_store::record::{Event, LogRecord};
use serde::Serialize;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::error::ArrayError;
use crate::schema::COLUMNS_SINCE;

pub use reading::{Decoder, Unpacked, start_bytes};

/// Most messages of a pack.
pub const MESSAGES_MAX: usize = 256;
/// Bytes of records that complete a pack.
const RECORD_BYTES: usize = 1 << 20;
/// Leading byte of format 1.
const RECORDS: u8 = 1;
/// Leading byte of format 2.
const COLUMNS: u8 = 2;

/// How records lie in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// One after the other, format 1, which every program reads.
    #[default]
    Records,
    /// By columns, format 2, a twentieth smaller, which programs read that know schema
    /// [`COLUMNS_SINCE`].
    Columns,
}

impl Layout {
    /// The best that a program reads which knows this schema.
    pub fn read_by(schema: i32) -> Self {
        if schema >= COLUMNS_SINCE { Layout::Columns } else { Layout::Records }
    }
}

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

impl Pack {
    /// How its records lie.
    pub fn layout(&self) -> Layout {
        if self.body.first() == Some(&COLUMNS) { Layout::Columns } else { Layout::Records }
    }
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

/// Packs messages of one day, in their order, as `layout` says. What filters cost and how long
/// stages took is kept to three in a hundred, and the probability to six digits: the others are
/// noise, and would be a tenth of the pack.
///
/// # Errors
/// If a record cannot be encoded.
pub fn pack(
    messages: &[LoggedMessage],
    layout: Layout,
    effort: Effort,
) -> Result<Vec<Pack>, ArrayError> {
    let mut packs = Vec::new();
    let mut builder = Builder::default();
    for message in messages {
        builder.push(message)?;
        if builder.messages.len() >= MESSAGES_MAX || builder.records.len() >= RECORD_BYTES {
            packs.push(std::mem::take(&mut builder).finish(layout, effort)?);
        }
    }
    if !builder.messages.is_empty() {
        packs.push(builder.finish(layout, effort)?);
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
            cost.micros = rough(cost.micros);
        }
        record.verdict.probability = record.verdict.probability.map(rough_probability);
        for stage in &mut record.stages {
            stage.at_us = rough_whole(stage.at_us);
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

    fn finish(self, layout: Layout, effort: Effort) -> Result<Pack, ArrayError> {
        let all: BTreeSet<i32> =
            self.messages.iter().flat_map(|(_, keys, _)| keys).copied().collect();
        let terms: Vec<i32> = all.into_iter().collect();
        let mut directory = Vec::with_capacity(64 * self.messages.len());
        push_number(&mut directory, self.messages.len());
        for (cursor, keys, length) in &self.messages {
            directory.extend_from_slice(&cursor.to_le_bytes());
            push_number(&mut directory, keys.len());
            let mut before = 0;
            for key in keys {
                let place = terms.binary_search(key).unwrap_or_default();
                push_number(&mut directory, place - before);
                before = place;
            }
            push_number(&mut directory, *length);
        }
        let body = fold(&directory, &self.records, layout, effort)?;
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

/// The body of a pack with this directory and these records.
///
/// # Errors
/// If Zstandard refuses them.
pub fn fold(
    directory: &[u8],
    records: &[u8],
    layout: Layout,
    effort: Effort,
) -> Result<Vec<u8>, ArrayError> {
    let split = if layout == Layout::Columns { columns::split(records) } else { None };
    let (format, records) = match &split {
        Some(columns) => (COLUMNS, columns.as_slice()),
        None => (RECORDS, records),
    };
    let refused = |code| ArrayError::Damaged {
        what: "a pack of the log".to_owned(),
        cause: zstd_safe::get_error_name(code).to_owned(),
    };
    let bytes = directory.len() + records.len();
    // The end of a block by itself takes some bytes more.
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(bytes) + 64);
    let mut output = OutBuffer::around(&mut frame);
    let mut encoder = CCtx::create();
    encoder.set_parameter(CParameter::CompressionLevel(effort.level())).map_err(refused)?;
    // It is in the frame then, and tables are as large as that needs.
    encoder.set_pledged_src_size(Some(bytes as u64)).map_err(refused)?;
    let mut input = InBuffer::around(directory);
    while input.pos() < directory.len() {
        encoder.compress_stream(&mut output, &mut input).map_err(refused)?;
    }
    while encoder.flush_stream(&mut output).map_err(refused)? > 0 {}
    let mut input = InBuffer::around(records);
    while input.pos() < records.len() {
        encoder.compress_stream(&mut output, &mut input).map_err(refused)?;
    }
    while encoder.end_stream(&mut output).map_err(refused)? > 0 {}
    let mut body = Vec::with_capacity(frame.len() + 1);
    body.push(format);
    body.extend_from_slice(&frame);
    Ok(body)
}

/// The number to five significant bits, three in a hundred. Its last two bytes are zero then, and
/// the others take few values.
fn rough(number: f32) -> f32 {
    const DROPPED: u32 = 19;
    if !number.is_finite() || number <= 0.0 {
        return 0.0;
    }
    let half = 1 << (DROPPED - 1);
    f32::from_bits(number.to_bits().saturating_add(half) >> DROPPED << DROPPED)
}

/// The number, to five significant bits.
fn rough_whole(number: u64) -> u64 {
    let dropped = (u64::BITS - number.leading_zeros()).saturating_sub(5);
    let half = (1 << dropped) >> 1;
    number.saturating_add(half) >> dropped << dropped
}

/// The probability to 21 significant bits: five in ten million near 1, where they matter.
fn rough_probability(probability: f64) -> f64 {
    const DROPPED: u32 = 32;
    if !(0.0..=1.0).contains(&probability) {
        return probability;
    }
    f64::from_bits((probability.to_bits() + (1 << (DROPPED - 1))) >> DROPPED << DROPPED)
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
    use gauntlet_store::log::{Cursor, Matcher};

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
        for layout in [Layout::Records, Layout::Columns] {
            let packs = pack(&messages, layout, Effort::Tight).unwrap();
            assert!(packs.iter().all(|pack| pack.layout() == layout));
            are_found(&messages, &packs);
        }
    }

    fn are_found(messages: &[LoggedMessage], packs: &[Pack]) {
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
    fn the_start_of_a_pack_tells_which_messages_have_terms() {
        for layout in [Layout::Records, Layout::Columns] {
            let messages: Vec<LoggedMessage> = (0..200).map(message).collect();
            let packs = pack(&messages, layout, Effort::Tight).unwrap();
            start_tells(&packs[0].body, &packs[0].terms);
        }
    }

    fn start_tells(body: &[u8], terms: &[i32]) {
        let start = start_bytes(&body[..16]).unwrap();
        assert!(start < body.len(), "{start} of {}", body.len());
        let read = Unpacked::of_start(&body[..start], Decoder::default()).unwrap();
        let (mut read, whole) = (read.unwrap(), Unpacked::new(body).unwrap());
        for word in ["w3", "w42", "winvoice", "wnothing"] {
            let wanted = [vec![key(word)]];
            assert_eq!(read.find(terms, &wanted), whole.find(terms, &wanted), "{word}");
        }
        assert!(read.message(0).is_err());
        let shorter = Unpacked::of_start(&body[..start - 1], read.into_decoder()).unwrap();
        assert!(shorter.is_none());
    }

    #[test]
    fn numbers_keep_what_people_read() {
        for number in [0.001, 0.0567, 1.0, 99.6, 1234.5, 7e9] {
            let kept = rough(number);
            assert!((kept - number).abs() <= number / 32.0, "{number} {kept}");
            assert_eq!(&kept.to_le_bytes()[..2], [0, 0], "{number}");
        }
        for none in [f32::NAN, f32::INFINITY, -1.0, 0.0] {
            assert_eq!(rough(none).to_bits(), 0);
        }
        for (number, kept) in [(0, 0), (7, 7), (31, 31), (33, 34), (1234, 1216), (9960, 9728)] {
            assert_eq!(rough_whole(number), kept);
        }
        assert!(rough_whole(u64::MAX) >= u64::MAX / 10 * 9);
        assert!((0..100_000).map(rough_whole).is_sorted(), "stages stay in their order");
        for probability in [0.0, 1e-9, 0.003, 0.5, 0.997, 0.999_999_9, 1.0] {
            let kept = rough_probability(probability);
            assert!((0.0..=1.0).contains(&kept) && (kept - probability).abs() < 3e-7, "{kept}");
        }
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        for layout in [Layout::Records, Layout::Columns] {
            let messages: Vec<LoggedMessage> = (0..20).map(message).collect();
            damage(&pack(&messages, layout, Effort::Fast).unwrap()[0].body);
        }
        let newer = Unpacked::new(&[9, 1, 2]).unwrap_err().to_string();
        assert!(newer.contains("newer program"), "{newer}");
    }

    fn damage(body: &[u8]) {
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
            let mut wrong = body.to_vec();
            wrong[at] ^= 0x55;
            if let Ok(mut unpacked) = Unpacked::new(&wrong) {
                for place in 0..30 {
                    let _read_or_refused = unpacked.message(place);
                }
            }
        }
    }
}
