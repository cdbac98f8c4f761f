//! bzip2 as NSIS has it: without the headers' magic numbers, without checksums, and one byte where
//! a block or the end begins.

use std::collections::VecDeque;
use std::io::{self, Read};

use crate::formats::archive::lz::{BitOrder, Bits, Code};

const BLOCK: u32 = 0x31;
/// Symbols of a block: the largest of bzip2.
const BLOCK_BYTES_MAX: usize = 900_000;
const GROUP_SYMBOLS: usize = 50;
const CODES: std::ops::RangeInclusive<u32> = 2..=6;
const CODE_BITS_MAX: u32 = 20;

/// Reads a stream, block by block.
pub(super) struct NsisBzip2<'b> {
    bits: Bits<'b>,
    ready: VecDeque<u8>,
    is_over: bool,
}

impl<'b> NsisBzip2<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        let bits = Bits::new(bytes, BitOrder::High);
        NsisBzip2 { bits, ready: VecDeque::new(), is_over: false }
    }

    fn block(&mut self) -> io::Result<()> {
        if self.bits.number(8)? != BLOCK {
            self.is_over = true;
            return Ok(());
        }
        let origin = self.bits.number(24)? as usize;
        let alphabet = self.alphabet()?;
        let selectors = self.selectors()?;
        let transformed = self.symbols(alphabet, &selectors.0, selectors.1)?;
        let sorted = restored(&transformed, origin)?;
        self.ready.extend(runs(&sorted));
        Ok(())
    }

    /// Bytes that occur in the block, by two levels of bit maps.
    fn alphabet(&mut self) -> io::Result<Vec<u8>> {
        let rows = self.bits.number(16)?;
        let mut bytes = Vec::new();
        for row in (0..16u32).filter(|row| rows >> (15 - row) & 1 != 0) {
            let used = self.bits.number(16)?;
            let columns = (0..16u32).filter(|column| used >> (15 - column) & 1 != 0);
            bytes.extend(columns.map(|column| (16 * row + column) as u8));
        }
        if bytes.is_empty() { Err(invalid()) } else { Ok(bytes) }
    }

    /// Which code each group of symbols has, and how many codes there are.
    fn selectors(&mut self) -> io::Result<(Vec<u8>, u32)> {
        let codes = self.bits.number(3)?;
        let count = self.bits.number(15)?;
        if !CODES.contains(&codes) || count == 0 {
            return Err(invalid());
        }
        let mut order: Vec<u8> = (0..6).collect();
        let mut selectors = Vec::new();
        for _ in 0..count {
            let mut place = 0;
            while self.bits.bit()? == 1 {
                place += 1;
                if place >= codes as usize {
                    return Err(invalid());
                }
            }
            let selected = order.remove(place);
            order.insert(0, selected);
            selectors.push(selected);
        }
        Ok((selectors, codes))
    }

    fn code(&mut self, symbols: usize) -> io::Result<Code> {
        let mut length = self.bits.number(5)?;
        let mut lengths = Vec::new();
        for _ in 0..symbols {
            loop {
                if !(1..=CODE_BITS_MAX).contains(&length) {
                    return Err(invalid());
                }
                if self.bits.bit()? == 0 {
                    break;
                }
                length = if self.bits.bit()? == 0 { length + 1 } else { length - 1 };
            }
            lengths.push(length as u8);
        }
        Code::new(&lengths)
    }

    /// The block behind its sorting: move to front, runs of the first.
    fn symbols(
        &mut self,
        mut alphabet: Vec<u8>,
        selectors: &[u8],
        codes: u32,
    ) -> io::Result<Vec<u8>> {
        let end = alphabet.len() + 1;
        let mut all = Vec::new();
        for _ in 0..codes {
            all.push(self.code(end + 1)?);
        }
        let mut out = Vec::new();
        let (mut run, mut weight) = (0usize, 1usize);
        for selector in selectors {
            let code = all.get(usize::from(*selector)).ok_or_else(invalid)?;
            for _ in 0..GROUP_SYMBOLS {
                let symbol = usize::from(code.symbol(&mut self.bits)?);
                if symbol < 2 {
                    run = run.saturating_add(weight << symbol);
                    weight = (weight << 1).min(BLOCK_BYTES_MAX << 1);
                    if run > BLOCK_BYTES_MAX {
                        return Err(invalid());
                    }
                    continue;
                }
                out.resize(out.len() + run, alphabet[0]);
                (run, weight) = (0, 1);
                if out.len() > BLOCK_BYTES_MAX {
                    return Err(invalid());
                }
                if symbol == end {
                    return Ok(out);
                }
                let byte = alphabet.remove(symbol - 1);
                alphabet.insert(0, byte);
                out.push(byte);
            }
        }
        Err(invalid())
    }
}

/// Turns the sorting of Burrows and Wheeler back.
fn restored(block: &[u8], origin: usize) -> io::Result<Vec<u8>> {
    if origin >= block.len() {
        return Err(invalid());
    }
    let mut starts = [0usize; 257];
    for &byte in block {
        starts[usize::from(byte) + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = vec![0u32; block.len()];
    for (place, &byte) in block.iter().enumerate() {
        let start = &mut starts[usize::from(byte)];
        next[*start] = place as u32;
        *start += 1;
    }
    let mut at = next[origin] as usize;
    let mut out = Vec::with_capacity(block.len());
    for _ in 0..block.len() {
        out.push(block[at]);
        at = next[at] as usize;
    }
    Ok(out)
}

/// Four equal bytes are followed by the number of more of them.
fn runs(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let (mut last, mut equal) = (None, 0);
    for &byte in bytes {
        if equal == 4 {
            out.resize(out.len() + usize::from(byte), last.unwrap_or(0));
            (last, equal) = (None, 0);
            continue;
        }
        equal = if last == Some(byte) { equal + 1 } else { 1 };
        last = Some(byte);
        out.push(byte);
    }
    out
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Read for NsisBzip2<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() && !self.is_over {
            self.block()?;
        }
        self.ready.read(out)
    }
}
