//! Connections that pass as they are, judged by a name or an address, as CONNECT would be.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::Socket;
use crate::exchange::Exchange;
use crate::refusal::Refusal;
use crate::service::{Service, Tunnel};
use crate::stream::Stream;

/// How long a client may take to close a connection that is refused.
const GOODBYE: Duration = Duration::from_secs(1);

/// Descriptions of alerts (RFC 8446 section 6.2).
const ACCESS_DENIED: u8 = 49;
const DECODE_ERROR: u8 = 50;
const INTERNAL_ERROR: u8 = 80;
/// Content type of a record of TLS: handshake.
const CONTENT_HANDSHAKE: u8 = 22;

/// Judges the connection by this host and port, and passes it on; decrypted if there is an
/// authority for it. `is_named` if the client has said the host.
pub(crate) async fn open(
    socket: Socket<TcpStream>,
    authority: &str,
    is_named: bool,
    service: &Arc<Service>,
) {
    let Some((request, mut exchange)) = begin(&socket, authority, service) else { return };
    match service.intercepted_tunnel(&socket.client, &mut exchange, &request).await {
        Ok((web, server)) => {
            // There is no answer of HTTP; logs have the status that CONNECT would have got.
            exchange.record.status = 200;
            if service.interceptor.is_none() {
                service.counters.tunnels.add(1);
                return service.relay(exchange, Box::new(socket), server).await;
            }
            let client = Arc::clone(&socket.client);
            let server = Some(server);
            let tunnel = Tunnel { exchange, client, web, server, refusal: None, is_named };
            let stream = Box::pin(async { Some(Box::new(socket) as Box<dyn Stream>) });
            (service.carry)(Arc::clone(service), tunnel, stream).await;
        }
        Err(refusal) => end(socket, exchange, &refusal).await,
    }
}

/// Closes the connection.
pub(crate) async fn refuse(
    socket: Socket<TcpStream>,
    authority: &str,
    refusal: &Refusal,
    service: &Arc<Service>,
) {
    if let Some((_, exchange)) = begin(&socket, authority, service) {
        end(socket, exchange, refusal).await;
    }
}

/// The request that an explicit client would have made.
fn begin(
    socket: &Socket<TcpStream>,
    authority: &str,
    service: &Service,
) -> Option<(Request<()>, Exchange)> {
    let request = Request::builder().method(Method::CONNECT).uri(authority).body(()).ok()?;
    let exchange = service.exchange(&request, &socket.client);
    Some((request, exchange))
}

/// Says why in an alert, if the client speaks TLS.
async fn end(mut socket: Socket<TcpStream>, mut exchange: Exchange, refusal: &Refusal) {
    exchange.ended_refused(refusal);
    drop(exchange);
    if socket.replay.first() != Some(&CONTENT_HANDSHAKE) {
        return;
    }
    let description = match refusal {
        Refusal::Malformed(_) => DECODE_ERROR,
        _ if refusal.status().is_client_error() => ACCESS_DENIED,
        _ => INTERNAL_ERROR,
    };
    let goodbye = async {
        socket.stream.write_all(&[21, 3, 3, 0, 2, 2, description]).await?;
        socket.stream.shutdown().await?;
        // Closed with bytes that nobody read, the connection would be reset before the client saw
        // the alert.
        let mut buffer = [0; 1024];
        while socket.stream.read(&mut buffer).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whatever goes wrong, the connection ends.
    let _ = timeout(GOODBYE, goodbye).await;
}
