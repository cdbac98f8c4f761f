//! Limits that the system sets.

/// Raises the limit of open files to `wanted` or as far as the system allows. Returns what it is
/// then; 0 if it is unknown.
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

/// How many files this process may have open; 0 if it is unknown.
pub fn descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a plain C struct that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur
    } else {
        0
    }
}

/// The system gives fewer threads than are needed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system gives {given} of {wanted} threads ({error}); raise its limit of processes (RLIMIT_NPROC: \
     `ulimit -u`; LimitNPROC= and TasksMax= of systemd; pids.max of a container)"
)]
pub struct TooFewThreads {
    given: usize,
    wanted: usize,
    error: std::io::Error,
}

/// Starts so many threads at once and lets them end again: whether the system will give them.
/// Libraries that start threads panic where it does not.
///
/// # Errors
/// How many it gave, why no more, and what to do.
pub fn has_threads(wanted: usize) -> Result<(), TooFewThreads> {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let mut started = Vec::with_capacity(wanted);
    let mut refused = None;
    for _ in 0..wanted {
        let held = held.clone();
        // Each ends when the sender is gone.
        let wait = move || drop(held.lock().map(|held| held.recv()));
        match std::thread::Builder::new().stack_size(64 * 1024).spawn(wait) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    drop(hold);
    let count = started.len();
    for thread in started {
        // It did nothing that can fail.
        let _ = thread.join();
    }
    match refused {
        None => Ok(()),
        Some(error) => Err(TooFewThreads { given: count, wanted, error }),
    }
}

/// What one listener of the web path may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebConnections {
    /// Connections of clients; each may have one to a server.
    pub clients: usize,
    /// Connections to servers that are kept.
    pub kept: usize,
}

impl WebConnections {
    /// As the settings say, but for all `listeners` together no more than half of the `open` files
    /// that the process may have (0: not known): the other half is for mail.
    pub fn within(clients: usize, kept: usize, listeners: usize, open: usize) -> Self {
        if open == 0 {
            return WebConnections { clients, kept };
        }
        let share = open / 2 / listeners.max(1);
        let kept = kept.min(share / 4);
        WebConnections { clients: clients.min((share - kept) / 2).max(1), kept }
    }

    /// Open files that these take.
    pub fn descriptors(self) -> usize {
        2 * self.clients + self.kept
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_few_threads_can_be_had() {
        assert!(super::has_threads(3).is_ok());
    }
}
