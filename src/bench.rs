//! `gauntlet bench`: what it costs, measured here. One file a measurement.

mod compare;
mod disk;
mod gateway;
mod http;
mod packets;
mod scan;
mod send;
mod sink;
mod store;
mod urls;
mod web;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use gauntlet_bench::commands::INVALID;
use gauntlet_bench::load::Label;
use gauntlet_bench::report::Page;
use serde::Serialize;

/// Writes a report into its folder, if one is named, and prints it.
fn finish(
    (sheet, report): (&Page, &impl Serialize),
    folder: Option<&Path>,
    json: bool,
    is_valid: bool,
) -> anyhow::Result<ExitCode> {
    if let Some(folder) = folder {
        sheet.write(folder, report)?;
    }
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
    } else {
        write!(out, "{}", sheet.text())?;
    }
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// A weight of a label, as `--mix` has it.
fn weight(text: &str) -> Result<(Label, u32), String> {
    let pair = text.split_once('=').and_then(|(label, n)| Some((label, n.parse().ok()?)));
    match pair {
        Some((name @ ("ham" | "spam"), weight)) => Ok((Label::named(name), weight)),
        _ => Err(format!("{text:?} is not ham=N or spam=N")),
    }
}

/// Arguments of `gauntlet bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Scan messages from memory: messages/s, CPU time and latency of the engine alone
    Scan(scan::Args),
    /// Send through a gateway and receive from it: a closed loop with so many messages in flight
    Gateway(Box<gateway::Args>),
    /// Start peers privately and measure them and us in turn on the same messages
    Compare(Box<compare::Args>),
    /// Load a server over SMTP, LMTP, milter, spamd's, clamd's or rspamd's protocol, honestly
    Send(Box<send::Args>),
    /// Spool and message log alone: messages/s, CPU, syncs and latency by backend, batch and size
    Store(store::Args),
    /// File reads by size of the buffer, and the time until a write is durable
    Disk(disk::Args),
    /// A capture through the packet path: packets/s, CPU time, memory, with and without rules
    Packets(packets::Args),
    /// Lists of URLs: look-ups/s, time to compile and open, memory
    Urls(urls::Args),
    /// Load an HTTP server: requests/s, latency against concurrency, recovery, a download, energy
    Http(Box<http::Args>),
    /// Load an HTTP proxy: requests/s and a CPU second, latency, blocked hosts, tunnels, overload
    Web(Box<web::Args>),
    /// Take messages and forget them: the server behind or instead of the one that is measured
    Sink(sink::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Scan(args) => scan::run(args),
        What::Compare(args) => compare::run(args),
        What::Gateway(args) => gateway::run(args),
        What::Send(args) => send::run(args),
        What::Store(args) => store::run(args),
        What::Disk(args) => disk::run(args),
        What::Packets(args) => packets::run(args),
        What::Urls(args) => urls::run(args),
        What::Http(args) => http::run(args),
        What::Web(args) => web::run(args),
        What::Sink(args) => sink::run(args),
    }
}
