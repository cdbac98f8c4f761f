//! `gauntlet array export`: days of the shared log as Parquet files.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_array::Session;
use gauntlet_array::export::{ExportOptions, days, export_day};
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_mail::date::{DAY_MS, day_name, day_number};

use crate::array_access as access;

const HELP: &str = "\
Each day (UTC, by reception) becomes files messages/day=YYYY-MM-DD/part-NNNNN.parquet below the
address; an earlier export of the day is replaced. docs/array-export.md has the columns.

Examples:
  gauntlet array export
  gauntlet array export --since 2026-11-01 --until 2026-11-26 --into file:///srv/export
  duckdb -c \"SELECT class, count(*) FROM '/srv/export/messages/*/*.parquet' GROUP BY ALL\"";

/// Arguments of `gauntlet array export`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ExportArgs {
    /// First day, as 2026-11-26 [default: yesterday]
    #[arg(long, value_name = "DAY", value_parser = day)]
    since: Option<i64>,
    /// Last day [default: yesterday]
    #[arg(long, value_name = "DAY", value_parser = day)]
    until: Option<i64>,
    /// Where to: s3://… or file:///folder [default: array.objects]
    #[arg(long, value_name = "ADDRESS")]
    into: Option<String>,
    /// Print JSON, one line a day
    #[arg(long)]
    json: bool,
}

fn day(text: &str) -> Result<i64, String> {
    day_number(text).ok_or_else(|| "a day is written as 2026-11-26".to_owned())
}

pub(super) async fn run(
    session: &Session,
    config: &Config,
    args: &ExportArgs,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let objects = match &args.into {
        Some(uri) => access::objects_at(config, uri).context("--into")?,
        None => access::objects(config)?
            .context("array.objects is not set: say --into s3://… or --into file:///folder")?,
    };
    let yesterday = now_ms().div_euclid(DAY_MS) - 1;
    let last = args.until.unwrap_or(yesterday);
    let first = args.since.unwrap_or(last.min(yesterday));
    anyhow::ensure!(first <= last, "--since is after --until");
    let mut found = days(session).await?;
    found.retain(|day| (first..=last).contains(day));
    if found.is_empty() {
        let (first, last) = (day_name(first), day_name(last));
        anyhow::bail!("the array's log has nothing from {first} to {last}");
    }
    for day in found {
        let name = day_name(day);
        let mut shown = 0;
        let told = |messages: u64| {
            if messages >= shown + 1_000_000 {
                shown = messages;
                let _best_effort =
                    writeln!(std::io::stderr(), "{name}: {messages} messages so far");
            }
        };
        let done = export_day(session, &objects, day, ExportOptions::default(), told)
            .await
            .with_context(|| name.clone())?;
        if args.json {
            let line = serde_json::json!({
                "day": name, "messages": done.messages, "files": done.files, "bytes": done.bytes,
            });
            writeln!(out, "{line}")?;
        } else {
            let (messages, files, bytes) = (done.messages, done.files, done.bytes);
            let word = if files == 1 { "file" } else { "files" };
            writeln!(out, "{name}: {messages} messages, {files} {word}, {bytes} bytes")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
