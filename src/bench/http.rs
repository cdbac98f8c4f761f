//! `gauntlet bench http`: experiments with an HTTP server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_bench::commands::seconds;
use gauntlet_bench::http::{self, Options, Target, page, wrk};

use super::finish;

const AFTER_HELP: &str = "\
Closed loop: each connection asks again when it was answered; no pipelining. With --rate the
loop is open: request n is due at n / rate, whatever the server does. First the client
measures itself against a server that does nothing; a figure near that is INVALID. --ladder
names numbers of connections: they are tried one after the other until half of the requests
fail, then the time until the server answers as before is taken. Energy is what the processors
count themselves (RAPL); where they do not, it is unknown.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID.

Examples:
  gauntlet bench http http://127.0.0.1:8080/index.html
  gauntlet bench http http://127.0.0.1:8080/ --against http://127.0.0.1:8081/ --rounds 5
  gauntlet bench http http://127.0.0.1:8080/ --rate 2000
  gauntlet bench http http://127.0.0.1:8080/ --ladder 1,100,1000,10000 --report web/
  gauntlet bench http http://127.0.0.1:8080/ --download http://127.0.0.1:8080/big.iso --price 0.30
  gauntlet bench http --beside-wrk --connections 32";

/// Arguments of `gauntlet bench http`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// File to ask for, http://HOST:PORT/PATH
    #[arg(value_name = "URL", required_unless_present = "beside_wrk")]
    url: Option<String>,
    /// A second server, measured in turn with the first
    #[arg(long, value_name = "URL")]
    against: Option<String>,
    /// Process of the server: its CPU time is read, its children's included
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Process of the second server
    #[arg(long, value_name = "PID", requires = "against")]
    against_pid: Option<u32>,
    /// Connections that are open at the same time
    #[arg(long, short, value_name = "N", default_value_t = 32)]
    connections: usize,
    /// Requests a second of an open loop: each is due by the clock, and latency counts from then
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// A new connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Threads of the client
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Seconds of a run
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    seconds: f64,
    /// Longest wait for an answer, in seconds; each step of --ladder takes at least as long
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    timeout: f64,
    /// Runs of each server, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Numbers of connections, tried until half of the requests fail
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    ladder: Vec<usize>,
    /// Longest wait until the server has recovered, in seconds
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    recovery: f64,
    /// A large file, downloaded over one connection
    #[arg(long, value_name = "URL")]
    download: Option<String>,
    /// Price of a kilowatt hour
    #[arg(long, value_name = "N")]
    price: Option<f64>,
    /// Do not measure the client against a null server first
    #[arg(long)]
    no_calibration: bool,
    /// Load a server that is not on this machine (it is yours, or you were asked to)
    #[arg(long)]
    remote: bool,
    /// Measure this client beside wrk, in turn, against the null server; no URL
    #[arg(long, conflicts_with_all = ["url", "against", "ladder", "download"])]
    beside_wrk: bool,
    /// Write report.html, its charts and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    fn target(&self, url: &str, process: Option<u32>) -> anyhow::Result<Target> {
        let target = Target::parse(url, process)?;
        if !self.remote && !target.address.ip().to_canonical().is_loopback() {
            bail!("{url} is not on this machine: load a server of yours with --remote");
        }
        Ok(target)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.beside_wrk {
        return beside_wrk(args);
    }
    let url = args.url.as_ref().context("no URL was given")?;
    let mut targets = vec![args.target(url, args.pid)?];
    if let Some(other) = &args.against {
        targets.push(args.target(other, args.against_pid)?);
    }
    let download = args.download.as_ref().map(|url| args.target(url, None)).transpose()?;
    let options = Options {
        targets,
        connections: args.connections,
        rate: args.rate,
        threads: args.threads,
        keep_alive: !args.no_keep_alive,
        time: seconds("--seconds", args.seconds)?,
        timeout: seconds("--timeout", args.timeout)?,
        rounds: args.rounds,
        ladder: args.ladder.clone(),
        recovery_max: seconds("--recovery", args.recovery)?,
        download,
        calibrate: !args.no_calibration,
        calibration_asks: Arc::default(),
        tls: None,
    };
    let report = http::run(&options, env!("CARGO_PKG_VERSION"), &mut |what| eprintln!("{what}"))?;
    let sheet = page::sheet(&report, args.price);
    finish((&sheet, &report), args.report.as_deref(), args.json, report.valid)
}

fn beside_wrk(args: &Args) -> anyhow::Result<ExitCode> {
    let options = wrk::Options {
        connections: args.connections,
        threads: args.threads,
        time: seconds("--seconds", args.seconds)?,
        rounds: args.rounds,
    };
    let report = wrk::run(&options, env!("CARGO_PKG_VERSION"))?;
    let sheet = page::beside_wrk(&report);
    finish((&sheet, &report), args.report.as_deref(), args.json, true)
}
