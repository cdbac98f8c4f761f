//! What the kernel holds a process to, whatever code runs in it: files by Landlock, system calls by
//! seccomp, memory and time by resource limits.

pub mod landlock;
pub mod seccomp;

use std::io;

/// No program that this process starts gets more rights than it has (as by a set-user-ID bit).
///
/// # Errors
/// The system's.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: takes integers.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets a resource limit, hard and soft (setrlimit(2)).
///
/// # Errors
/// The system's.
pub fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    let number = match resource {
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::FileSize => libc::RLIMIT_FSIZE,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::CoreFile => libc::RLIMIT_CORE,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::CpuSeconds => libc::RLIMIT_CPU,
    };
    // SAFETY: the structure is valid for the call.
    match unsafe { libc::setrlimit(number, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Resources that [`limit`] limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of memory that are mapped.
    AddressSpace,
    /// Bytes of a file that is written.
    FileSize,
    /// The number behind the highest descriptor that is opened.
    OpenFiles,
    /// Bytes of a core file.
    CoreFile,
    /// Processes and threads of the account.
    Processes,
    /// Seconds of CPU time; the process is killed behind them.
    CpuSeconds,
}
