//! Pages that name code: each named file exists, and has what the page says that it has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The code spans of a page, outside of its blocks of code, each with the text between it and the
/// span before it.
fn spans(text: &str) -> Vec<(String, String)> {
    let (mut prose, mut in_block) = (String::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            prose.push_str(line.trim());
            prose.push(' ');
        }
    }
    let mut pieces = prose.split('`').map(str::to_owned);
    let mut found = Vec::new();
    while let (Some(between), Some(span)) = (pieces.next(), pieces.next()) {
        found.push((between, span));
    }
    found
}

/// Whether a file defines this name as a function, type, trait or constant, or has it as a module.
fn defines(source: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];
    source.lines().any(|line| {
        let mut words = line.trim().split(|c: char| !c.is_alphanumeric() && c != '_');
        let kind = words.by_ref().find(|word| kinds.contains(word));
        kind.is_some() && words.next() == Some(name)
    })
}

#[test]
fn the_life_of_a_message_names_functions_in_their_files() {
    let page = fs::read_to_string(root().join("docs/life-of-a-message.md")).expect("the page");
    let spans = spans(&page);
    let mut names = 0;
    for (at, (_, span)) in spans.iter().enumerate() {
        if span.ends_with(".rs") {
            let path = root().join("crates").join(span);
            let here = path.exists() || root().join(span).exists();
            assert!(here, "{span} does not exist");
        }
        let Some(next) = spans.get(at + 1).filter(|(between, _)| between == " (") else {
            assert!(!span.contains("::"), "no file stands behind {span}: (`crate/src/file.rs`)");
            continue;
        };
        let source = fs::read_to_string(root().join("crates").join(&next.1));
        let source = source.unwrap_or_else(|e| panic!("{}: {e}", next.1));
        let name = span.rsplit("::").next().unwrap_or_default();
        assert!(defines(&source, name), "{} does not define {name}", next.1);
        names += 1;
    }
    assert!(names > 20, "the walk finds the functions: {names}");
}

#[test]
fn the_design_of_the_matcher_names_files_that_exist() {
    let page = fs::read_to_string(root().join("crates/rules/DESIGN.md")).expect("the page");
    let mut files = 0;
    for (_, span) in spans(&page).iter().filter(|(_, span)| span.ends_with(".rs")) {
        let here = [root().join(span), root().join("crates/rules/src").join(span)];
        assert!(here.iter().any(|path| path.exists()), "{span} does not exist");
        files += 1;
    }
    assert!(files > 20, "the walk finds the files: {files}");
}

#[test]
fn every_record_of_a_measurement_is_in_the_index() {
    let index = fs::read_to_string(root().join("bench-runs/README.md")).expect("the index");
    for entry in fs::read_dir(root().join("bench-runs")).expect("bench-runs/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_named = [format!("({name})"), format!("`{name}`")].iter().any(|n| index.contains(n));
        assert!(is_named || name == "README.md", "bench-runs/README.md does not name {name}");
    }
}

/// Columns of a line of a page or a comment.
const COLUMNS_MAX: usize = 100;

/// Whether a line of a page may be longer: a table's row, a heading, code.
fn may_be_long(line: &str, is_code: bool) -> bool {
    is_code || line.starts_with(['|', '#']) || line.starts_with("    ")
}

#[test]
fn lines_of_pages_and_comments_fit() {
    let mut wide = Vec::new();
    let mut note = |path: &Path, at: usize, line: &str| {
        if line.chars().count() > COLUMNS_MAX {
            wide.push(format!("{}:{}", path.display(), at + 1));
        }
    };
    for page in crate::tidy::doc_pages() {
        // Each link of the handbook's contents is a line.
        if page.ends_with("SUMMARY.md") {
            continue;
        }
        let text = fs::read_to_string(root().join(&page)).expect("a page");
        let mut is_code = false;
        for (at, line) in text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            if !may_be_long(line, is_code) {
                note(&page, at, line);
            }
        }
    }
    for source in crate::tidy::sources() {
        let text = fs::read_to_string(root().join(&source)).expect("a source");
        let comments = text.lines().enumerate().filter(|(_, l)| l.trim_start().starts_with("//"));
        comments.for_each(|(at, line)| note(&source, at, line));
    }
    assert!(wide.is_empty(), "longer than {COLUMNS_MAX} columns:\n{}", wide.join("\n"));
}

/// mdBook, which the test command installs.
fn mdbook() -> Option<PathBuf> {
    let usual = root().join("target/peers/mdbook/bin/mdbook");
    let named = std::env::var_os("GAUNTLET_MDBOOK").map_or(usual, PathBuf::from);
    if !named.is_file() {
        assert!(std::env::var_os("CI").is_none(), "mdBook is not installed (./check does it)");
        eprintln!("SKIPPED: mdBook is not installed (./check does it)");
        return None;
    }
    Some(named)
}

#[test]
fn mdbook_makes_a_book_of_the_handbook_that_can_be_searched() {
    let Some(mdbook) = mdbook() else { return };
    let book = tempfile::tempdir().unwrap();
    let mut command = Command::new(mdbook);
    command.arg("build").arg("--dest-dir").arg(book.path()).arg(root().join("docs"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let pages: Vec<&str> = links.map(|(page, _)| page).collect();
    assert!(pages.len() > 40, "{pages:?}");
    for page in pages {
        // mdBook's own rule for the page of a folder.
        let name = page.replace("README.md", "index.md");
        let html = book.path().join(name).with_extension("html");
        assert!(html.is_file(), "{page} is not in the book");
    }
    let files = std::fs::read_dir(book.path()).unwrap().flatten().map(|entry| entry.path());
    let is_index =
        |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("searchindex"));
    let index = files.into_iter().find(is_index).expect("an index for the search");
    assert!(std::fs::read_to_string(index).unwrap().contains("quarantine"));
}
