//! Limits that the system sets.

/// Raises the limit of open files to `wanted` or as far as the system allows. Returns what it is
/// then; 0 if it cannot be told.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a plain C struct that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let raised = libc::rlimit {
        rlim_cur: wanted.clamp(limit.rlim_cur, limit.rlim_max.max(limit.rlim_cur)),
        rlim_max: limit.rlim_max,
    };
    // SAFETY: as above; the call only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
        raised.rlim_cur
    } else {
        limit.rlim_cur
    }
}

/// How many files this process may have open; 0 if it cannot be told.
pub fn descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a plain C struct that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur
    } else {
        0
    }
}
