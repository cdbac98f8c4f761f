//! A request with its response.

use std::cell::Cell;

use super::decompress::Chain;
use super::multipart::Multipart;
use super::text::without_nul;
use super::uri::Uri;
use super::values::{Authorization, Method, Version};
use crate::window::Window;

/// Progress of a request or response.
pub(super) mod progress {
    pub(crate) const NOT_STARTED: u8 = 0;
    pub(crate) const LINE: u8 = 1;
    pub(crate) const HEADERS: u8 = 2;
    pub(crate) const BODY: u8 = 3;
    pub(crate) const TRAILER: u8 = 4;
    pub(crate) const COMPLETE: u8 = 5;
}

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Coding {
    #[default]
    Unknown,
    NoBody,
    Identity,
    Chunked,
    Invalid,
}

/// A header field as rules see it: of several of one name the values are joined.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
    pub repeated: bool,
}

/// Header fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Headers {
    pub list: Vec<Header>,
    pub repetitions: u32,
}

impl Headers {
    /// The field of this name, whatever the case of letters and zero bytes in it.
    pub(super) fn get(&self, name: &[u8]) -> Option<&Header> {
        self.list.iter().find(|header| {
            header.name.eq_ignore_ascii_case(name)
                || (header.name.contains(&0)
                    && without_nul(&header.name).eq_ignore_ascii_case(name))
        })
    }

    /// The value of the field of this name.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.get(name).map(|header| header.value.as_slice())
    }
}

/// Things that were noticed and become events later.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub invalid_transfer_encoding: bool,
    pub invalid_content_length: bool,
    pub host_missing: bool,
    pub host_ambiguous: bool,
    pub uri_host_invalid: bool,
    pub header_host_invalid: bool,
    pub too_many_headers: bool,
    /// Of odd fields each kind is told once.
    pub field_invalid: bool,
    pub field_unparseable: bool,
    pub invalid_folding: bool,
}

/// A body, as far as it is kept.
#[derive(Default)]
pub(super) struct Body {
    pub window: Window,
    /// Bytes within the limit so far, decoded.
    pub so_far: u64,
    pub inspected: u64,
    pub handed: Cell<u64>,
    /// Bytes that the reader of multipart has taken.
    pub parsed: u64,
    /// A file is open for it.
    pub file_open: bool,
    /// The first piece was seen.
    pub begun: bool,
    pub decoder: Option<Chain>,
    /// It is compressed, so data goes through a decoder.
    pub compressed: bool,
    /// Bytes on the wire, and after decoding.
    pub message_len: u64,
    pub entity_len: u64,
}

/// What the body of a request is.
#[derive(Default)]
pub(super) enum Upload {
    #[default]
    None,
    /// A file.
    Plain,
    Multipart(Box<Multipart>),
}

/// A request.
#[derive(Default)]
pub(super) struct Request {
    pub line: Option<Vec<u8>>,
    pub method_text: Option<Vec<u8>>,
    pub method: Method,
    pub uri: Option<Vec<u8>>,
    pub parsed: Option<Uri>,
    pub normalized: Option<Vec<u8>>,
    pub protocol: Option<Vec<u8>>,
    pub version: Version,
    /// HTTP/0.9: no protocol was named.
    pub short: bool,
    pub headers: Headers,
    pub raw_headers: Vec<u8>,
    pub trailers: bool,
    pub coding: Coding,
    pub content_length: Option<u64>,
    pub host: Option<Vec<u8>>,
    pub port: Option<u16>,
    pub authorization: Authorization,
    pub body: Body,
    pub upload: Upload,
}

/// A response.
#[derive(Default)]
pub(super) struct Response {
    pub line: Option<Vec<u8>>,
    pub protocol: Option<Vec<u8>>,
    pub version: Version,
    pub status_text: Option<Vec<u8>>,
    pub status: Option<u16>,
    pub message: Option<Vec<u8>>,
    pub headers: Headers,
    pub raw_headers: Vec<u8>,
    pub trailers: bool,
    pub coding: Coding,
    pub seen_continue: bool,
    pub body: Body,
}

/// Both.
#[derive(Default)]
pub(super) struct Exchange {
    pub request: Request,
    pub response: Response,
    pub flags: Flags,
}
