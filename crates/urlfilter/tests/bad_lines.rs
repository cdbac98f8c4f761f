//! Lists that are full of what nobody can read.

use std::fmt::Write as _;

use gauntlet_urlfilter::check;
use gauntlet_urlfilter::formats::Format;
use gauntlet_urlfilter::limits::{PROBLEM_KINDS_MAX, PROBLEMS_SHOWN_MAX};
use gauntlet_urlfilter::problem::Severity;
use gauntlet_urlfilter::sources::Source;

use crate::common::{Folder, found};

#[test]
fn a_million_bad_lines_are_counted_and_the_rest_loads() {
    let folder = Folder::new();
    let mut text = String::with_capacity(20_000_000);
    for n in 0..1_000_000 {
        let _ = writeln!(text, "no host {n}");
    }
    text.push_str("evil.example\n");
    let (out, built, report) = folder.compile(Format::Plain, &text);
    assert_eq!((built.entries, report.problems.count(Severity::Bad)), (1, 1_000_000));
    assert_eq!(report.problems.shown.len(), PROBLEMS_SHOWN_MAX);
    assert_eq!(report.problems.shown[9].line, 10);
    assert_eq!(report.sources[0].lines, 1_000_001);
    assert!(found(&super::look_up::open(&out), "http://evil.example/").is_some());
}

#[test]
fn lines_without_end_and_bytes_without_text_are_bounded() {
    let folder = Folder::new();
    let mut bytes = vec![b'a'; 40_000_000];
    bytes.extend(b"\n\xff\xfe\x00\nevil.example\n");
    let path = folder.write("list", bytes);
    let source = Source { path, format: None, category: String::new() };
    let report = check(&[source]).unwrap();
    assert_eq!((report.sources[0].lines, report.sources[0].entries), (3, 1));
    let said: Vec<String> = report.problems.shown.iter().map(ToString::to_string).collect();
    assert!(said[0].contains(":1: bad: line too long") && said[0].len() < 400, "{said:?}");
    assert!(said[1].contains(":2: bad: not UTF-8"), "{said:?}");
}

#[test]
fn kinds_of_problems_are_bounded() {
    let folder = Folder::new();
    let text: String = (0..5_000).map(|n| format!("||a.example^$option{n}\n")).collect();
    let (_, built, report) = folder.compile(Format::AdBlock, &text);
    assert_eq!((built.entries, report.problems.total()), (0, 5_000));
    assert_eq!(report.problems.counts.len(), PROBLEM_KINDS_MAX + 1);
}

#[test]
fn what_is_not_there_is_an_error_that_names_it() {
    let folder = Folder::new();
    let path = folder.path().join("missing");
    let source = Source { path, format: None, category: String::new() };
    let error = check(&[source]).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
}
