//! A piece of a stream: bytes next to each other, those that are missing among them as zeros.

/// Two pieces with at most so many missing bytes between them share a region.
pub(crate) const REGION_GAP: u64 = 256 << 10;

/// A segment from this length on may be one of many.
const FULL_BYTES_MIN: usize = 1_200;

/// Room for so many such segments is made at once.
const ROOM_SEGMENTS: usize = 4;

/// Bytes from an offset on.
#[derive(Debug, Default)]
pub(crate) struct Region {
    pub(crate) offset: u64,
    /// Bytes before `skip` are done with.
    data: Vec<u8>,
    skip: usize,
}

impl Region {
    /// Bytes from an offset on, none yet.
    pub(crate) fn at(offset: u64) -> Self {
        Self { offset, ..Self::default() }
    }

    /// Memory in use.
    pub(crate) fn capacity(&self) -> usize {
        self.data.capacity()
    }

    /// Whether a range is so near that it belongs here.
    pub(crate) fn is_near(&self, start: u64, end: u64) -> bool {
        end + REGION_GAP >= self.offset && start <= self.end() + REGION_GAP
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len()
    }

    pub(crate) fn len(&self) -> u64 {
        (self.data.len() - self.skip) as u64
    }

    pub(crate) fn get(&self, start: u64, end: u64) -> &[u8] {
        let at = |offset: u64| {
            let within = offset.saturating_sub(self.offset).min(self.len());
            usize::try_from(within).unwrap_or(usize::MAX) + self.skip
        };
        self.data.get(at(start)..at(end).max(at(start))).unwrap_or_default()
    }

    /// Grows so that `start..end` lies within; zeros stand where nothing has come.
    pub(crate) fn cover(&mut self, start: u64, end: u64) {
        if start < self.offset {
            let missing = usize::try_from(self.offset - start).unwrap_or(0);
            if self.skip >= missing {
                self.skip -= missing;
                let room = self.skip..self.skip + missing;
                if let Some(room) = self.data.get_mut(room) {
                    room.fill(0);
                }
            } else {
                let add = missing - self.skip;
                self.data.splice(0..0, std::iter::repeat_n(0, add));
                self.skip = 0;
            }
            self.offset = start;
        }
        if end > self.end() {
            let len = usize::try_from(end - self.offset).unwrap_or(0) + self.skip;
            self.data.resize(len, 0);
        }
    }

    /// Makes these the bytes at an offset; zeros stand before them where nothing has come.
    pub(crate) fn put(&mut self, start: u64, offset: u64, bytes: &[u8]) {
        if start == self.offset && offset == self.end() {
            // What is usual: they follow what is there. The first of several segments makes room
            // for the next ones, which are as long and come before all is read.
            if self.data.capacity() == 0 && bytes.len() >= FULL_BYTES_MIN {
                self.data.reserve_exact(bytes.len() * ROOM_SEGMENTS);
            }
            self.data.extend_from_slice(bytes);
            return;
        }
        self.cover(start, offset + bytes.len() as u64);
        self.write(offset, bytes);
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset - self.offset).unwrap_or(0) + self.skip;
        if let Some(room) = self.data.get_mut(start..start + bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Forgets what is before an offset; memory is given back when it is worth a copy.
    pub(crate) fn forget(&mut self, offset: u64) {
        let done = offset.saturating_sub(self.offset).min(self.len());
        self.skip += usize::try_from(done).unwrap_or(0);
        self.offset = offset;
        if self.skip == self.data.len() {
            self.data = Vec::new();
            self.skip = 0;
        } else if self.skip > self.data.len() / 2 {
            self.data.drain(..self.skip);
            self.skip = 0;
            if self.data.capacity() > self.data.len() * 4 {
                self.data.shrink_to(self.data.len() * 2);
            }
        }
    }
}
