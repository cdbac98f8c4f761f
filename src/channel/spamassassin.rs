//! `gauntlet channel import`: rules of SpamAssassin's own channels, as `sa-update` has them, into a
//! folder that is published.
//!
//! A source is the folder that `sa-update` keeps (`updates_spamassassin_org`), or a channel's
//! archive (`1928000.tar.gz`) with its signature beside it (`1928000.tar.gz.asc`), which `gpgv`
//! checks against a keyring. Only rule files (`*.cf`) are taken: what loads plugins or is a program
//! is not.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use gauntlet_channel::bundle::check_name;

use super::now_s;
use super::publish::tempfile_folder;
use super::sa_state::{self, State, Taken};
use super::sa_update::{self, Asked, Fetched};
use crate::node_args::NodeArgs;

/// Rule files of a channel.
const FILES_MAX: usize = 1_000;
/// Entries of an archive.
const ENTRIES_MAX: usize = 10_000;
/// Bytes of one rule file, and of all.
const FILE_BYTES_MAX: u64 = 16 << 20;
const BYTES_MAX: u64 = 64 << 20;
/// Bytes of an archive, packed.
const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Folder of them in what is published.
const FOLDER: &str = "spamassassin";

#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// Folder of `sa-update`, or a channel's archive with its signature FILE.asc beside it
    #[arg(required_unless_present = "sa_channel")]
    source: Option<PathBuf>,
    /// Fetch the newest version of this channel, as `sa-update` does: DNS and a mirror say which
    #[arg(long, value_name = "CHANNEL", conflicts_with = "source")]
    sa_channel: Option<String>,
    /// The SpamAssassin whose rules are fetched
    #[arg(long, value_name = "VERSION", default_value = sa_update::VERSION, requires = "sa_channel")]
    sa_version: String,
    /// What was taken before [default: FOLDER.sa-channels.json beside the folder]
    #[arg(long, value_name = "FILE", requires = "sa_channel")]
    state: Option<PathBuf>,
    /// Take a version before the one that was taken, too
    #[arg(long, requires = "sa_channel")]
    allow_older: bool,
    /// Folder that is published: its spamassassin/ is replaced
    #[arg(long, value_name = "FOLDER")]
    into: PathBuf,
    /// Keys that may sign the archive, in one file (`gpg --export KEY > FILE`)
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Take an archive whatever its signature is, or without one
    #[arg(long, conflicts_with = "keyring")]
    unsigned: bool,
}

/// Name and content of rule files.
type Rules = Vec<(String, Vec<u8>)>;

pub(super) fn import(node: &NodeArgs, args: &ImportArgs) -> anyhow::Result<()> {
    let is_archive = args.source.as_ref().is_none_or(|source| !source.is_dir());
    if is_archive && args.keyring.is_none() && !args.unsigned {
        bail!("an archive needs --keyring, or --unsigned");
    }
    match (&args.source, &args.sa_channel) {
        (Some(source), _) => take_over(args, source, "").map(drop),
        (None, Some(channel)) => import_channel(node, args, channel),
        (None, None) => bail!("name a folder or an archive, or --sa-channel"),
    }
}

/// Takes the newest version of a channel, if it is another than the one that was taken.
fn import_channel(node: &NodeArgs, args: &ImportArgs, channel: &str) -> anyhow::Result<()> {
    let path = args.state.clone().unwrap_or_else(|| State::path_of(&args.into));
    let (state, fetched) = (State::read(&path), tempfile_folder()?);
    let taken = state.of(channel);
    // What somebody changed or removed is fetched again.
    let is_whole =
        of_folder(&args.into.join(FOLDER)).is_ok_and(|r| sa_state::hash(&r) == taken.rules);
    let asked = Asked {
        channel,
        version: &args.sa_version,
        taken: &taken,
        is_whole,
        allow_older: args.allow_older,
        now_s: now_s(),
    };
    match sa_update::fetch(&node.load()?, &asked, fetched.path())? {
        Fetched::Same(version) => {
            writeln!(std::io::stdout(), "{channel}: nothing new, version {version}")?;
        }
        Fetched::Archive(archive, now) => {
            let rules = take_over(args, &archive, &format!("{channel} version {}\n", now.version))?;
            state.note(&path, channel, Taken { rules, ..now })?;
        }
    }
    Ok(())
}

/// Puts the rules of a folder or an archive into the folder that is published. Returns their hash.
fn take_over(args: &ImportArgs, source: &Path, heading: &str) -> anyhow::Result<String> {
    let rules = match source.is_dir() {
        true => of_folder(source)?,
        false => {
            if let Some(keyring) = &args.keyring {
                verify(source, keyring)?;
            }
            of_archive(source)?
        }
    };
    ensure!(!rules.is_empty(), "{}: no rule files (*.cf)", source.display());
    let bytes: usize = rules.iter().map(|(_, text)| text.len()).sum();
    replace(&args.into, &rules)?;
    let (count, into) = (rules.len(), args.into.join(FOLDER));
    writeln!(
        std::io::stdout(),
        "{heading}{count} rule files with {bytes} bytes are in {}",
        into.display()
    )?;
    Ok(sa_state::hash(&rules))
}

/// Checks an archive's signature with `gpgv`.
fn verify(archive: &Path, keyring: &Path) -> anyhow::Result<()> {
    let mut signature = archive.as_os_str().to_owned();
    signature.push(".asc");
    ensure!(Path::new(&signature).is_file(), "{}: no such signature", signature.display());
    // gpgv looks for a name without a slash in its own folder.
    let keyring = std::path::absolute(keyring)?;
    ensure!(keyring.is_file(), "--keyring {}: no such file", keyring.display());
    let out =
        Command::new("gpgv").arg("--keyring").arg(&keyring).arg(&signature).arg(archive).output();
    let out = out.context("gpgv, which checks signatures of SpamAssassin's channels")?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.status.success(),
        "{}: not signed by a key of the keyring: {said}",
        archive.display()
    );
    Ok(())
}

fn of_folder(folder: &Path) -> anyhow::Result<Rules> {
    let mut rules = Rules::new();
    let mut left = BYTES_MAX;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_rules(&name) && path.is_file() {
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            take(&mut rules, &name, file, &mut left)?;
        }
    }
    rules.sort();
    Ok(rules)
}

fn of_archive(path: &Path) -> anyhow::Result<Rules> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(named)?;
    ensure!(file.metadata()?.len() <= ARCHIVE_BYTES_MAX, "{}: too large", path.display());
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let (mut rules, mut left) = (Rules::new(), BYTES_MAX);
    for (number, entry) in archive.entries().with_context(named)?.enumerate() {
        ensure!(number < ENTRIES_MAX, "{}: too many entries", path.display());
        let entry = entry.with_context(named)?;
        let name = entry.path().with_context(named)?.to_string_lossy().into_owned();
        let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
        // Channels are flat; what lies in folders is no rule file of one.
        if entry.header().entry_type().is_file() && is_rules(&name) {
            take(&mut rules, &name, entry, &mut left).with_context(named)?;
        }
    }
    rules.sort();
    Ok(rules)
}

fn is_rules(name: &str) -> bool {
    name.ends_with(".cf") && !name.contains('/')
}

fn take(rules: &mut Rules, name: &str, from: impl Read, left: &mut u64) -> anyhow::Result<()> {
    check_name(&format!("{FOLDER}/{name}"))?;
    ensure!(rules.len() < FILES_MAX, "more than {FILES_MAX} rule files");
    let most = FILE_BYTES_MAX.min(*left);
    let mut text = Vec::new();
    from.take(most + 1).read_to_end(&mut text).with_context(|| name.to_owned())?;
    ensure!(text.len() as u64 <= most, "{name}: larger than {most} bytes");
    *left -= text.len() as u64;
    rules.push((name.to_owned(), text));
    Ok(())
}

/// Puts rule files in place of those that are there.
fn replace(into: &Path, rules: &Rules) -> anyhow::Result<()> {
    let (folder, beside) = (into.join(FOLDER), into.join(format!("{FOLDER}.new")));
    let named = || beside.display().to_string();
    if beside.exists() {
        fs::remove_dir_all(&beside).with_context(named)?;
    }
    fs::create_dir_all(&beside).with_context(named)?;
    for (name, text) in rules {
        fs::write(beside.join(name), text).with_context(named)?;
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::rename(&beside, &folder).with_context(|| folder.display().to_string())
}
