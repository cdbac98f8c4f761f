//! Opening the files of a backup by names from its description, never through a link: root may
//! restore what another user could have changed.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Names of the parts of a path that leads down and nowhere else.
pub(super) fn parts(path: &str) -> Option<Vec<&std::ffi::OsStr>> {
    let parts: Option<Vec<_>> = Path::new(path)
        .components()
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    parts.filter(|parts| !parts.is_empty() && !path.contains('\0'))
}

/// Opens a file below a folder to read it. No part of the path below the folder may be a link.
///
/// # Errors
/// The system's; if the path leads elsewhere, or the file is none.
pub(super) fn open_below(folder: &Path, path: &str) -> io::Result<File> {
    let parts = parts(path).ok_or_else(|| io::Error::other("the path leads elsewhere"))?;
    let mut at = File::open(folder)?;
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let of_folders = if is_last { libc::O_NONBLOCK } else { libc::O_DIRECTORY };
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC | of_folders;
        let name = CString::new(part.as_bytes())?;
        // SAFETY: `name` ends in NUL and lives through the call; the descriptor is open.
        let opened = unsafe { libc::openat(at.as_raw_fd(), name.as_ptr(), flags) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just opened it, and nobody else knows it.
        at = unsafe { File::from_raw_fd(opened) };
    }
    match at.metadata()?.is_file() {
        true => Ok(at),
        false => Err(io::Error::other("no plain file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_down_and_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), "x").unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("l")).unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a/l")).unwrap();
        assert!(open_below(folder.path(), "a/b").is_ok());
        for path in ["", "a", "a/../a/b", "/etc/passwd", "l/b", "a/l", "a/none", "..", "a/b\0"] {
            assert!(open_below(folder.path(), path).is_err(), "{path:?}");
        }
    }
}
