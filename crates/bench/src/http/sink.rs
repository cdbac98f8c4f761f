//! An HTTP server that does nothing: it answers every GET with one byte, or with as many as the
//! path says (`/bytes/1000000`, with anything behind a further `/`). It shows what a client can do
//! at most, and is the server behind a proxy.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;
/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Bytes of a body at most.
const BODY_BYTES_MAX: u64 = 1 << 40;
/// Bytes written at once of a long body.
const PIECE_BYTES: usize = 256 << 10;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.";
const LISTENER: Token = Token(usize::MAX);

struct Client {
    stream: TcpStream,
    /// The piece of a request that has come.
    input: Vec<u8>,
    /// Answers that are to be written.
    output: Vec<u8>,
    /// Bytes of a body after it.
    body: u64,
}

/// Answers until the event loop fails.
///
/// # Errors
/// The event loop's.
pub fn serve(listener: std::net::TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
    let (mut events, mut next) = (Events::with_capacity(1_024), 0);
    let (mut buffer, piece) = (vec![0; READ_BYTES], vec![b'.'; PIECE_BYTES]);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut clients, &mut next);
                continue;
            }
            let Token(number) = event.token();
            let Some(client) = clients.get_mut(&number) else { continue };
            let closed = event.is_read_closed() || event.is_error();
            if !client.converse(&mut buffer, &piece, closed).is_ok_and(|open| open) {
                clients.remove(&number);
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    clients: &mut BTreeMap<usize, Client>,
    next: &mut usize,
) {
    // Whatever accept says, out of descriptors included, the next event tries again.
    while let Ok((mut stream, _)) = listener.accept() {
        let both = Interest::READABLE | Interest::WRITABLE;
        let ready = stream.set_nodelay(true);
        let ready = ready.and_then(|()| poll.registry().register(&mut stream, Token(*next), both));
        if ready.is_ok() {
            let client = Client { stream, input: Vec::new(), output: Vec::new(), body: 0 };
            clients.insert(*next, client);
            *next += 1;
        }
    }
}

impl Client {
    /// Reads, answers and writes as far as it goes; false at the end.
    fn converse(&mut self, buffer: &mut [u8], piece: &[u8], closed: bool) -> io::Result<bool> {
        if !self.flush(piece)? {
            return Ok(true);
        }
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            self.take(buffer.get(..count).unwrap_or_default())?;
            if !self.flush(piece)? || (count < buffer.len() && !closed) {
                return Ok(true);
            }
        }
    }

    /// Answers the requests that are whole.
    fn take(&mut self, new: &[u8]) -> io::Result<()> {
        let kept = !self.input.is_empty();
        if kept {
            self.input.extend_from_slice(new);
        }
        let mut rest = if kept { self.input.as_slice() } else { new };
        while let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") {
            match length(rest.get(..end).unwrap_or_default()) {
                None => self.output.extend_from_slice(ANSWER),
                Some(bytes) => {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
                    self.output.extend_from_slice(head.as_bytes());
                    self.body = bytes;
                }
            }
            rest = rest.get(end + 4..).unwrap_or_default();
        }
        let rest = rest.to_vec();
        self.input = rest;
        if self.input.len() > REQUEST_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    /// Writes what is to be written; whether that is all.
    fn flush(&mut self, piece: &[u8]) -> io::Result<bool> {
        loop {
            let long = self.output.is_empty();
            if long && self.body == 0 {
                return Ok(true);
            }
            let now = piece.len().min(usize::try_from(self.body).unwrap_or(usize::MAX));
            let bytes = if long { piece.get(..now).unwrap_or_default() } else { &self.output };
            match self.stream.write(bytes) {
                Ok(count) if long => self.body -= count as u64,
                Ok(count) if count == self.output.len() => self.output.clear(),
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The N of `GET /bytes/N ` and `GET /bytes/N/`.
fn length(request: &[u8]) -> Option<u64> {
    let path = request.strip_prefix(b"GET /bytes/")?;
    let number = path.split(|byte| matches!(byte, b' ' | b'/')).next()?;
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some(number.min(BODY_BYTES_MAX))
}
