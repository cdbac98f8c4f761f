//! `gauntlet array policy` and `gauntlet array settings`: what is edited once for all nodes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_array::Session;
use gauntlet_array::editions::{self, Edition, Kind, Scope};
use gauntlet_array::nodes::{self, NodeRow};
use gauntlet_gateway::admin::groups;
use gauntlet_gateway::config::{Config, SharedSettings};
use gauntlet_policy::Policy;

use crate::messages::{moment, visible};
use crate::node_args::NodeArgs;

/// What is published, and for whom.
#[derive(Debug, clap::Args)]
pub(super) struct Publication {
    /// The policy, or sections of the configuration
    file: PathBuf,
    /// Whom it is for: all, group:NAME or node:NAME
    #[arg(long, default_value = "all")]
    scope: Scope,
    /// Why, for those who look at the list
    #[arg(long, default_value = "")]
    note: String,
}

/// How much of what was published is listed.
#[derive(Debug, clap::Args)]
pub(super) struct Listing {
    /// At most so many, newest first
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Print JSON, one line an edition
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum PolicyCommand {
    /// Check a policy and publish it
    #[command(after_help = "Examples:\n  gauntlet array policy publish policy.toml\n  \
                            gauntlet array policy publish trial.toml --scope node:mx2")]
    Publish(Publication),
    /// Take back what was published for a group or a node: it goes by the wider one again
    #[command(after_help = "Examples:\n  gauntlet array policy withdraw --scope node:mx2")]
    Withdraw {
        /// Whom it was for: all, group:NAME or node:NAME
        #[arg(long)]
        scope: Scope,
    },
    /// List what was published
    #[command(after_help = "Examples:\n  gauntlet array policy list --limit 5")]
    List(Listing),
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum SettingsCommand {
    /// Check settings and publish them; what a node sets itself wins
    #[command(after_help = "Examples:\n  gauntlet array settings publish site.toml\n  \
                            gauntlet array settings publish trial.toml --scope node:mx2")]
    Publish(Publication),
    /// Take back what was published for a group or a node: it goes by the wider one again
    #[command(after_help = "Examples:\n  gauntlet array settings withdraw --scope node:mx2")]
    Withdraw {
        /// Whom it was for: all, group:NAME or node:NAME
        #[arg(long)]
        scope: Scope,
    },
    /// List what was published
    #[command(after_help = "Examples:\n  gauntlet array settings list --limit 5")]
    List(Listing),
    /// Print the newest that was published
    #[command(after_help = "Examples:\n  gauntlet array settings show --scope all")]
    Show {
        /// Whom it is for: all, group:NAME or node:NAME
        #[arg(long, default_value = "all")]
        scope: Scope,
    },
}

/// Publishes, withdraws or lists policies.
pub(super) async fn policy(
    session: &Session,
    out: &mut impl Write,
    config: &Config,
    command: &PolicyCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::Publish(Publication { file, scope, note }) => {
            let text = read(file, "the policy")?;
            // By the groups of this node; each node looks at its own.
            Policy::parse(&text, &groups::load_at_start(config)?)
                .with_context(|| format!("the policy {}", file.display()))?;
            let number = publish(session, Kind::Policy, scope, (&text, note)).await?;
            writeln!(out, "policy {number} is published for {}", scope.name())?;
        }
        PolicyCommand::Withdraw { scope } => {
            withdraw(session, Kind::Policy, scope).await?;
            writeln!(out, "the policy for {} is withdrawn", scope.name())?;
        }
        PolicyCommand::List(Listing { limit, json }) => {
            list(session, out, Kind::Policy, (*limit, *json)).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Publishes, withdraws, lists or shows settings.
pub(super) async fn settings(
    session: &Session,
    out: &mut impl Write,
    (node, config): (&NodeArgs, &Config),
    command: &SettingsCommand,
) -> anyhow::Result<ExitCode> {
    match command {
        SettingsCommand::Publish(Publication { file, scope, note }) => {
            let text = read(file, "the settings")?;
            let named = || format!("the settings {}", file.display());
            let shared = SharedSettings { number: 0, text: text.clone() };
            shared.check().with_context(named)?;
            check_here(node, config, (scope, &shared)).with_context(named)?;
            let number = publish(session, Kind::Settings, scope, (&text, note)).await?;
            writeln!(out, "settings {number} are published for {}", scope.name())?;
        }
        SettingsCommand::Withdraw { scope } => {
            withdraw(session, Kind::Settings, scope).await?;
            writeln!(out, "the settings for {} are withdrawn", scope.name())?;
        }
        SettingsCommand::List(Listing { limit, json }) => {
            list(session, out, Kind::Settings, (*limit, *json)).await?;
        }
        SettingsCommand::Show { scope } => {
            match editions::newest(session, Kind::Settings, scope).await? {
                Some(Edition { body, .. }) if !body.is_empty() => write!(out, "{body}")?,
                _ => bail!("no settings are published for {}", scope.name()),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses settings that this node could not take over. Whether values make sense beside a node's
/// own file only that node can tell: for settings of others that is a warning.
fn check_here(
    node: &NodeArgs,
    config: &Config,
    (scope, shared): (&Scope, &SharedSettings),
) -> anyhow::Result<()> {
    let is_ours = match scope {
        Scope::All => true,
        Scope::Group(name) => *name == config.array.group,
        Scope::Node(name) => *name == config.node.host_name(),
    };
    match node.loaded_over(shared) {
        Ok(_) => Ok(()),
        Err(error) if is_ours => Err(error),
        Err(error) => {
            eprintln!("warning: this node could not take them over: {error:#}");
            Ok(())
        }
    }
}

fn read(file: &Path, what: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("{what} {}", file.display()))
}

async fn publish(
    session: &Session,
    kind: Kind,
    scope: &Scope,
    (text, note): (&str, &str),
) -> anyhow::Result<i64> {
    anyhow::ensure!(
        !text.trim().is_empty(),
        "it is empty; `withdraw` takes back what was published"
    );
    let who = crate::policy::author();
    let number = editions::publish(session, kind, scope, None, (text, &who, note)).await?;
    let is_for = |node: &NodeRow| match scope {
        Scope::All => true,
        Scope::Group(name) => node.group == *name,
        Scope::Node(name) => node.name == *name,
    };
    if !nodes::list(session).await?.iter().any(is_for) {
        writeln!(std::io::stderr(), "no node is in {} now", scope.name())?;
    }
    Ok(number)
}

async fn withdraw(session: &Session, kind: Kind, scope: &Scope) -> anyhow::Result<()> {
    let newest = editions::newest(session, kind, scope).await?;
    anyhow::ensure!(
        newest.is_some_and(|edition| !edition.body.is_empty()),
        "nothing is published for {}",
        scope.name()
    );
    let who = crate::policy::author();
    editions::publish(session, kind, scope, None, ("", &who, "withdrawn")).await?;
    Ok(())
}

async fn list(
    session: &Session,
    out: &mut impl Write,
    kind: Kind,
    (limit, json): (u32, bool),
) -> anyhow::Result<()> {
    for edition in editions::list(session, kind, limit).await? {
        if json {
            writeln!(out, "{}", serde_json::to_string(&edition)?)?;
            continue;
        }
        let lines = edition.body.lines().count();
        let (who, note) = (visible(&edition.who), visible(&edition.note));
        let (made, scope) = (moment(edition.made_ms), visible(&edition.scope));
        let number = edition.number;
        writeln!(out, "{number:>6} {made} {scope:<16} {who:<16} {lines} lines  {note}")?;
    }
    Ok(())
}
