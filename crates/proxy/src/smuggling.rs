//! Requests that two programs read differently.
//!
//! Most of them never get here: hyper refuses obsolete folding, blanks before a colon, control
//! characters, differing `Content-Length`s, a `Transfer-Encoding` that does not end in `chunked` or
//! stands in HTTP/1.0, and faulty chunk sizes. Of `Transfer-Encoding` beside `Content-Length` it
//! keeps the former and closes the connection afterwards (RFC 9112 section 6.1). Whatever is passed
//! on is written anew, with one framing. What is left is here; `tests/smuggling/` has a case each.

use hyper::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method, Request, Version};

use crate::refusal::Refusal;

/// Refuses what hyper accepts and others may read differently.
///
/// # Errors
/// What is wrong.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 {
        return Err(Refusal::Malformed("it has more than one Host"));
    }
    // RFC 9112 section 3.2; HTTP/2 has `:authority` instead.
    if hosts == 0 && request.version() == Version::HTTP_11 {
        return Err(Refusal::Malformed("it has no Host"));
    }
    if headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err(Refusal::Malformed("it has more than one Content-Length"));
    }
    check_coding(headers)?;
    let is_framed = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
    if request.method() == Method::CONNECT && is_framed {
        return Err(Refusal::Malformed("a CONNECT has a body"));
    }
    if request.version() == Version::HTTP_2 {
        check_authority(request)?;
    }
    Ok(())
}

/// `chunked` alone is decoded here; under another coding, what is judged would not be what arrives.
fn check_coding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), None) => Err(Refusal::Unsupported("this transfer coding")),
        (Some(_), Some(_)) => Err(Refusal::Malformed("it has more than one Transfer-Encoding")),
    }
}

/// `Host` beside `:authority` says the same (RFC 9113 section 8.3.1).
fn check_authority<B>(request: &Request<B>) -> Result<(), Refusal> {
    let (Some(host), Some(authority)) = (request.headers().get(HOST), request.uri().authority())
    else {
        return Ok(());
    };
    match host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) {
        true => Ok(()),
        false => Err(Refusal::Malformed("Host and :authority differ")),
    }
}
