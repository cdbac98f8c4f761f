//! Buffers and numbers of HTTP/2: its own, and those of HTTP in its terms.

use gauntlet_packet::Direction::{self, ToClient, ToServer};

use super::frame::Payload;
use super::hpack::Field;
use super::stream::{Stream, stage};
use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, NumberSpec, Spec, to_client, to_server};
use crate::http::buffers as http;
use crate::parser::At;
use crate::protocol::Protocol::Http2;

/// Room of these tables.
pub(crate) const ROOM: u8 = 2;

const BOTH: &[Engine] = &[to_server(Http2, stage::OPEN), to_client(Http2, stage::OPEN)];

/// Frames are looked at as they come.
const FRAMES: &[Engine] = &[to_server(Http2, 0), to_client(Http2, 0)];

pub(crate) const HEADER_NAME: Buffer = Buffer::new(ROOM, 0);
const FRAME_TYPE: Number = Number::new(ROOM, 0);
const ERROR_CODE: Number = Number::new(ROOM, 1);
const PRIORITY: Number = Number::new(ROOM, 2);
const WINDOW: Number = Number::new(ROOM, 3);
const SIZE_UPDATE: Number = Number::new(ROOM, 4);
const SETTINGS: Number = Number::new(ROOM, 5);

pub(crate) static BUFFERS: &[Spec] = &[Spec {
    buffer: HEADER_NAME,
    name: "http2.header_name",
    aliases: &["http2_header_name"],
    kind: Kind::Multi,
    engines: BOTH,
}];

const fn spec(number: Number, name: &'static str) -> NumberSpec {
    NumberSpec { number, name, aliases: &[], engines: FRAMES }
}

/// All of them can be there several times. `http2.settings` is the identifier, shifted by 32 bits,
/// and the value.
pub(crate) static NUMBERS: &[NumberSpec] = &[
    spec(FRAME_TYPE, "http2.frametype"),
    spec(ERROR_CODE, "http2.errorcode"),
    spec(PRIORITY, "http2.priority"),
    spec(WINDOW, "http2.window"),
    spec(SIZE_UPDATE, "http2.size_update"),
    spec(SETTINGS, "http2.settings"),
];

fn fields(stream: &Stream, direction: Direction) -> impl Iterator<Item = &Field> {
    stream.half(direction).frames.iter().flat_map(|frame| frame.payload.fields())
}

/// A buffer of a stream.
pub(super) fn buffer(stream: &Stream, at: At, i: usize) -> Option<Bytes<'_>> {
    let direction = at.direction;
    let first = |direction, name: &[u8]| stream.first(direction, name);
    let some = |bytes: &'static [u8]| Some(Bytes::whole(bytes));
    match at.buffer {
        http::URI | http::URI_RAW => whole(first(ToServer, b":path")?),
        http::METHOD => whole(first(ToServer, b":method")?),
        http::STAT_CODE => whole(first(ToClient, b":status")?),
        // There is no reason phrase.
        http::STAT_MSG => some(b""),
        http::PROTOCOL => some(b"HTTP/2"),
        http::REQUEST_LINE_TEXT => {
            let method = first(ToServer, b":method").unwrap_or_default();
            let path = first(ToServer, b":path").unwrap_or_default();
            Some(Bytes::made([method, b" ", path, b" HTTP/2\r\n"].concat()))
        }
        http::RESPONSE_LINE_TEXT => {
            let status = first(ToClient, b":status").unwrap_or_default();
            Some(Bytes::made([b"HTTP/2 ", status, b"\r\n"].concat()))
        }
        http::HOST => made(host(&stream.joined(ToServer, b":authority")?)),
        http::HOST_RAW => made(stream.joined(ToServer, b":authority")?),
        http::COOKIE if direction == ToServer => made(stream.joined(direction, b"cookie")?),
        http::COOKIE => made(stream.joined(direction, b"set-cookie")?),
        http::HEADER => made(text(stream, direction, false)),
        http::HEADER_RAW => made(text(stream, direction, true)),
        http::HEADER_NAMES => made(names(stream, direction)),
        http::REQUEST_HEADER | http::RESPONSE_HEADER_TEXT => {
            let (name, value) = fields(stream, direction).nth(i)?.pair();
            Some(Bytes::made([name, b": ", value].concat()))
        }
        HEADER_NAME => Some(Bytes::whole(fields(stream, direction).nth(i)?.pair().0)),
        other => made(stream.joined(direction, http::header_name(other)?)?),
    }
}

fn whole(bytes: &[u8]) -> Option<Bytes<'_>> {
    (!bytes.is_empty()).then(|| Bytes::whole(bytes))
}

fn made<'a>(bytes: Vec<u8>) -> Option<Bytes<'a>> {
    (!bytes.is_empty()).then(|| Bytes::made(bytes))
}

/// The name of the host alone, in lower case.
fn host(authority: &[u8]) -> Vec<u8> {
    let at = memchr::memchr(b'@', authority).map_or(0, |at| at + 1);
    let host = authority.get(at..).unwrap_or_default();
    let end = memchr::memchr(b':', host).unwrap_or(host.len());
    host.get(..end).unwrap_or_default().to_ascii_lowercase()
}

/// Fields as lines; raw: with cookies and blanks around values.
fn text(stream: &Stream, direction: Direction, raw: bool) -> Vec<u8> {
    let cookie: &[u8] = if direction == ToServer { b"cookie" } else { b"set-cookie" };
    let mut text = Vec::new();
    for field in fields(stream, direction) {
        let (name, value) = field.pair();
        if !raw && name.eq_ignore_ascii_case(cookie) {
            continue;
        }
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(if raw { value } else { trim(value) });
        text.extend_from_slice(b"\r\n");
    }
    text
}

fn trim(value: &[u8]) -> &[u8] {
    let solid = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let Some(first) = value.iter().position(solid) else { return &[] };
    let last = value.iter().rposition(solid).unwrap_or(first);
    value.get(first..=last).unwrap_or_default()
}

fn names(stream: &Stream, direction: Direction) -> Vec<u8> {
    let mut text = Vec::new();
    for field in fields(stream, direction) {
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(field.pair().0);
    }
    if !text.is_empty() {
        text.extend_from_slice(b"\r\n\r\n");
    }
    text
}

/// A number of a stream.
pub(super) fn number(
    stream: &Stream,
    number: Number,
    direction: Direction,
    i: usize,
) -> Option<i64> {
    let frames = &stream.half(direction).frames;
    let payloads = frames.iter().map(|frame| &frame.payload);
    match number {
        FRAME_TYPE => frames.get(i).map(|frame| i64::from(frame.kind)),
        ERROR_CODE => payloads
            .filter_map(|payload| match payload {
                Payload::GoAway(code) | Payload::Reset(code) => Some(i64::from(*code)),
                _ => None,
            })
            .nth(i),
        PRIORITY => payloads
            .filter_map(|payload| match payload {
                Payload::Priority(weight) => Some(i64::from(*weight)),
                Payload::Headers(_, weight) => weight.map(i64::from),
                _ => None,
            })
            .nth(i),
        WINDOW => payloads
            .filter_map(|payload| match payload {
                Payload::WindowUpdate(size) => Some(i64::from(*size)),
                _ => None,
            })
            .nth(i),
        SIZE_UPDATE => fields(stream, direction)
            .filter_map(|field| match field {
                Field::SizeUpdate(size) => i64::try_from(*size).ok(),
                _ => None,
            })
            .nth(i),
        SETTINGS => payloads
            .filter_map(|payload| match payload {
                Payload::Settings(list) => Some(list),
                _ => None,
            })
            .flatten()
            .map(|(id, value)| i64::from(*id) << 32 | i64::from(*value))
            .nth(i),
        http::URI_LEN | http::URI_LEN_NORM if i == 0 => {
            i64::try_from(stream.first(ToServer, b":path")?.len()).ok()
        }
        _ => None,
    }
}
