//! `docs/reference/settings.md`: the settings, their defaults and meanings, from
//! `config/gauntlet.toml`, which a test of the gateway keeps equal to the program's defaults.

use super::{cell, golden, wrapped};
use crate::documented::{Section, TEXT, sections};

const HEAD: &str = "# Settings

Every setting with its default. A test makes this page from `config/gauntlet.toml`, the file to copy
from; units are last in the names. `gauntlet config check FILE` reads a file and names mistakes by
line, `gauntlet config show` prints the values in force and where each came from.

A key replaces one default, a list replaces the whole list. The environment replaces single keys of
tables: `GAUNTLET_SCAN__THREADS=4` is `threads` of `[scan]`; lists are separated by commas. Tables
in double brackets may be repeated; those whose keys have an *example* instead of a default are not
there unless you write them. ";

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
        page.push_str(&format!("| Setting | {column} | Meaning |\n|---|---|---|\n"));
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
    let sections = sections(TEXT);
    let has = |table: &str, name: &str| {
        sections.iter().any(|section| {
            section.header.trim_matches(['[', ']']) == table
                && section.keys.iter().any(|key| key.name == name)
        })
    };
    let loaded = gauntlet_gateway::config::Loaded::load(None, []).expect("the defaults");
    for setting in loaded.settings() {
        let (table, name) = setting.key.rsplit_once('.').unwrap_or((&setting.key, ""));
        let is_table = sections.iter().any(|s| s.header.contains(&setting.key));
        assert!(has(table, name) || is_table, "{} is not on the page", setting.key);
    }
    golden("settings.md", &page(&sections));
}
