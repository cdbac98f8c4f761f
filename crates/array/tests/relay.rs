//! A TCP relay of a test, between a node and a server of its array: what passes can be held back as
//! by a broken network, cut, or delayed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

/// How the network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Everything passes.
    Open,
    /// Nothing passes, and nobody is told: connections stay, as in a partition.
    Held,
    /// Connections end, and new ones do at once.
    Cut,
}

/// A relay to a port of this machine; ends when it is dropped.
pub(crate) struct Relay {
    /// Its own port on 127.0.0.1.
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    line: AtomicU8,
    /// Before each piece towards the server.
    delay_ms: AtomicU64,
    /// Pieces towards the server until one fails; 0 for none that does.
    fails_in: AtomicU64,
    /// The piece that fails arrives, and what comes back is lost.
    arrives: AtomicBool,
    ended: AtomicBool,
    to: AtomicU16,
    /// Pieces that went towards the server.
    pieces: AtomicU64,
}

/// How often a copier looks whether the line is still open.
const LOOK: Duration = Duration::from_millis(50);

impl State {
    fn line(&self) -> Line {
        match self.line.load(Ordering::Relaxed) {
            0 => Line::Open,
            1 => Line::Held,
            _ => Line::Cut,
        }
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.load(Ordering::Relaxed))
    }

    /// Waits while nothing passes; false if the line is cut.
    fn passes(&self) -> bool {
        while self.line() == Line::Held {
            std::thread::sleep(LOOK);
        }
        self.line() == Line::Open
    }
}

impl Relay {
    /// A relay to this port.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            line: AtomicU8::new(0),
            delay_ms: AtomicU64::new(0),
            fails_in: AtomicU64::new(0),
            arrives: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            to: AtomicU16::new(port),
            pieces: AtomicU64::new(0),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let state = shared.clone();
                std::thread::spawn(move || state.serve(client));
            }
        });
        Relay { port: own, state }
    }

    /// Makes the line so, for connections that are open, too.
    pub(crate) fn set(&self, line: Line) {
        self.state.line.store(line as u8, Ordering::Relaxed);
    }

    /// From now on each piece towards the server waits so long: 0 for not at all.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn delay(&self, delay: Duration) {
        let ms = u64::try_from(delay.as_millis()).unwrap();
        self.state.delay_ms.store(ms, Ordering::Relaxed);
    }

    /// Pieces towards the server so far: one or more statements each, and no fewer than times that
    /// somebody waited for an answer.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn pieces(&self) -> u64 {
        self.state.pieces.load(Ordering::Relaxed)
    }

    /// The connection that sends the piece of this number, counted over all connections from now
    /// on, ends there: before the piece arrives, or after it, so that only the answer is lost. 0
    /// for never.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn fail_in(&self, pieces: u64, arrives: bool) {
        self.state.arrives.store(arrives, Ordering::Relaxed);
        self.state.fails_in.store(pieces, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Line::Cut);
        self.state.ended.store(true, Ordering::Relaxed);
        let _it_looks = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn serve(self: Arc<Self>, client: TcpStream) {
        if !self.passes() {
            return;
        }
        let to = self.to.load(Ordering::Relaxed);
        let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { return };
        for stream in [&client, &server] {
            let _a_slow_test_otherwise = stream.set_nodelay(true);
            let _it_would_never_look = stream.set_read_timeout(Some(LOOK));
        }
        let (Ok(from), Ok(into)) = (client.try_clone(), server.try_clone()) else { return };
        let back = self.clone();
        let copier = std::thread::spawn(move || back.copy(server, client, false));
        self.copy(from, into, true);
        let _it_ends_too = copier.join();
    }

    /// Whether this piece is the one that fails.
    fn fails(&self) -> bool {
        let counted = |n: u64| n.checked_sub(1);
        let before = self.fails_in.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
        before == Ok(1)
    }

    /// Copies one way; `to_server` towards the server.
    fn copy(&self, mut from: TcpStream, mut to: TcpStream, to_server: bool) {
        let mut buffer = [0; 65_536];
        while self.passes() {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    if to_server && self.fails() {
                        let _it_is_closed_below = from.shutdown(Shutdown::Both);
                        if self.arrives.load(Ordering::Relaxed) {
                            let _it_fails_anyway = to.write_all(&buffer[..count]);
                        }
                        // The server does what arrived, and then sees the end.
                        let _it_may_be_closed = to.shutdown(Shutdown::Write);
                        return;
                    }
                    if to_server {
                        self.pieces.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(self.delay());
                    }
                    if !self.passes() || to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                Err(error)
                    if [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut]
                        .contains(&error.kind()) => {}
                Err(_) => break,
            }
        }
        for stream in [&from, &to] {
            let _it_may_be_closed = stream.shutdown(Shutdown::Both);
        }
    }
}
