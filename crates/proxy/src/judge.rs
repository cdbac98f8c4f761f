//! Who decides: the trait between the forwarding core and lists, policy and scanners.
//!
//! ```text
//! request ─▶ Judge::request ─▶ Allow | Inspect(body) | Block | Redirect
//! address of its host ─▶ Judge::address ─▶ Allow | Block
//! tunnel ─▶ Judge::tls ─▶ Intercept | Bypass | Block
//! response ─▶ Judge::response ─▶ Pass | Inspect(body) | Block
//! ```
//!
//! A judge answers from memory and does not wait: it is called by the thread that serves the
//! client's socket. What needs time (scanning a download) is an [`Inspect`], whose steps are
//! futures.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{HeaderMap, StatusCode, Uri};

use crate::meter::Meter;
pub use crate::reason::{BlockReason, Note, Warning};
use crate::releases::Desk;
use crate::request::WebRequest;

/// What decides about requests and responses.
pub trait Judge: Send + Sync {
    /// Decides before anything is sent to the server. For a tunnel it is all that is ever asked.
    fn request(&self, request: &WebRequest) -> Decision;

    /// Decides about an address that the host of an allowed request was looked up to, before
    /// anything connects to it.
    fn address(&self, request: &WebRequest, address: IpAddr) -> Decision {
        let _ = (request, address);
        Decision::Allow
    }

    /// Decides when the header of the server's response is here.
    fn response(&self, request: &WebRequest, head: &ResponseHead<'_>) -> ResponseDecision {
        let _ = (request, head);
        ResponseDecision::Pass
    }

    /// A number that changes whenever the judge may decide otherwise than before. Other proxies
    /// that keep decisions (ICAP) ask again then.
    fn version(&self) -> u64 {
        0
    }

    /// Counts what a request uses that may pass; none if it counts for nothing.
    fn meter(&self, request: &WebRequest) -> Option<Arc<dyn Meter>> {
        let _ = request;
        None
    }

    /// Changes a request that may pass, before it is sent: its fields, and path and query of its
    /// URI. Where it goes stays as it was judged.
    fn rewrite(&self, request: &WebRequest, headers: &mut HeaderMap, uri: &mut Uri) {
        let _ = (request, headers, uri);
    }

    /// Where people ask for release; none: they cannot.
    fn desk(&self) -> Option<&Arc<Desk>> {
        None
    }

    /// Whether the desk may release what this rule blocks.
    fn is_releasable(&self, rule: &str) -> bool {
        let _ = rule;
        false
    }

    /// Decides whether a tunnel is decrypted, if there is an authority for it. The request is the
    /// CONNECT, with the host that the client names in TLS; [`Judge::request`] has allowed it.
    fn tls(&self, request: &WebRequest) -> TlsDecision {
        let _ = request;
        TlsDecision::Intercept
    }
}

/// What is done with a tunnel that could be decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsDecision {
    /// It is decrypted, and every request in it is judged.
    Intercept,
    /// It passes as it is.
    Bypass,
    /// The client gets a page that says why.
    Block(BlockReason),
}

/// What is done with a request.
pub enum Decision {
    /// It is sent to the server.
    Allow,
    /// It is sent, and its body passes through this. Of a tunnel nothing is inspected.
    Inspect(Box<dyn Inspect>),
    /// The client gets a page that says why.
    Block(BlockReason),
    /// The client is sent to this URI (302).
    Redirect(String),
    /// The client gets a page that says why, and may go on from there.
    Warn(BlockReason, Warning),
    /// A decision, and what the log says about it.
    Noted(Box<Decision>, Note),
}

impl Decision {
    /// The decision itself, and what the log says about it.
    pub fn into_parts(self) -> (Decision, Note) {
        match self {
            Decision::Noted(decision, note) => (*decision, note),
            decision => (decision, Note::default()),
        }
    }
}

/// What is done with a response.
pub enum ResponseDecision {
    /// The client gets it.
    Pass,
    /// The client gets it, and its body passes through this.
    Inspect(Box<dyn Inspect>),
    /// The client gets a page that says why.
    Block(BlockReason),
}

/// The header of a response.
#[derive(Debug)]
pub struct ResponseHead<'a> {
    /// Status of the server.
    pub status: StatusCode,
    /// Fields, without those that concern the connection alone.
    pub headers: &'a HeaderMap,
    /// The server was asked for a part (`Range`).
    pub is_part_asked_for: bool,
}

/// What a body passes through, piece by piece.
///
/// It may hold bytes back, up to `limits.held_bytes_max`: beyond, the body is cut, never passed on
/// unseen. As long as all of a response is held, a block still yields a page; after the first byte
/// has gone, the transfer is cut so that the client sees that it is incomplete.
pub trait Inspect: Send {
    /// Takes the next bytes, and says which may go on.
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step>;

    /// Takes the end, and gives the bytes that were still held ([`Step::Hold`]: none).
    fn end(&mut self) -> BoxFuture<'_, Step>;

    /// Bytes leave as they came, so that `Content-Length` stays true.
    fn keeps_length(&self) -> bool {
        true
    }

    /// [`Inspect::data`] gave some of the bytes only, and is to be called with none for the others
    /// before it gets new ones.
    fn has_more(&self) -> bool {
        false
    }

    /// [`Inspect::end`] gave some of the bytes only, and is to be called again for the others.
    fn is_waiting(&self) -> bool {
        false
    }

    /// What the record of the request is to say, taken once.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// What an inspector says about the next piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These bytes go on.
    Pass(Bytes),
    /// Nothing goes on yet.
    Hold,
    /// Nothing goes on any more.
    Block(BlockReason),
}

/// Allows everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Judge for AllowAll {
    fn request(&self, _request: &WebRequest) -> Decision {
        Decision::Allow
    }
}
