//! A copy of a node's data folder, made while the node runs.
//!
//! Databases are copied by SQLite itself (`VACUUM INTO`: one consistent state, readers and writers
//! continue), everything else file by file. Databases come first: a pack of held mail only grows,
//! and none is removed while it is copied ([`Keep`]), so every row in the copy has its records. The
//! spool is left out: messages in flight would be delivered a second time from a copy.
//!
//! [`MANIFEST`] is written last; a folder without it is not a complete backup.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::files;
use crate::packs::Keep;

/// File that marks a backup as complete and describes it.
pub const MANIFEST: &str = "backup.json";
/// Names that belong to the running node only, in any folder.
const EXCLUDED: [&str; 4] = ["lock", "remove.lock", "control.sock", "incoming"];
/// Folders nested deeper than this do not belong to a node.
const DEPTH_MAX: usize = 16;

/// What a backup holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Version of the program that made it.
    pub version: String,
    /// Unix time in milliseconds at which it was begun; everything that was durable then is in it.
    pub begun_ms: i64,
    /// Number of databases copied.
    pub databases: u64,
    /// Number of other files copied.
    pub files: u64,
    /// Bytes of all copied files.
    pub bytes: u64,
}

/// Copies the data folder into `target`, which must be empty or not there yet. `skip` are folders
/// in it that are left out.
///
/// # Errors
/// If something cannot be read or written; then `target` is not a complete backup and may be
/// removed.
pub fn back_up(
    data: &Path,
    target: &Path,
    skip: &[PathBuf],
    begun_ms: i64,
) -> Result<Backup, StoreError> {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        let cause = format!("{} is not empty; name a new folder", target.display());
        return Err(StoreError::Invalid { what: "the backup's folder", cause });
    }
    make_folder(target)?;
    let owner = Owner::of(data)?;
    owner.begin(target)?;
    let packs = data.join("quarantine").join(crate::quarantine::PACKS);
    let _keep = packs.is_dir().then(|| Keep::packs(&packs)).transpose()?;
    let mut found = FoundFiles::default();
    let inside = [target.to_owned()];
    find(data, &[skip, &inside].concat(), 0, &mut found)?;
    let mut backup =
        Backup { version: env!("CARGO_PKG_VERSION").to_owned(), begun_ms, ..Backup::default() };
    let target_of = |path: &Path| target.join(path.strip_prefix(data).unwrap_or(path));
    for folder in &found.folders {
        make_folder(&target_of(folder))?;
    }
    for path in &found.databases {
        backup.bytes += copy_database(path, &target_of(path))?;
        backup.databases += 1;
    }
    for path in &found.files {
        // A file that was removed meanwhile is no longer needed.
        if let Some(bytes) = copy_file(path, &target_of(path))? {
            backup.bytes += bytes;
            backup.files += 1;
        }
    }
    // Everything that the manifest covers is durable before it.
    for folder in found.folders.iter().map(|f| target_of(f)).chain([target.to_owned()]) {
        files::sync_folder(&folder).map_err(StoreError::io(&folder, "sync"))?;
    }
    let manifest = target.join(MANIFEST);
    let text = serde_json::to_string_pretty(&backup).unwrap_or_default();
    files::write_durably(&manifest, text.as_bytes()).map_err(StoreError::io(&manifest, "write"))?;
    owner.give(target)?;
    Ok(backup)
}

/// Whom the copy belongs to: the data folder's owner, if root copies it. Without that, a node could
/// not be started on it.
struct Owner(Option<(u32, u32)>);

impl Owner {
    fn of(data: &Path) -> Result<Self, StoreError> {
        let seen = fs::metadata(data).map_err(StoreError::io(data, "look at"))?;
        let is_roots = seen.uid() == 0 || files::effective_user() != 0;
        Ok(Owner((!is_roots).then(|| (seen.uid(), seen.gid()))))
    }

    /// While root writes, the folder is root's own: in one of the owner's, a link could be put in
    /// the way.
    fn begin(&self, target: &Path) -> Result<(), StoreError> {
        let make = StoreError::io(target, "make root's own");
        self.0.map_or(Ok(()), |_| std::os::unix::fs::lchown(target, Some(0), Some(0)).map_err(make))
    }

    /// Gives away everything below a folder, then the folder itself: nobody else can reach in
    /// meanwhile.
    fn give(&self, folder: &Path) -> Result<(), StoreError> {
        let Some((uid, gid)) = self.0 else { return Ok(()) };
        let entries = fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
        for entry in entries {
            let path = entry.map_err(StoreError::io(folder, "list"))?.path();
            let seen = path.symlink_metadata().map_err(StoreError::io(&path, "look at"))?;
            if seen.is_dir() {
                self.give(&path)?;
            } else {
                let give = StoreError::io(&path, "give to the data folder's owner");
                std::os::unix::fs::lchown(&path, Some(uid), Some(gid)).map_err(give)?;
            }
        }
        let give = StoreError::io(folder, "give to the data folder's owner");
        std::os::unix::fs::lchown(folder, Some(uid), Some(gid)).map_err(give)
    }
}

/// The content of the data folder.
#[derive(Debug, Default)]
struct FoundFiles {
    folders: Vec<PathBuf>,
    databases: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

/// Finds what is to be copied, sorted by name. Links are not followed.
fn find(
    folder: &Path,
    skip: &[PathBuf],
    depth: usize,
    found: &mut FoundFiles,
) -> Result<(), StoreError> {
    let entries = fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let beside_database = name.ends_with(".db-wal") || name.ends_with(".db-shm");
        if EXCLUDED.contains(&name) || beside_database || skip.contains(&path) {
            continue;
        }
        let Ok(kind) = path.symlink_metadata() else { continue };
        if kind.is_dir() && depth < DEPTH_MAX {
            found.folders.push(path.clone());
            find(&path, skip, depth + 1, found)?;
        } else if kind.is_file() && name.ends_with(".db") {
            found.databases.push(path);
        } else if kind.is_file() && name != MANIFEST {
            found.files.push(path);
        }
    }
    Ok(())
}

/// Makes a folder that only its owner may read: a backup has password hashes and private keys.
fn make_folder(path: &Path) -> Result<(), StoreError> {
    files::create_folder(path).map_err(StoreError::io(path, "create"))?;
    // It may have existed: empty, and open to all users.
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(path, private).map_err(StoreError::io(path, "restrict"))
}

fn copy_database(from: &Path, to: &Path) -> Result<u64, StoreError> {
    let db = StoreError::db(from);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    files::prepare_database(from).map_err(StoreError::io(from, "open"))?;
    files::create(to).map_err(StoreError::io(to, "create"))?;
    let connection = Connection::open_with_flags(from, flags).map_err(&db)?;
    connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(&db)?;
    let target_of = to.to_str().ok_or_else(|| StoreError::Invalid {
        what: "the backup's folder",
        cause: format!("{} is no UTF-8, which SQLite needs", to.display()),
    })?;
    connection.execute("VACUUM INTO ?1", [target_of]).map_err(&db)?;
    synced(to)
}

fn copy_file(from: &Path, to: &Path) -> Result<Option<u64>, StoreError> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(from, "read")(error)),
    };
    // Private from its first byte on, whatever the mode of the original.
    let mut copy = files::create(to).map_err(StoreError::io(to, "create"))?;
    std::io::copy(&mut source, &mut copy).map_err(StoreError::io(from, "copy"))?;
    synced(to).map(Some)
}

/// Makes the file durable and returns its size.
fn synced(path: &Path) -> Result<u64, StoreError> {
    let file = File::open(path).map_err(StoreError::io(path, "open"))?;
    file.sync_all().map_err(StoreError::io(path, "sync"))?;
    Ok(file.metadata().map_err(StoreError::io(path, "look at"))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_holds_what_the_original_held_and_nothing_in_flight() {
        let folder = tempfile::tempdir().unwrap();
        let (data, target) = (folder.path().join("data"), folder.path().join("data/backup"));
        for below in ["spool", "quarantine/bodies/incoming", "dkim"] {
            fs::create_dir_all(data.join(below)).unwrap();
        }
        fs::write(data.join("spool/1.seg"), "in flight").unwrap();
        fs::write(data.join("lock"), "").unwrap();
        fs::write(data.join("dkim/key.pem"), "key").unwrap();
        fs::write(data.join("quarantine/bodies/incoming/x"), "half").unwrap();
        let live =
            crate::database::open_write(&data.join("a.db"), &["CREATE TABLE t (x);"]).unwrap();
        live.execute("INSERT INTO t VALUES (7)", []).unwrap();
        let made = back_up(&data, &target, &[data.join("spool")], 5).unwrap();
        assert_eq!((made.databases, made.files, made.begun_ms), (1, 1, 5));
        assert!(!target.join("spool").exists() && !target.join("lock").exists());
        assert!(!target.join("quarantine/bodies/incoming").exists());
        assert_eq!(fs::read(target.join("dkim/key.pem")).unwrap(), b"key");
        let copy =
            crate::database::open_read(&target.join("a.db"), &["CREATE TABLE t (x);"]).unwrap();
        assert_eq!(copy.query_row("SELECT x FROM t", [], |r| r.get::<_, i64>(0)).unwrap(), 7);
        let read: Backup =
            serde_json::from_slice(&fs::read(target.join(MANIFEST)).unwrap()).unwrap();
        assert_eq!(read, made);
        let again = back_up(&data, &target, &[], 6).unwrap_err();
        assert!(again.to_string().contains("not empty"), "{again}");
    }
}
