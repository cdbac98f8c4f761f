//! Which policy is in force, and putting another into force.
//!
//! Three sources, in this order: the file that `policy.path` names, the newest version saved in the
//! console or on the command line (`policies/` in the data folder), the policy that comes with the
//! program. Where there is a file it stays the truth: saving writes it, and a change made to it by
//! hand becomes a version as soon as the node reads it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_policy::{Groups, Policy};
use gauntlet_store::policies::{Edition, Saved, Version};
use gauntlet_store::{Policies, StoreError, Users, files};

use crate::admin::groups;
use crate::config::Config;

/// Author of a version that was found in the policy's file.
const BY_FILE: &str = "file";
/// Author of the version that comes with the program.
const BY_PROGRAM: &str = "gauntlet";

/// A policy's text and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The policy as written.
    pub text: String,
    /// For messages: the file, `version 7`, or `the default policy`.
    pub origin: String,
}

/// Where the versions are.
pub fn folder(config: &Config) -> PathBuf {
    config.node.data.join("policies")
}

/// The policy in force, read from where it is. Changes nothing.
///
/// # Errors
/// If the file or the versions cannot be read.
pub fn source(config: &Config) -> anyhow::Result<Source> {
    let path = &config.policy.path;
    if !path.as_os_str().is_empty() {
        let origin = format!("policy.path {}", path.display());
        let text = std::fs::read_to_string(path).with_context(|| origin.clone())?;
        return Ok(Source { text, origin });
    }
    let folder = folder(config);
    if folder.is_dir()
        && let Some(Edition { version, text }) = Policies::open(&folder)?.newest()?
    {
        return Ok(Source { text, origin: format!("version {} of the policy", version.number) });
    }
    Ok(Source { text: Policy::DEFAULT.to_owned(), origin: "the default policy".to_owned() })
}

/// Reads the policy in force, with the choices of single users.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn load(config: &Config) -> anyhow::Result<Policy> {
    let groups = groups::load(config)?;
    let console = config.node.data.join("console");
    if console.join("users.db").is_file() {
        return with_groups(config, &groups, Some(&Users::open(&console)?));
    }
    with_groups(config, &groups, None)
}

/// The same, where the user database is open already.
///
/// # Errors
/// As [`load`].
pub fn load_with(config: &Config, users: &Users) -> anyhow::Result<Policy> {
    with_groups(config, &groups::load(config)?, Some(users))
}

/// The same at the start of a node, which waits for no group's database.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn load_at_start(config: &Config, users: &Users) -> anyhow::Result<Policy> {
    with_groups(config, &groups::load_at_start(config)?, Some(users))
}

fn with_groups(config: &Config, groups: &Groups, users: Option<&Users>) -> anyhow::Result<Policy> {
    let Source { text, origin } = source(config)?;
    let mut policy = Policy::parse(&text, groups).context(origin)?;
    if let Some(users) = users {
        policy.people = Arc::new(users.people()?);
    }
    Ok(policy)
}

/// Notes the policy in force as a version if it is none yet: the default, or a file changed by
/// hand. Returns it.
///
/// # Errors
/// If it cannot be read or kept.
pub fn note(config: &Config, policies: &Policies, now_ms: i64) -> anyhow::Result<Edition> {
    let _alone = alone(config)?;
    note_alone(config, policies, now_ms)
}

fn note_alone(config: &Config, policies: &Policies, now_ms: i64) -> anyhow::Result<Edition> {
    let by_file = !config.policy.path.as_os_str().is_empty();
    let newest = policies.newest()?;
    let base = newest.as_ref().map_or(0, |newest| newest.version.number);
    if let Some(newest) = newest.filter(|_| !by_file) {
        return Ok(newest);
    }
    let Source { text, .. } = source(config)?;
    let who = if by_file { BY_FILE } else { BY_PROGRAM };
    let note = if by_file { "found in the file" } else { "comes with the program" };
    match policies.save(&text, Some(base), who, note, now_ms)? {
        Saved::New(version) | Saved::Same(version) => Ok(Edition { version, text }),
        // A node of before, which takes no lock, was faster.
        Saved::Stale(version) => Ok(policies.newest()?.unwrap_or(Edition { version, text })),
    }
}

/// Waits until no other process notes or saves a policy. Two that do it at once would take each
/// other's versions for changes of the file, or of the policy that comes with the program.
fn alone(config: &Config) -> anyhow::Result<std::fs::File> {
    let folder = folder(config);
    let locked = std::fs::File::open(&folder).and_then(|file| file.lock().map(|()| file));
    locked.with_context(|| format!("{} cannot be locked", folder.display()))
}

/// A policy that an administrator wants in force.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The policy as its author wrote it.
    pub text: &'a str,
    /// The version that its author saw before; if it is not the newest, nothing is changed.
    pub base: Option<i64>,
    /// Login of who saves it.
    pub who: &'a str,
    /// Why it is changed; may be empty.
    pub note: &'a str,
    /// Unix time in milliseconds.
    pub now_ms: i64,
}

/// Checks that a policy could be saved: it is one, and nobody was faster. Changes nothing.
///
/// # Errors
/// Why it could not be.
pub fn check(
    config: &Config,
    policies: &Policies,
    text: &str,
    base: Option<i64>,
) -> anyhow::Result<()> {
    Policy::parse(text, &groups::load(config)?)?;
    match policies.newest()? {
        Some(newest) if base.is_some_and(|base| base != newest.version.number) => bail!(
            "the policy was changed meanwhile: version {} by {}; look at it, then save again",
            newest.version.number,
            newest.version.who
        ),
        _ => Ok(()),
    }
}

/// Checks a policy and makes it the one in force, for all that read it next: the version first,
/// then the file if there is one.
///
/// # Errors
/// If it is no policy, another administrator was faster, or it could not be kept; then everything
/// stays as it was.
pub fn save(config: &Config, policies: &Policies, wanted: &Wanted<'_>) -> anyhow::Result<Version> {
    Policy::parse(wanted.text, &groups::load(config)?)?;
    let _alone = alone(config)?;
    let before = note_alone(config, policies, wanted.now_ms)?;
    let path = &config.policy.path;
    let file = (!path.as_os_str().is_empty()).then_some(path.as_path());
    // Written beside the file before the version is kept: what fails, fails here.
    let staged = file.map(|file| Staged::write(file, wanted.text)).transpose()?;
    let Wanted { text, base, who, note, now_ms } = *wanted;
    let version = match policies.save(text, base, who, note, now_ms)? {
        Saved::Same(version) => return Ok(version),
        Saved::Stale(newest) => bail!(
            "the policy was changed meanwhile: version {} by {}; look at it, then save again",
            newest.number,
            newest.who
        ),
        Saved::New(version) => version,
    };
    if let Some(staged) = staged
        && let Err(error) = staged.take_place()
    {
        policies.save(&before.text, None, BY_PROGRAM, "the file could not be written", now_ms)?;
        return Err(error.into());
    }
    Ok(version)
}

/// The text of the version to go back to: `to`, else the one before the newest.
///
/// # Errors
/// If there is no such version, or the versions cannot be read.
pub fn earlier(policies: &Policies, to: Option<i64>) -> anyhow::Result<Edition> {
    let newest = policies.newest()?.context("the policy was never changed: there is no version")?;
    let found = match to {
        Some(number) => policies.get(number)?,
        None => policies.before(newest.version.number)?,
    };
    found.with_context(|| match to {
        Some(number) => format!("there is no version {number} of the policy"),
        None => "there is no version before this one".to_owned(),
    })
}

/// A new file beside the one it is to replace.
struct Staged<'a> {
    file: &'a Path,
    beside: PathBuf,
}

impl<'a> Staged<'a> {
    fn write(file: &'a Path, text: &str) -> Result<Self, anyhow::Error> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let beside = file.with_file_name(name);
        let write = || -> std::io::Result<()> {
            let mut new = files::create(&beside)?;
            if let Ok(old) = std::fs::metadata(file) {
                // A sandboxed node may not open a file to others: it stays private then.
                let _as_it_was = new.set_permissions(old.permissions());
            }
            new.write_all(text.as_bytes())?;
            new.sync_all()
        };
        write().with_context(|| {
            format!(
                "policy.path {} cannot be written; let the node write into its folder, or empty \
                 policy.path",
                file.display()
            )
        })?;
        Ok(Staged { file, beside })
    }

    fn take_place(self) -> Result<(), StoreError> {
        std::fs::rename(&self.beside, self.file).map_err(|source| StoreError::Io {
            path: self.file.to_owned(),
            what: "replace",
            source,
        })?;
        let folder = self.file.parent().unwrap_or(self.file);
        files::sync_folder(folder).map_err(|source| StoreError::Io {
            path: folder.to_owned(),
            what: "sync",
            source,
        })
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        let _it_took_its_place = std::fs::remove_file(&self.beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n";

    fn config(folder: &Path) -> Config {
        let mut config = Config::default();
        config.node.data = folder.join("data");
        config
    }

    fn put(config: &Config, text: &str, base: Option<i64>) -> anyhow::Result<Version> {
        let policies = Policies::open(&folder(config))?;
        save(config, &policies, &Wanted { text, base, who: "ada", note: "less", now_ms: 5 })
    }

    #[test]
    fn the_default_becomes_the_first_version() {
        let temporary = tempfile::tempdir().unwrap();
        let config = config(temporary.path());
        assert_eq!(source(&config).unwrap().origin, "the default policy");
        assert_eq!(put(&config, SMALL, None).unwrap().number, 2);
        assert_eq!(load(&config).unwrap().rules.len(), 1);
        let policies = Policies::open(&folder(&config)).unwrap();
        assert_eq!(earlier(&policies, None).unwrap().text, Policy::DEFAULT);
        assert!(earlier(&policies, Some(9)).is_err());
        let stale = put(&config, "[[rule]]\nname = \"b\"\ndo = \"deliver\"\n", Some(1));
        assert!(stale.unwrap_err().to_string().contains("version 2 by ada"));
        let wrong = put(&config, "[[rule]]\nnam = 1\n", None).unwrap_err().to_string();
        assert!(wrong.starts_with("policy, line"), "{wrong}");
        assert_eq!(policies.list(None, 9).unwrap().len(), 2);
    }

    #[test]
    fn saving_at_once_brings_no_earlier_policy_back() {
        for by_file in [false, true] {
            let temporary = tempfile::tempdir().unwrap();
            let mut config = config(temporary.path());
            if by_file {
                config.policy.path = temporary.path().join("policy.toml");
                std::fs::write(&config.policy.path, SMALL).unwrap();
            }
            let saving = |who: usize| {
                for nth in 0..8 {
                    let text = SMALL.replace("all", &format!("{who}-{nth}"));
                    put(&config, &text, None).unwrap();
                }
            };
            std::thread::scope(|scope| {
                for who in 0..4 {
                    scope.spawn(move || saving(who));
                }
            });
            let policies = Policies::open(&folder(&config)).unwrap();
            let versions = policies.list(None, 100).unwrap();
            let saved = versions.iter().filter(|version| version.who == "ada").count();
            assert_eq!((versions.len(), saved), (33, 32), "{versions:?}");
            assert_eq!(source(&config).unwrap().text, policies.newest().unwrap().unwrap().text);
        }
    }

    #[test]
    fn a_file_stays_the_truth() {
        let temporary = tempfile::tempdir().unwrap();
        let mut config = config(temporary.path());
        let file = temporary.path().join("policy.toml");
        std::fs::write(&file, SMALL).unwrap();
        config.policy.path.clone_from(&file);
        let changed = SMALL.replace("all", "every");
        assert_eq!(put(&config, &changed, None).unwrap().number, 2);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), changed);
        // Somebody edits the file: it counts, and is a version of its own.
        std::fs::write(&file, SMALL.replace("all", "by hand")).unwrap();
        let policies = Policies::open(&folder(&config)).unwrap();
        let found = note(&config, &policies, 6).unwrap().version;
        assert_eq!((found.number, found.who.as_str()), (3, "file"));
        assert!(put(&config, SMALL, Some(2)).is_err(), "the author did not see the edit");
        assert!(std::fs::read_to_string(&file).unwrap().contains("by hand"));
        assert!(!temporary.path().join("policy.toml.new").exists());
    }
}
