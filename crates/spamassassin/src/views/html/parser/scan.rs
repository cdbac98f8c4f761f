//! Scanning of the source: the ends of names, white space, comments and quotes.

pub(super) fn is_space(byte: u8) -> bool {
    crate::views::perl::is_space(byte)
}

pub(super) fn name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b':')
}

pub(super) fn name_first(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':')
}

/// A byte of the buffer; beyond its end there is a NUL, as in Perl's buffers.
pub(super) fn at(s: &[u8], i: usize) -> u8 {
    s.get(i).copied().unwrap_or(0)
}

pub(super) fn skip_space(s: &[u8], mut i: usize) -> usize {
    while is_space(at(s, i)) {
        i += 1;
    }
    i
}

/// Where to cut the text at the end of a chunk: references and words may go on in the next one.
pub(super) fn text_cut(s: &[u8], from: usize) -> usize {
    let mut end = s.len();
    if end > from && !is_space(s[end - 1]) {
        while end > from && !is_space(s[end - 1]) {
            end -= 1;
        }
    }
    while end > from && is_space(s[end - 1]) {
        end -= 1;
    }
    end
}

/// The `>` of an end tag; quotes after a space or an equal sign hide it, as in old browsers.
pub(super) fn skip_until_gt(s: &[u8], mut i: usize) -> Option<usize> {
    let (mut quote, mut previous) = (0, b' ');
    while let Some(&b) = s.get(i) {
        if quote == 0 && b == b'>' {
            return Some(i);
        }
        if b == b'"' || b == b'\'' {
            if b == quote {
                quote = 0;
            } else if quote == 0 && (previous == b' ' || previous == b'=') {
                quote = b;
            }
        }
        previous = b;
        i += 1;
    }
    None
}

/// The end of `--`, white space, `>`, from `i` on.
pub(super) fn comment_end(s: &[u8], mut i: usize) -> Option<usize> {
    loop {
        i += memchr::memchr(b'-', s.get(i..)?)?;
        if at(s, i + 1) == b'-' {
            let end = skip_space(s, i + 2);
            if at(s, end) == b'>' {
                return Some(end + 1);
            }
        }
        i += 1;
    }
}

/// The end of a comment inside the keywords of a marked section.
pub(super) fn section_comment_end(s: &[u8], mut i: usize) -> Option<usize> {
    loop {
        i += memchr::memchr(b'-', s.get(i..)?)?;
        i += 1;
        if at(s, i) == b'-' {
            return Some(i + 1);
        }
    }
}
