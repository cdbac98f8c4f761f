//! `gauntlet searches`: the searches that users keep in the console.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use gauntlet_gateway::clock::now_ms;
use gauntlet_store::users::SavedSearch;

use crate::node_args::NodeArgs;
use crate::user;

const AFTER_HELP: &str = "\
Examples:
  gauntlet searches list ann
  gauntlet searches keep ann \"spam of our bank\" \"class=spam&sender=@bank.example\" --shared
  gauntlet searches forget ann \"spam of our bank\"";

/// Arguments of `gauntlet searches`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what a user sees: their own, then what others share
    List {
        /// Login of the user whose list it is
        login: String,
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Keep a search; one of the same name is replaced
    Keep {
        /// Login of the user who keeps it
        login: String,
        /// What it is called
        name: String,
        /// The part of the page's address after the question mark: class=spam&sender=@example.org
        query: String,
        /// Others see it, too
        #[arg(long)]
        shared: bool,
    },
    /// Forget a search of a user
    Forget {
        /// Login of the user who keeps it
        login: String,
        /// What it is called
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let users = user::open(&args.node.load_existing()?.node.data)?;
    let known = |login: &str| -> anyhow::Result<()> {
        if !users.list()?.iter().any(|user| user.login == login) {
            bail!("there is no user {login:?}; `gauntlet user list` prints everybody");
        }
        Ok(())
    };
    match &args.action {
        Action::List { login, json } => {
            known(login)?;
            let mut out = std::io::stdout().lock();
            for search in users.searches(login)? {
                if *json {
                    writeln!(out, "{}", serde_json::to_string(&search)?)?;
                    continue;
                }
                let SavedSearch { login: owner, name, query, shared } = search;
                let of = if owner == *login { String::new() } else { format!(", of {owner}") };
                let shared = if shared && of.is_empty() { ", shared" } else { "" };
                writeln!(out, "{name}{of}{shared}: {query}")?;
            }
        }
        Action::Keep { login, name, query, shared } => {
            known(login)?;
            let (login, name, query) = (login.clone(), name.clone(), query.clone());
            users.save_search(&SavedSearch { login, name, query, shared: *shared }, now_ms())?;
        }
        Action::Forget { login, name } => {
            if !users.remove_search(login, name)? {
                bail!("{login} keeps no search {name:?}; `gauntlet searches list` prints them");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
