//! Threads that stand back: what no message waits for, and what takes long anyway, gives way to
//! mail.
//!
//! The scheduler of Linux keeps the nice value of each thread by itself (sched(7)), which everybody
//! may raise and, without a capability, nobody may lower again. So a thread that starts others, or
//! processes, which inherit it, has [`in_background`] do what is heavy.

/// By how much, from the nice value that the process has: one that was started by `nice` keeps the
/// distance.
///
/// What stands back has a tenth of the CPU time of who receives where both have much to do
/// (sched_prio_to_weight of the kernel: 110 to 1024), and its turn ends when who receives has
/// something to do. New rules and versions of channels are prepared so, and large messages judged:
/// nine tenths are for small ones, which come back in milliseconds.
const STEP: i32 = 10;
/// The largest nice value that there is.
const NICE_MAX: i32 = 19;

/// Lowers the priority of the thread that calls, for good.
pub(crate) fn lower() {
    let lowered = nice()
        .and_then(|nice| rustix::process::setpriority_process(None, NICE_MAX.min(nice + STEP)));
    if let Err(error) = lowered {
        tracing::debug!(%error, "the priority of a thread could not be lowered");
    }
}

/// Does something on a thread of low priority, and waits for it.
///
/// # Panics
/// Where `work` does.
pub fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let lowered = || {
            lower();
            work()
        };
        match scope.spawn(lowered).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The nice value of this thread.
pub(crate) fn nice() -> rustix::io::Result<i32> {
    rustix::process::getpriority_process(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_of_the_work_stands_back() {
        let before = nice().unwrap();
        assert_eq!(in_background(nice).unwrap(), NICE_MAX.min(before + STEP));
        assert_eq!(nice().unwrap(), before);
    }

    #[test]
    fn a_panic_of_the_work_goes_on_in_who_waits() {
        let failed = std::panic::catch_unwind(|| in_background(|| panic!("no")));
        assert_eq!(failed.unwrap_err().downcast_ref(), Some(&"no"));
    }
}
