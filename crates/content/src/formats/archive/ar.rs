//! Unix `ar` (as in Debian packages), with the long names of GNU and BSD.

use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

const HEADER_BYTES: usize = 60;

pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut at = 8;
    let mut long_names: &[u8] = b"";
    while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
        at += HEADER_BYTES;
        let digits = std::str::from_utf8(&header[48..58]).unwrap_or_default().trim();
        let Ok(size) = digits.parse::<usize>() else {
            return unpacker.defect(DefectKind::Corrupt, "a member's size");
        };
        if unpacker.is_over() {
            return;
        }
        let end = at.saturating_add(size);
        let mut body = &bytes[at.min(bytes.len())..end.min(bytes.len())];
        if end > bytes.len() {
            unpacker.defect(DefectKind::Truncated, "");
        }
        let field = header[..16].trim_ascii_end();
        let number =
            |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|t| t.parse::<usize>().ok());
        if field == b"//" {
            long_names = body;
        } else if field != b"/" && field != b"/SYM64/" {
            let name = if let Some(length) = field.strip_prefix(b"#1/").and_then(number) {
                let (name, rest) = body.split_at(length.min(body.len()));
                body = rest;
                name
            } else if let Some(offset) = field.strip_prefix(b"/").and_then(number) {
                let rest = long_names.get(offset..).unwrap_or_default();
                &rest[..rest.iter().position(|&b| b == b'/' || b == b'\n').unwrap_or(rest.len())]
            } else {
                field.strip_suffix(b"/").unwrap_or(field)
            };
            let name = text::file_name(name.split(|&b| b == 0).next().unwrap_or_default());
            unpacker.child(Child::named(name), body);
        }
        at = end.saturating_add(size % 2);
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, paths, tree};

    #[test]
    fn names_short_and_long() {
        let member = |name: &str, body: &str| {
            let pad = if body.len() % 2 == 1 { "\n" } else { "" };
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n{body}{pad}", 0, 0, 0, 644, body.len())
        };
        let whole = format!(
            "!<arch>\n{}{}{}{}",
            member("//", "a-long-name-of-gnu.txt/\n"),
            member("short/", "x"),
            member("/0", "yy"),
            member("#1/8", "bsd.namezzz")
        );
        let tree = tree(whole.as_bytes(), "x.deb");
        assert_eq!(
            paths(&tree),
            ["x.deb", "x.deb/short", "x.deb/a-long-name-of-gnu.txt", "x.deb/bsd.name"]
        );
        assert_eq!(tree.objects[3].size, 3);
        nasty(whole.as_bytes(), "x.deb");
    }
}
