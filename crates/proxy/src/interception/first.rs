//! The first bytes of a tunnel, which say what it carries.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::client_hello::{READ_BYTES_MAX, may_be_tls};
use crate::first_bytes::{Protocol, classify};

/// Bytes read at once from a server that speaks first.
const SERVER_BYTES: usize = 4096;

/// Who spoke first, and what.
#[derive(Debug)]
pub(crate) enum First {
    /// The client: these bytes, and what they are. None if it only ended its side.
    Client(Vec<u8>, Protocol),
    /// The server: so it is no TLS.
    Server(Vec<u8>),
    /// Nobody, for the time limit.
    Nobody,
}

/// Reads until it is known what the client begins with, or the server speaks.
///
/// Nothing may come for `idle_max`; once the client has begun, its ClientHello or the begin of its
/// request has `hello_max`: as something else it would pass unseen if it came slowly.
pub(crate) async fn first<C, S>(
    client: &mut C,
    server: Option<&mut S>,
    idle_max: Duration,
    hello_max: Duration,
) -> First
where
    C: AsyncRead + Unpin,
    S: AsyncRead + Unpin,
{
    let mut bytes = Vec::new();
    let mut from_server = Vec::with_capacity(SERVER_BYTES);
    let read_server = async {
        match server {
            // An error is the relay's to meet again.
            Some(server) => drop(server.read_buf(&mut from_server).await),
            None => std::future::pending().await,
        }
    };
    let begun = tokio::select! {
        // Of what is there at once, the client's bytes say more.
        biased;
        n = client.read_buf(&mut bytes) => n.is_ok_and(|n| n > 0),
        () = read_server => return First::Server(from_server),
        () = tokio::time::sleep(idle_max) => return First::Nobody,
    };
    if !begun {
        return First::Client(bytes, Protocol::Other);
    }
    let said = timeout(hello_max, rest(client, &mut bytes)).await;
    First::Client(bytes, said.unwrap_or(Protocol::Malformed("it did not come in time")))
}

/// Reads on while more is needed.
async fn rest<C: AsyncRead + Unpin>(client: &mut C, bytes: &mut Vec<u8>) -> Protocol {
    loop {
        match classify(bytes) {
            Protocol::NeedsMore if bytes.len() >= READ_BYTES_MAX => {
                return Protocol::Malformed("it is too large");
            }
            Protocol::NeedsMore => {}
            known => return known,
        }
        if !client.read_buf(bytes).await.is_ok_and(|n| n > 0) {
            // No server answers a part of a line.
            return match may_be_tls(bytes) {
                true => Protocol::Malformed("it ended too early"),
                false => Protocol::Other,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn who_speaks_first_says_what_it_is() {
        let ((mut client, mut a), (mut b, mut server)) = (duplex(64), duplex(64));
        client.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        let said = first(&mut a, Some(&mut b), LONG, LONG).await;
        assert!(matches!(said, First::Client(bytes, Protocol::Other) if bytes == b"SSH-2.0-x\r\n"));
        server.write_all(b"220 ready").await.unwrap();
        let said = first(&mut a, Some(&mut b), LONG, LONG).await;
        assert!(matches!(said, First::Server(bytes) if bytes == b"220 ready"));
        let said = first(&mut a, Some(&mut b), SHORT, LONG).await;
        assert!(matches!(said, First::Nobody));
    }

    #[tokio::test]
    async fn a_request_is_known_however_slowly_it_comes() {
        let (mut client, mut a) = duplex(64);
        let writing = async {
            for byte in b"GET /" {
                client.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let (said, ()) = tokio::join!(first(&mut a, None::<&mut &[u8]>, LONG, LONG), writing);
        assert!(matches!(said, First::Client(bytes, Protocol::Http) if bytes == b"GET /"));
        client.write_all(b"GET").await.unwrap();
        let said = first(&mut a, None::<&mut &[u8]>, LONG, SHORT).await;
        assert!(matches!(said, First::Client(_, Protocol::Malformed(_))), "{said:?}");
        client.write_all(b"GET").await.unwrap();
        drop(client);
        let said = first(&mut a, None::<&mut &[u8]>, LONG, LONG).await;
        assert!(matches!(said, First::Client(bytes, Protocol::Other) if bytes == b"GET"));
    }

    #[tokio::test]
    async fn a_hello_that_does_not_come_or_ends_early_is_malformed() {
        let (mut client, mut a) = duplex(64);
        client.write_all(&[22, 3, 1]).await.unwrap();
        let said = first(&mut a, None::<&mut &[u8]>, LONG, SHORT).await;
        assert!(matches!(said, First::Client(_, Protocol::Malformed(_))), "{said:?}");
        client.write_all(&[22, 3, 1]).await.unwrap();
        drop(client);
        let said = first(&mut a, None::<&mut &[u8]>, LONG, LONG).await;
        assert!(matches!(said, First::Client(_, Protocol::Malformed(_))), "{said:?}");
    }
}
