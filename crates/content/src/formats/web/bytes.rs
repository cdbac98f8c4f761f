//! Bytes written as text: base64, hexadecimal digits, percent signs, `data:` addresses (RFC 2397).

/// The value of a base64 digit, both alphabets (RFC 4648 sections 4 and 5).
fn base64_digit(b: u8) -> Option<u32> {
    Some(match b {
        b'A'..=b'Z' => u32::from(b - b'A'),
        b'a'..=b'z' => u32::from(b - b'a') + 26,
        b'0'..=b'9' => u32::from(b - b'0') + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// Decodes base64; what is no digit is passed over, padding too.
pub(super) fn base64(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.iter().filter_map(|&b| base64_digit(b)) {
        bits = bits << 6 | digit;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    out
}

/// Whether a text is base64 and nothing else: digits, white space, padding at the end.
pub(super) fn is_base64(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let end = text.iter().rposition(|&b| b != b'=').map_or(0, |at| at + 1);
    text.len() - end <= 2
        && text[..end].iter().all(|&b| base64_digit(b).is_some() || b.is_ascii_whitespace())
}

/// Decodes pairs of hexadecimal digits, between which `\x`, `0x`, `%`, commas and spaces may
/// stand; none if there is anything else.
pub(super) fn hexadecimal(text: &[u8]) -> Option<Vec<u8>> {
    let mut digits = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'x' | b'X', after @ ..]) | (b'0', [b'x' | b'X', after @ ..]) => after,
            (b'%' | b',' | b' ' | b':' | b'-' | b'\n' | b'\r' | b'\t', _) => tail,
            (digit, _) => {
                digits.push(char::from(*digit).to_digit(16)? as u8);
                tail
            }
        };
    }
    (digits.len().is_multiple_of(2))
        .then(|| digits.as_chunks::<2>().0.iter().map(|[a, b]| a << 4 | b).collect())
}

/// `%xx` and `%uxxxx` as characters, as JavaScript's `unescape`.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (skip, digits) = match rest.strip_prefix(['u', 'U']) {
            Some(wide) => (5, wide.get(..4)),
            None => (2, rest.get(..2)),
        };
        let code = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                rest = &rest[skip..];
            }
            None => out.push('%'),
        }
    }
    out.push_str(rest);
    out
}

/// Replaces each `%xx` by its byte.
pub(super) fn percent(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
        match (first, tail) {
            (b'%', [a, b, after @ ..]) => match (digit(a), digit(b)) {
                (Some(a), Some(b)) => {
                    out.push(a << 4 | b);
                    rest = after;
                }
                _ => out.push(b'%'),
            },
            _ => out.push(*first),
        }
    }
    out
}

/// The media type and the bytes of a `data:` address; none if it is none.
pub(super) fn data_address(address: &str) -> Option<(String, Vec<u8>)> {
    let address = address.trim_start();
    let scheme = address.get(..5)?;
    if !scheme.eq_ignore_ascii_case("data:") {
        return None;
    }
    let (head, data) = address[5..].split_once(',')?;
    let media_type = head.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_base64 = head.split(';').any(|part| part.trim().eq_ignore_ascii_case("base64"));
    let bytes = percent(data.as_bytes());
    Some((media_type, if is_base64 { base64(&bytes) } else { bytes }))
}

/// The text with long runs of base64 or hexadecimal digits left out: nobody reads them.
pub(super) fn without_runs(text: &str) -> String {
    const RUN_BYTES_MAX: usize = 200;
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|&&b| base64_digit(b).is_some()).count();
        if run > RUN_BYTES_MAX {
            // Runs are ASCII: the cuts are between characters.
            out.push_str(&text[kept..at + 16]);
            out.push_str("...");
            kept = at + run;
        }
        at += run.max(1);
    }
    out.push_str(&text[kept..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_text() {
        assert_eq!(base64(b"SGVs\nbG8="), b"Hello");
        assert!(is_base64(b"SGVsbG8=") && !is_base64(b"SGVs bG8!"));
        assert_eq!(hexadecimal(b"\\x4d\\x5a 0x90,00").unwrap(), b"MZ\x90\0");
        assert_eq!(hexadecimal(b"4d5"), None);
        assert_eq!(unescaped("%3Cb%u0041%zz%"), "<bA%zz%");
        assert_eq!(
            data_address("DATA:Text/HTML;charset=x;base64,PGI%2B"),
            Some(("text/html".to_owned(), b"<b>".to_vec()))
        );
        assert_eq!(
            without_runs(&format!("x {} é", "A".repeat(500))),
            format!("x {}... é", "A".repeat(16))
        );
    }
}
