//! The protocol of spamd and spamc (SPAMC/1.2 to 1.5), both sides, without sockets.
//!
//! A request is a line `METHOD SPAMC/1.5`, header lines, an empty line and the message; a response is
//! a line `SPAMD/1.1 0 EX_OK`, header lines, an empty line and a body. One connection carries one
//! request. Without `Content-length` the client ends its message by closing its side for writing.
//!
//! The body stays as it was sent: whoever reads it inflates it where [`Request::compressed`] says so,
//! within the limits of a message.

use std::fmt;

/// Minor version from which an answer has both `Content-length` and `Spam`.
const MINOR_WITH_BOTH: u8 = 3;
/// Minor version from which PING and SKIP have header lines and an empty line too.
const MINOR_WITH_HEADERS: u8 = 5;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Spam or not, score and threshold.
    Check,
    /// And the names of the rules that hit.
    Symbols,
    /// And a report for people.
    Report,
    /// The report, for spam only.
    ReportIfSpam,
    /// Nothing: the client changed its mind.
    Skip,
    /// Whether anybody is there.
    Ping,
    /// The whole message with header fields of the verdict.
    Process,
    /// Only its header fields, with those of the verdict.
    Headers,
    /// What the message is: learn, forget, report, revoke.
    Tell,
}

impl Method {
    /// Every method.
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

/// Where a message is to be learned or forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    /// This server.
    pub local: bool,
    /// Whom this server reports to.
    pub remote: bool,
}

/// What a client tells of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tell {
    /// Spam, or ham; none when it only takes back.
    pub spam: Option<bool>,
    /// Where to learn.
    pub set: Places,
    /// Where to forget.
    pub remove: Places,
}

/// A request that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub method: Method,
    /// Minor version that the client speaks: 2 and below know no `Spam` line beside a message.
    pub minor: u8,
    /// Whose settings, by name; none for the default.
    pub user: Option<String>,
    /// The body is in zlib's format.
    pub compressed: bool,
    /// What [`Method::Tell`] tells.
    pub tell: Tell,
    /// The message as it was sent.
    pub body: Vec<u8>,
}

/// Bounds of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request or status line and the header lines together.
    pub head_bytes_max: usize,
    /// Bytes of the body as it is sent.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head_bytes_max: 8_192, body_bytes_max: 50 << 20 }
    }
}

/// What is wrong with a request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// The first line.
    #[error("Bad header line: not a request of this protocol")]
    FirstLine,
    /// A header line.
    #[error("Bad header line: name and value expected")]
    Header,
    /// A number or word in a header line.
    #[error("Bad header line: its value is not understood")]
    Value,
    /// More than one `Content-length`.
    #[error("Bad header line: Content-length occurs twice")]
    LengthTwice,
    /// The head is over its limit.
    #[error("the header lines are too long")]
    HeadTooLong,
    /// The body is over its limit.
    #[error("the message is too large")]
    BodyTooLong,
    /// Other bytes than announced.
    #[error("Content length mismatch: more or fewer bytes than announced")]
    Length,
}

impl Bad {
    /// The status that spamd answers.
    pub fn status(self) -> Status {
        match self {
            Bad::BodyTooLong => Status::TooLarge,
            _ => Status::Protocol,
        }
    }
}

/// Lines up to an empty one, and how many bytes they take. LF alone ends a line too.
fn head_of(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
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
fn field(line: &[u8]) -> Result<(String, &str), Bad> {
    let line = std::str::from_utf8(line).map_err(|_| Bad::Header)?;
    let (name, value) = line.split_once(':').ok_or(Bad::Header)?;
    Ok((name.trim().to_ascii_lowercase(), value.trim()))
}

fn number(value: &str) -> Result<usize, Bad> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    if digits { value.parse().map_err(|_| Bad::Value) } else { Err(Bad::Value) }
}

fn places(value: &str) -> Result<Places, Bad> {
    let mut places = Places::default();
    for word in value.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "local" => places.local = true,
            "remote" => places.remote = true,
            _ => return Err(Bad::Value),
        }
    }
    Ok(places)
}

/// Method and minor version.
fn request_line(line: &[u8]) -> Result<(Method, u8), Bad> {
    let line = std::str::from_utf8(line).map_err(|_| Bad::FirstLine)?;
    let (word, version) = line.split_once(' ').ok_or(Bad::FirstLine)?;
    let method = Method::ALL.into_iter().find(|m| m.name() == word).ok_or(Bad::FirstLine)?;
    let minor = version.trim().strip_prefix("SPAMC/1.").and_then(|m| m.parse().ok());
    Ok((method, minor.ok_or(Bad::FirstLine)?))
}

/// The head of a request, its length if it says one.
fn read_head(lines: &[&[u8]]) -> Result<(Request, Option<usize>), Bad> {
    let (first, fields) = lines.split_first().ok_or(Bad::FirstLine)?;
    let (method, minor) = request_line(first)?;
    let (user, compressed, tell) = (None, false, Tell::default());
    let mut request = Request { method, minor, user, compressed, tell, body: Vec::new() };
    let mut length = None;
    for line in fields {
        let (name, value) = field(line)?;
        match name.as_str() {
            "content-length" if length.is_some() => return Err(Bad::LengthTwice),
            "content-length" => length = Some(number(value)?),
            "user" if value.is_empty() || value.bytes().any(|b| b.is_ascii_control()) => {
                return Err(Bad::Value);
            }
            "user" => request.user = Some(value.to_owned()),
            "compress" if value.eq_ignore_ascii_case("zlib") => request.compressed = true,
            "compress" => return Err(Bad::Value),
            "message-class" => match value.to_ascii_lowercase().as_str() {
                "spam" => request.tell.spam = Some(true),
                "ham" => request.tell.spam = Some(false),
                _ => return Err(Bad::Value),
            },
            "set" => request.tell.set = places(value)?,
            "remove" => request.tell.remove = places(value)?,
            // Later versions may say more.
            _ => {}
        }
    }
    Ok((request, length))
}

/// Reads one request, in pieces of any size.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    /// The head while it is incomplete.
    head: Vec<u8>,
    /// The request whose body is being read, and its length if it is known.
    open: Option<(Request, Option<usize>)>,
}

impl RequestReader {
    /// A reader with these bounds.
    pub fn new(limits: Limits) -> Self {
        RequestReader { limits, head: Vec::new(), open: None }
    }

    /// Takes the next bytes. Some as soon as the request is complete; the reader is then done.
    ///
    /// # Errors
    /// [`Bad`]: answer its [`Bad::status`] and close.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Request>, Bad> {
        if self.open.is_some() {
            return self.body(bytes);
        }
        self.head.extend_from_slice(bytes);
        if let Some(end) = memchr::memchr(b'\n', &self.head) {
            if end >= self.limits.head_bytes_max {
                return Err(Bad::HeadTooLong);
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
            return if over { Err(Bad::HeadTooLong) } else { Ok(None) };
        };
        if used > self.limits.head_bytes_max {
            return Err(Bad::HeadTooLong);
        }
        let (request, length) = read_head(&lines)?;
        if length.is_some_and(|n| n > self.limits.body_bytes_max) {
            return Err(Bad::BodyTooLong);
        }
        if !request.method.has_body() {
            return Ok(Some(request));
        }
        let rest = self.head.split_off(used);
        self.head = Vec::new();
        self.open = Some((request, length));
        self.body(&rest)
    }

    fn body(&mut self, bytes: &[u8]) -> Result<Option<Request>, Bad> {
        let Some((request, length)) = &mut self.open else { return Ok(None) };
        let after = request.body.len().saturating_add(bytes.len());
        if length.is_some_and(|n| after > n) {
            return Err(Bad::Length);
        }
        if after > self.limits.body_bytes_max {
            return Err(Bad::BodyTooLong);
        }
        request.body.extend_from_slice(bytes);
        let complete = length.is_some_and(|n| after == n);
        Ok(if complete { self.open.take().map(|(request, _)| request) } else { None })
    }

    /// Bytes of memory that the request holds so far.
    pub fn held_bytes(&self) -> usize {
        let body = self.open.as_ref().map_or(0, |(request, _)| request.body.capacity());
        self.head.capacity() + body
    }

    /// Bytes of the body that were announced and have not come.
    pub fn missing_bytes(&self) -> usize {
        let missing = |(request, length): &(Request, Option<usize>)| {
            length.map(|n| n.saturating_sub(request.body.len()))
        };
        self.open.as_ref().and_then(missing).unwrap_or(0)
    }

    /// The client closed its side: the request, if that completes it.
    ///
    /// # Errors
    /// [`Bad`]: it is incomplete.
    pub fn end(self) -> Result<Request, Bad> {
        match self.open {
            Some((request, None)) => Ok(request),
            Some((_, Some(_))) => Err(Bad::Length),
            None => Err(Bad::FirstLine),
        }
    }
}

/// Outcome of a request: codes of sysexits.h, as spamd answers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done.
    Ok,
    /// Our own fault.
    Software,
    /// Try again later.
    TempFail,
    /// The request is not understood.
    Protocol,
    /// The message is too large.
    TooLarge,
}

impl Status {
    /// Code and name in the status line.
    pub fn wire(self) -> (u8, &'static str) {
        match self {
            Status::Ok => (0, "EX_OK"),
            Status::Software => (70, "EX_SOFTWARE"),
            Status::TempFail => (75, "EX_TEMPFAIL"),
            Status::Protocol => (76, "EX_PROTOCOL"),
            Status::TooLarge => (65, "EX_DATAERR"),
        }
    }
}

/// The `Spam:` line: the verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// It is spam.
    pub spam: bool,
    /// Points.
    pub points: f64,
    /// Points from which a message is spam.
    pub threshold: f64,
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.spam { "True" } else { "False" };
        write!(f, "{word} ; {:.1} / {:.1}", self.points, self.threshold)
    }
}

impl Score {
    fn read(value: &str) -> Result<Self, Bad> {
        let (word, numbers) = value.split_once(';').ok_or(Bad::Value)?;
        let (points, threshold) = numbers.split_once('/').ok_or(Bad::Value)?;
        let read = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        Ok(Score {
            spam: matches!(word.trim().to_ascii_lowercase().as_str(), "true" | "yes"),
            points: read(points).ok_or(Bad::Value)?,
            threshold: read(threshold).ok_or(Bad::Value)?,
        })
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// Code of the status line.
    pub code: u8,
    /// Its text.
    pub text: String,
    /// The verdict, for requests that ask for one.
    pub score: Option<Score>,
    /// Where it was learned.
    pub did_set: Places,
    /// Where it was forgotten.
    pub did_remove: Places,
    /// What follows the header lines; none for responses that have only those.
    pub body: Option<Vec<u8>>,
}

impl Response {
    /// A response of header lines only.
    pub fn new(status: Status) -> Self {
        let (code, text) = status.wire();
        let (did_set, did_remove) = (Places::default(), Places::default());
        Response { code, text: text.to_owned(), score: None, did_set, did_remove, body: None }
    }

    /// The answer to [`Method::Ping`].
    pub fn pong() -> Self {
        Response { text: "PONG".to_owned(), ..Self::new(Status::Ok) }
    }

    /// The bytes on the wire. `text` is cut at its first control character.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_for(Method::Check, MINOR_WITH_BOTH)
    }

    /// The bytes on the wire for a client of this minor version, as spamd answers it: below 3 an answer
    /// has either the verdict or the length before its body, never both. Exim reads nothing else.
    pub fn to_bytes_for(&self, method: Method, minor: u8) -> Vec<u8> {
        let old = minor < MINOR_WITH_BOTH;
        let of_message = matches!(method, Method::Process | Method::Headers | Method::Tell);
        let text = self.text.split(char::is_control).next().unwrap_or_default();
        let mut head = format!("SPAMD/1.1 {} {text}\r\n", self.code);
        if let Some(body) = self.body.as_ref().filter(|_| !old || of_message) {
            head.push_str(&format!("Content-length: {}\r\n", body.len()));
        }
        if let Some(score) = self.score.as_ref().filter(|_| !old || !of_message) {
            head.push_str(&format!("Spam: {score}\r\n"));
        }
        for (name, places) in [("DidSet", self.did_set), ("DidRemove", self.did_remove)] {
            let words = [(places.local, "local"), (places.remote, "remote")];
            let words: Vec<&str> = words.iter().filter(|w| w.0).map(|w| w.1).collect();
            if !words.is_empty() {
                head.push_str(&format!("{name}: {}\r\n", words.join(",")));
            }
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Reads a whole response: what came until the server closed.
    ///
    /// # Errors
    /// [`Bad`]: it is not one, or not whole.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Bad> {
        // PING and errors are answered by a status line alone.
        let (lines, used) = match head_of(bytes) {
            Some(head) => head,
            None => (bytes.split(|b| *b == b'\n').take(1).collect(), bytes.len()),
        };
        if used > limits.head_bytes_max {
            return Err(Bad::HeadTooLong);
        }
        let (first, fields) = lines.split_first().ok_or(Bad::FirstLine)?;
        let first = std::str::from_utf8(first).map_err(|_| Bad::FirstLine)?.trim_end();
        let mut words = first.splitn(3, ' ');
        let spamd = words.next().is_some_and(|w| w.starts_with("SPAMD/1."));
        let code = words.next().and_then(|w| w.parse::<u8>().ok()).filter(|_| spamd);
        let text = words.next().unwrap_or_default().to_owned();
        let code = code.ok_or(Bad::FirstLine)?;
        let mut response = Response { code, text, ..Self::new(Status::Ok) };
        let mut length = None;
        for line in fields {
            let (name, value) = field(line)?;
            match name.as_str() {
                "content-length" => length = Some(number(value)?),
                "spam" => response.score = Some(Score::read(value)?),
                "didset" => response.did_set = places(value)?,
                "didremove" => response.did_remove = places(value)?,
                _ => {}
            }
        }
        let body = bytes.get(used..).unwrap_or_default();
        if body.len() > limits.body_bytes_max {
            return Err(Bad::BodyTooLong);
        }
        if length.is_some_and(|n| n != body.len()) {
            return Err(Bad::Length);
        }
        response.body = (length.is_some() || !body.is_empty()).then(|| body.to_vec());
        Ok(response)
    }
}

/// The bytes of a request with this message, as spamc sends it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Request>, Bad> {
        RequestReader::new(Limits::default()).push(bytes)
    }

    #[test]
    fn every_method_is_read_whatever_the_pieces() {
        for method in Method::ALL {
            let bytes = request_bytes(method, Some("ann"), b"Subject: x\r\n\r\nbody\r\n");
            let whole = read(&bytes).unwrap().expect("complete");
            assert_eq!((whole.method, whole.user.as_deref()), (method, Some("ann")));
            assert_eq!(whole.body.is_empty(), !method.has_body());
            let mut reader = RequestReader::new(Limits::default());
            let (last, before) = bytes.split_last().unwrap();
            for byte in before {
                assert_eq!(reader.push(&[*byte]).unwrap(), None);
            }
            assert_eq!(reader.push(&[*last]).unwrap(), Some(whole));
        }
    }

    #[test]
    fn old_clients_get_verdict_or_length_never_both() {
        let score = Some(Score { spam: true, points: 7.0, threshold: 6.0 });
        let body = Some(b"report\n".to_vec());
        let response = Response { score, body, ..Response::new(Status::Ok) };
        let told = |method, minor| {
            String::from_utf8(response.to_bytes_for(method, minor)).expect("plain text")
        };
        // Exim reads "SPAMD/%7s 0 EX_OK\r\nSpam: %*s ; %lf / %lf\r\n\r\n".
        assert_eq!(
            told(Method::Report, 2),
            "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 7.0 / 6.0\r\n\r\nreport\n"
        );
        assert_eq!(
            told(Method::Process, 2),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 7\r\n\r\nreport\n"
        );
        assert_eq!(
            told(Method::Report, 3),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 7\r\nSpam: True ; 7.0 / 6.0\r\n\r\nreport\n"
        );
        assert_eq!(response.to_bytes(), response.to_bytes_for(Method::Report, 5));
    }

    #[test]
    fn without_a_length_the_end_of_input_ends_the_message() {
        let mut reader = RequestReader::new(Limits::default());
        assert_eq!(reader.push(b"CHECK SPAMC/1.2\r\n\r\nhello").unwrap(), None);
        assert_eq!(reader.push(b" there").unwrap(), None);
        assert_eq!(reader.end().unwrap().body, b"hello there");
        let mut short = RequestReader::new(Limits::default());
        assert_eq!(short.push(b"CHECK SPAMC/1.2\r\nContent-length: 9\r\n\r\nhello").unwrap(), None);
        assert_eq!(short.end(), Err(Bad::Length));
        assert_eq!(RequestReader::new(Limits::default()).end(), Err(Bad::FirstLine));
    }

    #[test]
    fn an_old_ping_is_one_line() {
        let ping = read(b"PING SPAMC/1.2\r\n").unwrap().expect("complete");
        assert_eq!((ping.method, ping.minor), (Method::Ping, 2));
        assert_eq!(read(b"PING SPAMC/1.5\r\n").unwrap(), None, "header lines follow");
        assert!(read(b"PING SPAMC/1.5\r\n\r\n").unwrap().is_some());
    }

    #[test]
    fn what_tell_tells() {
        let text = b"TELL SPAMC/1.3\r\nMessage-class: spam\r\nSet: local, remote\r\n\
                     Remove: local\r\nCompress: zlib\r\nContent-length: 1\r\n\r\nx";
        let request = read(text).unwrap().unwrap();
        let both = Places { local: true, remote: true };
        let local = Places { local: true, remote: false };
        assert_eq!(request.tell, Tell { spam: Some(true), set: both, remove: local });
        assert!(request.compressed);
    }

    #[test]
    fn bad_requests_are_refused() {
        for (text, bad) in [
            ("GET / HTTP/1.1\r\n\r\n", Bad::FirstLine),
            ("CHECK\r\n\r\n", Bad::FirstLine),
            ("check SPAMC/1.5\r\n\r\n", Bad::FirstLine),
            ("CHECK SPAMC/2.0\r\n\r\n", Bad::FirstLine),
            ("\r\n", Bad::FirstLine),
            ("CHECK SPAMC/1.5\r\nnonsense\r\n\r\n", Bad::Header),
            ("CHECK SPAMC/1.5\r\nContent-length: -1\r\n\r\n", Bad::Value),
            ("CHECK SPAMC/1.5\r\nContent-length: +1\r\n\r\nx", Bad::Value),
            ("CHECK SPAMC/1.5\r\nContent-length: 1\r\nContent-Length: 1\r\n\r\n", Bad::LengthTwice),
            ("CHECK SPAMC/1.5\r\nContent-length: 1\r\n\r\nxy", Bad::Length),
            ("CHECK SPAMC/1.5\r\nContent-length: 99999999999\r\n\r\n", Bad::BodyTooLong),
            ("CHECK SPAMC/1.5\r\nCompress: lzma\r\n\r\n", Bad::Value),
            ("TELL SPAMC/1.5\r\nSet: everywhere\r\n\r\n", Bad::Value),
            ("CHECK SPAMC/1.5\r\nUser: \r\n\r\n", Bad::Value),
        ] {
            assert_eq!(read(text.as_bytes()), Err(bad), "{text:?}");
        }
    }

    #[test]
    fn heads_and_bodies_have_limits() {
        let limits = Limits { head_bytes_max: 64, body_bytes_max: 8 };
        let mut reader = RequestReader::new(limits);
        assert_eq!(reader.push(&[b'x'; 64]).unwrap(), None);
        assert_eq!(reader.push(b"x"), Err(Bad::HeadTooLong));
        let mut reader = RequestReader::new(limits);
        assert_eq!(reader.push(b"CHECK SPAMC/1.5\r\n\r\n12345678").unwrap(), None);
        assert_eq!(reader.push(b"9"), Err(Bad::BodyTooLong));
        assert_eq!(Bad::BodyTooLong.status().wire().0, 65);
    }

    #[test]
    fn responses_are_read_as_they_were_written() {
        let score = Score { spam: true, points: 12.3, threshold: 6.0 };
        let mut response = Response {
            score: Some(score),
            did_set: Places { local: true, remote: false },
            body: Some(b"A,B".to_vec()),
            ..Response::new(Status::Ok)
        };
        let limits = Limits::default();
        assert_eq!(Response::read(&response.to_bytes(), &limits).unwrap(), response);
        let text = String::from_utf8(response.to_bytes()).unwrap();
        assert!(text.starts_with("SPAMD/1.1 0 EX_OK\r\nContent-length: 3\r\n"), "{text}");
        assert!(text.contains("\r\nSpam: True ; 12.3 / 6.0\r\nDidSet: local\r\n\r\nA,B"), "{text}");
        response.text = "no\r\nSpam: False ; 0 / 0".to_owned();
        let injected = Response::read(&response.to_bytes(), &limits).unwrap();
        assert_eq!((injected.text.as_str(), injected.score), ("no", Some(score)));
    }

    #[test]
    fn a_status_line_alone_is_a_response() {
        let pong = Response::read(b"SPAMD/1.5 0 PONG\r\n", &Limits::default()).unwrap();
        assert_eq!((pong.code, pong.text.as_str(), pong.body), (0, "PONG", None));
        let error = b"SPAMD/1.0 76 Bad header line: (EOF during headers)\r\n";
        assert_eq!(Response::read(error, &Limits::default()).unwrap().code, 76);
        for bad in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n", b"SPAMD/1.1 999 x\r\n", b"\xff\n\n"] {
            assert_eq!(Response::read(bad, &Limits::default()), Err(Bad::FirstLine), "{bad:?}");
        }
        let short = b"SPAMD/1.1 0 EX_OK\r\nContent-length: 5\r\n\r\nabc";
        assert_eq!(Response::read(short, &Limits::default()), Err(Bad::Length));
    }
}
