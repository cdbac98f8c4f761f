//! `gauntlet bench compare --workload web`: proxies.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_bench::web::beside::{self, Options, WebPeer, page};

use super::{Args, PeerName, peers, today};
use crate::bench::finish;

/// Connections at once, unless they are named.
const CONNECTIONS: usize = 32;

const PEERS: [(PeerName, WebPeer); 6] = [
    (PeerName::Squid, WebPeer::Squid),
    (PeerName::E2guardian, WebPeer::E2guardian),
    (PeerName::Privoxy, WebPeer::Privoxy),
    (PeerName::Squidguard, WebPeer::Squidguard),
    (PeerName::Mitmproxy, WebPeer::Mitmproxy),
    (PeerName::Nginx, WebPeer::Nginx),
];

pub(super) fn run(args: &Args, time: Duration) -> anyhow::Result<ExitCode> {
    let options = Options {
        program: std::env::current_exe().context("cannot find this program")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: today(),
        peers: peers(&args.peers, &PEERS)?,
        rounds: args.rounds,
        time,
        connections: args.connections.unwrap_or(CONNECTIONS),
        entries: args.entries,
        sizes: args.sizes.clone(),
        beside: args.beside.as_deref().map(std::path::absolute).transpose()?,
        squid: args.squid.clone(),
        download_bytes: args.download_bytes,
    };
    let report = beside::run(&options, &mut |line| eprintln!("{line}"))?;
    if report.contests.is_empty() {
        bail!("no peer could be measured: {}", report.missing.join("; "));
    }
    let sheet = page::sheet(&report);
    finish((&sheet, &report), args.report.as_deref(), args.json, report.is_valid())
}
