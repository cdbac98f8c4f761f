//! Compound files (MS-CFB), read leniently: what a damaged chain still has is kept.

use std::collections::HashSet;

use crate::text;

/// Bytes of all streams that are read, as a multiple of the file's: streams that share sectors
/// would have more.
const SHARED_FACTOR: usize = 4;
const DIRECTORY_ENTRIES_MAX: usize = 10_000;
const END_OF_CHAIN: u32 = 0xffff_fffe;
/// Streams below this size lie in the short sectors (MS-CFB section 2.2).
const MINI_CUTOFF: u64 = 4_096;

/// A stream with its path.
pub(super) struct Stream {
    /// Names of the storages around it and its own, joined by `/`.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

impl Stream {
    /// Its own name, without the storages around it.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The streams of a compound file (MS-CFB).
pub(super) struct Compound {
    pub(super) streams: Vec<Stream>,
    /// Class of the root storage, 16 bytes as they stand.
    pub(super) class: [u8; 16],
    pub(super) is_cut: bool,
}

struct Reader<'b> {
    bytes: &'b [u8],
    sector: usize,
    fat: Vec<u32>,
    room: usize,
    is_cut: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

impl<'b> Reader<'b> {
    fn sector(&self, number: u32) -> &'b [u8] {
        let start = (number as usize).saturating_add(1).saturating_mul(self.sector);
        let end = start.saturating_add(self.sector).min(self.bytes.len());
        self.bytes.get(start.min(end)..end).unwrap_or_default()
    }

    /// The sectors of a chain, until it ends, breaks or comes back.
    fn chain(&mut self, start: u32, size: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut at, mut seen) = (start, HashSet::new());
        while at < END_OF_CHAIN && (out.len() as u64) < size && seen.insert(at) {
            let sector = self.sector(at);
            if sector.is_empty() || self.room < sector.len() {
                self.is_cut = true;
                break;
            }
            self.room -= sector.len();
            out.extend_from_slice(sector);
            at = self.fat.get(at as usize).copied().unwrap_or(END_OF_CHAIN);
        }
        out.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        out
    }
}

/// A short stream, out of the root's stream.
fn mini_chain(mini: &[u8], fat: &[u32], sector: usize, start: u32, size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut at, mut seen) = (start, HashSet::new());
    while at < END_OF_CHAIN && (out.len() as u64) < size && seen.insert(at) {
        let from = (at as usize).saturating_mul(sector);
        let Some(bytes) = mini.get(from..from.saturating_add(sector).min(mini.len())) else {
            break;
        };
        out.extend_from_slice(bytes);
        at = fat.get(at as usize).copied().unwrap_or(END_OF_CHAIN);
    }
    out.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    out
}

struct Node {
    name: String,
    kind: u8,
    left: u32,
    right: u32,
    child: u32,
    class: [u8; 16],
    start: u32,
    size: u64,
}

fn node(entry: &[u8]) -> Option<Node> {
    let name_bytes = usize::from(u16_at(entry, 64)?).min(64);
    let name = text::utf16_le(entry.get(..name_bytes.saturating_sub(2))?);
    let mut class = [0; 16];
    class.copy_from_slice(entry.get(80..96)?);
    Some(Node {
        name,
        kind: *entry.get(66)?,
        left: u32_at(entry, 68)?,
        right: u32_at(entry, 72)?,
        child: u32_at(entry, 76)?,
        class,
        start: u32_at(entry, 116)?,
        size: u64::from(u32_at(entry, 120)?),
    })
}

impl Compound {
    /// Reads a file; none if it has no header or no directory.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let shift = u16_at(bytes, 30)?;
        let sector = if shift == 12 { 4_096 } else { 512 };
        let room = bytes.len().saturating_mul(SHARED_FACTOR);
        let mut reader = Reader { bytes, sector, fat: Vec::new(), room, is_cut: false };
        reader.fat = fat(&reader)?;
        let directory = reader.chain(u32_at(bytes, 48)?, u64::MAX);
        let nodes: Vec<Node> =
            directory.chunks_exact(128).take(DIRECTORY_ENTRIES_MAX).map_while(node).collect();
        let root = nodes.first()?;
        let mini = reader.chain(root.start, root.size.max(1));
        let mini_fat = reader.chain(u32_at(bytes, 60)?, u64::MAX);
        let mini_fat: Vec<u32> = mini_fat.chunks_exact(4).filter_map(|b| u32_at(b, 0)).collect();
        let mut streams = Vec::new();
        // Every entry of the directory counts, also one that no storage names.
        let paths = paths(&nodes);
        for (node, path) in nodes.iter().zip(paths).filter(|(node, _)| node.kind == 2) {
            let bytes = match node.size < MINI_CUTOFF {
                true => mini_chain(&mini, &mini_fat, 64, node.start, node.size),
                false => reader.chain(node.start, node.size),
            };
            streams.push(Stream { path, bytes });
        }
        Some(Compound { streams, class: root.class, is_cut: reader.is_cut })
    }
}

/// The allocation table: from the header's list and the sectors that continue it.
fn fat(reader: &Reader<'_>) -> Option<Vec<u32>> {
    let mut sectors: Vec<u32> = (0..109).filter_map(|i| u32_at(reader.bytes, 76 + 4 * i)).collect();
    let (mut next, mut seen) = (u32_at(reader.bytes, 68)?, HashSet::new());
    while next < END_OF_CHAIN && seen.insert(next) {
        let more = reader.sector(next);
        let last = more.len().checked_sub(4)?;
        sectors.extend(more[..last].chunks_exact(4).filter_map(|b| u32_at(b, 0)));
        next = u32_at(more, last)?;
    }
    let mut fat = Vec::new();
    for number in sectors.into_iter().filter(|number| *number < END_OF_CHAIN) {
        fat.extend(reader.sector(number).chunks_exact(4).filter_map(|b| u32_at(b, 0)));
        if fat.len() > reader.bytes.len() / 4 + reader.sector {
            break;
        }
    }
    Some(fat)
}

/// The path of each entry: storages are trees of siblings.
fn paths(nodes: &[Node]) -> Vec<String> {
    let mut paths: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let mut waiting = vec![(0usize, String::new())];
    let mut seen = HashSet::from([0usize]);
    while let Some((index, around)) = waiting.pop() {
        let Some(node) = nodes.get(index) else { continue };
        let own = match (index, around.as_str()) {
            (0, _) => String::new(),
            (_, "") => node.name.clone(),
            (_, around) => format!("{around}/{}", node.name),
        };
        for (next, inside) in [(node.left, &around), (node.right, &around), (node.child, &own)] {
            let next = next as usize;
            if next < nodes.len() && inside.len() < 4_096 && seen.insert(next) {
                waiting.push((next, inside.clone()));
            }
        }
        if index > 0 {
            paths[index] = own;
        }
    }
    paths
}
