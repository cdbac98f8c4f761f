//! What an emulated program may read and write: its image, a stack, what it has allocated, and
//! pages that stand for Windows. Everywhere else is an access violation.

use super::trap::{Trap, access_violation};

/// Regions of one program; each allocation is one.
const REGIONS_MAX: usize = 256;

/// Bytes at consecutive addresses.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) start: u32,
    pub(super) bytes: Vec<u8>,
    /// Bytes written by the program, those written again among them.
    pub(super) written: u64,
}

/// All regions; none overlaps another.
#[derive(Debug)]
pub(super) struct Memory {
    regions: Vec<Region>,
    /// Where data was found last, and where code was.
    data: usize,
    code: usize,
    /// Bytes that the program may still allocate.
    bytes_left: usize,
    next: u32,
}

/// Addresses that allocations begin at, as on Windows.
const HEAP_START: u32 = 0x00a0_0000;
const GRANULARITY: u32 = 0x1_0000;

impl Memory {
    /// One that may grow by so many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Memory { regions: Vec::new(), data: 0, code: 0, bytes_left: bytes_max, next: HEAP_START }
    }

    /// Adds bytes at an address that is free.
    pub(super) fn map(&mut self, start: u32, bytes: Vec<u8>) {
        self.regions.push(Region { start, bytes, written: 0 });
    }

    /// Room of so many bytes, zeroed; none if there is none.
    pub(super) fn allocate(&mut self, bytes: u32) -> Option<u32> {
        let length = bytes as usize;
        if length == 0 || length > self.bytes_left || self.regions.len() >= REGIONS_MAX {
            return None;
        }
        let mut start = self.next;
        // Behind whatever lies in the way.
        loop {
            let end = start.checked_add(bytes)?;
            let blocking = self.regions.iter().find(|region| {
                let region_end = u64::from(region.start) + region.bytes.len() as u64;
                u64::from(start) < region_end && end > region.start
            });
            let Some(region) = blocking else { break };
            let behind = u64::from(region.start) + region.bytes.len() as u64;
            start = u32::try_from(behind).ok()?.checked_next_multiple_of(GRANULARITY)?;
        }
        self.bytes_left -= length;
        self.next = start.checked_add(bytes)?.checked_next_multiple_of(GRANULARITY)?;
        self.map(start, vec![0; length]);
        Some(start)
    }

    /// All regions in the order of their mapping.
    pub(super) fn into_regions(self) -> Vec<Region> {
        self.regions
    }

    /// The region and place of `length` bytes; `last` is where they probably are.
    fn find(&self, last: usize, at: u32, length: usize) -> Option<(usize, usize)> {
        let within = |region: &Region| {
            let place = at.wrapping_sub(region.start) as usize;
            (place + length <= region.bytes.len()).then_some(place)
        };
        if let Some(place) = self.regions.get(last).and_then(within) {
            return Some((last, place));
        }
        self.regions.iter().enumerate().find_map(|(i, region)| Some((i, within(region)?)))
    }

    /// A number of 1, 2 or 4 bytes.
    pub(super) fn read(&mut self, at: u32, bits: u32) -> Result<u32, Trap> {
        let length = bits as usize / 8;
        let found = self.find(self.data, at, length).ok_or_else(|| access_violation(at))?;
        self.data = found.0;
        let bytes = &self.regions[found.0].bytes[found.1..];
        Ok(match *bytes {
            [a, b, c, d, ..] if bits == 32 => u32::from_le_bytes([a, b, c, d]),
            [a, b, ..] if bits == 16 => u32::from(u16::from_le_bytes([a, b])),
            [a, ..] => u32::from(a),
            [] => 0,
        })
    }

    pub(super) fn write(&mut self, at: u32, bits: u32, value: u32) -> Result<(), Trap> {
        let length = bits as usize / 8;
        let found = self.find(self.data, at, length).ok_or_else(|| access_violation(at))?;
        self.data = found.0;
        let region = &mut self.regions[found.0];
        region.bytes[found.1..found.1 + length].copy_from_slice(&value.to_le_bytes()[..length]);
        region.written += length as u64;
        Ok(())
    }

    /// The next byte of code.
    pub(super) fn code(&mut self, at: u32) -> Result<u8, Trap> {
        let found = self.find(self.code, at, 1).ok_or_else(|| access_violation(at))?;
        self.code = found.0;
        Ok(self.regions[found.0].bytes[found.1])
    }

    /// A name that ends with a NUL; a longer one is cut.
    pub(super) fn name(&mut self, at: u32) -> Result<String, Trap> {
        const NAME_BYTES_MAX: u32 = 256;
        let mut name = String::new();
        for offset in 0..NAME_BYTES_MAX {
            match self.read(at.wrapping_add(offset), 8)? {
                0 => break,
                byte => name.push(char::from(byte as u8)),
            }
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_never_overlaps() {
        let mut memory = Memory::new(0x3_0000);
        memory.map(0x00a0_8000, vec![1; 0x1_0000]);
        let first = memory.allocate(0x1_0000).unwrap();
        assert!(first >= 0x00a1_8000, "{first:x}");
        let second = memory.allocate(0x1_0000).unwrap();
        assert!(second >= first + 0x1_0000);
        assert_eq!(memory.allocate(0), None);
        assert_eq!(memory.allocate(0x1_0001), None, "over what is left");
        memory.write(second, 32, 0x0403_0201).unwrap();
        assert_eq!(memory.read(second + 1, 16).unwrap(), 0x0302);
        assert!(memory.read(second + 0xffff, 16).is_err());
        assert!(memory.read(u32::MAX, 32).is_err());
        assert_eq!(memory.name(second).unwrap(), "\u{1}\u{2}\u{3}\u{4}");
    }
}
