//! What a connection of the client reads and writes: its socket, or TLS over it.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use tokio_rustls::rustls::{ClientConfig, ClientConnection};

use crate::http::ask::Ask;

/// A socket, with TLS over it if there is a session.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) socket: TcpStream,
    session: Option<Box<ClientConnection>>,
}

impl Wire {
    /// A socket without TLS.
    pub(super) fn plain(socket: TcpStream) -> Self {
        Wire { socket, session: None }
    }

    /// Begins TLS with the host of this request, unless it has begun, or the request wants none.
    pub(super) fn secure(
        &mut self,
        ask: &Ask,
        config: Option<&Arc<ClientConfig>>,
    ) -> io::Result<()> {
        let (Some(config), Some(name)) = (config, &ask.server_name) else { return Ok(()) };
        if self.session.is_none() {
            let session = ClientConnection::new(Arc::clone(config), name.clone());
            let session = session.map_err(io::Error::other)?;
            self.session = Some(Box::new(session));
        }
        Ok(())
    }

    /// Whether one read may leave bytes that make no event of their own.
    pub(super) fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Writes what TLS has to say and could not yet.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while session.wants_write() {
            match session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has come; the handshake goes on meanwhile.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(session) = &mut self.session else { return self.socket.read(buffer) };
            match session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            session.process_new_packets().map_err(io::Error::other)?;
            self.flush()?;
        }
    }

    /// Writes; within TLS, what is taken goes out when the handshake has ended and the socket takes
    /// it.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return self.socket.write(bytes) };
        let count = session.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }
}
