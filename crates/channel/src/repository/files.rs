//! Files of the publisher: what a folder holds, and their hashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bundle::{FileInfo, Kind, check_names};
use crate::error::Error;
use crate::limits::DEPTH_MAX;

/// Names and paths of all files of a folder.
///
/// # Errors
/// If it has a file that no bundle may have, or that no program would know what to do with, a
/// symbolic link, or what is neither file nor folder.
pub(super) fn collect(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((path, prefix, depth)) = folders.pop() {
        for entry in fs::read_dir(&path).map_err(Error::io(&path))? {
            let entry = entry.map_err(Error::io(&path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = format!("{prefix}{name}");
            // What a link points to may lie anywhere, and all who follow the channel would get it.
            let kind = entry.file_type().map_err(Error::io(&entry.path()))?;
            if !kind.is_dir() && !kind.is_file() {
                let what = match kind.is_symlink() {
                    true => "a symbolic link, which publishing does not follow",
                    false => "no file and no folder",
                };
                let why = format!("{}: {what}; put the file itself there", entry.path().display());
                return Err(Error::Refused(why));
            }
            let is_folder = kind.is_dir();
            if is_folder && depth < DEPTH_MAX {
                folders.push((entry.path(), format!("{name}/"), depth + 1));
            } else {
                found.insert(name, entry.path());
            }
        }
    }
    check_names(found.keys().map(String::as_str))?;
    if let Some(name) = found.keys().find(|name| Kind::of(name).is_none()) {
        let folders = Kind::ALL.map(Kind::folder).join(", ");
        let why = format!(
            "{name}: nothing reads it; a bundle's folders are {folders} (docs/channels.md)"
        );
        return Err(Error::Refused(why));
    }
    Ok(found)
}

/// Whether a file has this length and hash.
pub(super) fn is(file: &FileInfo, (length, sha256): &(u64, String)) -> bool {
    file.length == *length && file.sha256() == sha256
}
