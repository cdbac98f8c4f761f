//! The first bytes of a tunnel, which say what it carries.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::client_hello::{READ_BYTES_MAX, Reading, read};

/// Bytes read at once from a server that speaks first.
const SERVER_BYTES: usize = 4096;

/// Who spoke first, and what.
#[derive(Debug)]
pub(crate) enum First {
    /// The client: these bytes, and what they are. None if it only ended its side.
    Client(Vec<u8>, Reading),
    /// The server: so it is no TLS.
    Server(Vec<u8>),
    /// Nobody, for the time limit.
    Nobody,
}

/// Reads until it is known what the client begins with, or the server speaks.
///
/// Nothing may come for `idle_max`; once the client has begun, its ClientHello has `hello_max`.
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
        return First::Client(bytes, Reading::NotTls);
    }
    let reading = timeout(hello_max, rest(client, &mut bytes)).await;
    First::Client(bytes, reading.unwrap_or(Reading::Malformed("it did not come in time")))
}

/// Reads on while more is needed.
async fn rest<C: AsyncRead + Unpin>(client: &mut C, bytes: &mut Vec<u8>) -> Reading {
    loop {
        match read(bytes) {
            Reading::NeedsMore if bytes.len() >= READ_BYTES_MAX => {
                return Reading::Malformed("it is too large");
            }
            Reading::NeedsMore => {}
            known => return known,
        }
        if !client.read_buf(bytes).await.is_ok_and(|n| n > 0) {
            return Reading::Malformed("it ended too early");
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
        client.write_all(b"SSH-2.0-x").await.unwrap();
        let said = first(&mut a, Some(&mut b), LONG, LONG).await;
        assert!(matches!(said, First::Client(bytes, Reading::NotTls) if bytes == b"SSH-2.0-x"));
        server.write_all(b"220 ready").await.unwrap();
        let said = first(&mut a, Some(&mut b), LONG, LONG).await;
        assert!(matches!(said, First::Server(bytes) if bytes == b"220 ready"));
        let said = first(&mut a, Some(&mut b), SHORT, LONG).await;
        assert!(matches!(said, First::Nobody));
    }

    #[tokio::test]
    async fn a_hello_that_does_not_come_or_ends_early_is_malformed() {
        let (mut client, mut a) = duplex(64);
        client.write_all(&[22, 3, 1]).await.unwrap();
        let said = first(&mut a, None::<&mut &[u8]>, LONG, SHORT).await;
        assert!(matches!(said, First::Client(_, Reading::Malformed(_))), "{said:?}");
        client.write_all(&[22, 3, 1]).await.unwrap();
        drop(client);
        let said = first(&mut a, None::<&mut &[u8]>, LONG, LONG).await;
        assert!(matches!(said, First::Client(_, Reading::Malformed(_))), "{said:?}");
    }
}
