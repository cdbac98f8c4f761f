//! In which charset a list is written: nothing in it says so.
//!
//! Lines that are UTF-8 are that. For the others the names of the file and of its folder are asked,
//! as e2guardian's lists have them (`russian-koi8-r/pornography/weighted`).

use std::borrow::Cow;
use std::path::Path;

use encoding_rs::{
    BIG5, EUC_JP, Encoding, GBK, ISO_8859_2, KOI8_R, SHIFT_JIS, WINDOWS_1250, WINDOWS_1251,
    WINDOWS_1252,
};

/// Charsets of a list: a line is of the first one that has its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charsets {
    /// For people.
    pub(crate) name: &'static str,
    all: &'static [&'static Encoding],
}

/// All lines are UTF-8.
pub(crate) const UTF_8: Charsets = Charsets { name: "UTF-8", all: &[] };

const WESTERN: Charsets = Charsets { name: "windows-1252", all: &[WINDOWS_1252] };

/// Words in a path, the most special first. A list in Japanese has parts in both charsets, which
/// take each other's bytes for other characters: the stricter one goes first.
const BY_NAME: [(&str, Charsets); 9] = [
    ("koi8", Charsets { name: "KOI8-R", all: &[KOI8_R] }),
    ("1251", Charsets { name: "windows-1251", all: &[WINDOWS_1251] }),
    ("1250", Charsets { name: "windows-1250", all: &[WINDOWS_1250] }),
    ("russian", Charsets { name: "windows-1251", all: &[WINDOWS_1251] }),
    ("big5", Charsets { name: "Big5", all: &[BIG5] }),
    ("gb2312", Charsets { name: "GBK", all: &[GBK] }),
    ("chinese", Charsets { name: "GBK", all: &[GBK] }),
    ("japanese", Charsets { name: "EUC-JP, Shift_JIS", all: &[EUC_JP, SHIFT_JIS] }),
    ("polish", Charsets { name: "ISO-8859-2", all: &[ISO_8859_2] }),
];

/// The charsets of a list whose lines are not all UTF-8.
pub(crate) fn of_path(path: &Path) -> Charsets {
    let mut parts = path.iter().rev().filter_map(|part| part.to_str()).take(3);
    let by_name = |part: &str| {
        let part = part.to_ascii_lowercase();
        BY_NAME.iter().find(|(word, _)| part.contains(word)).map(|(_, charsets)| *charsets)
    };
    parts.find_map(by_name).unwrap_or(WESTERN)
}

/// A line as text.
///
/// # Errors
/// The charset's name if it has no such bytes.
pub(crate) fn line(bytes: &[u8], charsets: Charsets) -> Result<Cow<'_, str>, &'static str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(Cow::Borrowed(text));
    }
    let decode = |encoding: &&'static Encoding| {
        encoding.decode_without_bom_handling_and_without_replacement(bytes)
    };
    charsets.all.iter().find_map(decode).ok_or(charsets.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_names_of_file_and_folder() {
        for (path, name) in [
            ("/x/russian-koi8-r/pornography/weighted", "KOI8-R"),
            ("/x/pornography/weighted_russian", "windows-1251"),
            ("/x/chinesebig5/pornography/weighted", "Big5"),
            ("/x/japanese/pornography/weighted", "EUC-JP, Shift_JIS"),
            ("/x/pornography/weighted_french", "windows-1252"),
            ("/russian/a/b/c/d", "windows-1252"),
        ] {
            assert_eq!(of_path(Path::new(path)).name, name, "{path}");
        }
    }

    #[test]
    fn a_line_is_utf8_or_the_lists_charset() {
        let of = |name: &str| of_path(Path::new(name));
        assert_eq!(line("é".as_bytes(), of("russian")), Ok("é".into()));
        assert_eq!(line(b"\xe9", of("list")), Ok("é".into()));
        assert_eq!(line(b"\x83\x65", of("japanese")), Ok("テ".into()));
        assert_eq!(line(b"\xb5\xf0\xc6\xfd", of("japanese")), Ok("巨乳".into()));
        assert_eq!(line(b"<\x81>", of("japanese")), Err("EUC-JP, Shift_JIS"));
        assert_eq!(line(b"\xff", UTF_8), Err("UTF-8"));
    }
}
