//! Pipes through which the kernel moves bytes from one socket to another.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pipes of a proxy at most, each of two open files; what has none is copied.
const PIPES_MAX: usize = 128;
/// Pipes that are kept while nobody uses them.
const KEPT_MAX: usize = 16;
/// Bytes that a pipe holds, if the system grants it; its pages are those of the sockets.
pub(super) const PIPE_BYTES: usize = 256 * 1024;

/// A pipe, empty unless it is in use. Dropped with bytes in it, they are gone with it.
pub(super) struct Pipe {
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
    _place: OwnedSemaphorePermit,
}

/// Lends pipes for as long as bytes are on their way.
pub(crate) struct Pipes {
    kept: Mutex<Vec<Pipe>>,
    places: Arc<Semaphore>,
    is_unsupported: AtomicBool,
}

impl Pipes {
    pub(crate) fn new() -> Self {
        let places = Arc::new(Semaphore::new(PIPES_MAX));
        Pipes { kept: Mutex::default(), places, is_unsupported: AtomicBool::new(false) }
    }

    /// Lends none: bytes are copied.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Pipes { is_unsupported: AtomicBool::new(true), ..Pipes::new() }
    }

    /// An empty pipe; none if too many are in use, or the system does not splice.
    pub(super) fn take(&self) -> Option<Pipe> {
        if self.is_unsupported.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(pipe) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Some(pipe);
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // Without it, the pipe is smaller; an error changes nothing else.
        let _ = fcntl_setpipe_size(&writer, PIPE_BYTES);
        Some(Pipe { reader, writer, _place: place })
    }

    /// Takes back a pipe, which is empty.
    pub(super) fn put(&self, pipe: Pipe) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(pipe);
        }
    }

    /// Bytes are copied from now on.
    pub(super) fn give_up(&self, error: &io::Error) {
        if !self.is_unsupported.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the system does not splice: bytes of tunnels are copied");
        }
    }

    /// How many may be made beside those that there are.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.available_permits()
    }
}
