//! Landlock: which files a process may reach, by the kernel (landlock(7)).
//!
//! Three system calls without a library: a ruleset says which rights are handled, rules give them
//! back below folders or for files, the thread restricts itself. Threads that it starts later
//! inherit it, those that there are do not.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Starting a file as a program.
pub const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// Rights that a file can have; the others are a folder's.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;

/// Reading files and listing folders.
pub const READ: u64 = READ_FILE | READ_DIR;
/// Making, changing, moving and removing files, folders and sockets, and listing folders; reading
/// no file.
pub const CHANGE: u64 = WRITE_FILE
    | READ_DIR
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | REFER
    | TRUNCATE;

/// What is changed in a folder that has other processes' folders in it: files and sockets. Folders
/// are not made, removed or renamed there, and nothing is moved or linked from one folder to
/// another.
pub const CHANGE_FILES: u64 = CHANGE & !(REMOVE_DIR | MAKE_DIR | REFER);

/// Rights that each version of the interface (ABI) handles.
fn handled_by(version: i64) -> u64 {
    let first = (1 << 13) - 1;
    match version {
        1 => first,
        2 => first | REFER,
        _ => first | REFER | TRUNCATE,
    }
}

/// Which signals and sockets of other processes it may reach (ABI 6): no signal.
const SCOPE_SIGNAL: u64 = 1 << 1;

#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

const RULE_PATH_BENEATH: i32 = 1;
const CREATE_RULESET_VERSION: u32 = 1;

/// Version of the interface that the kernel has (1 or more).
///
/// # Errors
/// If it has none, or it is switched off.
pub fn version() -> io::Result<i64> {
    // SAFETY: with this flag the kernel takes no attributes and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttributes>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    if version < 1 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

/// Rules that are being collected.
#[derive(Debug)]
pub struct Ruleset {
    descriptor: OwnedFd,
    handled: u64,
    version: i64,
}

impl Ruleset {
    /// Begins with everything forbidden.
    ///
    /// # Errors
    /// If the kernel has no Landlock.
    pub fn new() -> io::Result<Self> {
        let version = version()?;
        let handled = handled_by(version);
        let scoped = if version >= 6 { SCOPE_SIGNAL } else { 0 };
        let attributes =
            RulesetAttributes { handled_access_fs: handled, handled_access_net: 0, scoped };
        let size: usize = match version {
            1..=3 => 8,
            4..=5 => 16,
            _ => 24,
        };
        // SAFETY: the structure is valid for the size that the kernel's version reads.
        let made = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0u32)
        };
        let number = i32::try_from(made).unwrap_or(-1);
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Ruleset { descriptor, handled, version })
    }

    /// Version of the kernel's interface.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// Gives rights back below a folder, or for one file. A path that is not there is left out.
    ///
    /// # Errors
    /// The system's.
    pub fn allow(&self, path: &Path, rights: u64) -> io::Result<()> {
        let opened = File::options().read(true).custom_flags(libc::O_PATH).open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let fits = if file.metadata()?.is_dir() { u64::MAX } else { OF_FILES };
        let allowed_access = rights & self.handled & fits;
        if allowed_access == 0 {
            return Ok(());
        }
        let rule = PathBeneath { allowed_access, parent_fd: file.as_raw_fd() };
        // SAFETY: both descriptors are open and the structure is the one of this kind of rule.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.descriptor.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0u32,
            )
        };
        if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Restricts this thread and those that it starts, for good.
    ///
    /// # Errors
    /// The system's.
    pub fn enforce(self) -> io::Result<()> {
        crate::no_new_privileges()?;
        // SAFETY: the descriptor is a ruleset.
        let done = unsafe {
            libc::syscall(libc::SYS_landlock_restrict_self, self.descriptor.as_raw_fd(), 0u32)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
