//! Choices of records of HTTP/1.

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Conversation, Fields, Value};

use super::super::line::Line;
use super::super::settings::{Alerts, Options};
use super::for_object;
use crate::eve::forwarded::headers;

/// Fields that only extended records have.
const EXTENDED: [&str; 7] =
    ["http_refer", "http_method", "protocol", "status", "status_string", "redirect", "length"];

/// The longest name and value of a header field in records, in bytes.
const NAME_BYTES: usize = 255;
const VALUE_BYTES: usize = 2_047;

pub(super) fn choose(
    conversation: &Conversation,
    place: usize,
    options: &Options,
    fields: &mut Fields,
) {
    let is_extended = options.flag("extended", false);
    let all = options.get("dump-all-headers").unwrap_or_default();
    let custom = options.list("custom").unwrap_or_default();
    for_object(fields, "http", |http| {
        if !is_extended {
            http.0.retain(|(key, _)| !EXTENDED.contains(key));
        }
        for (key, name, direction) in [
            ("request_headers", "request", Direction::ToServer),
            ("response_headers", "response", Direction::ToClient),
        ] {
            let is_all = all.starts_with("both") || all.starts_with(name);
            if !is_all && custom.is_empty() {
                continue;
            }
            let is_wanted = |header: &[u8]| {
                is_all || custom.iter().any(|wanted| is_called(header, wanted, is_extended))
            };
            let list = headers(conversation, place, direction).into_iter();
            let list = list.filter(|(header, _)| is_wanted(header));
            let list: Vec<Value> = list.map(|(name, value)| pair(&name, &value)).collect();
            if !list.is_empty() {
                http.list(key, list);
            }
        }
    });
}

fn is_called(header: &[u8], wanted: &str, is_extended: bool) -> bool {
    let wanted = wanted.replace('_', "-");
    // The extended record has it already.
    let is_double = is_extended && wanted.eq_ignore_ascii_case("referer");
    !is_double && header.eq_ignore_ascii_case(wanted.as_bytes())
}

fn pair(name: &[u8], value: &[u8]) -> Value {
    let mut fields = Fields::default();
    fields.text("name", name.get(..NAME_BYTES).unwrap_or(name));
    fields.text("value", value.get(..VALUE_BYTES).unwrap_or(value));
    Value::Object(fields)
}

/// Bodies of a request and its response, as far as they are kept.
pub(super) fn bodies(options: &Alerts, conversation: &Conversation, place: usize, line: &mut Line) {
    let sides = [
        ("http_request_body", "http.request_body", Direction::ToServer),
        ("http_response_body", "http.response_body", Direction::ToClient),
    ];
    for (key, keyword, direction) in sides {
        let Some(buffer) = Buffer::of_keyword(keyword) else { continue };
        let Some(body) = conversation.buffer(place, buffer, direction, 0) else { continue };
        if options.http_body_printable {
            line.printable(&format!("{key}_printable"), &body.data);
        }
        if options.http_body {
            line.base64(key, &body.data);
        }
    }
}
