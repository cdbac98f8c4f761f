//! Features of the text and of the HTML's structure.

use gauntlet_mail::Message;
use gauntlet_mail::html::outline;

use super::{FIELD_BYTES_MAX, magnitude};
use crate::classifier::group::Group;
use crate::classifier::scratch::ClassifierScratch;
use crate::classifier::tokens::{ascii_hash, start};
use crate::random::mix;

/// Most bytes of text read from the start of one part, and from its end if it is longer.
const PART_START_BYTES: usize = 3_000;

const PART_END_BYTES: usize = 1_000;

/// Most bytes of text read of all parts.
const TEXT_BYTES_MAX: usize = 8_000;

/// Longest footer of a mailing list, in bytes: what is longer is text, whatever line stands before
/// it.
const FOOTER_BYTES_MAX: usize = 600;

/// A line like this begins a mailing list's footer.
pub(super) const FOOTER: &str = "_______________________________________________";

pub(super) fn text(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Text;
    let mut left = TEXT_BYTES_MAX;
    for part in message.texts() {
        if left == 0 {
            break;
        }
        let limit = (PART_START_BYTES + PART_END_BYTES).min(left);
        // Line ends behind the text, whether CR LF or LF, must not move where its last bytes begin.
        let shown = without_footer(part.text).trim_end();
        let head = start(shown, PART_START_BYTES.min(limit));
        sink.words(head, group);
        left -= head.len();
        let tail = end(shown.get(head.len()..).unwrap_or_default(), PART_END_BYTES.min(left));
        sink.words(tail, group);
        left -= tail.len();
        if part.part.is_attachment() {
            sink.feature(group, "text is attached", "");
        }
    }
    if left == TEXT_BYTES_MAX {
        sink.feature(group, "no text", "");
    }
}

/// A text without the mailing list's footer at its end.
pub(super) fn without_footer(text: &str) -> &str {
    let footer = memchr::memmem::rfind(text.as_bytes(), FOOTER.as_bytes());
    let footer = footer.filter(|at| text.len() - at <= FOOTER_BYTES_MAX);
    text.get(..footer.unwrap_or(text.len())).unwrap_or_default()
}

/// Most tags of one page, and most pages.
const TAGS_MAX: usize = 150;

const PAGES_MAX: usize = 2;

/// Attributes of a tag that are read.
const ATTRIBUTES_MAX: usize = 8;

/// Bytes of a tag's name that are read; of an attribute's it is what the outline has.
const TAG_NAME_BYTES: usize = 12;

// The model was trained with these: the outline may grow, but it must have them.
const _: () = assert!(
    outline::TAGS_MAX >= TAGS_MAX
        && outline::ATTRIBUTES_MAX >= ATTRIBUTES_MAX
        && outline::NAME_BYTES_MAX == 16
);

pub(super) fn pages(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Page;
    let pages = message.parts().iter().filter(|p| p.content_type.is("text", "html"));
    for part in pages.take(PAGES_MAX) {
        let (Some(source), Some(page)) = (part.text(), part.rendered()) else { continue };
        let mut last = [0u64; 2];
        for tag in page.outline.tags(source).take(TAGS_MAX) {
            let name = tag.name.get(..TAG_NAME_BYTES).unwrap_or(tag.name);
            let value = ascii_hash(name);
            sink.tag(value);
            let three = mix(value ^ last[0].rotate_left(11) ^ last[1].rotate_left(22));
            sink.hashed(group, "tag in its place", three, name);
            for which in tag.attributes().take(ATTRIBUTES_MAX) {
                let pair = mix(value.rotate_left(7) ^ ascii_hash(which));
                sink.hashed(group, "tag with attribute", pair, which);
            }
            last = [value, last[0]];
        }
        let s = page.structure;
        let counts = [
            ("tags", s.tags),
            ("images", s.images),
            ("forms", s.forms),
            ("inputs", s.inputs),
            ("scripts", s.scripts),
            ("frames", s.frames),
            ("tables", s.tables),
            ("comments", s.comments),
            ("links", page.links.len() as u32),
            ("pieces of invisible text", page.hidden.len() as u32),
            ("bytes of text", page.text.len() as u32),
            ("bytes of source", source.len() as u32),
        ];
        for (kind, count) in counts {
            magnitude(sink, group, kind, count, 1 << 20);
        }
        if !page.title.is_empty() {
            sink.words(start(&page.title, FIELD_BYTES_MAX), group);
        }
    }
}

/// The last `bytes` of a text, cut at a character.
fn end(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    text.get(text.ceil_char_boundary(text.len() - bytes)..).unwrap_or_default()
}
