//! What people decide about versions of channels, on the command line and in the console: written
//! into the subscription on disk, which a running node follows within seconds.

use anyhow::{Context, bail, ensure};
use gauntlet_channel::subscription::Subscription;
use gauntlet_gateway::config::Config;

use super::advance::folder;

fn open(config: &Config, name: &str) -> anyhow::Result<Subscription> {
    Ok(Subscription::open(&folder(config, name))?)
}

/// Lets a version judge that is tried or held. What was done, in a sentence.
pub(super) fn promote(config: &Config, name: &str, version: u64) -> anyhow::Result<String> {
    let mut subscription = open(config, name)?;
    subscription.state.rejected.remove(&version);
    subscription.state.approved = Some(version);
    // The mirror's "nothing new" would leave the change undone.
    (subscription.state.etag, subscription.state.next_s) = (None, 0);
    subscription.save()?;
    Ok(format!("{name}: version {version} judges as soon as the node has it"))
}

/// Never lets a version judge.
pub(super) fn reject(
    config: &Config,
    name: &str,
    version: u64,
    reason: &str,
) -> anyhow::Result<String> {
    let mut subscription = open(config, name)?;
    if subscription.generations.current() == Some(version) {
        bail!("version {version} judges: `gauntlet channel rollback {name}` goes back");
    }
    subscription.reject(version, reason)?;
    Ok(format!("{name}: version {version} never judges"))
}

/// Stays at a version: this one, or the one in force.
pub(super) fn pin(config: &Config, name: &str, version: Option<u64>) -> anyhow::Result<String> {
    let mut subscription = open(config, name)?;
    let current = subscription.generations.current();
    let version = version.or(current).context("nothing is in force")?;
    if Some(version) != current {
        if subscription.generations.check(version).is_ok() {
            subscription.generations.promote(version)?;
        }
        subscription.state.rejected.remove(&version);
    }
    set_pinned(subscription, Some(version))?;
    Ok(format!("{name}: stays at version {version}"))
}

/// Takes new versions again.
pub(super) fn unpin(config: &Config, name: &str) -> anyhow::Result<String> {
    set_pinned(open(config, name)?, None)?;
    Ok(format!("{name}: takes new versions"))
}

fn set_pinned(mut subscription: Subscription, version: Option<u64>) -> anyhow::Result<()> {
    subscription.state.pinned = version;
    // The mirror's "nothing new" would leave the change undone.
    subscription.state.etag = None;
    Ok(subscription.save()?)
}

/// Goes back to an earlier version, and never takes those after it again.
pub(super) fn roll_back(
    config: &Config,
    name: &str,
    version: Option<u64>,
    reason: &str,
) -> anyhow::Result<String> {
    let mut subscription = open(config, name)?;
    let before = subscription.generations.current();
    ensure!(
        version.is_none() || version < before,
        "{name}: version {} is not earlier than the one in force",
        version.unwrap_or_default()
    );
    let now = subscription.roll_back(version, reason)?;
    let before = before.map_or("none".to_owned(), |version| version.to_string());
    Ok(match now {
        Some(now) => format!("{name}: back from {before} to version {now}"),
        None => format!("{name}: back from {before} to what ships with the program"),
    })
}
