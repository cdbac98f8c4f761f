//! One request from its header to the last byte of the answer: what the log and the counters get.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::{Request, Response, Uri, Version};
use tokio::time::Instant;

use crate::access_log::{AccessLog, AccessRecord, Outcome, Peer, version_name};
use crate::body::{AnyBody, BodyError};
use crate::client::{Busy, Client};
use crate::counters::Counters;
use crate::meter::Metered;
use crate::refusal::Refusal;
use crate::request::without_user;

/// What inspectors say of a request's bodies, for its record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, mut more: Vec<String>) {
        if let Ok(mut notes) = self.0.lock() {
            notes.append(&mut more);
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        self.0.lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default()
    }
}

/// A request in progress. It is logged when dropped: whoever leaves early is logged, too.
pub(crate) struct Exchange {
    pub(crate) record: AccessRecord,
    pub(crate) bytes_in: Arc<AtomicU64>,
    pub(crate) notes: Notes,
    /// What it uses is counted.
    pub(crate) metered: Option<Metered>,
    /// Who ended it early; none: the client did, or the proxy as it stopped.
    pub(crate) cut_by: Option<&'static str>,
    /// What was asked for, until the record has it in canonical form.
    uri: Uri,
    begun: Instant,
    log: Arc<dyn AccessLog>,
    counters: Arc<Counters>,
    _busy: Busy,
}

impl Exchange {
    pub(crate) fn new<B>(
        request: &Request<B>,
        client: &Arc<Client>,
        log: Arc<dyn AccessLog>,
        counters: Arc<Counters>,
        reference: String,
    ) -> Self {
        counters.requests.add(1);
        let (method, version) = (request.method().to_string(), version_name(request.version()));
        let mut record = AccessRecord::begun(client.address, method, version, reference);
        record.user = client.user.as_deref().map(str::to_owned);
        let busy = client.begin(request.version() == Version::HTTP_2);
        let (bytes_in, begun, uri) = (Arc::default(), Instant::now(), request.uri().clone());
        let notes = Notes::default();
        Exchange {
            record,
            bytes_in,
            notes,
            metered: None,
            cut_by: None,
            uri,
            begun,
            log,
            counters,
            _busy: busy,
        }
    }

    /// A request that was not understood is named as it came.
    fn name(&mut self) {
        if self.record.url.is_empty() {
            self.record.url = without_user(&self.uri);
        }
    }

    /// Notes why the request is refused.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        self.name();
        match refusal {
            Refusal::Noted(_, note) => {
                self.record.note = note.as_ref().clone();
                self.record.server_address = note.address.or(self.record.server_address);
            }
            Refusal::Destination(address) => {
                // As of a port that is refused: it is a setting, and no policy, that decided.
                self.record.note.action = "";
                self.notes.add(vec![format!(
                    "{address} is not of the internet, and in none of private_networks \
                     (--allow-network)"
                )]);
            }
            _ => {}
        }
        self.counters.refused(refusal);
        self.record.refusal = Some(refusal.name());
        self.record.rule = refusal.rule().map(str::to_owned);
    }

    /// Notes the address that was connected to, unless it is the next proxy's.
    pub(crate) fn reached(&mut self, address: Option<IpAddr>) {
        if matches!(self.record.peer, Peer::Direct(_)) {
            self.record.server_address = address;
        }
    }

    /// Notes the answer that begins.
    pub(crate) fn answered(&mut self, status: u16, headers: &HeaderMap) {
        self.record.status = status;
        let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        self.record.content_type = content_type.map(str::to_owned);
        self.record.bytes_declared = length(headers);
    }

    /// Notes an end without an answer of HTTP.
    pub(crate) fn ended_refused(&mut self, refusal: &Refusal) {
        self.refused(refusal);
        self.record.status = refusal.status().as_u16();
        self.record.outcome = self.end_of_whole();
    }

    /// How it ends if its answer is sent whole.
    pub(crate) fn end_of_whole(&self) -> Outcome {
        match self.record.refusal {
            None => Outcome::Passed,
            Some(
                "blocked" | "warned" | "client" | "port" | "destination" | "name_mismatch"
                | "method" | "encrypted_hello" | "not_http" | "login" | "login_failed"
                | "login_limit",
            ) => Outcome::Denied,
            Some(_) => Outcome::Failed,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.name();
        self.record.took = self.begun.elapsed();
        let sent = self.bytes_in.load(Ordering::Relaxed);
        self.record.bytes_in += sent;
        self.metered.iter_mut().for_each(|metered| metered.passed(sent));
        self.record.notes = self.notes.take();
        // A refusal says it already.
        if self.record.outcome == Outcome::Aborted && self.record.refusal.is_none() {
            let cut_by = self.cut_by.unwrap_or("the client, or the proxy as it stopped");
            self.record.notes.push(format!("cut by {cut_by}"));
        }
        self.counters.bytes_from_clients.add(self.record.bytes_in);
        self.counters.bytes_to_clients.add(self.record.bytes_out);
        self.log.record(&self.record);
    }
}

/// Bytes of a body by its header.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// The body of an answer on its way to the client; the exchange ends with it.
pub(crate) struct Delivered {
    inner: AnyBody,
    exchange: Option<Exchange>,
    /// By `Content-Length`.
    length: Option<u64>,
    has_failed: bool,
}

/// An answer whose exchange goes on without it: that of a tunnel.
pub(crate) fn detached(response: Response<AnyBody>) -> Response<Delivered> {
    response.map(|inner| Delivered { inner, exchange: None, length: None, has_failed: false })
}

/// Hands the exchange to the body of its answer.
pub(crate) fn deliver(response: Response<AnyBody>, mut exchange: Exchange) -> Response<Delivered> {
    let (parts, inner) = response.into_parts();
    exchange.answered(parts.status.as_u16(), &parts.headers);
    let length = exchange.record.bytes_declared;
    let exchange = Some(exchange);
    Response::from_parts(parts, Delivered { inner, exchange, length, has_failed: false })
}

impl Body for Delivered {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        self.has_failed |= matches!(frame, Some(Err(_)));
        let has_failed = self.has_failed;
        if let Some(exchange) = &mut self.exchange {
            match &frame {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                    exchange.record.bytes_out += bytes;
                    exchange.metered.iter_mut().for_each(|metered| metered.passed(bytes));
                    // hyper does not ask again after trailers, since nothing follows them.
                    if frame.is_trailers() {
                        exchange.record.outcome = exchange.end_of_whole();
                    }
                }
                Some(Err(error)) => {
                    exchange.cut_by = Some("the server");
                    error.downcast_ref().into_iter().for_each(|refusal| exchange.refused(refusal));
                }
                None if !has_failed => exchange.record.outcome = exchange.end_of_whole(),
                None => {}
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        // hyper does not ask again for a body whose length has been sent; one that is inspected
        // does not know its end before it is asked.
        let sent = self.exchange.as_ref().map(|exchange| exchange.record.bytes_out);
        let has_ended = self.inner.is_end_stream() || (sent.is_some() && sent == self.length);
        let is_whole = !self.has_failed && has_ended;
        if let Some(exchange) = self.exchange.as_mut().filter(|_| is_whole) {
            exchange.record.outcome = exchange.end_of_whole();
        }
    }
}
