//! Base64 as Suricata's rules decode it, which stops or skips where others fail.

/// The letters of these bytes, with padding (RFC 4648).
pub fn encode(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// Which letters are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base64Mode {
    /// Ends at the first byte that is no letter (RFC 4648).
    Rfc4648,
    /// Skips bytes that are no letters (RFC 2045).
    Rfc2045,
    /// All or nothing, with its padding.
    Strict,
}

fn letter(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Decodes four letters; `None` if the first two or what is before padding is no letter.
fn group(letters: [u8; 4], out: &mut Vec<u8>) -> Option<()> {
    let [first, second, third, fourth] = letters;
    let (first, second) = (letter(first)?, letter(second)?);
    out.push(first << 2 | second >> 4);
    if third == b'=' {
        return Some(());
    }
    let third = letter(third)?;
    out.push(second << 4 | third >> 2);
    if fourth != b'=' {
        out.push(third << 6 | letter(fourth)?);
    }
    Some(())
}

/// Decodes into `out`, which is emptied first. A group that cannot be decoded makes the result
/// empty, as in Suricata.
pub fn decode(input: &[u8], mode: Base64Mode, out: &mut Vec<u8>) {
    out.clear();
    let decoded = match mode {
        Base64Mode::Rfc4648 => decode_until(input, out),
        Base64Mode::Rfc2045 => decode_skipping(input, out),
        Base64Mode::Strict => decode_strictly(input, out),
    };
    if decoded.is_none() {
        out.clear();
    }
}

fn is_letter(byte: u8) -> bool {
    byte == b'=' || letter(byte).is_some()
}

fn decode_until(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let end = input.iter().position(|&byte| !is_letter(byte)).unwrap_or(input.len());
    for chunk in input.get(..end)?.chunks(4) {
        let mut letters = [b'='; 4];
        for (to, from) in letters.iter_mut().zip(chunk) {
            *to = *from;
        }
        group(letters, out)?;
    }
    Some(())
}

fn decode_skipping(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut letters = [0; 4];
    let mut count = 0;
    for &byte in input.iter().filter(|&&byte| is_letter(byte)) {
        if let Some(slot) = letters.get_mut(count) {
            *slot = byte;
        }
        count += 1;
        if count == 4 {
            group(letters, out)?;
            count = 0;
        }
    }
    Some(())
}

fn decode_strictly(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if !input.len().is_multiple_of(4) {
        return None;
    }
    let groups = input.len() / 4;
    for (at, chunk) in input.chunks_exact(4).enumerate() {
        let letters: [u8; 4] = chunk.try_into().ok()?;
        let is_padded = letters.contains(&b'=');
        if is_padded && (at + 1 != groups || letters[2] == b'=' && letters[3] != b'=') {
            return None;
        }
        group(letters, out)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(input: &str, mode: Base64Mode) -> String {
        let mut out = Vec::new();
        decode(input.as_bytes(), mode, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn modes_differ_where_they_should() {
        let cases = [
            ("Zm9vYmFy", "foobar", "foobar", "foobar"),
            ("Zm8=", "fo", "fo", "fo"),
            ("Zm 9v Ym Fy", "f", "foobar", ""),
            ("Zm$9vYm.Fy", "f", "foobar", ""),
            ("Zm9vYg", "foob", "foo", ""),
            ("Zm9vY", "", "foo", ""),
            ("Zg==", "f", "f", "f"),
            ("", "", "", ""),
        ];
        for (input, rfc4648, rfc2045, strict) in cases {
            assert_eq!(of(input, Base64Mode::Rfc4648), rfc4648, "{input}");
            assert_eq!(of(input, Base64Mode::Rfc2045), rfc2045, "{input}");
            assert_eq!(of(input, Base64Mode::Strict), strict, "{input}");
        }
    }
}
