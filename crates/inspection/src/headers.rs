//! Header fields of a transaction as the web path has them.

use gauntlet_ids::pipeline::observer::TransactionEvent;
use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Conversation};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};

/// Fields that are read, at most.
const FIELDS_MAX: usize = 1_000;

/// Buffers of HTTP, looked up by their names once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    method: Option<Buffer>,
    uri: Option<Buffer>,
    host: Option<Buffer>,
    status: Option<Buffer>,
    request_field: Option<Buffer>,
    response_field: Option<Buffer>,
    tls: Option<Buffer>,
    quic: Option<Buffer>,
    dns: Option<Buffer>,
}

/// A transaction of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) conversation: &'a Conversation,
    pub(crate) place: usize,
}

impl<'a> Place<'a> {
    pub(crate) fn of(event: &TransactionEvent<'a>) -> Self {
        Self { conversation: event.conversation, place: event.place }
    }

    fn get(self, buffer: Option<Buffer>, way: Direction, i: usize) -> Option<Vec<u8>> {
        let bytes = self.conversation.buffer(self.place, buffer?, way, i)?;
        Some(bytes.data.into_owned())
    }
}

impl Names {
    pub(crate) fn new() -> Self {
        let of = Buffer::of_keyword;
        Self {
            method: of("http.method"),
            uri: of("http.uri.raw"),
            host: of("http.host.raw"),
            status: of("http.stat_code"),
            request_field: of("http.request_header"),
            response_field: of("http.response_header"),
            tls: of("tls.sni"),
            quic: of("quic.sni"),
            dns: of("dns.query.name"),
        }
    }

    /// The request; none if it is not one that the web path could have.
    pub(crate) fn request(&self, at: Place<'_>) -> Option<Request<()>> {
        let up = Direction::ToServer;
        let method = at.get(self.method, up, 0)?;
        let uri = at.get(self.uri, up, 0)?;
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(&method).ok()?;
        // Browsers send such bytes escaped; others send them as they are.
        *request.uri_mut() = escaped(&uri).parse().ok()?;
        let mut fields = fields(at, self.request_field, up);
        if let Some(host) = at.get(self.host, up, 0)
            && let Ok(host) = HeaderValue::from_bytes(&host)
        {
            fields.insert(hyper::header::HOST, host);
        }
        *request.headers_mut() = fields;
        Some(request)
    }

    /// Status and fields of the response. Codings are undone already.
    pub(crate) fn response(&self, at: Place<'_>) -> Option<(StatusCode, HeaderMap)> {
        let down = Direction::ToClient;
        let status = StatusCode::from_bytes(&at.get(self.status, down, 0)?).ok()?;
        let mut fields = fields(at, self.response_field, down);
        if fields.remove(hyper::header::CONTENT_ENCODING).is_some() {
            fields.remove(hyper::header::CONTENT_LENGTH);
        }
        Some((status, fields))
    }

    /// The host that a client names in TLS or QUIC.
    pub(crate) fn server_name(&self, at: Place<'_>) -> Option<String> {
        let up = Direction::ToServer;
        let name = at.get(self.tls, up, 0).or_else(|| at.get(self.quic, up, 0))?;
        String::from_utf8(name).ok()
    }

    /// The `i`th name that is asked for.
    pub(crate) fn queried(&self, at: Place<'_>, i: usize) -> Option<String> {
        let name = at.get(self.dns, Direction::ToServer, i)?;
        Some(String::from_utf8_lossy(&name).into_owned())
    }
}

fn fields(at: Place<'_>, buffer: Option<Buffer>, way: Direction) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for i in 0..FIELDS_MAX {
        let Some(line) = at.get(buffer, way, i) else { break };
        let Some(colon) = line.windows(2).position(|two| two == b": ") else { continue };
        let (name, value) = line.split_at(colon);
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.get(2..).unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    fields
}

/// Bytes that stand in no URI, escaped.
fn escaped(uri: &[u8]) -> String {
    let mut text = String::with_capacity(uri.len());
    for byte in uri {
        match byte {
            b'!'..=b'~'
                if !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{'..=b'}') =>
            {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
