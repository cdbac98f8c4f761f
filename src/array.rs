//! `gauntlet array`: the nodes that share policy and message log, and orders to them.

pub(crate) mod digests;
mod export;
pub(crate) mod held;
pub(crate) mod join;
pub(crate) mod member;
mod publish;
mod queue;
pub(crate) mod queue_orders;
mod recovery;
mod running;
mod sharing;
pub(crate) mod upgrade;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_array::nodes::{self, NodeRow, NodeState};
use gauntlet_array::orders::{self, Order, OrderRow};
use gauntlet_array::{Session, joining, schema};

use crate::array_access as access;
use crate::messages::{moment, visible};
use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
The commands work on the database that array.database of the configuration names; no node needs to
run here. docs/array.md leads from one machine to two.

Examples:
  gauntlet array init --config /etc/gauntlet/gauntlet.toml
  gauntlet array nodes
  gauntlet array policy publish policy.toml --note 'shops are bulk'
  gauntlet array drain mx2 --wait
  gauntlet array order mx2 release 0ABC-1 --wait";

/// Arguments of `gauntlet array`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[command(flatten)]
    Join(join::Command),
    #[command(flatten)]
    Array(ArrayCommand),
}

/// What works on the array's database.
#[derive(Debug, clap::Subcommand)]
enum ArrayCommand {
    /// Make the tables in the database, or upgrade them
    #[command(after_help = "Examples:\n  gauntlet array init --config gauntlet.toml")]
    Init,
    /// List the nodes, and how far behind each is
    #[command(
        after_help = "Examples:\n  gauntlet array nodes\n  gauntlet array nodes --json | jq ."
    )]
    Nodes {
        /// Print JSON, one line a node
        #[arg(long)]
        json: bool,
    },
    /// Remove a node; what it logged stays
    #[command(after_help = "Examples:\n  gauntlet array leave mx3")]
    Leave {
        /// Name of the node
        name: String,
        /// Also if it was seen in the last minute
        #[arg(long)]
        yes: bool,
    },
    /// Take back this node, which was removed
    #[command(after_help = "Examples:\n  gauntlet array rejoin --config gauntlet.toml")]
    Rejoin,
    /// Publish the policy to nodes, list and withdraw what was published
    #[command(after_help = "Examples:\n  gauntlet array policy publish policy.toml\n  \
                            gauntlet array policy list")]
    Policy {
        #[command(subcommand)]
        command: publish::PolicyCommand,
    },
    /// Publish settings to nodes, list, show and withdraw what was published
    #[command(after_help = "Examples:\n  gauntlet array settings publish site.toml\n  \
                            gauntlet array settings show --scope all")]
    Settings {
        #[command(subcommand)]
        command: publish::SettingsCommand,
    },
    /// Give a node an order
    #[command(after_help = ORDER_HELP)]
    Order {
        /// Name of the node
        node: String,
        /// What it is to do
        #[command(subcommand)]
        order: OrderCommand,
        /// Wait until it is done, at most so many seconds [60 without a number]
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "60", value_name = "SECONDS", global = true)]
        wait: Option<u64>,
    },
    /// Have a node take no new mail, and finish its queue
    ///
    /// The same as `array order NODE drain`.
    #[command(after_help = DRAIN_HELP)]
    Drain(Ordered),
    /// Have a node that drains take mail again
    ///
    /// The same as `array order NODE undrain`.
    #[command(after_help = "Examples:\n  gauntlet array undrain mx2 --wait")]
    Undrain(Ordered),
    /// Write days of the message log as Parquet files, for DuckDB, ClickHouse or Spark
    Export(export::ExportArgs),
    /// List the last orders and what came of them
    #[command(after_help = "Examples:\n  gauntlet array orders --limit 5")]
    Orders {
        /// At most so many, newest first
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Print JSON, one line an order
        #[arg(long)]
        json: bool,
    },
}

/// A node that is given an order without arguments.
#[derive(Debug, clap::Args)]
struct Ordered {
    /// Name of the node
    node: String,
    /// Wait until it is done, at most so many seconds [60 without a number]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "60", value_name = "SECONDS")]
    wait: Option<u64>,
}

const DRAIN_HELP: &str = "\
It stays so until `gauntlet array undrain`, over restarts, too. --wait waits for the node's word
that it drains, not for the end of its sessions and queue: `gauntlet array nodes` says what is
left, and `gauntlet drain --wait` on the node itself waits for that.

Examples:
  gauntlet array drain mx2 --wait
  gauntlet array nodes";

const ORDER_HELP: &str = "\
An order waits in the database until the node takes it; it is carried out once, however often either
side fails meanwhile.

Examples:
  gauntlet array order mx2 release 0ABC-1 --wait
  gauntlet array order mx2 retry
  gauntlet array order mx2 reload --wait=10";

#[derive(Debug, Clone, clap::Subcommand)]
enum OrderCommand {
    /// Release a held message
    #[command(after_help = "Examples:\n  gauntlet array order mx2 release 0ABC-1 --wait")]
    Release {
        /// Id of the held item
        item: String,
        /// To this address instead of the recipients; repeat for more
        #[arg(long)]
        to: Vec<String>,
    },
    /// Delete a held message
    #[command(after_help = "Examples:\n  gauntlet array order mx2 delete 0ABC-1")]
    Delete {
        /// Id of the held item
        item: String,
    },
    /// Try to deliver messages of the queue now
    #[command(after_help = "Examples:\n  gauntlet array order mx2 retry")]
    Retry {
        /// Ids of messages; none for all that wait
        ids: Vec<String>,
    },
    /// Keep messages of the queue waiting until they are retried
    #[command(after_help = "Examples:\n  gauntlet array order mx2 hold 019ABC --wait")]
    Hold {
        /// Ids of messages
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Delete messages of the queue, without a report to their senders
    #[command(after_help = "Examples:\n  gauntlet array order mx2 discard 019ABC --wait")]
    Discard {
        /// Ids of messages
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Hand messages of the queue over to another node
    #[command(after_help = "Examples:\n  gauntlet array order mx2 move mx1 --wait")]
    Move {
        /// Name of the other node
        to: String,
        /// Ids of messages; none for all that wait
        ids: Vec<String>,
    },
    /// Take no new mail, and finish the queue
    #[command(after_help = "Examples:\n  gauntlet array order mx2 drain --wait")]
    Drain,
    /// Take mail again
    #[command(after_help = "Examples:\n  gauntlet array order mx2 undrain")]
    Undrain,
    /// Read the configuration again
    #[command(after_help = "Examples:\n  gauntlet array order mx2 reload")]
    Reload,
    /// Drain, finish the queue and stop, so that the service manager starts the new program
    ///
    /// Nodes with such an order take their turns: the next one begins when the one before has come
    /// back.
    #[command(after_help = "Examples:\n  gauntlet array order mx2 upgrade --wait=900")]
    Upgrade {
        /// Most seconds to wait for sessions and queue; what is left stays in the spool
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Do not wait for other nodes that are being upgraded
        #[arg(long)]
        together: bool,
    },
}

impl OrderCommand {
    fn order(&self) -> Order {
        match self.clone() {
            OrderCommand::Release { item, to } => {
                Order::Release { item, to, learn: false, addresses: None }
            }
            OrderCommand::Delete { item } => Order::Delete { item },
            OrderCommand::Retry { ids } => Order::Retry { ids },
            OrderCommand::Hold { ids } => Order::Hold { ids },
            OrderCommand::Discard { ids } => Order::Discard { ids },
            OrderCommand::Move { to, ids } => Order::Move { to, ids },
            OrderCommand::Drain => Order::Drain,
            OrderCommand::Undrain => Order::Undrain,
            OrderCommand::Reload => Order::Reload,
            OrderCommand::Upgrade { seconds, together } => Order::Upgrade { seconds, together },
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let command = match &args.command {
        Command::Join(command) => return join::run(&args.node, command),
        Command::Array(command) => command,
    };
    let config = args.node.load()?;
    let database = access::database(&config)?.context(
        "array.database is not set: name the array's PostgreSQL server there, as \
         postgres://user:password@host/database",
    )?;
    let runtime = access::runtime(1)?;
    runtime.block_on(async {
        let session = schema::session(&database).await?;
        let out = &mut std::io::stdout().lock();
        match command {
            ArrayCommand::Init => {
                let (server, found) = (database.server(), schema::check(&session).await?);
                writeln!(out, "{server}: the tables of the array are there, schema {found}")?;
                Ok(ExitCode::SUCCESS)
            }
            ArrayCommand::Nodes { json } => list_nodes(&session, out, *json).await,
            ArrayCommand::Leave { name, yes } => {
                let listed = nodes::list(&session).await?;
                let is_there = listed.iter().any(|n| n.name == *name && n.silent_ms < SILENT_MS);
                if is_there && !yes {
                    bail!("{name} was seen within the last minute; --yes removes it all the same");
                }
                leave(&session, out, name).await
            }
            ArrayCommand::Rejoin => {
                let own = access::identity(&config)?;
                nodes::take_back(&session, &own).await?;
                writeln!(out, "{} takes part again", own.name)?;
                Ok(ExitCode::SUCCESS)
            }
            ArrayCommand::Policy { command } => {
                publish::policy(&session, out, &config, command).await
            }
            ArrayCommand::Settings { command } => {
                publish::settings(&session, out, (&args.node, &config), command).await
            }
            ArrayCommand::Export(args) => export::run(&session, &config, args, out).await,
            ArrayCommand::Order { node, order, wait } => {
                give(&session, out, (node, &order.order()), *wait).await
            }
            ArrayCommand::Drain(to) => {
                give(&session, out, (&to.node, &Order::Drain), to.wait).await
            }
            ArrayCommand::Undrain(to) => {
                give(&session, out, (&to.node, &Order::Undrain), to.wait).await
            }
            ArrayCommand::Orders { limit, json } => {
                for row in orders::list(&session, *limit).await? {
                    print_order(out, &row, *json)?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn leave(session: &Session, out: &mut impl Write, name: &str) -> anyhow::Result<ExitCode> {
    let revoked = joining::revoke(session, name).await?;
    let removed = nodes::remove(session, name).await?;
    if !removed && revoked == 0 {
        bail!("the array has no node {name}; `gauntlet array nodes` lists them");
    }
    let hint = "take [array] out of its configuration and restart it, or `array rejoin` there";
    writeln!(out, "{name} is removed and goes on alone; {hint}")?;
    if revoked > 0 {
        let hint = "`gauntlet array crl` prints the list for PostgreSQL's ssl_crl_file, which then \
                    has to reload: SELECT pg_reload_conf()";
        writeln!(out, "{revoked} certificates are revoked; {hint}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds that `gauntlet queue move` waits for the node.
const MOVE_SECONDS_MAX: u64 = 600;

/// Has the node of this configuration hand messages of its queue over to another.
///
/// # Errors
/// If it is in no array, or the order cannot be given or done.
pub(crate) fn move_queue(node: &NodeArgs, to: &str, ids: &[String]) -> anyhow::Result<ExitCode> {
    let config = node.load()?;
    let database = access::database(&config)?.context(
        "array.database is not set: messages move between nodes of an array; for the disk of a \
         node that is gone there is `gauntlet queue adopt`",
    )?;
    let order = Order::Move { to: to.to_owned(), ids: ids.to_vec() };
    access::runtime(1)?.block_on(async {
        let session = schema::session(&database).await?;
        let out = &mut std::io::stdout().lock();
        give(&session, out, (&config.node.host_name(), &order), Some(MOVE_SECONDS_MAX)).await
    })
}

async fn list_nodes(
    session: &Session,
    out: &mut impl Write,
    json: bool,
) -> anyhow::Result<ExitCode> {
    for node in nodes::list(session).await? {
        if json {
            writeln!(out, "{}", serde_json::to_string(&node)?)?;
        } else {
            print_node(out, &node)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A node silent for longer is probably gone, in milliseconds.
const SILENT_MS: i64 = 60_000;
/// Difference of clocks that is worth a word, in milliseconds.
const CLOCK_MS: i64 = 5_000;

/// One word for how a node is.
fn state_of(node: &NodeRow) -> &'static str {
    match (node.state, node.silent_ms > SILENT_MS, node.status.draining) {
        (NodeState::Removed, ..) => "removed",
        (_, true, _) => "silent",
        (_, _, true) => "draining",
        _ => "active",
    }
}

/// Since when a node goes by something, if that is known.
pub(crate) fn since(at_ms: i64) -> String {
    if at_ms > 0 { format!(" since {}", moment(at_ms)) } else { String::new() }
}

fn print_node(out: &mut impl Write, node: &NodeRow) -> std::io::Result<()> {
    let status = &node.status;
    let state = state_of(node);
    write!(out, "{:<20} {state:<9}", visible(&node.name))?;
    if !node.group.is_empty() {
        write!(out, " group {}", visible(&node.group))?;
    }
    write!(out, " seen {}", moment(node.seen_ms))?;
    write!(out, ", {} queued, {} sessions", status.queued, status.sessions)?;
    match (status.behind, status.behind_since_ms) {
        (0, _) => write!(out, ", log complete")?,
        (changes, Some(since)) => {
            write!(out, ", log behind by {changes} changes since {}", moment(since))?;
        }
        (changes, None) => write!(out, ", log behind by {changes} changes")?,
    }
    match status.policy {
        0 => write!(out, ", its own policy")?,
        number => write!(out, ", policy {number}{}", since(status.policy_since_ms))?,
    }
    if !status.policy_error.is_empty() {
        write!(out, " (a newer one is not in force: {})", visible(&status.policy_error))?;
    }
    if status.settings > 0 {
        write!(out, ", settings {}{}", status.settings, since(status.settings_since_ms))?;
    }
    if !status.settings_error.is_empty() {
        write!(out, " (newer ones are not in force: {})", visible(&status.settings_error))?;
    }
    match status.lists_ms {
        Some(0) => write!(out, ", no lists of others yet")?,
        Some(lists_ms) => write!(out, ", lists as of {}", moment(lists_ms))?,
        None => {}
    }
    if node.clock_ahead_ms.abs() > CLOCK_MS {
        write!(out, ", CLOCK {:+.0} s", node.clock_ahead_ms as f64 / 1_000.0)?;
    }
    writeln!(out)
}

async fn give(
    session: &Session,
    out: &mut impl Write,
    (node, order): (&str, &Order),
    wait: Option<u64>,
) -> anyhow::Result<ExitCode> {
    let id = orders::give(session, node, order, &crate::policy::author()).await?;
    let Some(seconds) = wait else {
        writeln!(out, "order {id} is given; `gauntlet array orders` says what comes of it")?;
        return Ok(ExitCode::SUCCESS);
    };
    writeln!(std::io::stderr(), "order {id} is given; waiting for {node}, at most {seconds} s")?;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(row) = orders::get(session, id).await?
            && row.done_ms.is_some()
        {
            print_order(out, &row, false)?;
            let good = row.is_good == Some(true);
            return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if Instant::now() > deadline {
            bail!(
                "{node} has not done order {id} in {seconds} s; it stays, and is done as soon as \
                 the node takes it"
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn print_order(out: &mut impl Write, row: &OrderRow, json: bool) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(row)?)?;
        return Ok(());
    }
    let state = match (row.done_ms, row.is_good) {
        (None, _) => "open",
        (_, Some(true)) => "done",
        _ => "FAILED",
    };
    let (node, kind, who) = (visible(&row.node), visible(&row.kind), visible(&row.who));
    let outcome = row.outcome.as_deref().unwrap_or_default();
    let outcome = visible(outcome);
    let made = moment(row.made_ms);
    writeln!(out, "{:>6} {made} {node:<16} {kind:<8} {state:<6} by {who}  {outcome}", row.id)?;
    Ok(())
}
