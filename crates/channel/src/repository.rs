//! The publisher's side: a folder of static files that any web server, object store or `file://`
//! mirror can serve.
//!
//! ```text
//! 1.root.json 2.root.json ...    keys of the roles; each signed by the one before, too
//! timestamp.json                 the newest snapshot; the only file that is replaced
//! N.snapshot.json N.targets.json
//! targets/FOLDER/SHA256.NAME     the files
//! deltas/SHA256.zst              the same packed, and as differences to earlier versions
//! ```
//!
//! What is new is written before what names it, `timestamp.json` last: whoever reads at any moment,
//! or after a power failure, finds one whole version. One publisher writes at a time.

mod changes;
mod deltas;
mod files;
mod keys;
mod served;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

pub use self::changes::{Change, Staged};
pub use self::keys::{KeyFolder, Signer};

use crate::bundle::{BundleInfo, FileInfo};
use crate::error::Error;
use crate::folder::remove_others;
use crate::hex;
use crate::instant;
use crate::keys::PublicKey;
use crate::metadata::{
    Envelope, MetaFile, Metadata, RoleKeys, RoleName, Root, Snapshot, Targets, Timestamp,
};
use crate::trust::Trusted;

const DAY_S: i64 = 86_400;
/// File that a publisher holds locked.
const LOCK_NAME: &str = ".lock";

/// How long metadata count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of the root, in days.
    pub root_days: u32,
    /// Of the list of files, in days.
    pub targets_days: u32,
    /// Of the snapshot, in days.
    pub snapshot_days: u32,
    /// Of the timestamp, in hours: how long a mirror can hide what is new.
    pub timestamp_hours: u32,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes { root_days: 365, targets_days: 90, snapshot_days: 14, timestamp_hours: 48 }
    }
}

impl Lifetimes {
    /// Until when metadata of a role count that are signed now, in seconds from 1970.
    pub fn end_s(self, role: RoleName, now_s: i64) -> i64 {
        let seconds = match role {
            RoleName::Root => i64::from(self.root_days) * DAY_S,
            RoleName::Targets => i64::from(self.targets_days) * DAY_S,
            RoleName::Snapshot => i64::from(self.snapshot_days) * DAY_S,
            RoleName::Timestamp => i64::from(self.timestamp_hours) * 3600,
        };
        now_s.saturating_add(seconds)
    }

    fn end(self, role: RoleName, now_s: i64) -> String {
        instant::format(self.end_s(role, now_s))
    }
}

/// What a new version is published with.
#[derive(Debug, Clone, Default)]
pub struct PublishOptions {
    /// What is new, in the publisher's words.
    pub note: String,
    /// Earliest program that understands it; empty is any.
    pub requires: String,
    /// How long metadata count.
    pub lifetimes: Lifetimes,
    /// Earlier versions from which a delta leads to this one.
    pub delta_versions: u64,
    /// Earlier versions whose files stay.
    pub keep_versions: u64,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The version.
    pub version: u64,
    /// Files that are new or changed.
    pub changed: usize,
    /// Bytes that a node of the version before fetches, metadata aside.
    pub delta_bytes: u64,
    /// Bytes of all files as they are.
    pub bytes: u64,
}

/// A channel's folder.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
    root: Root,
    targets: Targets,
    snapshot: u64,
    timestamp: u64,
    _lock: File,
}

impl Repository {
    /// Checks that no channel is there yet.
    ///
    /// # Errors
    /// If one is.
    pub fn check_new(folder: &Path) -> Result<(), Error> {
        let first = folder.join(RoleName::Root.file_name(1));
        match first.exists() {
            true => Err(Error::Refused(format!("{}: there is a channel already", first.display()))),
            false => Ok(()),
        }
    }

    /// Makes a channel without any files, version 1.
    ///
    /// # Errors
    /// If there is one already, too few keys are at hand, or nothing can be written.
    pub fn init(
        folder: &Path,
        keys: &KeyFolder,
        threshold: u32,
        lifetimes: Lifetimes,
        now_s: i64,
    ) -> Result<Self, Error> {
        Self::check_new(folder)?;
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let lock = lock(folder)?;
        let mut root = Root {
            version: 0,
            expires: String::new(),
            consistent_snapshot: true,
            keys: BTreeMap::new(),
            roles: BTreeMap::new(),
        };
        for role in RoleName::ALL {
            let public: Vec<PublicKey> = keys.all(role)?.iter().map(|key| key.public()).collect();
            let keyids = public.iter().map(PublicKey::id).collect();
            let threshold = if role == RoleName::Root { threshold } else { 1 };
            root.roles.insert(role.name().to_owned(), RoleKeys { keyids, threshold });
            root.keys.extend(public.into_iter().map(|key| (key.id(), key)));
        }
        root.version = 1;
        root.expires = lifetimes.end(RoleName::Root, now_s);
        let mut envelope = Envelope::unsigned(root.to_value());
        keys.sign(RoleName::Root, &root, &mut envelope)?;
        envelope.read::<Root>()?;
        envelope.verify(root.role(RoleName::Root)?, &root, RoleName::Root)?;
        let targets = Targets {
            version: 0,
            expires: String::new(),
            targets: BTreeMap::new(),
            bundle: BundleInfo::default(),
        };
        let folder = folder.to_owned();
        let mut made = Repository { folder, root, targets, snapshot: 0, timestamp: 0, _lock: lock };
        let empty = made.targets.clone();
        // The root last: without it there is no channel, and `init` can be tried again.
        made.put(empty, keys, lifetimes, now_s)?;
        made.write(&RoleName::Root.file_name(1), &envelope.to_bytes())?;
        Ok(made)
    }

    /// Opens a channel to publish in it. What lies in the folder is the publisher's own and is
    /// believed; [`Self::verify`] checks it.
    ///
    /// # Errors
    /// If it is no channel, or another publisher has it open.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let first = folder.join(RoleName::Root.file_name(1));
        if !first.is_file() {
            let why = format!(
                "{}: no channel (it has no 1.root.json); `gauntlet channel init` makes one",
                folder.display()
            );
            return Err(Error::Refused(why));
        }
        let lock = lock(folder)?;
        let read = |role: RoleName, version| read_envelope(folder, role, version);
        let mut version = 1;
        while folder.join(RoleName::Root.file_name(version + 1)).is_file() {
            version += 1;
        }
        let root = read(RoleName::Root, version)?.read()?;
        let timestamp: Timestamp = read(RoleName::Timestamp, 0)?.read()?;
        let snapshot: Snapshot = read(RoleName::Snapshot, timestamp.snapshot()?.version)?.read()?;
        let targets = read(RoleName::Targets, snapshot.targets()?.version)?.read()?;
        let (snapshot, timestamp) = (snapshot.version, timestamp.version);
        let folder = folder.to_owned();
        Ok(Repository { folder, root, targets, snapshot, timestamp, _lock: lock })
    }

    /// The root in force.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The files of the newest version.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names of the files that a folder holds, in order.
    ///
    /// # Errors
    /// If it cannot be read, or a file has a name that none may have.
    pub fn names(&self, content: &Path) -> Result<Vec<String>, Error> {
        Ok(files::collect(content)?.into_keys().collect())
    }

    /// Whether the newest version is what a folder holds.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn has(&self, content: &Path) -> Result<bool, Error> {
        let found = files::collect(content)?;
        if !found.keys().eq(self.targets.targets.keys()) {
            return Ok(false);
        }
        for (name, source) in &found {
            let known = self.targets.targets.get(name);
            let length_and_hash = hex::sha256_of_file(source)?;
            if !known.is_some_and(|file| files::is(file, &length_and_hash)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes what a folder holds as the next version. What did not change costs nothing.
    ///
    /// # Errors
    /// If a file has a name that none may have, a key is missing, or nothing can be written; the
    /// version before then stays the newest.
    pub fn publish(
        &mut self,
        content: &Path,
        keys: &dyn Signer,
        options: &PublishOptions,
        now_s: i64,
    ) -> Result<Published, Error> {
        let found = files::collect(content)?;
        let earlier = self.earlier(options.delta_versions);
        let (mut targets, mut changed, mut delta_bytes) = (BTreeMap::new(), 0, 0);
        for (name, source) in &found {
            let length_and_hash = hex::sha256_of_file(source)?;
            let known = self.targets.targets.get(name);
            let file = match known.filter(|file| files::is(file, &length_and_hash)) {
                Some(file) => file.clone(),
                None => {
                    changed += 1;
                    let file = self.add(name, source, length_and_hash, &earlier)?;
                    let before = known.map(FileInfo::sha256);
                    delta_bytes += deltas::cheapest(&file, before);
                    file
                }
            };
            targets.insert(name.clone(), file);
        }
        let bundle = BundleInfo {
            requires: options.requires.clone(),
            note: options.note.clone(),
            published: instant::format(now_s),
        };
        let next = Targets { targets, bundle, ..self.targets.clone() };
        let bytes = next.bytes();
        self.put(next, keys, options.lifetimes, now_s)?;
        self.remove_before(self.targets.version.saturating_sub(options.keep_versions))?;
        Ok(Published { version: self.targets.version, changed, delta_bytes, bytes })
    }

    /// Signs what is there again, with new times of expiry and by the keys of the root in force.
    /// The list of files only if it needs it: a version without news costs nodes nothing but
    /// metadata.
    ///
    /// # Errors
    /// If a key is missing, or nothing can be written.
    pub fn refresh(
        &mut self,
        keys: &dyn Signer,
        lifetimes: Lifetimes,
        now_s: i64,
    ) -> Result<u64, Error> {
        let version = self.targets.version;
        let envelope = read_envelope(&self.folder, RoleName::Targets, version)?;
        let role = self.root.role(RoleName::Targets)?;
        let counts = envelope.verify(role, &self.root, RoleName::Targets).is_ok();
        let half_s = i64::from(lifetimes.targets_days) * DAY_S / 2;
        match counts && self.targets.check_time(now_s + half_s).is_ok() {
            true => self.sign_snapshot(keys, lifetimes, now_s)?,
            false => self.put(self.targets.clone(), keys, lifetimes, now_s)?,
        }
        Ok(self.targets.version)
    }

    /// Signs a list of files as the next version, and makes it the newest.
    fn put(
        &mut self,
        mut next: Targets,
        keys: &dyn Signer,
        lifetimes: Lifetimes,
        now_s: i64,
    ) -> Result<(), Error> {
        next.version = self.targets.version + 1;
        next.expires = lifetimes.end(RoleName::Targets, now_s);
        next.check()?;
        self.sign(RoleName::Targets, next.version, next.to_value(), keys)?;
        let before = std::mem::replace(&mut self.targets, next);
        let signed = self.sign_snapshot(keys, lifetimes, now_s);
        if signed.is_err() {
            self.targets = before;
        }
        signed
    }

    /// Snapshot and timestamp of the list of files that is the newest.
    fn sign_snapshot(
        &mut self,
        keys: &dyn Signer,
        lifetimes: Lifetimes,
        now_s: i64,
    ) -> Result<(), Error> {
        let version = self.targets.version;
        let targets = read(&self.folder, &RoleName::Targets.file_name(version))?;
        let meta = BTreeMap::from([("targets.json".to_owned(), MetaFile::of(version, &targets))]);
        let version = self.snapshot + 1;
        let expires = lifetimes.end(RoleName::Snapshot, now_s);
        let snapshot = Snapshot { version, expires, meta };
        let bytes = self.sign(RoleName::Snapshot, version, snapshot.to_value(), keys)?;
        let meta = BTreeMap::from([("snapshot.json".to_owned(), MetaFile::of(version, &bytes))]);
        let version = self.timestamp + 1;
        let expires = lifetimes.end(RoleName::Timestamp, now_s);
        let timestamp = Timestamp { version, expires, meta };
        self.sign(RoleName::Timestamp, version, timestamp.to_value(), keys)?;
        (self.snapshot, self.timestamp) = (snapshot.version, timestamp.version);
        Ok(())
    }

    /// Signs metadata, checks that they count, and writes them.
    fn sign(
        &self,
        role: RoleName,
        version: u64,
        signed: serde_json::Value,
        keys: &dyn Signer,
    ) -> Result<Vec<u8>, Error> {
        let mut envelope = Envelope::unsigned(signed);
        keys.sign(role, &self.root, &mut envelope)?;
        envelope.verify(self.root.role(role)?, &self.root, role).map_err(|error| {
            Error::Refused(format!("{error} ({} has too few keys)", keys.place()))
        })?;
        let bytes = envelope.to_bytes();
        if bytes.len() as u64 > role.bytes_max() {
            let what = role.name().to_owned();
            return Err(Error::TooLarge { what, bytes_max: role.bytes_max() });
        }
        self.write(&role.file_name(version), &bytes)?;
        Ok(bytes)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        served::write(&path, bytes)
    }

    /// Checks everything that a node would check, of all files of the newest version, and that
    /// every delta from an earlier version that is kept makes its file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self, now_s: i64) -> Result<(), Error> {
        let trusted = self.trusted(now_s)?;
        let targets = trusted.targets().ok_or_else(|| Error::malformed("targets", "none"))?;
        let earlier = self.earlier(u64::MAX);
        for (name, file) in &targets.targets {
            let path = self.folder.join(file.path(name));
            if !files::is(file, &hex::sha256_of_file(&path)?) {
                return Err(Error::not_as_signed(&path.display().to_string(), "damaged"));
            }
            deltas::verify(&self.folder, name, file, &earlier)?;
        }
        Ok(())
    }

    /// The newest version as a node comes to trust it.
    ///
    /// # Errors
    /// The first thing that does not count.
    pub fn trusted(&self, now_s: i64) -> Result<Trusted, Error> {
        let mut trusted = Trusted::begin(&read(&self.folder, &RoleName::Root.file_name(1))?)?;
        // By what is there, as nodes go: a root that does not count is no end of the way.
        loop {
            let name = RoleName::Root.file_name(trusted.root().version + 1);
            match self.folder.join(&name).try_exists() {
                Ok(false) => break,
                Ok(true) => trusted.next_root(&read(&self.folder, &name)?)?,
                Err(cause) => return Err(Error::Io { path: self.folder.join(&name), cause }),
            }
        }
        trusted.check_root_time(now_s)?;
        trusted.next_timestamp(&read(&self.folder, "timestamp.json")?, now_s)?;
        let version = trusted.wanted_snapshot()?.version;
        let name = RoleName::Snapshot.file_name(version);
        trusted.next_snapshot(&read(&self.folder, &name)?, now_s)?;
        let version = trusted.wanted_targets()?.version;
        trusted.next_targets(&read(&self.folder, &RoleName::Targets.file_name(version))?, now_s)?;
        Ok(trusted)
    }

    /// The list of files of a version that is still there.
    ///
    /// # Errors
    /// If it is not.
    pub fn version(&self, version: u64) -> Result<Targets, Error> {
        read_envelope(&self.folder, RoleName::Targets, version)?.read()
    }

    /// Copies a file of a version into the channel's folder, with its deltas.
    fn add(
        &self,
        name: &str,
        source: &Path,
        (length, sha256): (u64, String),
        earlier: &[Targets],
    ) -> Result<FileInfo, Error> {
        let hashes = BTreeMap::from([("sha256".to_owned(), sha256)]);
        let mut file = FileInfo { length, hashes, custom: Default::default() };
        let path = self.folder.join(file.path(name));
        let parent = path.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        served::copy(source, &path)?;
        if !files::is(&file, &hex::sha256_of_file(&path)?) {
            let why = format!("{} changed while it was published; try again", source.display());
            return Err(Error::Refused(why));
        }
        let folder = self.folder.join("deltas");
        std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        file.custom.deltas = deltas::make_all(&self.folder, name, &path, &file, earlier)?;
        Ok(file)
    }

    /// The lists of files of so many versions before the next one, the newest first.
    fn earlier(&self, versions: u64) -> Vec<Targets> {
        let newest = self.targets.version;
        let oldest = newest.saturating_sub(versions.saturating_sub(1)).max(1);
        let all = (oldest..=newest).rev().map_while(|version| self.version(version).ok());
        if versions == 0 { Vec::new() } else { all.collect() }
    }

    /// Removes what only versions before this one have.
    fn remove_before(&self, oldest: u64) -> Result<(), Error> {
        let mut kept = std::collections::BTreeSet::new();
        for version in oldest.max(1)..=self.targets.version {
            let Ok(targets) = self.version(version) else { continue };
            for (name, file) in &targets.targets {
                kept.insert(file.path(name));
                kept.extend(file.custom.deltas.iter().map(|delta| delta.path()));
            }
        }
        remove_others(&self.folder, &kept)?;
        for version in (1..oldest).rev() {
            let path = self.folder.join(RoleName::Targets.file_name(version));
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                // Those before it went with earlier versions.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(cause) => return Err(Error::Io { path, cause }),
            }
        }
        for version in (1..self.snapshot.saturating_sub(self.targets.version - oldest.max(1))).rev()
        {
            if std::fs::remove_file(self.folder.join(RoleName::Snapshot.file_name(version)))
                .is_err()
            {
                break;
            }
        }
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK_NAME);
    let mut options = File::options();
    let lock = options.create(true).truncate(false).write(true).open(&path);
    let lock = lock.map_err(Error::io(&path))?;
    match gauntlet_store::files::try_lock(&lock) {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let why = format!("{}: another publisher has this channel open", folder.display());
            Err(Error::Refused(why))
        }
        Err(TryLockError::Error(cause)) => Err(Error::Io { path, cause }),
    }
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let path = folder.join(name);
    gauntlet_store::files::read_regular(&path).map_err(Error::io(&path))
}

fn read_envelope(folder: &Path, role: RoleName, version: u64) -> Result<Envelope, Error> {
    Envelope::parse(role, &read(folder, &role.file_name(version))?)
}
