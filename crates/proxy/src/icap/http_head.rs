//! HTTP headers within an ICAP request. They are passed back as the bytes that came; what is read
//! here is for those who judge.

use bytes::{BufMut, BytesMut};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri, Version};

use crate::icap::codec::{CodecError, CodecLimits, HeadEnd};

/// Reads the header of an HTTP request; it fills the bytes.
///
/// # Errors
/// If it is malformed, or has more fields than the limit.
pub fn read_request(bytes: &[u8], limits: &CodecLimits) -> Result<Request<()>, CodecError> {
    let bad = CodecError::HttpHead("request");
    is_filled(bytes, limits, bad)?;
    let mut buffer = vec![httparse::EMPTY_HEADER; limits.header_fields_max];
    let mut head = httparse::Request::new(&mut buffer);
    let status = head.parse(bytes).map_err(|error| fault(error, bad, limits))?;
    let (method, uri) = (head.method.unwrap_or_default(), head.path.unwrap_or_default());
    if status != httparse::Status::Complete(bytes.len()) {
        return Err(bad);
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_| bad)?;
    *request.uri_mut() = Uri::try_from(uri).map_err(|_| bad)?;
    *request.version_mut() = version(head.version);
    *request.headers_mut() = map(head.headers, bad)?;
    Ok(request)
}

/// Reads the header of an HTTP response; it fills the bytes.
///
/// # Errors
/// If it is malformed, or has more fields than the limit.
pub fn read_response(
    bytes: &[u8],
    limits: &CodecLimits,
) -> Result<(StatusCode, HeaderMap), CodecError> {
    let bad = CodecError::HttpHead("response");
    is_filled(bytes, limits, bad)?;
    let mut buffer = vec![httparse::EMPTY_HEADER; limits.header_fields_max];
    let mut head = httparse::Response::new(&mut buffer);
    let status = head.parse(bytes).map_err(|error| fault(error, bad, limits))?;
    if status != httparse::Status::Complete(bytes.len()) {
        return Err(bad);
    }
    let status = StatusCode::from_u16(head.code.unwrap_or_default()).map_err(|_| bad)?;
    Ok((status, map(head.headers, bad)?))
}

/// Reads fields that end in an empty line, as trailers do.
///
/// # Errors
/// If they are malformed, or more than the limit.
pub fn fields(bytes: &[u8], limits: &CodecLimits) -> Result<HeaderMap, CodecError> {
    let bad = CodecError::Field("a header field");
    let mut buffer = vec![httparse::EMPTY_HEADER; limits.header_fields_max];
    match httparse::parse_headers(bytes, &mut buffer) {
        Ok(httparse::Status::Complete((_, fields))) => map(fields, bad),
        Ok(httparse::Status::Partial) => Err(bad),
        Err(error) => Err(fault(error, bad, limits)),
    }
}

/// The header ends where the offsets say, and every line of it in CRLF.
fn is_filled(bytes: &[u8], limits: &CodecLimits, bad: CodecError) -> Result<(), CodecError> {
    match HeadEnd::default().find(bytes, limits.header_bytes_max)? {
        Some(end) if end == bytes.len() => Ok(()),
        _ => Err(bad),
    }
}

fn fault(error: httparse::Error, otherwise: CodecError, limits: &CodecLimits) -> CodecError {
    match error {
        httparse::Error::TooManyHeaders => CodecError::HeaderFields(limits.header_fields_max),
        _ => otherwise,
    }
}

fn version(minor: Option<u8>) -> Version {
    match minor {
        Some(0) => Version::HTTP_10,
        _ => Version::HTTP_11,
    }
}

fn map(fields: &[httparse::Header<'_>], bad: CodecError) -> Result<HeaderMap, CodecError> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| bad)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| bad)?;
        map.append(name, value);
    }
    Ok(map)
}

/// The same header without the fields of this name.
pub fn without(head: &[u8], name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len());
    for (at, line) in head.split_inclusive(|b| *b == b'\n').enumerate() {
        let colon = line.iter().position(|b| *b == b':').unwrap_or(0);
        let is_field =
            at > 0 && line.get(..colon).is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()));
        if !is_field {
            out.extend_from_slice(line);
        }
    }
    out
}

/// Appends a field.
pub fn put_field(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CodecLimits = CodecLimits {
        header_bytes_max: 1000,
        header_fields_max: 3,
        chunk_line_bytes_max: 40,
        preview_bytes_max: 0,
    };

    #[test]
    fn a_header_fills_its_place() {
        let head = b"GET http://x.example/ HTTP/1.1\r\nHost: x.example\r\n\r\n";
        let request = read_request(head, &LIMITS).unwrap();
        assert_eq!(request.uri(), "http://x.example/");
        assert_eq!(request.headers()["host"], "x.example");
        let bad = CodecError::HttpHead("request");
        let behind = [&head[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        for wrong in [&head[..head.len() - 2], &behind, b"", b"\r\n\r\n", b"x\r\n\r\n"] {
            assert_eq!(read_request(wrong, &LIMITS).unwrap_err(), bad);
        }
        let many = b"GET / HTTP/1.1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\n\r\n";
        assert_eq!(read_request(many, &LIMITS).unwrap_err(), CodecError::HeaderFields(3));
        let bare = b"GET / HTTP/1.1\nHost: x\r\n\r\n";
        assert_eq!(read_request(bare, &LIMITS).unwrap_err(), CodecError::LineEnd);
    }

    #[test]
    fn a_response_is_read_and_a_field_is_left_out() {
        let head = b"HTTP/1.0 404 Not here\r\nContent-Length: 3\r\nX: content-length: 3\r\n\r\n";
        let (status, fields) = read_response(head, &LIMITS).unwrap();
        assert_eq!((status.as_u16(), fields.len()), (404, 2));
        let left = without(head, "Content-Length");
        assert_eq!(left, b"HTTP/1.0 404 Not here\r\nX: content-length: 3\r\n\r\n");
    }
}
