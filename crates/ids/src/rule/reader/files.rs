//! Files: their names, sizes, hashes, and what is kept of them.

use std::path::Path;
use std::sync::Arc;

use super::content;
use super::draft::{Draft, List, Outcome};
use super::keyword::{Keyword, keyword};
use super::text::Quotes;
use crate::rule::header::Direction;
use crate::rule::matches::{FileScope, Match, ProtocolCheck, ProtocolValue};
use crate::rule::number::compare;
use crate::rule::protocol;

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("file.data", file_data).optional_value().directed(),
    keyword("file_data", file_data).optional_value().directed(),
    keyword("file.name", file_name).optional_value().directed(),
    keyword("file.magic", file_magic).optional_value().directed(),
    keyword("filename", |draft, value| old(draft, value, Old::Name))
        .quotes(Quotes::Optional)
        .negatable(),
    keyword("fileext", |draft, value| old(draft, value, Old::Extension))
        .quotes(Quotes::Optional)
        .negatable(),
    keyword("filemagic", |draft, value| old(draft, value, Old::Magic))
        .quotes(Quotes::Mandatory)
        .negatable(),
    keyword("filesize", file_size).directed(),
    keyword("filemd5", |draft, value| hashes(draft, value, "filemd5", 16)),
    keyword("filesha1", |draft, value| hashes(draft, value, "filesha1", 20)),
    keyword("filesha256", |draft, value| hashes(draft, value, "filesha256", 32)),
    keyword("filestore", file_store).optional_value(),
];

/// Longest line of a list of hashes, and most bytes of such a list.
const LIST_BYTES_MAX: u64 = 256 << 20;

fn file_data(draft: &mut Draft<'_>, _: &str) -> Outcome {
    let protocol = draft.protocol;
    let has_files = |name| protocol::find(name).is_none_or(|info| info.has_files);
    if let Some(protocol) = protocol.filter(|name| !has_files(name)) {
        return Err(format!("{protocol} carries no files").into());
    }
    let to_client = draft.towards.client && !draft.towards.server;
    if protocol == Some("smtp") && draft.has_flow && to_client {
        return Err("SMTP carries files to the server only".into());
    }
    draft.activate("file_data", None)?;
    draft.uses_file_data = true;
    Ok(())
}

fn file_name(draft: &mut Draft<'_>, _: &str) -> Outcome {
    draft.activate("file.name", None)?;
    draft.uses_file_name = true;
    Ok(())
}

fn file_magic(draft: &mut Draft<'_>, _: &str) -> Outcome {
    draft.activate("file.magic", None)
}

#[derive(Clone, Copy, PartialEq)]
enum Old {
    Name,
    Extension,
    Magic,
}

/// The older keywords are contents in any case on a buffer.
fn old(draft: &mut Draft<'_>, value: &str, what: Old) -> Outcome {
    draft.reset_active()?;
    let mut content = content::new(value, draft.is_negated)?;
    if what == Old::Extension {
        content.bytes.insert(0, b'.');
        content.ends_with = true;
    }
    content.bytes.make_ascii_lowercase();
    content.nocase = true;
    draft.append(List::Payload, Match::Content(content))?;
    let buffer = if what == Old::Magic { "file.magic" } else { "file.name" };
    draft.uses_file_name |= what != Old::Magic;
    draft.uses_file_data |= what == Old::Magic;
    let own = draft.protocol;
    content::modifier(draft, buffer, own.unwrap_or(""))?;
    draft.protocol = own;
    Ok(())
}

fn append(draft: &mut Draft<'_>, item: Match) -> Outcome {
    let key = draft.key("files");
    draft.uses_file_data = true;
    draft.append(List::Buffer(key), item).map(|_| ())
}

fn file_size(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let value = ProtocolValue::Number(compare(value, u64::MAX)?);
    append(draft, Match::Protocol(ProtocolCheck { keyword: "filesize", value }))
}

fn hashes(draft: &mut Draft<'_>, value: &str, keyword: &'static str, length: usize) -> Outcome {
    let negated = value.starts_with('!');
    let file = value.strip_prefix('!').unwrap_or(value).trim();
    let path = find_file(draft.directory, draft.shared.settings.get("default-rule-path"), file);
    let text = read_bounded(&path)?;
    let mut hashes: Vec<Vec<u8>> = Vec::new();
    for line in text.lines() {
        let end = line.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(line.len());
        let digits = line.get(..end).unwrap_or_default();
        if digits.len() == length * 2 {
            hashes.extend(hex(digits));
        }
    }
    if hashes.is_empty() {
        return Err(format!("{} has no hash of {length} bytes", path.display()).into());
    }
    hashes.sort_unstable();
    hashes.dedup();
    let value = ProtocolValue::Hashes { file: file.to_owned(), hashes: Arc::new(hashes), negated };
    append(draft, Match::Protocol(ProtocolCheck { keyword, value }))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// A list that a rule names: beside the rule, else below the directory of rules.
pub(super) fn find_file(
    directory: &Path,
    rule_path: Option<&str>,
    name: &str,
) -> std::path::PathBuf {
    let beside = directory.join(name);
    match rule_path {
        Some(rules) if !beside.exists() && Path::new(rules).join(name).exists() => {
            Path::new(rules).join(name)
        }
        _ => beside,
    }
}

fn read_bounded(path: &Path) -> Outcome<String> {
    let bad = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let size = std::fs::metadata(path).map_err(bad)?.len();
    if size > LIST_BYTES_MAX {
        return Err(format!("{} is longer than {LIST_BYTES_MAX} bytes", path.display()).into());
    }
    let bytes = std::fs::read(path).map_err(bad)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn file_store(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.post.iter().any(|entry| matches!(entry.item, Match::Bypass)) {
        return Err("it cannot be used with bypass".into());
    }
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let [first, rest @ ..] = words.as_slice() else { return Err("it is empty".into()) };
    let (direction, mut scope) = match first.to_ascii_lowercase().as_str() {
        "request" | "to_server" => (Some(Direction::ToServer), FileScope::Transaction),
        "response" | "to_client" => (Some(Direction::ToClient), FileScope::Transaction),
        "both" => (None, FileScope::Transaction),
        _ => (None, FileScope::File),
    };
    match rest.first().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("file") => scope = FileScope::File,
        Some("tx") => scope = FileScope::Transaction,
        Some("ssn" | "flow") => scope = FileScope::Flow,
        _ => {}
    }
    let both = first.eq_ignore_ascii_case("both");
    append(draft, Match::FileStore { direction, both, scope })?;
    draft.stores_files = true;
    draft.append(List::Post, Match::FileStore { direction, both, scope }).map(|_| ())
}
