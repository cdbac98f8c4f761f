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

/// A file of an archive that is made anew.
#[derive(Debug, Clone)]
pub(crate) struct PackedFile<'b> {
    pub(crate) name: Vec<u8>,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) time: u16,
    pub(crate) crc: u32,
    /// As it stands in the archive, compressed.
    pub(crate) data: &'b [u8],
    /// Bytes of the file.
    pub(crate) size: u64,
}

impl PackedFile<'_> {
    /// Its name, whatever its encoding.
    pub(crate) fn text_name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Its bytes; none if there are not as many as it says, or over `bytes_max`.
    pub(crate) fn unpack(&self, bytes_max: u64) -> Option<Vec<u8>> {
        if self.size > bytes_max {
            return None;
        }
        let file =
            method::try_unpack(self.method, self.data, (self.size, self.flags), self.size + 1)?;
        (file.len() as u64 == self.size).then_some(file)
    }
}

/// The files of an archive that every program reads in one way.
///
/// # Errors
/// If it is read in several ways, or not at all.
pub(crate) fn packed_files(bytes: &[u8]) -> Result<Vec<PackedFile<'_>>, String> {
    let directory = Directory::read(bytes);
    let is_odd = !directory.differences.is_empty()
        || directory.is_volume
        || directory.has_more
        || directory.prefix > 0
        || !overlaps(&directory.entries).is_empty();
    if is_odd || directory.entries.is_empty() {
        return Err("programs may read different files of the package".to_owned());
    }
    if directory.entries.iter().any(|e| e.is_encrypted() || e.is_link()) {
        return Err("the package is encrypted or has links".to_owned());
    }
    let mut names = BTreeSet::new();
    if !directory.entries.iter().all(|e| names.insert(e.name.to_ascii_lowercase())) {
        return Err("two files of the package have one name".to_owned());
    }
    let file = |e: &Entry| PackedFile {
        name: e.name.clone(),
        flags: e.flags,
        method: e.method,
        time: e.time,
        crc: e.crc,
        data: e.bytes(bytes),
        size: e.size,
    };
    Ok(directory.entries.iter().map(file).collect())
}

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
    if !entry.is_encrypted() && !entry.is_encrypted_by_one {
        let file = method::unpack(entry.method, data, entry, unpacker);
        return unpacker.child(Child::named(name), &file);
    }
    if encryption::is_clear(entry, data, unpacker.limits()) {
        // Programs that do not look at the flag show it.
        if !entry.is_encrypted_by_one {
            let detail = format!("{name}: said to be encrypted, and is not");
            unpacker.property(PropertyKind::Ambiguous, &detail);
        }
        let file = method::unpack(entry.method, data, entry, unpacker);
        return unpacker.child(Child::named(name), &file);
    }
    if entry.is_encrypted_by_one {
        let file = method::unpack(entry.method, data, entry, unpacker);
        unpacker.child(Child::named(&name), &file);
    }
    match encryption::open(entry, data, known.as_deref(), unpacker) {
        encryption::Opened::File(file, password) => {
            *known = Some(password);
            unpacker.child(Child::named(name), &file);
        }
        encryption::Opened::Failed(kind, why) => {
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
#[cfg(test)]
pub(super) use self::tests::{FILE_LZMA, FILE_XZ, SEVENZ_LATER_BLOCK};
