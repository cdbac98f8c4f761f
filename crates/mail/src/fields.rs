//! The fields of a header as bytes, for code that changes or counts them.
//!
//! [`crate::Message`] ends a header where its fields end; some programs go on to the empty line.
//! What takes fields out reads as far as the last of them: here a header ends at its first empty
//! line alone, and a line that is no field is a field without a name. No limit cuts it.

/// The fields of a header with their line ends, without the empty line; an mbox line is a field.
pub fn fields(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        if rest.is_empty() || rest.starts_with(b"\r\n") || rest.starts_with(b"\n") {
            return None;
        }
        let mut end = 0;
        loop {
            let line = rest.get(end..)?;
            end += memchr::memchr(b'\n', line).map_or(line.len(), |at| at + 1);
            if !matches!(rest.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (field, tail) = rest.split_at(end);
        rest = tail;
        Some(field)
    })
}

/// The name of a field: what stands before the first colon, without the white space and line ends
/// around it that some programs skip. Empty if there is no colon.
pub fn name(field: &[u8]) -> &[u8] {
    let skipped = |b: &u8| *b <= b' ' || *b == 127;
    let name = memchr::memchr(b':', field).and_then(|colon| field.get(..colon)).unwrap_or_default();
    let start = name.iter().position(|b| !skipped(b)).unwrap_or(name.len());
    let end = name.iter().rposition(|b| !skipped(b)).map_or(start, |last| last + 1);
    name.get(start..end).unwrap_or_default()
}

/// The value of a field as it is displayed: unfolded, encoded words decoded.
pub fn decoded(field: &[u8]) -> String {
    let start = memchr::memchr(b':', field).map_or(field.len(), |colon| colon + 1);
    let value = crate::header::unfold(field.get(start..).unwrap_or_default());
    crate::header::decode_words(&value).0.into_owned()
}

/// The field has this name, given in lower case.
pub fn is_named(field: &[u8], name: &[u8]) -> bool {
    self::name(field).eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_up_to_the_empty_one_belongs_to_a_field() {
        let raw = b"From x\nA: 1\n\t2\nno field\nnor this\nB : 3\n\nC: 4\n";
        let found: Vec<_> = fields(raw).collect();
        let expected: [&[u8]; 5] =
            [b"From x\n", b"A: 1\n\t2\n", b"no field\n", b"nor this\n", b"B : 3\n"];
        assert_eq!(found, expected);
        assert_eq!(fields(b"A: 1").collect::<Vec<_>>(), [b"A: 1"]);
        assert_eq!(fields(b" A: 1\r\n\r\nb").collect::<Vec<_>>(), [b" A: 1\r\n"]);
    }

    #[test]
    fn names_behind_odd_white_space_are_names() {
        for field in
            [&b"X-Y: 1"[..], b"x-y :1", b"X-Y\t:", b" X-Y: 1", b"X-Y\r\n : 1", b"X-Y\x0b\0:"]
        {
            assert!(is_named(field, b"x-y"), "{}", field.escape_ascii());
        }
        for field in [&b"X-Y"[..], b"X-YZ: 1", b"X Y: 1", b"X-Y\xa0: 1", b": X-Y: 1"] {
            assert!(!is_named(field, b"x-y"), "{}", field.escape_ascii());
        }
    }
}
