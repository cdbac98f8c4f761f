//! What this process used of the machine so far, and what a child used that has ended.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

/// CPU seconds of all threads of this process, user and system together.
pub fn cpu_seconds() -> f64 {
    seconds(&usage(libc::RUSAGE_SELF))
}

/// The same of all children that have ended and were waited for.
pub fn children_cpu_seconds() -> f64 {
    seconds(&usage(libc::RUSAGE_CHILDREN))
}

/// CPU seconds so far of a child that runs, threads that have ended included; none if the system
/// does not say.
#[cfg(target_os = "linux")]
pub fn cpu_seconds_of(child: &Child) -> Option<f64> {
    let number = libc::pid_t::try_from(child.id()).ok()?;
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both write one value to a pointer that is valid for it, and the second is called
    // with the clock that the first has written.
    let is_known = unsafe {
        libc::clock_getcpuclockid(number, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    is_known.then_some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// CPU seconds so far of a child that runs: this system does not say.
#[cfg(not(target_os = "linux"))]
pub fn cpu_seconds_of(_child: &Child) -> Option<f64> {
    None
}

fn seconds(usage: &libc::rusage) -> f64 {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Largest resident memory of this process so far, in bytes.
pub fn peak_rss_bytes() -> u64 {
    peak(&usage(libc::RUSAGE_SELF))
}

fn peak(usage: &libc::rusage) -> u64 {
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// CPU seconds of all its threads, user and system, and of children that it waited for.
    pub cpu_seconds: f64,
    /// Its largest resident memory in bytes; at least that of this process when it was started.
    pub peak_rss_bytes: u64,
}

/// Waits until a child ends (wait4(2)).
///
/// # Errors
/// If it is no child any more.
pub fn wait(child: Child) -> std::io::Result<Ended> {
    let number = libc::pid_t::try_from(child.id()).map_err(std::io::Error::other)?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: wait4 writes one number and one rusage to the pointers, which are valid for that.
    while unsafe { libc::wait4(number, &raw mut status, 0, usage.as_mut_ptr()) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // The number may be another process' from now on, and the value would still name it.
    drop(child);
    // SAFETY: all-zero bytes are a valid rusage (integers only), and wait4 has written one.
    let usage = unsafe { usage.assume_init() };
    Ok(Ended {
        status: ExitStatus::from_raw(status),
        cpu_seconds: seconds(&usage),
        peak_rss_bytes: peak(&usage),
    })
}

/// A figure of this process from `/proc/self/status`, such as `RssAnon`, in bytes; none if the
/// system does not say.
pub fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Lets `VmHWM` of `/proc/self/status` begin anew, where the system can (proc(5), `clear_refs`).
pub fn forget_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage to the pointer, which is valid for that; all-zero bytes
    // are a valid rusage (integers only), so reading it is sound even if the call fails.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_child_that_ended_tells_what_it_used() {
        let mut command = std::process::Command::new("sh");
        let child = command.args(["-c", "exit 3"]).spawn().unwrap();
        let ended = super::wait(child).unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.cpu_seconds >= 0.0 && ended.peak_rss_bytes > 100_000, "{ended:?}");
    }

    #[test]
    fn figures_are_there() {
        assert!(super::peak_rss_bytes() > 100_000);
        assert!(super::cpu_seconds() >= 0.0);
    }
}
