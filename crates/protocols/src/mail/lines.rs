//! Lines of commands and answers.

/// Longer lines are cut: their rest says nothing that is needed here. A line of AUTH may have
/// 12,288 bytes (RFC 4954 section 4).
const LINE_BYTES_MAX: usize = 16 * 1024;

/// A line that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Takes bytes up to the end of a line, and gives the line without its end; `bytes` is what is
    /// behind it. None if the line goes on.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let end = memchr::memchr(b'\n', bytes);
        let (piece, rest) = match end {
            Some(end) => (bytes.get(..end)?, bytes.get(end + 1..)?),
            None => (*bytes, &[][..]),
        };
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or(piece));
        *bytes = rest;
        end?;
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(line)
    }
}

/// What is behind a word at the beginning of a line, whatever its case, and the spaces after it.
pub(super) fn after<'a>(line: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (begin, rest) = line.split_at_checked(word.len())?;
    let is_whole = rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric());
    (begin.eq_ignore_ascii_case(word) && is_whole).then(|| rest.trim_ascii())
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
