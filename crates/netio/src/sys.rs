//! System calls, and memory that is shared with the kernel. Everything unsafe is here; what comes
//! out is bytes and numbers.

mod batch;
mod ring;
pub(crate) mod tun;

pub(crate) use batch::{Batch, Outgoing, send};
pub(crate) use ring::Ring;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Turns -1 into the system's error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The length of a structure, as system calls want it.
fn len_of<T>() -> libc::socklen_t {
    // Structures of socket addresses are far smaller than 4 GiB.
    size_of::<T>() as libc::socklen_t
}

/// A socket that does not wait and that programs do not inherit unless told to.
pub(crate) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes integers; a descriptor that it returns is new and nobody else's.
    unsafe {
        let number = check(libc::socket(family, kind, protocol))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Takes a descriptor that another process left open for this one.
///
/// # Errors
///
/// If it is neither a socket nor a device.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: all zeros is a valid record: integers.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local. A number that is not open is an error, so that what is
    // owned below is, and the caller names it once.
    unsafe {
        check(libc::fstat(number, &raw mut about))?;
        match about.st_mode & libc::S_IFMT {
            libc::S_IFSOCK | libc::S_IFCHR => Ok(OwnedFd::from_raw_fd(number)),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// Sets an option whose value is these bytes.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let number = socket.as_raw_fd();
    // SAFETY: the bytes live through the call and are as many as told.
    check(unsafe { libc::setsockopt(number, level, name, value.as_ptr().cast(), len) })?;
    Ok(())
}

/// Reads an option into these bytes; how many were written.
pub(crate) fn option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let number = socket.as_raw_fd();
    let place = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes, which are there.
    check(unsafe { libc::getsockopt(number, level, name, place, &raw mut len) })?;
    Ok(len as usize)
}

/// The number of an interface.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(io::Error::other)?;
    // SAFETY: the name ends in NUL.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// The name of the interface with this number.
pub(crate) fn interface_name(number: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the name has as much room as the call may write, its NUL included.
    let found = unsafe { libc::if_indextoname(number, name.as_mut_ptr().cast()) };
    let text = CStr::from_bytes_until_nul(&name).ok().filter(|_| !found.is_null())?;
    text.to_str().ok().map(str::to_owned)
}

/// Binds a packet socket to an interface, for frames of all protocols.
pub(crate) fn bind_interface(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: all zeros is a valid address: integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let len = len_of::<libc::sockaddr_ll>();
    // SAFETY: the address lives through the call and has this length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(())
}

/// The interface to which a packet socket is bound, none if it is gone, and its hardware type
/// (`ARPHRD_`).
pub(crate) fn bound_interface(socket: BorrowedFd<'_>) -> io::Result<(Option<u32>, u16)> {
    // SAFETY: all zeros is a valid address: integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = len_of::<libc::sockaddr_ll>();
    let place = (&raw mut address).cast();
    // SAFETY: the pointers are to an address and to its length.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), place, &raw mut len) })?;
    let index = u32::try_from(address.sll_ifindex).ok().filter(|index| *index > 0);
    Ok((index, address.sll_hatype))
}

/// Gives a netlink socket an address of its own.
pub(crate) fn bind_netlink(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zeros is a valid address: integers.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    let len = len_of::<libc::sockaddr_nl>();
    // SAFETY: the address lives through the call and has this length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(())
}

/// What [`poll`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    Read,
    Write,
}

/// Waits until one of these sockets is ready, or the time is over, or a signal came; whether one
/// has an error.
pub(crate) fn poll(sockets: &[BorrowedFd<'_>], ready: Ready, wait: Duration) -> io::Result<bool> {
    let events = match ready {
        Ready::Read => libc::POLLIN,
        Ready::Write => libc::POLLOUT,
    };
    let entry =
        |socket: &BorrowedFd<'_>| libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let mut entries: Vec<libc::pollfd> = sockets.iter().map(entry).collect();
    let count = libc::nfds_t::try_from(entries.len()).map_err(io::Error::other)?;
    let millis = libc::c_int::try_from(wait.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: there are `count` entries, which live through the call.
    match check(unsafe { libc::poll(entries.as_mut_ptr(), count, millis) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
        _ => {}
    }
    Ok(entries.iter().any(|entry| entry.revents & libc::POLLERR != 0))
}

/// A descriptor from which signals are read that are not delivered otherwise from now on, in this
/// thread and those that it starts.
pub(crate) fn signals(numbers: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before anything else; the calls take numbers
    // and a pointer to it. The descriptor that is returned is new.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        check(libc::sigemptyset(&raw mut set))?;
        for number in numbers {
            check(libc::sigaddset(&raw mut set, *number))?;
        }
        let none = std::ptr::null_mut();
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, none) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let number = check(libc::signalfd(-1, &raw const set, flags))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Whether capabilities outlive a change of the user in this thread.
pub(crate) fn keep_capabilities(keep: bool) -> io::Result<()> {
    // SAFETY: it takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(keep), 0, 0, 0) })?;
    Ok(())
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: two words of each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Leaves this thread these of the first 32 capabilities (a bit each), and no others.
pub(crate) fn set_capabilities(bits: u32) -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let low = CapabilityWords { effective: bits, permitted: bits, inheritable: 0 };
    let none = CapabilityWords { effective: 0, permitted: 0, inheritable: 0 };
    let words = [low, none];
    // SAFETY: the version says that two words of each set follow, which they do.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
