//! uuencode (POSIX.1-2017, `uuencode`): files between `begin MODE NAME` and `end`, in both of its
//! forms.

use base64_simd::forgiving_decode_to_vec;

use super::lines;
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

/// Files of one text that are read.
const FILES_MAX: usize = 256;

/// Adds every file of the text.
pub(super) fn decode(text: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut found = 0;
    let mut all = lines(text);
    while let Some(line) = all.next() {
        let Some((name, is_base64)) = begin(line) else { continue };
        if found == FILES_MAX || unpacker.is_over() {
            return unpacker.defect(DefectKind::TooManyObjects, "uuencoded files");
        }
        let bytes_max = unpacker.limits().object_bytes_max;
        let body = if is_base64 { base64(&mut all) } else { classic(&mut all, bytes_max) };
        if body.len() as u64 > bytes_max {
            return unpacker.defect(DefectKind::ObjectTooLarge, &text::file_name(name));
        }
        if !body.is_empty() {
            found += 1;
            unpacker.child(Child::named(text::file_name(name)), &body);
        }
    }
}

/// The name of the file that a line begins, and whether it is in base64.
fn begin(line: &[u8]) -> Option<(&[u8], bool)> {
    let (rest, is_base64) = match line.strip_prefix(b"begin-base64 ") {
        Some(rest) => (rest, true),
        None => (line.strip_prefix(b"begin ")?, false),
    };
    let digits = rest.iter().take_while(|b| (b'0'..=b'7').contains(*b)).count();
    let name = rest.get(digits..)?.strip_prefix(b" ")?.trim_ascii();
    ((3..=6).contains(&digits) && !name.is_empty()).then_some((name, is_base64))
}

fn base64<'t>(lines: &mut impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    for line in lines.take_while(|line| !line.starts_with(b"====")) {
        body.extend_from_slice(line);
    }
    forgiving_decode_to_vec(&body).unwrap_or_default()
}

/// Lines whose first character says how many bytes they hold; the blank and the backquote are zero.
/// A line of one character may stand for 63 zeros, so that the file has a limit.
fn classic<'t>(lines: &mut impl Iterator<Item = &'t [u8]>, bytes_max: u64) -> Vec<u8> {
    let mut body = Vec::new();
    let value = |b: u8| b.wrapping_sub(b' ') & 0x3f;
    for line in lines {
        if line == b"end" || body.len() as u64 > bytes_max {
            break;
        }
        let Some((&first, digits)) = line.split_first() else { continue };
        if !(b' '..=b'`').contains(&first) {
            // What is not uuencoded ends the file for every reader.
            break;
        }
        let length = usize::from(value(first));
        let start = body.len();
        for group in digits.chunks(4) {
            // Blanks at the end of a line are often lost.
            let at = |i: usize| value(group.get(i).copied().unwrap_or(b' '));
            let bytes = [at(0) << 2 | at(1) >> 4, at(1) << 4 | at(2) >> 2, at(2) << 6 | at(3)];
            body.extend_from_slice(&bytes);
        }
        body.resize(start + length, 0);
    }
    body
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, paths, tree};

    #[test]
    fn files_in_a_text() {
        let text = "see:\r\nbegin 644 a b.txt\r\n#0V%T\r\n`\r\nend\r\nand\nbegin-base64 644 c.bin\nTVo=\n====\n";
        let found = tree(text.as_bytes(), "mail.txt");
        assert_eq!(paths(&found), ["mail.txt", "mail.txt/a b.txt", "mail.txt/c.bin"]);
        assert_eq!((found.objects[1].size, found.objects[2].size), (3, 2));
        assert_eq!(tree(b"begin with a word\nof mine\n", "x").objects.len(), 1);
        nasty(text.as_bytes(), "mail.txt");
    }
}
