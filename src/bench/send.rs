//! `gauntlet bench send`: load over SMTP, LMTP, milter, spamd or rspamd's protocol.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_bench::commands::{INVALID, seconds};
use gauntlet_bench::load::trial::{self, Round, Target, Trial};
use gauntlet_bench::load::{Addresses, Corpus, Label, Plan, page};
use gauntlet_bench::null::NullServer;
use gauntlet_bench::protocol::Protocol;

use super::weight;

/// Seconds of the run against a null server.
const CALIBRATION_SECONDS: f64 = 3.0;

const AFTER_HELP: &str = "\
Closed loop by default: each connection sends its next message when the last is answered. With
--rate the loop is open: message n is due at n / rate, and latency counts from then, so that a
server that stalls is not spared (no coordinated omission).

First the client measures itself against a server that does nothing. A run in which the client
was the limit (busy threads, near its own ceiling, late timers, stolen CPU, pressure on memory)
is marked INVALID.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID.

Examples:
  gauntlet bench send 127.0.0.1:2525 ~/Maildir --connections 20 --seconds 10
  gauntlet bench send 127.0.0.1:2525 mail/ --rate 500 --report load/
  gauntlet bench send --protocol spamd 127.0.0.1:783 mail/ --pid $(pgrep -o spamd)
  gauntlet bench send --protocol rspamd 127.0.0.1:11333 mail/ --against 127.0.0.1:11334 --rounds 5";

/// Arguments of `gauntlet bench send`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Server to load, HOST:PORT
    #[arg(value_name = "SERVER")]
    server: String,
    /// Folders of messages, one a file; a labels.tsv there says which are ham and spam
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Protocol that the server understands
    #[arg(long, value_enum, default_value_t = ProtocolName::Smtp)]
    protocol: ProtocolName,
    /// Connections that are open at the same time
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    connections: usize,
    /// Messages after which a connection is closed and another opened [default: never]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    per_connection: u64,
    /// Open loop: so many messages/s, whatever the server does
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Seconds that are measured, after --warm-up
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Seconds of load before it that are not counted
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    warm_up: f64,
    /// Stop after so many messages
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    messages: u64,
    /// Longest wait for an answer, in seconds
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    timeout: f64,
    /// Threads of the client
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Shares of labels, e.g. spam=6,ham=4 [default: the messages as they lie in the folders]
    #[arg(long, value_name = "LABEL=N,...", value_delimiter = ',', value_parser = weight)]
    mix: Vec<(Label, u32)>,
    /// Envelope sender of every message
    #[arg(long, value_name = "ADDRESS", default_value = "sender@bench.example")]
    from: String,
    /// Recipient; {} becomes a number below --users
    #[arg(long, value_name = "ADDRESS", default_value = "user{}@bench.example")]
    to: String,
    /// How many different recipients there are
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    users: u64,
    /// Process of the server: its CPU time and memory are read, its children's included
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// A second server, measured in turn with the first
    #[arg(long, value_name = "HOST:PORT")]
    against: Option<String>,
    /// Process of the second server
    #[arg(long, value_name = "PID", requires = "against")]
    against_pid: Option<u32>,
    /// Runs of each server, in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
    /// Do not measure the client against a null server first
    #[arg(long)]
    no_calibration: bool,
    /// Load a server that is not on this machine (it is yours, or you were asked to)
    #[arg(long)]
    remote: bool,
    /// Write report.html, its charts and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProtocolName {
    /// SMTP (RFC 5321)
    Smtp,
    /// LMTP (RFC 2033)
    Lmtp,
    /// The protocol of spamc: CHECK
    Spamd,
    /// The protocol of clamdscan: INSTREAM
    Clamd,
    /// The protocol of rspamc: POST /checkv2
    Rspamd,
    /// An MTA's, version 6
    Milter,
}

impl ProtocolName {
    /// The protocol of that name.
    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::Smtp => Protocol::Smtp,
            Self::Lmtp => Protocol::Lmtp,
            Self::Spamd => Protocol::Spamd,
            Self::Clamd => Protocol::Clamd,
            Self::Rspamd => Protocol::Rspamd,
            Self::Milter => Protocol::Milter,
        }
    }
}

impl Args {
    fn address(&self, text: &str) -> anyhow::Result<SocketAddr> {
        let mut found = text
            .to_socket_addrs()
            .with_context(|| format!("{text:?} is no HOST:PORT that resolves"))?;
        let address = found.next().with_context(|| format!("{text} has no address"))?;
        if !self.remote && !address.ip().to_canonical().is_loopback() {
            bail!("{address} is not on this machine: load a server of yours with --remote");
        }
        Ok(address)
    }

    fn plan(&self, target: SocketAddr) -> anyhow::Result<Plan> {
        Ok(Plan {
            target,
            protocol: self.protocol.protocol(),
            connections: self.connections,
            per_connection: self.per_connection,
            rate: self.rate,
            time: seconds("--seconds", self.seconds)?,
            messages: self.messages,
            warm_up: seconds("--warm-up", self.warm_up)?,
            timeout: seconds("--timeout", self.timeout)?,
            threads: self.threads,
            addresses: Addresses {
                from: self.from.clone(),
                to: self.to.clone(),
                users: self.users,
            },
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let target = |name: &str, text: &str, process| {
        anyhow::Ok(Target { name: name.to_owned(), address: args.address(text)?, process })
    };
    let mut targets = vec![target(&args.server, &args.server, args.pid)?];
    if let Some(other) = &args.against {
        targets.push(target(other, other, args.against_pid)?);
    }
    let plan = args.plan(targets[0].address)?;
    let mut corpus = Corpus::load(&args.folders)?;
    if !args.mix.is_empty() {
        corpus.mix(&args.mix)?;
    }
    let ceiling = if args.no_calibration {
        None
    } else {
        let null = NullServer::start(args.protocol.protocol())?;
        eprintln!("measuring this client against a server that does nothing ...");
        let time = seconds("calibration", CALIBRATION_SECONDS.min(args.seconds))?;
        Some(trial::ceiling(&plan, null.address, time, &corpus)?)
    };
    let mut progress = |target: &Target, round: &Round| {
        eprintln!(
            "{}: {:.0} messages/s in {:.1} s{}",
            target.name,
            round.measured.messages_per_second,
            round.measured.seconds,
            if round.invalid.is_empty() { "" } else { ", INVALID" }
        );
    };
    let version = env!("CARGO_PKG_VERSION");
    let trial = trial::run(&plan, &corpus, &targets, args.rounds, ceiling, version, &mut progress)?;
    if let Some(folder) = &args.report {
        write_report(folder, &trial)?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&trial)?)?;
    } else {
        write!(out, "{}", table(&trial))?;
    }
    Ok(if trial.valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

fn write_report(folder: &std::path::Path, trial: &Trial) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let json = serde_json::to_string_pretty(trial)?;
    let files = [("report.html", page::page(trial)), ("report.json", json)];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    page::charts(trial).iter().try_for_each(|chart| chart.write(folder))
}

fn table(trial: &Trial) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text.push_str(&format!("{name:22} {value}\n"));
    for subject in &trial.subjects {
        row("server", format!("{} by {}", subject.target.name, trial.protocol.name()));
        row("messages/s", page::estimate(&subject.messages_per_second));
        let l = &subject.latency;
        row(
            "latency ms",
            format!(
                "median {:.2}, 99 % {:.2}, 99.9 % {:.2}, longest {:.2}",
                l.p50_us / 1e3,
                l.p99_us / 1e3,
                l.p999_us / 1e3,
                l.max_us / 1e3
            ),
        );
        if let Some(cpu) = &subject.server_cpu_us_per_message {
            row("server CPU us/message", page::estimate(cpu));
        }
        if let Some(bytes) = subject.rounds.last().and_then(|r| r.server_memory_bytes) {
            row("server memory MB", format!("{:.1}", bytes as f64 / 1e6));
        }
        let rounds = || subject.rounds.iter().map(|r| &r.measured);
        row("answered", rounds().map(|m| m.answered).sum::<u64>().to_string());
        let failed: u64 = rounds().map(|m| m.failed).sum();
        let unsent: u64 = rounds().map(|m| m.unsent).sum();
        if failed > 0 {
            row("failed", failed.to_string());
        }
        if unsent > 0 {
            row("due but not sent", format!("{unsent}: all connections were busy"));
        }
        for measured in rounds() {
            for outcome in &measured.outcomes {
                let name = format!("{} {:?}", outcome.label.name(), outcome.outcome);
                row(&format!("  {}", name.to_lowercase()), outcome.messages.to_string());
            }
            for (error, count) in &measured.errors {
                row("  error", format!("{count} x {error}"));
            }
            let health = &measured.health;
            row(
                "  client",
                format!(
                    "busy {:.0} %, timers late {:.1} ms (99 %)",
                    health.busy_share * 100.0,
                    health.lag_p99_us / 1e3
                ),
            );
        }
    }
    if let Some(comparison) = &trial.comparison {
        for (name, ratio) in
            [("messages/s, ratio", comparison.rate_ratio), ("CPU, ratio", comparison.cpu_ratio)]
        {
            if let Some(ratio) = ratio {
                row(name, page::estimate(&ratio));
            }
        }
    }
    conditions(trial, &mut row);
    text
}

/// What the figures were measured with, and why they may not be the server's.
fn conditions(trial: &Trial, row: &mut dyn FnMut(&str, String)) {
    if let Some(ceiling) = trial.ceiling {
        row("client's ceiling", format!("{ceiling:.0} messages/s against a null server"));
    }
    let manifest = &trial.manifest;
    row("machine", format!("{}, {} CPUs", manifest.cpu_model, manifest.cpus));
    for why in trial.subjects.iter().flat_map(|s| &s.rounds).flat_map(|r| &r.invalid) {
        row("INVALID", why.clone());
    }
}
