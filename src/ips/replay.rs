//! `gauntlet ips replay`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_ids::eve::{Finder, StoreSettings};
use gauntlet_ids::pipeline::Gate;
use gauntlet_ids::replay::{Finders, Options, Output, Replayer, Summary, layers};
use serde_json::json;

use super::SettingsArgs;
use super::gate::{GateArgs, RuleCount, database};
use super::inspection::ScanArgs;

/// What records of alerts contain, and no other.
const ALERT: &str = "\"event_type\":\"alert\"";
/// What records of what packets carry contain, and no other.
const FINDING: &str = "\"event_type\":\"gauntlet\"";

/// Exit code if the capture was not read to its end, or frames were not decoded.
const EXIT_DAMAGED: u8 = 1;

/// Whether checksums are looked at.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Checksums {
    /// They are not: segments of TCP with a wrong one are used like others
    None,
    /// TCP streams leave out segments with a wrong one; packet rules see them
    Validate,
}

/// Arguments of `gauntlet ips replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A capture: pcap or pcapng, also compressed with gzip or zstd
    #[arg(value_name = "FILE")]
    capture: PathBuf,
    /// A file of rules; may be repeated. Without any, records and files are written alone
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Write Suricata's EVE records into this file, a JSON object a line; `-`: print them alone
    #[arg(long, value_name = "FILE")]
    eve: Option<PathBuf>,
    /// Keep files by their SHA-256: those that rules name (`filestore`), without --rules all
    #[arg(long, value_name = "FOLDER")]
    filestore: Option<PathBuf>,
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
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    scan: ScanArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Args {
    /// Whether there is anything to do: clap would name `--rules` alone as what is missing.
    fn check(&self) -> anyhow::Result<()> {
        let has_output = self.eve.is_some() || self.json || self.filestore.is_some();
        if self.rules.is_empty() && !has_output && !self.scan.is_used() && !self.gate.is_used() {
            anyhow::bail!(
                "nothing to do: name rules (--rules), or else what to write or to look at \
                 (--eve, --json, --filestore, --scan, --packet-policy)"
            );
        }
        Ok(())
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.check()?;
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
    let is_piped = args.eve.as_deref() == Some(Path::new("-"));
    let mut eve = match args.eve.as_ref().filter(|_| !is_piped) {
        Some(file) => {
            let made = File::create(file).with_context(|| format!("cannot write {file:?}"))?;
            Some(BufWriter::new(made))
        }
        None => None,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut failure = None;
    let replayer = match output(args, &options) {
        Some(output) => Replayer::with_output(&options, output)?,
        None => Replayer::new(&options)?,
    };
    let gate = args.gate.open(database(&options.settings, &options.directory).as_deref(), None)?;
    let of_pipelines = gate.clone().map(|gate| gate as Arc<dyn Gate>);
    let threads = NonZeroUsize::new(args.threads.into()).unwrap_or(NonZeroUsize::MIN);
    let mut replayer = replayer.on_threads(threads).gated(of_pipelines);
    let judges = args.scan.open()?;
    if let Some(judges) = &judges {
        replayer = replayer.telling(judges.wishes(), judges.mail_limits());
    }
    let mut tell = |line: &str| {
        let written = write(line, eve.as_mut(), &mut out, args.json || is_piped);
        failure = failure.take().or(written.err());
    };
    let finders = judges
        .as_ref()
        .map(|judges| || Ok(Box::new(judges.inspector(args.inline)?) as Box<dyn Finder + Send>));
    let finders = finders.as_ref().map(|make| make as &Finders<'_>);
    let summary = replayer.run_beside(&args.capture, &mut tell, finders)?;
    if let Some(error) = failure {
        return Err(error).context("a record could not be written");
    }
    if let Some(eve) = &mut eve {
        eve.flush().context("the last records could not be written")?;
    }
    if let Some(problem) = &summary.store_problem {
        eprintln!("a file could not be stored: {problem}");
    }
    let policy = gate.map(|gate| gate.counted()).unwrap_or_default();
    if is_piped {
        out.flush()?;
        summarise(&summary, &policy, &mut std::io::stderr().lock())?;
    } else if args.json {
        print_json(&summary, &policy, &mut out)?;
    } else {
        summarise(&summary, &policy, &mut out)?;
    }
    out.flush()?;
    Ok(ended(&summary, &args.capture))
}

/// Says what was not inspected, if anything was not.
fn ended(summary: &Summary, capture: &Path) -> ExitCode {
    let Some(damage) = &summary.damage else { return ExitCode::SUCCESS };
    let capture = capture.display();
    match summary.undecoded {
        0 => eprintln!("{capture}: {damage}; what comes before it was inspected"),
        _ => eprintln!("{capture}: {damage}; all else that was read was inspected"),
    }
    ExitCode::from(EXIT_DAMAGED)
}

/// What is written beside alerts, if anything is.
fn output(args: &Args, options: &Options) -> Option<Output> {
    let mut output = Output::read(options);
    if let Some(folder) = &args.filestore {
        let stated = output.store.take();
        output.store = Some(StoreSettings {
            directory: folder.clone(),
            force: args.rules.is_empty() || stated.as_ref().is_some_and(|store| store.force),
            writes_records: stated.as_ref().is_some_and(|store| store.writes_records),
            stream_depth: stated.and_then(|store| store.stream_depth),
        });
    }
    if args.eve.is_none() && !args.json {
        output.eve = output.eve.alerts_only();
    }
    (args.eve.is_some() || args.json || output.store.is_some()).then_some(output)
}

fn print_json(
    summary: &Summary,
    policy: &[RuleCount],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let policy: Vec<_> = policy.iter().map(RuleCount::json).collect();
    let summary = json!({
        "frames": summary.frames,
        "alerts": summary.alerts,
        "dropped": summary.dropped,
        "rules": { "loaded": summary.rules, "left_out": summary.left_out },
        "damage": summary.damage,
        "policy": policy,
    });
    writeln!(out, "{}", json!({ "summary": summary }))
}

fn summarise(summary: &Summary, policy: &[RuleCount], out: &mut impl Write) -> std::io::Result<()> {
    let (rules, left_out) = (summary.rules, summary.left_out);
    let (frames, alerts, dropped) = (summary.frames, summary.alerts, summary.dropped);
    writeln!(out, "{rules} rules, {left_out} left out (`gauntlet ips rules check` says why)")?;
    writeln!(out, "{frames} frames, {alerts} alerts, {dropped} frames that rules drop")?;
    for RuleCount { rule, action, decisions, refused } in policy.iter().filter(|it| it.is_used()) {
        writeln!(out, "policy: {rule} ({action}): {decisions} flows, {refused} packets refused")?;
    }
    Ok(())
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
    if line.contains(FINDING) {
        return finding(&serde_json::from_str(line)?, out);
    }
    if !line.contains(ALERT) {
        return Ok(());
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

/// A line about a message, a file or a request.
fn finding(record: &serde_json::Value, out: &mut impl Write) -> std::io::Result<()> {
    let found = &record["gauntlet"];
    let text = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_owned();
    let printable = |text: String| text.replace(char::is_control, " ");
    let about = match found["kind"].as_str() {
        Some("mail") => {
            let (envelope, score) = (&found["envelope"], &found["score"]);
            let to: Vec<String> =
                envelope["rcpt_to"].as_array().into_iter().flatten().map(text).collect();
            let from = text(&envelope["mail_from"]);
            format!("{score} points  <{from}> -> {}", to.join(", "))
        }
        Some("policy") => format!("{} {}", text(&found["reason"]), text(&found["rule"])),
        Some("file") => format!("{} {}", text(&found["filename"]), text(&found["detail"])),
        _ => format!("{} {}", text(&found["url"]), text(&found["text"])),
    };
    let verdict = found["class"].as_str().or(found["verdict"].as_str()).unwrap_or("-");
    let (time, kind, action) = (&record["timestamp"], &found["kind"], &found["action"]);
    let (time, kind, action) = (text(time), text(kind), text(action));
    let protocol = record["app_proto"].as_str().or(record["proto"].as_str()).unwrap_or_default();
    writeln!(out, "{time}  {action}  {kind} {verdict}  {protocol}  {}", printable(about).trim())
}
