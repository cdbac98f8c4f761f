//! SpamAssassin's own answers: one JSON line a message.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

/// First bytes of a zstd stream.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What SpamAssassin says of one message.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// Path relative to the corpus.
    pub(crate) file: String,
    /// Sum of the points.
    pub(crate) score: f64,
    /// Scored hits with the rule's score.
    pub(crate) hits: BTreeMap<String, f64>,
    /// Count of every rule that fired; empty if it was not requested.
    #[serde(default)]
    pub(crate) sub: BTreeMap<String, f64>,
}

/// Reads all answers of a file, plain or compressed with zstd.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Answer>> {
    let name = || path.display().to_string();
    let mut file = std::fs::File::open(path).with_context(name)?;
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic).with_context(name)?;
    let whole = std::io::Cursor::new(magic.clone()).chain(file);
    let reader: Box<dyn Read> = if magic == ZSTD_MAGIC {
        Box::new(ruzstd::decoding::StreamingDecoder::new(whole).with_context(name)?)
    } else {
        Box::new(whole)
    };
    let mut answers = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(reader).lines()) {
        let line = line.with_context(name)?;
        if !line.trim().is_empty() {
            let answer = serde_json::from_str(&line);
            answers.push(answer.with_context(|| format!("{}:{number}", path.display()))?);
        }
    }
    Ok(answers)
}
