//! `gauntlet bench compare --workload packets`: Suricata on captures.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_bench::commands::INVALID;
use gauntlet_bench::compare::packets::{self, Options, PacketPeer};

use super::{Args, PeerName, peers, today};

const PEERS: [(PeerName, PacketPeer); 1] = [(PeerName::Suricata, PacketPeer::Suricata)];

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.inputs.is_empty() {
        bail!("no capture was named: gauntlet bench compare --workload packets <CAPTURE>");
    }
    let options = Options {
        program: std::env::current_exe().context("cannot find this program")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: today(),
        peers: peers(&args.peers, &PEERS)?,
        captures: args.inputs.clone(),
        rules: args.rules.clone(),
        suricata: args.suricata.as_deref().map(std::path::absolute).transpose()?,
        suricata_yaml: args.suricata_yaml.clone(),
        copies: args.copies.get(),
        rounds: args.rounds,
        beside: args.beside.as_deref().map(std::path::absolute).transpose()?,
    };
    let report = packets::run(&options, &mut |line| eprintln!("{line}"))?;
    if report.contests.is_empty() {
        bail!("no peer could be measured: {}", report.missing.join("; "));
    }
    let sheet = packets::sheet(&report);
    if let Some(folder) = &args.report {
        sheet.write(folder, &report)?;
        let path = folder.join("report.md");
        std::fs::write(&path, sheet.markdown())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", sheet.markdown())?;
    }
    Ok(if report.is_valid() { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}
