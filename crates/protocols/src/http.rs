//! HTTP/1 and older (RFC 9112), as lenient as servers and browsers are.
//!
//! ```text
//! bytes -> connection (request.rs, response.rs: step by step) -> exchanges
//!            lines, header fields -> uri, values                body -> decompress -> files
//! ```

mod bestfit;
mod body;
pub(crate) mod buffers;
mod connection;
mod decode;
pub(crate) mod decompress;
mod dots;
mod event;
mod headers;
mod multipart;
mod parser;
mod record;
mod request;
mod request_line;
mod response;
mod response_line;
mod shared;
mod text;
mod transaction;
mod uri;
mod utf8;
pub(crate) mod values;

use gauntlet_packet::Direction;

use crate::parser::{Module, Pattern};
use crate::protocol::Protocol;
pub use crate::settings::http::{InvalidEncoding, Settings};

use crate::settings::http as settings;
use crate::tables::stream_begins;

const fn method(bytes: &'static [u8]) -> Pattern {
    stream_begins(Direction::ToServer, bytes)
}

macro_rules! patterns {
    ($($method:literal)*) => {
        &[
            $(
                method(concat!($method, " ").as_bytes()),
                method(concat!($method, "\t").as_bytes()),
            )*
            stream_begins(Direction::ToClient, b"HTTP/0.9"),
            stream_begins(Direction::ToClient, b"HTTP/1.0"),
            stream_begins(Direction::ToClient, b"HTTP/1.1"),
        ]
    };
}

/// HTTP/1.
pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Http1,
    events: event::NAMES,
    states: [
        &[
            "request_started",
            "request_line",
            "request_headers",
            "request_body",
            "request_trailer",
            "request_complete",
        ],
        &[
            "response_started",
            "response_line",
            "response_headers",
            "response_body",
            "response_trailer",
            "response_complete",
        ],
    ],
    buffers: buffers::BUFFERS,
    numbers: buffers::NUMBERS,
    patterns: patterns! {
        "GET" "PUT" "POST" "HEAD" "TRACE" "OPTIONS" "CONNECT" "DELETE" "PATCH" "PROPFIND"
        "PROPPATCH" "MKCOL" "COPY" "MOVE" "LOCK" "UNLOCK" "CHECKOUT" "UNCHECKOUT" "CHECKIN"
        "UPDATE" "LABEL" "REPORT" "MKWORKSPACE" "MKACTIVITY" "MERGE" "INVALID"
        "VERSION-CONTROL" "BASELINE-CONTROL"
    },
    probes: &[],
    accepts_gaps: true,
    first: None,
    make: parser::make,
};
