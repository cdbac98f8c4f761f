//! A long way between a node of a test and a server: what passes arrives later, both ways, and how
//! often the node had to wait for the other side is counted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The way to a port of this machine. It is cut when this is dropped.
pub(crate) struct FarWay {
    /// Its own port on 127.0.0.1.
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// One way.
    delay: Duration,
    connections: Mutex<Vec<Arc<Crossing>>>,
    ended: AtomicBool,
}

/// A connection over it.
struct Crossing {
    streams: [TcpStream; 2],
    opened: Instant,
    /// The last that arrived at the node is an answer: what it sends next it sends after a wait.
    answered: AtomicBool,
    trips: AtomicU64,
}

impl FarWay {
    /// A way on which everything takes so long, each way.
    pub(crate) fn to(port: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = listener.local_addr().unwrap().port();
        let (connections, ended) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { delay, connections, ended });
        let way = FarWay { port: own, shared: shared.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let _the_client_sees_it_end = shared.open(client, port);
            }
        });
        way
    }

    /// Round trips of all connections so far, the opening of each among them: how often something
    /// was sent that had to wait for an answer.
    pub(crate) fn trips(&self) -> u64 {
        let connections = self.shared.connections.lock().unwrap();
        connections.iter().map(|crossing| 1 + crossing.trips.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for FarWay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for crossing in self.shared.connections.lock().unwrap().iter() {
            crossing.cut();
        }
        let _it_looks = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn open(&self, client: TcpStream, port: u16) -> std::io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", port))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let crossing = Arc::new(Crossing {
            streams: [client, server],
            opened: Instant::now(),
            answered: AtomicBool::new(true),
            trips: AtomicU64::new(0),
        });
        self.connections.lock().unwrap().push(crossing.clone());
        for to_server in [true, false] {
            let (sender, receiver) = channel();
            let (reading, writing, delay) = (crossing.clone(), crossing.clone(), self.delay);
            std::thread::spawn(move || reading.read(to_server, delay, &sender));
            std::thread::spawn(move || writing.write(to_server, &receiver));
        }
        Ok(())
    }
}

impl Crossing {
    /// Takes what one side sends, and when it is to arrive.
    fn read(&self, to_server: bool, delay: Duration, sent: &Sender<(Instant, Vec<u8>)>) {
        let mut buffer = vec![0; 65_536];
        loop {
            let count = (&self.streams[usize::from(!to_server)]).read(&mut buffer).unwrap_or(0);
            if to_server && count > 0 && self.answered.swap(false, Ordering::Relaxed) {
                self.trips.fetch_add(1, Ordering::Relaxed);
            }
            // A client over a long way waits for the server's word before it sends anything.
            let earliest = if to_server { self.opened + 2 * delay } else { self.opened };
            let due = Instant::now().max(earliest) + delay;
            if sent.send((due, buffer[..count].to_vec())).is_err() || count == 0 {
                return;
            }
        }
    }

    /// Hands it to the other side then; nothing is the end.
    fn write(&self, to_server: bool, sent: &Receiver<(Instant, Vec<u8>)>) {
        for (due, bytes) in sent {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if !to_server {
                self.answered.store(true, Ordering::Relaxed);
            }
            let written = (&self.streams[usize::from(to_server)]).write_all(&bytes);
            if bytes.is_empty() || written.is_err() {
                return self.cut();
            }
        }
    }

    fn cut(&self) {
        for stream in &self.streams {
            let _it_may_be_closed = stream.shutdown(Shutdown::Both);
        }
    }
}
