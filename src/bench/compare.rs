//! `gauntlet bench compare`: peers from the system's packages beside this program, in one run.

use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_bench::commands::INVALID;
use gauntlet_bench::compare::{self, HeldOut, Options, Peer, Report, page};
use gauntlet_bench::load::{Corpus, Label};
use gauntlet_inputs::bodies::{Bodies, body_hash};

use super::weight;

mod packets;
mod web;

const AFTER_HELP: &str = "\
Starts each peer privately (generated configuration, loopback, temporary folder, network tests
off), and lets it and this program take the same messages in turn. A peer that is not installed
is named as missing. Postfix, rspamd, clamd and amavis need root to start.

With --workload web the peers are proxies, and no DIR is needed: each has the same list of
--entries domains and forwards the same requests to one nginx (Debian: nginx-light), over kept
connections and through tunnels, with TLS in them too; Squid and mitmproxy decrypt as well, and
one large download is made. Ratios are of requests a CPU second.

With --workload packets the arguments are captures (pcap or pcapng, also compressed with gzip or
zstd), and the peer is Suricata: `ips replay` and `suricata -r` take the same unpacked file in
turn, with the same --rules and settings, one thread each, alerts as their only output; and once
more without rules. CPU time and memory are of the whole process; starting (a run over the first
packet alone) is measured apart and subtracted. --copies repeats a capture with other
addresses in place of its private ones (RFC 1918). Alerts of both are compared.

Verdicts are counted only on --judge mail, without the messages whose bodies the shipped model has
learned from: on other mail the figures would flatter.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but some figures are INVALID.

Examples:
  gauntlet bench compare mail/
  gauntlet bench compare mail/ --peers spamd,rspamd --rounds 5 --report beside/
  gauntlet bench compare mail/ --peers postfix --mix spam=1
  gauntlet bench compare mail/ --peers rspamd --rspamd /opt/rspamd/bin/rspamd --beside old/gauntlet
  gauntlet bench compare mail/ --judge labelled/ --markdown >> README.md
  gauntlet bench compare --workload web
  gauntlet bench compare --workload web --peers squid,nginx --connections 64 --report beside/
  gauntlet bench compare --workload packets capture.pcap --rules local.rules
  gauntlet bench compare --workload packets capture.pcap --copies 12 --rounds 5 --report beside/
  gauntlet train --list all/labels.tsv --exclude-source labelled -o other.model
  gauntlet bench compare mail/ --judge labelled/ --model other.model";

/// Where Debian's package has SpamAssassin's rules.
const SPAMASSASSIN_RULES: &str = "/usr/share/spamassassin";

/// Arguments of `gauntlet bench compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folders of messages, one a file; a labels.tsv there says which are ham and spam. With
    /// --workload packets: captures
    #[arg(value_name = "DIR|CAPTURE")]
    inputs: Vec<PathBuf>,
    /// What the programs do: judge and pass on mail, forward requests, or inspect packets
    #[arg(long, value_name = "NAME", default_value = "mail")]
    workload: Workload,
    /// Programs to compare with [default: all of the workload]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    peers: Vec<PeerName>,
    /// Domains of the list of proxies
    #[arg(long, value_name = "N", default_value_t = 80_000)]
    entries: u64,
    /// Bytes of the objects that proxies forward
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1024,32768")]
    sizes: Vec<u64>,
    /// Runs of each server, in turn, after one that is not counted
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Seconds of a run
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Connections at once, and workers of each peer of mail [default: the CPUs that the process
    /// may use; of proxies 32]
    #[arg(long, short, value_name = "N")]
    connections: Option<usize>,
    /// Labelled mail to count verdicts on
    #[arg(long, value_name = "DIR")]
    judge: Vec<PathBuf>,
    /// A model of `gauntlet train` in place of the shipped one: what that has not learned from can
    /// be judged
    #[arg(long, value_name = "FILE", requires = "judge")]
    model: Option<PathBuf>,
    /// Shares of labels, e.g. spam=1 for spam alone [default: the messages as they lie in the
    /// folders]
    #[arg(long, value_name = "LABEL=N,...", value_delimiter = ',', value_parser = weight)]
    mix: Vec<(Label, u32)>,
    /// rspamd's program, if it is not the system's
    #[arg(long, value_name = "PATH")]
    rspamd: Option<PathBuf>,
    /// Squid's program for decrypted TLS, if the system's has no OpenSSL (Debian: squid-openssl)
    #[arg(long, value_name = "PATH")]
    squid: Option<PathBuf>,
    /// Bytes of one download through proxies, beside the same without; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    download_bytes: u64,
    /// Another build of this program, which takes the same messages in turn
    #[arg(long, value_name = "PATH")]
    beside: Option<PathBuf>,
    /// SpamAssassin's rules, for the contest in which both judge by the same ones [default:
    /// /usr/share/spamassassin]. Of packets: a file of Suricata's rules; may be repeated
    #[arg(long, value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Suricata's program, if it is not the system's
    #[arg(long, value_name = "PATH")]
    suricata: Option<PathBuf>,
    /// Suricata's settings, which we take, too [default: suricata.yaml beside its program or in
    /// /etc/suricata]
    #[arg(long, value_name = "FILE")]
    suricata_yaml: Option<PathBuf>,
    /// Copies of a capture, one after the other, with other addresses in place of its private ones
    #[arg(long, value_name = "N", default_value = "1")]
    copies: NonZeroU32,
    /// Write report.html, report.md and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown, as terminals show it too (default)
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    /// Messages
    Mail,
    /// Requests through proxies
    Web,
    /// Packets of captures through rules
    Packets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PeerName {
    /// SpamAssassin's daemon, by spamd's protocol
    Spamd,
    /// rspamd, by HTTP (`/checkv2`)
    Rspamd,
    /// ClamAV's daemon, by INSTREAM
    Clamd,
    /// A Bayesian filter, as a batch
    Bogofilter,
    /// Postfix, as a relay without a filter
    Postfix,
    /// amavisd-new, as a content filter with the same clamd
    Amavis,
    /// Web: Squid, the list as dstdomain
    Squid,
    /// Web: Squid that asks squidGuard
    Squidguard,
    /// Web: e2guardian, the list as banned sites
    E2guardian,
    /// Web: Privoxy, the list as actions
    Privoxy,
    /// Web: nginx, a reverse proxy without a list
    Nginx,
    /// Web: mitmproxy, the list in an addon
    Mitmproxy,
    /// Packets: Suricata, by its rules
    Suricata,
}

impl PeerName {
    const MAIL: [(Self, Peer); 6] = [
        (Self::Spamd, Peer::Spamd),
        (Self::Rspamd, Peer::Rspamd),
        (Self::Clamd, Peer::Clamd),
        (Self::Bogofilter, Peer::Bogofilter),
        (Self::Postfix, Peer::Postfix),
        (Self::Amavis, Peer::Amavis),
    ];
}

/// The peers of these names, or all of a workload.
fn peers<P: Copy>(names: &[PeerName], all: &[(PeerName, P)]) -> anyhow::Result<Vec<P>> {
    if names.is_empty() {
        return Ok(all.iter().map(|(_, peer)| *peer).collect());
    }
    let find = |name: &PeerName| {
        let found = all.iter().find(|(of, _)| of == name);
        let found = found.with_context(|| format!("{name:?} has another --workload"))?;
        Ok(found.1)
    };
    names.iter().map(find).collect()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let time = Duration::try_from_secs_f64(args.seconds)
        .map_err(|error| anyhow::anyhow!("--seconds {}: {error}", args.seconds))?;
    if args.rounds == 0 {
        bail!("--rounds 0: nothing would be counted");
    }
    match args.workload {
        Workload::Mail => {}
        Workload::Web => return web::run(args, time),
        Workload::Packets => return packets::run(args),
    }
    if args.inputs.is_empty() {
        bail!("no folder of messages was named: gauntlet bench compare <DIR>");
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        program: std::env::current_exe().context("cannot find this program")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: today(),
        peers: peers(&args.peers, &PeerName::MAIL)?,
        rounds: args.rounds,
        time,
        connections: args.connections.unwrap_or(cpus),
        rules: spamassassin_rules(&args.rules)?,
        model: args.model.as_deref().map(std::path::absolute).transpose()?,
        rspamd: args.rspamd.as_deref().map(std::path::absolute).transpose()?,
        beside: args.beside.as_deref().map(std::path::absolute).transpose()?,
    };
    let corpus = Corpus::load(&args.inputs)?;
    let corpus = if args.mix.is_empty() { corpus } else { corpus.of_mix(&args.mix)? };
    let held_out = if args.judge.is_empty() {
        None
    } else {
        Some(held_out(&args.judge, args.model.as_deref())?)
    };
    let mut progress = |line: &str| eprintln!("{line}");
    let report = compare::run(&options, &corpus, held_out.as_ref(), &mut progress)?;
    if report.contests.is_empty() {
        bail!("no peer could be measured: {}", report.missing.join("; "));
    }
    if let Some(folder) = &args.report {
        write_report(folder, &report)?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", page::markdown(&report))?;
    }
    Ok(if report.is_valid() { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// The folder of SpamAssassin's rules.
fn spamassassin_rules(named: &[PathBuf]) -> anyhow::Result<PathBuf> {
    match named {
        [] => Ok(PathBuf::from(SPAMASSASSIN_RULES)),
        [one] => Ok(one.clone()),
        _ => bail!(
            "--rules: SpamAssassin's are one folder; several files are for --workload packets"
        ),
    }
}

fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = since.unwrap_or_default().as_secs() / 86_400;
    gauntlet_mail::date::day_name(i64::try_from(days).unwrap_or(0))
}

/// The labelled mail without what the model has learned from.
fn held_out(folders: &[PathBuf], model: Option<&Path>) -> anyhow::Result<HeldOut> {
    let mut corpus = Corpus::load(folders)?;
    let bodies = model.map_or_else(Bodies::shipped, Bodies::beside)?;
    let whose = if model.is_some() { "the model of --model" } else { "the shipped model" };
    let all = corpus.items.len();
    corpus.items.retain(|item| item.label != gauntlet_bench::load::Label::Unknown);
    let labelled = corpus.items.len();
    corpus.items.retain(|item| !bodies.contain(body_hash(&item.raw)));
    if corpus.items.is_empty() {
        bail!(
            "--judge: of {all} messages {labelled} are labelled, and {whose} has learned from all of those (or \
             they are workloads): it can only be judged on other mail (--model names a model without it)"
        );
    }
    let left = corpus.items.len();
    corpus.order = (0..left).collect();
    let note = format!(
        "verdicts are on {left} labelled messages; {} were left out as mail that {whose} has learned from",
        labelled - left
    );
    let note = match model {
        Some(_) => format!("{note}; we judged by the model of --model (the batch: not judged)"),
        None => note,
    };
    Ok(HeldOut { corpus, note })
}

fn write_report(folder: &std::path::Path, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, text) in [
        ("report.html", page::html(report)),
        ("report.md", page::markdown(report)),
        ("report.json", serde_json::to_string_pretty(report)?),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
