//! Documents whose passages are looked for: the files of a folder, their text read as that of
//! attachments.

use std::io::Read;
use std::path::{Path, PathBuf};

use gauntlet_dlp::DocumentsBuilder;
use gauntlet_dlp::documents::FINGERPRINTS_MAX;

use crate::config::FingerprintSettings;
use crate::scan::unpacking::Unpacking;

/// Folders inside each other.
const DEPTH_MAX: usize = 16;

/// Why documents cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A file or folder that cannot be read.
    #[error("{path}: {why}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// More files than are read.
    #[error(
        "{folder}: more than {max} files; raise dlp.fingerprints.files_max, or name another folder"
    )]
    TooMany {
        /// Folder in the settings.
        folder: PathBuf,
        /// The limit that was passed, `dlp.fingerprints.files_max`.
        max: usize,
    },
    /// A document that is too large.
    #[error("{path}: over {max} bytes; raise dlp.fingerprints.file_bytes_max, or take it away")]
    TooLarge {
        /// Path of the document.
        path: PathBuf,
        /// The limit that was passed, `dlp.fingerprints.file_bytes_max`.
        max: u64,
    },
    /// More text than is kept.
    #[error("{path}: with it there are over {FINGERPRINTS_MAX} fingerprints; take documents away")]
    Full {
        /// Path of the document with which they are too many.
        path: PathBuf,
    },
}

/// A document and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Path below the folder.
    pub name: String,
    /// Its text; empty if it has none that can be read.
    pub text: String,
}

/// Reads the folders of the settings. Documents without text are logged: nothing of them is found.
///
/// # Errors
/// [`DocumentError`] names the file.
pub fn documents(
    settings: &FingerprintSettings,
    unpacking: Option<&Unpacking>,
) -> Result<DocumentsBuilder, DocumentError> {
    let mut builder = DocumentsBuilder::default();
    let mut ignore = |document: Document, _: &Path| {
        builder.ignore(&document.text);
        Ok(())
    };
    each(&settings.ignore_folder, settings, unpacking, &mut ignore)?;
    let mut add = |document: Document, path: &Path| {
        if document.text.trim().is_empty() {
            let hint = "its text cannot be read, so nothing copied out of it is found";
            tracing::warn!(file = %path.display(), hint, "a document without text");
        }
        match builder.add(&document.name, &document.text) {
            true => Ok(()),
            false => Err(DocumentError::Full { path: path.to_owned() }),
        }
    };
    each(&settings.folder, settings, unpacking, &mut add)?;
    Ok(builder)
}

type OnDocument<'f> = dyn FnMut(Document, &Path) -> Result<(), DocumentError> + 'f;

/// Every file of a folder, in the order of their names.
fn each(
    folder: &Path,
    settings: &FingerprintSettings,
    unpacking: Option<&Unpacking>,
    take: &mut OnDocument<'_>,
) -> Result<(), DocumentError> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    for path in files(folder, settings.files_max)? {
        let bytes = read(&path, settings.file_bytes_max)?;
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        let text = match unpacking {
            Some(unpacking) => unpacking.text(&name, &bytes),
            None => String::from_utf8(bytes).unwrap_or_default(),
        };
        take(Document { name, text }, &path)?;
    }
    Ok(())
}

fn files(folder: &Path, max: usize) -> Result<Vec<PathBuf>, DocumentError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |why| DocumentError::Read { path, why }
    };
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((inner, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&inner).map_err(failed(&inner))? {
            let entry = entry.map_err(failed(&inner))?;
            // Hidden files are those of editors and version control. Links may lead in circles.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let kind = entry.file_type().map_err(failed(&entry.path()))?;
            if kind.is_dir() && depth < DEPTH_MAX {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() {
                found.push(entry.path());
            }
            if found.len() > max {
                return Err(DocumentError::TooMany { folder: folder.to_owned(), max });
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>, DocumentError> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(max.saturating_add(1)).read_to_end(&mut bytes));
    read.map_err(|why| DocumentError::Read { path: path.to_owned(), why })?;
    match bytes.len() as u64 > max {
        true => Err(DocumentError::TooLarge { path: path.to_owned(), max }),
        false => Ok(bytes),
    }
}
