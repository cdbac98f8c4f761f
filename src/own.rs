//! `gauntlet own`: a user's settings for their own mail.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::control::{self, Request};
use gauntlet_gateway::outbound::route::Routes;
use gauntlet_policy::people::Strictness;

use crate::node_args::NodeArgs;
use crate::user;

const AFTER_HELP: &str = "\
A running node applies a change at once. Phishing and malware are held whatever is chosen. An
address of another's domain (domains.local) is refused: no mail for it comes here.

Examples:
  gauntlet own ann@example.org show
  gauntlet own ann@example.org strictness lax
  gauntlet own ann@example.org allow news@shop.example";

/// Arguments of `gauntlet own`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Whose mail: an address
    address: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what they want
    Show,
    /// How much is held: strict, normal or lax
    Strictness {
        /// strict: what is suspect counts as spam; lax: only what is certainly spam does
        strictness: Strictness,
        /// Mail counts as spam from so many points
        #[arg(long)]
        points: Option<f64>,
    },
    /// Let a sender in
    Allow {
        /// Sender: an address, or a domain with all below it
        entry: String,
    },
    /// Keep a sender out
    Block {
        /// Sender: an address, or a domain with all below it
        entry: String,
    },
    /// Take a sender off their lists
    Remove {
        /// Sender: an address, or a domain with all below it
        entry: String,
    },
}

impl Action {
    /// It makes settings that were not there; others may look at or take away what is left of a
    /// domain that was ours once.
    fn adds(&self) -> bool {
        matches!(self, Action::Strictness { .. } | Action::Allow { .. } | Action::Block { .. })
    }
}

/// Refuses an address that no mail comes to here: settings for it would do nothing.
fn must_be_ours(address: &str, config: &Config) -> anyhow::Result<()> {
    let domain = address.rsplit_once('@').map(|(_, domain)| domain.to_ascii_lowercase());
    let domain = domain.unwrap_or_default();
    if !Routes::of(config).is_local(&domain) {
        bail!(
            "{address:?}: {domain} is none of this node's domains (domains.local: {}), so that no \
             mail for it is judged by these settings; add the domain there first, or check the \
             address",
            config.domains.local.join(", ")
        );
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load_existing()?;
    let users = user::open(&config.node.data)?;
    let address = args.address.as_str();
    let has_both = |(local, domain): (&str, &str)| !local.is_empty() && !domain.is_empty();
    if !address.rsplit_once('@').is_some_and(has_both) {
        bail!("{address:?} is no address");
    }
    if args.action.adds() {
        must_be_ours(address, &config)?;
    }
    match &args.action {
        Action::Show => {
            let wishes = users.wishes(address)?;
            let mut out = std::io::stdout().lock();
            writeln!(out, "strictness {}", wishes.strictness.name())?;
            if let Some(points) = wishes.spam_points {
                writeln!(out, "spam from {points} points")?;
            }
            for (what, entries) in [("allow", &wishes.allow), ("block", &wishes.block)] {
                for entry in entries {
                    writeln!(out, "{what} {entry}")?;
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        Action::Strictness { strictness, points } => {
            users.set_strictness(address, *strictness, *points, now_ms())?;
        }
        Action::Allow { entry } => users.list_personal_sender(address, entry, true, now_ms())?,
        Action::Block { entry } => users.list_personal_sender(address, entry, false, now_ms())?,
        Action::Remove { entry } => {
            if !users.unlist_personal_sender(address, entry)? {
                bail!("{entry:?} is on no list of {address}; `gauntlet own {address} show`");
            }
        }
    }
    // Without a running node it counts from the next start on.
    if control::socket_path(&config.node.data).exists() {
        args.node.ask(&Request::Policy)?;
    }
    Ok(ExitCode::SUCCESS)
}
