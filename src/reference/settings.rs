//! `docs/reference/settings.md`: the settings, their defaults and meanings, from
//! `config/gauntlet.toml`, which a test of the gateway keeps equal to the program's defaults.

use super::{cell, golden, wrapped};

const HEAD: &str = "# Settings

Every setting with its default. A test makes this page from `config/gauntlet.toml`, the file to copy
from; units are last in the names. `gauntlet config check FILE` reads a file and names mistakes by
line, `gauntlet config show` prints the values in force and where each came from.

A key replaces one default, a list replaces the whole list. The environment replaces single keys of
tables: `GAUNTLET_SCAN__THREADS=4` is `threads` of `[scan]`; lists are separated by commas. Tables in
double brackets may be repeated; those whose keys have an *example* instead of a default are not
there unless you write them.
";

/// A table of the file.
#[derive(Debug, Default)]
struct Section {
    /// As it stands in the file: `[scan]`, `[[listener]]`.
    header: String,
    /// Comments before it and between its keys.
    prose: Vec<String>,
    keys: Vec<Key>,
    /// All of it is a comment: none is there by default.
    is_example: bool,
}

#[derive(Debug)]
struct Key {
    name: String,
    value: String,
    comment: String,
    is_example: bool,
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

/// Reads the file line by line.
fn sections(text: &str) -> Vec<Section> {
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

fn page(sections: &[Section]) -> String {
    let mut page = HEAD.to_owned();
    for section in sections {
        page.push_str(&format!(
            "\n## {}\n\n",
            section.header.replace('[', "\\[").replace(']', "\\]")
        ));
        if !section.prose.is_empty() {
            page.push_str(&wrapped(&section.prose.join(" ")));
            page.push_str("\n\n");
        }
        let column = if section.is_example { "Example" } else { "Default" };
        page.push_str(&format!("| Setting | {column} | |\n|---|---|---|\n"));
        for key in &section.keys {
            let note = if key.is_example && !section.is_example { "*example* " } else { "" };
            let (value, comment) = (cell(&key.value), cell(&key.comment));
            page.push_str(&format!("| `{}` | {note}`{value}` | {comment} |\n", key.name));
        }
    }
    page
}

#[test]
fn the_page_of_settings_is_true() {
    let text = include_str!("../../config/gauntlet.toml");
    let sections = sections(text);
    let has = |table: &str, name: &str| {
        sections.iter().any(|section| {
            section.header.trim_matches(['[', ']']) == table
                && section.keys.iter().any(|key| key.name == name)
        })
    };
    let loaded = gauntlet_gateway::config::Loaded::load(None, []).expect("the defaults");
    for setting in loaded.settings() {
        let (table, name) = setting.key.rsplit_once('.').expect("a key is in a table");
        let table: String = table.chars().filter(|c| !c.is_ascii_digit()).collect();
        let table = table.replace("[]", "");
        let is_table = sections.iter().any(|s| s.header.contains(&setting.key));
        assert!(has(&table, name) || is_table, "{} is not on the page", setting.key);
    }
    golden("settings.md", &page(&sections));
}
