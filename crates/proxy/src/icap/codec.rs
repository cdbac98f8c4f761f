//! An ICAP request's header as bytes, and where the HTTP headers and the body behind it are.
//!
//! Nothing here has a socket. Line ends are CRLF alone: what takes a bare LF for one finds other
//! headers than what does not. Fields are httparse's to read.

use std::net::IpAddr;
use std::ops::Range;

use gauntlet_web::settings::UserEncoding;

/// Limits of everything that is read from a client; `[icap]` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecLimits {
    /// Bytes of an ICAP header, of the HTTP headers of a request together, of trailers.
    pub header_bytes_max: usize,
    /// Fields of each.
    pub header_fields_max: usize,
    /// Bytes of the line that begins a chunk.
    pub chunk_line_bytes_max: usize,
    /// Bytes of a preview.
    pub preview_bytes_max: usize,
}

/// Why bytes are not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// More than `icap.header_bytes_max`.
    #[error("a header has more than {0} bytes")]
    HeaderBytes(usize),
    /// More than `icap.header_fields_max`.
    #[error("a header has more than {0} fields")]
    HeaderFields(usize),
    /// A CR or LF alone.
    #[error("a line ends in a CR or LF alone")]
    LineEnd,
    /// Not `METHOD URI ICAP/1.0`.
    #[error("the first line is not that of an ICAP request")]
    RequestLine,
    /// Another version of ICAP.
    #[error("this version of ICAP is not known")]
    Version,
    /// Not OPTIONS, REQMOD or RESPMOD.
    #[error("this method is not known")]
    Method,
    /// A field that is none, or whose value is none.
    #[error("{0} is malformed")]
    Field(&'static str),
    /// A field that may stand once.
    #[error("{0} stands more than once")]
    Repeated(&'static str),
    /// Parts that are missing, in the wrong order, or not where they should be.
    #[error("Encapsulated: {0}")]
    Encapsulated(&'static str),
    /// A preview of more bytes than OPTIONS offered.
    #[error("a preview may have at most {0} bytes")]
    PreviewBytes(usize),
    /// More bytes than `Preview` said.
    #[error("the preview is longer than Preview says")]
    PreviewLonger,
    /// The line that begins a chunk, or what ends it.
    #[error("a chunk is malformed: {0}")]
    Chunk(&'static str),
    /// An HTTP header within the request.
    #[error("the HTTP header of the {0} is malformed")]
    HttpHead(&'static str),
}

impl CodecError {
    /// The status of the answer (RFC 3507 section 4.3.3).
    pub fn status(self) -> u16 {
        match self {
            CodecError::Method => 501,
            CodecError::Version => 505,
            _ => 400,
        }
    }
}

/// Finds the empty line that ends a header, however the bytes come.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadEnd {
    at: usize,
    matched: Matched,
}

/// How much of CRLF CRLF the last bytes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Matched {
    #[default]
    Nothing,
    Cr,
    CrLf,
    CrLfCr,
}

impl HeadEnd {
    /// For fields behind a line that has been read: trailers, of which there may be none.
    pub fn behind_line() -> Self {
        HeadEnd { at: 0, matched: Matched::CrLf }
    }

    /// Where the header ends, if it does; asked again, it goes on where it stopped.
    ///
    /// # Errors
    /// If a line does not end in CRLF, or the header is longer than `bytes_max`.
    pub fn find(&mut self, bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, CodecError> {
        for &byte in bytes.get(self.at..).unwrap_or_default() {
            self.at += 1;
            if self.at > bytes_max {
                return Err(CodecError::HeaderBytes(bytes_max));
            }
            self.matched = match (self.matched, byte) {
                (Matched::Nothing, b'\r') => Matched::Cr,
                (Matched::Cr, b'\n') => Matched::CrLf,
                (Matched::CrLf, b'\r') => Matched::CrLfCr,
                (Matched::CrLfCr, b'\n') => return Ok(Some(self.at)),
                (_, b'\r' | b'\n') | (Matched::Cr | Matched::CrLfCr, _) => {
                    return Err(CodecError::LineEnd);
                }
                (Matched::Nothing | Matched::CrLf, _) => Matched::Nothing,
            };
        }
        Ok(None)
    }
}

/// What a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcapMethod {
    /// What the service can.
    Options,
    /// A request, before it is sent.
    Reqmod,
    /// A response, before it is passed on.
    Respmod,
}

/// The header of an ICAP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcapRequest {
    /// What is wanted.
    pub method: IcapMethod,
    /// The path of the service's URI, without its query.
    pub path: String,
    /// Where the HTTP headers are, and whether a body follows.
    pub encapsulated: Encapsulated,
    /// Bytes of the body that come before the client waits for an answer.
    pub preview: Option<usize>,
    /// 204 may be the answer outside of a preview, too.
    pub allows_204: bool,
    /// Trailers that an answer may have: those that the client announces, if it knows trailers.
    pub trailers: Option<String>,
    /// The connection ends after the answer.
    pub is_last: bool,
    /// `X-Client-IP`.
    pub client: Option<IpAddr>,
    /// `X-Authenticated-User`, else `X-Client-Username`.
    pub user: Option<UserField>,
}

/// The name of a user as an ICAP client wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserField {
    /// `X-Authenticated-User`: `AUTH_SCHEME://PATH`, usually in Base64
    /// (draft-stecher-icap-subid-00, section 3.4).
    Authenticated(Vec<u8>),
    /// `X-Client-Username` of Squid.
    Client(Vec<u8>),
}

impl UserField {
    /// The name itself, without the scheme (`Local://`) before it. None if there is none, or if it
    /// is not in the encoding that it should be in.
    pub fn name(&self, encoding: UserEncoding) -> Option<String> {
        let (value, is_usual) = match self {
            UserField::Authenticated(value) => (value, true),
            UserField::Client(value) => (value, false),
        };
        let is_encoded = match encoding {
            UserEncoding::Header => is_usual,
            UserEncoding::Base64 => true,
            UserEncoding::Plain => false,
        };
        let name = match is_encoded {
            true => user(&base64_simd::STANDARD.decode_to_vec(value.trim_ascii()).ok()?),
            false => user(value),
        };
        let name = name.split_once("://").map_or(name.as_str(), |(_, name)| name).to_owned();
        Some(name).filter(|name| !name.is_empty())
    }
}

/// Parts behind an ICAP header (RFC 3507 section 4.4.1); offsets count from its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encapsulated {
    /// The header of the HTTP request.
    pub request: Option<Range<usize>>,
    /// The header of the HTTP response.
    pub response: Option<Range<usize>>,
    /// Where the body is, or would be.
    pub head_bytes: usize,
    /// There is a body.
    pub has_body: bool,
}

/// Reads the header of a request, with the empty line that ends it.
///
/// # Errors
/// What is wrong with it.
pub fn read_request(head: &[u8], limits: &CodecLimits) -> Result<IcapRequest, CodecError> {
    // An empty line before a request is left over from a careless client (RFC 9112 section 2.2).
    let head = head.strip_prefix(b"\r\n").unwrap_or(head);
    let end = head.windows(2).position(|w| w == b"\r\n").ok_or(CodecError::RequestLine)?;
    let (line, fields) = head.split_at(end);
    let (method, path) = request_line(line)?;
    let mut buffer = vec![httparse::EMPTY_HEADER; limits.header_fields_max];
    let fields = match httparse::parse_headers(fields.get(2..).unwrap_or_default(), &mut buffer) {
        Ok(httparse::Status::Complete((_, fields))) => fields,
        Err(httparse::Error::TooManyHeaders) => {
            return Err(CodecError::HeaderFields(limits.header_fields_max));
        }
        Ok(httparse::Status::Partial) | Err(_) => return Err(CodecError::Field("a header field")),
    };
    let mut wanted = Wanted::default();
    for field in fields {
        wanted.take(field.name, field.value)?;
    }
    wanted.into_request(method, path, limits)
}

fn request_line(line: &[u8]) -> Result<(IcapMethod, String), CodecError> {
    let line = std::str::from_utf8(line).map_err(|_| CodecError::RequestLine)?;
    let mut words = line.split(' ');
    let (Some(method), Some(uri), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(CodecError::RequestLine);
    };
    let is_printable = line.bytes().all(|b| (b' '..0x7f).contains(&b));
    let number = version.strip_prefix("ICAP/").filter(|n| !n.is_empty() && is_printable);
    match number {
        None => return Err(CodecError::RequestLine),
        Some("1.0") => {}
        Some(_) => return Err(CodecError::Version),
    }
    let method = match method {
        "OPTIONS" => IcapMethod::Options,
        "REQMOD" => IcapMethod::Reqmod,
        "RESPMOD" => IcapMethod::Respmod,
        _ => return Err(CodecError::Method),
    };
    Ok((method, path(uri).ok_or(CodecError::RequestLine)?.to_owned()))
}

/// The path of `icap://host:port/path?query`, of `/path` or of `*`.
fn path(uri: &str) -> Option<&str> {
    let uri = uri.split(['?', '#']).next()?;
    let scheme_end = uri.find("://");
    let path = match scheme_end {
        Some(at) => {
            let (scheme, rest) = (uri.get(..at)?, uri.get(at + 3..)?);
            let is_icap = ["icap", "icaps"].iter().any(|s| s.eq_ignore_ascii_case(scheme));
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/").get(..).filter(|_| is_icap)
        }
        None => Some(uri).filter(|uri| uri.starts_with('/') || *uri == "*"),
    }?;
    Some(path)
}

/// Fields that matter, as they come.
#[derive(Default)]
struct Wanted<'a> {
    encapsulated: Option<&'a str>,
    preview: Option<usize>,
    allows_204: bool,
    allows_trailers: bool,
    trailers: Option<String>,
    is_last: bool,
    client: Option<IpAddr>,
    client_user: Option<Vec<u8>>,
    authenticated_user: Option<Vec<u8>>,
}

impl<'a> Wanted<'a> {
    fn take(&mut self, name: &str, value: &'a [u8]) -> Result<(), CodecError> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        let text = || std::str::from_utf8(value).map(str::trim);
        if is("Encapsulated") {
            let value = text().map_err(|_| CodecError::Field("Encapsulated"))?;
            once(&mut self.encapsulated, value, "Encapsulated")?;
        } else if is("Preview") {
            let value = text().ok().and_then(decimal).ok_or(CodecError::Field("Preview"))?;
            once(&mut self.preview, value, "Preview")?;
        } else if is("X-Client-IP") {
            let value = text().ok().and_then(|text| text.parse().ok());
            once(&mut self.client, value.ok_or(CodecError::Field("X-Client-IP"))?, "X-Client-IP")?;
        } else if is("X-Client-Username") {
            once(&mut self.client_user, value.to_vec(), "X-Client-Username")?;
        } else if is("X-Authenticated-User") {
            once(&mut self.authenticated_user, value.to_vec(), "X-Authenticated-User")?;
        } else if is("Trailer") {
            let value = text().map_err(|_| CodecError::Field("Trailer"))?;
            once(&mut self.trailers, value.to_owned(), "Trailer")?;
        } else if let Ok(value) = text() {
            let mut words = value.split(',').map(str::trim);
            if is("Allow") {
                for word in words {
                    self.allows_204 |= word == "204";
                    self.allows_trailers |= word.eq_ignore_ascii_case("trailers");
                }
            } else if is("Connection") {
                self.is_last |= words.any(|word| word.eq_ignore_ascii_case("close"));
            }
        }
        Ok(())
    }

    fn into_request(
        self,
        method: IcapMethod,
        path: String,
        limits: &CodecLimits,
    ) -> Result<IcapRequest, CodecError> {
        if self.preview.is_some_and(|preview| preview > limits.preview_bytes_max) {
            return Err(CodecError::PreviewBytes(limits.preview_bytes_max));
        }
        let encapsulated = match (self.encapsulated, method) {
            (Some(text), _) => read_encapsulated(text, method, limits)?,
            (None, IcapMethod::Options) => Encapsulated::default(),
            (None, _) => return Err(CodecError::Encapsulated("it is missing")),
        };
        let authenticated = self.authenticated_user.map(UserField::Authenticated);
        Ok(IcapRequest {
            method,
            path,
            preview: self.preview.filter(|_| encapsulated.has_body),
            encapsulated,
            allows_204: self.allows_204,
            trailers: self.trailers.filter(|_| self.allows_trailers),
            is_last: self.is_last,
            client: self.client,
            user: authenticated.or_else(|| self.client_user.map(UserField::Client)),
        })
    }
}

fn once<T>(place: &mut Option<T>, value: T, name: &'static str) -> Result<(), CodecError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(CodecError::Repeated(name)),
    }
}

/// Characters of a user's name.
const USER_CHARS_MAX: usize = 256;

fn user(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.trim().chars().filter(|c| !c.is_control()).take(USER_CHARS_MAX).collect()
}

/// Digits alone: no sign, no blank, nothing that overflows.
fn decimal(text: &str) -> Option<usize> {
    const DIGITS_MAX: usize = 9;
    let is_number = (1..=DIGITS_MAX).contains(&text.len());
    (is_number && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Reads `Encapsulated`: each part once, in the order of RFC 3507 section 4.4.1, from 0 upwards.
fn read_encapsulated(
    text: &str,
    method: IcapMethod,
    limits: &CodecLimits,
) -> Result<Encapsulated, CodecError> {
    let bad = CodecError::Encapsulated;
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for part in text.split(',') {
        let (name, offset) = part.trim().split_once('=').ok_or(bad("a part has no offset"))?;
        let offset = decimal(offset).ok_or(bad("an offset is no number"))?;
        match parts.last() {
            None if offset != 0 => return Err(bad("the first offset is not 0")),
            Some((_, before)) if offset <= *before => {
                return Err(bad("an offset is not behind the one before"));
            }
            _ => parts.push((name, offset)),
        }
        if offset > limits.header_bytes_max {
            return Err(CodecError::HeaderBytes(limits.header_bytes_max));
        }
    }
    let missing = "parts are missing, unknown or in the wrong order";
    let (request, response, body) = match (method, parts.as_slice()) {
        (IcapMethod::Options, [body]) => (None, None, body),
        (IcapMethod::Reqmod, [("req-hdr", a), body]) => (Some(*a..body.1), None, body),
        (IcapMethod::Respmod, [("req-hdr", a), ("res-hdr", b), body]) => {
            (Some(*a..*b), Some(*b..body.1), body)
        }
        (IcapMethod::Respmod, [("res-hdr", _), _]) => {
            return Err(bad("req-hdr is missing, without which the address is not known"));
        }
        _ => return Err(bad(missing)),
    };
    let has_body = match (method, body.0) {
        (_, "null-body") => false,
        (IcapMethod::Options, "opt-body")
        | (IcapMethod::Reqmod, "req-body")
        | (IcapMethod::Respmod, "res-body") => true,
        _ => return Err(bad(missing)),
    };
    Ok(Encapsulated { request, response, head_bytes: body.1, has_body })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const LIMITS: CodecLimits = CodecLimits {
        header_bytes_max: 65_536,
        header_fields_max: 200,
        chunk_line_bytes_max: 256,
        preview_bytes_max: 1024,
    };

    fn read(line: &str, fields: &[&str]) -> Result<IcapRequest, CodecError> {
        let head = format!(
            "{line}\r\n{}\r\n",
            fields.iter().map(|f| format!("{f}\r\n")).collect::<String>()
        );
        read_request(head.as_bytes(), &LIMITS)
    }

    #[test]
    fn a_request_of_squid_is_read() {
        let request = read(
            "RESPMOD icap://127.0.0.1:1344/respmod?x ICAP/1.0",
            &[
                "Host: 127.0.0.1:1344",
                "Encapsulated: req-hdr=0, res-hdr=137, res-body=296",
                "Preview: 0",
                "Allow: 204, trailers",
                "Trailer: X-A",
                "X-Client-IP: 192.0.2.7",
                "X-Client-Username: ann",
                "X-Authenticated-User: TG9jYWw6Ly9ib2I=",
            ],
        )
        .unwrap();
        let encapsulated = Encapsulated {
            request: Some(0..137),
            response: Some(137..296),
            head_bytes: 296,
            has_body: true,
        };
        let expected = IcapRequest {
            method: IcapMethod::Respmod,
            path: "/respmod".to_owned(),
            encapsulated,
            preview: Some(0),
            allows_204: true,
            trailers: Some("X-A".to_owned()),
            is_last: false,
            client: Some([192, 0, 2, 7].into()),
            user: Some(UserField::Authenticated(b"TG9jYWw6Ly9ib2I=".to_vec())),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn a_user_is_read_in_the_encoding_that_the_settings_say() {
        let authenticated = |text: &str| UserField::Authenticated(text.into());
        let client = |text: &str| UserField::Client(text.into());
        for (field, encoding, name) in [
            (authenticated("TG9jYWw6Ly9ib2I="), UserEncoding::Header, Some("bob")),
            (authenticated("bob!"), UserEncoding::Header, None),
            (authenticated("bob"), UserEncoding::Plain, Some("bob")),
            (client("ann"), UserEncoding::Header, Some("ann")),
            (client("YW5u"), UserEncoding::Base64, Some("ann")),
            (client("LDAP://cn=ann,o=x"), UserEncoding::Plain, Some("cn=ann,o=x")),
            (client(" "), UserEncoding::Header, None),
            (client("a\rb"), UserEncoding::Header, Some("ab")),
        ] {
            assert_eq!(field.name(encoding).as_deref(), name, "{field:?} {encoding:?}");
        }
    }

    #[test]
    fn paths_are_found_in_every_form_of_uri() {
        for (uri, path) in [
            ("icap://h/reqmod", "/reqmod"),
            ("ICAPS://h:1/a/b?c", "/a/b"),
            ("icap://h", "/"),
            ("/reqmod", "/reqmod"),
            ("*", "*"),
        ] {
            let request = read(&format!("OPTIONS {uri} ICAP/1.0"), &[]).unwrap();
            assert_eq!(request.path, path, "{uri}");
        }
        for uri in ["http://h/reqmod", "reqmod", ""] {
            let error = read(&format!("OPTIONS {uri} ICAP/1.0"), &[]).unwrap_err();
            assert_eq!(error, CodecError::RequestLine, "{uri}");
        }
    }

    #[test]
    fn a_header_ends_at_the_first_empty_line_however_it_comes() {
        let bytes = b"a: b\r\nc\r\n\r\nrest";
        for split in 0..bytes.len() {
            let mut end = HeadEnd::default();
            let first = end.find(&bytes[..split], 100).unwrap();
            let found = first.or_else(|| end.find(bytes, 100).unwrap());
            assert_eq!(found, Some(11));
        }
        assert_eq!(HeadEnd::behind_line().find(b"\r\n", 100), Ok(Some(2)));
        for bad in ["a\nb", "a\rb", "a\r\r\n", "a\r\n\n", "\n"] {
            let found = HeadEnd::default().find(bad.as_bytes(), 100);
            assert_eq!(found, Err(CodecError::LineEnd), "{bad:?}");
        }
        assert_eq!(HeadEnd::default().find(bytes, 10), Err(CodecError::HeaderBytes(10)));
    }
}
