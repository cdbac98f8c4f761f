//! `gauntlet rules test`: rules proven by messages that must hit and messages that must not.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_rules::RulesScratch;

use super::messages;
use crate::ruleset::ReadingArgs;

/// Begins an example's first line.
const MARK: &[u8] = b"=== ";

const AFTER_HELP: &str = "\
Examples stand beside the rules in files NAME.tests:

  === RULE hits
  Subject: a message on which RULE must fire

  === RULE misses
  Subject: a message on which RULE must not fire

Each message runs to the next line that begins with `=== ` or to the end of the file. Every rule that
scores must have one of each kind.

Exit codes: 0 all as they should be; 1 a rule failed or lacks an example.";

/// Arguments of `gauntlet rules test`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder with .cf files and their .tests
    #[arg(value_name = "DIR", default_value = "rules")]
    folder: PathBuf,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Judge as if received at this Unix time
    #[arg(long, value_name = "EPOCH", default_value_t = 1_700_000_000)]
    now: i64,
}

/// One example.
struct Example {
    rule: String,
    hits: bool,
    message: Vec<u8>,
    at: String,
}

/// Runs every example.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (ruleset, report) = args.reading.load(std::slice::from_ref(&args.folder), true, false)?;
    let mut out = io::stdout().lock();
    for problem in report.problems.iter().filter(|p| p.severity > gauntlet_rules::Severity::Note) {
        writeln!(out, "{problem}")?;
    }
    let examples = examples(&args.folder)?;
    let mut scratch = RulesScratch::default();
    let mut failed = 0usize;
    let mut seen = BTreeMap::<&str, [bool; 2]>::new();
    for example in &examples {
        seen.entry(&example.rule).or_default()[usize::from(example.hits)] = true;
        let outcome = messages::judge(&ruleset, &example.message, args.now, &mut scratch);
        let fired = outcome.sub.iter().any(|(name, _)| **name == *example.rule);
        if fired != example.hits {
            failed += 1;
            let must =
                if example.hits { "must fire and does not" } else { "must not fire and does" };
            writeln!(out, "{}: {} {must}", example.at, example.rule)?;
        }
    }
    for rule in ruleset.rules().iter().filter(|r| !r.is_sub()) {
        let [misses, hits] = seen.get(&*rule.name).copied().unwrap_or_default();
        if !(misses && hits) {
            failed += 1;
            let lacks = if hits { "misses" } else { "hits" };
            writeln!(out, "{}: {} has no example that {lacks}", rule.at, rule.name)?;
        }
    }
    writeln!(
        out,
        "{} examples of {} rules, {failed} failures",
        examples.len(),
        ruleset.rules().iter().filter(|r| !r.is_sub()).count()
    )?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn examples(folder: &Path) -> anyhow::Result<Vec<Example>> {
    let name = || folder.display().to_string();
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
}
