//! Requests out of bytes in memory, read as those of a client's connection are: for tests and
//! fuzzing, which have no other way to what stands between a socket and a judge.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

use crate::body::empty;
use crate::connection::builder;
use crate::headers::prepare_request;
use crate::refusal::Refusal;
use crate::request::WebRequest;
use crate::settings::Settings;
use crate::smuggling;

/// Bytes on their way at once.
const BUFFER_BYTES: usize = 16 * 1024;

/// A request that is not refused, and the header that its server gets.
#[derive(Debug)]
pub struct Accepted {
    /// As a judge sees it.
    pub web: WebRequest,
    /// For the server.
    pub headers: HeaderMap,
}

/// Everything that these bytes ask for, as an explicit proxy, or as the server `original`, and what
/// the client gets.
pub async fn requests(
    bytes: &[u8],
    original: Option<SocketAddr>,
    settings: &Arc<Settings>,
) -> (Vec<Result<Accepted, Refusal>>, Vec<u8>) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let (ours, theirs) = duplex(BUFFER_BYTES);
    let each = {
        let (all, settings) = (Arc::clone(&all), Arc::clone(settings));
        service_fn(move |request: Request<Incoming>| {
            let (all, settings) = (Arc::clone(&all), Arc::clone(&settings));
            async move {
                let read = accept(&request, original, &settings);
                all.lock().unwrap_or_else(PoisonError::into_inner).push(read);
                // Only behind its body does the next request begin.
                let _ = request.into_body().collect().await;
                Ok::<_, Infallible>(Response::new(empty()))
            }
        })
    };
    let builder = builder(settings);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(ours), each);
    let (mut read, mut write) = split(theirs);
    let mut answer = Vec::new();
    let sending = async {
        // The proxy may have closed it before.
        let _ = write.write_all(bytes).await;
        let _ = write.shutdown().await;
    };
    let _ = tokio::join!(served, sending, read.read_to_end(&mut answer));
    let all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    (all, answer)
}

fn accept(
    request: &Request<Incoming>,
    original: Option<SocketAddr>,
    settings: &Settings,
) -> Result<Accepted, Refusal> {
    smuggling::check(request)?;
    let client = IpAddr::from([192, 0, 2, 1]);
    let web = WebRequest::read(client, original, request, settings)?;
    let mut headers = request.headers().clone();
    prepare_request(&mut headers, &web, settings);
    Ok(Accepted { web, headers })
}
