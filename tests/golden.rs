//! The messages of `samples/` get the verdicts that stand beside them, with LF and with CRLF.
//!
//! `GAUNTLET_BLESS=1 cargo test --test it golden::` writes the verdicts anew; the change is then
//! reviewed like any other.

use std::path::{Path, PathBuf};

use gauntlet_engine::{RuleEffect, Scratch, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message, address};
use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

/// What is expected of a sample.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Golden {
    class: Class,
    score: f64,
    /// Rules that hit, with their points.
    rules: Vec<(String, f64)>,
    /// Defects by name and part.
    defects: Vec<(String, u16)>,
}

fn samples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let entries = std::fs::read_dir(folder).expect("samples/").flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "eml")).collect();
    found.sort();
    assert!(found.len() >= 40, "the samples are there");
    found
}

fn judge(raw: &[u8], snapshot: &Snapshot) -> Golden {
    let message = Message::parse(raw);
    let sender = message.header("return-path").map(|f| address::mailboxes(&f.unfolded(), 1));
    let mail_from =
        sender.and_then(|s| s.into_iter().next()).map_or_else(String::new, |m| m.address);
    let envelope = Envelope { mail_from, ..Envelope::default() };
    let verdict = scan(&message, &envelope, &Facts::default(), snapshot, &mut Scratch::default());
    Golden {
        class: verdict.class,
        score: verdict.score,
        rules: verdict.hits.iter().map(|h| (h.rule.to_string(), h.score)).collect(),
        defects: verdict.defects.iter().map(|d| (d.kind.name(), d.part)).collect(),
    }
}

fn with_crlf(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + raw.len() / 30);
    for &byte in raw.iter().filter(|b| **b != b'\r') {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

#[test]
fn samples_get_their_verdicts() {
    let snapshot = Snapshot::default_rules();
    let bless = std::env::var_os("GAUNTLET_BLESS").is_some();
    let mut wrong = Vec::new();
    for path in samples() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let raw = std::fs::read(&path).expect("a readable sample");
        let found = judge(&raw, &snapshot);
        assert_eq!(judge(&with_crlf(&raw), &snapshot), found, "{name}: CRLF changes the verdict");
        let golden = path.with_extension("json");
        if bless {
            let text = serde_json::to_string_pretty(&found).expect("JSON") + "\n";
            std::fs::write(&golden, text).expect("a writable folder");
            continue;
        }
        let text = std::fs::read_to_string(&golden)
            .unwrap_or_else(|e| panic!("{}: {e}; GAUNTLET_BLESS=1 makes it", golden.display()));
        let expected: Golden = serde_json::from_str(&text).expect("a verdict in JSON");
        if found != expected {
            wrong.push(format!("{name}:\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "verdicts changed:\n{}", wrong.join("\n"));
}

/// The first word of a sample's name says what it is; the engine must not disagree by a class that
/// matters. Blessing cannot hide this.
#[test]
fn no_good_sample_is_called_bad_and_no_bad_one_good() {
    let snapshot = Snapshot::default_rules();
    for path in samples() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let raw = std::fs::read(&path).expect("a readable sample");
        let class = judge(&raw, &snapshot).class;
        let right = match name.split('-').next().unwrap_or_default() {
            "ham" | "bulk" => class <= Class::Bulk,
            "spam" => matches!(class, Class::Suspect | Class::Spam | Class::Phishing),
            "phishing" => matches!(class, Class::Phishing | Class::Spam | Class::Suspect),
            "malware" => class == Class::Malware,
            _ => true,
        };
        assert!(right, "{name} is called {class}");
    }
}

/// `docs/filters.md` lists the rules as the filters have them.
#[test]
fn the_table_of_rules_is_true() {
    let mut text = String::from(
        "# Rules of the filters\n\n\
         Every rule that our own filters (`crates/engine/src/filters/`) can hit.\n\
         `GAUNTLET_BLESS=1 cargo test --test it golden::` writes this table anew. Points of 0 mean that the\n\
         rule only says what kind of mail it is; *phishing* rules count towards that class, *certain* ones\n\
         decide the class whatever the points.\n\n\
         | Rule | Points | Kind | Says |\n|---|---:|---|---|\n",
    );
    for rule in Snapshot::default_rules().registry.rules() {
        let kind = match rule.effect {
            RuleEffect::Points => String::new(),
            RuleEffect::Phishing => "phishing".to_owned(),
            RuleEffect::Bulk => "bulk".to_owned(),
            RuleEffect::ForceClass(class) => format!("certain: {class}"),
        };
        text += &format!("| `{}` | {} | {kind} | {} |\n", rule.name, rule.score, rule.description);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/filters.md");
    if std::env::var_os("GAUNTLET_BLESS").is_some() {
        std::fs::write(&path, text).expect("a writable folder");
        return;
    }
    let written = std::fs::read_to_string(&path).expect("docs/filters.md");
    assert!(written == text, "docs/filters.md is not up to date: GAUNTLET_BLESS=1 writes it anew");
}
