//! Connections to engines that run as servers: TCP or a unix socket, each step within a time limit,
//! kept open for the next file.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Time between two attempts to connect to a unix socket whose backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that are received at a time.
const RECEIVE_BYTES: usize = 4_096;
/// Time for one attempt to connect over TCP.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// Where an engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAddress {
    /// `host:port`; the host is a name or an address.
    Tcp(String),
    /// Path of a socket.
    Unix(PathBuf),
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an absolute path of a socket nor host:port")]
pub struct AddressError(String);

impl FromStr for EngineAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let port = text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        match port {
            _ if text.starts_with('/') => Ok(EngineAddress::Unix(text.into())),
            Some((host, Ok(_))) if !host.is_empty() => Ok(EngineAddress::Tcp(text.to_owned())),
            _ => Err(AddressError(text.to_owned())),
        }
    }
}

/// An open connection. Reads and writes end at [`Connection::until`].
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    until: Instant,
    /// Requests that were sent over it.
    pub requests: u32,
    /// When the last one was answered.
    used: Instant,
    /// What was received and not read yet.
    received: Vec<u8>,
    read: usize,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    fn open(address: &EngineAddress, until: Instant) -> io::Result<Self> {
        let stream = match address {
            EngineAddress::Tcp(address) => Stream::Tcp(open_tcp(address, until)?),
            EngineAddress::Unix(path) => Stream::Unix(open_unix(path, until)?),
        };
        let (used, received) = (Instant::now(), Vec::new());
        Ok(Connection { stream, until, requests: 0, used, received, read: 0 })
    }

    /// The socket, if descriptors can be sent over it.
    pub(super) fn unix_socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.stream {
            Stream::Unix(stream) => Some(stream.as_fd()),
            Stream::Tcp(_) => None,
        }
    }

    /// Has what follows end at another time.
    pub(super) fn set_end(&mut self, until: Instant) {
        self.until = until;
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Reads until a byte, which is not part of the result.
///
/// # Errors
/// The reader's; [`io::ErrorKind::UnexpectedEof`] if it ends before;
/// [`io::ErrorKind::InvalidData`] if more than `bytes_max` come before.
pub(super) fn read_until(from: &mut impl Read, end: u8, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        from.read_exact(&mut byte)?;
        if byte[0] == end {
            return Ok(line);
        }
        if line.len() >= bytes_max {
            let why = "the engine's answer is too long";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        line.push(byte[0]);
    }
}

fn open_tcp(address: &str, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in address.to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now()).min(CONNECT_TIME_MAX);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A blocking connect would wait without an end while the server's backlog is full.
fn open_unix(path: &std::path::Path, until: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    loop {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(rustix::io::Errno::AGAIN) if Instant::now() + BACKLOG_PAUSE < until => {
                std::thread::sleep(BACKLOG_PAUSE);
            }
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Connection {
    /// Receives what is there, at least one byte.
    fn receive(&mut self) -> io::Result<()> {
        let left = Some(self.left()?);
        self.received.resize(RECEIVE_BYTES, 0);
        // Nothing of it is to be read if receiving fails.
        self.read = RECEIVE_BYTES;
        let got = match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(&mut self.received)?
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(&mut self.received)?
            }
        };
        self.received.truncate(got);
        self.read = 0;
        if got == 0 {
            let why = "the engine closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read >= self.received.len() {
            self.receive()?;
        }
        let mut waiting = &self.received[self.read..];
        let got = waiting.read(buffer)?;
        self.read += got;
        Ok(got)
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(buffer)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(buffer)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connections to one engine.
#[derive(Debug)]
pub struct ConnectionPool {
    address: EngineAddress,
    connections_max: usize,
    idle_max: Duration,
    state: Mutex<PoolState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    idle: Vec<Connection>,
    open: usize,
}

impl ConnectionPool {
    /// At most so many connections; one that was idle for longer than `idle_max` is not used again,
    /// since the server may just be closing it.
    pub fn new(address: EngineAddress, connections_max: usize, idle_max: Duration) -> Self {
        ConnectionPool {
            address,
            connections_max: connections_max.max(1),
            idle_max,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Where the engine listens.
    pub fn address(&self) -> &EngineAddress {
        &self.address
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something over a connection. One that was kept and turns out to be dead is replaced
    /// once. `run` says whether the connection can be used again.
    ///
    /// # Errors
    /// Those of `run` and of connecting.
    pub fn with<T>(
        &self,
        until: Instant,
        mut run: impl FnMut(&mut Connection) -> io::Result<(T, bool)>,
    ) -> io::Result<T> {
        loop {
            let mut connection = self.take(until)?;
            connection.set_end(until);
            let was_kept = connection.requests > 0;
            connection.requests += 1;
            match run(&mut connection) {
                Ok((value, keep)) => {
                    self.give_back(connection, keep);
                    return Ok(value);
                }
                Err(error) => {
                    self.give_back(connection, false);
                    let died = matches!(
                        error.kind(),
                        io::ErrorKind::UnexpectedEof
                            | io::ErrorKind::BrokenPipe
                            | io::ErrorKind::ConnectionReset
                    );
                    if !(was_kept && died) {
                        return Err(error);
                    }
                    // The server was restarted: its other connections are dead, too.
                    self.drop_idle();
                }
            }
        }
    }

    fn take(&self, until: Instant) -> io::Result<Connection> {
        let mut state = self.state();
        loop {
            while let Some(connection) = state.idle.pop() {
                if connection.used.elapsed() < self.idle_max {
                    return Ok(connection);
                }
                state.open -= 1;
            }
            if state.open < self.connections_max {
                state.open += 1;
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        Connection::open(&self.address, until).inspect_err(|_| {
            self.state().open -= 1;
            self.freed.notify_one();
        })
    }

    fn give_back(&self, mut connection: Connection, keep: bool) {
        let mut state = self.state();
        if keep {
            connection.used = Instant::now();
            state.idle.push(connection);
        } else {
            state.open -= 1;
        }
        drop(state);
        self.freed.notify_one();
    }

    fn drop_idle(&self) {
        let mut state = self.state();
        state.open -= state.idle.len();
        state.idle.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::EngineError;
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("/run/a.ctl".parse(), Ok(EngineAddress::Unix("/run/a.ctl".into())));
        assert_eq!("[::1]:3310".parse(), Ok(EngineAddress::Tcp("[::1]:3310".to_owned())));
        for bad in ["", "host", ":1", "host:port", "host:70000"] {
            assert!(bad.parse::<EngineAddress>().is_err(), "{bad}");
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    /// A server that answers one byte and closes, so many times.
    fn server(times: usize) -> EngineAddress {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for _ in 0..times {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0]).unwrap();
                stream.write_all(b"x").unwrap();
            }
        });
        EngineAddress::Tcp(address)
    }

    #[test]
    fn a_dead_connection_is_replaced() {
        let pool = ConnectionPool::new(server(2), 1, Duration::from_secs(20));
        let ask = |connection: &mut Connection| {
            connection.write_all(b"?")?;
            let mut answer = [0];
            connection.read_exact(&mut answer)?;
            Ok((answer[0], true))
        };
        assert_eq!(pool.with(soon(), ask).unwrap(), b'x');
        assert_eq!(pool.with(soon(), ask).unwrap(), b'x', "the first was closed by the server");
        let gone = pool.with(soon(), ask).unwrap_err();
        assert_ne!(gone.kind(), io::ErrorKind::TimedOut, "{gone}");
        assert_eq!(pool.state().open, 0);
    }

    #[test]
    fn a_silent_server_costs_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = EngineAddress::Tcp(listener.local_addr().unwrap().to_string());
        let pool = ConnectionPool::new(address, 1, Duration::from_secs(20));
        let until = Instant::now() + Duration::from_millis(30);
        let answer = pool.with(until, |c| Ok((read_until(c, 0, 10)?, true))).unwrap_err();
        assert_eq!(EngineError::from(answer), EngineError::OutOfTime);
    }

    #[test]
    fn more_callers_than_connections_wait() {
        let pool = ConnectionPool::new(server(1), 1, Duration::from_secs(20));
        let taken = pool.take(soon()).unwrap();
        let soon_over = Instant::now() + Duration::from_millis(30);
        assert_eq!(pool.take(soon_over).unwrap_err().kind(), io::ErrorKind::TimedOut);
        pool.give_back(taken, true);
        assert!(pool.take(soon()).is_ok());
    }
}
