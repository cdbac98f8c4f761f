//! Files and folders of a node: private, and complete after a power failure.
//!
//! Everything below the data folder holds mail, password hashes or keys, so other users of the
//! machine must not read any of it. SQLite gives `-wal` and `-shm` the mode of the database,
//! whatever the umask is ([source](https://sqlite.org/src/file/src/os_unix.c),
//! `findCreateFileMode`); so a database is made private before SQLite opens it.
//!
//! A file that is replaced is written under another name, synced, renamed, and its folder synced: a
//! power failure leaves the old file or the new one, never an empty one.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::random;

/// Mode of private files.
const FILE_MODE: u32 = 0o600;
/// Mode of private folders.
const FOLDER_MODE: u32 = 0o700;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Folders nested deeper than this do not belong to a node.
const DEPTH_MAX: usize = 32;
/// The content of a folder at this depth below the data folder is not checked if the folder is
/// private: mail bodies lie below such folders, a million of them, and checking each would make
/// every start slow.
const TRUSTED_FROM_DEPTH: usize = 2;
/// How long [`try_lock`] waits for a lock.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// How often a lock that is waited for is asked for.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Removes group and others from the mode of every file that this process creates from now on.
///
/// Call it before threads are started and files are created.
pub fn set_private_umask() {
    // SAFETY: takes and gives an integer and cannot fail.
    let _before = unsafe { libc::umask(0o077) };
}

/// The effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Creates a folder with its parents, for its owner only. An existing one is not changed.
///
/// # Errors
/// The system's.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Creates or truncates a file that only its owner may read.
///
/// # Errors
/// The system's.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    restrict(&file)?;
    Ok(file)
}

/// Opens a file to read whose content others put there, links followed. A pipe would be waited for,
/// a device such as `/dev/zero` read for ever: they are refused.
///
/// # Errors
/// The system's; what it is, if it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    let what = match kind {
        kind if kind.is_file() => return Ok(file),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    Err(io::Error::other(format!("{what} in place of a file")))
}

/// Reads what [`open_regular`] opens.
///
/// # Errors
/// As [`open_regular`].
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Syncs the entries of a folder.
///
/// # Errors
/// The system's.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    // The parent of a relative name is empty.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// Writes a private file atomically; durable when it returns. Replaces an existing one.
///
/// # Errors
/// The system's; an existing file is then unchanged.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_durably_as(path, bytes, FILE_MODE)
}

/// The same with another mode, for files that others have to read.
///
/// # Errors
/// As [`write_durably`].
pub fn write_durably_as(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{:016x}.new", u64::from_le_bytes(random::array()?)));
    let beside = path.with_file_name(name);
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(&beside)?;
        file.write_all(bytes)?;
        if mode != FILE_MODE {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    if let Err(error) = write() {
        let _already_failing = fs::remove_file(&beside);
        return Err(error);
    }
    path.parent().map_or(Ok(()), sync_folder)
}

/// Reads a JSON file that can be made again, e.g. a cache. An empty or damaged one counts as
/// missing and is logged; it is replaced when it is written next.
pub fn read_cache<T: serde::de::DeserializeOwned + Default>(path: &Path) -> T {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return T::default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a cache cannot be read; it starts empty");
            return T::default();
        }
    };
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        let size = bytes.len();
        tracing::warn!(path = %path.display(), size, %error, "a cache is damaged; it starts empty");
        T::default()
    })
}

/// Makes a database and SQLite's files beside it private before SQLite opens it; creates an empty
/// file, which SQLite takes for an empty database, if there is none.
///
/// # Errors
/// If the file cannot be created. Modes that cannot be changed (the file has another owner) are
/// reported by [`make_private`] and `gauntlet doctor`.
pub fn prepare_database(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // By name: closing a descriptor of a database releases the locks that another connection of
        // this process holds on it (fcntl(2)), and another process may then truncate the shared
        // memory.
        let _owned_by_another_user = restrict_by_name(Path::new(&name));
    }
    Ok(())
}

/// Removes the bits of group and others from an open file. False if there were none.
fn restrict(file: &File) -> io::Result<bool> {
    let mode = file.metadata()?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    file.set_permissions(fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))?;
    Ok(true)
}

/// The same by name, without opening the file; links are left alone.
fn restrict_by_name(path: &Path) -> io::Result<()> {
    let seen = fs::symlink_metadata(path)?;
    let mode = seen.permissions().mode();
    if !seen.is_file() || mode & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))
}

/// The same by name, for files that are not open databases; links are not followed.
fn restrict_at(path: &Path) -> io::Result<bool> {
    let seen = fs::symlink_metadata(path)?;
    let plain = seen.is_file() || seen.is_dir();
    if !plain || seen.permissions().mode() & OTHERS == 0 {
        return Ok(false);
    }
    // The name may have become a link or a pipe meanwhile.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => restrict(&file),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Result of [`make_private`] and [`exposed`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exposed {
    /// Number of files and folders that others could read, write or enter.
    pub count: u64,
    /// Path of the first of them.
    pub first: Option<PathBuf>,
    /// Number of them that could not be made private.
    pub left: u64,
    /// The first of those, and why.
    pub left_first: Option<(PathBuf, String)>,
}

/// Removes the permissions of group and others from a data folder and everything in it. Links are
/// not followed; sockets and pipes are not changed: a private folder protects them.
///
/// # Errors
/// If the folder itself cannot be read or changed. Failures below it are counted.
pub fn make_private(root: &Path) -> io::Result<Exposed> {
    let mut found = Exposed::default();
    // First, because it protects everything below at once.
    if restrict_at(root)? {
        found.note(root);
    }
    walk(root, 1, true, &mut found)?;
    Ok(found)
}

/// Finds what [`make_private`] would change, and changes nothing.
///
/// # Errors
/// If the folder cannot be read.
pub fn exposed(root: &Path) -> io::Result<Exposed> {
    let mut found = Exposed::default();
    if fs::symlink_metadata(root)?.permissions().mode() & OTHERS != 0 {
        found.note(root);
    }
    walk(root, 1, false, &mut found)?;
    Ok(found)
}

impl Exposed {
    fn note(&mut self, path: &Path) {
        self.count += 1;
        self.first.get_or_insert_with(|| path.to_owned());
    }

    fn note_left(&mut self, path: &Path, why: &io::Error) {
        self.left += 1;
        self.left_first.get_or_insert_with(|| (path.to_owned(), why.to_string()));
    }
}

/// Checks all entries of a folder, sorted by name. A folder is changed after its content: if this
/// is interrupted, the next run finds it unchanged and checks it again.
fn walk(folder: &Path, depth: usize, repair: bool, found: &mut Exposed) -> io::Result<()> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        // A file that was removed meanwhile needs no protection.
        let Ok(seen) = fs::symlink_metadata(&path) else { continue };
        let is_exposed = seen.permissions().mode() & OTHERS != 0;
        if seen.is_dir() {
            let trusted = !is_exposed && depth >= TRUSTED_FROM_DEPTH;
            if !trusted
                && depth < DEPTH_MAX
                && let Err(error) = walk(&path, depth + 1, repair, found)
            {
                found.note_left(&path, &error);
            }
        } else if !seen.is_file() {
            continue;
        }
        if !is_exposed {
            continue;
        }
        found.note(&path);
        if repair && let Err(error) = restrict_at(&path) {
            found.note_left(&path, &error);
        }
    }
    Ok(())
}

/// Bytes that are free for us on the file system of this file or folder.
///
/// # Errors
/// The system's.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all bit patterns are valid for this plain C struct.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends in NUL and `stat` may be written; both live through the call.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Locks a file (`flock`) for as long as it is open, unless another process holds the lock for more
/// than a second.
///
/// A lock outlives its holder by a moment: a process that another thread of the holder just started
/// has a copy of the descriptor until it runs its program (fork(2), execve(2)).
///
/// # Errors
/// The system's, and [`TryLockError::WouldBlock`] if another process keeps the lock.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    lock_within(file, LOCK_WAIT)
}

/// The same with another time to wait: for a holder that is about to end what it does.
///
/// # Errors
/// The system's, and [`TryLockError::WouldBlock`] if another process keeps the lock for longer.
pub fn lock_within(file: &File, wait: Duration) -> Result<(), TryLockError> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begin.elapsed() < wait => {
                std::thread::sleep(LOCK_RETRY);
            }
            done => return done,
        }
    }
}

/// The user id of the owner of a file or folder.
///
/// # Errors
/// The system's.
pub fn owner(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_could_read_is_made_private_and_links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("not-ours");
        fs::write(&secret, "x").unwrap();
        set(&secret, 0o644);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data");
        let deep = root.join("quarantine/bodies/00/11");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("body"), "x").unwrap();
        fs::write(root.join("users.db"), "x").unwrap();
        std::os::unix::fs::symlink(&secret, root.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("folder-link")).unwrap();
        for path in ["", "quarantine", "quarantine/bodies", "quarantine/bodies/00"] {
            set(&root.join(path), 0o755);
        }
        set(&deep, 0o755);
        set(&deep.join("body"), 0o644);
        set(&root.join("users.db"), 0o664);
        assert_eq!(exposed(&root).unwrap().count, 7);
        let found = make_private(&root).unwrap();
        assert_eq!((found.count, found.left, found.first.as_deref()), (7, 0, Some(&*root)));
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&deep.join("body")), 0o600);
        assert_eq!(mode(&root.join("users.db")), 0o600);
        assert_eq!(mode(&secret), 0o644, "what a link names is not ours");
        assert_eq!(make_private(&root).unwrap(), Exposed::default());
    }

    #[test]
    fn a_file_is_written_whole_in_place_of_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "").unwrap();
        set(&path, 0o644);
        write_durably(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
        write_durably_as(&path, b"newer", 0o644).unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"newer"[..], 0o644));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(write_durably(&folder.path().join("no/such/folder"), b"x").is_err());
    }

    #[test]
    fn a_lock_that_is_let_go_a_moment_later_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (first, second) = (create(&path).unwrap(), create(&path).unwrap());
        try_lock(&first).unwrap();
        assert!(matches!(try_lock(&second), Err(TryLockError::WouldBlock)));
        let holder = std::thread::spawn(move || {
            std::thread::sleep(LOCK_RETRY * 3);
            drop(first);
        });
        try_lock(&second).unwrap();
        holder.join().unwrap();
    }

    #[test]
    fn sqlite_keeps_its_log_as_private_as_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let tables = ["CREATE TABLE a(x);"];
        let all = ["a.db", "a.db-wal", "a.db-shm"].map(|name| folder.path().join(name));
        for old in [false, true] {
            if old {
                // As an earlier version of the program left it: readable by all.
                all.iter().filter(|p| p.exists()).for_each(|p| set(p, 0o644));
            }
            let open = crate::database::open_write(&path, &tables).unwrap();
            open.execute("INSERT INTO a VALUES (1)", []).unwrap();
            for path in &all {
                assert_eq!(mode(path), 0o600, "{} (old: {old})", path.display());
            }
        }
    }
}
