//! Taking over the mail of a dead node from its disk: `gauntlet queue adopt`.
//!
//! ```text
//! lock ─▶ for each batch: mark as leaving there (synced) ─▶ hand over ─▶ done there (synced)
//! ```
//!
//! The spool of the dead node is opened by this process alone, under its lock. A crash anywhere
//! leaves each message there, marked, or here, or both; the same command again hands over what is
//! left, and what is here already is known by its token ([`crate::outbound::queue::arrivals`]). A
//! message that cannot be read stays where it is.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_store::spool::{Disk, Medium, ReadOnlyDisk};
use gauntlet_store::{Spool, SpoolError, SpoolOptions};
use serde::Serialize;

use crate::config::Config;
use crate::control::{self, Answer};
use crate::ids;
use crate::node::stopped::StoppedNode;
use crate::outbound::queue::Arrival;
use crate::outbound::queue::departures::Departure;

/// Messages that are handed over at once: they share the syncs.
const BATCH_MESSAGES_MAX: usize = 64;
/// Bytes of them; one message alone may be larger.
const BATCH_BYTES_MAX: u64 = 8 << 20;

/// The node that gets the messages.
#[derive(Debug)]
pub enum Destination {
    /// It runs and is asked at its control socket: its data folder.
    Running(PathBuf),
    /// It is stopped, and its stores are open here.
    Stopped(Box<StoppedNode>),
}

impl Destination {
    /// The node of this configuration, running or not.
    ///
    /// # Errors
    /// If it is stopped and its stores cannot be opened.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let data = &config.node.data;
        match control::ask(data, &control::Request::List { max: 1 }) {
            Ok(_) => Ok(Destination::Running(data.clone())),
            Err(error) if is_nobody(&error) => {
                Ok(Destination::Stopped(Box::new(StoppedNode::open(config)?)))
            }
            Err(error) => Err(error).with_context(|| format!("the node of {}", data.display())),
        }
    }

    fn hand_over(&self, departures: &[Departure]) -> anyhow::Result<Vec<Arrival>> {
        let answers = match self {
            Destination::Stopped(node) => {
                node.take_in(departures.iter().map(|d| d.bundle.clone()).collect())?
            }
            Destination::Running(data) => {
                let bundles: Vec<_> = departures.iter().map(|d| d.bundle.encode()).collect();
                match control::hand_over(data, &bundles) {
                    Ok(Answer::Arrived(answers)) => answers,
                    Ok(Answer::Failed(why)) => bail!("the node here does not take them: {why}"),
                    Ok(_) => bail!("the node here gave another answer: is it of this version?"),
                    Err(error) => {
                        return Err(error).context(
                            "the node here went away; what it has taken is safe: start it and run \
                             the same command again",
                        );
                    }
                }
            }
        };
        if answers.len() != departures.len() {
            bail!("the node here answered for {} messages of {}", answers.len(), departures.len());
        }
        Ok(answers)
    }
}

/// Nobody listens at a socket, or there is none.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The spool of a dead node, locked.
#[derive(Debug)]
pub struct Source {
    spool: Spool,
    /// Messages there, oldest first.
    messages: Vec<u64>,
    /// Those that nothing proves to be of the node: they are to be looked at by a person.
    unverified: Vec<u64>,
    damaged: u64,
    _locks: Vec<File>,
}

impl Source {
    /// Opens the data folder of a dead node, or its spool's folder. Nothing is changed if `look`.
    ///
    /// # Errors
    /// If its node runs, it is no such folder, or it cannot be read; without `look`, or not be
    /// written.
    pub fn open(folder: &Path, look: bool) -> anyhow::Result<Self> {
        let shown = folder.display();
        let spool = spool_folder(folder)?;
        let mut locks = Vec::new();
        // With the spool's folder alone the data folder is above it, unless spool.path says else.
        let data = if spool == folder { folder.parent().unwrap_or(folder) } else { folder };
        for (lock, make) in [(data.join("lock"), false), (spool.join("lock"), !look)] {
            locks.extend(lock_of_dead(&lock, make, &shown.to_string())?);
        }
        let medium: Arc<dyn Medium> = match look {
            true => Arc::new(ReadOnlyDisk::open(&spool)?),
            false => Arc::new(Disk::open(&spool)?),
        };
        // It is emptied: compacting it on the way would be for nothing.
        let options =
            SpoolOptions { compact_after: Duration::from_secs(86_400), ..SpoolOptions::default() };
        let (spool, recovery) = Spool::open(medium, options).map_err(|error| {
            let hint = "mount it for writing, as a user who may, or look with --dry-run";
            match &error {
                SpoolError::Io { source, .. } if is_not_writable(source) => {
                    anyhow::anyhow!("{error}; {hint}")
                }
                _ => error.into(),
            }
        })?;
        let messages = recovery.messages.iter().map(|(id, _)| *id).collect();
        let (unverified, damaged) = (recovery.unverified, recovery.damaged);
        Ok(Source { spool, messages, unverified, damaged, _locks: locks })
    }
}

fn is_not_writable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The folder with the spool's files: this one, or the one in a data folder.
fn spool_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).with_context(|| shown.to_string())?;
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let is_segment =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "seg" || end == "sta");
    // Of a spool that was emptied only the lock is left.
    let is_emptied = matches!(&paths[..], [only] if only.ends_with("lock"));
    if paths.iter().any(is_segment) || is_emptied {
        return Ok(folder.to_owned());
    }
    let below = folder.join("spool");
    if below.is_dir() {
        return Ok(below);
    }
    bail!(
        "{shown}: neither a node's data folder nor a spool; if spool.path of the dead node was another \
         folder, name that one"
    )
}

/// Takes the lock that the node would have if it ran; none where there is no file and none is to be
/// made.
fn lock_of_dead(path: &Path, make: bool, shown: &str) -> anyhow::Result<Option<File>> {
    let file = match make {
        false => File::open(path),
        true => File::options().create(true).truncate(false).write(true).open(path),
    };
    let file = match file {
        Ok(file) => file,
        Err(error) if !make && error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_not_writable(&error) => {
            return Err(error).with_context(|| {
                let hint = "mount it for writing, as a user who may, or look with --dry-run";
                format!("{}: {hint}", path.display())
            });
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    match gauntlet_store::files::try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => bail!(
            "{shown}: a node or another `gauntlet queue adopt` uses it; a node that runs delivers its own \
             mail: stop it first (`gauntlet drain --wait` has it deliver before)"
        ),
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| path.display().to_string())
        }
    }
}

/// What was done with one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its id on the dead node.
    pub id: String,
    /// What became of it: `adopted`, `known` (it was adopted before), `waits` (with `--dry-run`),
    /// `elsewhere`, `unreadable`, `refused`.
    pub what: &'static str,
    /// Its id here, if it is here and has another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_id: Option<String>,
    /// What is to be said of it: why it stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What an adoption came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Total {
    /// Messages that waited there.
    pub found: u64,
    /// Those that are here now.
    pub adopted: u64,
    /// Those that an earlier run had handed over.
    pub known: u64,
    /// Of those that are here, those that got another id.
    pub renamed: u64,
    /// Those that stay there: unreadable, refused, or on their way to another node.
    pub left: u64,
    /// Damaged regions of its files, whose messages cannot be told.
    pub damaged_regions: u64,
}

impl Total {
    /// Everything that was accepted there is here.
    pub fn is_whole(&self) -> bool {
        self.left == 0 && self.damaged_regions == 0
    }
}

/// How to adopt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options<'a> {
    /// Name of the node that gets the messages.
    pub to: &'a str,
    /// Name of the dead node, for the log; empty if it is not known.
    pub from: &'a str,
    /// Take also what was on its way to another node: only right if that node never had it.
    pub also_leaving: bool,
}

/// Lists what would be adopted.
pub fn look(source: &Source, options: Options<'_>, mut tell: impl FnMut(&Line)) -> Total {
    let mut run = Run::of(source);
    for id in &source.messages {
        match run.prepare(source, *id, options) {
            Ok(departure) => tell(&line(departure.bundle.id, "waits", "")),
            Err(stays) => tell(&stays),
        }
    }
    run.total
}

/// Hands all messages of the dead node over.
///
/// # Errors
/// If the node here went away or has no room, or the source cannot be written: the same again goes
/// on where it ended.
pub fn adopt(
    source: &Source,
    destination: &Destination,
    options: Options<'_>,
    mut tell: impl FnMut(&Line),
) -> anyhow::Result<Total> {
    let mut run = Run::of(source);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for id in &source.messages {
        match run.prepare(source, *id, options) {
            Ok(departure) => {
                bytes += departure.bundle.bytes();
                batch.push(departure);
            }
            Err(stays) => tell(&stays),
        }
        if batch.len() >= BATCH_MESSAGES_MAX || bytes >= BATCH_BYTES_MAX {
            run.hand_over(source, destination, &batch, &mut tell)?;
            batch.clear();
            bytes = 0;
        }
    }
    run.hand_over(source, destination, &batch, &mut tell)?;
    Ok(run.total)
}

/// An adoption under way.
struct Run {
    total: Total,
}

impl Run {
    fn of(source: &Source) -> Self {
        let (found, damaged_regions) = (source.messages.len() as u64, source.damaged);
        Run { total: Total { found, damaged_regions, ..Total::default() } }
    }

    /// Reads a message; the line of one that stays.
    fn prepare(
        &mut self,
        source: &Source,
        id: u64,
        options: Options<'_>,
    ) -> Result<Departure, Line> {
        let stays = match Departure::prepare(&source.spool, id, (options.from, options.to)) {
            Ok(mut departure) => match &departure.before {
                Some(other) if other != options.to && !options.also_leaving => {
                    let why = format!(
                        "it was on its way to {other}: adopt it there; --also-leaving takes it if \
                         {other} never had it"
                    );
                    line(id, "elsewhere", &why)
                }
                _ => {
                    if source.unverified.contains(&id) {
                        departure.hold();
                    }
                    return Ok(departure);
                }
            },
            Err(error) => line(id, "unreadable", &error.to_string()),
        };
        self.total.left += 1;
        Err(stays)
    }

    fn hand_over(
        &mut self,
        source: &Source,
        destination: &Destination,
        batch: &[Departure],
        tell: &mut impl FnMut(&Line),
    ) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let marks: Vec<_> = batch.iter().map(Departure::mark).collect();
        source.spool.set_states_durably(&marks).context(
            "the dead node's disk takes no mark, without which its node could deliver once more if \
             it is started again; make room there, or copy the folder to another disk",
        )?;
        let answers = destination.hand_over(batch)?;
        let (mut stay, mut stopped) = (Vec::new(), None);
        for (departure, answer) in batch.iter().zip(&answers) {
            let id = departure.bundle.id;
            match answer {
                Arrival::Taken { id: here } | Arrival::Known { id: here } => {
                    source.spool.done(id);
                    tell(&self.is_here(id, here, matches!(answer, Arrival::Taken { .. })));
                }
                Arrival::Refused { why } => {
                    stay.push(departure.unmark());
                    self.total.left += 1;
                    tell(&line(id, "refused", why));
                }
                Arrival::Later { why } => {
                    stay.push(departure.unmark());
                    stopped.get_or_insert_with(|| why.clone());
                }
            }
        }
        source.spool.set_states_durably(&stay)?;
        source.spool.flush();
        match stopped {
            Some(why) => bail!("the node here takes no more now: {why}; then run the same again"),
            None => Ok(()),
        }
    }

    fn is_here(&mut self, id: u64, here: &str, is_new: bool) -> Line {
        let old = ids::to_text(id);
        let renamed = old != here;
        self.total.renamed += u64::from(renamed);
        self.total.adopted += u64::from(is_new);
        self.total.known += u64::from(!is_new);
        let what = if is_new { "adopted" } else { "known" };
        Line { new_id: renamed.then(|| here.to_owned()), ..line(id, what, "") }
    }
}

fn line(id: u64, what: &'static str, why: &str) -> Line {
    Line { id: ids::to_text(id), what, new_id: None, why: why.to_owned() }
}
