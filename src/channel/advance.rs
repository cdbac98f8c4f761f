//! One step of following a channel: pull, compile, self-test; then the caller puts it in force.
//! Besides, what is on disk of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use gauntlet_channel::pull::{Costs, Mirror, Outcome, PullOptions, pull};
use gauntlet_channel::subscription::Subscription;
use gauntlet_channel::trust::Trusted;
use gauntlet_gateway::config::{ChannelSettings, Config, OBJECTS};

use super::content::{Content, Known};
use super::objects_mirror::ObjectsMirror;
use super::web_mirror;

/// Folder of all subscriptions, below the data folder.
const FOLDER: &str = "channels";
/// What is compiled from a channel's files, in its folder.
const DERIVED: &str = "derived";

/// Where a subscription lies.
pub(super) fn folder(config: &Config, name: &str) -> PathBuf {
    config.node.data.join(FOLDER).join(name)
}

/// The subscriptions that were begun, by name.
pub(super) fn names(config: &Config) -> anyhow::Result<Vec<String>> {
    let folder = config.node.data.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().join("trust/root.json").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What came of a step.
pub(super) struct Step {
    pub(super) outcome: Outcome,
    pub(super) costs: Costs,
    /// A version that is not in force yet, compiled and tested.
    pub(super) ready: Option<Arc<Content>>,
}

/// Whether a version can judge at all.
pub(super) type Test<'t> = dyn Fn(&Arc<Content>) -> anyhow::Result<()> + 't;

/// Where a channel is read from.
///
/// # Errors
/// If its address is none, or the configuration does not have what it needs.
pub(super) fn mirror_of(url: &str, config: &Config) -> anyhow::Result<Box<dyn Mirror>> {
    match url.starts_with(OBJECTS) {
        true => Ok(Box::new(ObjectsMirror::new(url, config)?)),
        false => web_mirror::of(url, &config.sender.roots),
    }
}

/// Pulls, and compiles and tests what came. What is the same in `before`, which was tested, is not
/// read again.
///
/// # Errors
/// Whatever is wrong; what is in force stays.
pub(super) fn step(
    subscription: &mut Subscription,
    settings: &ChannelSettings,
    (config, now_s): (&Config, i64),
    (before, test): (Option<&Content>, &Test<'_>),
) -> anyhow::Result<Step> {
    let mut mirror = mirror_of(&settings.url, config)?;
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let options = PullOptions { program, bytes_max: settings.bytes_max };
    let (outcome, costs) = pull(subscription, &mut *mirror, &options, now_s)?;
    let Outcome::Ready(version) = outcome else {
        return Ok(Step { outcome, costs, ready: None });
    };
    let content = load(subscription, &settings.name, version, before)?;
    test(&content).with_context(|| format!("version {version}"))?;
    Ok(Step { outcome, costs, ready: Some(content) })
}

/// Compiles a version that is on disk.
pub(super) fn load(
    subscription: &Subscription,
    name: &str,
    version: u64,
    before: Option<&Content>,
) -> anyhow::Result<Arc<Content>> {
    let manifest = subscription.generations.check(version)?;
    let derived = subscription.folder().join(DERIVED);
    let folders = (&*subscription.generations.path(version), &*derived);
    let known = Known { manifest: Some(&manifest), before };
    let loaded = Content::load(name, version, folders, known);
    loaded.with_context(|| format!("version {version}"))
}

/// A number for the spread of pulls.
pub(super) fn random() -> u64 {
    gauntlet_store::random::array().map(u64::from_le_bytes).unwrap_or_default()
}

/// A channel's root that was handed over by hand.
///
/// # Errors
/// If the file cannot be read or is no root; the file is named.
pub(super) fn read_root(path: &Path) -> anyhow::Result<Vec<u8>> {
    let root = std::fs::read(path).with_context(|| path.display().to_string())?;
    Trusted::begin(&root)
        .with_context(|| format!("{} is no root of a channel (1.root.json)", path.display()))?;
    Ok(root)
}

/// The subscription of a channel; begun, if it is new.
pub(super) fn open(config: &Config, settings: &ChannelSettings) -> anyhow::Result<Subscription> {
    let root = read_root(&settings.root).context("channel.root")?;
    Ok(Subscription::begin(&folder(config, &settings.name), &settings.url, &root)?)
}

/// The version in force on disk; an earlier one if it is damaged.
pub(super) fn in_force(
    subscription: &Subscription,
    name: &str,
    before: Option<&Content>,
) -> anyhow::Result<Option<Arc<Content>>> {
    let Some(current) = subscription.generations.current() else { return Ok(None) };
    let error = match load(subscription, name, current, before) {
        Ok(content) => return Ok(Some(content)),
        Err(error) => error,
    };
    for version in subscription.generations.judged_before(current).into_iter().rev() {
        if let Ok(content) = load(subscription, name, version, before) {
            let error = format!("{error:#}");
            tracing::error!(channel = name, error, version, "an earlier version is used instead");
            subscription.generations.promote(version)?;
            return Ok(Some(content));
        }
    }
    Err(error)
}
