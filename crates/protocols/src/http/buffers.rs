//! Buffers of HTTP, by the names that rules use; HTTP/2 has most of them too.

use gauntlet_packet::Direction::{self, ToServer};

use super::settings::Settings;
use super::transaction::{Body, Exchange, Headers, progress};
use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, NumberSpec, Spec, to_client, to_server};
use crate::files::window_start;
use crate::parser::At;
use crate::protocol::Protocol::{Http1, Http2};
use crate::transaction::Transaction;

/// Room of these tables.
pub(crate) const ROOM: u8 = 1;

/// Progress of HTTP/2 at which buffers of requests, responses and bodies are looked at.
mod h2 {
    pub(super) const OPEN: u8 = 1;
    pub(super) const DATA_TO_SERVER: u8 = 3;
    pub(super) const DATA_TO_CLIENT: u8 = 5;
}

const LINE: u8 = progress::LINE;
const HEADERS: u8 = progress::HEADERS;

const REQUEST_LINE: &[Engine] = &[to_server(Http1, LINE), to_server(Http2, h2::OPEN)];
const REQUEST: &[Engine] = &[to_server(Http1, HEADERS), to_server(Http2, h2::OPEN)];
const RESPONSE_LINE: &[Engine] = &[to_client(Http1, LINE), to_client(Http2, h2::DATA_TO_CLIENT)];
const RESPONSE: &[Engine] = &[to_client(Http1, HEADERS), to_client(Http2, h2::DATA_TO_CLIENT)];
const BOTH: &[Engine] = &[
    to_server(Http1, HEADERS),
    to_client(Http1, HEADERS),
    to_server(Http2, h2::OPEN),
    to_client(Http2, h2::DATA_TO_CLIENT),
];
const BOTH_LINES: &[Engine] = &[
    to_server(Http1, LINE),
    to_client(Http1, LINE),
    to_server(Http2, h2::OPEN),
    to_client(Http2, h2::DATA_TO_CLIENT),
];
const BOTH_RAW: &[Engine] = &[
    to_server(Http1, HEADERS + 1),
    to_client(Http1, HEADERS + 1),
    to_server(Http2, h2::OPEN),
    to_client(Http2, h2::DATA_TO_CLIENT),
];
const START: &[Engine] = &[to_server(Http1, HEADERS), to_client(Http1, HEADERS)];
const REQUEST_BODY: &[Engine] =
    &[to_server(Http1, progress::BODY), to_server(Http2, h2::DATA_TO_SERVER)];
const RESPONSE_HEADER: &[Engine] = &[to_client(Http1, HEADERS), to_client(Http2, h2::OPEN)];

macro_rules! buffers {
    ($($id:ident $place:literal $name:literal $aliases:expr, $kind:ident, $engines:ident;)*) => {
        $(pub(crate) const $id: Buffer = Buffer::new(ROOM, $place);)*
        /// The buffers of HTTP.
        pub(crate) static BUFFERS: &[Spec] = &[$(Spec {
            buffer: $id,
            name: $name,
            aliases: $aliases,
            kind: Kind::$kind,
            engines: $engines,
        },)*];
    };
}

buffers! {
    URI 0 "http.uri" &["http_uri", "http.uri.normalized", "uricontent"], Single, REQUEST_LINE;
    URI_RAW 1 "http.uri.raw" &["http_raw_uri"], Single, REQUEST_LINE;
    METHOD 2 "http.method" &["http_method"], Single, REQUEST_LINE;
    PROTOCOL 3 "http.protocol" &["http_protocol"], Single, BOTH_LINES;
    REQUEST_LINE_TEXT 4 "http.request_line" &["http_request_line"], Single, REQUEST_LINE;
    RESPONSE_LINE_TEXT 5 "http.response_line" &["http_response_line"], Single, RESPONSE_LINE;
    HEADER 6 "http.header" &["http_header"], Single, BOTH;
    HEADER_RAW 7 "http.header.raw" &["http_raw_header"], Single, BOTH_RAW;
    HEADER_NAMES 8 "http.header_names" &["http_header_names"], Single, BOTH;
    START_TEXT 9 "http.start" &["http_start"], Single, START;
    COOKIE 10 "http.cookie" &["http_cookie"], Single, BOTH;
    HOST 11 "http.host" &["http_host"], Single, REQUEST;
    HOST_RAW 12 "http.host.raw" &["http_raw_host"], Single, REQUEST;
    USER_AGENT 13 "http.user_agent" &["http_user_agent"], Single, REQUEST;
    ACCEPT 14 "http.accept" &["http_accept"], Single, REQUEST;
    ACCEPT_ENC 15 "http.accept_enc" &["http_accept_enc"], Single, REQUEST;
    ACCEPT_LANG 16 "http.accept_lang" &["http_accept_lang"], Single, REQUEST;
    REFERER 17 "http.referer" &["http_referer"], Single, REQUEST;
    CONNECTION 18 "http.connection" &["http_connection"], Single, BOTH;
    CONTENT_TYPE 19 "http.content_type" &["http_content_type"], Single, BOTH;
    CONTENT_LEN 20 "http.content_len" &["http_content_len"], Single, BOTH;
    STAT_CODE 21 "http.stat_code" &["http_stat_code"], Single, RESPONSE_LINE;
    STAT_MSG 22 "http.stat_msg" &["http_stat_msg"], Single, RESPONSE_LINE;
    SERVER 23 "http.server" &[], Single, RESPONSE;
    LOCATION 24 "http.location" &[], Single, RESPONSE;
    REQUEST_HEADER 25 "http.request_header" &["http_request_header"], Multi, REQUEST;
    RESPONSE_HEADER_TEXT 26 "http.response_header" &["http_response_header"], Multi,
        RESPONSE_HEADER;
    REQUEST_BODY_TEXT 27 "http.request_body" &["http_client_body"], Body, REQUEST_BODY;
}

/// Length of the URI as it was sent (`urilen:10`, `urilen:10,raw`).
pub(crate) const URI_LEN: Number = Number::new(ROOM, 0);
/// Length of the normalised one (`urilen:10,norm`).
pub(crate) const URI_LEN_NORM: Number = Number::new(ROOM, 1);

/// The numbers of HTTP.
pub(crate) static NUMBERS: &[NumberSpec] = &[
    NumberSpec { number: URI_LEN, name: "urilen", aliases: &[], engines: REQUEST_LINE },
    NumberSpec { number: URI_LEN_NORM, name: "urilen_norm", aliases: &[], engines: REQUEST_LINE },
];

/// Header fields once trailers were read, where fast patterns are searched for once more.
const HEADER_AGAIN: Buffer = Buffer::new(ROOM, 28);
const HEADER_RAW_AGAIN: Buffer = Buffer::new(ROOM, 29);

/// Where the fast patterns of a buffer of HTTP/1 are searched for, and at which progress: header
/// fields again at the trailers (a rule that has matched then matches again, if it was not
/// remembered), and those of responses that are raw as soon as they begin.
pub(crate) fn searches(engine: &Engine, buffer: Buffer) -> Option<[(Buffer, u8); 2]> {
    const TRAILER: u8 = progress::TRAILER;
    let to_server = engine.direction == ToServer;
    match buffer {
        HEADER => Some([(HEADER, HEADERS), (HEADER_AGAIN, TRAILER)]),
        HEADER_RAW if to_server => {
            Some([(HEADER_RAW, HEADERS + 1), (HEADER_RAW_AGAIN, TRAILER + 1)])
        }
        HEADER_RAW => Some([(HEADER_RAW, HEADERS), (HEADER_RAW_AGAIN, TRAILER)]),
        _ => None,
    }
}

/// The header field that a buffer is.
pub(crate) fn header_name(buffer: Buffer) -> Option<&'static [u8]> {
    Some(match buffer {
        USER_AGENT => b"user-agent",
        ACCEPT => b"accept",
        ACCEPT_ENC => b"accept-encoding",
        ACCEPT_LANG => b"accept-language",
        REFERER => b"referer",
        CONNECTION => b"connection",
        CONTENT_TYPE => b"content-type",
        CONTENT_LEN => b"content-length",
        SERVER => b"server",
        LOCATION => b"location",
        HOST_RAW => b"host",
        _ => return None,
    })
}

/// A buffer of a transaction.
pub(super) fn buffer<'a>(
    exchange: &'a Transaction<Exchange>,
    at: At,
    i: usize,
    settings: &Settings,
    inline: bool,
) -> Option<Bytes<'a>> {
    let Exchange { request, response, .. } = &exchange.data;
    let to_server = at.direction == ToServer;
    let headers = if to_server { &request.headers } else { &response.headers };
    let over = exchange.state.progress(at.direction) > HEADERS;
    let trailers = if to_server { request.trailers } else { response.trailers };
    let whole = |bytes: &'a Option<Vec<u8>>| bytes.as_deref().map(Bytes::whole);
    match at.buffer {
        URI => whole(&request.normalized),
        URI_RAW => whole(&request.uri),
        METHOD => whole(&request.method_text),
        PROTOCOL if to_server => some(request.protocol.as_deref()?),
        PROTOCOL => some(response.protocol.as_deref()?),
        REQUEST_LINE_TEXT => whole(&request.line),
        RESPONSE_LINE_TEXT => whole(&response.line),
        STAT_CODE => whole(&response.status_text),
        STAT_MSG => whole(&response.message),
        HOST => whole(&request.host),
        HEADER_AGAIN | HEADER_RAW_AGAIN if !trailers => None,
        HEADER | HEADER_AGAIN if over => made(header_text(headers, at.direction)),
        HEADER_NAMES if over => made(names_text(headers)),
        START_TEXT if over => {
            let line = if to_server { &request.line } else { &response.line };
            Some(Bytes::made(start_text(line.as_deref()?, headers)))
        }
        HEADER_RAW | HEADER_RAW_AGAIN if to_server => some(&request.raw_headers),
        HEADER_RAW | HEADER_RAW_AGAIN => some(&response.raw_headers),
        COOKIE if to_server => headers.value(b"cookie").map(Bytes::whole),
        COOKIE => headers.value(b"set-cookie").map(Bytes::whole),
        REQUEST_HEADER | RESPONSE_HEADER_TEXT => {
            let header = headers.list.get(i)?;
            Some(Bytes::made([&header.name, b": ".as_slice(), &header.value].concat()))
        }
        REQUEST_BODY_TEXT => {
            let done = exchange.state.progress(ToServer) > progress::BODY;
            body(&request.body, settings, done, at.end, inline)
        }
        HEADER | HEADER_NAMES | START_TEXT => None,
        other => header_name(other).and_then(|name| headers.value(name)).map(Bytes::whole),
    }
}

/// A number of a transaction.
pub(super) fn number(exchange: &Transaction<Exchange>, number: Number, i: usize) -> Option<i64> {
    let request = &exchange.data.request;
    let uri = match number {
        URI_LEN => request.uri.as_ref(),
        URI_LEN_NORM => request.normalized.as_ref(),
        _ => None,
    };
    if i > 0 {
        return None;
    }
    i64::try_from(uri?.len()).ok()
}

fn some(bytes: &[u8]) -> Option<Bytes<'_>> {
    (!bytes.is_empty()).then(|| Bytes::whole(bytes))
}

fn made<'a>(bytes: Vec<u8>) -> Option<Bytes<'a>> {
    (!bytes.is_empty()).then(|| Bytes::made(bytes))
}

/// All fields but cookies, as `Name: value` lines.
fn header_text(headers: &Headers, direction: Direction) -> Vec<u8> {
    let cookie: &[u8] = if direction == ToServer { b"cookie" } else { b"set-cookie" };
    let mut text = Vec::new();
    for header in &headers.list {
        if !header.name.eq_ignore_ascii_case(cookie) {
            line(&mut text, &header.name, &header.value);
        }
    }
    text
}

fn line(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    text.extend_from_slice(name);
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

/// Names, each on a line, between empty lines.
fn names_text(headers: &Headers) -> Vec<u8> {
    let mut text = Vec::new();
    for header in &headers.list {
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(&header.name);
    }
    if !text.is_empty() {
        text.extend_from_slice(b"\r\n\r\n");
    }
    text
}

/// The first line and all fields.
fn start_text(first: &[u8], headers: &Headers) -> Vec<u8> {
    let mut text = [first, b"\r\n"].concat();
    for header in &headers.list {
        line(&mut text, &header.name, &header.value);
    }
    if !headers.list.is_empty() {
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// What of a request's body is to be looked at now.
fn body<'a>(
    body: &'a Body,
    settings: &Settings,
    done: bool,
    end: bool,
    inline: bool,
) -> Option<Bytes<'a>> {
    if body.so_far == 0 || body.inspected >= body.so_far {
        return None;
    }
    let limit = settings.request_body_limit;
    let limited = limit == 0 || body.so_far < limit;
    if !inline && limited && body.so_far < settings.request_inspect_min && !done && !end {
        return None;
    }
    let offset = if body.inspected > settings.request_inspect_min {
        window_start(body.inspected, body.so_far, settings.request_inspect_window)
    } else {
        0
    };
    let (data, offset) = body.window.from(offset);
    body.handed.set(body.so_far);
    Some(Bytes { data: data.into(), offset, begin: offset == 0, end: done })
}
