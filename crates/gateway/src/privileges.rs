//! Running with few privileges: root binds the ports, then the process becomes another user.
//!
//! That user owns the data folder and can put a link to any file of the machine in the place of
//! anything in it, also between a check and its use. So root neither makes, opens, changes nor
//! gives away anything there: until the process becomes the user, a thread does such things as that
//! user ([`Account::act`], decision 175).

use std::ffi::{CStr, CString};
use std::fs::{self, File, Metadata};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use gauntlet_store::files;

use crate::config::Config;

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
        let found = look_up(|entry, buffer, found| {
            // SAFETY: all pointers are to locals that outlive the call; the length is the buffer's.
            unsafe {
                libc::getpwnam_r(c_name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found)
            }
        })?;
        match found {
            Some(account) if account.uid == 0 => Err(wrong("is root itself")),
            Some(account) => Ok(account),
            None => Err(wrong("there is no such user")),
        }
    }

    /// Looks a user up by number; none if no user has it.
    ///
    /// # Errors
    /// If the user database cannot be read.
    pub fn of_uid(uid: u32) -> io::Result<Option<Self>> {
        look_up(|entry, buffer, found| {
            // SAFETY: all pointers are to locals that outlive the call; the length is the buffer's.
            unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
        })
    }

    /// Numeric id of the user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Numeric id of the user's group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Gives a folder of root's to this user, unless it is theirs already. Does nothing without
    /// root. No link can be put in its place meanwhile, since only folders are given that only root
    /// can replace.
    ///
    /// # Errors
    /// The system's, or that another user could replace the folder: with what to do.
    pub fn give_folder(&self, path: &Path) -> io::Result<()> {
        if !is_root() {
            return Ok(());
        }
        let flags = libc::O_DIRECTORY | libc::O_NONBLOCK;
        let folder = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let owner = folder.metadata()?.uid();
        if owner == self.uid || owner != 0 {
            return Ok(());
        }
        if !is_held_by_root(path) {
            let shown = path.display();
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{shown} belongs to root, in a folder that other users can change: root does not give \
                     it away there; do it by hand: chown -hR {} {shown}",
                    self.uid
                ),
            ));
        }
        std::os::unix::fs::fchown(&folder, Some(self.uid), Some(self.gid))
    }

    /// Until the result is dropped, this thread opens, makes, changes and removes files as this
    /// user, with their groups and without root's rights. Does nothing without root. Start no
    /// thread meanwhile: it would go on as that user.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn act(&self) -> io::Result<Acting> {
        let acting = Acting { root: is_root().then(own_groups).transpose()?, here: PhantomData };
        if acting.root.is_some() {
            set_thread_groups(&self.groups())?;
            set_file_user(self.uid, self.gid)?;
        }
        Ok(acting)
    }

    /// The ids of its groups.
    fn groups(&self) -> Vec<libc::gid_t> {
        let mut groups = vec![self.gid; GROUPS_MAX];
        let mut count = GROUPS_MAX as libc::c_int;
        // SAFETY: the name ends in NUL; the list has room for as many as `count` says.
        let fits = unsafe {
            libc::getgrouplist(self.name.as_ptr(), self.gid, groups.as_mut_ptr(), &raw mut count)
        };
        groups.truncate(if fits < 0 { 1 } else { usize::try_from(count).unwrap_or(1) });
        groups
    }

    /// This user may change what the folders above a path hold, so that whatever root does there
    /// could hit another file.
    pub fn can_change(&self, path: &Path) -> bool {
        is_changeable(path, |seen| {
            seen.uid() == self.uid
                || (seen.is_dir() && !is_sticky(seen) && seen.mode() & 0o002 != 0)
                || (seen.is_dir() && seen.mode() & 0o020 != 0 && seen.gid() == self.gid)
        })
    }

    /// Makes the whole process this user's, for good. Nothing to do for a process that is theirs.
    ///
    /// # Errors
    /// If the system refuses, as it does without root.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: these take and give integers; the name ends in NUL. The C library changes all
        // threads.
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

/// A thread's file operations are another user's. Belongs to its thread.
#[derive(Debug)]
pub struct Acting {
    /// Root's own groups, if root acts.
    root: Option<Vec<libc::gid_t>>,
    here: PhantomData<*const ()>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        if let Some(groups) = &self.root {
            let back = set_file_user(0, 0).and_then(|()| set_thread_groups(groups));
            // Root can always be root again; whatever follows fails for want of rights else.
            if let Err(error) = back {
                tracing::error!(%error, "this thread stays another user's");
            }
        }
    }
}

/// Most groups of a user that count.
const GROUPS_MAX: usize = 1 << 10;

/// Groups of this thread.
fn own_groups() -> io::Result<Vec<libc::gid_t>> {
    let mut groups = vec![0; 1 << 16];
    // SAFETY: the list has room for as many as the kernel knows (NGROUPS_MAX).
    let count = unsafe { libc::getgroups(1 << 16, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).map_err(|_| io::Error::last_os_error())?);
    Ok(groups)
}

/// Sets the groups of this thread alone: the C library's function changes all threads.
fn set_thread_groups(groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: the list lives through the call and has this length.
    match unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets whose rights count for files in this thread (setfsuid(2)): root's own end with it, until it
/// is root's again.
fn set_file_user(uid: libc::uid_t, gid: libc::gid_t) -> io::Result<()> {
    // SAFETY: these take integers. They return what was before and no error: asked with an id that
    // there is not, they change nothing and say what is.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        (libc::setfsuid(libc::uid_t::MAX), libc::setfsgid(libc::gid_t::MAX))
    };
    let wanted = (i64::from(uid), i64::from(gid));
    if (i64::from(now.0), i64::from(now.1)) != wanted {
        return Err(io::Error::other("the system does not change whose rights count for files"));
    }
    Ok(())
}

fn look_up(
    ask: impl FnOnce(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int,
) -> io::Result<Option<Account>> {
    // SAFETY: all zeros is a valid `passwd`: integers and null pointers.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut buffer = vec![0; ENTRY_BYTES_MAX];
    let mut found = std::ptr::null_mut();
    match (ask(&raw mut entry, &mut buffer, &raw mut found), found.is_null()) {
        (0, false) => {
            // SAFETY: the entry that was found points into the buffer, which is still there.
            let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_owned();
            Ok(Some(Account { name, uid: entry.pw_uid, gid: entry.pw_gid }))
        }
        (0, true) => Ok(None),
        (code, _) => Err(io::Error::from_raw_os_error(code)),
    }
}

fn is_sticky(seen: &Metadata) -> bool {
    seen.mode() & libc::S_ISVTX != 0
}

/// Only root can replace this path: all folders that lead to it are root's,
/// and others may not write there, or not replace what is root's.
fn is_held_by_root(path: &Path) -> bool {
    !is_changeable(path, |seen| {
        seen.uid() != 0 || (seen.is_dir() && !is_sticky(seen) && seen.mode() & 0o022 != 0)
    })
}

/// One of the folders and links that lead to a path fits, also behind links.
fn is_changeable(path: &Path, fits: impl Fn(&Metadata) -> bool) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = path.canonicalize().unwrap_or_else(|_| absolute.clone());
    let all = absolute.ancestors().chain(real.ancestors());
    all.filter_map(|part| fs::symlink_metadata(part).ok()).any(|seen| fits(&seen))
}

/// The user that this process, being root, is to become.
///
/// # Errors
/// If there is no such user.
pub fn to_become(config: &Config) -> io::Result<Option<Account>> {
    match config.node.user.as_str() {
        "" => Ok(None),
        name => Account::find(name).map(|account| is_root().then_some(account)),
    }
}

/// Does something with a file of a node: as the node's user if that could have put something else
/// in its place, else as who we are.
///
/// # Errors
/// The task's, or the system's.
pub fn with_file<T, E: From<io::Error>>(
    config: &Config,
    path: &Path,
    task: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let account = to_become(config)?;
    let acts = |a: &Account| may_be_led_astray(a, config, path);
    let _acting = account.filter(acts).map(|account| account.act()).transpose()?;
    task()
}

/// The user whom root is to become could replace this path.
///
/// # Errors
/// If there is no such user.
pub fn is_users(config: &Config, path: &Path) -> io::Result<bool> {
    Ok(to_become(config)?.is_some_and(|account| may_be_led_astray(&account, config, path)))
}

fn may_be_led_astray(account: &Account, config: &Config, path: &Path) -> bool {
    path.starts_with(&config.node.data) || account.can_change(path)
}

/// Makes a folder of a node with those above it for the user of the configuration, if there is
/// none: as that user, unless only root can.
///
/// # Errors
/// The system's, or that root would have to give away what others can replace.
pub fn make_folder(config: &Config, path: &Path) -> io::Result<()> {
    match to_become(config)? {
        None => files::create_folder(path),
        Some(account) if path != config.node.data && path.starts_with(&config.node.data) => {
            let _acting = account.act()?;
            files::create_folder(path)
        }
        Some(account) => {
            if !path.exists() {
                let _acting = account.can_change(path).then(|| account.act()).transpose()?;
                make_above(path)?;
                files::create_folder(path)?;
            }
            account.give_folder(path)
        }
    }
}

/// Makes the folders above one as they usually are, and not for its owner only: others have to
/// pass.
///
/// # Errors
/// The system's.
pub fn make_above(path: &Path) -> io::Result<()> {
    let above: Vec<&Path> =
        path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
    for folder in above.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir(folder)?;
        let made = File::open(folder)?;
        made.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

/// Acts as the owner of a data folder in this thread, if root changes something in it.
///
/// # Errors
/// The system's.
pub fn act_as_owner(data: &Path) -> io::Result<Option<Acting>> {
    let owner = files::owner(data)?;
    match Account::of_uid(owner)? {
        Some(account) if owner != 0 && is_root() => account.act().map(Some),
        _ => Ok(None),
    }
}

/// Becomes the owner of a data folder for good, if root runs a command that changes it: what root
/// made there the node could not use, and its owner could lead root elsewhere.
///
/// # Errors
/// The system's.
pub fn become_owner(data: &Path) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let Ok(owner) = files::owner(data) else { return Ok(()) };
    match Account::of_uid(owner)? {
        Some(account) if owner != 0 => account.enter(),
        _ => Ok(()),
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
        let nobody = Account::find("nobody").expect("every system has it");
        assert_eq!(Account::of_uid(nobody.uid()).unwrap().unwrap().uid(), nobody.uid());
        assert_eq!(Account::of_uid(4_242_424).unwrap(), None);
    }

    /// Whose folders these are only root can arrange.
    #[test]
    fn a_thread_acts_as_another_user_and_is_root_again() {
        if !is_root() {
            assert!(std::env::var_os("CI").is_none(), "not root");
            eprintln!("skipped: not root");
            return;
        }
        let nobody = Account::find("nobody").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root's");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let denied = io::ErrorKind::PermissionDenied;
        let (go, wait) = std::sync::mpsc::channel();
        let elsewhere = path.clone();
        let other = std::thread::spawn(move || {
            wait.recv().unwrap();
            fs::read(elsewhere)
        });
        {
            let _acting = nobody.act().unwrap();
            assert_eq!(fs::read(&path).unwrap_err().kind(), denied);
            assert_eq!(fs::write(&path, "x").unwrap_err().kind(), denied);
            // A thread that was there before is root still.
            go.send(()).unwrap();
            assert_eq!(other.join().unwrap().unwrap(), b"secret");
        }
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        // A folder that root holds is given, one that the user could replace is not.
        let given = folder.path().join("given");
        fs::create_dir(&given).unwrap();
        nobody.give_folder(&given).unwrap();
        assert_eq!(fs::metadata(&given).unwrap().uid(), nobody.uid());
        let inside = given.join("inside");
        fs::create_dir(&inside).unwrap();
        let error = nobody.give_folder(&inside).unwrap_err().to_string();
        assert!(error.contains("chown -hR"), "{error}");
        assert_eq!(fs::metadata(&inside).unwrap().uid(), 0);
        assert!(nobody.can_change(&inside) && !nobody.can_change(&path));
    }
}
