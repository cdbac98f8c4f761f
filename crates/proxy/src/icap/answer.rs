//! Answers as bytes.

use bytes::{BufMut, BytesMut};
use hyper::http::response::Parts;

use crate::icap::codec::IcapMethod;
use crate::icap::http_head::put_field;
use gauntlet_web::settings::IcapSettings;

/// What an answer says beside its status.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Changes when the service may decide otherwise (RFC 3507 section 4.7).
    pub istag: &'a str,
    /// The connection ends after the answer.
    pub is_last: bool,
}

/// `100 Continue`: the rest of the body is wanted.
pub const CONTINUE: &[u8] = b"ICAP/1.0 100 Continue\r\n\r\n";

/// Which part of a request an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A request.
    Request,
    /// A response.
    Response,
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Service Not Found",
        405 => "Method Not Allowed For Service",
        408 => "Request Timeout",
        501 => "Method Not Implemented",
        503 => "Service Overloaded",
        505 => "ICAP Version Not Supported",
        _ => "Server Error",
    }
}

fn begin(status: u16, about: About<'_>) -> BytesMut {
    let mut out = BytesMut::with_capacity(512);
    out.put_slice(format!("ICAP/1.0 {status} {}\r\n", reason(status)).as_bytes());
    put_field(&mut out, "ISTag", about.istag.as_bytes());
    if about.is_last {
        put_field(&mut out, "Connection", b"close");
    }
    out
}

fn end_without_content(mut out: BytesMut) -> BytesMut {
    put_field(&mut out, "Encapsulated", b"null-body=0");
    out.put_slice(b"\r\n");
    out
}

/// 204: it passes as it came.
pub fn unmodified(about: About<'_>) -> BytesMut {
    end_without_content(begin(204, about))
}

/// An error, and why in words for whoever reads a trace.
pub fn error(status: u16, why: &str, about: About<'_>) -> BytesMut {
    let mut out = begin(status, about);
    // Not a field of the RFC: programs pass over it.
    put_field(&mut out, "X-Error", why.as_bytes());
    end_without_content(out)
}

/// What the service can (RFC 3507 section 4.10.2).
pub fn options(methods: &[IcapMethod], settings: &IcapSettings, about: About<'_>) -> BytesMut {
    let names = methods.iter().filter_map(|method| match method {
        IcapMethod::Reqmod => Some("REQMOD"),
        IcapMethod::Respmod => Some("RESPMOD"),
        IcapMethod::Options => None,
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let mut out = begin(200, about);
    for (name, value) in [
        ("Methods", names),
        ("Service", "Gauntlet".to_owned()),
        ("Max-Connections", settings.connections_max.to_string()),
        ("Options-TTL", settings.options_ttl_seconds.to_string()),
        ("Allow", "204, trailers".to_owned()),
        ("Preview", settings.preview_bytes.to_string()),
        ("Transfer-Preview", "*".to_owned()),
    ] {
        put_field(&mut out, name, value.as_bytes());
    }
    end_without_content(out)
}

/// 200 with an HTTP header; a body follows in chunks or not at all.
pub fn encapsulated(
    part: Part,
    head: &[u8],
    has_body: bool,
    trailers: Option<&str>,
    about: About<'_>,
) -> BytesMut {
    let (name, body) = match (part, has_body) {
        (Part::Request, true) => ("req-hdr", "req-body"),
        (Part::Response, true) => ("res-hdr", "res-body"),
        (Part::Request, false) => ("req-hdr", "null-body"),
        (Part::Response, false) => ("res-hdr", "null-body"),
    };
    let mut out = begin(200, about);
    if let Some(trailers) = trailers.filter(|_| has_body) {
        put_field(&mut out, "Trailer", trailers.as_bytes());
    }
    let value = format!("{name}=0, {body}={}", head.len());
    put_field(&mut out, "Encapsulated", value.as_bytes());
    out.put_slice(b"\r\n");
    out.put_slice(head);
    out
}

/// The header of a response of ours, for a body of this many bytes.
pub fn http_head(response: &Parts, body_bytes: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(512);
    let status = response.status;
    let reason = status.canonical_reason().unwrap_or("Refused");
    out.put_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in &response.headers {
        put_field(&mut out, name.as_str(), value.as_bytes());
    }
    put_field(&mut out, "content-length", body_bytes.to_string().as_bytes());
    out.put_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About<'_> = About { istag: "\"t\"", is_last: false };

    #[test]
    fn answers_are_as_the_rfc_has_them() {
        assert_eq!(
            unmodified(ABOUT),
            "ICAP/1.0 204 No Content\r\nISTag: \"t\"\r\nEncapsulated: null-body=0\r\n\r\n"
        );
        let head = b"HTTP/1.1 200 OK\r\n\r\n";
        let last = About { is_last: true, ..ABOUT };
        assert_eq!(
            encapsulated(Part::Response, head, true, Some("X-A"), last),
            "ICAP/1.0 200 OK\r\nISTag: \"t\"\r\nConnection: close\r\nTrailer: X-A\r\n\
             Encapsulated: res-hdr=0, res-body=19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
        );
    }
}
