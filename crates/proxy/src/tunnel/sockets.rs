//! Bytes from one socket to another, as they are: copied at first, then moved by the kernel
//! (`splice(2)`), which touches none of them.
//!
//! Whoever waits holds neither a buffer nor a pipe: tunnels are idle most of the time.

use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustix::pipe::{SpliceFlags, splice};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::pipes::{PIPE_BYTES, Pipe, Pipes};
use crate::progress::Progress;

/// Bytes copied at once.
const BUFFER_BYTES: usize = 16 * 1024;
/// Bytes of one direction that are copied before a pipe is worth its while.
pub(super) const COPIED_BYTES: u64 = 64 * 1024;

/// One direction.
pub(super) struct Way<'a> {
    /// Bytes that came before.
    pub(super) first: Bytes,
    pub(super) from: &'a TcpStream,
    pub(super) to: &'a TcpStream,
    pub(super) passed: &'a AtomicU64,
    pub(super) progress: &'a Progress,
    pub(super) pipes: &'a Pipes,
}

/// What is to come of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    /// Nothing now, or in another way.
    Later,
    /// Nothing.
    Never,
}

impl Way<'_> {
    /// Passes bytes on until the direction ends.
    ///
    /// # Errors
    /// If a socket breaks.
    pub(super) async fn pass(mut self) -> io::Result<()> {
        let first = std::mem::take(&mut self.first);
        self.write(&first).await?;
        drop(first);
        loop {
            self.from.readable().await?;
            self.progress.touch();
            let is_long = self.passed.load(Ordering::Relaxed) >= COPIED_BYTES;
            let more = match is_long.then(|| self.pipes.take()).flatten() {
                Some(pipe) => self.splice(pipe).await?,
                None => self.copy().await?,
            };
            if more == More::Never {
                return SockRef::from(self.to).shutdown(Shutdown::Write);
            }
        }
    }

    /// Copies what is there.
    async fn copy(&self) -> io::Result<More> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let before = self.passed.load(Ordering::Relaxed);
        loop {
            consume_budget().await;
            buffer.clear();
            match self.from.try_read_buf(&mut buffer) {
                Ok(0) => return Ok(More::Never),
                Ok(_) => self.write(&buffer).await?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(More::Later),
                Err(error) => return Err(error),
            }
            if self.passed.load(Ordering::Relaxed) - before >= COPIED_BYTES {
                return Ok(More::Later);
            }
        }
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.to.writable().await?;
            match self.to.try_write(bytes) {
                Ok(n) => {
                    self.count(n);
                    bytes = bytes.get(n..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Has the kernel move what is there, and gives the pipe back when it is empty.
    async fn splice(&self, pipe: Pipe) -> io::Result<More> {
        let more = loop {
            consume_budget().await;
            match into_pipe(self.from, &pipe) {
                Ok(0) => break More::Never,
                Ok(n) => self.empty(&pipe, n).await?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break More::Later,
                // Nothing was taken from the socket.
                Err(error) if is_unsupported(&error) => {
                    self.pipes.give_up(&error);
                    return Ok(More::Later);
                }
                Err(error) => return Err(error),
            }
        };
        self.pipes.put(pipe);
        Ok(more)
    }

    /// Moves so many bytes out of the pipe.
    async fn empty(&self, pipe: &Pipe, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            self.to.writable().await?;
            match out_of_pipe(pipe, self.to, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.count(n);
                    bytes = bytes.saturating_sub(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.progress.touch();
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

fn into_pipe(socket: &TcpStream, pipe: &Pipe) -> io::Result<usize> {
    // The pipe is empty, so that it is the socket which would block.
    socket.try_io(Interest::READABLE, || {
        Ok(splice(socket, None, &pipe.writer, None, PIPE_BYTES, FLAGS)?)
    })
}

fn out_of_pipe(pipe: &Pipe, socket: &TcpStream, bytes: usize) -> io::Result<usize> {
    // The pipe has so many bytes, so that it is the socket which would block.
    socket
        .try_io(Interest::WRITABLE, || Ok(splice(&pipe.reader, None, socket, None, bytes, FLAGS)?))
}

/// The system has no such call, or may not use it here.
fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}
