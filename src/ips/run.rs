//! `gauntlet ips run`: Suricata's rules on live packets.
//!
//! ```text
//! supervisor: opens the sockets, starts the worker, lets packets pass (or not) while there is none
//!   worker: rules, a thread for each port (pipeline), records, reloads, watchdog
//! ```

mod blocks;
mod costs;
mod counters;
mod cpus;
mod metrics;
mod plan;
mod records;
mod rules;
mod shared;
mod supervisor;
mod thread;
mod worker;

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) use costs::CLOCK;

use self::blocks::BlockArgs;
use super::SettingsArgs;
use super::gate::GateArgs;
use super::inspection::ScanArgs;

const AFTER_HELP: &str = "\
Passive: --interface alone; what passes it is inspected, nothing is held up. Inline: with
--copy-interface (a bridge: both interfaces up, without addresses) or --queue (NFQUEUE), and drops
are carried out. nftables hands packets over by a rule such as

  nft add rule inet filter forward queue num 0-1 bypass

where `bypass` lets packets pass while no program has the queue. With --wireguard FILE, what peers
send is decrypted and inspected before it comes out of a TUN device, and the other way.

SIGHUP reads the rules anew without losing a packet or a stream, and opens --eve anew; rules that
cannot be read leave the old ones in place. SIGTERM and SIGINT end it with a summary.

The work is done by a second process. If that ends or hangs, it is started anew; meanwhile packets
pass or stop (--on-crash). Needs CAP_NET_RAW and CAP_NET_ADMIN, or root; --user gives root up.

Exit codes: 0 it was told to stop; 2 it could not start.";

/// What becomes of packets while nothing inspects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnCrash {
    /// They pass uninspected
    Pass,
    /// They are dropped
    Stop,
}

/// Arguments of `gauntlet ips run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    group = clap::ArgGroup::new("packets").required(true).multiple(false)
)]
pub(super) struct Args {
    /// Inspect what passes this interface
    #[arg(long, value_name = "IF", group = "packets")]
    interface: Option<String>,
    /// Send frames that pass on to this interface, and the other way
    #[arg(long, value_name = "IF", requires = "interface")]
    copy_interface: Option<String>,
    /// Take packets from this queue of the firewall, or from these, each in a thread
    #[arg(long, value_name = "N[-M]", value_parser = queues, group = "packets")]
    queue: Option<(u16, u16)>,
    /// Be the end of the WireGuard tunnel of this file (as wg-quick has it): a TUN device of the
    /// file's name, what passes it inspected
    #[arg(long, value_name = "FILE", group = "packets")]
    wireguard: Option<PathBuf>,
    /// A file of rules; may be repeated
    #[arg(long, required_unless_present_any = ["scan", "packet_policy"], value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Append EVE records to this file, a JSON object a line; without it they are printed
    #[arg(long, value_name = "FILE")]
    eve: Option<PathBuf>,
    /// Threads that share the packets of an interface by flow
    #[arg(long, value_name = "N", conflicts_with_all = ["queue", "wireguard"],
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// The processor set: thread N runs on the Nth of these CPUs alone (`0-3,8`); without it the
    /// kernel chooses, or `threading.cpu-affinity` says
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Count what each rule costs on every so manieth packet: a record `rule_costs` with each
    /// `stats`, and a summary at the end; 0 counts nothing
    #[arg(long, value_name = "N", default_value_t = 0)]
    profile_every: u32,
    /// Packets pass if a queue is full, or while nothing inspects them
    #[arg(long, conflicts_with = "fail_closed")]
    fail_open: bool,
    /// They are dropped then (the default)
    #[arg(long)]
    fail_closed: bool,
    /// What becomes of packets at the start and after a crash, until they are inspected; as
    /// --fail-open or --fail-closed unless given
    #[arg(long, value_enum, value_name = "HOW")]
    on_crash: Option<OnCrash>,
    /// Start anew if a thread makes no progress for so long, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=3600))]
    watchdog: u16,
    /// Become this user once the sockets are open
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Serve counters for Prometheus at this address, under /metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    blocks: BlockArgs,
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    scan: ScanArgs,
    /// Inline: end TCP connections that are dropped for what they carry with resets to both sides;
    /// without it they fall silent
    #[arg(long, requires = "scan")]
    reset: bool,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Started by `gauntlet serve`: its standard input is where the node says what to do, what it
    /// prints are records for the node's log
    #[arg(long, hide = true)]
    for_node: bool,
    /// Sockets that the supervisor opened; it starts the worker with it
    #[arg(long, hide = true, value_delimiter = ',', value_name = "FD")]
    worker_sockets: Option<Vec<RawFd>>,
}

impl Args {
    fn on_crash(&self) -> OnCrash {
        let usual = if self.fail_open { OnCrash::Pass } else { OnCrash::Stop };
        self.on_crash.unwrap_or(usual)
    }
}

/// `N` or `N-M`.
fn queues(text: &str) -> Result<(u16, u16), String> {
    let number = |text: &str| text.trim().parse::<u16>().map_err(|e| format!("{text:?}: {e}"));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if last < first || last - first >= QUEUES_MAX {
        return Err(format!("{text:?} is no range of at most {QUEUES_MAX} queues"));
    }
    Ok((first, last))
}

/// Queues of one process, each with a thread.
const QUEUES_MAX: u16 = 256;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.worker_sockets {
        Some(sockets) => worker::run(args, sockets),
        None => supervisor::run(args),
    }
}
