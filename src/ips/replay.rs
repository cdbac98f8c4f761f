//! `gauntlet ips replay`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_ids::replay::{Options, Replayer, layers};
use serde_json::json;

use super::SettingsArgs;

/// Exit code if the capture was not read to its end.
const EXIT_DAMAGED: u8 = 1;

/// Whether checksums are looked at.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Checksums {
    /// They are not
    None,
    /// Packets with a wrong one are not inspected
    Validate,
}

/// Arguments of `gauntlet ips replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A capture: pcap or pcapng, also compressed with gzip or zstd
    #[arg(value_name = "FILE")]
    capture: PathBuf,
    /// A file of rules; may be repeated
    #[arg(long, required = true, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Write alerts as Suricata's EVE records into this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    eve: Option<PathBuf>,
    /// Print the records instead of a line for each alert, and the summary as JSON
    #[arg(long)]
    json: bool,
    /// Drop what rules drop: later packets of a dropped flow are not looked at
    #[arg(long)]
    inline: bool,
    /// Whether checksums are looked at; as the settings say unless given
    #[arg(long, value_enum, value_name = "HOW")]
    checksums: Option<Checksums>,
    /// Threads that inspect, beside the one that reads; with one, the reader inspects
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        settings: args.settings.read()?,
        directory: args.settings.directory(),
        rules: args.rules.clone(),
        inline: args.inline,
        checksums: args.checksums.map(|how| matches!(how, Checksums::Validate)),
    };
    for key in layers(&options).2 {
        eprintln!("without effect here: {key}");
    }
    let mut eve = match &args.eve {
        Some(file) => {
            let made = File::create(file).with_context(|| format!("cannot write {file:?}"))?;
            Some(BufWriter::new(made))
        }
        None => None,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut failure = None;
    let replayer = Replayer::new(&options)?.on_threads(args.threads);
    let summary = replayer.run(&args.capture, &mut |line| {
        let written = write(line, eve.as_mut(), &mut out, args.json);
        failure = failure.take().or(written.err());
    })?;
    if let Some(error) = failure {
        return Err(error).context("an alert could not be written");
    }
    if let Some(eve) = &mut eve {
        eve.flush().context("the last alerts could not be written")?;
    }
    if args.json {
        let summary = json!({
            "frames": summary.frames,
            "alerts": summary.alerts,
            "dropped": summary.dropped,
            "rules": { "loaded": summary.rules, "left_out": summary.left_out },
            "damage": summary.damage,
        });
        writeln!(out, "{}", json!({ "summary": summary }))?;
    } else {
        let (rules, left_out) = (summary.rules, summary.left_out);
        let (frames, alerts, dropped) = (summary.frames, summary.alerts, summary.dropped);
        writeln!(out, "{rules} rules, {left_out} left out (`gauntlet ips rules check` says why)")?;
        writeln!(out, "{frames} frames, {alerts} alerts, {dropped} frames that rules drop")?;
    }
    out.flush()?;
    if let Some(damage) = &summary.damage {
        eprintln!("{}: {damage}; what comes before it was inspected", args.capture.display());
        return Ok(ExitCode::from(EXIT_DAMAGED));
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    line: &str,
    eve: Option<&mut BufWriter<File>>,
    out: &mut impl Write,
    json: bool,
) -> std::io::Result<()> {
    if let Some(eve) = eve {
        writeln!(eve, "{line}")?;
    }
    if json {
        return writeln!(out, "{line}");
    }
    let record: serde_json::Value = serde_json::from_str(line)?;
    let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    let end = |address: &str, port: &str| match record[port].as_u64() {
        Some(port) => format!("{}:{port}", text(address)),
        None => text(address),
    };
    let alert = &record["alert"];
    writeln!(
        out,
        "{}  {}  {}:{}:{}  {}  {} {} -> {}",
        text("timestamp"),
        alert["action"].as_str().unwrap_or("-"),
        alert["gid"],
        alert["signature_id"],
        alert["rev"],
        alert["signature"].as_str().unwrap_or_default(),
        text("proto"),
        end("src_ip", "src_port"),
        end("dest_ip", "dest_port"),
    )
}
