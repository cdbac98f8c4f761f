//! A part of a packet's bytes that is being decoded.

use std::ops::Range;

/// Bytes of a packet from a place on; reading never fails: what is not there is 0.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    bytes: &'a [u8],
    start: usize,
}

impl<'a> View<'a> {
    /// All bytes.
    pub(crate) fn new(whole: &'a [u8]) -> Self {
        Self { bytes: whole, start: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Where it begins in the packet.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Its place in the packet.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows so many bytes.
    pub(crate) fn after(self, bytes: usize) -> Self {
        let skipped = bytes.min(self.bytes.len());
        Self { bytes: self.bytes.get(skipped..).unwrap_or_default(), start: self.start + skipped }
    }

    /// At most so many bytes.
    pub(crate) fn first(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.get(..bytes).unwrap_or(self.bytes), ..self }
    }

    pub(crate) fn u8(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }

    /// So many bytes from a place.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
        found.copied().unwrap_or([0; N])
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }
}
