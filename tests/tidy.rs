//! The house in order: which crate may depend on which, and how long files and functions may be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Arrows of the design (section 3): a crate, and the crates of ours it may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("sniff", &[]),
    ("dlp", &[]),
    ("urlfilter", &["mail"]),
    ("phrases", &["mail"]),
    ("sandbox", &[]),
    ("content", &["sandbox", "sniff"]),
    ("mail", &["sniff", "suffix"]),
    ("verdict", &["mail"]),
    ("web", &["mail"]),
    ("rules", &["mail"]),
    ("spamassassin", &["mail", "rules"]),
    ("engine", &["mail", "verdict", "rules", "spamassassin", "urlfilter"]),
    ("policy", &["mail", "verdict", "web", "smtp"]),
    ("smtp", &[]),
    ("crc64", &[]),
    ("suffix", &[]),
    ("store", &["mail", "verdict", "web", "policy"]),
    ("learning", &["mail", "engine", "store"]),
    ("channel", &["mail", "verdict", "store"]),
    ("array", &["mail", "verdict", "store"]),
    (
        "gateway",
        &[
            "sandbox",
            "content",
            "dlp",
            "mail",
            "verdict",
            "web",
            "rules",
            "spamassassin",
            "engine",
            "policy",
            "smtp",
            "store",
            "learning",
            "channel",
        ],
    ),
    ("console", &["mail", "verdict", "web", "policy", "store"]),
    ("proxy", &["mail", "verdict", "web", "policy", "phrases", "sniff", "urlfilter"]),
    ("packet", &[]),
    ("tunnel", &["mail"]),
    ("netio", &["packet", "tunnel"]),
    ("protocols", &["packet"]),
    ("ids", &["packet", "protocols", "suffix"]),
    ("inspection", &["packet", "protocols", "ids", "mail", "verdict", "sniff", "proxy"]),
    ("inputs", &["mail", "rules", "spamassassin", "engine"]),
    (
        "bench",
        &[
            "mail",
            "verdict",
            "rules",
            "spamassassin",
            "engine",
            "inputs",
            "packet",
            "policy",
            "store",
            "smtp",
            "urlfilter",
        ],
    ),
    ("lab", &["mail", "verdict", "rules", "spamassassin", "engine", "store", "bench", "inputs"]),
];

/// Lines of a file before its tests, and of a function.
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the repository, relative to its root.
pub(crate) fn sources() -> Vec<PathBuf> {
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
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
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
/// cores). WireGuard (`boringtun`) brought 22: dalek's curve, RustCrypto's cipher, and their own;
/// the array 23: `tokio-postgres`, `object_store`, and what they need of dates, checksums and XML;
/// `html-escape` is the names of characters that browsers know.
const CRATES_MAX: usize = 424;

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

/// Pages whose links are checked: those of the root that say so here, and all below `docs/`.
pub(crate) fn doc_pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
            .map(PathBuf::from)
            .to_vec();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).into_iter().flatten().flatten() {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 20, "the walk finds the pages");
    found
}

/// A page's lines outside of fenced code, without code spans.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page:?}: {e}"));
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push(line.split('`').step_by(2).collect());
        }
    }
    lines
}

/// Anchors of a page's headings as GitHub makes them: in lower case, without signs but `-` and `_`,
/// blanks as `-`; a heading that was there before gets `-1`, `-2` ...
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .map(|c| if c == ' ' { '-' } else { c })
            .flat_map(char::to_lowercase)
            .collect();
        let same = |other: &String| {
            other.strip_prefix(&slug).is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok())
            })
        };
        let before = found.iter().filter(|other| same(other)).count();
        found.push(if before == 0 { slug } else { format!("{slug}-{before}") });
    }
    found
}

/// Targets of the links `[text](target)` of a line.
fn link_targets(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// A path without `.` and `..`; none if it leads out of the repository.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::Normal(name) => whole.push(name),
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if whole.pop() => {}
            _ => return None,
        }
    }
    Some(whole)
}

/// What is wrong with a link of a page, if anything is.
fn link_fault(page: &Path, target: &str) -> Option<String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    if target.starts_with(['/', '~', '\\']) || target.starts_with("file:") {
        return Some("leads to one machine only".to_owned());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().unwrap_or(Path::new(""));
    let Some(file) = plain(&if file.is_empty() { page.to_owned() } else { folder.join(file) })
    else {
        return Some("leads out of the repository".to_owned());
    };
    if !root().join(&file).exists() {
        return Some("leads to no file".to_owned());
    }
    // The handbook is made from docs/ alone: what is outside would be missing there.
    let in_book = |path: &Path| path.starts_with("docs") && !path.starts_with("docs/decisions");
    if in_book(page) && !file.starts_with("docs") {
        return Some("leads out of the handbook: name the file instead".to_owned());
    }
    (!anchor.is_empty() && !anchors(&file).iter().any(|a| a == anchor))
        .then(|| "leads to no heading".to_owned())
}

#[test]
fn links_in_the_docs_lead_somewhere() {
    let mut faults = Vec::new();
    let mut links = 0;
    for page in doc_pages() {
        for line in prose(&page) {
            for target in link_targets(&line) {
                links += 1;
                if let Some(fault) = link_fault(&page, target) {
                    faults.push(format!("{}: ({target}) {fault}", page.display()));
                }
            }
        }
    }
    assert!(links > 100, "the walk finds links: {links}");
    let summary = prose(Path::new("docs/SUMMARY.md"));
    let named: Vec<&str> = summary.iter().flat_map(|line| link_targets(line)).collect();
    for page in doc_pages() {
        let Ok(page) = page.strip_prefix("docs") else { continue };
        let apart = page.starts_with("decisions") || page == Path::new("SUMMARY.md");
        if !apart && !named.iter().any(|name| page == Path::new(name)) {
            faults.push(format!("docs/SUMMARY.md does not name {}", page.display()));
        }
    }
    assert!(faults.is_empty(), "correct these links:\n{}", faults.join("\n"));
}
