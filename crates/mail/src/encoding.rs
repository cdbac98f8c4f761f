//! Content transfer encodings (RFC 2045 section 6): base64 and quoted-printable, tolerant of what
//! mail really contains.

use std::borrow::Cow;

use memchr::memchr;

/// Decoded bytes, and whether the encoding was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// As much as could be decoded.
    pub bytes: Cow<'a, [u8]>,
    /// Something in the input was not of the encoding.
    pub broken: bool,
}

/// Decodes base64. White space is skipped; other characters outside the alphabet are skipped and
/// reported; what follows the padding is decoded as a further run, as mail readers do.
pub fn base64(input: &[u8]) -> Decoded<'static> {
    let mut clean: Vec<u8> = Vec::with_capacity(input.len());
    let mut at = 0;
    for end in memchr::memchr_iter(b'\n', input) {
        let line = &input[at..end];
        clean.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        at = end + 1;
    }
    clean.extend_from_slice(input[at..].strip_suffix(b"\r").unwrap_or(&input[at..]));
    // The decoder refuses what is not whole groups; a failed run leaves `clean` half decoded.
    if clean.len().is_multiple_of(4)
        && let Ok(length) = base64_simd::STANDARD.decode_inplace(&mut clean).map(|out| out.len())
    {
        clean.truncate(length);
        return Decoded { bytes: Cow::Owned(clean), broken: false };
    }
    base64_tolerant(input)
}

/// The slow path: a byte at a time, for input that the fast decoder refuses.
fn base64_tolerant(input: &[u8]) -> Decoded<'static> {
    let mut out = Vec::with_capacity(input.len() / 4 * 3 + 3);
    let (mut bits, mut count, mut broken) = (0u32, 0u8, false);
    for &byte in input {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                push_tail(bits, count, &mut out);
                (bits, count) = (0, 0);
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            _ => {
                broken = true;
                continue;
            }
        };
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    broken |= count != 0;
    push_tail(bits, count, &mut out);
    Decoded { bytes: Cow::Owned(out), broken }
}

/// The one or two whole bytes in an incomplete group of two or three characters.
fn push_tail(bits: u32, count: u8, out: &mut Vec<u8>) {
    match count {
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => {}
    }
}

/// Decodes quoted-printable (RFC 2045 section 6.7). A `=` that no hexadecimal pair or line end
/// follows is kept as it is and reported.
pub fn quoted_printable(input: &[u8]) -> Decoded<'_> {
    if memchr(b'=', input).is_none() {
        return Decoded { bytes: Cow::Borrowed(input), broken: false };
    }
    let mut out = Vec::with_capacity(input.len());
    let mut broken = false;
    let mut at = 0;
    while let Some(i) = memchr(b'=', &input[at..]).map(|i| at + i) {
        out.extend_from_slice(&input[at..i]);
        let rest = &input[i + 1..];
        if let [a, b, ..] = *rest
            && let (Some(a), Some(b)) = (hex(a), hex(b))
        {
            out.push(a << 4 | b);
            at = i + 3;
        } else if let Some(length) = soft_break(rest) {
            at = i + 1 + length;
        } else {
            broken = true;
            out.push(b'=');
            at = i + 1;
        }
    }
    out.extend_from_slice(&input[at..]);
    Decoded { bytes: Cow::Owned(out), broken }
}

/// Length of a soft line break after `=`: optional white space and a line end, or the end of input.
fn soft_break(rest: &[u8]) -> Option<usize> {
    let blank = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    match &rest[blank..] {
        [] => Some(blank),
        [b'\r', b'\n', ..] => Some(blank + 2),
        [b'\n', ..] => Some(blank + 1),
        _ => None,
    }
}

/// Decodes the text of a Q encoded word (RFC 2047 section 4.2): `_` is a space.
pub fn q_word(input: &[u8]) -> Vec<u8> {
    if memchr(b'_', input).is_none() {
        return quoted_printable(input).bytes.into_owned();
    }
    // An encoded underscore (=5F) must stay: replace before decoding, not after.
    let spaced: Vec<u8> = input.iter().map(|&b| if b == b'_' { b' ' } else { b }).collect();
    quoted_printable(&spaced).bytes.into_owned()
}

/// Value of a hexadecimal digit.
pub fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_whole_broken_and_cut() {
        assert_eq!(&*base64(b"aGVs\r\nbG8=\r\n").bytes, b"hello");
        assert!(!base64(b"aGVsbG8=").broken);
        let odd = base64(b"aGV*sbG8");
        assert_eq!((&*odd.bytes, odd.broken), (&b"hello"[..], true));
        assert_eq!(&*base64(b"YQ==Yg==").bytes, b"ab", "two runs");
        assert!(base64(b"").bytes.is_empty());
    }

    #[test]
    fn quoted_printable_soft_breaks_and_garbage() {
        assert_eq!(&*quoted_printable(b"a=3Db=\r\nc=\nd= \r\ne").bytes, b"a=bcde");
        let odd = quoted_printable(b"1=zz");
        assert_eq!((&*odd.bytes, odd.broken), (&b"1=zz"[..], true));
        assert_eq!(q_word(b"a_b=5Fc"), b"a b_c");
    }
}
