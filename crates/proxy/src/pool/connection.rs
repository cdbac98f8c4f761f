//! One connection to a server: HTTP/1.1 with one request at a time, or a stream of an HTTP/2
//! connection that others use, too.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::TokioIo;

use crate::body::AnyBody;
use crate::progress::Progress;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::stream::Stream;

/// A connection to a server, for one request.
pub(crate) struct Connection {
    pub(super) sender: Sender,
    pub(crate) progress: Arc<Progress>,
    /// The address at its other end.
    pub(crate) address: Option<IpAddr>,
}

pub(super) enum Sender {
    Http1(http1::SendRequest<AnyBody>),
    Http2(http2::SendRequest<AnyBody>),
}

/// Why there is no response.
pub(crate) enum SendError {
    /// The request never left, and is here again.
    Unsent(Box<Request<AnyBody>>),
    /// It may have reached the server.
    Failed(hyper::Error),
    /// Nothing moved for too long.
    Stalled,
}

impl Connection {
    /// Speaks HTTP/1.1 over a new connection, which lives in a task of its own until it ends or
    /// stalls.
    ///
    /// # Errors
    /// If the first steps fail.
    pub(crate) async fn new(
        stream: impl Stream + 'static,
        settings: &Settings,
    ) -> Result<Self, Refusal> {
        let limits = &settings.limits;
        let address = stream.address();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(limits.header_bytes_max)
            // The buffer may grow beyond by what comes with one read.
            .max_header_size(limits.header_bytes_max)
            .max_headers(limits.header_fields_max)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::Closed)?;
        let wait_max = Duration::from_secs(settings.times.response_seconds_max);
        let progress = Arc::new(Progress::new(wait_max));
        let watch = Arc::clone(&progress);
        tokio::spawn(async move {
            tokio::select! {
                // Whoever waits for the response or its body sees the error, too.
                _ = connection.with_upgrades() => {}
                () = watch.stalled() => {}
            }
        });
        Ok(Connection { sender: Sender::Http1(sender), progress, address })
    }

    /// Sends a request and waits for the header of its response.
    ///
    /// # Errors
    /// With the request itself if none of it was sent.
    pub(crate) async fn send(
        &mut self,
        request: Request<AnyBody>,
    ) -> Result<Response<Incoming>, SendError> {
        let sent = match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(for_http1(request)).await,
            Sender::Http2(sender) => {
                tokio::select! {
                    sent = sender.try_send_request(for_http2(request)) => sent,
                    () = self.progress.stalled() => return Err(SendError::Stalled),
                }
            }
        };
        sent.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request)),
            None => SendError::Failed(error.into_error()),
        })
    }

    /// The server has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// It is a stream of a connection with others.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }
}

/// A request as HTTP/2 has it: the host is part of the URI (RFC 9113 section 8.3.1), and no field
/// is about the connection.
fn for_http2(mut request: Request<AnyBody>) -> Request<AnyBody> {
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(CONNECTION);
    let host = request.headers_mut().remove(HOST);
    let authority = host.and_then(|host| host.to_str().ok()?.parse().ok());
    if let Some(authority) = authority {
        let mut parts = request.uri().clone().into_parts();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(authority);
        // It has a path in this place: the form for HTTP/1.1 was made before.
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// The same for HTTP/1.1, of a request that a connection of HTTP/2 gave back.
fn for_http1(mut request: Request<AnyBody>) -> Request<AnyBody> {
    if request.version() != Version::HTTP_2 {
        return request;
    }
    *request.version_mut() = Version::HTTP_11;
    let host = request.uri().authority().and_then(|a| HeaderValue::try_from(a.as_str()).ok());
    request.headers_mut().extend(host.map(|host| (HOST, host)));
    let path = request.uri().path_and_query().map(|path| path.as_str().parse());
    if let Some(Ok(uri)) = path {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::empty;

    #[test]
    fn a_request_that_comes_back_is_as_it_was() {
        let mut request = Request::new(empty());
        *request.uri_mut() = "/a?b".parse().unwrap();
        request.headers_mut().insert(HOST, HeaderValue::from_static("www.example.com:8443"));
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("TE"));
        let request = for_http2(request);
        assert_eq!(request.uri(), "https://www.example.com:8443/a?b");
        assert!(request.headers().is_empty());
        let request = for_http1(request);
        assert_eq!(
            (request.uri().to_string(), request.version()),
            ("/a?b".to_owned(), Version::HTTP_11)
        );
        assert_eq!(request.headers()[HOST], "www.example.com:8443");
    }
}
