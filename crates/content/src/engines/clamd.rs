//! ClamAV's daemon, by its own protocol (clamd(8)): sessions of many files over one connection,
//! files as a stream of chunks (`INSTREAM`) or as an open file over a unix socket (`FILDES`).

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::connection::{Connection, ConnectionPool, EngineAddress, read_until};
use super::{Answer, Engine, EngineError, EngineItem};

/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 4_096;
/// Bytes of one chunk of a stream.
const CHUNK_BYTES: usize = 128 << 10;
/// Files from this size on are handed over as descriptors where that is possible: below it, making
/// a file costs more than copying.
const DESCRIPTOR_BYTES_MIN: usize = 64 << 10;
/// How long a version is believed: clamd loads new signatures at any time.
const VERSION_AGE_MAX: Duration = Duration::from_secs(30);
/// clamd closes a session after `IdleTimeout`, 30 s by default.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Files of one session: clamd counts them in one number, and its memory is freed at the end.
const FILES_PER_SESSION_MAX: u32 = 1_000;

/// How files get to clamd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// All files as a stream over the connection (`INSTREAM`).
    Stream,
    /// Large ones as descriptors if the socket is a unix socket, the rest as a stream.
    Auto,
}

/// An engine that queries clamd, ClamAV's daemon.
#[derive(Debug)]
pub struct Clamd {
    connections: ConnectionPool,
    transfer: Transfer,
    /// Set once it refused a descriptor, as AppArmor may have it do.
    refuses_descriptors: AtomicBool,
    version: Mutex<Option<(String, Instant)>>,
}

impl Clamd {
    /// The daemon at this address, queried over at most so many connections.
    pub fn new(address: EngineAddress, connections_max: usize, transfer: Transfer) -> Self {
        Clamd {
            connections: ConnectionPool::new(address, connections_max, IDLE_MAX),
            transfer,
            refuses_descriptors: AtomicBool::new(false),
            version: Mutex::default(),
        }
    }

    /// Asks one thing in a session. The answer comes without the number of the request.
    fn ask(
        &self,
        until: Instant,
        request: impl Fn(&mut Connection) -> io::Result<()>,
    ) -> io::Result<String> {
        self.connections.with(until, |connection| {
            if connection.requests == 1 {
                connection.write_all(b"zIDSESSION\0")?;
            }
            // One that refuses a file closes while we still write; its reason can be read then.
            let closed = match request(connection) {
                Ok(()) => None,
                // One that refuses a file closes while we still write; its reason can be read then.
                Err(error) if is_closed(&error) => Some(error),
                Err(error) => return Err(error),
            };
            let answer = read_until(connection, 0, ANSWER_BYTES_MAX);
            let answer = answer.map_err(|error| closed.unwrap_or(error))?;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let (text, is_ours) = match answer.split_once(": ") {
                Some((number, text)) if number.parse() == Ok(connection.requests) => (text, true),
                // Errors of the session have no number.
                _ => (answer.as_str(), false),
            };
            let keep =
                is_ours && !text.ends_with("ERROR") && connection.requests < FILES_PER_SESSION_MAX;
            Ok((text.trim_end().to_owned(), keep))
        })
    }

    fn stream(&self, bytes: &[u8], until: Instant) -> io::Result<String> {
        self.ask(until, |connection| {
            connection.write_all(b"zINSTREAM\0")?;
            for chunk in bytes.chunks(CHUNK_BYTES) {
                let length = u32::try_from(chunk.len()).unwrap_or(0);
                connection.write_all(&length.to_be_bytes())?;
                connection.write_all(chunk)?;
            }
            connection.write_all(&[0; 4])
        })
    }

    /// Sends an open file. None if this connection cannot carry one.
    fn descriptor(&self, bytes: &[u8], until: Instant) -> io::Result<String> {
        let mut file = File::from(memfd_create("object", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        self.ask(until, |connection| {
            connection.write_all(b"zFILDES\0")?;
            let socket = connection.unix_socket().ok_or(io::ErrorKind::Unsupported)?;
            let files = [file.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&files));
            sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
            Ok(())
        })
    }

    fn known_version(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_unix(&self) -> bool {
        matches!(self.connections.address(), EngineAddress::Unix(_))
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// What an answer says: `stream: OK`, `stream: Eicar-Signature FOUND`, `fd[10]: ... ERROR`.
///
/// # Errors
/// [`EngineError::Failed`] for an error, and for what is no answer.
pub fn answer(text: &str) -> Result<Answer, EngineError> {
    let status = text.split_once(": ").map_or(text, |(_, status)| status);
    if status == "OK" {
        return Ok(Answer::Clean);
    }
    if let Some(name) = status.strip_suffix(" FOUND") {
        return Ok(Answer::Found(vec![name.to_owned()]));
    }
    if text.contains("size limit exceeded") {
        return Ok(Answer::TooLarge);
    }
    let status: String = status.chars().take(120).collect();
    Err(EngineError::Failed(format!("clamd answers {status:?}")))
}

impl Engine for Clamd {
    fn version(&self, until: Instant) -> Result<String, EngineError> {
        if let Some((version, at)) = &*self.known_version()
            && at.elapsed() < VERSION_AGE_MAX
        {
            return Ok(version.clone());
        }
        // Queried without the lock: whoever waits for a daemon that hangs waits for its own time
        // only.
        let version = self.ask(until, |connection| connection.write_all(b"zVERSION\0"))?;
        if !version.starts_with("ClamAV") {
            // What is no clamd, or one that is being reloaded, gets no files.
            let start: String = version.chars().take(120).collect();
            return Err(EngineError::Unreachable(format!("clamd answers VERSION with {start:?}")));
        }
        *self.known_version() = Some((version.clone(), Instant::now()));
        Ok(version)
    }

    fn scan(&self, item: &EngineItem<'_>, until: Instant) -> Result<Answer, EngineError> {
        let by_descriptor = self.transfer == Transfer::Auto
            && self.is_unix()
            && item.bytes.len() >= DESCRIPTOR_BYTES_MIN
            && !self.refuses_descriptors.load(Ordering::Relaxed);
        if by_descriptor {
            match answer(&self.descriptor(item.bytes, until)?) {
                Err(EngineError::Failed(_)) => {
                    self.refuses_descriptors.store(true, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        answer(&self.stream(item.bytes, until)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(answer("stream: OK"), Ok(Answer::Clean));
        let found = Answer::Found(vec!["Eicar-Signature".to_owned()]);
        assert_eq!(answer("stream: Eicar-Signature FOUND"), Ok(found.clone()));
        assert_eq!(answer("fd[10]: Eicar-Signature FOUND"), Ok(found));
        assert_eq!(answer("INSTREAM size limit exceeded. ERROR"), Ok(Answer::TooLarge));
        for bad in ["", "rubbish", "stream: Can't allocate memory ERROR", "stream: NOT OK"] {
            assert!(matches!(answer(bad), Err(EngineError::Failed(_))), "{bad:?}");
        }
    }
}
