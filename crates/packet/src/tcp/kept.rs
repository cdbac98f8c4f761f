//! What is kept of one direction of a stream.

use std::collections::BTreeMap;

use super::region::{REGION_GAP, Region};

/// A region that grows towards the beginning of the stream grows by so much, lest a stream of
/// segments in reverse order be moved at every byte.
const HEADROOM: u64 = 16 << 10;

/// What one block costs, for the memory limit.
const BLOCK_BYTES: u64 = 48;

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The memory of all streams is used up.
    Memory,
    /// There would be more regions than allowed.
    Regions,
    /// They lie before what is kept.
    Before,
}

/// What a reader finds at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Nothing here or later.
    Nothing,
    /// So many bytes are missing before the next that has come.
    Missing(u64),
    /// Bytes up to the next hole.
    Bytes(&'a [u8]),
}

/// Bytes in regions, and which of them have come.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    base: u64,
    /// Bytes from `base` without a hole, while there are no blocks.
    consecutive: u64,
    /// Start and end of what has come, once something was missing.
    blocks: BTreeMap<u64, u64>,
    main: Region,
    /// Further away, in order.
    far: Vec<Region>,
}

impl Kept {
    /// Nothing yet, from an offset on.
    pub(crate) fn new(base: u64) -> Self {
        Self { base, main: Region::at(base), ..Self::default() }
    }

    pub(crate) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Pieces that are far from each other.
    pub(crate) fn regions(&self) -> u16 {
        u16::try_from(1 + self.far.len()).unwrap_or(u16::MAX)
    }

    pub(crate) fn consecutive_end(&self) -> u64 {
        if self.blocks.is_empty() {
            self.base + self.consecutive
        } else {
            self.blocks.get(&self.base).copied().unwrap_or(self.base)
        }
    }

    pub(crate) fn available(&self) -> u64 {
        if !self.blocks.is_empty() {
            self.blocks.iter().map(|(start, end)| end - start).sum()
        } else if self.base != 0 {
            0
        } else {
            self.consecutive
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let far: usize = self.far.iter().map(|region| region.capacity()).sum();
        let blocks = self.blocks.len() as u64 * BLOCK_BYTES;
        (size_of::<Self>() + self.main.capacity() + far) as u64 + blocks
    }

    pub(crate) fn growth(&self, offset: u64, len: usize) -> u64 {
        let end = offset + len as u64;
        let near = |region: &Region| region.is_near(offset, end);
        let reach = if near(&self.main) {
            self.main.end()
        } else {
            match self.far.iter().rfind(|region| near(region)) {
                Some(region) => region.end(),
                None => offset.saturating_sub(HEADROOM),
            }
        };
        end.saturating_sub(reach).max(len as u64)
    }

    pub(crate) fn insert(
        &mut self,
        offset: u64,
        bytes: &[u8],
        regions_max: u16,
    ) -> Result<(), Refusal> {
        let end = offset + bytes.len() as u64;
        if self.far.is_empty() && self.main.is_near(offset, end) {
            self.main.put(self.base, offset, bytes);
        } else {
            self.region_for(offset, end, regions_max)?.write(offset, bytes);
        }
        if !self.blocks.is_empty() {
            self.add_block(offset, end);
        } else if offset <= self.base + self.consecutive
            && (self.consecutive > 0 || offset == self.base)
        {
            self.consecutive = self.consecutive.max(end - self.base);
        } else {
            let first = (self.base, self.base + self.consecutive);
            let blocks = &mut self.blocks;
            if first.1 > first.0 {
                blocks.insert(first.0, first.1);
            }
            blocks.insert(offset, end);
        }
        Ok(())
    }

    fn region_for(
        &mut self,
        offset: u64,
        end: u64,
        regions_max: u16,
    ) -> Result<&mut Region, Refusal> {
        let first = self.far.partition_point(|region| region.end() + REGION_GAP < offset);
        let last = self.far.partition_point(|region| region.offset <= end + REGION_GAP);
        let joined = first..last.max(first);
        if self.main.is_near(offset, end) {
            for region in self.far.drain(joined) {
                let kept = region.get(region.offset, region.end());
                self.main.cover(self.base, region.end());
                self.main.write(region.offset, kept);
            }
            self.main.cover(self.base, end);
            return Ok(&mut self.main);
        }
        if joined.is_empty() {
            if regions_max != 0 && self.far.len() + 1 >= usize::from(regions_max) {
                return Err(Refusal::Regions);
            }
            let start = offset.saturating_sub(HEADROOM).max(self.main.end());
            self.far.insert(first, Region::at(start));
        } else {
            let rest = self.far.drain(first + 1..last).collect::<Vec<_>>();
            if let Some(region) = self.far.get_mut(first) {
                for next in rest {
                    region.cover(region.offset, next.end());
                    region.write(next.offset, next.get(next.offset, next.end()));
                }
                if offset < region.offset {
                    let start = offset.saturating_sub(HEADROOM).max(self.main.end());
                    region.cover(start.min(offset), region.end());
                }
            }
        }
        let region = self.far.get_mut(first).ok_or(Refusal::Regions)?;
        region.cover(region.offset.min(offset), end);
        Ok(region)
    }

    fn add_block(&mut self, mut start: u64, mut end: u64) {
        let blocks = &mut self.blocks;
        if let Some((&before, &before_end)) = blocks.range(..=start).next_back() {
            if before_end >= end {
                return;
            }
            if before_end >= start {
                start = before;
            }
        }
        while let Some((&next, &next_end)) = blocks.range(start..).next() {
            if next > end {
                break;
            }
            blocks.remove(&next);
            end = end.max(next_end);
        }
        blocks.insert(start, end);
    }

    /// The block that holds an offset, or the first after it.
    fn block_at(&self, offset: u64) -> Option<(u64, u64)> {
        let before = self.blocks.range(..=offset).next_back();
        if let Some((&start, &end)) = before
            && offset < end
        {
            return Some((start, end));
        }
        self.blocks.range(offset..).next().map(|(&start, &end)| (start, end))
    }

    pub(crate) fn read(&self, offset: u64) -> Found<'_> {
        if self.blocks.is_empty() {
            let end = self.base + self.consecutive;
            return if offset >= self.base && offset < end {
                Found::Bytes(self.main.get(offset, end))
            } else {
                Found::Nothing
            };
        }
        match self.block_at(offset) {
            None => Found::Nothing,
            Some((start, _)) if start > offset => Found::Missing(start - offset),
            Some((_, end)) => Found::Bytes(self.slice(offset, end)),
        }
    }

    pub(crate) fn gap_behind(&self, offset: u64, acknowledged: u64) -> bool {
        let Some((start, end)) = self.block_at(offset) else {
            return false;
        };
        let next = self.blocks.range(start + 1..).next();
        next.is_some_and(|(&next, _)| end < next) && acknowledged > end
    }

    pub(crate) fn block_around(&self, start: u64, end: u64) -> Option<(u64, &[u8])> {
        let holds =
            self.blocks.range(..=start).next_back().filter(|&(_, &block_end)| block_end >= end);
        let (&from, &to) = holds.or_else(|| self.blocks.range(end..).next())?;
        Some((from, self.slice(from, to)))
    }

    pub(crate) fn blocks_from(&self, offset: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.block_at(offset).map_or(u64::MAX, |(start, _)| start);
        self.blocks.range(first..).map(move |(&start, &end)| {
            let from = start.max(offset);
            (from, self.slice(from, end))
        })
    }

    pub(crate) fn whole(&self) -> &[u8] {
        self.main.get(self.base, self.base + self.consecutive)
    }

    pub(crate) fn slice(&self, start: u64, end: u64) -> &[u8] {
        if start < self.main.end() || self.far.is_empty() {
            return self.main.get(start, end);
        }
        self.far
            .iter()
            .find(|region| start >= region.offset && start < region.end())
            .map_or(&[], |region| region.get(start, end))
    }

    /// Forgets what is before an offset; whether anything is left.
    pub(crate) fn slide(&mut self, offset: u64) -> bool {
        self.consecutive = (self.base + self.consecutive).saturating_sub(offset);
        self.base = offset;
        self.main.forget(offset);
        self.far.retain(|region| region.end() > offset);
        if self.main.len() == 0
            && let Some(region) = self.far.first()
            && region.offset <= offset
        {
            self.main = self.far.remove(0);
            self.main.forget(offset);
        }
        let had_blocks = !self.blocks.is_empty();
        while let Some((&start, &end)) = self.blocks.iter().next() {
            if start >= offset {
                break;
            }
            self.blocks.remove(&start);
            if end > offset {
                self.blocks.insert(offset, end);
                break;
            }
        }
        if had_blocks && self.blocks.is_empty() {
            self.consecutive = 0;
        }
        self.consecutive > 0 || !self.blocks.is_empty()
    }
}
