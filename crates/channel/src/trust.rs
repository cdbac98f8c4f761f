//! The client's workflow of The Update Framework (specification, section 5): what may be believed
//! after what.
//!
//! ```text
//! root 1 (handed over by hand) ─▶ root 2 ─▶ ... ─▶ timestamp ─▶ snapshot ─▶ targets ─▶ files
//! ```

use crate::error::Error;
use crate::keys::PublicKey;
use crate::metadata::{Envelope, MetaFile, Metadata, RoleName, Root, Snapshot, Targets, Timestamp};

/// What is believed.
#[derive(Debug, Clone)]
pub struct Trusted {
    root: Root,
    timestamp: Option<Timestamp>,
    snapshot: Option<Snapshot>,
    targets: Option<Targets>,
}

impl Trusted {
    /// Begins with a root that was trusted before, or handed over by hand. It may have expired: a
    /// later one may follow.
    ///
    /// # Errors
    /// If it is no root, or is not signed by its own keys.
    pub fn begin(root: &[u8]) -> Result<Self, Error> {
        let envelope = Envelope::parse(RoleName::Root, root)?;
        let root: Root = envelope.read()?;
        envelope.verify(root.role(RoleName::Root)?, &root, RoleName::Root)?;
        Ok(Trusted { root, timestamp: None, snapshot: None, targets: None })
    }

    /// The root in force.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The timestamp in force.
    pub fn timestamp(&self) -> Option<&Timestamp> {
        self.timestamp.as_ref()
    }

    /// The files of the version in force.
    pub fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    /// Takes the next root: signed by the keys of the one before and by its own. If the keys of
    /// timestamp or snapshot are others in it, what they said before is forgotten: somebody who had
    /// the old ones may have counted their versions up beyond reach.
    ///
    /// # Errors
    /// If it is not the next one, or too few keys of either root signed it.
    pub fn next_root(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let envelope = Envelope::parse(RoleName::Root, bytes)?;
        let next: Root = envelope.read()?;
        envelope.verify(self.root.role(RoleName::Root)?, &self.root, RoleName::Root)?;
        envelope.verify(next.role(RoleName::Root)?, &next, RoleName::Root)?;
        if next.version != self.root.version + 1 {
            let why = format!("version {} after {}", next.version, self.root.version);
            return Err(Error::not_as_signed("root", why));
        }
        let is_other = |role| keys_of(&self.root, role) != keys_of(&next, role);
        if is_other(RoleName::Timestamp) || is_other(RoleName::Snapshot) {
            (self.timestamp, self.snapshot, self.targets) = (None, None, None);
        } else if is_other(RoleName::Targets) {
            self.targets = None;
        }
        self.root = next;
        Ok(())
    }

    /// After the last root: it must not have expired.
    ///
    /// # Errors
    /// It has.
    pub fn check_root_time(&self, now_s: i64) -> Result<(), Error> {
        self.root.check_time(now_s)
    }

    /// Takes what was trusted in an earlier run, for comparing versions; what no longer counts by
    /// the root is left out.
    pub fn remember(&mut self, timestamp: &[u8], snapshot: &[u8], targets: &[u8]) {
        self.timestamp = self.verified(timestamp).ok();
        self.snapshot = self.verified(snapshot).ok().filter(|_| self.timestamp.is_some());
        self.targets = self.verified(targets).ok().filter(|_| self.snapshot.is_some());
    }

    fn verified<T: Metadata>(&self, bytes: &[u8]) -> Result<T, Error> {
        let envelope = Envelope::parse(T::ROLE, bytes)?;
        envelope.verify(self.root.role(T::ROLE)?, &self.root, T::ROLE)?;
        envelope.read()
    }

    /// Takes a timestamp. Returns whether it is another one than before.
    ///
    /// # Errors
    /// If it does not count, is older than the last, or names an older snapshot.
    pub fn next_timestamp(&mut self, bytes: &[u8], now_s: i64) -> Result<bool, Error> {
        let next: Timestamp = self.verified(bytes)?;
        let found = next.snapshot()?;
        if let Some(known) = &self.timestamp {
            not_older(RoleName::Timestamp, next.version, known.version)?;
            not_older(RoleName::Snapshot, found.version, known.snapshot()?.version)?;
        }
        next.check_time(now_s)?;
        let is_new = self.timestamp.as_ref() != Some(&next);
        self.timestamp = Some(next);
        Ok(is_new)
    }

    /// The snapshot that the timestamp names.
    ///
    /// # Errors
    /// There is no timestamp yet.
    pub fn wanted_snapshot(&self) -> Result<&MetaFile, Error> {
        let timestamp = self.timestamp.as_ref();
        timestamp.ok_or_else(|| Error::malformed("snapshot", "no timestamp yet"))?.snapshot()
    }

    /// Takes the snapshot that the timestamp names.
    ///
    /// # Errors
    /// If it is another, does not count, or names older files.
    pub fn next_snapshot(&mut self, bytes: &[u8], now_s: i64) -> Result<(), Error> {
        let wanted = self.wanted_snapshot()?;
        wanted.check(RoleName::Snapshot, bytes)?;
        let next: Snapshot = self.verified(bytes)?;
        is_wanted(RoleName::Snapshot, next.version, wanted)?;
        if let Some(known) = &self.snapshot {
            not_older(RoleName::Targets, next.targets()?.version, known.targets()?.version)?;
        }
        next.check_time(now_s)?;
        self.snapshot = Some(next);
        Ok(())
    }

    /// The list of files that the snapshot names.
    ///
    /// # Errors
    /// There is no snapshot yet.
    pub fn wanted_targets(&self) -> Result<&MetaFile, Error> {
        let snapshot = self.snapshot.as_ref();
        snapshot.ok_or_else(|| Error::malformed("targets", "no snapshot yet"))?.targets()
    }

    /// Takes the list of files that the snapshot names.
    ///
    /// # Errors
    /// If it is another, or does not count.
    pub fn next_targets(&mut self, bytes: &[u8], now_s: i64) -> Result<&Targets, Error> {
        let wanted = self.wanted_targets()?;
        wanted.check(RoleName::Targets, bytes)?;
        let next: Targets = self.verified(bytes)?;
        is_wanted(RoleName::Targets, next.version, wanted)?;
        next.check_time(now_s)?;
        Ok(self.targets.insert(next))
    }

    /// Checks that nothing that is believed has expired, for when a mirror says that nothing is
    /// new.
    ///
    /// # Errors
    /// What has.
    pub fn check_times(&self, now_s: i64) -> Result<(), Error> {
        self.root.check_time(now_s)?;
        self.timestamp.as_ref().map_or(Ok(()), |role| role.check_time(now_s))?;
        self.snapshot.as_ref().map_or(Ok(()), |role| role.check_time(now_s))?;
        self.targets.as_ref().map_or(Ok(()), |role| role.check_time(now_s))
    }

    /// Whether timestamp, snapshot and files are known and belong together.
    pub fn is_whole(&self) -> bool {
        let snapshot = self.wanted_snapshot().map(|wanted| wanted.version).ok();
        let targets = self.wanted_targets().map(|wanted| wanted.version).ok();
        snapshot.is_some()
            && snapshot == self.snapshot.as_ref().map(|s| s.version)
            && targets.is_some()
            && targets == self.targets.as_ref().map(|t| t.version)
    }
}

/// Threshold and keys of a role.
fn keys_of(root: &Root, role: RoleName) -> Option<(u32, Vec<&PublicKey>)> {
    let keys = root.role(role).ok()?;
    Some((keys.threshold, keys.keyids.iter().filter_map(|id| root.keys.get(id)).collect()))
}

fn not_older(what: RoleName, found: u64, known: u64) -> Result<(), Error> {
    match found < known {
        true => Err(Error::RolledBack { what: what.name().to_owned(), found, known }),
        false => Ok(()),
    }
}

fn is_wanted(what: RoleName, found: u64, wanted: &MetaFile) -> Result<(), Error> {
    match found == wanted.version {
        true => Ok(()),
        false => {
            let why = format!("version {found}, and {} is signed", wanted.version);
            Err(Error::not_as_signed(what.name(), why))
        }
    }
}
