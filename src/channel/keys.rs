//! `gauntlet channel keys`: who may sign for a channel.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use gauntlet_channel::keys::PublicKey;
use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::repository::{Change, KeyFolder, Lifetimes, Repository, Staged};

use super::{LifetimeArgs, now_s, role};

/// Digits of a key's id that are shown.
const ID_DIGITS: usize = 16;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder of the channel
    channel: PathBuf,
    /// Folder of the keys; for changes, with keys of the root
    #[arg(short, long, value_name = "FOLDER")]
    keys: PathBuf,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Say which keys each role has, and which of them are here
    List,
    /// Make a key for a role; for targets, snapshot and timestamp instead of those it has
    Rotate {
        /// root, targets, snapshot or timestamp
        #[arg(value_parser = role)]
        role: RoleName,
    },
    /// Let a further key sign for a role
    Add {
        /// root, targets, snapshot or timestamp
        #[arg(value_parser = role)]
        role: RoleName,
        /// Its public half in 64 hexadecimal digits [default: of a key that is made]
        #[arg(long, value_name = "HEX")]
        public: Option<String>,
    },
    /// Let a key no longer sign for a role
    Remove {
        /// root, targets, snapshot or timestamp
        #[arg(value_parser = role)]
        role: RoleName,
        /// Its id, or the beginning of it
        id: String,
    },
    /// Set how many keys of a role must sign
    Threshold {
        /// root, targets, snapshot or timestamp
        #[arg(value_parser = role)]
        role: RoleName,
        /// Number of keys
        keys: u32,
    },
    /// Give the root a later expiry
    Renew,
    /// Add the signatures of these keys to a new root that waits for them
    Sign,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let keys = KeyFolder::new(&args.keys);
    let mut channel = Repository::open(&args.channel)?;
    check_keys(&channel, &keys, &args.action)?;
    let changes = match &args.action {
        Action::List => return list(&channel, &keys),
        Action::Sign => {
            let staged = channel.add_signatures(&keys)?;
            return settle(&mut channel, &keys, args.lifetimes.into(), &staged);
        }
        Action::Renew => vec![Change::Renew],
        Action::Rotate { role: RoleName::Root } => {
            vec![Change::Add(RoleName::Root, keys.create(RoleName::Root)?.public())]
        }
        Action::Rotate { role } => vec![Change::Replace(*role, keys.create(*role)?.public())],
        Action::Add { role, public: None } => {
            vec![Change::Add(*role, keys.create(*role)?.public())]
        }
        Action::Add { role, public: Some(hex) } => vec![Change::Add(*role, public_key(hex)?)],
        Action::Remove { role, id } => vec![Change::Remove(*role, id.clone())],
        Action::Threshold { role, keys } => vec![Change::Threshold(*role, *keys)],
    };
    let staged = channel.change_keys(&changes, &keys, args.lifetimes.into(), now_s())?;
    settle(&mut channel, &keys, args.lifetimes.into(), &staged)
}

/// Refuses a folder that has nothing to do with the channel: a new root without a signature would
/// lie there and wait. What makes a key may begin with an empty folder: others then sign.
fn check_keys(channel: &Repository, keys: &KeyFolder, action: &Action) -> anyhow::Result<()> {
    match action {
        Action::List | Action::Rotate { .. } | Action::Add { public: None, .. } => return Ok(()),
        // Perhaps with a key that only the waiting root names.
        Action::Sign => return Ok(keys.all(RoleName::Root).map(drop)?),
        _ => {}
    }
    for role in RoleName::ALL {
        let named = &channel.root().role(role)?.keyids;
        if keys.some(role)?.iter().any(|key| named.contains(&key.public().id())) {
            return Ok(());
        }
    }
    bail!(
        "--keys {}: no key of this channel is here; `gauntlet channel keys {} --keys {} list` \
         names those that it has",
        keys.folder().display(),
        channel.folder().display(),
        keys.folder().display()
    )
}

fn public_key(hex: &str) -> anyhow::Result<PublicKey> {
    match gauntlet_channel::hex::decode(hex).filter(|bytes| bytes.len() == 32) {
        Some(bytes) => Ok(PublicKey::ed25519(&bytes)),
        None => bail!("--public {hex:?}: not 64 hexadecimal digits"),
    }
}

/// Says what became of a new root, and signs the rest anew if the keys for that are here.
fn settle(
    channel: &mut Repository,
    keys: &KeyFolder,
    lifetimes: Lifetimes,
    staged: &Staged,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match staged {
        Staged::Waits(path) => {
            writeln!(out, "{}: too few keys of the root have signed it", path.display())?;
            let sign = "`gauntlet channel keys CHANNEL --keys FOLDER sign`";
            writeln!(out, "whoever has the others: {sign}")?;
        }
        Staged::InForce(version) => {
            writeln!(out, "root {version} is in force")?;
            match channel.refresh(keys, lifetimes, now_s()) {
                Ok(version) => writeln!(out, "version {version} is signed by its keys")?,
                Err(error) => {
                    let hint = "run `gauntlet channel publish --refresh` where the others are";
                    writeln!(out, "the rest is not signed anew ({error}): {hint}")?;
                }
            }
        }
    }
    Ok(())
}

fn list(channel: &Repository, keys: &KeyFolder) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let root = channel.root();
    writeln!(out, "root {} expires {}", root.version, root.expires)?;
    for role in RoleName::ALL {
        let here = keys.some(role)?;
        let named = root.role(role)?;
        writeln!(out, "{}: {} of {} must sign", role.name(), named.threshold, named.keyids.len())?;
        for id in &named.keyids {
            let file = here.iter().find(|key| key.public().id() == *id);
            let place = file.map_or("not here".to_owned(), |key| key.path().display().to_string());
            writeln!(out, "  {}  {place}", id.get(..ID_DIGITS).unwrap_or(id))?;
        }
    }
    Ok(())
}
