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
    /// Base64 went on behind its padding: some decoders end there.
    pub after_padding: bool,
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
        return Decoded { bytes: Cow::Owned(clean), broken: false, after_padding: false };
    }
    base64_tolerant(input)
}

/// The slow path, for input that the fast decoder refuses: a byte at a time where that is of no
/// use, by groups where whole ones follow each other.
fn base64_tolerant(input: &[u8]) -> Decoded<'static> {
    let mut out = Vec::with_capacity(input.len() / 4 * 3 + 3);
    let (mut bits, mut count, mut broken) = (0u32, 0u8, false);
    let mut padded_at = usize::MAX;
    let mut rest = input;
    while let Some((&byte, after)) = rest.split_first() {
        if count == 0
            && let Some((group, after)) = rest.split_first_chunk::<4>()
            && let Some(group) = whole_group(*group)
        {
            out.extend_from_slice(&group);
            rest = after;
            continue;
        }
        rest = after;
        match VALUES[usize::from(byte)] {
            value @ ..64 => {
                bits = bits << 6 | u32::from(value);
                count += 1;
                if count == 4 {
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                    (bits, count) = (0, 0);
                }
            }
            _ if byte == b'=' => {
                push_tail(bits, count, &mut out);
                (bits, count) = (0, 0);
                padded_at = padded_at.min(out.len());
            }
            _ => broken |= !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'),
        }
    }
    broken |= count != 0;
    push_tail(bits, count, &mut out);
    let after_padding = out.len() > padded_at;
    Decoded { bytes: Cow::Owned(out), broken, after_padding }
}

/// The value of each byte of the base64 alphabet; of others one that has no place in six bits.
static VALUES: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut values, mut i) = ([u8::MAX; 256], 0u8);
    while i < 64 {
        values[alphabet[i as usize] as usize] = i;
        i += 1;
    }
    values
};

/// What four characters of the alphabet stand for.
fn whole_group(group: [u8; 4]) -> Option<[u8; 3]> {
    let [a, b, c, d] = group.map(|byte| VALUES[usize::from(byte)]);
    let bits = [a, b, c, d].iter().fold(0, |bits, value| bits << 6 | u32::from(*value & 63));
    let [_, first, second, third] = bits.to_be_bytes();
    (a | b | c | d < 64).then_some([first, second, third])
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
        return Decoded { bytes: Cow::Borrowed(input), broken: false, after_padding: false };
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
    Decoded { bytes: Cow::Owned(out), broken, after_padding: false }
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

/// Decodes `%41`; a `%` that no pair follows is kept.
pub fn percent_decode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if let [b'%', a, b, ..] = bytes[at..]
            && let (Some(a), Some(b)) = (hex(a), hex(b))
        {
            out.push(a << 4 | b);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Bytes with every line end as CRLF, the only one that goes over the wire (RFC 5321 section
/// 2.3.8).
pub fn with_crlf(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + raw.len() / 32);
    for &byte in raw {
        if byte == b'\n' && out.last() != Some(&b'\r') {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_become_crlf_once() {
        assert_eq!(with_crlf(b"a\nb\r\n\nc"), b"a\r\nb\r\n\r\nc");
    }

    #[test]
    fn base64_whole_broken_and_cut() {
        assert_eq!(&*base64(b"aGVs\r\nbG8=\r\n").bytes, b"hello");
        assert!(!base64(b"aGVsbG8=").broken);
        let malformed = base64(b"aGV*sbG8");
        assert_eq!((&*malformed.bytes, malformed.broken), (&b"hello"[..], true));
        assert_eq!(&*base64(b"YQ==Yg==").bytes, b"ab", "two runs");
        assert!(base64(b"").bytes.is_empty());
    }

    #[test]
    fn base64_by_groups_is_base64_byte_by_byte() {
        fn slowly(input: &[u8]) -> (Vec<u8>, bool) {
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let (mut out, mut run, mut broken) = (Vec::new(), Vec::new(), false);
            for byte in input {
                match alphabet.iter().position(|b| b == byte) {
                    Some(value) => run.push(value as u32),
                    None if *byte == b'=' => {
                        let bits = run.iter().fold(0, |bits, value| bits << 6 | value);
                        push_tail(bits, run.len() as u8, &mut out);
                        run.clear();
                    }
                    None => broken |= !byte.is_ascii_whitespace(),
                }
                if run.len() == 4 {
                    let bits = run.drain(..).fold(0, |bits: u32, value| bits << 6 | value);
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                }
            }
            let bits = run.iter().fold(0, |bits, value| bits << 6 | value);
            push_tail(bits, run.len() as u8, &mut out);
            (out, broken || !run.is_empty())
        }
        let mut seed = 5u32;
        for _ in 0..20_000 {
            let mut text = Vec::new();
            for _ in 0..11 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.extend_from_slice(
                    [&b"Q"[..], b"zz+/", b"9Az", b"=", b"\n", b"\r\n", b"*", b"\xff"]
                        [(seed >> 16) as usize % 8],
                );
            }
            let found = base64_tolerant(&text);
            assert_eq!((found.bytes.to_vec(), found.broken), slowly(&text), "{text:?}");
            assert_eq!(base64(&text), found);
        }
    }

    #[test]
    fn quoted_printable_soft_breaks_and_garbage() {
        assert_eq!(&*quoted_printable(b"a=3Db=\r\nc=\nd= \r\ne").bytes, b"a=bcde");
        let malformed = quoted_printable(b"1=zz");
        assert_eq!((&*malformed.bytes, malformed.broken), (&b"1=zz"[..], true));
        assert_eq!(q_word(b"a_b=5Fc"), b"a b_c");
    }
}
