//! Bodies in ICAP: always in chunks (RFC 3507 section 4.4.3), with a preview before the rest.

use bytes::{BufMut, Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TRAILER, TRANSFER_ENCODING};

use crate::icap::codec::{CodecError, CodecLimits, HeadEnd};
use crate::icap::http_head;

/// What comes next of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// The preview is over, and there is more: the client waits. It comes again until
    /// [`ChunkDecoder::go_on`].
    PreviewEnd,
    /// The body is over. It comes again.
    End(HeaderMap),
}

/// Reads a body from bytes as they come.
#[derive(Debug)]
pub struct ChunkDecoder {
    limits: CodecLimits,
    state: State,
    /// What may still come in the preview; none outside of one.
    preview_left: Option<u64>,
}

#[derive(Debug)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers { end: HeadEnd, is_last: bool },
    PreviewEnd,
    End(HeaderMap),
}

impl ChunkDecoder {
    /// A decoder of a body that begins with a preview of at most so many bytes, or without one.
    pub fn new(limits: CodecLimits, preview: Option<usize>) -> Self {
        let preview_left = preview.map(|n| u64::try_from(n).unwrap_or(u64::MAX));
        ChunkDecoder { limits, state: State::Size, preview_left }
    }

    /// The decoder of no body at all.
    pub fn ended(limits: CodecLimits) -> Self {
        ChunkDecoder { limits, state: State::End(HeaderMap::new()), preview_left: None }
    }

    /// The client has been told to send what is behind the preview.
    pub fn go_on(&mut self) {
        if matches!(self.state, State::PreviewEnd) {
            (self.state, self.preview_left) = (State::Size, None);
        }
    }

    /// The body has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::End(_))
    }

    /// The preview has ended, and the client waits.
    pub fn waits(&self) -> bool {
        matches!(self.state, State::PreviewEnd)
    }

    /// Takes the next piece off the bytes; none if more of them are needed.
    ///
    /// # Errors
    /// If they are no chunks.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Result<Option<Piece>, CodecError> {
        loop {
            match &mut self.state {
                State::Size => match self.size(bytes)? {
                    None => return Ok(None),
                    Some(state) => self.state = state,
                },
                State::Data(left) => {
                    let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    if n == 0 {
                        return Ok(None);
                    }
                    *left = left.saturating_sub(u64::try_from(n).unwrap_or(u64::MAX));
                    if *left == 0 {
                        self.state = State::DataEnd;
                    }
                    return Ok(Some(Piece::Data(bytes.split_to(n).freeze())));
                }
                State::DataEnd => match bytes.get(..2) {
                    None => return Ok(None),
                    Some(b"\r\n") => {
                        drop(bytes.split_to(2));
                        self.state = State::Size;
                    }
                    Some(_) => return Err(CodecError::Chunk("it is longer than it says")),
                },
                State::Trailers { end, is_last } => {
                    let Some(n) = end.find(bytes, self.limits.header_bytes_max)? else {
                        return Ok(None);
                    };
                    let fields = http_head::fields(&bytes.split_to(n), &self.limits)?;
                    self.state = match is_last {
                        true => State::End(fields),
                        false if fields.is_empty() => State::PreviewEnd,
                        false => return Err(CodecError::Chunk("a preview has trailers")),
                    };
                }
                State::PreviewEnd => return Ok(Some(Piece::PreviewEnd)),
                State::End(trailers) => return Ok(Some(Piece::End(trailers.clone()))),
            }
        }
    }

    /// Reads the line that begins a chunk.
    fn size(&mut self, bytes: &mut BytesMut) -> Result<Option<State>, CodecError> {
        let line_max = self.limits.chunk_line_bytes_max;
        let Some(end) = bytes.iter().take(line_max).position(|b| *b == b'\n') else {
            return match bytes.len() >= line_max {
                true => Err(CodecError::Chunk("the line of its size is too long")),
                false => Ok(None),
            };
        };
        let line = bytes.split_to(end + 1);
        let line = line.strip_suffix(b"\r\n").ok_or(CodecError::LineEnd)?;
        let (size, is_whole) = chunk_line(line)?;
        if let Some(left) = &mut self.preview_left {
            *left = left.checked_sub(size).ok_or(CodecError::PreviewLonger)?;
        }
        if size > 0 {
            return Ok(Some(State::Data(size)));
        }
        let is_last = self.preview_left.is_none() || is_whole;
        Ok(Some(State::Trailers { end: HeadEnd::behind_line(), is_last }))
    }
}

/// The most digits of a size: 2^60 bytes, beyond every body.
const SIZE_DIGITS_MAX: usize = 15;

/// Size and extensions of a chunk; whether one of them is `ieof`: the body ends within the preview.
fn chunk_line(line: &[u8]) -> Result<(u64, bool), CodecError> {
    let line = std::str::from_utf8(line).map_err(|_| CodecError::Chunk("its size is no number"))?;
    if line.bytes().any(|b| b.is_ascii_control() && b != b'\t') {
        return Err(CodecError::LineEnd);
    }
    let (size, extensions) = line.split_once(';').unwrap_or((line, ""));
    let size = size.trim_end_matches([' ', '\t']);
    // `from_str_radix` takes a sign.
    let is_number = !size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_number || size.len() > SIZE_DIGITS_MAX {
        return Err(CodecError::Chunk("its size is no number of at most 15 digits"));
    }
    let size = u64::from_str_radix(size, 16).map_err(|_| CodecError::Chunk("its size"))?;
    let is_whole = extensions.split(';').any(|e| e.trim().eq_ignore_ascii_case("ieof"));
    Ok((size, is_whole))
}

/// Appends bytes as a chunk; none are no chunk, since that would end the body.
pub fn put_chunk(out: &mut BytesMut, data: &[u8]) {
    if !data.is_empty() {
        out.put_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.put_slice(data);
        out.put_slice(b"\r\n");
    }
}

/// Fields that would make the message another one, were they taken from its trailers.
const NEVER_TRAILERS: [HeaderName; 5] =
    [CONTENT_LENGTH, TRANSFER_ENCODING, HOST, CONNECTION, TRAILER];

/// Appends the end of a body, with those trailers that were announced.
pub fn put_end(out: &mut BytesMut, trailers: Option<&HeaderMap>, announced: Option<&str>) {
    out.put_slice(b"0\r\n");
    let is_announced = |name: &HeaderName| {
        let mut names = announced.unwrap_or_default().split(',');
        names.any(|n| n.trim().eq_ignore_ascii_case(name.as_str()))
    };
    let trailers = trailers.into_iter().flatten();
    for (name, value) in trailers.filter(|(n, _)| is_announced(n) && !NEVER_TRAILERS.contains(n)) {
        http_head::put_field(out, name.as_str(), value.as_bytes());
    }
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CodecLimits = CodecLimits {
        header_bytes_max: 1000,
        header_fields_max: 20,
        chunk_line_bytes_max: 40,
        preview_bytes_max: 1024,
    };

    /// What comes of bytes that come in pieces of this size: data, and how it ended.
    fn read(
        text: &str,
        preview: Option<usize>,
        step: usize,
    ) -> Result<(String, String), CodecError> {
        let mut decoder = ChunkDecoder::new(LIMITS, preview);
        let (mut buffer, mut data) = (BytesMut::new(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            buffer.extend_from_slice(piece);
            while let Some(piece) = decoder.next(&mut buffer)? {
                match piece {
                    Piece::Data(bytes) => data.extend_from_slice(&bytes),
                    Piece::PreviewEnd => {
                        data.extend_from_slice(b"|");
                        decoder.go_on();
                    }
                    Piece::End(trailers) => {
                        let rest = String::from_utf8_lossy(&buffer);
                        let end = format!("{} trailers, {rest:?} left", trailers.len());
                        return Ok((String::from_utf8(data).unwrap(), end));
                    }
                }
            }
        }
        Ok((String::from_utf8(data).unwrap(), "more is needed".to_owned()))
    }

    #[test]
    fn bodies_are_the_same_however_they_come() {
        for (text, preview, data, end) in [
            ("0\r\n\r\n", None, "", "0 trailers, \"\" left"),
            ("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", None, "abcde", "0 trailers, \"\" left"),
            ("3\r\nabc\r\n0\r\nA: b\r\nC:d\r\n\r\n", None, "abc", "2 trailers, \"\" left"),
            ("3\r\nabc\r\n0; ieof\r\n\r\n", Some(4), "abc", "0 trailers, \"\" left"),
            ("3\r\nabc\r\n0\r\n\r\n1\r\nd\r\n0\r\n\r\n", Some(3), "abc|d", "0 trailers, \"\" left"),
            ("0\r\n\r\n0\r\n\r\n", Some(0), "|", "0 trailers, \"\" left"),
            ("00A \t\r\n0123456789\r\n0\r\n\r\n", None, "0123456789", "0 trailers, \"\" left"),
            ("3\r\nab", None, "ab", "more is needed"),
        ] {
            for step in 1..text.len() {
                let found = read(text, preview, step).unwrap();
                assert_eq!(found, (data.to_owned(), end.to_owned()), "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn what_is_no_chunk_is_named() {
        let number = CodecError::Chunk("its size is no number of at most 15 digits");
        for (text, preview, error) in [
            ("-1\r\n", None, number),
            ("+1\r\n", None, number),
            ("0x1\r\n", None, number),
            (" 1\r\n", None, number),
            ("\r\n", None, number),
            ("1 1\r\n", None, number),
            ("ffffffffffffffff\r\n", None, number),
            ("1\n", None, CodecError::LineEnd),
            ("1;\r\r\n", None, CodecError::LineEnd),
            ("1\r\nab\r\n", None, CodecError::Chunk("it is longer than it says")),
            ("1\r\na\n0", None, CodecError::Chunk("it is longer than it says")),
            ("0\r\nA\r\n\r\n", None, CodecError::Field("a header field")),
            ("0\r\nA: b\r\n\r\n", Some(0), CodecError::Chunk("a preview has trailers")),
            ("5\r\nabcde\r\n", Some(4), CodecError::PreviewLonger),
        ] {
            assert_eq!(read(text, preview, 100), Err(error), "{text:?}");
        }
        let long = format!("1;{}", "x".repeat(50));
        let error = CodecError::Chunk("the line of its size is too long");
        assert_eq!(read(&long, None, 100), Err(error));
    }

    #[test]
    fn only_announced_trailers_are_written() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-a", "1".parse().unwrap());
        trailers.insert("x-b", "2".parse().unwrap());
        trailers.insert("content-length", "3".parse().unwrap());
        let mut out = BytesMut::new();
        put_chunk(&mut out, b"");
        put_chunk(&mut out, b"0123456789abcdef");
        put_end(&mut out, Some(&trailers), Some("X-A, Content-Length"));
        assert_eq!(out, "10\r\n0123456789abcdef\r\n0\r\nx-a: 1\r\n\r\n");
    }
}
