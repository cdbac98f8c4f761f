//! Files of users, line by line.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{} has more than {FILE_BYTES_MAX} bytes", .0.display())]
    Large(PathBuf),
    /// A line.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

pub(super) fn wrong(path: &Path, line: usize, why: String) -> FileError {
    FileError::Line { path: path.to_owned(), line, why }
}

/// Reads it whole.
pub(super) fn read(path: &Path) -> Result<String, FileError> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    if file.metadata().is_ok_and(|m| m.permissions().mode() & 0o004 != 0) {
        let file = path.display();
        tracing::warn!(%file, "everybody on this machine may read hashes of passwords: chmod 640");
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(FileError::Large(path.to_owned())),
        false => Ok(text),
    }
}

/// Lines with their numbers, without empty ones and comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
