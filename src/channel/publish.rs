//! `gauntlet channel init` and `publish`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::repository::{KeyFolder, PublishOptions, Repository};

use super::content::Content;
use super::{LifetimeArgs, now_s, self_test};

/// Keys of the root that `init` makes at most.
const ROOT_KEYS_MAX: i64 = 16;

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// Folder of the channel: what is served
    channel: PathBuf,
    /// Folder of the keys; those that are missing are made. It must never be served
    #[arg(short, long, value_name = "FOLDER")]
    keys: PathBuf,
    /// Keys of the root to make, if there are none
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=ROOT_KEYS_MAX))]
    root_keys: u32,
    /// So many of them must sign a new root
    #[arg(long, value_name = "N", default_value_t = 1)]
    threshold: u32,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct PublishArgs {
    /// Folder of the channel
    channel: PathBuf,
    /// Folder with what is published: rules/, spamassassin/, model/, signatures/, urls/ ...
    #[arg(required_unless_present = "refresh")]
    folder: Option<PathBuf>,
    /// Folder of the keys of targets, snapshot and timestamp
    #[arg(short, long, value_name = "FOLDER")]
    keys: PathBuf,
    /// What is new, for whoever reads `channel show`
    #[arg(long, default_value = "")]
    note: String,
    /// Earliest program that understands it
    #[arg(long, value_name = "VERSION", default_value = "")]
    requires: String,
    /// Publish nothing new, and sign what is there again, so that it does not expire
    #[arg(long, conflicts_with = "folder")]
    refresh: bool,
    /// Earlier versions from which a delta leads to this one
    #[arg(long, value_name = "N", default_value_t = 12)]
    deltas: u64,
    /// Earlier versions whose files stay
    #[arg(long, value_name = "N", default_value_t = 32)]
    keep: u64,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
}

pub(super) fn init(args: &InitArgs) -> anyhow::Result<()> {
    let keys = KeyFolder::new(&args.keys);
    if is_inside(&args.keys, &args.channel) {
        bail!("--keys {}: inside of what is served", args.keys.display());
    }
    let mut out = std::io::stdout().lock();
    for role in RoleName::ALL {
        if !keys.some(role)?.is_empty() {
            continue;
        }
        let count = if role == RoleName::Root { args.root_keys } else { 1 };
        for _ in 0..count {
            let made = keys.create(role)?;
            writeln!(out, "made     {}", made.path().display())?;
        }
    }
    let lifetimes = args.lifetimes.into();
    let made = Repository::init(&args.channel, &keys, args.threshold, lifetimes, now_s())?;
    let root = made.folder().join(RoleName::Root.file_name(1));
    writeln!(out, "channel  {}", made.folder().display())?;
    writeln!(out, "root     {} is what subscribers need, over a way they trust", root.display())?;
    writeln!(out, "next     take root-*.pem off this machine, then `gauntlet channel publish`")?;
    Ok(())
}

fn is_inside(path: &Path, folder: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute(path).starts_with(absolute(folder))
}

pub(super) fn publish(args: &PublishArgs) -> anyhow::Result<()> {
    let keys = KeyFolder::new(&args.keys);
    let mut channel = Repository::open(&args.channel)?;
    let mut out = std::io::stdout().lock();
    let Some(folder) = &args.folder else {
        let version = channel.refresh(&keys, args.lifetimes.into(), now_s())?;
        writeln!(out, "version {version} signed again")?;
        return Ok(());
    };
    // What no node could take over is told here, not by ten thousand nodes.
    let derived = tempfile_folder()?;
    let content = Content::load("published", 0, folder, derived.path());
    let content = content.with_context(|| folder.display().to_string())?;
    self_test::run(&content)?;
    let options = PublishOptions {
        note: args.note.clone(),
        requires: args.requires.clone(),
        lifetimes: args.lifetimes.into(),
        delta_versions: args.deltas,
        keep_versions: args.keep,
    };
    let made = channel.publish(folder, &keys, &options, now_s())?;
    writeln!(
        out,
        "version {}: {} files with {} bytes, {} new or changed; a node of the version before \
         fetches {} bytes of them",
        made.version,
        channel.targets().targets.len(),
        made.bytes,
        made.changed,
        made.delta_bytes
    )?;
    Ok(())
}

/// For what is compiled only to be checked.
pub(super) fn tempfile_folder() -> anyhow::Result<Scratch> {
    let random = u64::from_le_bytes(gauntlet_store::random::array()?);
    let path = std::env::temp_dir().join(format!("gauntlet-channel-{random:016x}"));
    gauntlet_store::files::create_folder(&path)?;
    Ok(Scratch(path))
}

/// A folder that goes with this value.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It lies where the system clears up, too.
        let _left = std::fs::remove_dir_all(&self.0);
    }
}
