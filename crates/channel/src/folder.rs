//! A channel's folder of static files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::error::Error;

/// Removes files of the channel's folder that are not among these.
pub(crate) fn remove_others(channel: &Path, kept: &BTreeSet<String>) -> Result<(), Error> {
    let mut folders = vec!["targets".to_owned(), "deltas".to_owned()];
    while let Some(folder) = folders.pop() {
        let path = channel.join(&folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(Error::Io { path, cause }),
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(&path))?;
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(name);
            } else if !kept.contains(&name) {
                fs::remove_file(entry.path()).map_err(Error::io(&entry.path()))?;
            }
        }
    }
    Ok(())
}
