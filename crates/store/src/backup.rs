//! A copy of a node's data folder, made while the node runs, and the way back.
//!
//! Databases are copied by SQLite itself (`VACUUM INTO`: one consistent state, readers and writers
//! continue), everything else file by file. Databases come first, and files are looked for when
//! they are copied: a pack of held mail only grows, one that is begun meanwhile is found, and none
//! is removed while it is copied ([`Keep`]), so every row in the copy has its records. The spool is
//! left out: messages in flight would be delivered a second time from a copy.
//!
//! [`MANIFEST`] is written last; a folder without it is not a complete backup. It has the hash of
//! every file, by which [`verify()`] and [`restore`] know that a copy is whole.

mod error;
mod last;
mod manifest;
mod owner;
mod reading;
pub mod restore;
mod verify;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

pub use self::error::{BackupError, Fault};
pub use self::last::{LastBackup, last, note_last};
pub use self::manifest::{Backup, Entry, FORMAT, MANIFEST};
pub use self::owner::Owner;
pub use self::verify::{Verified, verify};
use crate::error::StoreError;
use crate::files;
use crate::packs::Keep;

/// Names that belong to the running node only, in any folder: locks, its socket, what it has in
/// hand at this moment, and what is known of backups and restores here.
const EXCLUDED: [&str; 7] =
    ["lock", "remove.lock", "control.sock", "incoming", "in-hand", last::FILE, restore::MARKER];
/// Folders nested deeper than this do not belong to a node.
const DEPTH_MAX: usize = 16;

/// What takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Databases and files are copied.
    Copy,
    /// Files are compared with their hashes.
    Verify,
}

/// Hears of progress: the step, bytes done, and bytes in all.
pub type Tell<'a> = dyn FnMut(Step, u64, u64) + 'a;

/// Refuses a place whose backup the next one would carry along.
fn check_place(data: &Path, target: &Path) -> Result<(), StoreError> {
    let there = target.ancestors().filter_map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => folder.canonicalize().ok(),
    });
    let Some(place) = there.into_iter().next() else { return Ok(()) };
    let what = "the backup's folder";
    let target = target.display();
    if data.canonicalize().is_ok_and(|data| place.starts_with(data)) {
        let cause = format!("{target} is inside the data folder; name a folder elsewhere");
        return Err(StoreError::Invalid { what, cause });
    }
    if let Some(other) = place.ancestors().find(|folder| folder.join(MANIFEST).is_file()) {
        let other = other.display();
        let cause = format!("{target} is inside the backup {other}; name a folder elsewhere");
        return Err(StoreError::Invalid { what, cause });
    }
    Ok(())
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
    tell: &mut Tell<'_>,
) -> Result<Backup, StoreError> {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        let cause = format!("{} is not empty; name a new folder", target.display());
        return Err(StoreError::Invalid { what: "the backup's folder", cause });
    }
    check_place(data, target)?;
    make_folder(target)?;
    let owner = Owner::of(data)?;
    owner.begin(target)?;
    let packs = data.join("quarantine").join(crate::quarantine::PACKS);
    let _keep = packs.is_dir().then(|| Keep::packs(&packs)).transpose()?;
    let mut found = FoundFiles::default();
    find(data, skip, 0, &mut found)?;
    let mut copy = Making { data, target, backup: Backup::begun(begun_ms), total: 0, tell };
    let all = found.databases.iter().chain(&found.files);
    copy.total = all.map(|path| path.symlink_metadata().map_or(0, |seen| seen.len())).sum();
    for folder in &found.folders {
        copy.folder(folder)?;
    }
    for path in &found.databases {
        copy.backup.databases += u64::from(copy.database(path)?);
    }
    let mut now = FoundFiles::default();
    find(data, skip, 0, &mut now)?;
    for folder in now.folders.iter().filter(|folder| !found.folders.contains(folder)) {
        copy.folder(folder)?;
    }
    for path in &now.files {
        copy.backup.files += u64::from(copy.file(path)?);
    }
    // Everything that the manifest covers is durable before it.
    let backup = copy.backup.sealed();
    let folders = backup.folders.iter().map(|name| target.join(name));
    for folder in folders.chain([target.to_owned()]) {
        files::sync_folder(&folder).map_err(StoreError::io(&folder, "sync"))?;
    }
    let manifest = target.join(MANIFEST);
    let text = serde_json::to_string_pretty(&backup).unwrap_or_default();
    files::write_durably(&manifest, text.as_bytes()).map_err(StoreError::io(&manifest, "write"))?;
    owner.give(target)?;
    Ok(backup)
}

/// A backup that is being made.
struct Making<'a, 'b> {
    data: &'a Path,
    target: &'a Path,
    backup: Backup,
    /// Bytes of what is to be copied; databases may come out smaller.
    total: u64,
    tell: &'a mut Tell<'b>,
}

impl Making<'_, '_> {
    /// The path of something in the data folder, relative to it, as the description has it.
    fn name_of(&self, path: &Path) -> Result<String, StoreError> {
        let below = path.strip_prefix(self.data).unwrap_or(path);
        below.to_str().map(str::to_owned).ok_or_else(|| StoreError::Invalid {
            what: "a name in the data folder",
            cause: format!("{} is no UTF-8; rename it or move it away", path.display()),
        })
    }

    fn folder(&mut self, path: &Path) -> Result<(), StoreError> {
        let name = self.name_of(path)?;
        make_folder(&self.target.join(&name))?;
        self.backup.folders.push(name);
        Ok(())
    }

    /// Copies a database; false if it was removed meanwhile, as days of the log are.
    fn database(&mut self, path: &Path) -> Result<bool, StoreError> {
        let name = self.name_of(path)?;
        let to = self.target.join(&name);
        if !path.exists() {
            return Ok(false);
        }
        copy_database(path, &to)?;
        let mut copy = File::open(&to).map_err(StoreError::io(&to, "open"))?;
        let hashed = manifest::hashed(&mut copy, &mut |_| {}, |_| Ok(()));
        let hashed = hashed.map_err(StoreError::io(&to, "read"))?;
        copy.sync_all().map_err(StoreError::io(&to, "sync"))?;
        self.add(name, hashed);
        Ok(true)
    }

    /// Copies a file; false if it was removed meanwhile: then it is no longer needed.
    fn file(&mut self, path: &Path) -> Result<bool, StoreError> {
        use std::io::Write;
        let mut source = match File::open(path) {
            Ok(source) => source,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StoreError::io(path, "read")(error)),
        };
        let name = self.name_of(path)?;
        let to = self.target.join(&name);
        // Private from its first byte on, whatever the mode of the original.
        let mut copy = files::create(&to).map_err(StoreError::io(&to, "create"))?;
        let write = |piece: &[u8]| copy.write_all(piece);
        let hashed = manifest::hashed(&mut source, &mut |_| {}, write);
        let hashed = hashed.map_err(StoreError::io(path, "copy"))?;
        copy.sync_all().map_err(StoreError::io(&to, "sync"))?;
        self.add(name, hashed);
        Ok(true)
    }

    fn add(&mut self, path: String, (bytes, sha256): (u64, String)) {
        self.backup.bytes += bytes;
        self.backup.entries.push(Entry { path, bytes, sha256 });
        (self.tell)(Step::Copy, self.backup.bytes, self.total.max(self.backup.bytes));
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
        // Mail that is being received: its senders have no answer yet.
        let is_in_hand = folder.ends_with("receiving");
        let Ok(kind) = path.symlink_metadata() else { continue };
        if kind.is_dir() && depth < DEPTH_MAX {
            found.folders.push(path.clone());
            find(&path, skip, depth + 1, found)?;
        } else if kind.is_file() && name.ends_with(".db") {
            found.databases.push(path);
        } else if kind.is_file() && name != MANIFEST && !is_in_hand {
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

fn copy_database(from: &Path, to: &Path) -> Result<(), StoreError> {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_holds_what_the_original_held_and_nothing_in_flight() {
        let folder = tempfile::tempdir().unwrap();
        let (data, target) = (folder.path().join("data"), folder.path().join("backup"));
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
        let made = back_up(&data, &target, &[data.join("spool")], 5, &mut |_, _, _| {}).unwrap();
        assert_eq!((made.databases, made.files, made.begun_ms), (1, 1, 5));
        assert!(!target.join("spool").exists() && !target.join("lock").exists());
        assert!(!target.join("quarantine/bodies/incoming").exists());
        assert_eq!(fs::read(target.join("dkim/key.pem")).unwrap(), b"key");
        let copy =
            crate::database::open_read(&target.join("a.db"), &["CREATE TABLE t (x);"]).unwrap();
        assert_eq!(copy.query_row("SELECT x FROM t", [], |r| r.get::<_, i64>(0)).unwrap(), 7);
        assert_eq!(Backup::read(&target).unwrap(), made);
        let again = back_up(&data, &target, &[], 6, &mut |_, _, _| {}).unwrap_err();
        assert!(again.to_string().contains("not empty"), "{again}");
    }

    #[test]
    fn a_pack_that_is_begun_while_databases_are_copied_is_in_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (data, target) = (folder.path().join("data"), folder.path().join("backup"));
        let packs = data.join("quarantine/packs");
        fs::create_dir_all(data.join("quarantine")).unwrap();
        for name in ["a.db", "z.db"] {
            crate::database::open_write(&data.join(name), &["CREATE TABLE t (x);"]).unwrap();
        }
        let mut begin_pack = |_, _, _| {
            fs::create_dir_all(&packs).unwrap();
            fs::write(packs.join("1.pack"), "held").unwrap();
        };
        let made = back_up(&data, &target, &[], 5, &mut begin_pack).unwrap();
        assert_eq!((made.databases, made.files), (2, 1));
        assert_eq!(fs::read(target.join("quarantine/packs/1.pack")).unwrap(), b"held");
    }
}
