//! EVE records of HTTP/2.

use gauntlet_packet::Direction::{self, ToClient, ToServer};

use super::frame::Payload;
use super::hpack::Field;
use super::stream::Stream;
use crate::record::{Fields, Value};

const ERRORS: &[&str] = &[
    "NoError",
    "ProtocolError",
    "InternalError",
    "FlowControlError",
    "SettingsTimeout",
    "StreamClosed",
    "FrameSizeError",
    "RefusedStream",
    "Cancel",
    "CompressionError",
    "ConnectError",
    "EnhanceYourCalm",
    "InadequateSecurity",
    "Http11Required",
];

const SETTINGS: &[&str] = &[
    "",
    "HEADERTABLESIZE",
    "ENABLEPUSH",
    "MAXCONCURRENTSTREAMS",
    "INITIALWINDOWSIZE",
    "MAXFRAMESIZE",
    "MAXHEADERLISTSIZE",
    "",
    "ENABLECONNECTPROTOCOL",
    "NORFC7540PRIORITIES",
];

/// Writes the object `http`, if there is anything to tell: header fields, settings, an error or a
/// priority.
pub(super) fn write(stream: &Stream, fields: &mut Fields) {
    let mut http = Fields::default();
    let mut any = false;
    http.text("version", b"2");
    for (name, direction) in [("request_headers", ToServer), ("response_headers", ToClient)] {
        let frames = &stream.half(direction).frames;
        let headers = frames.iter().any(|frame| {
            matches!(
                frame.payload,
                Payload::Headers(..) | Payload::Promise(..) | Payload::Continuation(_)
            )
        });
        any |= headers;
        if headers {
            let list = frames.iter().flat_map(|frame| frame.payload.fields()).map(header);
            http.list(name, list.collect());
        }
    }
    let mut text = |name, direction, key: &[u8]| {
        if let Some(value) = stream.first(direction, key) {
            http.text(name, value);
        }
    };
    text("http_method", ToServer, b":method");
    text("url", ToServer, b":path");
    text("hostname", ToServer, b"host");
    text("http_user_agent", ToServer, b"user-agent");
    for (name, key) in [("length", b"content-length".as_slice()), ("status", b":status")] {
        let value = stream.first(ToClient, key).and_then(|value| std::str::from_utf8(value).ok());
        if let Some(number) = value.and_then(|value| value.parse().ok()) {
            http.number(name, number);
        }
    }
    let mut own = Fields::default();
    own.number("stream_id", i64::from(stream.id));
    for (name, direction) in [("request", ToServer), ("response", ToClient)] {
        let frames = frames(stream, direction);
        if !frames.0.is_empty() {
            any = true;
            own.object(name, frames);
        }
    }
    http.object("http2", own);
    if any {
        fields.object("http", http);
    }
}

fn header(field: &Field) -> Value {
    let mut fields = Fields::default();
    match field {
        Field::Pair(name, value) => {
            fields.text("name", name);
            fields.text("value", value);
        }
        Field::SizeUpdate(size) => {
            fields.number("table_size_update", i64::try_from(*size).unwrap_or(i64::MAX));
        }
        Field::NotIndexed => fields.text("error", b"HTTP2HeaderDecodeNotIndexed"),
        Field::IndexZero => fields.text("error", b"HTTP2HeaderDecodeIndex0"),
        Field::Overflow => fields.text("error", b"HTTP2HeaderDecodeIntegerOverflow"),
    }
    Value::Object(fields)
}

fn name_of(list: &[&str], number: u32) -> Option<String> {
    let name = list.get(usize::try_from(number).ok()?)?;
    (!name.is_empty()).then(|| (*name).to_owned())
}

/// Settings, error code and priority of a direction.
fn frames(stream: &Stream, direction: Direction) -> Fields {
    let mut fields = Fields::default();
    let payloads = || stream.half(direction).frames.iter().map(|frame| &frame.payload);
    let mut settings = Vec::new();
    for payload in payloads() {
        let Payload::Settings(list) = payload else { continue };
        for (id, value) in list {
            let mut setting = Fields::default();
            let name = name_of(SETTINGS, u32::from(*id)).unwrap_or_default();
            setting.text("settings_id", format!("SETTINGS{name}").as_bytes());
            setting.number("settings_value", i64::from(*value));
            settings.push(Value::Object(setting));
        }
    }
    if !settings.is_empty() {
        fields.list("settings", settings);
    }
    let error = payloads().find_map(|payload| match payload {
        Payload::GoAway(code) => {
            Some(name_of(ERRORS, *code).map_or_else(|| code.to_string(), |it| it.to_uppercase()))
        }
        Payload::Reset(code) => Some(name_of(ERRORS, *code).unwrap_or_else(|| code.to_string())),
        _ => None,
    });
    if let Some(error) = error {
        fields.text("error_code", error.as_bytes());
    }
    let weight = payloads().find_map(|payload| match payload {
        Payload::Priority(weight) => Some(*weight),
        Payload::Headers(_, weight) => *weight,
        _ => None,
    });
    if let Some(weight) = weight {
        fields.number("priority", i64::from(weight));
    }
    fields
}
