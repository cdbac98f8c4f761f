//! Serving the HTTP services: reads a request, lets its protocol answer it, writes the answer.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::{ServiceContext, api, http, rspamd};
use crate::config::ServiceProtocol;
use crate::inbound::admission::Admitted;
use crate::wire::Wire;

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header fields of a request.
const FIELDS_MAX: usize = 100;

/// Answers the requests of one connection.
pub(super) async fn serve(
    wire: Wire,
    client: Option<IpAddr>,
    context: &Arc<ServiceContext>,
    admitted: &Admitted,
) -> io::Result<()> {
    let service = hyper::service::service_fn(move |request| async move {
        Ok::<_, std::convert::Infallible>(answer(request, client, context, admitted).await)
    });
    // A client that does not send a request, or does not read its answer, may be evicted for
    // others.
    admitted.wait();
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.io_timeout())
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(wire), service);
    tokio::pin!(connection);
    let mut stopping = context.stopping.clone();
    tokio::select! {
        served = &mut connection => return served.map_err(io::Error::other),
        () = admitted.evicted() => return Err(io::ErrorKind::TimedOut.into()),
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(io::Error::other)
}

async fn answer(
    request: Request<Incoming>,
    client: Option<IpAddr>,
    context: &ServiceContext,
    admitted: &Admitted,
) -> Response<Full<Bytes>> {
    let takes_zstd = ["accept-encoding", "compression"].iter().any(|name| {
        let values = request.headers().get_all(*name).iter();
        values.filter_map(|v| v.to_str().ok()).any(|v| v.contains("zstd"))
    });
    let mut memory = context.memory_of(client);
    let read =
        tokio::time::timeout_at(context.request_end(), http::read(request, context, &mut memory));
    let read = read.await.unwrap_or_else(|_| {
        let hint = "send it faster, or raise service.request_seconds_max";
        Err(http::Answer::error(StatusCode::REQUEST_TIMEOUT, "the body did not come", hint))
    });
    // A connection that was evicted is closed by the task that serves it.
    let _stays = admitted.work();
    let answer = match read {
        Ok(asked) if context.settings.protocol == ServiceProtocol::Http => {
            api::answer(asked, client, context).await
        }
        Ok(asked) => rspamd::answer(asked, client, context).await,
        Err(refusal) => refusal,
    };
    admitted.progress();
    admitted.wait();
    let mut response = Response::builder()
        .status(answer.status)
        .header(header::CONTENT_TYPE, answer.kind)
        .header(header::SERVER, "gauntlet");
    let mut body = answer.body;
    if takes_zstd && answer.status == StatusCode::OK && answer.kind == "application/json" {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        body = ruzstd::encoding::compress_to_vec(body.as_slice(), level);
        // rspamd's clients read either of them.
        response = response.header(header::CONTENT_ENCODING, "zstd").header("Compression", "zstd");
    }
    if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&answer.status) {
        response = response.header(header::RETRY_AFTER, "10");
    }
    let body = Full::new(Bytes::from(body));
    response.body(body).unwrap_or_else(|_| Response::new(Full::default()))
}
