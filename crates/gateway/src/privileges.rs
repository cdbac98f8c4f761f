//! Running as somebody who may little: root binds the ports, then the process becomes another user.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A user of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    name: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

/// Longest entry of the user database that is read, in bytes.
const ENTRY_BYTES_MAX: usize = 64 * 1024;

impl Account {
    /// Looks a user up by name.
    ///
    /// # Errors
    /// If there is no such user, or it is root.
    pub fn find(name: &str) -> io::Result<Self> {
        let wrong = |why: &str| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("node.user {name:?}: {why}"))
        };
        let c_name = CString::new(name).map_err(|_| wrong("no user has such a name"))?;
        // SAFETY: all zeros is a valid `passwd`: integers and null pointers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut buffer = vec![0; ENTRY_BYTES_MAX];
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are to locals that outlive the call; the length is the buffer's.
        let code = unsafe {
            libc::getpwnam_r(
                c_name.as_ptr(),
                &raw mut entry,
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        match (code, found.is_null()) {
            (0, false) if entry.pw_uid == 0 => Err(wrong("is root itself")),
            (0, false) => Ok(Account { name: c_name, uid: entry.pw_uid, gid: entry.pw_gid }),
            (0, true) => Err(wrong("there is no such user")),
            (code, _) => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Its user id.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Gives a file or folder to this user, unless it is theirs already. Does nothing without root.
    ///
    /// # Errors
    /// The system's.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        if !is_root() || std::fs::metadata(path)?.uid() == self.uid {
            return Ok(());
        }
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path ends in NUL and lives through the call. Links are not followed.
        match unsafe { libc::lchown(path.as_ptr(), self.uid, self.gid) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes the whole process this user's, for good. Nothing to do for a process that is theirs.
    ///
    /// # Errors
    /// If the system refuses, as it does without root.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: these take and give integers; the name ends in NUL. The C library changes all threads.
        unsafe {
            if libc::geteuid() == self.uid && libc::getuid() == self.uid {
                return Ok(());
            }
            if libc::initgroups(self.name.as_ptr(), self.gid) != 0
                || libc::setgid(self.gid) != 0
                || libc::setuid(self.uid) != 0
            {
                return Err(io::Error::last_os_error());
            }
            // There must be no way back.
            if libc::setuid(0) == 0 {
                return Err(io::Error::other("root could be had back"));
            }
        }
        Ok(())
    }
}

/// The process runs as root.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name() {
        assert!(Account::find("root").unwrap_err().to_string().contains("root itself"));
        let unknown = Account::find("nobody-has-this-name").unwrap_err();
        assert!(unknown.to_string().contains("no such user"), "{unknown}");
        assert!(Account::find("a\0b").is_err());
        assert!(Account::find("nobody").is_ok(), "every system has it");
    }
}
