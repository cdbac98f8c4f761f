//! Bad rule files: each is reported with problem and line, and the rest still loads.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gauntlet_mail::{DefectKind, Envelope, Facts, Message};
use gauntlet_rules::{LoadError, LoadOptions, LoadReport, Outcome, Severity};
use gauntlet_spamassassin::{RulesScratch, Ruleset};

fn options() -> LoadOptions {
    LoadOptions { subtests: true, ..LoadOptions::default() }
}

fn load(text: &[u8]) -> (Ruleset, LoadReport) {
    Ruleset::from_bytes(text, &options()).expect("not strict")
}

fn scan(ruleset: &Ruleset, raw: &str) -> Outcome {
    let message = Message::parse(raw.as_bytes());
    let (envelope, facts) = (Envelope::default(), Facts::default());
    ruleset.scan(&message, &envelope, &facts, 1_700_000_000, &mut RulesScratch::default())
}

/// Lines with a problem of at least this severity.
fn lines(report: &LoadReport, least: Severity) -> Vec<u32> {
    report.problems.iter().filter(|p| p.severity >= least).map(|p| p.at.line).collect()
}

/// The rule that every bad file has at its end, and that must load.
const GOOD: &str = "header GOOD Subject =~ /good/\n";

fn loads_good(ruleset: &Ruleset) {
    let names: Vec<_> = scan(ruleset, "Subject: good\n\n").sub;
    assert!(names.iter().any(|(name, _)| &**name == "GOOD"), "{names:?}");
}

#[test]
fn syntax_errors_are_reported_by_line() {
    let bad = "body A /(unclosed/\nbody B no delimiters\nheader C Subject ~ /x/\nmeta D (A &&\n\
        score E x\nnonsense here\nif (\nbody F /f/\nendif\nendif\nelse\nifplugin\nbody 9G /x/\n\
        header H Subject:nope =~ /x/\nbody I eval:f(\nscore J (1)\nbody K /a/e\nfull L /(?{1})/\n\
        mimeheader M Content-Type:addr =~ /x/\npriority N x\nmeta O A B\nmeta P A ** B\ninclude\n";
    let (ruleset, report) = load(format!("{bad}{GOOD}").as_bytes());
    loads_good(&ruleset);
    let mut found = lines(&report, Severity::Error);
    found.sort_unstable();
    found.dedup();
    let expected: Vec<u32> = (1..=23).filter(|l| ![8, 9].contains(l)).collect();
    assert_eq!(found, expected, "{:#?}", report.problems);
    for problem in &report.problems {
        assert!(!problem.message.is_empty() && &*problem.at.file == "rules");
    }
}

#[test]
fn strict_refuses_the_whole_set() {
    let strict = LoadOptions { strict: true, ..options() };
    let text = format!("body A /(/\n{GOOD}");
    match Ruleset::from_bytes(text.as_bytes(), &strict) {
        Err(LoadError::Strict { count: 1, first }) => assert_eq!(first.at.line, 1),
        other => panic!("{other:?}"),
    }
    assert!(Ruleset::from_bytes(GOOD.as_bytes(), &strict).is_ok());
}

#[test]
fn catastrophic_patterns_are_warned_of_and_bounded() {
    let text =
        format!("header A Subject =~ /(a+)+$/\nheader B Subject =~ /(?=a)(a+)+$(?<!x)/\n{GOOD}");
    let (ruleset, report) = load(text.as_bytes());
    assert_eq!(lines(&report, Severity::Warning), [1, 2], "{:?}", report.problems);
    let start = Instant::now();
    let outcome = scan(&ruleset, &format!("Subject: {}! good\n\n", "a".repeat(5_000)));
    assert!(start.elapsed() < Duration::from_secs(60), "it ends");
    let spent: Vec<_> =
        outcome.defects.iter().filter(|d| d.kind == DefectKind::RuleBudget).collect();
    assert_eq!(spent.len(), 1, "{:?}", outcome.defects);
    assert_eq!(spent[0].detail, "B", "the other is answered by an automaton");
    loads_good(&ruleset);
}

#[test]
fn a_line_of_ten_megabytes_is_left_out() {
    let mut text = b"body A /".to_vec();
    text.resize(10 * 1024 * 1024, b'x');
    text.extend_from_slice(b"/\n");
    text.extend_from_slice(GOOD.as_bytes());
    let (ruleset, report) = load(&text);
    assert_eq!(lines(&report, Severity::Error), [1]);
    loads_good(&ruleset);
}

#[test]
fn include_loops_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.cf"), format!("include b.inc\n{GOOD}")).expect("written");
    std::fs::write(path("b.inc"), "include a.cf\ninclude missing.inc\n").expect("written");
    let (ruleset, report) = Ruleset::load(&[path("a.cf")], &options()).expect("not strict");
    loads_good(&ruleset);
    let said: Vec<_> = report.problems.iter().map(|p| (p.at.line, p.message.as_str())).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].1.contains("loop"), "{said:?}");
    assert_eq!(said[1].0, 2);
}

#[test]
fn deep_includes_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for i in 0..40 {
        let text = format!("include {}.cf\nheader R{i} Subject =~ /good/\n", i + 1);
        std::fs::write(folder.path().join(format!("{i}.cf")), text).expect("written");
    }
    let (ruleset, report) =
        Ruleset::load(&[folder.path().join("0.cf")], &options()).expect("not strict");
    assert!(ruleset.rules().len() > 10);
    assert!(report.problems.iter().any(|p| p.message.contains("deeper")), "{:?}", report.problems);
}

#[test]
fn metas_in_a_circle_are_named() {
    let (ruleset, report) = load(format!("meta A B\nmeta B C\nmeta C A\n{GOOD}").as_bytes());
    assert_eq!(lines(&report, Severity::Error).len(), 3);
    loads_good(&ruleset);
}

#[test]
fn unknown_plugins_are_said_to_be_unknown() {
    let text = format!(
        "loadplugin Our::Own::Plugin /etc/own.pm\nifplugin Our::Own::Plugin\nbody A /x/\nendif\n\
         header B eval:our_own_check()\n{GOOD}"
    );
    let (ruleset, report) = load(text.as_bytes());
    assert!(ruleset.rules().iter().all(|r| &*r.name != "A"));
    let found = lines(&report, Severity::Warning);
    assert_eq!(found, [1, 5], "{:?}", report.problems);
    loads_good(&ruleset);
}

#[test]
fn bytes_that_are_not_utf8_match_as_bytes() {
    let text = [b"header A Subject =~ /caf\xe9/\n".as_slice(), GOOD.as_bytes()].concat();
    let (ruleset, report) = load(&text);
    assert!(report.problems.iter().any(|p| p.message.contains("UTF-8") && p.at.line == 1));
    loads_good(&ruleset);
}

#[test]
fn thousands_of_rules_of_an_extra_file_load() {
    let mut text = String::new();
    for i in 0..1_200 {
        let _ = writeln!(text, "body __EX_B{i} /\\bword{i} (?:of|for) \\d{{1,3}} things{i}\\b/i");
        let _ = writeln!(text, "header __EX_H{i} Subject =~ /(?<!no )offer {i}\\b/");
        let _ =
            writeln!(text, "meta EX_M{i} __EX_B{i} && (__EX_H{i} || __EX_B{})", (i + 7) % 1_200);
    }
    let (ruleset, report) = load(text.as_bytes());
    assert_eq!((ruleset.rules().len(), report.problems.len()), (3_600, 0));
    let outcome = scan(&ruleset, "Subject: an offer 7\n\nword7 for 12 things7 and more\n");
    let names: Vec<&str> = outcome.sub.iter().map(|s| &*s.0).collect();
    assert!(names.contains(&"__EX_H7"), "{names:?}");
}

#[test]
fn sources_that_do_not_exist_are_named() {
    let missing = PathBuf::from("does-not-exist.cf");
    let error = Ruleset::load(&[missing], &options()).expect_err("nothing there").to_string();
    assert!(error.contains("does-not-exist.cf"), "{error}");
}
