//! Other keys: a new root, signed by enough keys of the one before and by enough of its own.

use std::path::{Path, PathBuf};

use super::{KeyFolder, Lifetimes, Repository, read_envelope, served};
use crate::error::Error;
use crate::keys::PublicKey;
use crate::metadata::{Envelope, Metadata, RoleKeys, RoleName, Root};

/// A change to the keys of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing but a later expiry.
    Renew,
    /// One more key.
    Add(RoleName, PublicKey),
    /// One key less, by its id or the beginning of it.
    Remove(RoleName, String),
    /// This key instead of all that the role has.
    Replace(RoleName, PublicKey),
    /// So many keys must sign.
    Threshold(RoleName, u32),
}

/// What became of a new root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Staged {
    /// It is in force.
    InForce(u64),
    /// It lies here and wants further signatures ([`Repository::add_signatures`]).
    Waits(PathBuf),
}

impl Repository {
    /// Makes the next root and signs it with the keys of this folder. What was signed by a key that
    /// is replaced has to be signed again ([`Repository::refresh`]).
    ///
    /// # Errors
    /// If the change makes no sense, or nothing can be written.
    pub fn change_keys(
        &mut self,
        changes: &[Change],
        keys: &KeyFolder,
        lifetimes: Lifetimes,
        now_s: i64,
    ) -> Result<Staged, Error> {
        let mut next = self.root.clone();
        changes.iter().try_for_each(|change| apply(&mut next, change))?;
        next.roles.iter().try_for_each(|(role, keys)| can_sign(role, keys))?;
        next.version += 1;
        next.expires = lifetimes.end(RoleName::Root, now_s);
        let named: Vec<&String> = next.roles.values().flat_map(|role| &role.keyids).collect();
        let used: Vec<String> = named.into_iter().cloned().collect();
        next.keys.retain(|id, _| used.contains(id));
        next.check()?;
        let envelope = Envelope::unsigned(next.to_value());
        self.stage(envelope, keys)
    }

    /// Adds the signatures of this folder's keys to a root that waits for them.
    ///
    /// # Errors
    /// If none waits, or nothing can be written.
    pub fn add_signatures(&mut self, keys: &KeyFolder) -> Result<Staged, Error> {
        let path = self.waiting();
        let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
        self.stage(Envelope::parse(RoleName::Root, &bytes)?, keys)
    }

    fn waiting(&self) -> PathBuf {
        let name = RoleName::Root.file_name(self.root.version + 1);
        self.folder.join(format!("{name}.waiting"))
    }

    fn stage(&mut self, mut envelope: Envelope, keys: &KeyFolder) -> Result<Staged, Error> {
        let next: Root = envelope.read()?;
        let role = RoleName::Root;
        let named = |id: &String| {
            [&self.root, &next].iter().any(|r| r.role(role).is_ok_and(|k| k.keyids.contains(id)))
        };
        for key in keys.some(role)?.iter().filter(|key| named(&key.public().id())) {
            envelope.sign(key);
        }
        let by_old = envelope.verify(self.root.role(role)?, &self.root, role);
        let by_new = envelope.verify(next.role(role)?, &next, role);
        let waiting = self.waiting();
        if by_old.and(by_new).is_err() {
            write(&waiting, &envelope)?;
            return Ok(Staged::Waits(waiting));
        }
        let name = role.file_name(next.version);
        write(&self.folder.join(&name), &envelope)?;
        let _was_not_needed = std::fs::remove_file(&waiting);
        self.root = read_envelope(&self.folder, role, next.version)?.read()?;
        Ok(Staged::InForce(next.version))
    }
}

fn write(path: &Path, envelope: &Envelope) -> Result<(), Error> {
    served::write(path, &envelope.to_bytes())
}

fn can_sign(role: &str, keys: &RoleKeys) -> Result<(), Error> {
    let (count, threshold) = (keys.keyids.len(), keys.threshold);
    match threshold == 0 || (count as u64) < u64::from(threshold) {
        true => Err(Error::Refused(format!(
            "{role} would have {count} keys, and {threshold} of them must sign"
        ))),
        false => Ok(()),
    }
}

fn apply(root: &mut Root, change: &Change) -> Result<(), Error> {
    let refused = |why: String| Err(Error::Refused(why));
    let of = |root: &Root, role: RoleName| root.role(role).cloned();
    let (role, mut keys) = match change {
        Change::Renew => return Ok(()),
        Change::Add(role, _)
        | Change::Remove(role, _)
        | Change::Replace(role, _)
        | Change::Threshold(role, _) => (*role, of(root, *role)?),
    };
    match change {
        Change::Renew => {}
        Change::Add(_, key) => {
            if keys.keyids.contains(&key.id()) {
                return refused(format!("{} has this key already", role.name()));
            }
            root.keys.insert(key.id(), key.clone());
            keys.keyids.push(key.id());
        }
        Change::Remove(_, beginning) => {
            let found = keys.keyids.iter().filter(|id| id.starts_with(beginning.as_str()));
            let [only] = found.collect::<Vec<_>>()[..] else {
                return refused(format!(
                    "{beginning:?} names no key of {}, or several",
                    role.name()
                ));
            };
            let only = only.clone();
            keys.keyids.retain(|id| *id != only);
        }
        Change::Replace(_, key) => {
            root.keys.insert(key.id(), key.clone());
            (keys.keyids, keys.threshold) = (vec![key.id()], 1);
        }
        Change::Threshold(_, threshold) => keys.threshold = *threshold,
    }
    root.roles.insert(role.name().to_owned(), keys);
    Ok(())
}
