//! Sentences for the record and for the page.

use gauntlet_phrases::{Kind, Score, Verdict};
use gauntlet_sniff::FileKind;

use super::kind::Declared;
use crate::judge::BlockReason;
use crate::settings::content::ContentSettings;

/// Phrases that a note names.
const PHRASES_SHOWN_MAX: usize = 10;
/// Categories that a page names.
const CATEGORIES_SHOWN_MAX: usize = 3;
/// Characters of what came from outside.
const CHARS_MAX: usize = 100;

fn reason(rule: String, text: impl Into<String>) -> BlockReason {
    BlockReason { rule, text: text.into() }
}

fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect()
}

/// What the header says, and what the bytes say.
pub(super) fn types(declared: &Declared, kind: FileKind) -> String {
    let name = |one: &String| if one.is_empty() { "none".to_owned() } else { one.clone() };
    let said: Vec<String> = declared.types.essences.iter().map(name).collect();
    format!("type {}, by its bytes {}", shown(&said.join(" and ")), kind.media_type())
}

/// Points and the phrases with the most of them.
pub(super) fn phrases(score: &Score) -> String {
    let mut hits: Vec<_> = score.hits().iter().collect();
    hits.sort_by_key(|hit| (matches!(hit.kind, Kind::Weighted(_)), -hit.points.abs()));
    let one = |hit: &&gauntlet_phrases::Hit| match hit.kind {
        Kind::Banned => format!("{:?} banned", hit.phrase),
        Kind::Exception => format!("{:?} exception", hit.phrase),
        Kind::Weighted(_) => format!("{:?} {:+}", hit.phrase, hit.points),
    };
    let shown: Vec<String> = hits.iter().take(PHRASES_SHOWN_MAX).map(one).collect();
    let more = match hits.len().saturating_sub(PHRASES_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let found = match shown.is_empty() {
        true => String::new(),
        false => format!(" ({}{more})", shown.join(", ")),
    };
    format!("phrases {} of {}, {}{found}", score.total(), score.limit, score.verdict())
}

pub(super) fn blocked_phrases(score: &Score) -> BlockReason {
    let names: Vec<String> = score
        .categories()
        .iter()
        .take(CATEGORIES_SHOWN_MAX)
        .map(|(name, _)| name.to_string())
        .collect();
    let about = match names.is_empty() {
        true => String::new(),
        false => format!(" It seems to be about: {}.", names.join(", ")),
    };
    let (what, text) = match score.verdict() {
        Verdict::Banned => {
            ("banned phrase".to_owned(), "This page has words that are not allowed here.")
        }
        _ => {
            let what = format!("{} points, {} allowed", score.total(), score.limit);
            (what, "This page has too many words that are not wanted here.")
        }
    };
    reason(format!("content: phrases: {what}"), format!("{text}{about}"))
}

pub(super) fn blocked_type(pattern: &str, declared: &Declared, kind: FileKind) -> BlockReason {
    let rule = format!("content: blocked_types: {pattern} ({})", types(declared, kind));
    reason(rule, format!("Files of this type ({}) are not allowed here.", kind.media_type()))
}

pub(super) fn blocked_extension(extension: &str) -> BlockReason {
    let extension = shown(extension);
    let text = format!("Files whose name ends in .{extension} are not allowed here.");
    reason(format!("content: blocked_extensions: {extension}"), text)
}

pub(super) fn found(name: &str) -> BlockReason {
    let text = "This file is not allowed here: the scan found something in it.";
    reason(format!("content: scan: {}", shown(name)), text)
}

pub(super) fn bomb() -> BlockReason {
    let text = "This content unpacks to far more than it seems to be.";
    reason("content: decompression bomb (ratio_max)".to_owned(), text)
}

/// An archive that unpacks to far more than it is; `path` names what in it does.
pub(super) fn packed_bomb(path: &str) -> BlockReason {
    BlockReason { rule: format!("content: scan: decompression bomb: {}", shown(path)), ..bomb() }
}

pub(super) fn too_large(limit: &str) -> BlockReason {
    reason(format!("content: {limit}"), "This content is too large to be checked.")
}

pub(super) fn too_large_at_all(size_max: u64) -> BlockReason {
    let text = format!("This file is larger than what is allowed here ({size_max} bytes).");
    reason("content: size_max".to_owned(), text)
}

pub(super) fn unreadable(why: &str) -> BlockReason {
    reason(format!("content: unreadable: {}", shown(why)), "This content cannot be checked.")
}

pub(super) fn partial() -> BlockReason {
    let text = "A part of a file cannot be checked: fetch it whole.";
    reason("content: partial".to_owned(), text)
}

pub(super) fn part_not_asked_for() -> BlockReason {
    let text = "The server sent a part of a file that was not asked for: it cannot be checked.";
    reason("content: partial: a part (206) that was not asked for".to_owned(), text)
}

pub(super) fn no_stream() -> BlockReason {
    let text = "This is not the stream of events that it says it is: it cannot be checked.";
    reason("content: a stream whose bytes are none".to_owned(), text)
}

/// What is blocked by the header alone, of a file whose beginning does not come.
pub(super) fn of_header(declared: &Declared, settings: &ContentSettings) -> Option<BlockReason> {
    let kind = FileKind::Unknown;
    if let Some(blocked) = declared.blocked_type(kind, settings) {
        return Some(blocked_type(blocked, declared, kind));
    }
    let extension = declared.blocked_extension(settings);
    extension.filter(|_| !declared.is_html() || declared.is_attachment).map(blocked_extension)
}

pub(super) fn failed(why: &str) -> BlockReason {
    let text = "This content cannot be checked now. Try again in a few minutes.";
    reason(format!("content: {}", shown(why)), text)
}
