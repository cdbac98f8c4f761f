//! Connections whose clients know nothing of the proxy: a Linux router hands them over.
//!
//! ```text
//! accept ─▶ original destination ─▶ first bytes ─▶ TLS: judged by SNI, tunnel
//!                                                ├▶ HTTP: hyper and the service, as for others
//!                                                └▶ else: closed, or judged by address, tunnel
//! ```
//!
//! The client says a name (SNI, `Host`) and connects to an address, and only it knows whether they
//! belong together. The name is judged; the connection goes to the address, unless the settings say
//! otherwise.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gauntlet_web::settings::Other;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Client, Socket};
use crate::client_hello::{ClientHello, READ_BYTES_MAX};
use crate::connection::serve_socket;
use crate::first_bytes::{Protocol, classify};
use crate::refusal::Refusal;
use crate::request::bracketed;
use crate::service::Service;
use crate::shared::{Now, Shared};
use crate::stop::Phase;

pub(crate) mod socket;
mod tunnel;

/// Takes a connection, if the limits leave a place and a router handed it over.
pub(crate) fn admit(stream: TcpStream, peer: SocketAddr, listener: SocketAddr, shared: &Shared) {
    let address = peer.ip().to_canonical();
    let service = Arc::clone(&shared.service);
    let counters = &service.counters;
    let mode = service.settings.transparent.mode;
    let original = socket::original(&stream, mode, listener).unwrap_or_else(|error| {
        tracing::warn!(%error, client = %address, "the destination of a connection is not known");
        None
    });
    let Some(original) = original else { return counters.not_redirected.add(1) };
    // What it would speak is not known yet, so that there is no page.
    if !shared.takes(address) {
        return counters.refused(&Refusal::Client);
    }
    let Some(place) = shared.admission.take(address) else {
        return counters.connections_dropped.add(1);
    };
    // Without it, small pieces would wait for acknowledgements; an error changes nothing else.
    let _ = stream.set_nodelay(true);
    let times = &service.settings.times;
    let mut client = Client::new(address, times, place, shared.alive.clone());
    client.original = Some(original);
    tokio::spawn(serve(stream, peer, original, Arc::new(client), service));
}

async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    original: SocketAddr,
    client: Arc<Client>,
    service: Arc<Service>,
) {
    let _now = Now::new(&service.counters);
    let wait_max = Duration::from_secs(service.settings.times.header_seconds_max);
    let read = tokio::select! {
        read = timeout(wait_max, first_bytes(&mut stream)) => read,
        () = service.stop.clone().begun(Phase::Ended) => return,
    };
    let Ok(read) = read else { return service.counters.header_timeouts.add(1) };
    let Some((bytes, first)) = read else { return };
    let socket = Socket { stream, client: Arc::clone(&client), replay: bytes.freeze() };
    let is_loop = service.forwarder.is_own(peer);
    let address = format!("{}:{}", bracketed(original.ip()), original.port());
    match first {
        _ if is_loop => tunnel::refuse(socket, &address, &Refusal::Loop, &service).await,
        Protocol::Http => serve_socket(socket, service, None).await,
        Protocol::Tls(hello) => {
            let named = authority(&hello, original);
            let is_named = named.is_some();
            tunnel::open(socket, &named.unwrap_or(address), is_named, &service).await;
        }
        Protocol::Other if service.settings.transparent.other == Other::Tunnel => {
            tunnel::open(socket, &address, false, &service).await;
        }
        Protocol::Other | Protocol::NeedsMore => {
            let refusal = Refusal::Unsupported("this protocol; TLS and HTTP are");
            tunnel::refuse(socket, &address, &refusal, &service).await;
        }
        Protocol::Malformed(why) => {
            tunnel::refuse(socket, &address, &Refusal::Malformed(why), &service).await;
        }
    }
}

/// The name that the client says, and the port that it connected to.
fn authority(hello: &ClientHello, original: SocketAddr) -> Option<String> {
    Some(format!("{}:{}", hello.sni.as_ref()?, original.port()))
}

/// Reads until it is known what the bytes are; none if the connection ends before.
async fn first_bytes(stream: &mut TcpStream) -> Option<(BytesMut, Protocol)> {
    let mut bytes = BytesMut::new();
    while bytes.len() <= READ_BYTES_MAX {
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return None,
        }
        match classify(&bytes) {
            Protocol::NeedsMore => {}
            first => return Some((bytes, first)),
        }
    }
    // Of what begins as a line of text and does not end.
    Some((bytes, Protocol::Malformed("the first bytes say nothing")))
}
