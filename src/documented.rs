//! The settings as `config/gauntlet.toml` documents them, for the manual page and the handbook. A
//! test of the gateway keeps that file equal to the program's defaults.

/// The file.
pub(crate) const TEXT: &str = include_str!("../config/gauntlet.toml");

/// A table of the file.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// As it stands in the file: `[scan]`, `[[listener]]`.
    pub(crate) header: String,
    /// Comments before it and between its keys.
    pub(crate) prose: Vec<String>,
    pub(crate) keys: Vec<Key>,
    /// All of it is a comment: none is there by default.
    pub(crate) is_example: bool,
}

/// A setting of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) comment: String,
    pub(crate) is_example: bool,
}

/// `key = value  # comment` in its parts.
fn key(line: &str, is_example: bool) -> Option<Key> {
    let (name, rest) = line.split_once(" = ")?;
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !is_name {
        return None;
    }
    let mut quoted = false;
    let hash = rest.char_indices().find(|&(_, c)| {
        quoted ^= c == '"';
        c == '#' && !quoted
    });
    let end = hash.map_or(rest.len(), |(at, _)| at);
    let value = rest[..end].trim().to_owned();
    let comment = rest[end..].trim_start_matches('#').trim().to_owned();
    Some(Key { name: name.to_owned(), value, comment, is_example })
}

fn is_header(text: &str) -> bool {
    text.starts_with('[') && text.trim_end().ends_with(']') && !text.contains([' ', '"', '='])
}

/// The tables of the file, in its order. Comments before a table are about it; a comment behind a
/// key goes on in the indented comments below it.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut prose: Vec<String> = Vec::new();
    let mut in_example = false;
    for line in text.lines() {
        if line.trim().is_empty() {
            in_example = false;
            // The file's own head stands before the first table.
            if found.is_empty() {
                prose.clear();
            }
            continue;
        }
        let bare = line.strip_prefix('#').map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
        in_example |= bare.is_some_and(is_header);
        let (code, is_example) = match bare {
            Some(bare) if in_example || key(bare, true).is_some() => (bare, true),
            _ => (line, in_example),
        };
        if is_header(code) {
            let known = found.iter().any(|section| section.header == code && section.is_example);
            if !known {
                let (header, prose) = (code.to_owned(), std::mem::take(&mut prose));
                found.push(Section { header, prose, is_example, ..Section::default() });
            }
            continue;
        }
        let Some(section) = found.last_mut() else {
            prose.push(line.trim_start_matches('#').trim().to_owned());
            continue;
        };
        if let Some(key) = key(code, is_example) {
            section.prose.append(&mut prose);
            if !section.keys.iter().any(|known| known.name == key.name) {
                section.keys.push(key);
            }
        } else if line.starts_with("  ") || (is_example && code.starts_with("  ")) {
            let more = code.trim().trim_start_matches('#').trim();
            let last = section.keys.last_mut().expect("a comment goes on behind a key");
            last.comment = format!("{} {more}", last.comment).trim().to_owned();
        } else if code.starts_with('#') {
            prose.push(code.trim_start_matches('#').trim().to_owned());
        } else if is_example {
            prose.push(code.trim().to_owned());
        }
    }
    found
}
