//! Header lines of requests and responses, and their limits.

use super::status::Status;

/// Limits of a request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of the first line and the header lines together.
    pub head_bytes_max: usize,
    /// Most bytes of the body as it is sent.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head_bytes_max: 8_192, body_bytes_max: 50 << 20 }
    }
}

/// Why a request or response is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The request or status line is malformed.
    #[error("Bad header line: not a request of this protocol")]
    FirstLine,
    /// A header line is not `name: value`.
    #[error("Bad header line: name and value expected")]
    Header,
    /// A header line has an invalid value.
    #[error("Bad header line: its value is not understood")]
    Value,
    /// More than one `Content-length`.
    #[error("Bad header line: Content-length occurs twice")]
    LengthTwice,
    /// The header is over [`Limits::head_bytes_max`].
    #[error("the header lines are too long")]
    HeadTooLong,
    /// The body is over [`Limits::body_bytes_max`].
    #[error("the message is too large")]
    BodyTooLong,
    /// The body is not as long as announced.
    #[error("Content length mismatch: more or fewer bytes than announced")]
    Length,
}

impl ProtocolError {
    /// The status that spamd returns for this error.
    pub fn status(self) -> Status {
        match self {
            ProtocolError::BodyTooLong => Status::TooLarge,
            _ => Status::Protocol,
        }
    }
}

/// Where a message is learned or forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Destinations {
    /// The database of this server.
    pub local: bool,
    /// Remote services that this server reports to.
    pub remote: bool,
}

/// The lines up to an empty one, and their length in bytes. A bare LF ends a line too.
pub(super) fn head_of(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (mut lines, mut rest, mut used) = (Vec::new(), bytes, 0);
    loop {
        let end = memchr::memchr(b'\n', rest)?;
        let (line, after) = rest.split_at(end);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        rest = after.get(1..).unwrap_or_default();
        used += end + 1;
        if line.is_empty() {
            return Some((lines, used));
        }
        lines.push(line);
    }
}

/// Name and value of a header line.
pub(super) fn field(line: &[u8]) -> Result<(String, &str), ProtocolError> {
    let line = std::str::from_utf8(line).map_err(|_| ProtocolError::Header)?;
    let (name, value) = line.split_once(':').ok_or(ProtocolError::Header)?;
    Ok((name.trim().to_ascii_lowercase(), value.trim()))
}

pub(super) fn number(value: &str) -> Result<usize, ProtocolError> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    if digits { value.parse().map_err(|_| ProtocolError::Value) } else { Err(ProtocolError::Value) }
}

pub(super) fn destinations(value: &str) -> Result<Destinations, ProtocolError> {
    let mut destinations = Destinations::default();
    for word in value.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "local" => destinations.local = true,
            "remote" => destinations.remote = true,
            _ => return Err(ProtocolError::Value),
        }
    }
    Ok(destinations)
}
