//! `gauntlet ips rules check`: which rules cannot be used.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_ids::replay::program;
use serde_json::json;

use super::super::SettingsArgs;

/// Exit code if a rule cannot be used.
const EXIT_FOUND: u8 = 1;

/// Arguments of `gauntlet ips rules check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of rules
    #[arg(required = true, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = program(&super::options(&args.settings, &args.rules)?)?;
    let unsupported: Vec<_> = program.unsupported().collect();
    let loaded = program.rules.rules.len() - unsupported.len();
    let problems = &program.rules.problems;
    let mut out = std::io::stdout().lock();
    if args.json {
        let left_out = problems.iter().map(|problem| {
            json!({
                "file": &*problem.place.file,
                "line": problem.place.line,
                "sid": problem.sid,
                "keyword": problem.keyword,
                "reason": problem.reason,
                "on_purpose": problem.is_skip,
            })
        });
        let unsupported = unsupported.iter().map(|(rule, what)| {
            json!({
                "file": &*rule.place.file,
                "line": rule.place.line,
                "sid": rule.sid,
                "keyword": what,
                "reason": "not supported yet",
                "on_purpose": false,
            })
        });
        let left_out: Vec<_> = left_out.chain(unsupported).collect();
        writeln!(out, "{}", json!({ "loaded": loaded, "left_out": left_out }))?;
    } else {
        for problem in problems {
            writeln!(out, "{problem}")?;
        }
        for (rule, what) in &unsupported {
            let (file, line) = (&rule.place.file, rule.place.line);
            writeln!(out, "{file}:{line}: {what} is not supported yet")?;
        }
        let left_out = problems.len() + unsupported.len();
        writeln!(out, "{loaded} rules can be used, {left_out} cannot")?;
    }
    let bad = problems.iter().any(|problem| !problem.is_skip) || !unsupported.is_empty();
    Ok(ExitCode::from(if bad { EXIT_FOUND } else { 0 }))
}
