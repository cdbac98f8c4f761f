//! Pages and scripts: HTML, SVG, calendars and cards, script files of Windows, files that hold an
//! address. Nothing is run: what a script makes of its constants is computed (see [`fold`]).
//!
//! Many of these have no signature: text is read by the ending of its name and by its first words.

mod bytes;
mod calendar;
mod encoded;
mod fold;
mod html;
mod javascript;
mod program;
mod query;
mod shortcut;
mod smuggle;
mod tags;
mod text_code;

use gauntlet_sniff::FileKind;

use crate::formats::picture;
use crate::unpack::Unpacker;

/// Endings of names of pages.
const PAGES: [&str; 8] = ["htm", "html", "hta", "xhtml", "xht", "shtml", "mht", "svg"];
/// Bytes at the beginning of a text that are looked at for tags.
const HEAD_BYTES: usize = 64 * 1024;
/// Tags that make a text a page.
const TAGS: [&str; 8] =
    ["<html", "<script", "<body", "<iframe", "<form", "<svg", "<meta http-equiv", "<embed"];

/// Reads an object of one of these kinds; plain text is kept as it is.
pub(crate) fn decode(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if kind == FileKind::Unknown && !is_text(bytes) {
        return;
    }
    let text = crate::text::decode(bytes);
    let extension = unpacker.current().map(crate::Object::extension).unwrap_or_default();
    match kind {
        FileKind::Html | FileKind::Svg => html::read(&text, unpacker),
        FileKind::Calendar | FileKind::Card => calendar::read(&text, unpacker),
        _ if text.trim_start_matches('\u{feff}').trim_start().starts_with("BEGIN:VC") => {
            calendar::read(&text, unpacker);
        }
        _ if query::is_match(&extension, &text) => query::read(&extension, &text, unpacker),
        _ if shortcut::is_match(&extension, &text) => shortcut::read(&extension, &text, unpacker),
        _ if kind == FileKind::Script || program::is_match(&extension, &text) => {
            program::read(&extension, &text, unpacker);
        }
        _ if PAGES.contains(&extension.as_str()) || is_page(&text) => html::read(&text, unpacker),
        _ => {
            unpacker.text(&text);
            for code in text_code::blocks(&text) {
                picture::note(&code, unpacker);
            }
            return;
        }
    }
    // A script of Windows in a page has both natures.
    if extension == "hta" || (kind == FileKind::Html && program::is_match(&extension, &text)) {
        program::note(&extension, &text, unpacker);
    }
}

/// Text with a byte order mark, or without NULs at its beginning.
fn is_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1_024)];
    let marks: [&[u8]; 3] = [&[0xff, 0xfe], &[0xfe, 0xff], &[0xef, 0xbb, 0xbf]];
    marks.iter().any(|mark| head.starts_with(mark)) || !head.contains(&0)
}

fn is_page(text: &str) -> bool {
    let head = crate::text::cut(text, HEAD_BYTES).to_ascii_lowercase();
    TAGS.iter().any(|tag| head.contains(tag)) || (head.contains("<a ") && head.contains("href="))
}

/// A script of another format: its text, and what it decodes.
pub(super) fn script(text: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.text(&bytes::without_runs(text));
    let mut smuggled = smuggle::Smuggled::default();
    smuggled.script(text, unpacker);
    smuggled.finish(unpacker);
}

/// Markup of another format, such as the forms of a PDF.
pub(super) fn markup(text: &str, unpacker: &mut Unpacker<'_>) {
    html::read(text, unpacker);
}

#[cfg(test)]
mod tests;
