//! What people decide about versions of channels, on the command line and in the console: written
//! into the subscription on disk, which a running node follows within seconds.

use anyhow::{Context, bail, ensure};
use gauntlet_channel::subscription::Subscription;
use gauntlet_channel::trust::Trusted;
use gauntlet_gateway::config::Config;

use super::advance::folder;

fn open(config: &Config, name: &str) -> anyhow::Result<Subscription> {
    Ok(Subscription::open(&folder(config, name))?)
}

/// Refuses a version that is neither on disk nor the one that the mirror offered last: a slip of
/// the pen would keep every later version away, or let one judge that nobody has seen.
fn ensure_known(subscription: &Subscription, name: &str, version: u64) -> anyhow::Result<()> {
    let generations = &subscription.generations;
    let mut known = generations.versions();
    known.retain(|version| generations.check(*version).is_ok());
    let trusted = subscription.trusted().ok();
    let offered = trusted.as_ref().and_then(Trusted::targets).map(|targets| targets.version);
    known.extend(offered.filter(|offered| !known.contains(offered)));
    if known.contains(&version) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(u64::to_string).collect();
    match known.is_empty() {
        true => bail!("{name}: no version is here yet; `gauntlet channel pull {name}` brings one"),
        false => bail!(
            "{name}: version {version} is neither kept here nor the newest one; there are: {} \
             (`gauntlet channel pull {name}` asks for more)",
            known.join(", ")
        ),
    }
}

/// Lets a version judge that is tried or held. What was done, in a sentence.
pub(super) fn promote(config: &Config, name: &str, version: u64) -> anyhow::Result<String> {
    let mut subscription = open(config, name)?;
    ensure_known(&subscription, name, version)?;
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
        ensure_known(&subscription, name, version)?;
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
