//! The rules of an installed SpamAssassin, loaded by it and by Gauntlet: both must have the same
//! rules.
//!
//! Skipped with a note where SpamAssassin (`apt-get install spamassassin libjson-pp-perl`) is
//! missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use gauntlet_rules::rule::{EvalKind, Test};
use gauntlet_rules::{LoadOptions, Rule};
use gauntlet_spamassassin::Ruleset;

const RULES: &str = "/usr/share/spamassassin";
const SITE: &str = "/etc/spamassassin";

/// SpamAssassin's own dump of its rules, by name; `None` if it is not installed.
fn theirs() -> Option<BTreeMap<String, serde_json::Value>> {
    if !Path::new(RULES).is_dir() || !Path::new(SITE).is_dir() {
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump_rules.pl");
    let output = Command::new("perl").arg(script).args([RULES, SITE]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let lines = String::from_utf8(output.stdout).expect("JSON is ASCII");
    let rule = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        (value["rule"].as_str().expect("a name").to_owned(), value)
    };
    Some(lines.lines().map(rule).collect())
}

/// SpamAssassin's number for this kind of test.
fn type_number(test: &Test) -> i64 {
    match test {
        Test::Header { .. } | Test::Exists { .. } => 8,
        Test::Body { .. } => 10,
        Test::Full { .. } => 12,
        Test::Rawbody { .. } => 14,
        Test::Uri { .. } => 16,
        Test::Meta { .. } => 18,
        Test::AskDns { .. } | Test::Empty => 20,
        Test::MimeHeader { .. } | Test::UriDetail { .. } => 11,
        Test::Eval { kind, .. } => match kind {
            EvalKind::Header => 9,
            EvalKind::Body => 11,
            EvalKind::Full => 13,
            EvalKind::Rawbody => 15,
            EvalKind::Rbl => 19,
        },
    }
}

/// `(?^aa:x)` without its wrapping, high bytes escaped as here.
fn pattern_text(re: &str) -> String {
    let inner = re.strip_prefix("(?^aa:").and_then(|r| r.strip_suffix(')')).unwrap_or(re);
    let inner = inner.strip_prefix("(?aa)").unwrap_or(inner).replace("%\\{", "%{");
    let inner = if inner.contains("%{") { inner.replace("\\}", "}") } else { inner };
    let mut out = String::new();
    for c in inner.chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        }
    }
    out
}

fn difference(ours: &Rule, theirs: &serde_json::Value) -> Option<String> {
    let mut all = Vec::new();
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            all.push(format!("{what}: ours {ours:?}, theirs {theirs:?}"));
        }
    };
    let string = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    compare("type", type_number(&ours.test).to_string(), theirs["type"].to_string());
    compare("priority", ours.priority.to_string(), theirs["priority"].to_string());
    let scores: Vec<f64> =
        theirs["scores"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap() + 0.0).collect();
    compare("scores", format!("{:?}", ours.scores.to_vec()), format!("{scores:?}"));
    // Whether a meta inherits `net` over two steps depends on Perl's hash order; it changes no hit.
    let flags = |text: &str| {
        let meta = matches!(ours.test, Test::Meta { .. });
        let words = text.split_ascii_whitespace().filter(|w| !(meta && *w == "net"));
        words.collect::<Vec<_>>().join(" ")
    };
    compare("tflags", flags(&ours.tflags), flags(&string(&theirs["tflags"])));
    if let Some(pattern) = ours.test.pattern() {
        let pattern = pattern.replace("%\\{", "%{");
        let pattern = if pattern.contains("%{") { pattern.replace("\\}", "}") } else { pattern };
        compare("pattern", pattern, pattern_text(&string(&theirs["re"])));
    }
    if let Test::Meta { expression } = &ours.test {
        compare("text", expression.clone(), string(&theirs["text"]));
    }
    if let Test::Header { selector, negated, .. } | Test::MimeHeader { selector, negated, .. } =
        &ours.test
    {
        let mut text = selector.name.clone();
        for modifier in &selector.modifiers {
            text = format!("{text}:{modifier}");
        }
        compare("header", text, string(&theirs["header"]));
        compare("negated", i32::from(*negated).to_string(), theirs["negated"].to_string());
    }
    if let Test::Header { if_unset, .. } = &ours.test {
        compare("unset", if_unset.clone().unwrap_or_default(), string(&theirs["unset"]));
    }
    (!all.is_empty()).then(|| format!("{}: {}", ours.name, all.join("; ")))
}

#[test]
fn the_stock_rules_are_loaded_as_spamassassin_loads_them() {
    let Some(mut theirs) = theirs() else {
        assert!(std::env::var_os("CI").is_none(), "SpamAssassin is not installed");
        return eprintln!("skipped: SpamAssassin 4.0.1 is not installed");
    };
    let options = LoadOptions { site: vec![PathBuf::from(SITE)], ..LoadOptions::default() };
    let (ruleset, report) = Ruleset::load(&[PathBuf::from(RULES)], &options).expect("rules load");
    for problem in &report.problems {
        eprintln!("{problem}");
    }
    let mut differences = Vec::new();
    for rule in ruleset.rules() {
        match theirs.remove(&*rule.name) {
            None => differences.push(format!("{}: only ours ({})", rule.name, rule.at)),
            Some(their) => differences.extend(difference(rule, &their)),
        }
    }
    differences.extend(theirs.keys().map(|name| format!("{name}: only theirs")));
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
    assert!(ruleset.rules().len() > 2_000, "{} rules", ruleset.rules().len());
}
