//! Signals, read one by one instead of interrupting something.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::messages::word32;
use crate::sys;

/// A signal that a program of packets knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// End (SIGTERM, SIGINT).
    Stop,
    /// Read rules anew, open files anew (SIGHUP).
    Reload,
    /// A child has ended (SIGCHLD).
    Child,
}

impl Signal {
    /// Sends it to a child.
    ///
    /// # Errors
    ///
    /// If there is no such process.
    pub fn send(self, child: u32) -> io::Result<()> {
        let number = match self {
            Signal::Stop => rustix::process::Signal::TERM,
            Signal::Reload => rustix::process::Signal::HUP,
            Signal::Child => rustix::process::Signal::CHILD,
        };
        let child = i32::try_from(child).ok().and_then(rustix::process::Pid::from_raw);
        let child = child.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(rustix::process::kill_process(child, number)?)
    }
}

/// Signals that came.
#[derive(Debug)]
pub struct Signals(OwnedFd);

/// Length of `struct signalfd_siginfo`.
const RECORD_LEN: usize = 128;

impl Signals {
    /// Takes these signals from now on. To be called before any thread is started.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn take() -> io::Result<Self> {
        let all = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD];
        Ok(Self(sys::signals(&all)?))
    }

    /// The next one, if one came.
    pub fn next(&self) -> Option<Signal> {
        let mut record = [0; RECORD_LEN];
        loop {
            let read = rustix::io::read(&self.0, &mut record).ok()?;
            match i32::try_from(word32(record.get(..read)?, 0)).ok()? {
                libc::SIGTERM | libc::SIGINT => return Some(Signal::Stop),
                libc::SIGHUP => return Some(Signal::Reload),
                libc::SIGCHLD => return Some(Signal::Child),
                _ => {}
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
