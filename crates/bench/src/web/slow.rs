//! Slow clients beside those that are measured: each sends a request byte by byte, and takes the
//! answer byte by byte. They show whether a server spends more on who is slow.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

/// How often each of them moves by a byte.
const TICK: Duration = Duration::from_millis(100);
/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// What became of slow clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SlowCounts {
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that could not be.
    pub refused: u64,
    /// Closed by the server before the end.
    pub closed: u64,
    /// Still open at the end.
    pub held: u64,
}

/// Slow clients that run.
#[derive(Debug)]
pub struct SlowClients {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<SlowCounts>,
}

struct Slow {
    stream: TcpStream,
    sent: usize,
}

impl SlowClients {
    /// Starts so many, all in one thread.
    pub fn start(server: SocketAddr, count: usize, request: Vec<u8>) -> SlowClients {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || drive(server, count, &request, &stopped));
        SlowClients { stop, thread }
    }

    /// Ends them; what became of them.
    ///
    /// # Errors
    /// If their thread panicked, which it cannot.
    pub fn stop(self) -> anyhow::Result<SlowCounts> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread of slow clients failed"))
    }
}

fn drive(server: SocketAddr, count: usize, request: &[u8], stop: &AtomicBool) -> SlowCounts {
    let mut counts = SlowCounts::default();
    let mut clients = Vec::new();
    while clients.len() + (counts.refused as usize) < count && !stop.load(Ordering::Relaxed) {
        let opened = TcpStream::connect_timeout(&server, CONNECT_MAX);
        match opened.and_then(|stream| stream.set_nonblocking(true).map(|()| stream)) {
            Ok(stream) => {
                counts.opened += 1;
                clients.push(Slow { stream, sent: 0 });
            }
            Err(_) => counts.refused += 1,
        }
    }
    while !stop.load(Ordering::Relaxed) {
        let before = clients.len();
        clients.retain_mut(|client| client.step(request));
        counts.closed += (before - clients.len()) as u64;
        std::thread::sleep(TICK);
    }
    counts.held = clients.len() as u64;
    counts
}

impl Slow {
    /// One byte further; false if the server has closed the connection.
    fn step(&mut self, request: &[u8]) -> bool {
        let mut byte = [0];
        let moved = match request.get(self.sent..=self.sent) {
            Some(next) => self.stream.write(next).inspect(|_| self.sent += 1),
            None => self.stream.read(&mut byte),
        };
        match moved {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}
