//! Which deltas a file gets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gauntlet_store::files::{open_regular, read_regular};

use super::served;
use crate::bundle::{DeltaInfo, FileInfo};
use crate::delta;
use crate::error::Error;
use crate::hex;
use crate::limits::{DELTA_FILE_BYTES_MAX, DELTAS_PER_FILE_MAX};
use crate::metadata::Targets;

/// The file packed, and its differences to the same file of earlier versions; what saves nothing is
/// left out. Larger files than [`DELTA_FILE_BYTES_MAX`] are sent as they are.
pub(super) fn make_all(
    channel: &Path,
    name: &str,
    path: &Path,
    file: &FileInfo,
    earlier: &[Targets],
) -> Result<Vec<DeltaInfo>, Error> {
    if file.length > DELTA_FILE_BYTES_MAX {
        return Ok(Vec::new());
    }
    let content = fs::read(path).map_err(Error::io(path))?;
    let mut made = Vec::new();
    let mut least = file.length;
    let mut add = |from: Option<String>, old: &[u8]| -> Result<(), Error> {
        let bytes = delta::make(old, &content).map_err(Error::io(path))?;
        if (bytes.len() as u64) < least {
            let (length, sha256) = (bytes.len() as u64, hex::sha256(&bytes));
            let delta = DeltaInfo { from, length, sha256 };
            let path = channel.join(delta.path());
            served::write(&path, &bytes)?;
            if delta.from.is_none() {
                least = length;
            }
            made.push(delta);
        }
        Ok(())
    };
    add(None, &[])?;
    let mut seen = BTreeSet::new();
    let olds = earlier.iter().filter_map(|targets| targets.targets.get(name));
    let olds = olds.filter(|old| old.length <= DELTA_FILE_BYTES_MAX && old.length > 0);
    for old in olds.take(DELTAS_PER_FILE_MAX - 1) {
        let before = old.sha256();
        if before == file.sha256() || !seen.insert(before) {
            continue;
        }
        let old_path = channel.join(old.path(name));
        // Its version may be older than what is kept.
        if let Ok(bytes) = fs::read(&old_path) {
            add(Some(before.to_owned()), &bytes)?;
        }
    }
    Ok(made)
}

/// Bytes that a node fetches that has this file already, or none.
pub(super) fn cheapest(file: &FileInfo, before: Option<&str>) -> u64 {
    let has = |delta: &&DeltaInfo| delta.from.is_none() || delta.from.as_deref() == before;
    let deltas = file.custom.deltas.iter().filter(has).map(|delta| delta.length);
    deltas.chain([file.length]).min().unwrap_or_default()
}

/// Checks that each delta whose beginning is still there makes the file.
pub(super) fn verify(
    channel: &Path,
    name: &str,
    file: &FileInfo,
    earlier: &[Targets],
) -> Result<(), Error> {
    for info in &file.custom.deltas {
        let path = channel.join(info.path());
        let what = path.display().to_string();
        let bytes = read_regular(&path).map_err(Error::io(&path))?;
        if bytes.len() as u64 != info.length || hex::sha256(&bytes) != info.sha256 {
            return Err(Error::not_as_signed(&what, "damaged"));
        }
        let from = match &info.from {
            None => Vec::new(),
            Some(hash) => {
                let named = earlier.iter().filter_map(|targets| targets.targets.get(name));
                let Some(old) = named.into_iter().find(|old| old.sha256() == hash) else {
                    continue;
                };
                let old = channel.join(old.path(name));
                if !old.exists() {
                    continue;
                }
                read_regular(&old).map_err(Error::io(&old))?
            }
        };
        let mut delta = open_regular(&path).map_err(Error::io(&path))?;
        let made = delta::apply(&from, &mut delta, &mut std::io::sink(), file.length)?;
        if made.sha256 != file.sha256() {
            return Err(Error::not_as_signed(&what, format!("it does not make {name}")));
        }
    }
    Ok(())
}
