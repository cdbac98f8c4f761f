//! Requests: parsing them in pieces, and writing one.

use super::head::{Destinations, Limits, ProtocolError, destinations, field, head_of, number};

/// Minor version from which PING and SKIP have header lines and an empty line too.
const MINOR_WITH_HEADERS: u8 = 5;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Whether it is spam, score and threshold.
    Check,
    /// Like CHECK, with the names of the rules that hit.
    Symbols,
    /// Like CHECK, with a readable report.
    Report,
    /// Like REPORT, but the report only for spam.
    ReportIfSpam,
    /// Does nothing: the client changed its mind.
    Skip,
    /// Checks that the server is alive.
    Ping,
    /// Returns the message with header fields of the verdict.
    Process,
    /// Returns the message's header with fields of the verdict.
    Headers,
    /// Trains or reports the message: learn, forget, report, revoke.
    Tell,
}

impl Method {
    /// The methods that spamd has.
    pub const ALL: [Method; 9] = [
        Method::Check,
        Method::Symbols,
        Method::Report,
        Method::ReportIfSpam,
        Method::Skip,
        Method::Ping,
        Method::Process,
        Method::Headers,
        Method::Tell,
    ];

    /// The word in the request line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Check => "CHECK",
            Method::Symbols => "SYMBOLS",
            Method::Report => "REPORT",
            Method::ReportIfSpam => "REPORT_IFSPAM",
            Method::Skip => "SKIP",
            Method::Ping => "PING",
            Method::Process => "PROCESS",
            Method::Headers => "HEADERS",
            Method::Tell => "TELL",
        }
    }

    /// A message follows the header lines.
    pub fn has_body(self) -> bool {
        !matches!(self, Method::Ping | Method::Skip)
    }
}

/// The arguments of [`Method::Tell`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tell {
    /// `Message-class`: spam or ham; none when the request only forgets.
    pub spam: Option<bool>,
    /// `Set`: where to learn it.
    pub set: Destinations,
    /// `Remove`: where to forget it.
    pub remove: Destinations,
}

/// A request with its headers and its whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method of the request line.
    pub method: Method,
    /// Minor version of the client's protocol: 2 and below accept no `Spam` line beside a message.
    pub minor: u8,
    /// `User`: whose settings apply; none for the default.
    pub user: Option<String>,
    /// `Compress: zlib`: the body is in zlib's format.
    pub compressed: bool,
    /// Arguments of TELL; empty for other methods.
    pub tell: Tell,
    /// The message as it was sent, possibly compressed.
    pub body: Vec<u8>,
}

/// Parses the request line: method and minor version.
fn request_line(line: &[u8]) -> Result<(Method, u8), ProtocolError> {
    let line = std::str::from_utf8(line).map_err(|_| ProtocolError::FirstLine)?;
    let (word, version) = line.split_once(' ').ok_or(ProtocolError::FirstLine)?;
    let method =
        Method::ALL.into_iter().find(|m| m.name() == word).ok_or(ProtocolError::FirstLine)?;
    let minor = version.trim().strip_prefix("SPAMC/1.").and_then(|m| m.parse().ok());
    Ok((method, minor.ok_or(ProtocolError::FirstLine)?))
}

/// Parses the header of a request. Returns its length too, if it has one.
fn read_head(lines: &[&[u8]]) -> Result<(Request, Option<usize>), ProtocolError> {
    let (first, fields) = lines.split_first().ok_or(ProtocolError::FirstLine)?;
    let (method, minor) = request_line(first)?;
    let (user, compressed, tell) = (None, false, Tell::default());
    let mut request = Request { method, minor, user, compressed, tell, body: Vec::new() };
    let mut length = None;
    for line in fields {
        let (name, value) = field(line)?;
        match name.as_str() {
            "content-length" if length.is_some() => return Err(ProtocolError::LengthTwice),
            "content-length" => length = Some(number(value)?),
            "user" if value.is_empty() || value.bytes().any(|b| b.is_ascii_control()) => {
                return Err(ProtocolError::Value);
            }
            "user" => request.user = Some(value.to_owned()),
            "compress" if value.eq_ignore_ascii_case("zlib") => request.compressed = true,
            "compress" => return Err(ProtocolError::Value),
            "message-class" => match value.to_ascii_lowercase().as_str() {
                "spam" => request.tell.spam = Some(true),
                "ham" => request.tell.spam = Some(false),
                _ => return Err(ProtocolError::Value),
            },
            "set" => request.tell.set = destinations(value)?,
            "remove" => request.tell.remove = destinations(value)?,
            // Later versions may add fields.
            _ => {}
        }
    }
    Ok((request, length))
}

/// Reads one request, in pieces of any size.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    /// The header while it is incomplete.
    head: Vec<u8>,
    /// The request whose body is being read, and the length of that body if it is known.
    open: Option<(Request, Option<usize>)>,
}

impl RequestReader {
    /// A reader with these limits.
    pub fn new(limits: Limits) -> Self {
        RequestReader { limits, head: Vec::new(), open: None }
    }

    /// Processes the next bytes. Returns the request as soon as it is complete; the reader must not
    /// be used then.
    ///
    /// # Errors
    /// [`ProtocolError`]: answer its [`ProtocolError::status`] and close.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Request>, ProtocolError> {
        if self.open.is_some() {
            return self.body(bytes);
        }
        self.head.extend_from_slice(bytes);
        if let Some(end) = memchr::memchr(b'\n', &self.head) {
            if end >= self.limits.head_bytes_max {
                return Err(ProtocolError::HeadTooLong);
            }
            let line = self.head.get(..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let (method, minor) = request_line(line)?;
            if !method.has_body() && minor < MINOR_WITH_HEADERS {
                return read_head(&[line]).map(|(request, _)| Some(request));
            }
        }
        let Some((lines, used)) = head_of(&self.head) else {
            let over = self.head.len() > self.limits.head_bytes_max;
            return if over { Err(ProtocolError::HeadTooLong) } else { Ok(None) };
        };
        if used > self.limits.head_bytes_max {
            return Err(ProtocolError::HeadTooLong);
        }
        let (request, length) = read_head(&lines)?;
        if length.is_some_and(|n| n > self.limits.body_bytes_max) {
            return Err(ProtocolError::BodyTooLong);
        }
        if !request.method.has_body() {
            return Ok(Some(request));
        }
        let rest = self.head.split_off(used);
        self.head = Vec::new();
        self.open = Some((request, length));
        self.body(&rest)
    }

    fn body(&mut self, bytes: &[u8]) -> Result<Option<Request>, ProtocolError> {
        let Some((request, length)) = &mut self.open else { return Ok(None) };
        let after = request.body.len().saturating_add(bytes.len());
        if length.is_some_and(|n| after > n) {
            return Err(ProtocolError::Length);
        }
        if after > self.limits.body_bytes_max {
            return Err(ProtocolError::BodyTooLong);
        }
        request.body.extend_from_slice(bytes);
        let complete = length.is_some_and(|n| after == n);
        Ok(if complete { self.open.take().map(|(request, _)| request) } else { None })
    }

    /// Bytes of memory held for the request.
    pub fn held_bytes(&self) -> usize {
        let body = self.open.as_ref().map_or(0, |(request, _)| request.body.capacity());
        self.head.capacity() + body
    }

    /// Announced bytes of the body that have not been received.
    pub fn missing_bytes(&self) -> usize {
        let missing = |(request, length): &(Request, Option<usize>)| {
            length.map(|n| n.saturating_sub(request.body.len()))
        };
        self.open.as_ref().and_then(missing).unwrap_or(0)
    }

    /// The client closed its side: returns the request, if that completes it.
    ///
    /// # Errors
    /// [`ProtocolError`]: it is incomplete.
    pub fn end(self) -> Result<Request, ProtocolError> {
        match self.open {
            Some((request, None)) => Ok(request),
            Some((_, Some(_))) => Err(ProtocolError::Length),
            None => Err(ProtocolError::FirstLine),
        }
    }
}

/// A request with this message as spamc sends it.
pub fn request_bytes(method: Method, user: Option<&str>, message: &[u8]) -> Vec<u8> {
    let mut head = format!("{} SPAMC/1.5\r\n", method.name());
    if let Some(user) = user.filter(|u| !u.is_empty() && !u.contains(char::is_control)) {
        head.push_str(&format!("User: {user}\r\n"));
    }
    if method.has_body() {
        head.push_str(&format!("Content-length: {}\r\n", message.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    if method.has_body() {
        bytes.extend_from_slice(message);
    }
    bytes
}
