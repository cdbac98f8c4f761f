//! Compression of the part of records that is only read, never searched: MessagePack, many records
//! at a time or with a dictionary.
//!
//! MessagePack with field names, so that old records stay readable when types grow, as with JSON,
//! which older records are: it is written in a third of the time. A dictionary, because a single
//! record of 2 KB repeats little but its field names. The first records of a log are compressed
//! with a dictionary that is part of the program; on them one of the day's own rules, hosts and
//! phrases is trained (`dictionary.rs`). The compression is Zstandard (RFC 8878).

mod error;

use gauntlet_mail::{Envelope, Facts};
use gauntlet_verdict::{Disposition, Verdict};
use serde::{Deserialize, Serialize};

use super::dictionary::{self, Dictionary};
use super::index::{push_number, take_number};
use crate::record::{Delivery, LogRecord, Stage};
pub(crate) use error::{PackError, UnpackError};

/// Largest record that is decompressed, in bytes: a damaged length must not exhaust memory.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// Typical content of records, for the compression only. Dictionaries are part of the file format:
/// none may change, a new one needs a new leading byte. A test checks their digests.
const DICTIONARY_1: &[u8] = include_bytes!("pack-dictionary-1.txt");
const DICTIONARY_2: &[u8] = include_bytes!("pack-dictionary-2.txt");

/// Leading byte of records compressed with the first dictionary, or, for the hours in which that
/// changed without a byte of its own, with the second.
const FORMAT_1: u8 = 1;
/// Leading byte of records compressed with the second dictionary by LZ4: JSON, like the first.
const FORMAT_2: u8 = 2;
/// Leading byte of records compressed by Zstandard. The frame follows, without its magic number; it
/// has its own length and the number of the day's dictionary, or none: then it is the program's
/// second one.
const FORMAT_3: u8 = 3;
/// Leading byte of a position in a pack: the number of the pack (eight bytes) and of the record in
/// it (two), little-endian.
const IN_A_PACK: u8 = 4;
/// Leading byte of a pack: number of records, the length of each (LEB128), and one frame of all, as
/// in format 3.
const PACK: u8 = 5;
/// Leading byte of a pack whose frame has no dictionary.
const PACK_WITHOUT_DICTIONARY: u8 = 6;
/// Bytes of records that complete a pack.
const PACK_BYTES: usize = 96 << 10;
/// Most uncompressed bytes that a pack may claim: more is damage.
const UNPACKED_BYTES_MAX: usize = 256 << 20;
/// Most records of a pack.
const PACK_RECORDS_MAX: usize = 64;
/// Records of so many bytes have enough in common to be compressed without a dictionary, which is
/// faster.
const SELF_SUFFICIENT_BYTES_MIN: usize = 24 << 10;
/// Compression level without a dictionary.
const SELF_SUFFICIENT_LEVEL: i32 = -1;
/// Magic number of a frame (RFC 8878, section 3.1.1): always the same, so it is not stored.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The dictionaries that a record of this format may have been compressed with, likeliest first.
fn dictionaries(format: u8) -> Option<&'static [&'static [u8]]> {
    match format {
        FORMAT_1 => Some(&[DICTIONARY_1, DICTIONARY_2]),
        FORMAT_2 => Some(&[DICTIONARY_2]),
        _ => None,
    }
}

#[derive(Serialize)]
struct RestRef<'a> {
    envelope: &'a Envelope,
    facts: &'a Facts,
    verdict: &'a Verdict,
    stages: &'a [Stage],
    #[serde(skip_serializing_if = "<[Disposition]>::is_empty")]
    dispositions: &'a [Disposition],
    #[serde(skip_serializing_if = "<[Delivery]>::is_empty")]
    deliveries: &'a [Delivery],
}

/// What [`Packer`] stores of a record.
#[derive(Deserialize)]
pub(crate) struct Rest {
    pub(crate) envelope: Envelope,
    pub(crate) facts: Facts,
    pub(crate) verdict: Verdict,
    #[serde(default)]
    pub(crate) stages: Vec<Stage>,
    /// Dispositions of the recipients that the message was logged with.
    #[serde(default)]
    pub(crate) dispositions: Vec<Disposition>,
    /// Delivery states at that time.
    #[serde(default)]
    pub(crate) deliveries: Vec<Delivery>,
}

/// Compresses records, with reused buffers.
pub(crate) struct Packer {
    /// Records of the current pack, concatenated, and the length of each.
    records: Vec<u8>,
    lengths: Vec<usize>,
    frame: Vec<u8>,
    packed: Vec<u8>,
    context: zstd_safe::CCtx<'static>,
    /// The newest dictionary of the day; until there is one, the program's.
    pub(crate) dictionary: Dictionary,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("dictionary", &self.dictionary).finish_non_exhaustive()
    }
}

impl Packer {
    /// A packer with this dictionary; none is the program's.
    pub(crate) fn new(dictionary: Option<Dictionary>) -> Self {
        Packer {
            records: Vec::new(),
            lengths: Vec::new(),
            frame: Vec::new(),
            packed: Vec::new(),
            context: zstd_safe::CCtx::default(),
            dictionary: dictionary.unwrap_or_else(|| Dictionary::built_in(DICTIONARY_2)),
        }
    }

    /// Drops the current pack.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.lengths.clear();
    }

    /// The position that the next record gets in the pack with this number, as stored in the
    /// message's row.
    pub(crate) fn next_position(&self, pack: i64) -> [u8; 11] {
        let mut position = [IN_A_PACK; 11];
        let bytes = pack.to_le_bytes().into_iter().chain((self.lengths.len() as u16).to_le_bytes());
        for (to, from) in position.iter_mut().skip(1).zip(bytes) {
            *to = from;
        }
        position
    }

    /// Adds envelope, facts, verdict, stages, dispositions and deliveries of the record.
    pub(crate) fn push(&mut self, record: &LogRecord) -> Result<(), PackError> {
        let LogRecord { envelope, facts, verdict, stages, dispositions, deliveries, .. } = record;
        let rest = RestRef { envelope, facts, verdict, stages, dispositions, deliveries };
        let start = self.records.len();
        rmp_serde::encode::write_named(&mut self.records, &rest)?;
        self.lengths.push(self.records.len() - start);
        Ok(())
    }

    /// The records of the current pack, if they are so few that a dictionary helps.
    pub(crate) fn training_samples(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = if self.needs_no_dictionary() { &[] } else { self.records.as_slice() };
        self.lengths.iter().map_while(move |&length| {
            let (record, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(record)
        })
    }

    fn needs_no_dictionary(&self) -> bool {
        self.records.len() >= SELF_SUFFICIENT_BYTES_MIN
    }

    /// Whether the pack should be written.
    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= PACK_BYTES || self.lengths.len() >= PACK_RECORDS_MAX
    }

    /// Compresses the current pack, and starts a new one. None if it is empty.
    pub(crate) fn pack(&mut self) -> Result<Option<&[u8]>, PackError> {
        if self.lengths.is_empty() {
            return Ok(None);
        }
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(self.records.len()));
        let needs_no_dictionary = self.needs_no_dictionary();
        let packed = match needs_no_dictionary {
            true => self.context.compress(&mut self.frame, &self.records, SELF_SUFFICIENT_LEVEL),
            false => {
                let dictionary = self.dictionary.encoder();
                self.context.compress_using_cdict(&mut self.frame, &self.records, dictionary)
            }
        };
        packed.map_err(|code| PackError::Compress(dictionary::error_name(code)))?;
        self.packed.clear();
        self.packed.push(if needs_no_dictionary { PACK_WITHOUT_DICTIONARY } else { PACK });
        let lengths = std::iter::once(self.lengths.len()).chain(self.lengths.drain(..));
        for n in lengths {
            push_number(&mut self.packed, n as u32);
        }
        let frame = self.frame.strip_prefix(&FRAME_MAGIC);
        let frame = frame.ok_or(PackError::Compress("Zstandard wrote no frame"))?;
        self.packed.extend_from_slice(frame);
        self.records.clear();
        Ok(Some(&self.packed))
    }
}

/// The number of the pack of this position; none if this is a record by itself.
pub(crate) fn pack_of(rest: &[u8]) -> Option<i64> {
    let number = rest.get(1..9).filter(|_| rest.first() == Some(&IN_A_PACK))?;
    number.try_into().ok().map(i64::from_le_bytes)
}

/// The records of a pack, decompressed.
pub(crate) struct Unpacked {
    records: Vec<u8>,
    lengths: Vec<usize>,
}

impl Unpacked {
    /// Decompresses a pack with the dictionary that [`dictionary_of`] names.
    pub(crate) fn new(packed: &[u8], dictionary: Option<&[u8]>) -> Result<Self, UnpackError> {
        let damaged = |why: &str| UnpackError::Pack(why.to_owned());
        let (lengths, frame) = split_pack(packed).ok_or_else(|| damaged("no lengths"))?;
        let dictionary = match dictionary_of(packed) {
            Some(_) => Some(dictionary.ok_or_else(|| damaged("its dictionary is missing"))?),
            None if packed.first() == Some(&PACK_WITHOUT_DICTIONARY) => None,
            None => Some(DICTIONARY_2),
        };
        // The limit is what the pack itself claims, so that a large record does not make the others
        // unreadable.
        let most = lengths.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
        let records = unpack_frame(frame, dictionary, most.min(UNPACKED_BYTES_MAX))?;
        Ok(Unpacked { records, lengths })
    }

    /// The record at this position, as stored in a message's row.
    pub(crate) fn record(&self, rest: &[u8]) -> Result<Rest, UnpackError> {
        let damaged = |why: &str| UnpackError::Pack(why.to_owned());
        let position = rest.get(9..11).and_then(|b| b.try_into().ok()).map(u16::from_le_bytes);
        let position = usize::from(position.ok_or_else(|| damaged("no position"))?);
        let before = self.lengths.iter().take(position);
        let start = before.fold(0, |sum: usize, n| sum.saturating_add(*n));
        let length = self.lengths.get(position).copied();
        let length = length.ok_or_else(|| damaged("it ends before the record"))?;
        let record = start.checked_add(length).and_then(|end| self.records.get(start..end));
        let record = record.ok_or_else(|| damaged("it is cut short"))?;
        rmp_serde::from_slice(record).map_err(|e| damaged(&e.to_string()))
    }
}

/// Decompresses the record at this position in a pack.
#[cfg(test)]
pub(crate) fn unpack_from(
    packed: &[u8],
    rest: &[u8],
    dictionary: Option<&[u8]>,
) -> Result<Rest, UnpackError> {
    Unpacked::new(packed, dictionary)?.record(rest)
}

/// The lengths of a pack's records, and its frame.
fn split_pack(packed: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let (_, mut rest) =
        packed.split_first().filter(|(f, _)| [PACK, PACK_WITHOUT_DICTIONARY].contains(*f))?;
    let count = take_number(&mut rest)?;
    let lengths = (0..count).map_while(|_| take_number(&mut rest));
    let lengths: Vec<usize> = lengths.map(|n| n as usize).collect();
    (lengths.len() == count as usize).then_some((lengths, rest))
}

/// The number of the day's dictionary that this was compressed with, if any.
pub(crate) fn dictionary_of(packed: &[u8]) -> Option<u32> {
    let frame = match packed.split_first()? {
        (&FORMAT_3, frame) => frame,
        _ => split_pack(packed)?.1,
    };
    // A frame header has no more than 18 bytes.
    let begin = frame.get(..18).unwrap_or(frame);
    zstd_safe::get_dict_id_from_frame(&[&FRAME_MAGIC, begin].concat())
        .map(std::num::NonZeroU32::get)
}

/// Decompresses a frame that has no magic number.
fn unpack_frame(
    frame: &[u8],
    dictionary: Option<&[u8]>,
    most: usize,
) -> Result<Vec<u8>, UnpackError> {
    let frame = [&FRAME_MAGIC, frame].concat();
    let damaged = |why: &str| UnpackError::Frame(why.to_owned());
    let length = zstd_safe::get_frame_content_size(&frame).map_err(|_| damaged("no frame"))?;
    let length = length.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    if length > most {
        return Err(UnpackError::TooLarge(length));
    }
    let mut content = Vec::with_capacity(length);
    let mut context = zstd_safe::DCtx::default();
    let unpacked = match dictionary.map(zstd_safe::create_ddict) {
        Some(dictionary) => context.decompress_using_ddict(&mut content, &frame, &dictionary),
        None => context.decompress(&mut content, &frame),
    };
    unpacked.map_err(|code| damaged(dictionary::error_name(code)))?;
    Ok(content)
}

fn unpack_format_3(packed: &[u8], dictionary: Option<&[u8]>) -> Result<Rest, UnpackError> {
    let damaged = |why: &str| UnpackError::Frame(why.to_owned());
    let dictionary = match dictionary_of(packed) {
        Some(_) => dictionary.ok_or_else(|| damaged("its dictionary is missing"))?,
        None => DICTIONARY_2,
    };
    let frame = packed.get(1..).unwrap_or_default();
    let record = unpack_frame(frame, Some(dictionary), RECORD_BYTES_MAX)?;
    rmp_serde::from_slice(&record).map_err(|e| damaged(&e.to_string()))
}

/// Decompresses a record that is by itself, with the dictionary that [`dictionary_of`] names.
pub(crate) fn unpack(packed: &[u8], dictionary: Option<&[u8]>) -> Result<Rest, UnpackError> {
    if packed.first() == Some(&FORMAT_3) {
        return unpack_format_3(packed, dictionary);
    }
    let (Some(&format), Some(length)) = (packed.first(), packed.get(1..5)) else {
        return Err(UnpackError::Truncated);
    };
    let Some(dictionaries) = dictionaries(format) else {
        return Err(UnpackError::UnknownFormat(format));
    };
    let length = length.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    if length > RECORD_BYTES_MAX {
        return Err(UnpackError::TooLarge(length));
    }
    let compressed = packed.get(5..).unwrap_or_default();
    let mut failure = String::new();
    for dictionary in dictionaries {
        match unpack_with(compressed, length, dictionary) {
            Ok(rest) => return Ok(rest),
            Err(error) => failure = error,
        }
    }
    Err(UnpackError::Frame(failure))
}

fn unpack_with(compressed: &[u8], length: usize, dictionary: &[u8]) -> Result<Rest, String> {
    let json = lz4_flex::block::decompress_with_dict(compressed, length, dictionary)
        .map_err(|e| e.to_string())?;
    serde_json::from_slice(&json).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed_as(format: u8, dictionary: &[u8]) -> Vec<u8> {
        let LogRecord { envelope, mut facts, verdict, stages, .. } = LogRecord::default();
        facts.reverse_name = Some("mail.example.org".to_owned());
        let rest = RestRef {
            envelope: &envelope,
            facts: &facts,
            verdict: &verdict,
            stages: &stages,
            dispositions: &[],
            deliveries: &[],
        };
        let json = serde_json::to_vec(&rest).unwrap();
        let mut packed = vec![format];
        packed.extend_from_slice(&(json.len() as u32).to_le_bytes());
        packed.extend_from_slice(&lz4_flex::block::compress_with_dict(&json, dictionary));
        packed
    }

    #[test]
    fn no_dictionary_changes_without_a_format_of_its_own() {
        let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex()[..16].to_owned();
        assert_eq!(digest(DICTIONARY_1), "ad2f920966d68880");
        assert_eq!(digest(DICTIONARY_2), "b9b4ebeb597b44df");
    }

    #[test]
    fn damage_to_a_pack_is_an_error_and_no_panic() {
        for count in [3, 40] {
            let mut packer = Packer::new(None);
            let mut rests = Vec::new();
            for n in 0..count {
                rests.push(packer.next_position(7));
                let mut record = LogRecord::default();
                record.envelope.helo = format!("{n} {}", "mail.example.org ".repeat(50));
                packer.push(&record).unwrap();
            }
            assert_eq!(packer.training_samples().count(), if count == 3 { 3 } else { 0 });
            let packed = packer.pack().unwrap().unwrap().to_vec();
            assert!(packer.pack().unwrap().is_none());
            for (n, rest) in rests.iter().enumerate() {
                assert_eq!(pack_of(rest), Some(7));
                let read = unpack_from(&packed, rest, None).unwrap();
                assert!(read.envelope.helo.starts_with(&format!("{n} ")));
            }
            assert!(unpack_from(&packed, &packer.next_position(7)[..5], None).is_err());
            let beyond = [&[IN_A_PACK], 7_i64.to_le_bytes().as_slice(), &[99, 0]].concat();
            assert!(
                unpack_from(&packed, &beyond, None).err().unwrap().to_string().contains("damaged")
            );
            for at in 0..packed.len() {
                let _cut_short = unpack_from(&packed[..at], &rests[2], None);
                let mut wrong = packed.clone();
                wrong[at] ^= 0x55;
                let _read_or_refused = unpack_from(&wrong, &rests[2], None);
                let _none_or_some = dictionary_of(&wrong);
            }
        }
    }

    #[test]
    fn a_huge_record_costs_its_neighbours_nothing() {
        let mut packer = Packer::new(None);
        let mut positions = Vec::new();
        for bytes in [10, RECORD_BYTES_MAX + PACK_BYTES, 20] {
            positions.push(packer.next_position(1));
            let mut record = LogRecord::default();
            record.envelope.helo = "h".repeat(bytes);
            packer.push(&record).unwrap();
        }
        let packed = packer.pack().unwrap().unwrap().to_vec();
        for (position, bytes) in positions.iter().zip([10, RECORD_BYTES_MAX + PACK_BYTES, 20]) {
            assert_eq!(unpack_from(&packed, position, None).unwrap().envelope.helo.len(), bytes);
        }
    }

    #[test]
    fn records_of_every_format_are_read() {
        for (format, dictionary) in [(1, DICTIONARY_1), (1, DICTIONARY_2), (2, DICTIONARY_2)] {
            let rest = unpack(&packed_as(format, dictionary), None).unwrap();
            assert_eq!(rest.facts.reverse_name.as_deref(), Some("mail.example.org"));
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let newer = unpack(&packed_as(9, DICTIONARY_2), None).err().unwrap().to_string();
        assert!(newer.contains("format 9") && newer.contains("newer"), "{newer}");
        let wrong = unpack(&packed_as(2, DICTIONARY_1), None).err().unwrap().to_string();
        assert!(wrong.contains("damaged"), "{wrong}");
        assert!(unpack(&[2, 0], None).is_err());
        assert!(
            unpack(&[2, 255, 255, 255, 255, 0], None).err().unwrap().to_string().contains("claims")
        );
    }
}
