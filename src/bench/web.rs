//! `gauntlet bench web`: load for an HTTP proxy.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_bench::commands::seconds;
use gauntlet_bench::web::tls::Tls;
use gauntlet_bench::web::workload::hosts_of;
use gauntlet_bench::web::{self, Experiment, Options, Subject, page};

use super::finish;

const AFTER_HELP: &str = "\
Without --proxy or --direct, this program's proxy is started privately, with a composed list.
The origin behind it is built in. First the client asks the same of that origin without a proxy:
a figure above 80 % of it is INVALID, for the client was the limit.

Every answer is checked: its length, that hosts of --blocked are blocked and no others. Requests
per CPU second are of the proxy's process (--pid) and its children.

Another --origin has to answer /bytes/N/NAME with N bytes (gauntlet bench sink --http does).

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID.

Examples:
  gauntlet bench web
  gauntlet bench web --connections 64 --sizes 1024,32768,1048576 --report web/
  gauntlet bench web --proxy 127.0.0.1:3128 --pid $(pgrep -xo squid)
  gauntlet bench web --proxy 127.0.0.1:3128 --blocked 0.1 --blocked-hosts listed.txt
  gauntlet bench web --rate 2000                  by the clock: latency without omissions
  gauntlet bench web --tunnels                    a CONNECT for each request
  gauntlet bench web --tls intercepted            requests/s within sessions that are decrypted
  gauntlet bench web --tls intercepted --no-keep-alive   new sessions/s
  gauntlet bench web --tls inside --no-keep-alive        tunnels/s, with TLS in them
  gauntlet bench web --experiment held -c 10000   memory of open connections
  gauntlet bench web --slow 200                   beside 200 clients of ten bytes a second
  gauntlet bench web --experiment concurrency     until half of the requests fail
  gauntlet bench web --experiment latency --ladder 1,10,100,1000
  gauntlet bench web --experiment download --download-bytes 1000000000
  gauntlet bench web --direct                     the origin itself";

/// Arguments of `gauntlet bench web`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A proxy that runs
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "direct")]
    proxy: Option<String>,
    /// Ask the origin itself, without a proxy
    #[arg(long)]
    direct: bool,
    /// Process of the proxy (or of the origin): its CPU time is read, its children's included
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The server behind the proxy [default: one that is built in]
    #[arg(long, value_name = "HOST:PORT")]
    origin: Option<String>,
    /// What is measured
    #[arg(long, value_name = "NAME", default_value = "rate")]
    experiment: ExperimentName,
    /// Bytes of objects; each size is measured apart
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1024,32768")]
    sizes: Vec<u64>,
    /// Share of requests for 100 objects that are asked for again and again
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    hot: f64,
    /// Share of requests for hosts that have to be blocked
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    blocked: f64,
    /// Hosts that the proxy blocks, one a line
    #[arg(long, value_name = "FILE", requires = "proxy")]
    blocked_hosts: Option<PathBuf>,
    /// Domains of the list that our own proxy gets
    #[arg(long, value_name = "N", default_value_t = 80_000, conflicts_with = "proxy")]
    entries: u64,
    /// Threads for sockets of our own proxy
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "proxy")]
    workers: usize,
    /// A tunnel (CONNECT) for each request
    #[arg(long)]
    tunnels: bool,
    /// A new connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Requests within TLS to an nginx of its own; with --no-keep-alive, a new session for each
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["proxy", "origin", "tunnels"])]
    tls: Option<TlsName>,
    /// Slow clients beside the measured ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    slow: usize,
    /// Connections that are open at the same time
    #[arg(long, short, value_name = "N", default_value_t = 32)]
    connections: usize,
    /// Requests a second of an open loop: each is due by the clock, and latency counts from then
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Threads of the client
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Seconds of a run
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    seconds: f64,
    /// Longest wait for an answer, in seconds; each step of --ladder takes at least as long
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    timeout: f64,
    /// Runs
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Numbers of connections for the experiments that need them [default: by experiment]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    ladder: Vec<usize>,
    /// Longest wait until the proxy has recovered, in seconds
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    recovery: f64,
    /// Bytes of the download
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    download_bytes: u64,
    /// Load a proxy or an origin that is not on this machine (it is yours, or you were asked to)
    #[arg(long)]
    remote: bool,
    /// Write report.html, its charts and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Source system C's experiments.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ExperimentName {
    /// Requests a second
    Rate,
    /// More and more connections until half of the requests fail
    Concurrency,
    /// Latency against the number of connections
    Latency,
    /// One large download
    Download,
    /// The time from an overload until requests are answered as before
    Recovery,
    /// Connections that are held open (--connections): memory of each, and new ones beside them
    Held,
}

/// What is done with TLS.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum TlsName {
    /// It passes through tunnels unread
    Inside,
    /// The proxy decrypts it, by an authority that is made for this
    Intercepted,
}

impl ExperimentName {
    fn experiment(self) -> Experiment {
        match self {
            Self::Rate => Experiment::Rate,
            Self::Concurrency => Experiment::Concurrency,
            Self::Latency => Experiment::Latency,
            Self::Download => Experiment::Download,
            Self::Recovery => Experiment::Recovery,
            Self::Held => Experiment::Held,
        }
    }
}

impl Args {
    fn address(&self, text: &str) -> anyhow::Result<SocketAddr> {
        let found = text.to_socket_addrs().with_context(|| format!("{text:?} is no HOST:PORT"));
        let address = found?.next().with_context(|| format!("{text} has no address"))?;
        if !self.remote && !address.ip().to_canonical().is_loopback() {
            bail!("{text} is not on this machine: load a server of yours with --remote");
        }
        Ok(address)
    }

    fn subject(&self) -> anyhow::Result<Subject> {
        Ok(match &self.proxy {
            Some(proxy) => Subject::Proxy { address: self.address(proxy)?, process: self.pid },
            None if self.direct => Subject::Origin { process: self.pid },
            None => Subject::Own { workers: self.workers },
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        program: std::env::current_exe().context("cannot find this program")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        subject: args.subject()?,
        origin: args.origin.as_deref().map(|origin| args.address(origin)).transpose()?,
        sizes: args.sizes.clone(),
        hot_share: args.hot,
        blocked_share: args.blocked,
        blocked: args.blocked_hosts.as_deref().map(hosts_of).transpose()?.unwrap_or_default(),
        entries: args.entries,
        is_tunnelled: args.tunnels,
        keep_alive: !args.no_keep_alive,
        slow: args.slow,
        experiment: args.experiment.experiment(),
        connections: args.connections,
        rate: args.rate,
        threads: args.threads,
        time: seconds("--seconds", args.seconds)?,
        timeout: seconds("--timeout", args.timeout)?,
        rounds: args.rounds,
        ladder: args.ladder.clone(),
        recovery_max: seconds("--recovery", args.recovery)?,
        download_bytes: args.download_bytes,
        tls: args.tls.map(|tls| match tls {
            TlsName::Inside => Tls::Inside,
            TlsName::Intercepted => Tls::Intercepted,
        }),
    };
    let report = web::run(&options, &mut |what| eprintln!("{what}"))?;
    let sheet = page::sheet(&report);
    finish((&sheet, &report), args.report.as_deref(), args.json, report.valid)
}
