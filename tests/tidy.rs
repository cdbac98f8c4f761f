//! The house in order: which crate may depend on which, and how long files and functions may be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Arrows of the design (section 3): a crate, and the crates of ours it may name.
const ARROWS: [(&str, &[&str]); 10] = [
    ("mail", &[]),
    ("rules", &["mail"]),
    ("spamassassin", &["mail", "rules"]),
    ("engine", &["mail", "rules", "spamassassin"]),
    ("policy", &["mail", "engine"]),
    ("smtp", &[]),
    ("store", &["mail", "engine", "policy"]),
    ("gateway", &["mail", "rules", "spamassassin", "engine", "policy", "smtp", "store"]),
    ("console", &["mail", "engine", "policy", "store"]),
    ("bench", &["mail", "rules", "spamassassin", "engine", "policy", "store", "smtp"]),
];

/// Lines of a file before its tests, and of a function.
const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the repository, relative to its root.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["src", "crates", "tests", "fuzz"].iter().map(|f| root().join(f)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path.strip_prefix(root()).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    assert!(found.len() > 20, "the walk finds the sources");
    found
}

/// Names of our crates in the `[dependencies]` of a manifest.
fn own_dependencies(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).expect("a readable manifest");
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            && let Some(name) = line.strip_prefix("gauntlet-")
        {
            let end = name.find(['.', ' ', '=']).unwrap_or(name.len());
            found.push(name[..end].to_owned());
        }
    }
    found
}

#[test]
fn crates_depend_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    for entry in fs::read_dir(root().join("crates")).expect("crates/").flatten() {
        let name = entry.file_name().into_string().expect("a crate's name");
        let may = allowed.get(name.as_str()).unwrap_or_else(|| {
            panic!("crate {name} has no place in the design: add it to ARROWS and ARCHITECTURE.md")
        });
        for dependency in own_dependencies(&entry.path().join("Cargo.toml")) {
            assert!(
                may.contains(&dependency.as_str()),
                "crate {name} must not depend on {dependency} (ARCHITECTURE.md, the arrows)"
            );
        }
    }
}

/// A file of `tests/` that `it.rs` does not name would never run.
#[test]
fn every_test_file_is_in_the_one_binary() {
    let in_tests = |path: &&PathBuf| path.parent().is_some_and(|folder| folder.ends_with("tests"));
    for path in sources().iter().filter(in_tests).filter(|path| !path.ends_with("it.rs")) {
        let all = path.with_file_name("it.rs");
        let all = fs::read_to_string(root().join(&all)).unwrap_or_else(|e| panic!("{all:?}: {e}"));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        assert!(all.contains(&format!("\nmod {name};\n")), "tests/it.rs does not name {path:?}");
    }
}

/// Twenty tabs named `mod.rs` in an editor say nothing.
#[test]
fn no_module_is_called_mod() {
    let found: Vec<_> = sources().into_iter().filter(|path| path.ends_with("mod.rs")).collect();
    assert!(found.is_empty(), "call these by their folder's name, beside it: {found:?}");
}

#[test]
fn files_stay_short() {
    let mut long = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(root().join(&path)).expect("a readable source");
        let lines = text.lines().take_while(|l| *l != "#[cfg(test)]").count();
        let name = path.to_string_lossy().into_owned();
        if lines > FILE_LINES_MAX {
            long.push(format!("{name}: {lines} lines before its tests, at most {FILE_LINES_MAX}"));
        }
    }
    assert!(long.is_empty(), "split these files:\n{}", long.join("\n"));
}

/// Functions as (name, lines), found by indentation: the sources are formatted.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = indent_of(line);
        let Some(at) = code.find("fn ").filter(|&at| is_signature(&code[..at])) else { continue };
        let name = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_');
        let closing = format!("{}}}", " ".repeat(indent));
        // A declaration in a trait has no body: it ends at a semicolon on its own indentation.
        let ends = |l: &str| l == closing || (l.ends_with(';') && indent_of(l) == indent);
        let last = lines[i..].iter().position(|l| ends(l));
        if let Some(length) = last.filter(|&n| lines[i + n] == closing) {
            found.push((name.collect(), length + 1));
        }
    }
    found
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// What may stand before `fn`.
fn is_signature(before: &str) -> bool {
    before.split_whitespace().all(|word| {
        matches!(word, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"")
            || word.starts_with("pub(")
    })
}

#[test]
fn functions_fit_a_screen() {
    let mut long = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(root().join(&path)).expect("a readable source");
        let file = path.to_string_lossy().into_owned();
        // A test may be a long table.
        let code = text.split("\n#[cfg(test)]\n").next().unwrap_or(&text);
        for (name, lines) in functions(code) {
            if lines > FUNCTION_LINES_MAX {
                let max = FUNCTION_LINES_MAX;
                long.push(format!("{file}: fn {name} has {lines} lines, at most {max}"));
            }
        }
    }
    assert!(long.is_empty(), "split these functions:\n{}", long.join("\n"));
}

/// Crates that the program may be built from (issue: a fresh build stays under eight minutes on two
/// cores).
const CRATES_MAX: usize = 300;

/// Licences of everything the program is built from, by cargo's own account.
#[test]
fn dependencies_are_few_and_free() {
    let out = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() <= CRATES_MAX, "{} crates, at most {CRATES_MAX}", packages.len());
    let deny = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let allowed: Vec<&str> = deny.split('"').skip(1).step_by(2).collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(may_use(licence, &allowed), "{name}: licence {licence:?} is not in deny.toml");
    }
}

/// Whether an SPDX expression can be met: one alternative whose every part is allowed.
fn may_use(expression: &str, allowed: &[&str]) -> bool {
    let flat = expression.replace(['(', ')'], "").replace('/', " OR ");
    // "(A OR B) AND C" is read as A, or B AND C: C alone must be allowed for both to be.
    let parts: Vec<&str> = flat.split(" AND ").collect();
    parts.iter().all(|part| {
        part.split(" OR ").any(|l| allowed.contains(&l.split(" WITH ").next().unwrap_or(l).trim()))
    })
}
