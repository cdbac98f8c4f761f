//! Choices of records of DNS.

use gauntlet_protocols::{Fields, Value};

use super::super::settings::Options;
use super::{for_object, object, text};

/// Whether the record is of a request.
pub(super) fn is_request(fields: &Fields) -> bool {
    object(fields, "dns").and_then(|dns| text(dns, "type")) == Some("request")
}

/// Applies the settings; whether there is a record. A message without a question has none.
pub(super) fn choose(options: &Options, fields: &mut Fields) -> bool {
    let Some(dns) = object(fields, "dns") else {
        // DNS over HTTP/2 without a message that could be read.
        return true;
    };
    let setting = if is_request(fields) { "requests" } else { "responses" };
    let wanted = options.list("types");
    let is_of_type = types(dns).any(|kind| match &wanted {
        Some(wanted) => wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind)),
        None => true,
    });
    if !options.flag(setting, true) || !is_of_type {
        return object(fields, "http").is_some();
    }
    if let Some(formats) = options.list("formats") {
        let has = |name: &str| formats.iter().any(|format| format == name);
        for_object(fields, "dns", |dns| {
            dns.0.retain(|(key, _)| match *key {
                "answers" => has("detailed"),
                "grouped" => has("grouped"),
                _ => true,
            });
        });
    }
    true
}

fn types(dns: &Fields) -> impl Iterator<Item = &str> {
    let queries = dns.0.iter().find(|(key, _)| *key == "queries");
    let list = match queries {
        Some((_, Value::List(list))) => list.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|value| match value {
        Value::Object(query) => text(query, "rrtype"),
        _ => None,
    })
}
