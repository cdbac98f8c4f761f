//! `gauntlet rules test`: rules proven by messages that must hit and messages that must not.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_inputs::messages;
use gauntlet_inputs::rules::{LoadedRules, LoadedScratch, ReadingArgs};
use gauntlet_rules::Severity;
use serde::Serialize;

/// Begins an example's first line.
const MARK: &[u8] = b"=== ";

const AFTER_HELP: &str = "\
Messages that the rules are tested with stand beside them in files NAME.tests:

  === RULE hits
  Subject: a message on which RULE must fire

  === RULE misses

  a message on which RULE must not fire; it has no header, so it begins with an empty line

Each message runs to the next line that begins with `=== ` or to the end of the file. Every rule
that scores must have one of each kind. Without DIR the rules and examples that come with the
program are tested.

JSON: {\"examples\",\"rules\",\"failures\":[{\"at\",\"rule\",\"what\"}]}

Exit codes: 0 all as they should be; 1 a rule failed or lacks an example, or a file has an error.";

/// The examples of our own rules.
const OWN: [(&str, &str); 20] = [
    ("rules/advance_fee.tests", include_str!("../../rules/advance_fee.tests")),
    ("rules/attachments.tests", include_str!("../../rules/attachments.tests")),
    ("rules/bulk.tests", include_str!("../../rules/bulk.tests")),
    ("rules/crypto.tests", include_str!("../../rules/crypto.tests")),
    ("rules/extortion.tests", include_str!("../../rules/extortion.tests")),
    ("rules/gift_cards_bec.tests", include_str!("../../rules/gift_cards_bec.tests")),
    ("rules/good_signs.tests", include_str!("../../rules/good_signs.tests")),
    ("rules/header_forgery.tests", include_str!("../../rules/header_forgery.tests")),
    ("rules/html_tricks.tests", include_str!("../../rules/html_tricks.tests")),
    ("rules/invoice_fraud.tests", include_str!("../../rules/invoice_fraud.tests")),
    ("rules/malware_lures.tests", include_str!("../../rules/malware_lures.tests")),
    ("rules/marketing.tests", include_str!("../../rules/marketing.tests")),
    ("rules/money.tests", include_str!("../../rules/money.tests")),
    ("rules/other_scripts.tests", include_str!("../../rules/other_scripts.tests")),
    ("rules/pharma.tests", include_str!("../../rules/pharma.tests")),
    ("rules/phishing_account.tests", include_str!("../../rules/phishing_account.tests")),
    ("rules/phishing_languages.tests", include_str!("../../rules/phishing_languages.tests")),
    ("rules/phishing_mailbox.tests", include_str!("../../rules/phishing_mailbox.tests")),
    ("rules/phishing_parcel.tests", include_str!("../../rules/phishing_parcel.tests")),
    ("rules/url_tricks.tests", include_str!("../../rules/url_tricks.tests")),
];

/// Arguments of `gauntlet rules test`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder with .cf files and their .tests [default: our own rules]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Judge as if received at this Unix time
    #[arg(long, value_name = "EPOCH", default_value_t = 1_700_000_000)]
    now: i64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

struct Example {
    rule: String,
    hits: bool,
    message: Vec<u8>,
    at: String,
}

/// What is not as it should be.
#[derive(Debug, Serialize)]
struct Failure {
    at: String,
    rule: Option<String>,
    what: String,
}

/// What `--json` prints about all examples together.
#[derive(Serialize)]
struct Summary<'a> {
    examples: usize,
    rules: usize,
    failures: &'a [Failure],
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (ruleset, report) = args.reading.load_or_own(args.folder.as_slice(), true)?;
    let examples = match &args.folder {
        Some(folder) => of_folder(folder)?,
        None => own()?,
    };
    let mut failures: Vec<Failure> = report
        .problems
        .iter()
        .filter(|p| p.severity > Severity::Note)
        .map(|p| Failure {
            at: p.at.to_string(),
            rule: p.rule.as_deref().map(str::to_owned),
            what: p.message.clone(),
        })
        .collect();
    failures.extend(wrong(&ruleset, &examples, args.now));
    failures.extend(without_examples(&ruleset, &examples));
    let rules = ruleset.rules().iter().filter(|r| !r.is_sub()).count();
    let summary = Summary { examples: examples.len(), rules, failures: &failures };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &summary)?;
        writeln!(out)?;
    } else {
        for Failure { at, rule, what } in &failures {
            writeln!(
                out,
                "{at}: {}{what}",
                rule.as_ref().map_or(String::new(), |r| format!("{r} "))
            )?;
        }
        let (count, failed) = (examples.len(), failures.len());
        writeln!(out, "{count} examples of {rules} rules, {failed} failures")?;
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Examples that do not do what they say.
fn wrong(ruleset: &LoadedRules, examples: &[Example], now: i64) -> Vec<Failure> {
    let mut scratch = LoadedScratch::default();
    let mut failures = Vec::new();
    for example in examples {
        let outcome = messages::judge(ruleset, &example.message, now, &mut scratch);
        let fired = outcome.sub.iter().any(|(name, _)| **name == *example.rule);
        if fired == example.hits {
            continue;
        }
        let hit = outcome.hits.iter().find(|h| *h.rule == *example.rule);
        let text = hit.and_then(|h| h.evidence.first()).map_or("", |e| e.text.as_str());
        let what = match (example.hits, text) {
            (true, _) => "must fire and does not".to_owned(),
            (false, "") => "must not fire and does".to_owned(),
            (false, text) => format!("must not fire and does, on {text:?}"),
        };
        failures.push(Failure { at: example.at.clone(), rule: Some(example.rule.clone()), what });
    }
    failures
}

/// Rules that are not proven both ways, and examples of rules that do not exist.
fn without_examples(ruleset: &LoadedRules, examples: &[Example]) -> Vec<Failure> {
    let mut seen = BTreeMap::<&str, [bool; 2]>::new();
    for example in examples {
        seen.entry(&example.rule).or_default()[usize::from(example.hits)] = true;
    }
    let mut failures = Vec::new();
    for rule in ruleset.rules().iter().filter(|r| !r.is_sub()) {
        let [misses, hits] = seen.remove(&*rule.name).unwrap_or_default();
        for (is_there, kind) in [(hits, "hits"), (misses, "misses")] {
            if !is_there {
                let what = format!("has no example that {kind}");
                failures.push(Failure {
                    at: rule.at.to_string(),
                    rule: Some(rule.name.to_string()),
                    what,
                });
            }
        }
    }
    let is_sub = |name: &str| ruleset.rules().iter().any(|r| *r.name == *name);
    for example in examples {
        if seen.contains_key(&*example.rule) && !is_sub(&example.rule) {
            let what = "is no rule of these files".to_owned();
            let rule = Some(example.rule.clone());
            failures.push(Failure { at: example.at.clone(), rule, what });
        }
    }
    failures
}

/// The examples that are part of the program.
fn own() -> anyhow::Result<Vec<Example>> {
    let mut out = Vec::new();
    for (file, text) in OWN {
        read_examples(text.as_bytes(), file, &mut out)?;
    }
    Ok(out)
}

fn of_folder(folder: &Path) -> anyhow::Result<Vec<Example>> {
    let name = || folder.display().to_string();
    if folder.is_file() {
        bail!("{}: a file; name the folder that the .cf files and their .tests are in", name());
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(name)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "tests"))
        .collect();
    files.sort();
    let mut out = Vec::new();
    for path in files {
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        read_examples(&bytes, &path.display().to_string(), &mut out)?;
    }
    Ok(out)
}

fn read_examples(bytes: &[u8], file: &str, out: &mut Vec<Example>) -> anyhow::Result<()> {
    for (line, number) in bytes.split_inclusive(|b| *b == b'\n').zip(1u32..) {
        if let Some(head) = line.strip_prefix(MARK) {
            let head = String::from_utf8_lossy(head);
            let at = format!("{file}:{number}");
            let (rule, hits) = match head.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                [rule, "hits"] => (rule.to_owned(), true),
                [rule, "misses"] => (rule.to_owned(), false),
                _ => bail!("{at}: an example begins with `=== RULE hits` or `=== RULE misses`"),
            };
            out.push(Example { rule, hits, message: Vec::new(), at });
        } else if let Some(example) = out.last_mut() {
            example.message.extend_from_slice(line);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_cut_at_their_marks() {
        let mut out = Vec::new();
        let text = b"# note\n=== A hits\nSubject: x\n\nbody\n=== A misses\nSubject: y\n";
        read_examples(text, "t", &mut out).unwrap();
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].message, b"Subject: x\n\nbody\n");
        assert!(out[0].hits && !out[1].hits);
        assert!(read_examples(b"=== A perhaps\n", "t", &mut out).is_err());
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = of_folder(file.path()).err().unwrap().to_string();
        assert!(error.contains("name the folder"), "{error}");
    }

    #[test]
    fn our_own_rules_do_what_their_examples_say() {
        let (ruleset, _) = ReadingArgs::default().load_or_own(&[], true).unwrap();
        let examples = own().unwrap();
        assert!(examples.len() >= 300);
        let mut failures = wrong(&ruleset, &examples, 1_700_000_000);
        failures.extend(without_examples(&ruleset, &examples));
        assert!(failures.is_empty(), "{failures:#?}");
    }

    #[test]
    fn a_wrong_example_is_reported() {
        let text = "header A Subject =~ /x/\n";
        let options = gauntlet_rules::LoadOptions { subtests: true, ..Default::default() };
        let (ruleset, _) =
            gauntlet_spamassassin::Ruleset::from_bytes(text.as_bytes(), &options).unwrap();
        let ruleset = LoadedRules::SpamAssassin(ruleset);
        let mut examples = Vec::new();
        let text = b"=== A hits\nSubject: y\n=== A misses\nSubject: x\n=== B hits\n\n";
        read_examples(text, "t", &mut examples).unwrap();
        let whats: Vec<_> =
            wrong(&ruleset, &examples, 0).into_iter().map(|f| (f.at, f.what)).collect();
        assert_eq!(whats[0], ("t:1".into(), "must fire and does not".into()));
        assert_eq!(whats[1], ("t:3".into(), "must not fire and does, on \"x\"".into()));
        assert_eq!(without_examples(&ruleset, &examples)[0].what, "is no rule of these files");
    }
}
