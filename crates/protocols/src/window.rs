//! Bytes of something that grows, of which only a part is kept.

/// The kept part of a body or file.
#[derive(Debug, Default, Clone)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    /// Bytes before this one are forgotten; they are removed when it is worth a copy.
    skip: usize,
    offset: u64,
}

impl Window {
    /// An empty one that begins at this place in the whole.
    pub(crate) fn at(offset: u64) -> Self {
        Self { offset, ..Self::default() }
    }

    /// Adds bytes at the end; keeps at most `max` of all, the last ones.
    pub(crate) fn append(&mut self, bytes: &[u8], max: usize) {
        self.bytes.extend_from_slice(bytes);
        if self.len() > max {
            let excess = self.len() - max;
            self.slide(self.offset + excess as u64);
        }
    }

    /// Adds bytes at the end that nobody will look at, so that nothing is kept.
    pub(crate) fn pass(&mut self, len: usize) {
        *self = Self::at(self.end() + len as u64);
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.skip
    }

    /// Where the end is in the whole.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len() as u64
    }

    /// Where the kept part begins in the whole.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The kept bytes from this place in the whole on, and where they begin.
    pub(crate) fn from(&self, offset: u64) -> (&[u8], u64) {
        let start = offset.max(self.offset);
        let skip = usize::try_from(start - self.offset).unwrap_or(usize::MAX);
        (self.bytes.get(self.skip.saturating_add(skip)..).unwrap_or_default(), start)
    }

    /// Forgets what is before this place in the whole.
    pub(crate) fn slide(&mut self, offset: u64) {
        if offset <= self.offset {
            return;
        }
        let count = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
        let count = count.min(self.len());
        self.skip += count;
        self.offset += count as u64;
        if self.skip > self.bytes.len() / 2 {
            self.bytes.drain(..self.skip);
            self.skip = 0;
        }
    }
}
