//! What the older compressors share: bits, prefix codes, and a reader that repeats what it has
//! written (LZ77), so that output comes in pieces within the limits.

use std::io::{self, Read};

/// Bytes of output that are kept for repetitions; no format here looks back further.
const WINDOW_BYTES: usize = 64 * 1024;
/// Bits of the longest prefix code.
const CODE_BITS_MAX: usize = 20;

/// Which bit of a byte comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::formats) enum BitOrder {
    /// The highest one, and numbers begin with their highest bit.
    High,
    /// The lowest one, and numbers begin with their lowest bit.
    Low,
}

/// The bits of compressed bytes; behind the end there are none.
#[derive(Debug)]
pub(in crate::formats) struct Bits<'b> {
    bytes: &'b [u8],
    at: usize,
    order: BitOrder,
}

impl<'b> Bits<'b> {
    pub(in crate::formats) fn new(bytes: &'b [u8], order: BitOrder) -> Self {
        Bits { bytes, at: 0, order }
    }

    pub(in crate::formats) fn bit(&mut self) -> io::Result<u32> {
        let byte = self.bytes.get(self.at / 8).ok_or(io::ErrorKind::UnexpectedEof)?;
        let shift = self.at % 8;
        self.at += 1;
        Ok(u32::from(match self.order {
            BitOrder::High => byte >> (7 - shift) & 1,
            BitOrder::Low => byte >> shift & 1,
        }))
    }

    /// A number of up to 32 bits.
    pub(in crate::formats) fn number(&mut self, bits: u32) -> io::Result<u32> {
        let mut number = 0;
        for place in 0..bits {
            let bit = self.bit()?;
            match self.order {
                BitOrder::High => number = number << 1 | bit,
                BitOrder::Low => number |= bit << place,
            }
        }
        Ok(number)
    }
}

/// A canonical prefix code: shorter codes first, of one length in the order of their symbols.
#[derive(Debug, Default)]
pub(in crate::formats) struct Code {
    /// Codes of each length.
    counts: [u16; CODE_BITS_MAX + 1],
    symbols: Vec<u16>,
    /// The one symbol of a code without bits.
    only: Option<u16>,
    inverted: u32,
}

impl Code {
    /// The code whose symbols have these lengths; zero for those that do not occur.
    pub(in crate::formats) fn new(lengths: &[u8]) -> io::Result<Self> {
        let mut counts = [0u16; CODE_BITS_MAX + 1];
        for &length in lengths {
            let count = counts.get_mut(usize::from(length)).ok_or(io::ErrorKind::InvalidData)?;
            *count += 1;
        }
        counts[0] = 0;
        let mut order: Vec<u16> = (0..).take(lengths.len()).collect();
        order.retain(|&symbol| lengths[usize::from(symbol)] > 0);
        order.sort_by_key(|&symbol| lengths[usize::from(symbol)]);
        Ok(Code { counts, symbols: order, only: None, inverted: 0 })
    }

    /// The code of one symbol, which takes no bits.
    pub(in crate::formats) fn only(symbol: u16) -> Self {
        Code { only: Some(symbol), ..Code::default() }
    }

    /// The same code with each bit turned, as imploded files have it.
    pub(in crate::formats) fn inverted(mut self) -> Self {
        self.inverted = 1;
        self
    }

    pub(in crate::formats) fn symbol(&self, bits: &mut Bits<'_>) -> io::Result<u16> {
        if let Some(symbol) = self.only {
            return Ok(symbol);
        }
        let (mut code, mut first, mut index) = (0u32, 0u32, 0u32);
        for &count in &self.counts[1..] {
            code |= bits.bit()? ^ self.inverted;
            let count = u32::from(count);
            if code < first + count {
                let place = (index + code - first) as usize;
                return self.symbols.get(place).copied().ok_or(io::ErrorKind::InvalidData.into());
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Output that can be repeated.
#[derive(Debug)]
pub(in crate::formats) struct Window {
    bytes: Vec<u8>,
    /// What stands before the first byte.
    filler: u8,
}

impl Window {
    pub(in crate::formats) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(in crate::formats) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes what stands `distance` bytes back once more.
    pub(in crate::formats) fn repeat(&mut self, distance: usize, length: usize) {
        for _ in 0..length {
            let from = self.bytes.len().checked_sub(distance);
            let byte = from.and_then(|at| self.bytes.get(at)).copied().unwrap_or(self.filler);
            self.bytes.push(byte);
        }
    }
}

/// Reads the next symbols of a compressor.
pub(in crate::formats) trait Tokens {
    /// Writes some bytes; false at the end.
    fn next(&mut self, window: &mut Window) -> io::Result<bool>;
}

/// A compressed file, at most as long as its archive says.
pub(in crate::formats) struct LzReader<T> {
    tokens: T,
    window: Window,
    /// Bytes of the window that were given.
    given: usize,
    left: u64,
    is_over: bool,
    /// What ended the output, once all before it was given.
    fault: Option<io::Error>,
}

impl<T: Tokens> LzReader<T> {
    pub(in crate::formats) fn new(tokens: T, size: u64, filler: u8) -> Self {
        let window = Window { bytes: Vec::new(), filler };
        LzReader { tokens, window, given: 0, left: size, is_over: false, fault: None }
    }
}

impl<T: Tokens> Read for LzReader<T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        while !self.is_over && self.window.bytes.len() - self.given < wanted {
            match self.tokens.next(&mut self.window) {
                Ok(more) => self.is_over = !more,
                // What could be read before an error is given first.
                Err(error) => (self.is_over, self.fault) = (true, Some(error)),
            }
        }
        if self.window.bytes.len() == self.given
            && let Some(fault) = self.fault.take()
        {
            return Err(fault);
        }
        let ready = &self.window.bytes[self.given..];
        let count = ready.len().min(wanted);
        out[..count].copy_from_slice(&ready[..count]);
        self.given += count;
        self.left -= count as u64;
        if self.given > 4 * WINDOW_BYTES {
            self.window.bytes.drain(..self.given - WINDOW_BYTES);
            self.given = WINDOW_BYTES;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_and_its_inversion() {
        // Lengths 1, 2, 2: codes 0, 10, 11.
        let code = Code::new(&[1, 2, 2]).unwrap();
        let mut bits = Bits::new(&[0b0101_1000], BitOrder::High);
        let symbols: Vec<u16> = (0..3).map(|_| code.symbol(&mut bits).unwrap()).collect();
        assert_eq!(symbols, [0, 1, 2]);
        let code = code.inverted();
        let mut bits = Bits::new(&[0b1010_0111], BitOrder::High);
        let symbols: Vec<u16> = (0..3).map(|_| code.symbol(&mut bits).unwrap()).collect();
        assert_eq!(symbols, [0, 1, 2]);
        assert!(Code::new(&[21]).is_err());
        let mut none = Bits::new(&[], BitOrder::Low);
        assert!(code.symbol(&mut none).is_err());
    }
}
