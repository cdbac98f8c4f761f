//! The part of a record that is only read, never searched: JSON, compressed against a dictionary.
//!
//! JSON so that old records stay readable when types grow; LZ4 because it costs a few microseconds;
//! a dictionary because a record of 2 KB repeats almost nothing of itself but its keys.

use gauntlet_engine::Verdict;
use gauntlet_mail::{Envelope, Facts};
use serde::{Deserialize, Serialize};

use crate::record::{LogRecord, Stage};

/// Largest record that is unpacked, in bytes of JSON: a damaged length must not eat memory.
const JSON_BYTES_MAX: usize = 16 << 20;

/// What typical records repeat; nothing but a help to the compression. Dictionaries are part of the
/// file format: none may change, a new one comes with a new leading byte. A test holds their digests.
const DICTIONARY_1: &[u8] = include_bytes!("pack-dictionary-1.txt");
const DICTIONARY_2: &[u8] = include_bytes!("pack-dictionary-2.txt");

/// Leading byte of records packed against the first dictionary, or, for the hours in which that
/// changed without a byte of its own, against the second.
const FORMAT_1: u8 = 1;
/// Leading byte of records packed against the second dictionary: what is written today.
const FORMAT_2: u8 = 2;

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
}

/// What [`pack`] keeps of a record.
#[derive(Deserialize)]
pub(crate) struct Rest {
    pub(crate) envelope: Envelope,
    pub(crate) facts: Facts,
    pub(crate) verdict: Verdict,
    #[serde(default)]
    pub(crate) stages: Vec<Stage>,
}

/// Buffers of [`pack`], reused.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    json: Vec<u8>,
    packed: Vec<u8>,
}

impl Packer {
    /// Envelope, facts, verdict and stages of the record.
    pub(crate) fn pack(&mut self, record: &LogRecord) -> Result<&[u8], serde_json::Error> {
        let LogRecord { envelope, facts, verdict, stages, .. } = record;
        self.json.clear();
        serde_json::to_writer(&mut self.json, &RestRef { envelope, facts, verdict, stages })?;
        self.packed.clear();
        self.packed.push(FORMAT_2);
        self.packed.extend_from_slice(&(self.json.len() as u32).to_le_bytes());
        let squeezed = lz4_flex::block::compress_with_dict(&self.json, DICTIONARY_2);
        self.packed.extend_from_slice(&squeezed);
        Ok(&self.packed)
    }
}

/// Reads back what [`Packer::pack`] wrote.
pub(crate) fn unpack(packed: &[u8]) -> Result<Rest, String> {
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
    if length > JSON_BYTES_MAX {
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
        let rest =
            RestRef { envelope: &envelope, facts: &facts, verdict: &verdict, stages: &stages };
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
            let rest = unpack(&packed_as(format, dictionary)).unwrap();
            assert_eq!(rest.facts.reverse_name.as_deref(), Some("mail.example.org"));
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let newer = unpack(&packed_as(9, DICTIONARY_2)).err().unwrap();
        assert!(newer.contains("format 9") && newer.contains("newer"), "{newer}");
        let wrong = unpack(&packed_as(2, DICTIONARY_1)).err().unwrap();
        assert!(wrong.contains("damaged"), "{wrong}");
        assert!(unpack(&[2, 0]).is_err());
        assert!(unpack(&[2, 255, 255, 255, 255, 0]).err().unwrap().contains("claims"));
    }
}
