//! Every promise of SECURITY.md names tests, and every test that it names is there.

use std::fs;
use std::path::Path;

/// The section whose lines have no tests.
const NOT_TESTABLE: &str = "## Not testable";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What stands between backquotes and has `::`.
fn tests_in(cell: &str) -> Vec<(&str, &str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::")).collect()
}

/// The source has a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    // A test program without a harness names its tests in a table.
    if source.contains("\nconst TESTS: [(") {
        return source.contains(&format!("(\"{name}\", {name})"));
    }
    let mut marked = false;
    source.lines().map(str::trim).any(|line| {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| marked) {
            marked = false;
            return rest.split('(').next() == Some(name);
        }
        false
    })
}

/// What is wrong with the page.
fn mistakes(page: &str) -> Vec<String> {
    let (mut wrong, mut promises) = (Vec::new(), 0);
    let (mut section, mut head) = ("", "");
    for line in page.lines() {
        if line.starts_with("## ") {
            section = line;
        }
        if !line.starts_with('|') {
            head = "";
            continue;
        }
        if head.is_empty() {
            head = line;
            continue;
        }
        if line.starts_with("|---") || head != "| Promise | Tests |" {
            continue;
        }
        promises += 1;
        if section == NOT_TESTABLE {
            wrong.push(format!("a promise among what is not testable: {line}"));
        }
        let cell = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let tests = tests_in(cell);
        if tests.is_empty() {
            wrong.push(format!("no test: {line}"));
        }
        for (file, name) in tests {
            match fs::read_to_string(root().join(file)) {
                Err(_) => wrong.push(format!("no file {file}")),
                Ok(source) if has_test(&source, name) => {}
                Ok(_) => wrong.push(format!("no test {name} in {file}")),
            }
        }
    }
    if promises < 40 || !page.contains(NOT_TESTABLE) {
        wrong.push(format!("{promises} promises were found: is the page as it was?"));
    }
    wrong
}

#[test]
fn every_promise_has_its_tests() {
    let page = fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    let wrong = mistakes(&page);
    assert!(wrong.is_empty(), "SECURITY.md:\n{}", wrong.join("\n"));
}

#[test]
fn a_promise_without_a_test_is_found() {
    let promise = |cell: &str| format!("| Promise | Tests |\n|---|---|\n| x | {cell} |\n");
    let said = |page: &str| mistakes(page).join("\n");
    assert!(said(&promise("")).contains("no test: | x"));
    assert!(said(&promise("`tests/none.rs::x`")).contains("no file tests/none.rs"));
    let other = promise("`tests/security_promises.rs::has_test`");
    assert!(said(&other).contains("no test has_test in"), "a function that is no test");
    let fine = promise("`tests/security_promises.rs::every_promise_has_its_tests`");
    assert_eq!(said(&fine), "1 promises were found: is the page as it was?");
}
