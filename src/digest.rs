//! `gauntlet digest`: mails about held mail, and the thread that sends them every day.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_console::digest::{Digest, DigestOptions, digest, round};
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::control::{self, Answer, Request};
use gauntlet_store::{Quarantine, Users};

use crate::node_args::NodeArgs;
use crate::user;

/// Between two looks whether it is time.
const LOOK_PAUSE: Duration = Duration::from_secs(30);
/// Milliseconds of an hour and a day.
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

const AFTER_HELP: &str = "\
The node sends them by itself at digest.hour, if digest.enabled. Everybody is told once of each message.

Examples:
  gauntlet digest preview ann@example.org    what she would get now, as a message
  gauntlet digest send --now                 send all that is due, through the running node";

/// Arguments of `gauntlet digest`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Send the digests of everybody for whom something new is held
    Send {
        /// Do not wait for digest.hour
        #[arg(long, required = true)]
        now: bool,
    },
    /// Print the digest that an address would get; its links work
    Preview {
        /// The address
        address: String,
    },
}

/// Runs `gauntlet digest`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load()?;
    let users = user::open(&config.node.data)?;
    let quarantine = Quarantine::open_beside_with(
        &config.node.data.join("quarantine"),
        gauntlet_gateway::node::body_keys(&config)?,
    )?;
    let options = options(&config);
    let mut out = std::io::stdout().lock();
    match &args.action {
        Action::Preview { address } => {
            match digest(&quarantine, &users, &options, address, now_ms())? {
                Some(made) => out.write_all(made.raw.as_bytes())?,
                None => bail!("nothing is held for {address} that no digest told of"),
            }
        }
        Action::Send { .. } => {
            let data = &config.node.data;
            control::ask(data, &Request::List { max: 1 }).with_context(|| {
                format!("{}: no node answers; is `gauntlet serve` running there?", data.display())
            })?;
            let mut send = |made: &Digest| {
                let request =
                    Request::Submit { to: made.address.clone(), message: made.raw.clone() };
                match control::ask(data, &request).map_err(|e| e.to_string())? {
                    Answer::Failed(why) => Err(why),
                    _ => Ok(()),
                }
            };
            let done = round(&quarantine, &users, &options, now_ms(), &mut send)?;
            writeln!(out, "{} digests sent, {} failed", done.sent, done.failed)?;
            if done.failed > 0 {
                return Ok(ExitCode::from(1));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How the digests of a node are made.
fn options(config: &Config) -> DigestOptions {
    let d = &config.digest;
    let url = match d.url.as_str() {
        "" => format!("http://{}", config.console.address),
        url => url.to_owned(),
    };
    let from = match d.from.as_str() {
        "" => format!("postmaster@{}", config.node.host_name()),
        from => from.to_owned(),
    };
    DigestOptions { url, from, link_days: d.link_days }
}

/// Sends digests every day, on a thread of its own, until the process ends.
pub(crate) fn watch(node: &Arc<Node>, users: Arc<Users>) -> anyhow::Result<()> {
    let node = Arc::downgrade(node);
    std::thread::Builder::new()
        .name("digests".to_owned())
        .spawn(move || {
            let mut last_ms = 0;
            loop {
                std::thread::sleep(LOOK_PAUSE);
                let Some(node) = node.upgrade() else { return };
                let now = now_ms();
                if !node.config().digest.enabled || !is_due(&node.config(), &users, last_ms, now) {
                    continue;
                }
                last_ms = now;
                let mut send = |made: &Digest| {
                    node.send_own(&made.address, made.raw.clone().into_bytes()).map(drop)
                };
                match round(&node.quarantine, &users, &options(&node.config()), now, &mut send) {
                    Ok(done) => {
                        let (sent, failed) = (done.sent, done.failed);
                        tracing::info!(sent, failed, "digests");
                    }
                    Err(error) => tracing::error!(%error, "digests could not be made"),
                }
            }
        })
        .context("cannot start the digests' thread")?;
    Ok(())
}

/// Today's hour is past, and no round was made since.
fn is_due(config: &Config, users: &Users, last_ms: i64, now: i64) -> bool {
    let due = now.div_euclid(DAY_MS) * DAY_MS + i64::from(config.digest.hour) * HOUR_MS;
    now >= due && last_ms < due && users.last_digest_ms().is_ok_and(|last| last < due)
}
