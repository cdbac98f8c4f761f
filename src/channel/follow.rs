//! `gauntlet channel subscribe`, `pull`, `pin`, `rollback` and `mirror`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_channel::pull::Outcome;
use gauntlet_channel::subscription::{State, Subscription, read_state};
use gauntlet_gateway::config::{ChannelSettings, Config, mask};

pub(super) use super::advance::{folder, names};
use super::advance::{mirror_of, random, read_root, step};
use super::objects_mirror::{Brought, ObjectsMirror};
use super::{now_s, orders, self_test, web_mirror};
use crate::messages::visible;
use crate::node_args::NodeArgs;

#[derive(Debug, clap::Args)]
pub(super) struct SubscribeArgs {
    /// A name for it: letters, digits, '-' and '_'
    name: String,
    /// Where it is: https://, http://, file://, or objects:NAME in array.objects
    url: String,
    /// The channel's first root (1.root.json), over a way that you trust
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
}

pub(super) fn subscribe(node: &NodeArgs, args: &SubscribeArgs) -> anyhow::Result<()> {
    let root = read_root(&args.root).context("--root")?;
    let config = node.load_existing()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if args.name.is_empty() || !args.name.chars().all(is_plain) {
        bail!("{:?}: a name has letters, digits, '-' and '_' only", args.name);
    }
    mirror_of(&args.url, &config)?;
    let folder = folder(&config, &args.name);
    Subscription::begin(&folder, &args.url, &root)?;
    let mut out = std::io::stdout().lock();
    let root = std::path::absolute(&args.root)?;
    writeln!(out, "subscribed; `gauntlet channel pull {}` brings the newest version", args.name)?;
    writeln!(out, "for a node that follows it by itself:")?;
    writeln!(out, "\n[[channel]]\nname = {:?}\nurl = {:?}\nroot = {root:?}", args.name, args.url)?;
    Ok(())
}

/// The settings of a subscription: those of the configuration, if it has some.
fn settings(config: &Config, name: &str) -> ChannelSettings {
    let named = config.channel.iter().find(|channel| channel.name == name).cloned();
    named.unwrap_or_else(|| ChannelSettings {
        name: name.to_owned(),
        url: read_state(&folder(config, name)).url,
        ..ChannelSettings::default()
    })
}

pub(super) fn pull(node: &NodeArgs, name: Option<&str>) -> anyhow::Result<()> {
    let config = node.load_existing()?;
    let all = match name {
        Some(name) => vec![name.to_owned()],
        None => names(&config)?,
    };
    if all.is_empty() {
        bail!("no subscription; `gauntlet channel subscribe` begins one");
    }
    let mut failed = None;
    for name in all {
        if let Err(error) = pull_one(&config, &name) {
            eprintln!("gauntlet: {name}: {error:#}");
            failed = Some(name);
        }
    }
    match failed {
        Some(name) => bail!("{name}: nothing has changed"),
        None => Ok(()),
    }
}

fn pull_one(config: &Config, name: &str) -> anyhow::Result<()> {
    let mut subscription = Subscription::open(&folder(config, name))?;
    let settings = settings(config, name);
    let asking = (config, now_s());
    let taken = step(&mut subscription, &settings, asking, (None, &self_test::run));
    let taken = taken.and_then(|step| {
        if let Some(content) = &step.ready {
            subscription.generations.promote(content.version)?;
            subscription.generations.keep(settings.versions_max)?;
        }
        Ok(step)
    });
    let error = taken.as_ref().err().map(|error| format!("{error:#}"));
    subscription.note(error.as_deref(), settings.interval_seconds, now_s(), random());
    subscription.save()?;
    let step = taken?;
    let costs = step.costs;
    let what = match step.outcome {
        Outcome::Unchanged => "nothing new".to_owned(),
        Outcome::Ready(version) => format!("version {version} is in force"),
        Outcome::NotWanted(version) => {
            let why = unwanted(&subscription.state, name, version);
            format!("version {version} is there, and not wanted: {why}")
        }
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{name}: {what} ({} requests, {} bytes; {} files were here, {} came as deltas or packed, \
         {} as they are)",
        costs.requests, costs.bytes, costs.linked, costs.deltas, costs.whole
    )?;
    Ok(())
}

/// What keeps a version away, and what undoes it.
fn unwanted(state: &State, name: &str, version: u64) -> String {
    match (state.rejected.get(&version), state.pinned) {
        (Some(reason), _) => format!(
            "it is rejected ({}); `gauntlet channel promote {name} {version}` takes it",
            visible(reason)
        ),
        (None, Some(pinned)) => format!(
            "the channel is pinned to version {pinned}; `gauntlet channel pin {name} --off` takes \
             new ones"
        ),
        (None, None) => "nothing keeps it away any more".to_owned(),
    }
}

pub(super) fn promote(node: &NodeArgs, name: &str, version: u64) -> anyhow::Result<()> {
    say(&orders::promote(&node.load_existing()?, name, version)?)
}

pub(super) fn reject(
    node: &NodeArgs,
    name: &str,
    version: u64,
    reason: &str,
) -> anyhow::Result<()> {
    say(&orders::reject(&node.load_existing()?, name, version, reason)?)
}

pub(super) fn pin(
    node: &NodeArgs,
    name: &str,
    version: Option<u64>,
    off: bool,
) -> anyhow::Result<()> {
    let config = node.load_existing()?;
    say(&match off {
        true => orders::unpin(&config, name)?,
        false => orders::pin(&config, name, version)?,
    })
}

pub(super) fn roll_back(
    node: &NodeArgs,
    name: &str,
    version: Option<u64>,
    reason: &str,
) -> anyhow::Result<()> {
    say(&orders::roll_back(&node.load_existing()?, name, version, reason)?)
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

pub(super) fn upload(node: &NodeArgs, channel: &Path, address: &str) -> anyhow::Result<()> {
    let store = ObjectsMirror::new(address, &node.load()?)?;
    let brought = store.bring(channel)?;
    let mut out = std::io::stdout().lock();
    let Brought { files, bytes, removed } = brought;
    writeln!(
        out,
        "{address} is up to date: {files} files ({bytes} bytes) brought, {removed} removed"
    )?;
    Ok(())
}

pub(super) fn mirror(url: &str, copy: &Path, root: Option<&Path>) -> anyhow::Result<()> {
    let root = root.map(read_root).transpose().context("--root")?;
    let mut source = web_mirror::of(url, Path::new(""))?;
    let copied = gauntlet_channel::mirror::copy(&mut *source, copy, root.as_deref(), now_s());
    let (version, costs) = copied.with_context(|| mask(url))?;
    let mut out = std::io::stdout().lock();
    let (requests, bytes) = (costs.requests, costs.bytes);
    writeln!(
        out,
        "version {version} is in {} ({requests} requests, {bytes} bytes)",
        copy.display()
    )?;
    Ok(())
}
