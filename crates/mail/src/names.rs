//! File names of attachments: what a desktop makes of them, and what opens them.
//!
//! A name is read as written, and as file systems and mail programs read it: without control
//! characters and directional marks, without a path, a stream (`a.js::$DATA`) or trailing dots and
//! spaces (Windows drops both), with full-width characters as ASCII. What any interpretation says
//! counts.

mod extensions;
mod loose;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::extensions::{EXTENSIONS, TYPES};

use crate::encoding::percent_decode;

/// Characters of the longest extension that is recognised.
const EXTENSION_CHARS_MAX: usize = 20;

/// What opening a file of this name does, by its extension. The names are stable: policies use
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NameKind {
    /// Starts a program, installs one, or changes settings of the system.
    Program,
    /// Points to something that is started or fetched.
    Shortcut,
    /// A document that carries files to be started, or fetches what it shows.
    ActiveDocument,
    /// An Office document or add-in with macros.
    MacroDocument,
    /// A disk image: what is in it has lost its mark of origin.
    DiskImage,
}

impl NameKind {
    /// The kind of an extension in lower case, without its dot.
    pub fn of_extension(extension: &str) -> Option<NameKind> {
        let list = EXTENSIONS.iter().find(|(_, list)| list.binary_search(&extension).is_ok());
        list.map(|(kind, _)| *kind)
    }

    /// The kind that any interpretation of this name has.
    pub fn of_name(name: &str) -> Option<NameKind> {
        interpretations(name)
            .iter()
            .find_map(|interpretation| Self::of_extension(extension(interpretation)))
    }

    /// The stable name, as in policies: `program`.
    pub fn name(self) -> &'static str {
        match self {
            NameKind::Program => "program",
            NameKind::Shortcut => "shortcut",
            NameKind::ActiveDocument => "active_document",
            NameKind::MacroDocument => "macro_document",
            NameKind::DiskImage => "disk_image",
        }
    }
}

/// What follows the last dot; empty without one.
pub fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The extension under which programs save and open a part of this media type (`kind/subtype` in
/// lower case) that has no name with one; only for types of files that the list of kinds has.
pub fn extension_of_type(essence: &str) -> Option<&'static str> {
    let at = TYPES.binary_search_by_key(&essence, |(name, _)| name).ok()?;
    Some(TYPES[at].1)
}

/// Whether some interpretation of the name has an extension, so that its media type does not decide
/// what opens it.
pub fn has_extension(name: &str) -> bool {
    let saved = as_saved(name);
    saved.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=EXTENSION_CHARS_MAX).contains(&extension.chars().count())
            && extension.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '~'))
    })
}

/// The name as written, and its other interpretations; those are in lower case.
pub fn interpretations(name: &str) -> Vec<Cow<'_, str>> {
    let mut found: Vec<Cow<'_, str>> = vec![Cow::Borrowed(name)];
    add_plain_interpretations(name, &mut found);
    if loose::is_encoded(name) {
        let decoded = [loose::words(name), loose::references(name)];
        for decoded in decoded.iter().flatten() {
            add(decoded.to_lowercase(), &mut found);
            add_plain_interpretations(decoded, &mut found);
        }
    }
    found
}

fn add(interpretation: String, found: &mut Vec<Cow<'_, str>>) {
    if !interpretation.is_empty() && found.iter().all(|known| **known != *interpretation) {
        found.push(Cow::Owned(interpretation));
    }
}

/// The interpretations of a name that needs no decoding but that of percent signs.
fn add_plain_interpretations(name: &str, found: &mut Vec<Cow<'_, str>>) {
    let saved = as_saved(name);
    if let Some(plain) = loose::plain_extension(&saved) {
        add(plain, found);
    }
    if let Some(original) = loose::without_copy_number(&saved) {
        add(as_saved(original), found);
    }
    add(saved, found);
    // C programs end at a NUL, and some at a line end.
    if let Some((before, _)) = name.split_once(['\0', '\n', '\r']) {
        add(as_saved(before), found);
    }
    // What a file name of Windows cannot have is dropped, or ends the name; `?` also ends a path in
    // a URL.
    if name.contains(loose::FORBIDDEN) {
        let inner = name.trim_matches(['"', '<', '>']);
        add(as_saved(&inner.replace(loose::FORBIDDEN, "")), found);
        if let Some((before, _)) = inner.split_once(loose::FORBIDDEN) {
            add(as_saved(before), found);
        }
    }
    if name.contains('%') {
        let decoded = percent_decode(name.as_bytes());
        let decoded = String::from_utf8_lossy(&decoded);
        add(as_saved(&decoded), found);
        if let Some((before, _)) = decoded.split_once('\0') {
            add(as_saved(before), found);
        }
    }
}

/// The name under which a file is saved.
fn as_saved(name: &str) -> String {
    let plain: String = name.chars().filter_map(plain).flat_map(char::to_lowercase).collect();
    let file = plain.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
    // `a.js::$DATA` and `a.js:x` name streams of the file `a.js`; `c:a.js` names a drive.
    let file = match file.split_once(':') {
        Some((drive, rest)) if drive.len() == 1 && !rest.is_empty() => rest,
        Some((file, _)) if !file.is_empty() => file,
        _ => file,
    };
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(c, '.' | '"' | '\'' | '`' | '<' | '>' | ';' | ',' | '?' | '=' | '*' | '|')
    };
    file.trim_end_matches(ends).trim_start().to_owned()
}

/// A character as its plain form; none for what is not shown.
fn plain(c: char) -> Option<char> {
    match c {
        // Full-width forms of ASCII (Unicode block U+FF00), and other characters that are read as
        // dots.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xff01 + 0x21),
        '\u{3002}' | '\u{ff61}' | '\u{2024}' | '\u{fe52}' => Some('.'),
        '\u{2044}' | '\u{2215}' => Some('/'),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Some(' '),
        // Control characters, soft hyphen, zero-width characters, directional marks, joiners,
        // selectors.
        _ if c.is_control() => None,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            None
        }
        '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => None,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => None,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_have_no_extension_twice() {
        let mut all: Vec<&str> = Vec::new();
        for (kind, list) in EXTENSIONS {
            assert!(list.is_sorted(), "{kind:?} is searched by halves");
            all.extend(list);
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn every_reading_of_a_program_is_a_program() {
        let names = [
            "setup.exe",
            "SETUP.EXE",
            "setup.exe.",
            "setup.exe. . ",
            "setup.exe\u{a0}",
            "x.js::$DATA",
            "x.js:",
            "c:x.js",
            "..\\..\\setup.exe",
            "/tmp/setup.exe",
            "setup.exe/",
            "setup\u{ff0e}exe",
            "setup\u{3002}exe",
            "setup.e\u{200b}xe",
            "\u{202e}gpj.exe",
            "setup.ex\u{7}e",
            "setup.exe\0.txt",
            "setup.exe%00.txt",
            "setup%2Eexe",
            "'setup.exe'",
            "setup.\u{ff45}\u{ff58}\u{ff45}",
            "setup.exe?",
            "setup.exe\n.txt",
            "setup.exe*",
            "setup.exe|",
            "setup.exe[1]",
            "setup.exe (2)",
            "setup.exe?x=.txt",
            "setup.e|xe",
            "setup.ex&#101;",
            "setup.ex&#x65",
            "setup&#46;exe",
            "setup&#000000000000046;exe",
            "setup&period;exe",
            "=?utf-8?B?c2V0dXAuZXhl?=",
            "=?utf-8?B?PT91dGYtOD9CP2MyVjBkWEF1WlhobD89?=",
            "=?utf-8?Q?setup=2Eexe",
            "=?utf-8?B?c2V0dXAuZXhl?",
            "=?utf-8?X?c2V0dXAuZXhl?=",
            "=? utf-8 ?B?c2V0dXAuZXhl?=",
            "setup.\u{113}x\u{e9}",
            "setup.\u{1d41e}\u{1d431}\u{1d41e}",
            "setup.\u{24d4}xe",
        ];
        for name in names {
            assert_eq!(NameKind::of_name(name), Some(NameKind::Program), "{name:?}");
        }
        // Letters of another script that only look alike open nothing; a comma ends no name.
        let others = ["setup.\u{435}\u{445}\u{435}", "node.js, part 2.pdf", "setup.exe,.txt"];
        let plain = ["exe", "report.pdf", "exe.txt", "a.b.docx", "100%.txt", "", "...", "notes"];
        for name in plain.into_iter().chain(others) {
            assert_eq!(NameKind::of_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_name_without_an_extension_has_that_of_its_type() {
        assert!(TYPES.windows(2).all(|two| two[0].0 < two[1].0), "searched by halves");
        assert!(TYPES.iter().all(|(_, e)| NameKind::of_extension(e).is_some()));
        assert_eq!(extension_of_type("application/x-msdos-program"), Some("exe"));
        assert_eq!(extension_of_type("application/pdf"), None);
        for (name, has) in [
            ("setup.exe", true),
            ("setup", false),
            ("setup.", false),
            (".profile", false),
            ("a.b c", false),
        ] {
            assert_eq!(has_extension(name), has, "{name}");
        }
    }

    #[test]
    fn kinds_of_names() {
        for (name, kind) in [
            ("a.one", NameKind::ActiveDocument),
            ("a.iqy", NameKind::ActiveDocument),
            ("a.search-ms", NameKind::Shortcut),
            ("a.lnk", NameKind::Shortcut),
            ("a.wim", NameKind::DiskImage),
            ("a.xlsm", NameKind::MacroDocument),
            ("a.xll", NameKind::Program),
        ] {
            assert_eq!(NameKind::of_name(name), Some(kind), "{name}");
            assert!(kind.name().chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        }
    }
}
