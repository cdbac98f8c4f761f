//! Every eval function on messages from `fixtures.txt`.

use gauntlet_mail::{Envelope, Facts, Message};

use gauntlet_rules::LoadOptions;

use crate::ruleset::{RulesScratch, Ruleset};

/// Bytes written as `\xNN`.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.extend_from_slice(before.as_bytes());
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(byte.expect("two hexadecimal digits after \\x"));
        rest = &after[2..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn hits(ruleset: &Ruleset, raw: &[u8]) -> bool {
    let message = Message::parse(raw);
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut scratch = RulesScratch::default();
    let outcome = ruleset.scan(&message, &envelope, &facts, 1_700_000_000, &mut scratch);
    for hit in &outcome.hits {
        assert!(!hit.evidence.is_empty(), "{} has no evidence", hit.rule);
    }
    outcome.sub.iter().any(|(name, _)| &**name == "T")
}

/// Functions of the network's facts or the classifier: their tests are beside them (`auth.rs`,
/// `dns.rs`).
const FROM_FACTS: [&str; 8] =
    ["_dkim_", "_spf_", "_dmarc_", "_arc_", "_rbl", "uridnsbl", "check_dns_sender", "check_bayes"];

#[test]
fn every_function_of_the_stock_rules_has_a_fixture() {
    let stock = std::path::PathBuf::from("/usr/share/spamassassin");
    let Ok((ruleset, _)) = Ruleset::load(&[stock], &LoadOptions::default()) else {
        assert!(std::env::var_os("CI").is_none(), "SpamAssassin is not installed");
        eprintln!("skipped: SpamAssassin's rules are not installed");
        return;
    };
    let cases = include_str!("fixtures.txt").split("\n=== ").skip(1);
    let with_fixture: Vec<_> =
        cases.filter_map(|case| super::functions::find(case.lines().next()?)).collect();
    let mut missing = std::collections::BTreeSet::new();
    let mut found = std::collections::BTreeSet::new();
    for rule in ruleset.rules() {
        let gauntlet_rules::rule::Test::Eval { call, .. } = &rule.test else { continue };
        let name = call.function.as_str();
        if !super::is_answered(name) || FROM_FACTS.iter().any(|part| name.contains(part)) {
            continue;
        }
        found.insert(name);
        let function = super::functions::find(name);
        let is_same = |f: &super::Function| function.is_some_and(|g| std::ptr::fn_addr_eq(*f, g));
        if !with_fixture.iter().any(is_same) {
            missing.insert(name);
        }
    }
    assert!(found.len() > 80, "{}", found.len());
    assert!(missing.is_empty(), "without a fixture: {missing:?}");
}

#[test]
fn every_function_hits_and_misses() {
    let mut wrong = Vec::new();
    let mut names = Vec::new();
    for case in include_str!("fixtures.txt").split("\n=== ").skip(1) {
        let (name, rest) = case.split_once('\n').expect("a name");
        names.push(name.to_owned());
        let (rules, messages) =
            rest.split_once("\n+++\n").or(rest.split_once("\n---\n")).expect(name);
        let is_hit = rest[rules.len()..].starts_with("\n+++\n");
        let options = LoadOptions { subtests: true, ..LoadOptions::default() };
        let (ruleset, report) =
            Ruleset::from_bytes(format!("{rules}\n").as_bytes(), &options).expect("not strict");
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
        let mut expected = is_hit;
        let mut lines = String::new();
        for line in messages.split('\n').chain(["---"]) {
            if line == "+++" || line == "---" {
                let raw = unescape(&lines);
                if hits(&ruleset, &raw) != expected {
                    wrong.push(format!("{name}: expected {expected} of:\n{lines}"));
                }
                expected = line == "+++";
                lines.clear();
            } else {
                lines.push_str(line);
                lines.push('\n');
            }
        }
    }
    assert!(names.len() > 100, "{}", names.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
