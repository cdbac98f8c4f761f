//! ZIP (PKWARE APPNOTE.TXT 6.3.10), read as lenient programs do.
//!
//! Programs find the files of a ZIP by its central directory, by the first or the last one, or by
//! the local headers alone. All of them are read: what only one of them names is an object, too,
//! and the archive is [`PropertyKind::Ambiguous`].

mod directory;
mod encryption;
mod method;
mod old;

use std::collections::BTreeSet;

use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

use directory::{Directory, Entry};

/// Adds every file of the archive.
pub(crate) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let directory = Directory::read(bytes);
    describe(&directory, bytes, unpacker);
    let overlapping = overlaps(&directory.entries);
    if !overlapping.is_empty() {
        unpacker.property(PropertyKind::Overlapping, &format!("{} entries", overlapping.len()));
        unpacker.defect(DefectKind::Bomb, "entries share their bytes");
    }
    let mut password = None;
    for (index, entry) in directory.entries.iter().enumerate() {
        if unpacker.is_over() {
            return;
        }
        if overlapping.contains(&index) || entry.is_folder() {
            continue;
        }
        self::entry(entry, bytes, &mut password, unpacker);
    }
}

/// Where the archive ends.
pub(crate) fn end(bytes: &[u8]) -> usize {
    Directory::read(bytes).end
}

/// What the archive's structure shows.
fn describe(directory: &Directory, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if directory.prefix > 0 {
        unpacker.property(PropertyKind::DataBefore, &format!("{} bytes", directory.prefix));
    }
    if directory.end < bytes.len() {
        let behind = bytes.len() - directory.end;
        unpacker.property(PropertyKind::DataBehind, &format!("{behind} bytes"));
    }
    for difference in &directory.differences {
        unpacker.property(PropertyKind::Ambiguous, difference);
    }
    if directory.is_volume {
        unpacker.property(PropertyKind::Volume, "");
        unpacker.defect(DefectKind::MissingVolume, "");
    }
    if directory.has_more {
        unpacker.defect(DefectKind::TooManyObjects, "entries of a directory");
    }
    if directory.entries.is_empty() && !directory.is_empty_archive {
        unpacker.defect(DefectKind::Corrupt, "no entry can be read");
    }
}

/// Entries whose bytes another one has: a small file becomes a large one that way. The first of
/// each place is read.
fn overlaps(entries: &[Entry]) -> BTreeSet<usize> {
    let mut places: Vec<(usize, usize, usize)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.packed > 0 && !entry.is_folder())
        .map(|(index, entry)| {
            let packed = usize::try_from(entry.packed).unwrap_or(usize::MAX);
            (entry.data, entry.data.saturating_add(packed), index)
        })
        .collect();
    places.sort_unstable();
    let mut found = BTreeSet::new();
    let mut covered = 0;
    for (start, end, index) in places {
        if start < covered {
            found.insert(index);
        }
        covered = covered.max(end);
    }
    found
}

fn entry(entry: &Entry, bytes: &[u8], known: &mut Option<String>, unpacker: &mut Unpacker<'_>) {
    let name = entry.shown_name();
    if entry.is_link() {
        unpacker.property(PropertyKind::Link, &name);
    }
    let data = entry.bytes(bytes);
    if (data.len() as u64) < entry.packed {
        unpacker.defect(DefectKind::Truncated, &name);
    }
    if !entry.is_encrypted() {
        let file = method::unpack(entry.method, data, entry, unpacker);
        return unpacker.child(Child::named(name), &file);
    }
    match encryption::open(entry, data, known.as_deref(), unpacker) {
        encryption::Opened::File(file, password) => {
            *known = Some(password);
            unpacker.child(Child::named(name), &file);
        }
        encryption::Opened::No(kind, why) => {
            let detail = if why.is_empty() { name.clone() } else { format!("{name}: {why}") };
            unpacker.defect(kind, &detail);
            // Its name is known all the same: rules may look at it.
            unpacker.child(Child::named(name), b"");
        }
    }
}

impl Entry {
    /// The name as a program on Windows shows it.
    fn shown_name(&self) -> String {
        text::file_name(&self.name)
    }
}

#[cfg(test)]
mod tests;
