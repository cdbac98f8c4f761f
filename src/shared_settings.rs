//! Settings of the array on its nodes: kept on disk, so that a start needs no database.

use std::path::{Path, PathBuf};

use anyhow::Context;
use gauntlet_gateway::config::{Config, Loaded, SharedSettings};
use gauntlet_store::files;

use crate::array_access as access;

fn file(config: &Config) -> PathBuf {
    access::folder(config).join("shared-settings.json")
}

/// The edition that the node keeps, if it is in an array and has one.
pub(crate) fn kept(config: &Config) -> Option<SharedSettings> {
    if !config.array.is_on() {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file(config)).ok()?).ok()
}

/// The configuration with the settings of the array that the node keeps. If those make no sense
/// here, it goes without them.
pub(crate) fn over(
    own: Loaded,
    load: impl FnOnce(&SharedSettings) -> anyhow::Result<Loaded>,
) -> Loaded {
    let Some(shared) = kept(&own.config) else { return own };
    load(&shared).unwrap_or_else(|error| {
        eprintln!("warning: the array's settings are left out: {error:#}");
        own
    })
}

/// Reads a configuration, with the settings of the array that its node keeps.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn load<I>(path: Option<&Path>, environment: impl Fn() -> I) -> anyhow::Result<Loaded>
where
    I: Iterator<Item = (String, String)>,
{
    let own = Loaded::load(path, environment())?;
    Ok(over(own, |shared| Ok(Loaded::load_over(path, environment(), shared)?)))
}

/// Keeps an edition, or none.
///
/// # Errors
/// If the file cannot be written or removed.
pub(crate) fn keep(config: &Config, shared: Option<&SharedSettings>) -> anyhow::Result<()> {
    let path = file(config);
    let done = match shared {
        Some(shared) => files::write_durably(&path, &serde_json::to_vec(shared)?),
        None => match std::fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done,
        },
    };
    done.with_context(|| path.display().to_string())
}
