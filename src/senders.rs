//! `gauntlet senders`: who is allowed or blocked for the whole node.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::control::Request;
use gauntlet_verdict::lists::check_entry;

use crate::messages::moment;
use crate::node_args::NodeArgs;
use crate::user::{self, WHO};

const AFTER_HELP: &str = "\
A sender is an address, a domain with all below it, or a network (IPv4: /8 or smaller, IPv6: /16).
A whole top-level domain, such as com or co.uk, is refused. A running node applies a change at
once.

Examples:
  gauntlet senders list
  gauntlet senders allow partner.example
  gauntlet senders block 192.0.2.0/24
  gauntlet senders remove partner.example 192.0.2.0/24";

/// Arguments of `gauntlet senders`.
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
    /// Print both lists, with who made each entry
    List {
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Their mail is never spam
    Allow {
        /// Addresses, domains or networks
        #[arg(required = true, value_name = "ENTRY")]
        entries: Vec<String>,
    },
    /// Their mail is always spam
    Block {
        /// Addresses, domains or networks
        #[arg(required = true, value_name = "ENTRY")]
        entries: Vec<String>,
    },
    /// Take them off the lists
    Remove {
        /// Addresses, domains or networks
        #[arg(required = true, value_name = "ENTRY")]
        entries: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load_existing()?;
    let users = user::open(&config.node.data)?;
    let mut unknown: Vec<&str> = Vec::new();
    match &args.action {
        Action::List { json } => {
            let mut out = std::io::stdout().lock();
            for sender in users.listed_senders()? {
                if *json {
                    writeln!(out, "{}", serde_json::to_string(&sender)?)?;
                    continue;
                }
                let list = if sender.allow { "allow" } else { "block" };
                let since = moment(sender.at_ms);
                writeln!(out, "{list:<6} {:<40} by {} since {since}", sender.entry, sender.who)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        Action::Allow { entries } | Action::Block { entries } => {
            // All or none of them.
            entries.iter().try_for_each(|entry| check_entry(entry))?;
            let allow = matches!(args.action, Action::Allow { .. });
            for entry in entries {
                users.list_sender(entry, allow, WHO, now_ms())?;
            }
        }
        Action::Remove { entries } => {
            for entry in entries {
                if !users.unlist_sender(entry, WHO, now_ms())? {
                    unknown.push(entry.as_str());
                }
            }
        }
    }
    // Without a running node it counts from the next start on.
    let socket = gauntlet_gateway::control::socket_path(&config.node.data);
    if socket.exists() {
        args.node.ask(&Request::Senders)?;
    }
    // The others are taken off, and the node knows it.
    if !unknown.is_empty() {
        bail!("on no list: {}; `gauntlet senders list` prints all", unknown.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}
