//! What set-ups did, so that it can be taken back.
//!
//! The journal stands beside the configuration and not in the data folder: root takes back what it
//! says, and the data folder is the node's user's to change. A step is written down before it is
//! done; one that was not done is nothing to take back.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use gauntlet_channel::hex;
use gauntlet_gateway::privileges;
use gauntlet_store::files;
use serde::{Deserialize, Serialize};

use super::given::Purpose;
use super::postfix::{Changes, Postfix};

/// What was done, one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum Step {
    /// A folder was made.
    Folder {
        path: PathBuf,
        /// The data folder that it is or lies in, if so: its owner removes it.
        data: Option<PathBuf>,
    },
    /// A file was written.
    File {
        path: PathBuf,
        sha256: String,
        /// Where the file is that was there before.
        before: Option<PathBuf>,
        data: Option<PathBuf>,
    },
    /// Settings of Postfix were changed.
    Postfix {
        postconf: PathBuf,
        folder: PathBuf,
        changes: Changes,
        /// Its files before; what `postconf` does leaves no trace if they are put back.
        files: Vec<Saved>,
    },
}

/// A file of Postfix before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Saved {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Of the file afterwards; empty until that is known.
    pub(super) sha256: String,
}

/// One run of `gauntlet setup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    purpose: Purpose,
    /// As RFC 5322 writes it.
    at: String,
    steps: Vec<Step>,
}

/// What became of a step that was to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undone {
    /// It is taken back.
    Done(String),
    /// It stays, since somebody changed it.
    Kept(String),
}

impl Undone {
    /// What is said of it.
    pub(super) fn text(&self) -> &String {
        let (Undone::Done(text) | Undone::Kept(text)) = self;
        text
    }
}

/// All runs for one configuration file, oldest first.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    runs: Vec<Run>,
}

/// Where the journal of a configuration is.
pub(super) fn place(config: &Path) -> PathBuf {
    let mut name = config.file_name().unwrap_or_default().to_owned();
    name.push(".setup.json");
    config.with_file_name(name)
}

/// Whoever can write a journal says which files are removed, and which program sets Postfix back.
fn is_ours(path: &Path) -> anyhow::Result<()> {
    let seen = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    let ours = seen.is_file() && seen.uid() == files::effective_user() && seen.mode() & 0o022 == 0;
    ensure!(
        ours,
        "{} is not yours alone (owner {}, mode {:o}): what it says is not done; look at it, then \
         remove it, or have its owner run this",
        path.display(),
        seen.uid(),
        seen.mode() & 0o7777
    );
    Ok(())
}

impl Journal {
    /// Reads the journal beside a configuration; there may be none yet.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub(super) fn of(config: &Path) -> anyhow::Result<Self> {
        let path = place(config);
        let runs = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                let place = path.display();
                format!("{place} is no journal of `gauntlet setup`; move it out of the way")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        if !runs.is_empty() {
            is_ours(&path)?;
        }
        Ok(Journal { path, runs })
    }

    /// Begins a run.
    pub(super) fn begin(&mut self, purpose: Purpose, at: String) {
        self.runs.push(Run { purpose, at, steps: Vec::new() });
    }

    /// Writes a step down that is about to be done.
    pub(super) fn note(&mut self, step: Step) -> anyhow::Result<()> {
        self.runs.last_mut().context("no run has begun")?.steps.push(step);
        // What could not be written down is not done, and so nothing to take back.
        self.write()
            .inspect_err(|_| self.runs.last_mut().and_then(|run| run.steps.pop()).map_or((), drop))
    }

    /// Changes the step that was noted last.
    pub(super) fn amend(&mut self, change: impl FnOnce(&mut Step)) -> anyhow::Result<()> {
        let step = self.runs.last_mut().and_then(|run| run.steps.last_mut());
        change(step.context("no step was noted")?);
        self.write()
    }

    /// Notes that a file of this run is another now.
    pub(super) fn amend_file(&mut self, wanted: &Path, now: &str) -> anyhow::Result<()> {
        for step in self.runs.last_mut().into_iter().flat_map(|run| &mut run.steps) {
            if let Step::File { path, sha256, .. } = step
                && path == wanted
            {
                now.clone_into(sha256);
            }
        }
        self.write()
    }

    /// The last run did nothing, or nothing that is not taken back.
    pub(super) fn has_nothing(&self) -> bool {
        self.runs.last().is_none_or(|run| run.steps.is_empty())
    }

    /// What the last run was for, and when it was.
    pub(super) fn last(&self) -> Option<(Purpose, &str)> {
        self.runs.last().map(|run| (run.purpose, run.at.as_str()))
    }

    /// Steps of the last run, in the order of taking them back.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.runs.last().into_iter().flat_map(|run| run.steps.iter().rev())
    }

    /// Takes the last run back, and forgets it.
    ///
    /// # Errors
    /// A step that cannot be taken back; those before it wait for another attempt.
    pub(super) fn undo(&mut self) -> anyhow::Result<Vec<Undone>> {
        let mut all = Vec::new();
        while let Some(step) = self.runs.last().and_then(|run| run.steps.last().cloned()) {
            all.extend(step.undo()?);
            if let Some(run) = self.runs.last_mut() {
                run.steps.pop();
            }
            self.write()?;
        }
        self.runs.pop();
        self.write()?;
        Ok(all)
    }

    fn write(&self) -> anyhow::Result<()> {
        let named = || self.path.display().to_string();
        // A folder that holds the journal goes last, and the journal before it.
        let is_own =
            |step: &Step| matches!(step, Step::Folder { path, .. } if self.path.starts_with(path));
        if self.runs.iter().flat_map(|run| &run.steps).all(is_own) {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(error).with_context(named)
                }
                _ => Ok(()),
            };
        }
        let mut text = serde_json::to_vec_pretty(&self.runs)?;
        text.push(b'\n');
        files::write_durably(&self.path, &text).with_context(named)
    }
}

impl Step {
    /// What taking it back means.
    pub(super) fn describe(&self) -> String {
        match self {
            Step::Folder { path, .. } => format!("{}: remove, if it is empty", path.display()),
            Step::File { path, before: None, .. } => format!("{}: remove", path.display()),
            Step::File { path, before: Some(before), .. } => {
                format!("{}: replace by {}", path.display(), before.display())
            }
            Step::Postfix { folder, .. } => {
                format!("{}: set back what was set in Postfix", folder.display())
            }
        }
    }

    fn undo(&self) -> anyhow::Result<Option<Undone>> {
        match self {
            Step::Folder { path, data } => {
                // The data folder itself lies in a folder of whoever set it up.
                let inside = data.as_deref().filter(|data| *data != path);
                as_owner(inside, || remove_folder(path))
            }
            Step::File { path, sha256, before, data } => {
                as_owner(data.as_deref(), || remove_file(path, sha256, before.as_deref()))
            }
            Step::Postfix { postconf, folder, changes, files } => {
                restore(&Postfix::at(postconf.clone(), folder), changes, files).map(Some)
            }
        }
    }
}

/// Does something in a data folder as its owner, who could lead root elsewhere there.
fn as_owner(
    data: Option<&Path>,
    task: impl FnOnce() -> anyhow::Result<Option<Undone>>,
) -> anyhow::Result<Option<Undone>> {
    let Some(data) = data else { return task() };
    if !data.is_dir() {
        return Ok(None);
    }
    let _acting = privileges::act_as_owner(data).with_context(|| data.display().to_string())?;
    task()
}

fn remove_folder(path: &Path) -> anyhow::Result<Option<Undone>> {
    let place = path.display();
    match fs::remove_dir(path) {
        Ok(()) => Ok(Some(Undone::Done(format!("{place}: removed, it was empty")))),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            io::ErrorKind::DirectoryNotEmpty => Ok(Some(Undone::Kept(format!(
                "{place}: kept, it is not empty; remove it yourself if nothing in it is needed"
            )))),
            _ => Err(error).context(path.display().to_string()),
        },
    }
}

/// The hash of a file, none if it is not there.
pub(super) fn hash(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(hex::sha256(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(path.display().to_string()),
    }
}

fn remove_file(path: &Path, sha256: &str, before: Option<&Path>) -> anyhow::Result<Option<Undone>> {
    let (place, named) = (path.display(), || path.display().to_string());
    let now = hash(path)?;
    let changed = now.as_ref().is_some_and(|now| now != sha256);
    match (now, before.filter(|before| before.exists())) {
        (Some(_), _) if changed && before.is_none_or(|b| !same(b, path)) => {
            let old = before.map(|b| format!("; the one before it is {}", b.display()));
            Ok(Some(Undone::Kept(format!(
                "{place}: kept, it was changed since{}",
                old.unwrap_or_default()
            ))))
        }
        (_, Some(before)) => {
            // Replaces what was written, with the owner and mode that it had.
            fs::rename(before, path).with_context(named)?;
            // Two names of one file both stay (POSIX): the new one was never written.
            if before.exists() {
                fs::remove_file(before).with_context(named)?;
            }
            Ok(Some(Undone::Done(format!("{place}: as it was before"))))
        }
        (Some(_), None) => {
            fs::remove_file(path).with_context(named)?;
            Ok(Some(Undone::Done(format!("{place}: removed"))))
        }
        (None, None) => Ok(None),
    }
}

/// Both names are of the same content: the new file was never written.
fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(a), Ok(b)) if a == b)
}

/// Puts the files back where nobody changed them since; else setting by setting.
fn restore(postfix: &Postfix, changes: &Changes, saved: &[Saved]) -> anyhow::Result<Undone> {
    let place = postfix.folder().display();
    let untouched = |file: &Saved| hash(&file.path).ok().flatten() == Some(file.sha256.clone());
    if saved.iter().all(untouched) {
        for Saved { path, text, .. } in saved {
            put_back(path, text).with_context(|| path.display().to_string())?;
        }
        return Ok(Undone::Done(format!("{place}: Postfix's settings are as they were before")));
    }
    let kept = postfix.restore(changes)?;
    match kept.is_empty() {
        true => Ok(Undone::Done(format!("{place}: the settings of Postfix are set back"))),
        false => Ok(Undone::Kept(format!(
            "{place}: {} changed since and kept, the other settings are set back",
            kept.join(", ")
        ))),
    }
}

/// Writes a file anew in one step, with the owner and mode that it has.
fn put_back(path: &Path, text: &str) -> io::Result<()> {
    let seen = fs::metadata(path)?;
    files::write_durably_as(path, text.as_bytes(), seen.mode() & 0o7777)?;
    std::os::unix::fs::chown(path, Some(seen.uid()), Some(seen.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, text: &str) -> (PathBuf, String) {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        (path, hex::sha256(text.as_bytes()))
    }

    #[test]
    fn runs_are_taken_back_one_by_one_and_changed_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gauntlet.toml");
        let mut journal = Journal::of(&config).unwrap();
        assert!(journal.has_nothing() && journal.last().is_none());
        let made = folder.path().join("data");
        fs::create_dir(&made).unwrap();
        journal.begin(Purpose::Trial, "monday".into());
        journal.note(Step::Folder { path: made.clone(), data: Some(made.clone()) }).unwrap();
        let (path, sha256) = written(&made, "mine", "as written");
        journal
            .note(Step::File { path: path.clone(), sha256, before: None, data: Some(made.clone()) })
            .unwrap();
        // The second run replaced a file and wrote one that was changed since.
        journal.begin(Purpose::Front, "tuesday".into());
        let (before, _) = written(folder.path(), "old.before", "old");
        let (replaced, sha256) = written(folder.path(), "old", "new");
        let step =
            Step::File { path: replaced.clone(), sha256, before: Some(before.clone()), data: None };
        journal.note(step).unwrap();
        let (changed, _) = written(folder.path(), "changed", "by hand");
        let sha256 = hex::sha256(b"by us");
        journal
            .note(Step::File { path: changed.clone(), sha256, before: None, data: None })
            .unwrap();
        let mut journal = Journal::of(&config).unwrap();
        assert_eq!(journal.last(), Some((Purpose::Front, "tuesday")));
        let undone = journal.undo().unwrap();
        assert!(matches!(&undone[0], Undone::Kept(text) if text.contains("changed since")));
        assert!(matches!(&undone[1], Undone::Done(text) if text.contains("as it was before")));
        assert_eq!(fs::read_to_string(&replaced).unwrap(), "old");
        assert!(changed.exists() && !before.exists());
        assert_eq!(journal.last(), Some((Purpose::Trial, "monday")));
        journal.undo().unwrap();
        assert!(!made.exists() && !place(&config).exists());
    }

    #[test]
    fn what_was_noted_and_not_done_is_nothing_to_take_back() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gauntlet.toml");
        let mut journal = Journal::of(&config).unwrap();
        journal.begin(Purpose::Trial, "monday".into());
        let (path, _) = written(folder.path(), "kept", "the old one");
        let before = folder.path().join("kept.before");
        fs::hard_link(&path, &before).unwrap();
        let sha256 = hex::sha256(b"never written");
        let step =
            Step::File { path: path.clone(), sha256, before: Some(before.clone()), data: None };
        journal.note(step).unwrap();
        let missing = folder.path().join("missing");
        journal.note(Step::Folder { path: missing, data: None }).unwrap();
        assert!(journal.undo().unwrap().iter().all(|u| matches!(u, Undone::Done(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "the old one");
        assert!(!before.exists());
    }

    #[test]
    fn a_journal_that_others_can_write_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gauntlet.toml");
        let mut journal = Journal::of(&config).unwrap();
        journal.begin(Purpose::Trial, "monday".into());
        let (path, sha256) = written(folder.path(), "victim", "text");
        journal.note(Step::File { path: path.clone(), sha256, before: None, data: None }).unwrap();
        let mode = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(place(&config), mode).unwrap();
        };
        mode(0o666);
        let error = Journal::of(&config).unwrap_err().to_string();
        assert!(error.contains("is not yours alone") && path.exists(), "{error}");
        // Nor one that a link leads to.
        mode(0o600);
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(place(&config), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, place(&config)).unwrap();
        assert!(Journal::of(&config).is_err());
    }

    #[test]
    fn a_damaged_journal_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gauntlet.toml");
        fs::write(place(&config), "{").unwrap();
        let error = format!("{:#}", Journal::of(&config).unwrap_err());
        assert!(error.contains("gauntlet.toml.setup.json is no journal"), "{error}");
    }
}
