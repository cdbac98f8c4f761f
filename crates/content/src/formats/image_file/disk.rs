//! Disks: raw ones and virtual ones of fixed and growing size (VHD, Microsoft's "Virtual Hard Disk
//! Image Format Specification"), with or without a table of partitions, and the FAT file systems on
//! them. Windows shows such a file as a drive when it is opened.

mod fat;

use crate::formats::numbers::{slice, u32_at};
use crate::object::DefectKind;
use crate::unpack::Unpacker;

pub(super) const SECTOR_BYTES: usize = 512;
/// Blocks of a growing disk.
const BLOCKS_MAX: usize = 1 << 20;
const FOOTER: &[u8] = b"conectix";
const PARTITION_TABLE_AT: usize = 446;

/// The bytes of a disk, wherever its file has them.
struct Disk<'b> {
    bytes: &'b [u8],
    /// Of a growing disk: the sector of each block (none if it has no bytes), and bytes of a block.
    blocks: Option<(Vec<u32>, usize)>,
}

impl<'b> Disk<'b> {
    /// A raw or virtual disk; none if its header does not hold.
    fn read(bytes: &'b [u8]) -> Option<Self> {
        if !bytes.starts_with(FOOTER) {
            return Some(Disk { bytes, blocks: None });
        }
        let header_at = usize::try_from(u64_be(bytes, 16)?).ok()?;
        let header = bytes.get(header_at..).filter(|header| header.starts_with(b"cxsparse"))?;
        let table_at = usize::try_from(u64_be(header, 16)?).ok()?;
        let count = (u32_be(header, 28)? as usize).min(BLOCKS_MAX);
        let block_bytes = Some(u32_be(header, 32)? as usize)
            .filter(|size| size.is_power_of_two() && *size >= SECTOR_BYTES)?;
        let table = slice(bytes, table_at, 4 * count);
        let blocks = table.chunks_exact(4).filter_map(|entry| u32_be(entry, 0)).collect();
        Some(Disk { bytes, blocks: Some((blocks, block_bytes)) })
    }

    /// Adds bytes from a place on; places without bytes are zeros, behind the end is nothing.
    fn append(&self, mut at: u64, mut length: usize, out: &mut Vec<u8>) {
        let Some((blocks, block_bytes)) = &self.blocks else {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            return out.extend_from_slice(slice(self.bytes, at, length));
        };
        // A map of its sectors stands before each block.
        let map_bytes = (block_bytes / SECTOR_BYTES / 8).div_ceil(SECTOR_BYTES) * SECTOR_BYTES;
        while length > 0 {
            let index = usize::try_from(at / *block_bytes as u64).unwrap_or(usize::MAX);
            let within = (at % *block_bytes as u64) as usize;
            let Some(&sector) = blocks.get(index) else { return };
            let here = length.min(block_bytes - within);
            if sector == u32::MAX {
                out.resize(out.len() + here, 0);
            } else {
                let start = sector as usize * SECTOR_BYTES + map_bytes + within;
                out.extend_from_slice(slice(self.bytes, start, here));
            }
            at += here as u64;
            length -= here;
        }
    }

    fn get(&self, at: u64, length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(at, length, &mut out);
        out
    }
}

fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    u32_at(bytes, at).map(u32::swap_bytes)
}

fn u64_be(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32_be(bytes, at)?) << 32 | u64::from(u32_be(bytes, at + 4)?))
}

/// Whether a disk image is one of these, and not one of ISO 9660 or UDF.
pub(super) fn is_match(bytes: &[u8]) -> bool {
    let has_boot_sector = bytes.get(510..512) == Some(&[0x55, 0xaa]);
    let is_optical = ["CD001", "BEA01"]
        .iter()
        .any(|mark| bytes.get(0x8001..).is_some_and(|b| b.starts_with(mark.as_bytes())));
    bytes.starts_with(FOOTER) || bytes.starts_with(b"vhdxfile") || (has_boot_sector && !is_optical)
}

/// Adds the files of every file system of the disk.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if bytes.starts_with(b"vhdxfile") {
        return unpacker.defect(DefectKind::Unsupported, "VHDX");
    }
    let Some(disk) = Disk::read(bytes) else {
        return unpacker.defect(DefectKind::Corrupt, "the header of a virtual disk");
    };
    let first = disk.get(0, SECTOR_BYTES);
    if fat::is_match(&first) {
        return fat::decode(&disk, 0, unpacker);
    }
    let mut found = false;
    for entry in slice(&first, PARTITION_TABLE_AT, 64).chunks_exact(16) {
        let (kind, start) = (entry[4], u32_at(entry, 8).unwrap_or(0));
        if kind == 0 || start == 0 {
            continue;
        }
        found = true;
        let at = u64::from(start) * SECTOR_BYTES as u64;
        if fat::is_match(&disk.get(at, SECTOR_BYTES)) {
            fat::decode(&disk, at, unpacker);
        } else {
            let detail = format!("a partition of type {kind:#04x}");
            unpacker.defect(DefectKind::Unsupported, &detail);
        }
    }
    if !found {
        unpacker.defect(DefectKind::Unsupported, "a disk without a known file system");
    }
}

#[cfg(test)]
mod tests;
