//! The requests of one connection, or of one decrypted tunnel, from the first to the last.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::time::timeout;

use crate::access_log::AccessRecord;
use crate::client::{Client, Socket, Stage};
use crate::refusal::Refusal;
use crate::service::Service;
use crate::settings::Settings;
use crate::stop::Phase;
use crate::stream::Stream;
use crate::tls::Tunneled;

/// How long a connection that is told to end may take to say so.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves the requests of a connection, or of a decrypted tunnel.
pub(crate) async fn serve_stream(
    stream: impl Stream + 'static,
    client: Arc<Client>,
    service: Arc<Service>,
    tunneled: Option<Arc<Tunneled>>,
) {
    serve_socket(Socket { stream, client, replay: Bytes::new() }, service, tunneled).await;
}

/// The same with a socket of which some bytes were read before.
pub(crate) async fn serve_socket(
    socket: Socket<impl Stream + 'static>,
    service: Arc<Service>,
    tunneled: Option<Arc<Tunneled>>,
) {
    let (counters, client) = (Arc::clone(&service.counters), Arc::clone(&socket.client));
    let builder = builder(&service.settings);
    let (draining, ended) =
        (service.stop.clone().begun(Phase::Draining), service.stop.clone().begun(Phase::Ended));
    let (mut draining, mut ended) = (pin!(draining), pin!(ended));
    let each = {
        let (client, service) = (Arc::clone(&client), Arc::clone(&service));
        service_fn(move |mut request| {
            let (service, client) = (Arc::clone(&service), Arc::clone(&client));
            tunneled.iter().for_each(|tunneled| tunneled.mark(&mut request));
            async move { Ok::<_, Infallible>(service.serve(client, request).await) }
        })
    };
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(socket), each));
    let mut is_draining = false;
    let result = loop {
        tokio::select! {
            result = connection.as_mut() => break result,
            () = draining.as_mut(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            // It comes after the other: until then, each wake would ask both.
            () = ended.as_mut(), if is_draining => return,
            () = client.progress.stalled() => {
                match client.stage() {
                    Stage::Header => counters.header_timeouts.add(1),
                    Stage::Busy(_) => counters.stalled.add(1),
                    Stage::Idle => {}
                }
                connection.as_mut().graceful_shutdown();
                let _ = timeout(GOODBYE, connection).await;
                return;
            }
        }
    };
    if let Err(error) = result
        && error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
    {
        counters.protocol_errors.add(1);
        let is_too_large =
            error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large);
        let refusal = match is_too_large {
            true => Refusal::HeaderTooLarge,
            false => Refusal::Malformed("it could not be read"),
        };
        service.log.record(&AccessRecord::unread(client.address, &refusal));
        tracing::debug!(client = %client.address, %error, "request could not be read");
    }
}

/// HTTP/1 and HTTP/2 (prior knowledge) within the limits. Time limits are [`Client`]'s.
pub(crate) fn builder(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let limits = &settings.limits;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        // Whoever ends their side after a request (`nc -N`) waits for the answer.
        .half_close(true)
        .max_buf_size(limits.header_bytes_max)
        .max_headers(limits.header_fields_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    builder
}
