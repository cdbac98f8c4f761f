//! Sockets that get connections which were meant for others.

use std::io;
use std::net::{SocketAddr, TcpListener};

use gauntlet_web::settings::Mode;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::TcpStream;

use crate::destination::canonical;

/// Connections that the system keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// A socket, which does not block, for connections that a router hands over.
///
/// # Errors
/// If the address is taken, or `CAP_NET_ADMIN` is missing for TPROXY.
pub fn listen(address: SocketAddr, mode: Mode) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if mode == Mode::Tproxy {
        let set = match address {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true),
        };
        let needs = |error: &io::Error| format!("TPROXY needs CAP_NET_ADMIN: {error}");
        set.map_err(|error| io::Error::new(error.kind(), needs(&error)))?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The server that the client of this connection connected to; none if it connected to us.
///
/// # Errors
/// If the system does not know.
pub(crate) fn original(
    stream: &TcpStream,
    mode: Mode,
    listener: SocketAddr,
) -> io::Result<Option<SocketAddr>> {
    let local = canonical(stream.local_addr()?);
    let original = match mode {
        Mode::Tproxy => local,
        Mode::Redirect => {
            let socket = SockRef::from(stream);
            let found = match local {
                SocketAddr::V4(_) => socket.original_dst_v4(),
                SocketAddr::V6(_) => socket.original_dst_v6(),
            };
            match found {
                Ok(found) => address(&found)?,
                // The connection is not one that was changed on its way.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    };
    let is_ours = match mode {
        Mode::Redirect => original == local,
        // A listener on all addresses has as many: its port stands for them.
        Mode::Tproxy if listener.ip().is_unspecified() => original.port() == listener.port(),
        Mode::Tproxy => original == canonical(listener),
    };
    Ok((!is_ours).then_some(original))
}

fn address(found: &SockAddr) -> io::Result<SocketAddr> {
    found.as_socket().map(canonical).ok_or_else(|| io::ErrorKind::Unsupported.into())
}
