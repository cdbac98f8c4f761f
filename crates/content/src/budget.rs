//! Time of one request: the CPU time that its thread may take, and the time of the wall clock
//! behind which nobody waits any more.
//!
//! CPU time is what a file costs. On a busy machine the wall clock runs while other processes work,
//! and good mail must not become unscannable by that.

use std::time::{Duration, Instant};

use crate::limits::Limits;

/// What is left of a request's time. It counts the CPU time of the thread that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    began: Instant,
    cpu_began: Duration,
    cpu_max: Duration,
    wall_max: Duration,
}

impl Budget {
    /// One that begins now.
    pub(crate) fn of(limits: &Limits) -> Self {
        Budget {
            began: Instant::now(),
            cpu_began: thread_cpu_time(),
            cpu_max: limits.cpu_time_max,
            wall_max: limits.time_max,
        }
    }

    /// Whether none is left.
    pub(crate) fn is_spent(&self) -> bool {
        let elapsed = self.began.elapsed();
        if elapsed >= self.wall_max {
            return true;
        }
        // One thread takes no more CPU time than time goes by: most requests never make the system
        // call.
        elapsed >= self.cpu_max && thread_cpu_time().saturating_sub(self.cpu_began) >= self.cpu_max
    }
}

/// CPU time of this thread since it began (clock_gettime(2)).
fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    match (failed, seconds, nanos) {
        (0, Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
        // Every Linux has this clock; the kernel's timer ends a worker without it.
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_costs_nothing_and_computing_does() {
        let limits = Limits { cpu_time_max: Duration::from_millis(50), ..Limits::default() };
        let budget = Budget::of(&limits);
        std::thread::sleep(Duration::from_millis(120));
        assert!(!budget.is_spent(), "the thread slept");
        while !budget.is_spent() {
            std::hint::black_box(0);
        }
        assert!(thread_cpu_time() >= Duration::from_millis(50));
        let late = Limits { time_max: Duration::ZERO, ..limits };
        assert!(Budget::of(&late).is_spent(), "the wall clock is behind it");
    }
}
