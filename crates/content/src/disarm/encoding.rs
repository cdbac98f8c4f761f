//! Texts of documents that are changed in place: every character that stays keeps its bytes.

/// How the characters of a text stand in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    /// One of a byte a character or more, whose ASCII is ASCII: each byte is taken for a character.
    Bytes,
    Utf16Le,
    Utf16Be,
}

/// A text, and how it was written.
#[derive(Debug)]
pub(super) struct Encoded {
    encoding: Encoding,
    /// The mark at its beginning.
    mark: Vec<u8>,
    pub(super) text: String,
}

impl Encoded {
    /// Decodes a file. UTF-16 is known by its mark or by the first character of a markup.
    ///
    /// # Errors
    /// If it would not be written as it was.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (encoding, mark) = match bytes {
            [0xff, 0xfe, ..] => (Encoding::Utf16Le, 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16Be, 2),
            [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
            [b'<', 0, ..] => (Encoding::Utf16Le, 0),
            [0, b'<', ..] => (Encoding::Utf16Be, 0),
            _ => (Encoding::Utf8, 0),
        };
        let (mark, rest) = bytes.split_at(mark);
        let unit = match encoding {
            Encoding::Utf16Le => u16::from_le_bytes,
            Encoding::Utf16Be => u16::from_be_bytes,
            Encoding::Utf8 | Encoding::Bytes => {
                let (encoding, text) = match std::str::from_utf8(rest) {
                    Ok(text) => (Encoding::Utf8, text.to_owned()),
                    Err(_) => (Encoding::Bytes, rest.iter().map(|b| char::from(*b)).collect()),
                };
                return Ok(Encoded { encoding, mark: mark.to_vec(), text });
            }
        };
        let units = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let text: Result<String, _> = char::decode_utf16(units).collect();
        match text {
            Ok(text) if rest.len().is_multiple_of(2) => {
                Ok(Encoded { encoding, mark: mark.to_vec(), text })
            }
            _ => Err("its text is no UTF-16".to_owned()),
        }
    }

    /// Encodes a text that was made of this one's characters and of ASCII.
    pub(super) fn write(&self, text: &str) -> Vec<u8> {
        let mut out = self.mark.clone();
        match self.encoding {
            Encoding::Utf8 => out.extend_from_slice(text.as_bytes()),
            Encoding::Bytes => out.extend(text.chars().map(|c| u8::try_from(c).unwrap_or(b'?'))),
            Encoding::Utf16Le => out.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Encoding::Utf16Be => out.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_changed_keeps_its_bytes() {
        for bytes in [
            &b"abc"[..],
            b"\xef\xbb\xbfK\xc3\xb6ln",
            b"K\xf6ln\x81",
            b"\xff\xfea\0b\0\x3d\xd8\0\xde",
            b"\xfe\xff\0a",
            b"<\0a\0",
            b"\0<\0a",
            b"",
        ] {
            let read = Encoded::read(bytes).unwrap();
            assert_eq!(read.write(&read.text), bytes, "{read:?}");
        }
        assert!(Encoded::read(b"\xff\xfea").is_err());
        assert!(Encoded::read(b"\xff\xfe\0\xd8").is_err());
    }
}
