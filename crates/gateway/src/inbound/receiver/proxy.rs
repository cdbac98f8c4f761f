//! Connections that come by a load balancer: the PROXY header before the conversation.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use gauntlet_smtp::proxy;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A balancer that does not name its client is given up after this.
const HEADER_WAIT: Duration = Duration::from_secs(5);

/// Reads the header off the connection: the client's address, none for the balancer's own checks.
///
/// # Errors
/// If it does not come, or is malformed: then the client is unknown.
pub(super) async fn client(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let read = async {
        let mut head = [0; proxy::HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let bytes = proxy::remaining_bytes(&head).map_err(io::Error::other)?;
        let mut rest = vec![0; bytes];
        stream.read_exact(&mut rest).await?;
        proxy::client(&head, &rest).map_err(io::Error::other)
    };
    match tokio::time::timeout(HEADER_WAIT, read).await {
        Ok(read) => read,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
