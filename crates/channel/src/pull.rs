//! Bringing a new version from a mirror, verified, to the disk of a node.
//!
//! ```text
//! timestamp (304: nothing new) ─▶ roots ─▶ timestamp ─▶ snapshot ─▶ targets ─▶ files
//!                                              what is there already is linked, not fetched;
//!                                              then the smallest delta; then the whole file
//! ```
//!
//! The version is whole on disk then, and not in force: the caller tests it and says
//! [`promote`](crate::generations::Generations::promote).

mod files;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::generations::{Held, Manifest};
use crate::limits::{ROOT_BYTES_MAX, ROOTS_PER_PULL_MAX, TIMESTAMP_BYTES_MAX, VERSION_BYTES_MAX};
use crate::metadata::{MetaFile, RoleName, Targets};
use crate::subscription::Subscription;
use crate::trust::Trusted;

/// What a mirror answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is what the tag names.
    Same,
    /// The file was written out whole; perhaps it has a tag.
    Whole(Option<String>),
    /// There is no such file.
    Missing,
}

/// Something that serves a channel.
pub trait Mirror {
    /// Fetches the file of this name below the channel's address, at most so many bytes. With a
    /// tag: only if it is another than the one that the tag names.
    ///
    /// # Errors
    /// What happened, in words; also if the file is larger.
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String>;
}

/// A channel's folder on this machine (`file://`).
#[derive(Debug, Clone)]
pub struct FolderMirror(PathBuf);

impl FolderMirror {
    /// Of this folder.
    pub fn new(folder: &Path) -> Self {
        FolderMirror(folder.to_owned())
    }
}

impl Mirror for FolderMirror {
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        _etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String> {
        use std::io::Read;
        let path = self.0.join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = match gauntlet_store::files::open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // An unmounted medium is no channel that lacks a file.
                return match self.0.is_dir() {
                    true => Ok(Answer::Missing),
                    false => Err(format!("{}: {error}", self.0.display())),
                };
            }
            Err(error) => return Err(failed(error)),
        };
        let copied = std::io::copy(&mut file.take(bytes_max + 1), out).map_err(failed)?;
        match copied > bytes_max {
            true => Err(format!("{}: larger than {bytes_max} bytes", path.display())),
            false => Ok(Answer::Whole(None)),
        }
    }
}

/// What a node takes.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// The program's version, for what bundles require.
    pub program: String,
    /// Bytes of all files of a version.
    pub bytes_max: u64,
}

impl Default for PullOptions {
    fn default() -> Self {
        PullOptions { program: env!("CARGO_PKG_VERSION").to_owned(), bytes_max: VERSION_BYTES_MAX }
    }
}

/// How a pull ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing new.
    Unchanged,
    /// This version is whole on disk, and not in force yet.
    Ready(u64),
    /// There is this new version, and the subscription says not to take it.
    NotWanted(u64),
}

/// What a pull cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Costs {
    /// Requests to the mirror.
    pub requests: u64,
    /// Bytes that it sent, heads aside.
    pub bytes: u64,
    /// Files that were here already.
    pub linked: u64,
    /// Files that came as deltas or packed.
    pub deltas: u64,
    /// Files that came as they are.
    pub whole: u64,
}

/// The roots are asked for at least so often, whatever the mirror says of the timestamp.
const ROOTS_SECONDS_MAX: i64 = 86_400;

/// Pulls once.
///
/// # Errors
/// Whatever is wrong with the mirror, or with what it gives; what is in force stays.
pub fn pull(
    subscription: &mut Subscription,
    mirror: &mut dyn Mirror,
    options: &PullOptions,
    now_s: i64,
) -> Result<(Outcome, Costs), Error> {
    let mut puller = Puller { mirror, costs: Costs::default() };
    let mut trusted = subscription.trusted()?;
    let etag = puller.refresh(subscription, &mut trusted, now_s)?;
    let targets = trusted.targets().ok_or_else(|| Error::malformed("targets", "none"))?;
    let outcome = puller.take(subscription, targets, options)?;
    // Only now: before, an answer "nothing new" would have hidden what is still to be done.
    if let Some(etag) = etag {
        subscription.state.etag = Some(etag);
    }
    subscription.state.asked_s = now_s;
    Ok((outcome, puller.costs))
}

pub(crate) struct Puller<'m> {
    pub(crate) mirror: &'m mut dyn Mirror,
    pub(crate) costs: Costs,
}

impl Puller<'_> {
    pub(crate) fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, Error> {
        let mut counting = Counting { out, bytes: 0 };
        let answer = self.mirror.fetch(name, bytes_max, etag, &mut counting);
        self.costs.requests += 1;
        self.costs.bytes += counting.bytes;
        answer.map_err(|why| Error::Fetch { what: name.to_owned(), why })
    }

    /// A file that has to be there, in memory.
    pub(crate) fn bytes(&mut self, name: &str, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        match self.fetch(name, bytes_max, None, &mut bytes)? {
            Answer::Whole(_) => Ok(bytes),
            Answer::Same | Answer::Missing => Err(Error::Fetch {
                what: name.to_owned(),
                why: "the mirror does not have it".to_owned(),
            }),
        }
    }

    /// The newest metadata. Returns the mirror's tag of the timestamp, if it has one.
    fn refresh(
        &mut self,
        subscription: &mut Subscription,
        trusted: &mut Trusted,
        now_s: i64,
    ) -> Result<Option<String>, Error> {
        let state = &subscription.state;
        let is_whole = trusted.is_whole();
        let roots_are_due = now_s.saturating_sub(state.roots_asked_s) >= ROOTS_SECONDS_MAX;
        let etag = state.etag.clone().filter(|_| is_whole && !roots_are_due);
        let mut timestamp = Vec::new();
        let name = RoleName::Timestamp.file_name(0);
        let answer = self.fetch(&name, TIMESTAMP_BYTES_MAX, etag.as_deref(), &mut timestamp)?;
        let etag = match answer {
            Answer::Same if etag.is_some() => {
                trusted.check_times(now_s)?;
                return Ok(None);
            }
            Answer::Whole(etag) => etag,
            Answer::Same | Answer::Missing => {
                let why = "the mirror does not have it: is the address that of a channel?";
                return Err(Error::Fetch { what: name, why: why.to_owned() });
            }
        };
        self.roots(trusted, |bytes, _| subscription.write_trusted(RoleName::Root, bytes))?;
        trusted.check_root_time(now_s)?;
        let is_new = trusted.next_timestamp(&timestamp, now_s)?;
        if is_new || !trusted.is_whole() {
            subscription.write_trusted(RoleName::Timestamp, &timestamp)?;
            let wanted = trusted.wanted_snapshot()?.clone();
            let bytes = self.meta(RoleName::Snapshot, &wanted)?;
            trusted.next_snapshot(&bytes, now_s)?;
            subscription.write_trusted(RoleName::Snapshot, &bytes)?;
        }
        if !trusted.is_whole() {
            let wanted = trusted.wanted_targets()?.clone();
            let bytes = self.meta(RoleName::Targets, &wanted)?;
            trusted.next_targets(&bytes, now_s)?;
            subscription.write_trusted(RoleName::Targets, &bytes)?;
        }
        trusted.check_times(now_s)?;
        subscription.state.roots_asked_s = now_s;
        Ok(etag)
    }

    /// Follows the roots as far as there are any.
    pub(crate) fn roots(
        &mut self,
        trusted: &mut Trusted,
        mut keep: impl FnMut(&[u8], u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for _ in 0..ROOTS_PER_PULL_MAX {
            let version = trusted.root().version + 1;
            let mut bytes = Vec::new();
            let name = RoleName::Root.file_name(version);
            match self.fetch(&name, ROOT_BYTES_MAX, None, &mut bytes)? {
                Answer::Whole(_) => trusted.next_root(&bytes)?,
                Answer::Same | Answer::Missing => break,
            }
            keep(&bytes, version)?;
        }
        Ok(())
    }

    pub(crate) fn meta(&mut self, role: RoleName, wanted: &MetaFile) -> Result<Vec<u8>, Error> {
        let bytes_max = wanted.length.unwrap_or(u64::MAX).min(role.bytes_max());
        self.bytes(&role.file_name(wanted.version), bytes_max)
    }

    /// The files of the newest version, unless it is here or not wanted.
    fn take(
        &mut self,
        subscription: &Subscription,
        targets: &Targets,
        options: &PullOptions,
    ) -> Result<Outcome, Error> {
        let (version, state) = (targets.version, &subscription.state);
        let generations = &subscription.generations;
        // What an administrator holds is not fetched; a channel without files is none yet.
        let is_rejected = state.rejected.contains_key(&version);
        if is_rejected || state.pinned.is_some_and(|pinned| pinned != version) {
            return Ok(Outcome::NotWanted(version));
        }
        if generations.current() == Some(version) && generations.check(version).is_ok() {
            return Ok(Outcome::Unchanged);
        }
        if generations.check(version).is_ok() {
            return Ok(Outcome::Ready(version));
        }
        if !targets.bundle.fits(&options.program) {
            return Err(Error::NewerProgram {
                version,
                requires: targets.bundle.requires.clone(),
                ours: options.program.clone(),
            });
        }
        if targets.bytes() > options.bytes_max {
            let what = format!("version {version} with {} bytes", targets.bytes());
            return Err(Error::TooLarge { what, bytes_max: options.bytes_max });
        }
        let staged = generations.stage(version)?;
        let fetched = self.files(generations, targets, &staged);
        if fetched.is_err() {
            // It may be the disk that is full.
            let _told_below = std::fs::remove_dir_all(&staged);
        }
        fetched?;
        let held = |file: &crate::bundle::FileInfo| Held {
            length: file.length,
            sha256: file.sha256().to_owned(),
        };
        let files = targets.targets.iter().map(|(name, file)| (name.clone(), held(file))).collect();
        let bundle = targets.bundle.clone();
        generations.finish(&Manifest { version, files, bundle })?;
        Ok(Outcome::Ready(version))
    }
}

struct Counting<'o> {
    out: &'o mut (dyn Write + Send),
    bytes: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
