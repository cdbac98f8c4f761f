//! Files of values that rules and settings name: datasets, reputations of values and addresses.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::detect::{Datasets, Reputations, address_bytes};
use crate::inspect::base64::{Base64Mode, decode};
use crate::rule::matches::{DatasetDeclaration, DatasetFormat, DatasetType};

/// Largest file of values, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What was wrong with a file of values.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It could not be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// A line, counted from 1, is no value of the kind.
    #[error("{0}:{1}: {2:?} is no value of this kind")]
    Value(PathBuf, usize, String),
    /// It is no JSON, or has not the array that was named.
    #[error("{0}: {1}")]
    Json(PathBuf, String),
}

fn read(path: &Path) -> Result<String, ListError> {
    let bad = |error| ListError::Read(path.to_owned(), error);
    if fs::metadata(path).map_err(bad)?.len() > FILE_BYTES_MAX {
        let limit = format!("longer than {FILE_BYTES_MAX} bytes");
        return Err(bad(std::io::Error::new(std::io::ErrorKind::FileTooLarge, limit)));
    }
    fs::read_to_string(path).map_err(bad)
}

/// Reads the files of all sets.
///
/// # Errors
///
/// The first file that cannot be read.
pub fn load(sets: &[Arc<DatasetDeclaration>], into: &mut Datasets) -> Result<(), ListError> {
    for set in sets {
        let Some(path) = set.load.as_deref() else { continue };
        // What a rule also writes may not be there yet.
        if set.save.is_some() && !path.exists() {
            continue;
        }
        let kind = set.kind.unwrap_or(DatasetType::Text);
        match set.format {
            DatasetFormat::Csv => lines(set, path, kind, into)?,
            DatasetFormat::Json | DatasetFormat::NdJson => {
                into.load(&set.name, json(set, path, kind)?);
            }
        }
    }
    Ok(())
}

/// A value a line, with a reputation behind a comma where it is one of those files.
fn lines(
    set: &DatasetDeclaration,
    path: &Path,
    kind: DatasetType,
    into: &mut Datasets,
) -> Result<(), ListError> {
    let (mut values, mut reputations) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(read(path)?.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || ListError::Value(path.to_owned(), number, line.to_owned());
        let (text, reputation) = line.split_once(',').unwrap_or((line, ""));
        let value = match kind {
            DatasetType::Text => base64(text),
            kind => written(text.trim(), kind).ok_or_else(bad)?,
        };
        match reputation.trim() {
            "" => values.push(value),
            number => reputations.push((value, number.parse().map_err(|_| bad())?)),
        }
    }
    into.load_reputations(&set.name, reputations);
    into.load(&set.name, values);
    Ok(())
}

fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    decode(text.as_bytes(), Base64Mode::Rfc4648, &mut out);
    out
}

/// A value as people write it.
fn written(text: &str, kind: DatasetType) -> Option<Vec<u8>> {
    match kind {
        DatasetType::Text => Some(text.as_bytes().to_vec()),
        DatasetType::Md5 => hex(text, 16),
        DatasetType::Sha256 => hex(text, 32),
        DatasetType::Ipv4 | DatasetType::Ip => {
            let address: IpAddr = text.parse().ok()?;
            Some(address_bytes(address, kind))
        }
    }
}

fn hex(text: &str, len: usize) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * len)?;
    let byte = |pair: &[u32]| pair.iter().fold(0, |n, digit| n << 4 | *digit as u8);
    Some(digits.chunks(2).map(byte).collect())
}

/// Objects of a JSON document or of its lines: of each the value at a key.
fn json(
    set: &DatasetDeclaration,
    path: &Path,
    kind: DatasetType,
) -> Result<Vec<Vec<u8>>, ListError> {
    let text = read(path)?;
    let bad = |what: String| ListError::Json(path.to_owned(), what);
    let parse = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| bad(e.to_string()));
    let items = if set.format == DatasetFormat::NdJson {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(parse).collect::<Result<Vec<_>, _>>()?
    } else {
        let whole = parse(&text)?;
        let found = set.array_key.as_deref().map_or(Some(&whole), |key| at(&whole, key));
        let array = found.and_then(Value::as_array);
        array.ok_or_else(|| bad("the list of values is not there".into()))?.clone()
    };
    let key = set.value_key.as_deref().unwrap_or_default();
    let values = items.iter().filter_map(|item| at(item, key)?.as_str());
    Ok(values.filter_map(|text| written(text, kind)).collect())
}

/// What is at a key with dots.
fn at<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(value, |value, part| value.get(part))
}

/// Reads categories (`NUMBER,NAME,TEXT`) and lists of addresses (`ADDRESS,NUMBER,SCORE`).
///
/// # Errors
///
/// The first file that cannot be read.
pub fn reputations(categories: &Path, lists: &[PathBuf]) -> Result<Reputations, ListError> {
    let mut made = Reputations::default();
    for line in read(categories)?.lines() {
        let mut parts = line.split(',').map(str::trim);
        if let (Some(number), Some(name)) = (parts.next(), parts.next())
            && let Ok(number) = number.parse()
        {
            made.category(name, number);
        }
    }
    for list in lists {
        for line in read(list)?.lines() {
            let parts: Vec<&str> = line.split(',').map(str::trim).collect();
            let [address, category, score] = parts.as_slice() else { continue };
            if let (Ok(category), Ok(score)) = (category.parse(), score.parse()) {
                made.address(address, category, score);
            }
        }
    }
    Ok(made)
}
