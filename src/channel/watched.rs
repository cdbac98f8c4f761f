//! What people say of a version that judges since a while.

use std::ops::Range;
use std::path::Path;

use gauntlet_engine::corrections::Correction;
use gauntlet_learning::{Corrections, corrections};

/// Verdicts that were bad and that people corrected to good in this time.
pub(super) fn corrected_to_good(data: &Path, within_s: Range<i64>) -> anyhow::Result<u64> {
    let counts = |said: &&Correction| !said.spam && said.base > 0.0 && within_s.contains(&said.at);
    Ok(Corrections::read(data)?.values().filter(counts).count() as u64)
}

/// Length of the journal of corrections: another one means that something was said.
pub(super) fn journal_bytes(data: &Path) -> u64 {
    std::fs::metadata(corrections::journal_path(data)).map_or(0, |file| file.len())
}
