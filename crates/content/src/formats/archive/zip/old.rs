//! The methods of early PKZIP: shrinking (APPNOTE section 5.1) and imploding (section 5.3).

use std::io;

use crate::formats::archive::lz::{BitOrder, Bits, Code, LzReader, Tokens, Window};

/// Lowest code behind the bytes; 256 itself is a command.
const FIRST_CODE: u16 = 257;
const COMMAND: u16 = 256;
/// Codes of at most 13 bits.
const CODES: u16 = 8_192;
const CODE_BITS_MIN: u32 = 9;
const CODE_BITS_MAX: u32 = 13;

/// The file of shrunk bytes.
pub(super) fn shrunk(data: &[u8], size: u64) -> LzReader<Shrink<'_>> {
    LzReader::new(Shrink::new(data), size, 0)
}

/// The file of imploded bytes; `flags` are those of its header.
pub(super) fn imploded(data: &[u8], size: u64, flags: u16) -> io::Result<LzReader<Implode<'_>>> {
    Ok(LzReader::new(Implode::new(data, flags)?, size, 0))
}

/// LZW whose codes without successors are freed by a command.
pub(super) struct Shrink<'b> {
    bits: Bits<'b>,
    width: u32,
    /// The code before each code, and the byte behind it; none for a free one.
    codes: Vec<Option<(u16, u8)>>,
    last: Option<u16>,
    last_first: u8,
    next: u16,
}

impl<'b> Shrink<'b> {
    fn new(data: &'b [u8]) -> Self {
        let bits = Bits::new(data, BitOrder::Low);
        let codes = vec![None; usize::from(CODES)];
        Shrink { bits, width: CODE_BITS_MIN, codes, last: None, last_first: 0, next: FIRST_CODE }
    }

    /// The bytes of a code; a code that stands for nothing yet gives none.
    fn bytes(&self, code: u16) -> Option<Vec<u8>> {
        let (mut at, mut out) = (code, Vec::new());
        while at >= FIRST_CODE {
            let (before, byte) = (*self.codes.get(usize::from(at))?)?;
            out.push(byte);
            if out.len() > usize::from(CODES) {
                return None;
            }
            at = before;
        }
        out.push(u8::try_from(at).ok()?);
        out.reverse();
        Some(out)
    }

    fn clear(&mut self) {
        let mut has_successor = vec![false; usize::from(CODES)];
        for (before, _) in self.codes.iter().flatten() {
            has_successor[usize::from(*before)] = true;
        }
        for (code, kept) in self.codes.iter_mut().zip(has_successor) {
            if !kept {
                *code = None;
            }
        }
        self.next = FIRST_CODE;
    }

    fn add(&mut self, before: u16, byte: u8) {
        while self.next < CODES && self.codes[usize::from(self.next)].is_some() {
            self.next += 1;
        }
        if let Some(code) = self.codes.get_mut(usize::from(self.next)) {
            *code = Some((before, byte));
        }
    }
}

impl Tokens for Shrink<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        let code = match self.bits.number(self.width) {
            Ok(code) => code as u16,
            Err(_) => return Ok(false),
        };
        if code == COMMAND {
            match self.bits.number(self.width)? {
                1 if self.width < CODE_BITS_MAX => self.width += 1,
                2 => self.clear(),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            return Ok(true);
        }
        // A code that this very step makes: the last text and its first byte once more.
        let bytes = self.bytes(code).or_else(|| {
            let mut bytes = self.bytes(self.last?)?;
            bytes.push(self.last_first);
            Some(bytes)
        });
        let bytes = bytes.ok_or(io::ErrorKind::InvalidData)?;
        if let Some(last) = self.last {
            self.add(last, bytes[0]);
        }
        window.extend(&bytes);
        (self.last, self.last_first) = (Some(code), bytes[0]);
        Ok(true)
    }
}

/// LZ77 with two or three codes after Shannon and Fano.
pub(super) struct Implode<'b> {
    bits: Bits<'b>,
    literals: Option<Code>,
    lengths: Code,
    distances: Code,
    /// Low bits of a distance that stand as they are.
    distance_bits: u32,
}

impl<'b> Implode<'b> {
    fn new(data: &'b [u8], flags: u16) -> io::Result<Self> {
        let mut rest = data;
        let literals = if flags & 4 != 0 { Some(tree(&mut rest, 256)?) } else { None };
        let lengths = tree(&mut rest, 64)?;
        let distances = tree(&mut rest, 64)?;
        let distance_bits = if flags & 2 != 0 { 7 } else { 6 };
        let bits = Bits::new(rest, BitOrder::Low);
        Ok(Implode { bits, literals, lengths, distances, distance_bits })
    }
}

/// A code by its lengths: a count, then bytes of a length (low half) and its repetitions.
fn tree(rest: &mut &[u8], symbols: usize) -> io::Result<Code> {
    let (count, behind) = rest.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
    let pairs = behind.get(..usize::from(*count) + 1).ok_or(io::ErrorKind::UnexpectedEof)?;
    *rest = &behind[pairs.len()..];
    let mut lengths = Vec::new();
    for pair in pairs {
        let again = usize::from(pair >> 4) + 1;
        lengths.resize((lengths.len() + again).min(symbols), (pair & 15) + 1);
    }
    Ok(Code::new(&lengths)?.inverted())
}

impl Tokens for Implode<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        if self.bits.bit()? == 1 {
            let byte = match &self.literals {
                Some(code) => code.symbol(&mut self.bits)? as u8,
                None => self.bits.number(8)? as u8,
            };
            window.push(byte);
            return Ok(true);
        }
        let low = self.bits.number(self.distance_bits)? as usize;
        let high = usize::from(self.distances.symbol(&mut self.bits)?);
        let distance = (high << self.distance_bits | low) + 1;
        let mut length = usize::from(self.lengths.symbol(&mut self.bits)?);
        if length == 63 {
            length += self.bits.number(8)? as usize;
        }
        length += if self.literals.is_some() { 3 } else { 2 };
        window.repeat(distance, length);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Numbers of these widths, their lowest bit first.
    fn bits(numbers: &[(u32, u32)]) -> Vec<u8> {
        let all: Vec<u32> = numbers
            .iter()
            .flat_map(|(value, width)| (0..*width).map(move |i| value >> i & 1))
            .collect();
        let byte = |bits: &[u32]| bits.iter().rev().fold(0, |all, bit| all << 1 | *bit as u8);
        all.chunks(8).map(byte).collect()
    }

    fn read(mut reader: impl Read) -> Vec<u8> {
        let mut out = Vec::new();
        let _until_an_error = reader.read_to_end(&mut out);
        out
    }

    #[test]
    fn shrinking_with_commands() {
        // 257 is "ab"; 258 is "ba", 259 the one that its own step makes: "aba".
        let codes = [(97, 9), (98, 9), (257, 9), (259, 9), (256, 9), (1, 9), (99, 10)];
        assert_eq!(read(shrunk(&bits(&codes), 100)), b"abababac");
        // Both codes go, as nothing follows them; 257 becomes "ba".
        let cleared = [(97, 9), (98, 9), (256, 9), (2, 9), (97, 9), (257, 9)];
        assert_eq!(read(shrunk(&bits(&cleared), 100)), b"ababa");
    }

    #[test]
    fn imploding_with_two_codes() {
        // Each of 64 symbols has six bits: the code of symbol n is n, turned.
        let tree = [&[3][..], &[0xf5; 4]].concat();
        let symbol = |n: u32| {
            let turned = !n & 63;
            ((0..6).fold(0, |all, i| all | (turned >> (5 - i) & 1) << i), 6)
        };
        let tokens = [(1, 1), (u32::from(b'x'), 8), (0, 1), (0, 6), symbol(0), symbol(3)];
        let data = [tree.clone(), tree, bits(&tokens)].concat();
        assert_eq!(read(imploded(&data, 6, 0).unwrap()), b"xxxxxx");
        for end in 0..data.len() {
            if let Ok(reader) = imploded(&data[..end], 6, 0) {
                read(reader);
            }
        }
    }
}
