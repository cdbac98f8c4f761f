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

/// What typical records repeat; nothing but a help to the compression. It is part of the file
/// format: a new one needs a new leading byte.
const DICTIONARY_1: &[u8] = include_bytes!("pack-dictionary-1.txt");
const FORMAT_1: u8 = 1;

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
        self.packed.push(FORMAT_1);
        self.packed.extend_from_slice(&(self.json.len() as u32).to_le_bytes());
        let squeezed = lz4_flex::block::compress_with_dict(&self.json, DICTIONARY_1);
        self.packed.extend_from_slice(&squeezed);
        Ok(&self.packed)
    }
}

/// Reads back what [`Packer::pack`] wrote.
pub(crate) fn unpack(packed: &[u8]) -> Result<Rest, String> {
    let (Some(&format), Some(length)) = (packed.first(), packed.get(1..5)) else {
        return Err("it is cut short".to_owned());
    };
    if format != FORMAT_1 {
        return Err(format!("format {format} is unknown"));
    }
    let length = length.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    if length > JSON_BYTES_MAX {
        return Err(format!("it claims {length} bytes"));
    }
    let squeezed = packed.get(5..).unwrap_or_default();
    let json = lz4_flex::block::decompress_with_dict(squeezed, length, DICTIONARY_1)
        .map_err(|e| e.to_string())?;
    serde_json::from_slice(&json).map_err(|e| e.to_string())
}
