//! EVE records of HTTP/1.

use super::transaction::Exchange;
use super::values::content_range;
use crate::record::Fields;
use crate::transaction::Transaction;

/// Writes the object `http`.
pub(super) fn write(exchange: &Transaction<Exchange>, fields: &mut Fields) {
    let Exchange { request, response, .. } = &exchange.data;
    let mut http = Fields::default();
    let mut text = |name, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes {
            http.text(name, bytes);
        }
    };
    text("hostname", request.host.as_deref());
    if let Some(port) = request.port {
        http.number("http_port", i64::from(port));
    }
    let mut text = |name, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes {
            http.text(name, bytes);
        }
    };
    text("url", request.uri.as_deref());
    text("http_user_agent", request.headers.value(b"user-agent"));
    text("xff", request.headers.value(b"x-forwarded-for"));
    let kind = response.headers.value(b"content-type");
    text("http_content_type", kind.and_then(|kind| kind.split(|byte| *byte == b';').next()));
    if let Some(raw) = response.headers.value(b"content-range") {
        http.object("content_range", range(raw));
    }
    let mut text = |name, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes {
            http.text(name, bytes);
        }
    };
    text("http_refer", request.headers.value(b"referer"));
    text("http_method", request.method_text.as_deref());
    text("protocol", request.protocol.as_deref());
    match response.status {
        Some(code) => http.number("status", i64::from(code)),
        None => text("status_string", response.status_text.as_deref()),
    }
    if let Some(location) = response.headers.value(b"location") {
        http.text("redirect", location);
    }
    http.number("length", i64::try_from(response.body.message_len).unwrap_or(i64::MAX));
    fields.object("http", http);
}

fn range(raw: &[u8]) -> Fields {
    let mut fields = Fields::default();
    fields.text("raw", raw);
    if let Some(range) = content_range(raw) {
        let parts = [("start", range.start), ("end", range.end), ("size", range.size)];
        for (name, number) in parts {
            if number >= 0 {
                fields.number(name, number);
            }
        }
    }
    fields
}
