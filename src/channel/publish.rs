//! `gauntlet channel init` and `publish`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_channel::bundle::Kind;
use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::repository::{KeyFolder, PublishOptions, Published, Repository, Signer};
use gauntlet_learning::url_entries::EntryRules;

use super::content::{Content, Known};
use super::probes::{self, GoodMail, Sources, URL_DAYS, Written};
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
    /// Publish what this node's probes brought, too: signatures, URLs and hints of order go into
    /// the folder
    #[arg(long, value_name = "DATA", conflicts_with = "refresh")]
    probes: Option<PathBuf>,
    /// Messages, folders or mailboxes of good mail: what resembles it is not published
    #[arg(long, value_name = "PATH", requires = "probes")]
    good: Vec<PathBuf>,
    /// Go on, and look every so many seconds for what is new
    #[arg(long, value_name = "SECONDS", conflicts_with = "refresh",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
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
    // Before keys are made: those of an attempt that fails would belong to no channel.
    Repository::check_new(&args.channel)?;
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
    let Some(folder) = &args.folder else {
        let mut channel = Repository::open(&args.channel)?;
        let keys = KeyFolder::new(&args.keys);
        let version = channel.refresh(&keys, args.lifetimes.into(), now_s())?;
        writeln!(std::io::stdout().lock(), "version {version} signed again")?;
        return Ok(());
    };
    let mut known = GoodMail::default();
    let Some(seconds) = args.every else {
        return publish_once(args, folder, Unchanged::Sign, &mut known);
    };
    let life_s = u64::from(args.lifetimes.timestamp_hours) * 3600;
    let mut signed = None::<Instant>;
    loop {
        let is_old = signed.is_none_or(|at| at.elapsed().as_secs() > life_s / SIGN_SHARE);
        let unchanged = if is_old { Unchanged::Sign } else { Unchanged::Leave };
        match publish_once(args, folder, unchanged, &mut known) {
            Ok(()) if is_old => signed = Some(Instant::now()),
            Ok(()) => {}
            // The next round may do better: a file that is being written, a full disk.
            Err(error) => eprintln!("gauntlet: {error:#}"),
        }
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

/// A timestamp is signed again when so much of its life is over, as a divisor: the rest is left for
/// whoever is slow, and for a publisher that is down.
pub(super) const SIGN_SHARE: u64 = 4;

/// What is done where nothing is new.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// What is there is signed again.
    Sign,
    /// Nothing.
    Leave,
}

/// What is published, and how.
pub(super) struct Order<'o> {
    /// Folder of the channel.
    pub(super) channel: &'o Path,
    /// Folder with what is published.
    pub(super) folder: &'o Path,
    /// Who signs.
    pub(super) signer: &'o dyn Signer,
    /// Folder for what is compiled to be checked.
    pub(super) derived: &'o Path,
    pub(super) options: PublishOptions,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Made {
    /// A version; with the number of its files.
    Published(Published, usize),
    /// This version was signed again.
    Signed(u64),
    /// Nothing was to be done.
    Nothing,
}

/// Publishes a folder if it holds anything new.
///
/// # Errors
/// If no node could use it, or it cannot be written; the version before stays the newest.
pub(super) fn publish_folder(order: &Order<'_>, unchanged: Unchanged) -> anyhow::Result<Made> {
    let mut channel = Repository::open(order.channel)?;
    if channel.has(order.folder)? {
        return Ok(match unchanged {
            Unchanged::Sign => {
                Made::Signed(channel.refresh(order.signer, order.options.lifetimes, now_s())?)
            }
            Unchanged::Leave => Made::Nothing,
        });
    }
    check_kinds(&channel.names(order.folder)?)?;
    // What no node could take over is told here, not by ten thousand nodes.
    let content = Content::load("published", 0, (order.folder, order.derived), Known::default());
    let content = content.with_context(|| order.folder.display().to_string())?;
    self_test::run(&content)?;
    let made = channel.publish(order.folder, order.signer, &order.options, now_s())?;
    Ok(Made::Published(made, channel.targets().targets.len()))
}

/// Refuses what no node would read.
fn check_kinds(names: &[String]) -> anyhow::Result<()> {
    match names.iter().find(|name| Kind::of(name) == Some(Kind::Policy)) {
        Some(name) => bail!(
            "{name}: no node takes its policy from a channel, which could have mail sent \
             elsewhere; publish rules that say what mail is, and let each site say what is done \
             with it"
        ),
        None => Ok(()),
    }
}

fn publish_once(
    args: &PublishArgs,
    folder: &Path,
    unchanged: Unchanged,
    known: &mut GoodMail,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if let Some(data) = &args.probes {
        let sources = Sources {
            data,
            good: &args.good,
            held: None,
            rules: EntryRules::default(),
            url_days: URL_DAYS,
        };
        let written = probes::write(&sources, known, folder, now_s())?;
        if unchanged == Unchanged::Sign {
            let Written { signatures, resembling, urls, urls_left_out } = written;
            writeln!(
                out,
                "{signatures} signatures of probes, {resembling} resemble good mail; {urls} \
                 entries of URL lists, {urls_left_out} hosts left out"
            )?;
        }
    }
    let derived = tempfile_folder()?;
    let options = PublishOptions {
        note: args.note.clone(),
        requires: args.requires.clone(),
        lifetimes: args.lifetimes.into(),
        delta_versions: args.deltas,
        keep_versions: args.keep,
    };
    let (channel, derived) = (&*args.channel, derived.path());
    let signer = &KeyFolder::new(&args.keys);
    match publish_folder(&Order { channel, folder, signer, derived, options }, unchanged)? {
        Made::Published(made, files) => writeln!(
            out,
            "version {}: {files} files with {} bytes, {} new or changed; a node of the version \
             before fetches {} bytes of them",
            made.version, made.bytes, made.changed, made.delta_bytes
        )?,
        Made::Signed(version) => {
            writeln!(out, "version {version} has all of it, and is signed again")?;
        }
        Made::Nothing => {}
    }
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
