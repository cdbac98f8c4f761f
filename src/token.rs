//! `gauntlet token`: what programs show to the console's API.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use gauntlet_gateway::clock::now_ms;
use gauntlet_mail::date;
use gauntlet_store::users::{Scope, Token};

use crate::node_args::NodeArgs;
use crate::user::{self, WHO};

const AFTER_HELP: &str = "\
Scopes: status:read, messages:read, submission:write, and :read and :write of quarantine,
policy, senders, users, queue. A program sends its token as `Authorization: Bearer TOKEN`;
/api/openapi.json names every operation.

Examples:
  gauntlet token new dashboard --scope status:read --scope messages:read
  gauntlet token new ci --scope policy:read --scope policy:write --days 30
  gauntlet token revoke ci";

/// Arguments of `gauntlet token`.
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
    /// Make a token and print it, once: only a hash of it is kept
    New {
        /// What it is for
        name: String,
        /// What it may do; repeat for more
        #[arg(long = "scope", required = true)]
        scopes: Vec<Scope>,
        /// How many days it lives
        #[arg(long, default_value_t = 90)]
        days: i64,
    },
    /// Print all tokens: name, scopes, author, end, last use
    List {
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token; it is refused from now on
    Revoke {
        /// Name of the token, which is not its secret
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let users = user::open(&args.node.data_folder()?)?;
    let mut out = std::io::stdout().lock();
    match &args.action {
        Action::New { name, scopes, days } => {
            let mut scopes = scopes.clone();
            scopes.sort();
            scopes.dedup();
            writeln!(out, "{}", users.add_token(name, &scopes, *days, WHO, now_ms())?)?;
        }
        Action::List { json } => {
            for token in users.tokens()? {
                if *json {
                    writeln!(out, "{}", serde_json::to_string(&token)?)?;
                } else {
                    line(&mut out, &token)?;
                }
            }
        }
        Action::Revoke { name } => {
            if !users.revoke_token(name, WHO, now_ms())? {
                bail!("there is no token {name:?}; `gauntlet token list` prints all");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(out: &mut impl Write, token: &Token) -> std::io::Result<()> {
    let Token { name, scopes, who, expires_ms, used_ms, .. } = token;
    let scopes: Vec<&str> = scopes.iter().map(|s| s.name()).collect();
    let over = if *expires_ms <= now_ms() { "over since" } else { "until" };
    let used = used_ms.map_or("never used".to_owned(), |ms| format!("used {}", date::rfc5322(ms)));
    let end = date::rfc5322(*expires_ms);
    writeln!(out, "{name:<20} {}  by {who}, {over} {end}, {used}", scopes.join(" "))
}
