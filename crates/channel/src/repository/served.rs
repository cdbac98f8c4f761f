//! Files that a web server reads, whole under their names or not there.
//!
//! They are open to others. A process that may not open files to others (a node in its sandbox)
//! leaves them as the system made them: for its own user, or as a default ACL of the folder says
//! (`setfacl -d -m o:rX FOLDER`), which counts in place of the process's umask.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use gauntlet_store::files::sync_folder;

use crate::error::Error;

/// Mode of a file that is served.
const MODE: u32 = 0o644;

/// Writes a file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    put(path, &mut |file| file.write_all(bytes))
}

/// Copies a file.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(Error::io(from))?;
    put(to, &mut |file| io::copy(&mut source, file).map(drop))
}

fn put(path: &Path, fill: &mut dyn FnMut(&mut File) -> io::Result<()>) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut write = || -> io::Result<()> {
        // What an earlier process left has its mode.
        let _left_of_a_crash = fs::remove_file(&beside);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(MODE).open(&beside)?;
        fill(&mut file)?;
        open_to_others(&file)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(Error::io(path))?;
    sync_folder(path.parent().unwrap_or(path)).map_err(Error::io(path))
}

fn open_to_others(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & MODE == MODE {
        return Ok(());
    }
    match file.set_permissions(Permissions::from_mode(MODE)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}
