//! Responses: writing them as spamd does for each client version, and parsing them.

use std::fmt;

use super::head::{Destinations, Limits, ProtocolError, destinations, field, head_of, number};
use super::request::Method;
use super::status::Status;

/// Minor version from which a response has both `Content-length` and `Spam`.
const MINOR_WITH_BOTH: u8 = 3;

/// The `Spam:` line: the verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The message is spam.
    pub spam: bool,
    /// Score of the message.
    pub points: f64,
    /// Score from which a message is spam.
    pub threshold: f64,
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.spam { "True" } else { "False" };
        write!(f, "{word} ; {:.1} / {:.1}", self.points, self.threshold)
    }
}

impl Score {
    fn read(value: &str) -> Result<Self, ProtocolError> {
        let (word, numbers) = value.split_once(';').ok_or(ProtocolError::Value)?;
        let (points, threshold) = numbers.split_once('/').ok_or(ProtocolError::Value)?;
        let read = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        Ok(Score {
            spam: matches!(word.trim().to_ascii_lowercase().as_str(), "true" | "yes"),
            points: read(points).ok_or(ProtocolError::Value)?,
            threshold: read(threshold).ok_or(ProtocolError::Value)?,
        })
    }
}

/// A response of spamd.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// Code of the status line.
    pub code: u8,
    /// Text of the status line.
    pub text: String,
    /// The verdict, for methods that return one.
    pub score: Option<Score>,
    /// `DidSet`: where it was learned.
    pub did_set: Destinations,
    /// `DidRemove`: where it was forgotten.
    pub did_remove: Destinations,
    /// What follows the header lines; none for responses that have only those.
    pub body: Option<Vec<u8>>,
}

impl Response {
    /// A response of header lines only.
    pub fn new(status: Status) -> Self {
        let (code, text) = status.wire();
        let (did_set, did_remove) = (Destinations::default(), Destinations::default());
        Response { code, text: text.to_owned(), score: None, did_set, did_remove, body: None }
    }

    /// The response to [`Method::Ping`].
    pub fn pong() -> Self {
        Response { text: "PONG".to_owned(), ..Self::new(Status::Ok) }
    }

    /// The response as it is sent. `text` is cut at its first control character.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_for(Method::Check, MINOR_WITH_BOTH)
    }

    /// The response as spamd sends it to a client of this minor version: below 3 it has either the
    /// verdict or the length before its body, never both. Exim parses nothing else.
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
        for (name, destinations) in [("DidSet", self.did_set), ("DidRemove", self.did_remove)] {
            let words = [(destinations.local, "local"), (destinations.remote, "remote")];
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

    /// Parses a complete response: everything received until the server closed the connection.
    ///
    /// # Errors
    /// [`ProtocolError`]: it is not one, or not whole.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, ProtocolError> {
        // PING and errors have a status line alone.
        let (lines, used) = match head_of(bytes) {
            Some(head) => head,
            None => (bytes.split(|b| *b == b'\n').take(1).collect(), bytes.len()),
        };
        if used > limits.head_bytes_max {
            return Err(ProtocolError::HeadTooLong);
        }
        let (first, fields) = lines.split_first().ok_or(ProtocolError::FirstLine)?;
        let first = std::str::from_utf8(first).map_err(|_| ProtocolError::FirstLine)?.trim_end();
        let mut words = first.splitn(3, ' ');
        let spamd = words.next().is_some_and(|w| w.starts_with("SPAMD/1."));
        let code = words.next().and_then(|w| w.parse::<u8>().ok()).filter(|_| spamd);
        let text = words.next().unwrap_or_default().to_owned();
        let code = code.ok_or(ProtocolError::FirstLine)?;
        let mut response = Response { code, text, ..Self::new(Status::Ok) };
        let mut length = None;
        for line in fields {
            let (name, value) = field(line)?;
            match name.as_str() {
                "content-length" => length = Some(number(value)?),
                "spam" => response.score = Some(Score::read(value)?),
                "didset" => response.did_set = destinations(value)?,
                "didremove" => response.did_remove = destinations(value)?,
                _ => {}
            }
        }
        let body = bytes.get(used..).unwrap_or_default();
        if body.len() > limits.body_bytes_max {
            return Err(ProtocolError::BodyTooLong);
        }
        if length.is_some_and(|n| n != body.len()) {
            return Err(ProtocolError::Length);
        }
        response.body = (length.is_some() || !body.is_empty()).then(|| body.to_vec());
        Ok(response)
    }
}
