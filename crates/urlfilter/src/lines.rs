//! Lines of any reader, in bounded memory: a file of one endless line costs no more than another.

use std::io::{BufRead, Read as _};

use crate::limits::LINE_BYTES_MAX;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its text, without line end.
    Text(&'a str),
    /// It is not UTF-8.
    NotText(&'a [u8]),
    /// It was longer than [`LINE_BYTES_MAX`]: its beginning.
    TooLong(&'a [u8]),
}

/// Lines of a reader, counted.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Line that was read last, from 1.
    pub(crate) number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Lines { reader, buffer: Vec::new(), number: 0 }
    }

    /// What is next in the reader's buffer, without taking it.
    pub(crate) fn peek(&mut self) -> std::io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    /// The reader, to ask what it counted.
    pub(crate) fn reader(&self) -> &R {
        &self.reader
    }

    /// The next line; none at the end.
    pub(crate) fn next(&mut self) -> std::io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let max = LINE_BYTES_MAX as u64 + 2;
        let read = self.reader.by_ref().take(max).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = self.buffer.pop_if(|byte| *byte == b'\n').is_some();
        if !is_whole && read as u64 == max {
            self.skip_line()?;
            return Ok(Some(Line::TooLong(&self.buffer)));
        }
        let mut line = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        if self.number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.len() > LINE_BYTES_MAX {
            return Ok(Some(Line::TooLong(line)));
        }
        Ok(Some(match std::str::from_utf8(line) {
            Ok(text) => Line::Text(text),
            Err(_) => Line::NotText(line),
        }))
    }

    /// Reads past the end of the line.
    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                return Ok(());
            }
            if let Some(end) = memchr::memchr(b'\n', bytes) {
                self.reader.consume(end + 1);
                return Ok(());
            }
            let all = bytes.len();
            self.reader.consume(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_read_past() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let exact = "y".repeat(LINE_BYTES_MAX);
        let text = format!("\u{feff}a\r\n{long}\n{long}{long}\n{exact}\r\nb");
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next().unwrap(), Some(Line::Text("a")));
        assert!(matches!(lines.next().unwrap(), Some(Line::TooLong(_))));
        assert!(matches!(lines.next().unwrap(), Some(Line::TooLong(_))));
        assert_eq!(lines.next().unwrap(), Some(Line::Text(&exact)));
        assert_eq!(lines.next().unwrap(), Some(Line::Text("b")));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.number, 5);
        let mut lines = Lines::new(&b"a\xffb\n\n"[..]);
        assert_eq!(lines.next().unwrap(), Some(Line::NotText(b"a\xffb")));
        assert_eq!(lines.next().unwrap(), Some(Line::Text("")));
    }
}
