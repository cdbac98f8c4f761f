//! Small readers of bytes, as lenient as browsers and servers are.

/// White space: space, tab, CR, LF, vertical tab, form feed.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// Space or tab.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// A character of a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    (33..=126).contains(&byte) && !b"()<>@,;:\\\"/[]?={}".contains(&byte)
}

/// Splits off the first bytes that fulfil the condition: they, and the rest.
pub(super) fn span(bytes: &[u8], condition: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let len = bytes.iter().position(|byte| !condition(*byte)).unwrap_or(bytes.len());
    bytes.split_at(len)
}

/// Without white space around it.
pub(super) fn trimmed(bytes: &[u8]) -> &[u8] {
    let (_, bytes) = span(bytes, is_space);
    let len = bytes.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    bytes.get(..len).unwrap_or_default()
}

/// Without CR and LF at its end.
pub(super) fn chomp(bytes: &[u8]) -> &[u8] {
    let end = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let len = bytes.iter().rposition(end).map_or(0, |last| last + 1);
    bytes.get(..len).unwrap_or_default()
}

/// Up to and with the first LF.
pub(super) fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', bytes)?;
    bytes.get(..=end)
}

/// Up to and with the first CR, LF or CR LF. A CR at the very end may be half of one.
pub(super) fn line_of_either(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr2(b'\r', b'\n', bytes)?;
    if bytes.get(end) == Some(&b'\n') {
        return bytes.get(..=end);
    }
    match bytes.get(end + 1)? {
        b'\n' => bytes.get(..=end + 1),
        _ => bytes.get(..=end),
    }
}

/// Whether a line before a message is skipped: an empty one.
pub(super) fn is_ignorable(line: &[u8]) -> bool {
    matches!(line, b"\r" | b"\n" | b"\r\n")
}

/// Whether it starts with these letters, whatever their case.
pub(super) fn starts_with_word(bytes: &[u8], word: &[u8]) -> bool {
    bytes.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Whether the word is in it, whatever the case of letters.
pub(super) fn contains_word(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len().max(1)).any(|window| window.eq_ignore_ascii_case(word))
}

/// Without zero bytes: some servers read names and values over them.
pub(super) fn without_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| *byte != 0).collect()
}

/// Whether what should be a status line is taken for a body: browsers look for "http" only.
pub(super) fn is_body_line(bytes: &[u8]) -> bool {
    let (_, rest) = span(bytes, |byte| is_space(byte) || byte == 0);
    !starts_with_word(rest, b"http")
}

/// Control characters that may stand before the length of a chunk.
fn is_chunk_control(byte: u8) -> bool {
    is_space(byte)
}

/// A line of nothing but them.
pub(super) fn is_chunk_control_line(line: &[u8]) -> bool {
    line.iter().all(|byte| is_chunk_control(*byte))
}

/// Whether it can be the beginning of a chunk's length.
pub(super) fn may_be_chunk_length(bytes: &[u8]) -> bool {
    let (_, rest) = span(bytes, is_chunk_control);
    rest.first().is_none_or(u8::is_ascii_hexdigit)
}

/// Splits at the last (or first) byte that fulfils the condition; both parts trimmed.
pub(super) fn split_trimmed(
    bytes: &[u8],
    last: bool,
    condition: impl Fn(&u8) -> bool,
) -> (&[u8], &[u8]) {
    let place =
        if last { bytes.iter().rposition(condition) } else { bytes.iter().position(condition) };
    match place {
        Some(place) => {
            let (first, second) = bytes.split_at(place);
            (trimmed(first), trimmed(second.get(1..).unwrap_or_default()))
        }
        None => (trimmed(bytes), &[]),
    }
}
