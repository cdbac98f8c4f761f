//! Replies (RFC 5321 section 4.2) with enhanced codes (RFC 3463).

use std::borrow::Cow;

use crate::text::one_line;

/// Longest reply line a client accepts, in bytes. RFC 5321 says 512; more is common.
pub const REPLY_LINE_BYTES_MAX: usize = 4_096;
/// Most lines of one reply that a client accepts.
pub const REPLY_LINES_MAX: usize = 128;

/// A reply: code, enhanced code and text of one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Three digits, 200 to 599.
    pub code: u16,
    /// Enhanced status code (RFC 3463): class, subject and detail; none in the greeting and in
    /// replies to EHLO.
    pub enhanced: Option<(u8, u16, u16)>,
    /// Lines separated by `\n`. Other characters that break a line are
    /// replaced when the reply is written.
    pub text: Cow<'static, str>,
}

impl Reply {
    /// A reply with an enhanced code, e.g. `Reply::new(250, (2, 1, 0), "Ok")`.
    pub fn new(code: u16, enhanced: (u8, u16, u16), text: impl Into<Cow<'static, str>>) -> Self {
        Reply { code, enhanced: Some(enhanced), text: text.into() }
    }

    /// A reply without an enhanced code.
    pub fn plain(code: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Reply { code, enhanced: None, text: text.into() }
    }

    /// The code is 2xx: success.
    pub fn is_positive(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The code is 4xx: a transient failure, retry later.
    pub fn is_transient(&self) -> bool {
        (400..500).contains(&self.code)
    }

    /// The code is 5xx: a permanent failure.
    pub fn is_permanent(&self) -> bool {
        (500..600).contains(&self.code)
    }

    /// Appends the reply as it is sent. Control characters in the text cannot end a line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut lines = self.text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let separator = if lines.peek().is_some() { '-' } else { ' ' };
            let mut text = match self.enhanced {
                Some((class, subject, detail)) => {
                    format!("{}{separator}{class}.{subject}.{detail} ", self.code)
                }
                None => format!("{}{separator}", self.code),
            };
            text.push_str(&one_line(line, '?'));
            out.extend_from_slice(text.trim_end_matches(' ').as_bytes());
            if text.len() == 4 && line.is_empty() {
                out.push(b' ');
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// One line for logs: code, enhanced code and text, without characters that would break it.
    pub fn one_line(&self) -> String {
        let text = self.text.replace('\n', " / ");
        let text = one_line(&text, '?');
        match self.enhanced {
            Some((class, subject, detail)) => {
                format!("{} {class}.{subject}.{detail} {text}", self.code)
            }
            None => format!("{} {text}", self.code),
        }
    }
}

/// Why received bytes are not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A line that does not begin with a code and a separator.
    #[error("the answer is no SMTP reply")]
    Malformed,
    /// The lines of one reply have different codes.
    #[error("the lines of the answer bear different codes")]
    MixedCodes,
    /// A line over [`REPLY_LINE_BYTES_MAX`] or more than [`REPLY_LINES_MAX`] lines.
    #[error("the answer is too long")]
    TooLong,
}

/// Assembles replies from the bytes that a server sends.
#[derive(Debug, Default)]
pub struct ReplyReader {
    line: Vec<u8>,
    code: u16,
    lines: Vec<String>,
}

impl ReplyReader {
    /// Consumes bytes from the front of `input` until a reply is complete. None: `input` is
    /// consumed.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ReplyError> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (head, rest) = input.split_at(end + 1);
            *input = rest;
            self.line.extend_from_slice(head);
            if self.line.len() > REPLY_LINE_BYTES_MAX || self.lines.len() >= REPLY_LINES_MAX {
                return Err(ReplyError::TooLong);
            }
            let line = std::mem::take(&mut self.line);
            if self.take_line(line.trim_ascii_end())? {
                return Ok(Some(self.finish()));
            }
        }
        self.line.extend_from_slice(input);
        *input = &[];
        if self.line.len() > REPLY_LINE_BYTES_MAX {
            return Err(ReplyError::TooLong);
        }
        Ok(None)
    }

    /// Adds a line; true if it is the reply's last.
    fn take_line(&mut self, line: &[u8]) -> Result<bool, ReplyError> {
        let digits = line.get(..3).ok_or(ReplyError::Malformed)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(ReplyError::Malformed);
        }
        let code = digits.iter().fold(0u16, |n, d| n * 10 + u16::from(d - b'0'));
        if !(200..600).contains(&code) {
            return Err(ReplyError::Malformed);
        }
        if !self.lines.is_empty() && self.code != code {
            return Err(ReplyError::MixedCodes);
        }
        self.code = code;
        let text = String::from_utf8_lossy(line.get(4..).unwrap_or_default()).into_owned();
        self.lines.push(text);
        match line.get(3) {
            None | Some(b' ') => Ok(true),
            Some(b'-') => Ok(false),
            Some(_) => Err(ReplyError::Malformed),
        }
    }

    fn finish(&mut self) -> Reply {
        let mut enhanced = None;
        let mut lines = std::mem::take(&mut self.lines);
        for line in &mut lines {
            if let Some((code, rest)) = enhanced_code(line, self.code) {
                enhanced = enhanced.or(Some(code));
                *line = rest.to_owned();
            }
        }
        Reply { code: self.code, enhanced, text: lines.join("\n").into() }
    }
}

/// An enhanced status code at the start of a reply's text, if its class is that of the reply code.
fn enhanced_code(text: &str, code: u16) -> Option<((u8, u16, u16), &str)> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut parts = first.split('.');
    let class: u8 = parts.next()?.parse().ok()?;
    let subject: u16 = parts.next()?.parse().ok().filter(|n| *n < 1_000)?;
    let detail: u16 = parts.next()?.parse().ok().filter(|n| *n < 1_000)?;
    (parts.next().is_none() && u16::from(class) == code / 100)
        .then_some(((class, subject, detail), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_lines_and_cannot_be_made_to_write_more() {
        let reply = Reply::new(250, (2, 0, 0), "one\ntwo");
        assert_eq!(written(&reply), "250-2.0.0 one\r\n250 2.0.0 two\r\n");
        let injected = Reply::new(550, (5, 1, 1), "no <a\r\u{0}b>");
        assert_eq!(written(&injected), "550 5.1.1 no <a??b>\r\n");
        assert_eq!(written(&Reply::plain(334, "")), "334 \r\n");
    }

    #[test]
    fn reads_what_it_writes_in_any_pieces() {
        let reply = Reply::new(451, (4, 3, 2), "later\nplease");
        let wire = written(&reply);
        for cut in 0..wire.len() {
            let mut reader = ReplyReader::default();
            let (mut a, mut b) = wire.as_bytes().split_at(cut);
            let first = reader.read(&mut a).unwrap();
            let got = first.or_else(|| reader.read(&mut b).unwrap());
            assert_eq!(got, Some(reply.clone()), "cut at {cut}");
        }
    }

    #[test]
    fn refuses_what_is_no_reply() {
        for bad in ["hello\r\n", "25\r\n", "199 x\r\n", "250-a\r\n251 b\r\n", "250_x\r\n"] {
            let mut input = bad.as_bytes();
            assert!(ReplyReader::default().read(&mut input).is_err(), "{bad:?}");
        }
        let endless = vec![b'2'; REPLY_LINE_BYTES_MAX + 1];
        assert_eq!(ReplyReader::default().read(&mut &endless[..]), Err(ReplyError::TooLong));
    }
}
