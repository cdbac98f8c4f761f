//! Escapes of URLs (RFC 3986, section 2) in one form.

/// Appends `text` with escapes in one form.
pub(super) fn push_escaped(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let escape = |byte: u8, out: &mut String| {
        out.push('%');
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    };
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        match byte {
            b'%' => {
                let pair = match bytes[at..] {
                    [a, b, ..] => crate::encoding::hex(a).zip(crate::encoding::hex(b)),
                    _ => None,
                };
                match pair {
                    Some((high, low)) => {
                        let value = high << 4 | low;
                        at += 2;
                        if is_unreserved(value) {
                            out.push(char::from(value));
                        } else {
                            escape(value, out);
                        }
                    }
                    None => escape(b'%', out),
                }
            }
            b' ' | b'"' | b'<' | b'>' | b'`' | 0..=0x1f | 0x7f.. => escape(byte, out),
            _ => out.push(char::from(byte)),
        }
    }
}

/// RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
