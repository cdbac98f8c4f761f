//! The files that a list is made of: single ones, and folders of categories.
//!
//! A folder as squidGuard, ufdbGuard and the lists made for them have it: `CATEGORY/domains`,
//! `CATEGORY/urls`, `CATEGORY/expressions`; categories may be in folders of others. Other files of
//! a folder are read if their names say that they are lists; their names are their categories.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compiled::BuildError;
use crate::formats::Format;
use crate::limits::{FOLDER_DEPTH_MAX, SOURCES_MAX};

/// A file of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Its format; none to find it by name and first lines.
    pub format: Option<Format>,
    /// Category of entries that say none themselves.
    pub category: String,
}

/// Sources, and what of a folder is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Files to read, in the order of their names.
    pub files: Vec<Source>,
    /// Files and folders of folders that are not read.
    pub ignored: Vec<PathBuf>,
}

/// Ends of names of lists.
const LIST_ENDS: [&str; 9] =
    ["txt", "list", "hosts", "csv", "rpz", "zone", "acl", "domains", "urls"];
/// Names in a category's folder that are read.
const CATEGORY_FILES: [&str; 3] = ["domains", "urls", "expressions"];

/// What a path stands for. `format` and `category`, if given, are those of every file.
///
/// # Errors
/// If a folder cannot be read, or too many files are there.
pub fn collect(
    path: &Path,
    format: Option<Format>,
    category: Option<&str>,
) -> Result<Sources, BuildError> {
    let mut found = Sources::default();
    if path.is_dir() {
        walk(path, path, (format, category), &mut found, 0)?;
    } else {
        let category = category.map_or_else(|| stem(path), str::to_owned);
        found.files.push(Source { path: path.to_owned(), format, category });
    }
    Ok(found)
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn walk(
    root: &Path,
    folder: &Path,
    said: (Option<Format>, Option<&str>),
    found: &mut Sources,
    depth: usize,
) -> Result<(), BuildError> {
    let failed = |cause| BuildError::Read { path: folder.to_owned(), cause };
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
        if entries.len() > SOURCES_MAX {
            return Err(BuildError::Sources);
        }
    }
    entries.sort();
    for path in entries {
        // A link of a category to another one would count its entries twice.
        if path.is_symlink() || (path.is_dir() && depth >= FOLDER_DEPTH_MAX) {
            found.ignored.push(path);
        } else if path.is_dir() {
            walk(root, &path, said, found, depth + 1)?;
        } else {
            match source(root, folder, &path, said) {
                Some(source) => found.files.push(source),
                None => found.ignored.push(path),
            }
        }
        if found.files.len() + found.ignored.len() > SOURCES_MAX {
            return Err(BuildError::Sources);
        }
    }
    Ok(())
}

/// The source that a file of a folder is, if it is one.
fn source(
    root: &Path,
    folder: &Path,
    path: &Path,
    (format, category): (Option<Format>, Option<&str>),
) -> Option<Source> {
    let name = path.file_name()?.to_string_lossy();
    let in_category = CATEGORY_FILES.contains(&name.as_ref());
    let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    if !in_category && !end.is_some_and(|end| LIST_ENDS.contains(&end.as_str())) {
        return None;
    }
    let below = folder.strip_prefix(root).ok()?.to_string_lossy().replace('\\', "/");
    let own = match (in_category, below.is_empty()) {
        (true, false) => below,
        (true, true) => root.file_name()?.to_string_lossy().into_owned(),
        (false, _) => stem(path),
    };
    let category = category.map_or(own, str::to_owned);
    Some(Source { path: path.to_owned(), format, category })
}
