//! Pages that name code: each named file exists, and has what the page says that it has.

use std::fs;
use std::path::Path;

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
