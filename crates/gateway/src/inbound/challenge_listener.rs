//! Where the authority asks for a proof: `GET /.well-known/acme-challenge/TOKEN` (RFC 8555 section
//! 8.3), over plain HTTP. Nothing else is answered, and nothing while there is no order.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::AcmeSettings;
use crate::inbound::admission::{Admission, Admitted, SessionLimits};
use crate::net::acme::Proofs;

/// Path of proofs, before their tokens.
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";
/// A connection that brings no request for so long leaves when others wait.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The port that proofs are asked at.
#[derive(Debug)]
pub struct ChallengeListener {
    listener: TcpListener,
    limits: SessionLimits,
    /// A connection is closed after this, answered or not.
    time_max: Duration,
}

impl ChallengeListener {
    /// Binds it.
    ///
    /// # Errors
    /// The system's, with the setting's name and what to do.
    pub fn bind(settings: &AcmeSettings) -> io::Result<Self> {
        let address = settings.address.as_str();
        let named = |e: io::Error| {
            let hint = crate::inbound::receiver::remediation(&e);
            io::Error::new(e.kind(), format!("acme.address {address}: {e}{hint}"))
        };
        let listener = std::net::TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true)?;
        let own = settings.connections_per_client_max;
        Ok(ChallengeListener {
            listener: TcpListener::from_std(listener)?,
            limits: SessionLimits::of_connections(settings.connections_max, own, IDLE_MIN),
            time_max: Duration::from_secs(settings.seconds_max),
        })
    }

    /// Answers until the node stops.
    pub async fn run(self, proofs: Arc<Proofs>, mut stopping: watch::Receiver<bool>, clock: Clock) {
        let admission = Arc::new(Admission::new(self.limits, clock));
        loop {
            let next = async {
                admission.wait_for_capacity().await;
                self.listener.accept().await
            };
            let accepted = tokio::select! {
                accepted = next => accepted,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // Closed at once if its address has too many: an authority asks from several.
                    let Ok(admitted) = admission.admit(peer.ip(), false, || true) else { continue };
                    let (proofs, time_max) = (proofs.clone(), self.time_max);
                    tokio::spawn(serve(stream, proofs, time_max, admitted));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection at acme.address");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, proofs: Arc<Proofs>, time_max: Duration, admitted: Admitted) {
    admitted.wait();
    let service = hyper::service::service_fn(move |request| {
        let answer = answer(&request, &proofs);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Done, broken off, or too slow: all the same here.
        _ = tokio::time::timeout(time_max, connection) => {}
        () = admitted.evicted() => {}
    }
}

fn answer(request: &Request<Incoming>, proofs: &Proofs) -> Response<Full<Bytes>> {
    let token = request.uri().path().strip_prefix(WELL_KNOWN);
    let proof = token.and_then(|token| proofs.get(token));
    let (status, text) = match proof {
        Some(proof) if *request.method() == Method::GET => (StatusCode::OK, proof),
        _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
