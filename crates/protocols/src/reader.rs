//! A position in bytes from outside. Nothing is read past the end and nothing panics: what is not
//! there is `None`.

/// A reader over `bytes`.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Begins at `position`, which may be past the end.
    pub fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(count)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    /// Everything that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest();
        self.position = self.bytes.len();
        rest
    }

    /// Steps over `count` bytes.
    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(|_| ())
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    pub fn be16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Three bytes, big-endian.
    pub fn be24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Four bytes, big-endian.
    pub fn be32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    pub fn be64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Two bytes, little-endian.
    pub fn le16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub fn le32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub fn le64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A byte that says how many follow, and those.
    pub fn prefixed8(&mut self) -> Option<&'a [u8]> {
        let count = self.u8()?;
        self.take(usize::from(count))
    }

    /// Two bytes that say how many follow, and those.
    pub fn prefixed16(&mut self) -> Option<&'a [u8]> {
        let count = self.be16()?;
        self.take(usize::from(count))
    }

    /// Three bytes that say how many follow, and those.
    pub fn prefixed24(&mut self) -> Option<&'a [u8]> {
        let count = self.be24()?;
        self.take(usize::try_from(count).ok()?)
    }
}
