//! The part of a record that is only read, never searched: MessagePack, packed against a dictionary.
//!
//! MessagePack with the names of fields, so that old records stay readable when types grow, as with JSON, which
//! older records are: it is written in a third of the time. A dictionary, because a record of 2 KB repeats almost
//! nothing of itself but its names. The first records of a log are packed against one that is part of the program;
//! from them one of the day's own rules, hosts and phrases is made (`dictionary.rs`). Zstandard (RFC 8878) packs.

use gauntlet_engine::Verdict;
use gauntlet_mail::{Envelope, Facts};
use gauntlet_policy::Disposition;
use serde::{Deserialize, Serialize};

use super::dictionary::{self, Dictionary};
use crate::record::{LogRecord, Stage};

/// Largest record that is unpacked, in bytes: a damaged length must not eat memory.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// What typical records repeat; nothing but a help to the compression. Dictionaries are part of the
/// file format: none may change, a new one comes with a new leading byte. A test holds their digests.
const DICTIONARY_1: &[u8] = include_bytes!("pack-dictionary-1.txt");
const DICTIONARY_2: &[u8] = include_bytes!("pack-dictionary-2.txt");

/// Leading byte of records packed against the first dictionary, or, for the hours in which that
/// changed without a byte of its own, against the second.
const FORMAT_1: u8 = 1;
/// Leading byte of records packed against the second dictionary by LZ4: JSON, like the first.
const FORMAT_2: u8 = 2;
/// Leading byte of records packed by Zstandard, what is written today. The frame follows, without its magic number;
/// it tells its own length and the number of the day's dictionary, or none: then it is the second of the program's.
const FORMAT_3: u8 = 3;
/// What a frame begins with (RFC 8878, section 3.1.1): the same for all, so it is not kept.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The dictionaries a record of this format may have been packed against, likeliest first.
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
}

/// What [`pack`] keeps of a record.
#[derive(Deserialize)]
pub(crate) struct Rest {
    pub(crate) envelope: Envelope,
    pub(crate) facts: Facts,
    pub(crate) verdict: Verdict,
    #[serde(default)]
    pub(crate) stages: Vec<Stage>,
    /// What was decided for the recipients that the message was logged with.
    #[serde(default)]
    pub(crate) dispositions: Vec<Disposition>,
}

/// Packs records, with buffers that are reused.
pub(crate) struct Packer {
    record: Vec<u8>,
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
    /// Packs against this dictionary; none is the program's.
    pub(crate) fn new(dictionary: Option<Dictionary>) -> Self {
        Packer {
            record: Vec::new(),
            frame: Vec::new(),
            packed: Vec::new(),
            context: zstd_safe::CCtx::default(),
            dictionary: dictionary.unwrap_or_else(|| Dictionary::of_the_program(DICTIONARY_2)),
        }
    }

    /// The record that was packed last, before it was.
    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }

    /// Envelope, facts, verdict, stages and dispositions of the record.
    pub(crate) fn pack(&mut self, record: &LogRecord) -> Result<&[u8], String> {
        let LogRecord { envelope, facts, verdict, stages, dispositions, .. } = record;
        let rest = RestRef { envelope, facts, verdict, stages, dispositions };
        self.record.clear();
        rmp_serde::encode::write_named(&mut self.record, &rest).map_err(|e| e.to_string())?;
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(self.record.len()));
        let words = self.dictionary.encoder();
        self.context
            .compress_using_cdict(&mut self.frame, &self.record, words)
            .map_err(|code| dictionary::error_name(code).to_owned())?;
        self.packed.clear();
        self.packed.push(FORMAT_3);
        let frame = self.frame.strip_prefix(&FRAME_MAGIC).ok_or("Zstandard wrote no frame")?;
        self.packed.extend_from_slice(frame);
        Ok(&self.packed)
    }
}

/// The number of the day's dictionary that this was packed against, if it was.
pub(crate) fn dictionary_of(packed: &[u8]) -> Option<u32> {
    if packed.first() != Some(&FORMAT_3) {
        return None;
    }
    zstd_safe::get_dict_id_from_frame(&frame_of(packed)).map(std::num::NonZeroU32::get)
}

/// The frame with its magic number again.
fn frame_of(packed: &[u8]) -> Vec<u8> {
    [&FRAME_MAGIC, packed.get(1..).unwrap_or_default()].concat()
}

fn unpack_frame(packed: &[u8], words: Option<&[u8]>) -> Result<Rest, String> {
    let frame = frame_of(packed);
    let damaged = |why: &str| format!("it cannot be unpacked ({why}): the file is damaged");
    let words = match dictionary_of(packed) {
        Some(_) => words.ok_or_else(|| damaged("its dictionary is missing"))?,
        None => DICTIONARY_2,
    };
    let length = zstd_safe::get_frame_content_size(&frame).map_err(|_| damaged("no frame"))?;
    let length = length.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    if length > RECORD_BYTES_MAX {
        return Err(format!("it claims {length} bytes"));
    }
    let mut record = Vec::with_capacity(length);
    let words = zstd_safe::create_ddict(words);
    zstd_safe::DCtx::default()
        .decompress_using_ddict(&mut record, &frame, &words)
        .map_err(|code| damaged(dictionary::error_name(code)))?;
    rmp_serde::from_slice(&record).map_err(|e| damaged(&e.to_string()))
}

/// Reads back what [`Packer::pack`] wrote, with the dictionary that [`dictionary_of`] asks for.
pub(crate) fn unpack(packed: &[u8], words: Option<&[u8]>) -> Result<Rest, String> {
    if packed.first() == Some(&FORMAT_3) {
        return unpack_frame(packed, words);
    }
    let (Some(&format), Some(length)) = (packed.first(), packed.get(1..5)) else {
        return Err("it is cut short".to_owned());
    };
    let Some(dictionaries) = dictionaries(format) else {
        return Err(format!(
            "its format {format} is not known to this version: it was written by a newer one, or \
             the file is damaged"
        ));
    };
    let length = length.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    if length > RECORD_BYTES_MAX {
        return Err(format!("it claims {length} bytes"));
    }
    let squeezed = packed.get(5..).unwrap_or_default();
    let mut failure = String::new();
    for dictionary in dictionaries {
        match unpack_with(squeezed, length, dictionary) {
            Ok(rest) => return Ok(rest),
            Err(error) => failure = error,
        }
    }
    Err(format!("it cannot be unpacked ({failure}): the file is damaged"))
}

fn unpack_with(squeezed: &[u8], length: usize, dictionary: &[u8]) -> Result<Rest, String> {
    let json = lz4_flex::block::decompress_with_dict(squeezed, length, dictionary)
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
    fn records_of_every_format_are_read() {
        for (format, dictionary) in [(1, DICTIONARY_1), (1, DICTIONARY_2), (2, DICTIONARY_2)] {
            let rest = unpack(&packed_as(format, dictionary), None).unwrap();
            assert_eq!(rest.facts.reverse_name.as_deref(), Some("mail.example.org"));
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let newer = unpack(&packed_as(9, DICTIONARY_2), None).err().unwrap();
        assert!(newer.contains("format 9") && newer.contains("newer"), "{newer}");
        let wrong = unpack(&packed_as(2, DICTIONARY_1), None).err().unwrap();
        assert!(wrong.contains("damaged"), "{wrong}");
        assert!(unpack(&[2, 0], None).is_err());
        assert!(unpack(&[2, 255, 255, 255, 255, 0], None).err().unwrap().contains("claims"));
    }
}
