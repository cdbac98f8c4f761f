//! FAT12, FAT16 and FAT32 (Microsoft's "FAT: General Overview of On-Disk Format" 1.03), with long
//! names.

use std::collections::HashSet;

use super::{Disk, SECTOR_BYTES};
use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

/// Bytes of tables and folders that are read.
const TABLE_BYTES_MAX: usize = 16 << 20;
const FOLDER_BYTES_MAX: usize = 8 << 20;
/// Folders of one file system.
const FOLDERS_MAX: usize = 4_096;
/// Clusters below which the table has 12 or 16 bits for each (the only rule that counts).
const CLUSTERS_12: usize = 4_085;
const CLUSTERS_16: usize = 65_525;
const ENTRY_BYTES: usize = 32;

const VOLUME_LABEL: u8 = 0x08;
const FOLDER: u8 = 0x10;
const LONG_NAME: u8 = 0x0f;

/// Whether a sector begins a FAT file system.
pub(super) fn is_match(sector: &[u8]) -> bool {
    let sector_bytes = u16_at(sector, 11).unwrap_or(0);
    sector.get(510..512) == Some(&[0x55, 0xaa])
        && matches!(sector[0], 0xeb | 0xe9)
        && matches!(sector_bytes, 512 | 1_024 | 2_048 | 4_096)
        && sector[13].is_power_of_two()
        && (1..=4).contains(&sector[16])
}

/// The layout of a file system FAT12, FAT16 or FAT32, with its table.
struct Fat<'d> {
    disk: &'d Disk<'d>,
    /// Bits of an entry of the table.
    bits: usize,
    table: Vec<u8>,
    cluster_bytes: usize,
    clusters: usize,
    /// Where the second cluster, the first that exists, begins.
    data_at: u64,
}

/// Adds the files of a file system that begins at a place of the disk.
pub(super) fn decode(disk: &Disk<'_>, start: u64, unpacker: &mut Unpacker<'_>) {
    let boot = disk.get(start, SECTOR_BYTES);
    let Some((fat, root)) = Fat::read(disk, start, &boot) else {
        return unpacker.defect(DefectKind::Corrupt, "the boot sector");
    };
    let mut seen = HashSet::new();
    let mut waiting = vec![(root, String::new())];
    while let Some((folder, path)) = waiting.pop() {
        for entry in entries(&folder) {
            if unpacker.is_over() {
                return;
            }
            let name = if path.is_empty() { entry.name } else { format!("{path}/{}", entry.name) };
            if !entry.is_folder {
                let mut chain = fat.chain(entry.cluster, entry.size);
                if chain.len() < entry.size {
                    unpacker.defect(DefectKind::Truncated, &name);
                }
                chain.truncate(entry.size);
                let packed = chain.len() as u64;
                let body = unpacker.read(&mut chain.as_slice(), packed, &name);
                unpacker.child(Child::named(name), &body);
            } else if seen.len() >= FOLDERS_MAX {
                return unpacker.defect(DefectKind::TooManyObjects, "folders");
            } else if seen.insert(entry.cluster) {
                waiting.push((fat.chain(entry.cluster, FOLDER_BYTES_MAX), name));
            }
        }
    }
}

impl<'d> Fat<'d> {
    /// The file system and the bytes of its root folder.
    fn read(disk: &'d Disk<'d>, start: u64, boot: &[u8]) -> Option<(Self, Vec<u8>)> {
        let sector_bytes = usize::from(u16_at(boot, 11)?);
        let cluster_sectors = usize::from(*boot.get(13)?);
        let reserved = usize::from(u16_at(boot, 14)?);
        let tables = usize::from(*boot.get(16)?);
        let root_sectors = (usize::from(u16_at(boot, 17)?) * ENTRY_BYTES).div_ceil(sector_bytes);
        let wide = |narrow: usize, wide: usize| {
            let narrow = usize::from(u16_at(boot, narrow)?);
            if narrow > 0 { Some(narrow) } else { Some(u32_at(boot, wide)? as usize) }
        };
        let (total, table_sectors) = (wide(19, 32)?, wide(22, 36)?);
        let root_sector = reserved.checked_add(tables.checked_mul(table_sectors)?)?;
        let data_sector = root_sector.checked_add(root_sectors)?;
        let clusters = total.checked_sub(data_sector)? / cluster_sectors;
        let bits = match clusters {
            0..CLUSTERS_12 => 12,
            CLUSTERS_12..CLUSTERS_16 => 16,
            _ => 32,
        };
        let place = |sector: usize| start + sector as u64 * sector_bytes as u64;
        let table_bytes = table_sectors.saturating_mul(sector_bytes).min(TABLE_BYTES_MAX);
        let fat = Fat {
            disk,
            bits,
            table: disk.get(place(reserved), table_bytes),
            cluster_bytes: cluster_sectors * sector_bytes,
            clusters,
            data_at: place(data_sector),
        };
        let root = match bits {
            32 => fat.chain(u32_at(boot, 44)?, FOLDER_BYTES_MAX),
            _ => disk.get(place(root_sector), root_sectors * sector_bytes),
        };
        Some((fat, root))
    }

    /// The cluster behind one; none at the end of its chain.
    fn next(&self, cluster: u32) -> Option<u32> {
        let index = cluster as usize;
        let (next, end) = match self.bits {
            12 => {
                let pair = u32::from(u16_at(&self.table, index + index / 2)?);
                (if index % 2 == 1 { pair >> 4 } else { pair & 0xfff }, 0xff0)
            }
            16 => (u32::from(u16_at(&self.table, 2 * index)?), 0xfff0),
            _ => (u32_at(&self.table, 4 * index)? & 0x0fff_ffff, 0x0fff_fff0),
        };
        (2..end).contains(&next).then_some(next)
    }

    /// The bytes of a chain of clusters, at most about `size`; one that comes back ends when it has
    /// as many clusters as there are.
    fn chain(&self, start: u32, size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = Some(start).filter(|start| *start >= 2);
        for _ in 0..self.clusters {
            let Some(cluster) = at.filter(|_| out.len() < size) else { break };
            let place = u64::from(cluster - 2) * self.cluster_bytes as u64;
            let before = out.len();
            self.disk.append(self.data_at + place, self.cluster_bytes, &mut out);
            if out.len() == before {
                break;
            }
            at = self.next(cluster);
        }
        out
    }
}

struct Entry {
    name: String,
    is_folder: bool,
    cluster: u32,
    size: usize,
}

/// The entries of a folder; a long name stands in entries before its own, the last piece first.
fn entries(folder: &[u8]) -> Vec<Entry> {
    let (mut out, mut long) = (Vec::new(), Vec::new());
    for entry in folder.chunks_exact(ENTRY_BYTES) {
        let attributes = entry[11];
        match entry[0] {
            0 => break,
            0xe5 => long.clear(),
            _ if attributes & 0x3f == LONG_NAME => {
                long.push([&entry[1..11], &entry[14..26], &entry[28..32]].concat());
            }
            _ if attributes & VOLUME_LABEL != 0 || entry[0] == b'.' => long.clear(),
            _ => {
                let pieces: Vec<u8> = long.drain(..).rev().flatten().collect();
                let name = match pieces.is_empty() {
                    true => short_name(entry),
                    false => text::utf16_le(&pieces).split('\0').next().unwrap_or("").to_owned(),
                };
                let high = u32::from(u16_at(entry, 20).unwrap_or(0)) << 16;
                out.push(Entry {
                    name,
                    is_folder: attributes & FOLDER != 0,
                    cluster: high | u32::from(u16_at(entry, 26).unwrap_or(0)),
                    size: u32_at(entry, 28).unwrap_or(0) as usize,
                });
            }
        }
    }
    out
}

/// Eight characters and three, without the spaces that fill them up.
fn short_name(entry: &[u8]) -> String {
    let part = |at: usize, length: usize| {
        text::file_name(slice(entry, at, length).trim_ascii_end()).to_ascii_lowercase()
    };
    let (stem, ending) = (part(0, 8), part(8, 3));
    if ending.is_empty() { stem } else { format!("{stem}.{ending}") }
}
