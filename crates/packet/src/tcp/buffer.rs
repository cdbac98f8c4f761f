//! The bytes of one direction of a stream, some of them missing.
//!
//! Bytes lie at their offset from the beginning of the stream. What is near to each other shares
//! a region, so that a hole that is filled costs one copy; what is far away has a region of its
//! own. Which bytes have come is kept as blocks. As long as nothing is missing there are no
//! blocks, only a length: that is the common case, and callers treat the two in different ways,
//! as Suricata does.

use super::kept::{Found, Kept, Refusal};

/// Bytes of one direction.
#[derive(Debug, Default)]
pub(crate) struct StreamBuffer {
    /// Offset of the first byte that is kept.
    base: u64,
    /// What is kept; most of the time most streams keep nothing.
    kept: Option<Box<Kept>>,
    /// The most regions there ever were.
    regions_max: u16,
}

impl StreamBuffer {
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Whether there has ever been data.
    pub(crate) fn has_seen_data(&self) -> bool {
        self.base > 0 || self.kept.is_some()
    }

    /// Whether something is or was missing (blocks are kept).
    pub(crate) fn has_blocks(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.has_blocks())
    }

    /// The end of the bytes that follow `base` without a hole.
    pub(crate) fn consecutive_end(&self) -> u64 {
        self.kept.as_ref().map_or(self.base, |kept| kept.consecutive_end())
    }

    /// The most regions there ever were, one before there is data.
    pub(crate) fn regions_max(&self) -> u16 {
        self.regions_max.max(1)
    }

    /// Bytes that protocol detection could look at.
    pub(crate) fn available(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.available())
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.bytes())
    }

    /// How much memory an insertion would need at most.
    pub(crate) fn growth(&self, offset: u64, len: usize) -> u64 {
        match &self.kept {
            Some(kept) => kept.growth(offset, len),
            None => size_of::<Kept>() as u64 + len as u64 + offset.saturating_sub(self.base),
        }
    }

    /// Writes bytes at an offset, over what is there.
    pub(crate) fn insert(
        &mut self,
        offset: u64,
        bytes: &[u8],
        regions_max: u16,
    ) -> Result<(), Refusal> {
        let base = self.base;
        if offset < base {
            return Err(Refusal::Before);
        }
        let kept = match &mut self.kept {
            Some(kept) => {
                kept.insert(offset, bytes, regions_max)?;
                kept
            }
            None => {
                let mut kept = Box::new(Kept::new(base));
                kept.insert(offset, bytes, regions_max)?;
                self.kept.insert(kept)
            }
        };
        self.regions_max = self.regions_max.max(kept.regions());
        Ok(())
    }

    /// What a reader in order finds at an offset.
    pub(crate) fn read(&self, offset: u64) -> Found<'_> {
        self.kept.as_ref().map_or(Found::Nothing, |kept| kept.read(offset))
    }

    /// Whether bytes are missing behind the block that holds an offset, though later ones before
    /// `acknowledged` have come.
    pub(crate) fn gap_behind(&self, offset: u64, acknowledged: u64) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.gap_behind(offset, acknowledged))
    }

    /// The block that holds the whole of a range, or the first that begins at or after its end.
    pub(crate) fn block_around(&self, start: u64, end: u64) -> Option<(u64, &[u8])> {
        self.kept.as_ref()?.block_around(start, end)
    }

    /// Blocks from the one that holds an offset on; the first is cut at it.
    pub(crate) fn blocks_from(&self, offset: u64) -> impl Iterator<Item = (u64, &[u8])> {
        self.kept.iter().flat_map(move |kept| kept.blocks_from(offset))
    }

    /// All bytes from `base` on without a hole, while there are no blocks.
    pub(crate) fn whole(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |kept| kept.whole())
    }

    /// Bytes of a range, as far as its beginning's region has them; holes are zeros.
    pub(crate) fn slice(&self, start: u64, end: u64) -> &[u8] {
        self.kept.as_ref().map_or(&[], |kept| kept.slice(start, end))
    }

    /// Forgets what is before an offset.
    pub(crate) fn slide(&mut self, offset: u64) {
        if offset <= self.base {
            return;
        }
        self.base = offset;
        if let Some(kept) = &mut self.kept
            && !kept.slide(offset)
        {
            self.kept = None;
        }
    }

    /// Forgets all data, not where the stream is.
    pub(crate) fn clear(&mut self) {
        self.kept = None;
    }
}
