//! A verified copy of a channel, to be served to others.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use gauntlet_store::files::{read_regular, sync_folder, write_durably_as};

use crate::error::Error;
use crate::folder::remove_others;
use crate::hex;
use crate::limits::TIMESTAMP_BYTES_MAX;
use crate::metadata::{Envelope, RoleName, Targets};
use crate::pull::{Answer, Costs, Mirror, Puller};
use crate::trust::Trusted;

const MODE: u32 = 0o644;

/// Brings a copy up to date: new files, then the metadata that name them, the timestamp last. What
/// only versions before the last two had is removed. `root` is the channel's, handed over by hand;
/// without it, the copy's own.
///
/// # Errors
/// Whatever is wrong with the source; the copy is then as it was.
pub fn copy(
    source: &mut dyn Mirror,
    folder: &Path,
    root: Option<&[u8]>,
    now_s: i64,
) -> Result<(u64, Costs), Error> {
    let mut puller = Puller { mirror: source, costs: Costs::default() };
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let first = match root {
        Some(root) => root.to_owned(),
        None => read(folder, "1.root.json").map_err(|_| {
            Error::Refused(format!("{}: a first copy needs the channel's root", folder.display()))
        })?,
    };
    let mut trusted = Trusted::begin(&first)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        write_durably_as(&path, bytes, MODE).map_err(Error::io(&path))
    };
    let mut metadata = vec![(RoleName::Root.file_name(trusted.root().version), first)];
    puller.roots(&mut trusted, |bytes, version| {
        metadata.push((RoleName::Root.file_name(version), bytes.to_owned()));
        Ok(())
    })?;
    trusted.check_root_time(now_s)?;
    let before = read(folder, "timestamp.json").unwrap_or_default();
    trusted.remember(&before, &[], &[]);
    let timestamp = puller.bytes("timestamp.json", TIMESTAMP_BYTES_MAX)?;
    trusted.next_timestamp(&timestamp, now_s)?;
    let wanted = trusted.wanted_snapshot()?.clone();
    let snapshot = puller.meta(RoleName::Snapshot, &wanted)?;
    trusted.next_snapshot(&snapshot, now_s)?;
    metadata.push((RoleName::Snapshot.file_name(wanted.version), snapshot));
    let wanted = trusted.wanted_targets()?.clone();
    let bytes = puller.meta(RoleName::Targets, &wanted)?;
    let targets = trusted.next_targets(&bytes, now_s)?.clone();
    let last = newest_before(folder);
    let mut kept = listed(&targets);
    kept.iter().try_for_each(|file| puller.copy_file(file, folder))?;
    metadata.push((RoleName::Targets.file_name(targets.version), bytes));
    metadata.iter().try_for_each(|(name, bytes)| write(name, bytes))?;
    write("timestamp.json", &timestamp)?;
    kept.extend(last.iter().flat_map(listed));
    remove_others(folder, &kept.into_iter().map(|file| file.path).collect())?;
    Ok((targets.version, puller.costs))
}

/// A file that a version names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    path: String,
    length: u64,
    sha256: String,
}

/// All files and deltas of a version.
fn listed(targets: &Targets) -> BTreeSet<Listed> {
    let mut all = BTreeSet::new();
    for (name, file) in &targets.targets {
        let (path, length, sha256) = (file.path(name), file.length, file.sha256().to_owned());
        all.insert(Listed { path, length, sha256 });
        for delta in &file.custom.deltas {
            let (length, sha256) = (delta.length, delta.sha256.clone());
            all.insert(Listed { path: delta.path(), length, sha256 });
        }
    }
    all
}

impl Puller<'_> {
    fn copy_file(&mut self, listed: &Listed, folder: &Path) -> Result<(), Error> {
        let to = folder.join(&listed.path);
        // Its name is its hash.
        if fs::metadata(&to).is_ok_and(|file| file.len() == listed.length) {
            return Ok(());
        }
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
        let beside = to.with_extension("new");
        let mut file = File::create(&beside).map_err(Error::io(&beside))?;
        match self.fetch(&listed.path, listed.length, None, &mut file)? {
            Answer::Whole(_) => {}
            Answer::Same | Answer::Missing => {
                let why = "the mirror does not have it".to_owned();
                return Err(Error::Fetch { what: listed.path.clone(), why });
            }
        }
        file.sync_all().map_err(Error::io(&beside))?;
        if hex::sha256_of_file(&beside)? != (listed.length, listed.sha256.clone()) {
            let _told_below = fs::remove_file(&beside);
            return Err(Error::not_as_signed(&listed.path, "another length or SHA-256"));
        }
        fs::rename(&beside, &to).map_err(Error::io(&to))?;
        sync_folder(parent).map_err(Error::io(parent))
    }
}

/// The list of files that the copy has so far.
fn newest_before(folder: &Path) -> Option<Targets> {
    let numbers = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        entry.file_name().to_str()?.strip_suffix(".targets.json")?.parse::<u64>().ok()
    });
    let bytes = read(folder, &RoleName::Targets.file_name(numbers.max()?)).ok()?;
    Envelope::parse(RoleName::Targets, &bytes).ok()?.read().ok()
}

fn read(folder: &Path, name: &str) -> std::io::Result<Vec<u8>> {
    read_regular(&folder.join(name))
}
