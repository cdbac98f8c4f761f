//! Formats of a node's data folder: which this program reads, and the refusal of newer ones before
//! anything is opened.

use gauntlet_store::StoreError;
use gauntlet_store::backup::restore;
use gauntlet_store::formats::{self, Format, Places};

use crate::config::Config;

/// The formats of all crates that keep files in a data folder.
pub const ALL: &[&[Format]] = &[formats::FORMATS, gauntlet_learning::formats::FORMATS];

/// Refuses a data folder that a newer version of the program wrote, or into which a restore was
/// not finished.
///
/// # Errors
/// The file, both versions, and what to do.
pub fn check(config: &Config) -> Result<(), StoreError> {
    let (data, spool) = (&config.node.data, config.node.inside(&config.spool.path));
    restore::refuse_unfinished(data)?;
    formats::refuse_newer(Places { data, spool: &spool }, ALL)
}
