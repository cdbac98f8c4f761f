//! The EVE record `sip`.

use super::sdp::Description;
use super::wire::{Message, Start};
use crate::record::{Fields, Value};

pub(super) fn write(message: &Message, fields: &mut Fields) {
    let mut sip = Fields::default();
    let line = match &message.start {
        Start::Request { method, uri, version } => {
            sip.text("method", method.as_bytes());
            sip.text("uri", uri.as_bytes());
            sip.text("version", version.as_bytes());
            "request_line"
        }
        Start::Response { version, code, reason } => {
            sip.text("version", version.as_bytes());
            sip.text("code", code.as_bytes());
            sip.text("reason", reason.as_bytes());
            "response_line"
        }
    };
    if let Some(description) = &message.description {
        sip.object("sdp", describe(description));
    }
    sip.text(line, &message.line);
    fields.object("sip", sip);
}

fn describe(description: &Description) -> Fields {
    let mut sdp = Fields::default();
    sdp.text("origin", description.origin.as_bytes());
    sdp.text("session_name", description.name.as_bytes());
    for (name, value) in [
        ("session_info", &description.info),
        ("uri", &description.uri),
        ("email", &description.email),
        ("phone_number", &description.phone),
        ("connection_data", &description.connection),
    ] {
        optional(&mut sdp, name, value.as_deref());
    }
    list(&mut sdp, "bandwidths", &description.bandwidths);
    let times = description.times.iter().map(|(time, repeat)| {
        let mut fields = Fields::default();
        fields.text("time", time.as_bytes());
        optional(&mut fields, "repeat_time", repeat.as_deref());
        Value::Object(fields)
    });
    sdp.list("time_descriptions", times.collect());
    optional(&mut sdp, "timezone", description.zone.as_deref());
    optional(&mut sdp, "encryption_key", description.key.as_deref());
    list(&mut sdp, "attributes", &description.attributes);
    if !description.media.is_empty() {
        let media = description.media.iter().map(|media| {
            let mut fields = Fields::default();
            fields.text("media", media.media.as_bytes());
            optional(&mut fields, "media_info", media.info.as_deref());
            optional(&mut fields, "connection_data", media.connection.as_deref());
            list(&mut fields, "bandwidths", &media.bandwidths);
            optional(&mut fields, "encryption_key", media.key.as_deref());
            list(&mut fields, "attributes", &media.attributes);
            Value::Object(fields)
        });
        sdp.list("media_descriptions", media.collect());
    }
    sdp
}

fn optional(fields: &mut Fields, name: &'static str, value: Option<&str>) {
    if let Some(value) = value {
        fields.text(name, value.as_bytes());
    }
}

fn list(fields: &mut Fields, name: &'static str, values: &[String]) {
    if !values.is_empty() {
        fields.list(name, values.iter().cloned().map(Value::Text).collect());
    }
}
