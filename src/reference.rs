//! Pages of the handbook that are made from the program itself: `docs/reference/`.
//!
//! `GAUNTLET_GOLDEN=1 cargo test --bin gauntlet reference` writes them anew; without the variable
//! the tests say what differs. `docs/filters.md` (rules) and `docs/openapi.json` (API) are made in
//! the same way where the rules and the API are.

mod api;
#[path = "../tests/common/blocks.rs"]
#[allow(dead_code, reason = "tests of the handbook read more of it")]
mod blocks;
mod commands;
mod examples;
mod fields;
mod rules;
mod settings;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a page with what it should be, or writes it.
fn golden(name: &str, made: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("GAUNTLET_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("docs/reference");
        std::fs::write(&path, made).expect("a page that can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(made.lines()).position(|(kept, made)| kept != made);
    let line = differs.map_or(kept.lines().count().min(made.lines().count()), |at| at) + 1;
    assert!(
        kept == made,
        "docs/reference/{name} is not up to date from line {line} on: \
         GAUNTLET_GOLDEN=1 cargo test --bin gauntlet reference writes it anew"
    );
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Words in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut columns = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > 100 {
            lines.push('\n');
            columns = 0;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += length;
    }
    lines
}
