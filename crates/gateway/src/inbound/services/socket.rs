//! Where a service listens: an address and port, or a socket of the file system.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};

use crate::config::ServiceSettings;
use crate::inbound::receiver::remediation;
use crate::wire::Wire;

/// What an address begins with that is a path.
const UNIX: &str = "unix:";

/// A socket that is bound.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    /// Binds the address of these settings; with its name as it is shown.
    ///
    /// # Errors
    /// If it cannot be bound; the message names the setting.
    pub(super) fn bind(settings: &ServiceSettings) -> io::Result<(Self, String)> {
        let named = |e: io::Error| {
            let hint = remediation(&e);
            io::Error::new(e.kind(), format!("service.address {}: {e}{hint}", settings.address))
        };
        if let Some(path) = settings.address.strip_prefix(UNIX) {
            let socket = bind_path(Path::new(path), settings.socket_mode).map_err(named)?;
            return Ok((Socket::Unix(socket), settings.address.clone()));
        }
        let addresses = settings.address.to_socket_addrs().map_err(named)?;
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no such address");
        for address in addresses {
            match std::net::TcpListener::bind(address) {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    let socket = TcpListener::from_std(socket)?;
                    let address = socket.local_addr()?.to_string();
                    return Ok((Socket::Tcp(socket), address));
                }
                Err(error) => last = error,
            }
        }
        Err(named(last))
    }

    /// The next connection, and its client if it came over the network.
    pub(super) async fn accept(&self) -> io::Result<(Wire, Option<IpAddr>)> {
        match self {
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Some(peer.ip().to_canonical())))
            }
            Socket::Unix(socket) => Ok((Box::new(socket.accept().await?.0), None)),
        }
    }
}

/// Binds a path. A socket without a listener is replaced; anything else there stays.
fn bind_path(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let stale = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    if stale {
        std::fs::remove_file(path)?;
    }
    // Made with its mode: a sandboxed node may not open a file to others later.
    // SAFETY: takes and gives an integer. Nothing else makes files while a node opens its
    // listeners.
    let before = unsafe { libc::umask(0o777 & !libc::mode_t::from(mode as u16)) };
    let bound = UnixListener::bind(path);
    // SAFETY: the same.
    unsafe { libc::umask(before) };
    bound
}
