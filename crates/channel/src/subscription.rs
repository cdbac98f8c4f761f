//! A channel that a node follows: what it trusts, what the mirror said last, when it asks again.
//!
//! ```text
//! FOLDER/lock             one process changes the rest at a time
//! FOLDER/trust/*.json     root, timestamp, snapshot, targets as they were verified last
//! FOLDER/state.json       ETag, failures, next pull, pinned and rejected versions
//! FOLDER/generations, FOLDER/current
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gauntlet_store::files::{create_folder, lock_within, write_durably};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::generations::Generations;
use crate::metadata::RoleName;
use crate::trust::Trusted;

const STATE: &str = "state.json";
const TRUST: &str = "trust";
/// Longest pause after failures, in seconds, unless the interval is longer.
pub const PAUSE_SECONDS_MAX: u64 = 3600;
/// A pull is this much sooner or later than the interval says, in hundredths: 100,000 nodes that
/// were started together ask a mirror evenly soon.
const JITTER_PERCENT: u64 = 20;
/// How long another process that has the subscription open is waited for: most pulls take less.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
/// Rejected versions that are remembered.
const REJECTED_MAX: usize = 64;

/// What is remembered between pulls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Where the channel is.
    pub url: String,
    /// What the mirror calls the timestamp that we have.
    pub etag: Option<String>,
    /// When it was last asked with success, in seconds from 1970.
    pub asked_s: i64,
    /// When the roots were last asked for, whatever the mirror said of the timestamp.
    pub roots_asked_s: i64,
    /// When it is asked next.
    pub next_s: i64,
    /// Pulls that failed since.
    pub failures: u32,
    /// Why the last one did.
    pub error: String,
    /// Stay at this version.
    pub pinned: Option<u64>,
    /// Versions that are never taken, and why.
    pub rejected: BTreeMap<u64, String>,
    /// A version that a person promoted: it is not tried first.
    pub approved: Option<u64>,
    /// A version that judges and is watched.
    pub watched: Option<Watched>,
}

/// A version that judges since a while, and may be rolled back by people's corrections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The version.
    pub version: u64,
    /// Since when, in seconds from 1970.
    pub since_s: i64,
    /// So many corrections there were in as long a time before.
    pub corrections_before: u64,
}

/// A subscription, held by this process alone.
#[derive(Debug)]
pub struct Subscription {
    folder: PathBuf,
    /// Its versions.
    pub generations: Generations,
    /// What is remembered.
    pub state: State,
    _lock: File,
}

/// The time until the next pull: the interval, twice as long after each failure up to
/// [`PAUSE_SECONDS_MAX`], give or take a fifth. `random` is any number.
pub fn pause_seconds(interval_s: u64, failures: u32, random: u64) -> u64 {
    let factor = 1u64 << failures.min(16);
    let longest = PAUSE_SECONDS_MAX.max(interval_s);
    let pause = interval_s.max(1).saturating_mul(factor).min(longest);
    let spread = pause * JITTER_PERCENT / 100;
    pause - spread + random % (2 * spread + 1)
}

impl Subscription {
    /// Begins to follow a channel, by a root that was handed over by hand.
    ///
    /// # Errors
    /// If it is no root, another one was trusted before, or nothing can be written.
    pub fn begin(folder: &Path, url: &str, root: &[u8]) -> Result<Self, Error> {
        let given = Trusted::begin(root)?;
        create_folder(&folder.join(TRUST)).map_err(Error::io(folder))?;
        let mut subscription = Self::open_folder(folder)?;
        let first = subscription.folder.join(TRUST).join("first.json");
        match fs::read(&first) {
            Ok(known) if known != root => {
                return Err(Error::Refused(format!(
                    "{}: this channel was subscribed with another root; to trust the new one, \
                     remove the folder",
                    folder.display()
                )));
            }
            Ok(_) => {}
            Err(_) => {
                subscription.write_trusted(RoleName::Root, root)?;
                write_durably(&first, root).map_err(Error::io(&first))?;
                tracing::debug!(version = given.root().version, "a channel's root is trusted");
            }
        }
        if subscription.state.url != url {
            subscription.state.url = url.to_owned();
            // Another server's tags say nothing.
            subscription.state.etag = None;
            subscription.save()?;
        }
        Ok(subscription)
    }

    /// Opens a subscription that was begun before.
    ///
    /// # Errors
    /// If it was not, another process has it open, or it cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        if !folder.join(TRUST).join("root.json").is_file() {
            let why = format!(
                "{}: no subscription; `gauntlet channel subscribe` begins one",
                folder.display()
            );
            return Err(Error::Refused(why));
        }
        Self::open_folder(folder)
    }

    fn open_folder(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("lock");
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(Error::io(&path))?;
        match lock_within(&lock, LOCK_WAIT_MAX) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("{}: another process is pulling this channel", folder.display());
                return Err(Error::Refused(why));
            }
            Err(TryLockError::Error(cause)) => return Err(Error::Io { path, cause }),
        }
        let generations = Generations::open(folder)?;
        let state = read_state(folder);
        Ok(Subscription { folder: folder.to_owned(), generations, state, _lock: lock })
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes what is remembered.
    ///
    /// # Errors
    /// The system's.
    pub fn save(&self) -> Result<(), Error> {
        let path = self.folder.join(STATE);
        let text =
            serde_json::to_vec_pretty(&self.state).map_err(|e| Error::malformed(STATE, e))?;
        write_durably(&path, &text).map_err(Error::io(&path))
    }

    /// What was trusted last. Damaged files of it count as missing, but for the root.
    ///
    /// # Errors
    /// If the root cannot be read.
    pub fn trusted(&self) -> Result<Trusted, Error> {
        let read = |role: RoleName| fs::read(self.trusted_path(role)).unwrap_or_default();
        let path = self.trusted_path(RoleName::Root);
        let mut trusted = Trusted::begin(&fs::read(&path).map_err(Error::io(&path))?)?;
        let [timestamp, snapshot, targets] =
            [RoleName::Timestamp, RoleName::Snapshot, RoleName::Targets].map(read);
        trusted.remember(&timestamp, &snapshot, &targets);
        Ok(trusted)
    }

    fn trusted_path(&self, role: RoleName) -> PathBuf {
        self.folder.join(TRUST).join(format!("{}.json", role.name()))
    }

    pub(crate) fn write_trusted(&self, role: RoleName, bytes: &[u8]) -> Result<(), Error> {
        let path = self.trusted_path(role);
        write_durably(&path, bytes).map_err(Error::io(&path))
    }

    /// Notes how a pull ended, and when the next one is due.
    pub fn note(&mut self, error: Option<&str>, interval_s: u64, now_s: i64, random: u64) {
        match error {
            None => (self.state.failures, self.state.error) = (0, String::new()),
            Some(error) => {
                self.state.failures = self.state.failures.saturating_add(1);
                self.state.error = error.to_owned();
            }
        }
        let pause = pause_seconds(interval_s, self.state.failures, random);
        self.state.next_s = now_s.saturating_add(i64::try_from(pause).unwrap_or(i64::MAX));
    }

    /// Never takes this version (again).
    ///
    /// # Errors
    /// The system's.
    pub fn reject(&mut self, version: u64, why: &str) -> Result<(), Error> {
        self.state.rejected.insert(version, why.to_owned());
        while self.state.rejected.len() > REJECTED_MAX {
            self.state.rejected.pop_first();
        }
        self.save()
    }

    /// The same as [`Self::roll_back`], to the newest version before this one.
    ///
    /// # Errors
    /// As [`Self::roll_back`].
    pub fn roll_back_before(&mut self, version: u64, why: &str) -> Result<Option<u64>, Error> {
        let mut to = self.generations.current();
        while to >= Some(version) {
            to = self.roll_back(None, why)?;
        }
        Ok(to)
    }

    /// Goes back to an earlier version, the newest before the one in force unless one is named, and
    /// rejects what came after it. Returns the version; none if nothing earlier is left and what
    /// ships with the program judges alone.
    ///
    /// # Errors
    /// If the named one is not there, nothing is in force, or nothing can be written.
    pub fn roll_back(&mut self, to: Option<u64>, why: &str) -> Result<Option<u64>, Error> {
        let current = self
            .generations
            .current()
            .ok_or_else(|| Error::Refused("no version of this channel is in force".to_owned()))?;
        let versions = self.generations.judged_before(current);
        if let Some(wanted) = to.filter(|wanted| !versions.contains(wanted)) {
            let before: Vec<String> = versions.iter().map(u64::to_string).collect();
            let before = if before.is_empty() { "none".to_owned() } else { before.join(", ") };
            return Err(Error::Refused(format!(
                "version {wanted} is not kept here, or was never in force before {current}; there \
                 are: {before}"
            )));
        }
        let is_good = |v: &u64| !self.state.rejected.contains_key(v);
        let target = to.or_else(|| versions.iter().copied().rfind(is_good));
        // First: a kill between the two must not take the version again.
        for version in self.generations.versions() {
            if Some(version) > target && version <= current {
                self.reject(version, why)?;
            }
        }
        match target {
            Some(version) => self.generations.promote(version)?,
            None => self.generations.demote_all()?,
        }
        Ok(target)
    }
}

/// What is remembered of a subscription, without opening it.
pub fn read_state(folder: &Path) -> State {
    gauntlet_store::files::read_cache(&folder.join(STATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_failures_and_are_spread() {
        let spread = |failures| {
            let all = (0..10_000).map(|n| pause_seconds(300, failures, n * 7919));
            (all.clone().min().unwrap(), all.max().unwrap())
        };
        assert_eq!(spread(0), (240, 360));
        assert_eq!(spread(1), (480, 720));
        assert_eq!(spread(9), (2880, 4320));
        assert_eq!(spread(u32::MAX), (2880, 4320));
        // A longer interval is never cut short.
        assert!(pause_seconds(86_400, 5, 0) >= 60_000);
        assert!(pause_seconds(0, 0, 1) <= 2);
    }
}
