//! `gauntlet channel`: publish, mirror and follow signed updates of rules, models and lists.

mod activity;
mod advance;
pub(crate) mod content;
mod diff;
mod files;
mod follow;
mod keys;
mod objects_mirror;
mod orders;
pub(crate) mod overview;
mod probes;
mod publish;
pub(crate) mod publisher;
mod sa_state;
mod sa_update;
pub(crate) mod self_test;
mod show;
mod spamassassin;
mod status;
mod trial;
pub(crate) mod watch;
mod watched;
mod web_mirror;

use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::repository::Lifetimes;

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
A channel is a folder of static files that any web server serves; docs/channels.md has the whole
way. Keys of the root belong on a medium that is not connected: without them one can publish, but
not hand the channel to other keys.";

/// Arguments of `gauntlet channel`.
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
    /// Make a channel without files, and its keys where there are none
    Init(publish::InitArgs),
    /// List the keys of a channel, and change them by a new root
    Keys(keys::Args),
    /// Publish what a folder holds as the next version
    Publish(publish::PublishArgs),
    /// Take rules of SpamAssassin's own channels into a folder that is published
    Import(spamassassin::ImportArgs),
    /// Check a channel's signatures, files, deltas and rules
    Verify {
        /// Folder of the channel
        channel: PathBuf,
    },
    /// Say what a channel has, or how the node's subscriptions are
    Show {
        /// Folder of a channel; without it, the node's subscriptions
        channel: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say how two versions of a channel differ
    Diff {
        /// Folder of the channel
        channel: PathBuf,
        /// The older version
        from: u64,
        /// The newer version
        to: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Begin to follow a channel, and print the settings for it
    Subscribe(follow::SubscribeArgs),
    /// Bring the newest version now; a running node takes it over within seconds
    Pull {
        /// Name of the subscription [default: all]
        name: Option<String>,
    },
    /// Let a version judge that is tried or held, without waiting
    Promote {
        /// Name of the subscription
        name: String,
        /// The version
        version: u64,
    },
    /// Never let this version judge
    Reject {
        /// Name of the subscription
        name: String,
        /// The version
        version: u64,
        /// Why, for the record
        #[arg(long, default_value = "rejected by hand")]
        reason: String,
    },
    /// Stay at a version, or no longer
    Pin {
        /// Name of the subscription
        name: String,
        /// The version [default: the one in force]
        version: Option<u64>,
        /// Take new versions again
        #[arg(long, conflicts_with = "version")]
        off: bool,
    },
    /// Go back to an earlier version, and never take those after it again
    Rollback {
        /// Name of the subscription
        name: String,
        /// The version [default: the one before]
        version: Option<u64>,
        /// Why, for the record
        #[arg(long, default_value = "rolled back by hand")]
        reason: String,
    },
    /// Bring a channel into the array's object store, for nodes that follow it there
    ///
    /// What the store lacks is brought, then what is newest; then what the folder no longer has is
    /// removed. Ended at any moment, one version is whole there.
    Upload {
        /// Folder of the channel, as it was published or mirrored
        channel: PathBuf,
        /// Where to: objects:NAME is NAME/ in array.objects
        address: String,
    },
    /// Keep a verified copy of a channel, to be served to others
    Mirror {
        /// Where the channel is: https://, http://, file:// or a folder
        url: String,
        /// Folder of the copy
        folder: PathBuf,
        /// The channel's first root; a copy that is there has it already
        #[arg(long, value_name = "FILE")]
        root: Option<PathBuf>,
    },
}

/// How long metadata count.
#[derive(Debug, Clone, Copy, clap::Args)]
struct LifetimeArgs {
    /// Days that a root counts
    #[arg(long, value_name = "DAYS", default_value_t = Lifetimes::default().root_days)]
    root_days: u32,
    /// Days that a version counts
    #[arg(long, value_name = "DAYS", default_value_t = Lifetimes::default().targets_days)]
    targets_days: u32,
    /// Days that a snapshot counts
    #[arg(long, value_name = "DAYS", default_value_t = Lifetimes::default().snapshot_days)]
    snapshot_days: u32,
    /// Hours that a timestamp counts: publish or refresh more often than that
    #[arg(long, value_name = "HOURS", default_value_t = Lifetimes::default().timestamp_hours)]
    timestamp_hours: u32,
}

impl From<LifetimeArgs> for Lifetimes {
    fn from(args: LifetimeArgs) -> Self {
        let LifetimeArgs { root_days, targets_days, snapshot_days, timestamp_hours } = args;
        Lifetimes { root_days, targets_days, snapshot_days, timestamp_hours }
    }
}

/// A role of a channel on the command line.
fn role(name: &str) -> Result<RoleName, String> {
    let found = RoleName::ALL.into_iter().find(|role| role.name() == name);
    found.ok_or_else(|| "there are root, targets, snapshot and timestamp".to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Init(init) => publish::init(init)?,
        Action::Keys(change) => keys::run(change)?,
        Action::Publish(publish) => publish::publish(publish)?,
        Action::Import(import) => spamassassin::import(&args.node, import)?,
        Action::Verify { channel } => show::verify(channel)?,
        Action::Show { channel: Some(channel), json } => show::channel(channel, *json)?,
        Action::Show { channel: None, json } => show::subscriptions(&args.node, *json)?,
        Action::Diff { channel, from, to, json } => diff::run(channel, (*from, *to), *json)?,
        Action::Subscribe(subscribe) => follow::subscribe(&args.node, subscribe)?,
        Action::Pull { name } => follow::pull(&args.node, name.as_deref())?,
        Action::Promote { name, version } => follow::promote(&args.node, name, *version)?,
        Action::Reject { name, version, reason } => {
            follow::reject(&args.node, name, *version, reason)?;
        }
        Action::Pin { name, version, off } => follow::pin(&args.node, name, *version, *off)?,
        Action::Rollback { name, version, reason } => {
            follow::roll_back(&args.node, name, *version, reason)?;
        }
        Action::Upload { channel, address } => follow::upload(&args.node, channel, address)?,
        Action::Mirror { url, folder, root } => follow::mirror(url, folder, root.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds from 1970.
fn now_s() -> i64 {
    gauntlet_gateway::clock::now_ms() / 1000
}
