//! Files that `COMPRESS.EXE` of DOS and Windows made (SZDD and KWAJ, as libmspack documents them):
//! one file each, which `EXPAND` opens.

use std::io::{self, Read};

use super::lz::{BitOrder, Bits, Code, LzReader, Tokens, Window};
use crate::formats::numbers::{u16_at, u32_at, until_nul};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

const SZDD: &[u8] = b"SZDD\x88\xf0\x27\x33";
/// The variant of Microsoft's BASIC.
const SZ: &[u8] = b"SZ \x88\xf0\x27\x33\xd1";
const KWAJ: &[u8] = b"KWAJ\x88\xf0\x27\xd1";
/// Bytes of the ring that repetitions name places of.
const RING_BYTES: usize = 4_096;

/// Adds the file inside.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let packed = bytes.len() as u64;
    if let Some(rest) = bytes.strip_prefix(SZDD) {
        let size = u32_at(rest, 2).map_or(u64::MAX, u64::from);
        let name = full_name(unpacker, rest.get(1).copied().unwrap_or(0));
        let tokens = Lzss::new(rest.get(6..).unwrap_or_default(), RING_BYTES - 16);
        return add(&name, LzReader::new(tokens, size, b' '), packed, unpacker);
    }
    if let Some(rest) = bytes.strip_prefix(SZ) {
        let size = u32_at(rest, 0).map_or(u64::MAX, u64::from);
        let name = full_name(unpacker, 0);
        let tokens = Lzss::new(rest.get(4..).unwrap_or_default(), RING_BYTES - 18);
        return add(&name, LzReader::new(tokens, size, b' '), packed, unpacker);
    }
    if bytes.starts_with(KWAJ) {
        kwaj(bytes, unpacker);
    }
}

fn add(name: &str, mut reader: impl Read, packed: u64, unpacker: &mut Unpacker<'_>) {
    let body = unpacker.read(&mut reader, packed, name);
    unpacker.child(Child::named(name), &body);
}

/// The name whose last character the compressor made an underscore.
fn full_name(unpacker: &Unpacker<'_>, last: u8) -> String {
    let name = unpacker.current().map(|object| object.name.clone()).unwrap_or_default();
    match name.strip_suffix('_') {
        Some(stem) if last.is_ascii_graphic() => format!("{stem}{}", char::from(last)),
        _ => name.strip_suffix(".szdd").unwrap_or_default().to_owned(),
    }
}

/// A header with optional fields, then one of five methods.
fn kwaj(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let (Some(method), Some(at), Some(flags)) =
        (u16_at(bytes, 8), u16_at(bytes, 10), u16_at(bytes, 12))
    else {
        return unpacker.defect(DefectKind::Truncated, "the header");
    };
    let data = bytes.get(usize::from(at)..).unwrap_or_default();
    let (size, name) = kwaj_fields(bytes, flags);
    let packed = bytes.len() as u64;
    match method {
        0 => add(&name, data.take(size), packed, unpacker),
        1 => {
            let plain: Vec<u8> = data.iter().map(|b| b ^ 0xff).collect();
            add(&name, plain.as_slice().take(size), packed, unpacker);
        }
        2 => {
            let tokens = Lzss::new(data, RING_BYTES - 18);
            add(&name, LzReader::new(tokens, size, b' '), packed, unpacker);
        }
        3 => match Kwaj3::new(data) {
            Ok(tokens) => add(&name, LzReader::new(tokens, size, b' '), packed, unpacker),
            Err(_) => unpacker.defect(DefectKind::Corrupt, "codes"),
        },
        _ => unpacker.defect(DefectKind::Unsupported, &format!("method {method} of KWAJ")),
    }
}

/// The size, if it is said, and the name with its ending.
fn kwaj_fields(bytes: &[u8], flags: u16) -> (u64, String) {
    let mut rest = bytes.get(14..).unwrap_or_default();
    let mut size = u64::MAX;
    if flags & 1 != 0 {
        size = u32_at(rest, 0).map_or(u64::MAX, u64::from);
        rest = rest.get(4..).unwrap_or_default();
    }
    if flags & 2 != 0 {
        rest = rest.get(2..).unwrap_or_default();
    }
    if flags & 4 != 0 {
        let more = usize::from(u16_at(rest, 0).unwrap_or(0));
        rest = rest.get(2 + more..).unwrap_or_default();
    }
    let mut name = String::new();
    for (flag, dot) in [(8, ""), (16, ".")] {
        if flags & flag != 0
            && let Some((part, behind)) = until_nul(rest)
        {
            name = format!("{name}{dot}{}", text::file_name(part));
            rest = behind;
        }
    }
    (size, name)
}

/// Groups of eight: a byte says which are literals; others are places in a ring of spaces.
struct Lzss<'b> {
    bytes: &'b [u8],
    flags: u8,
    left: u8,
    /// Place in the ring.
    at: usize,
}

impl<'b> Lzss<'b> {
    fn new(bytes: &'b [u8], at: usize) -> Self {
        Lzss { bytes, flags: 0, left: 0, at }
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }
}

impl Tokens for Lzss<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        if self.left == 0 {
            let Some(flags) = self.byte() else { return Ok(false) };
            (self.flags, self.left) = (flags, 8);
        }
        self.left -= 1;
        let is_literal = self.flags & 1 == 1;
        self.flags >>= 1;
        let Some(low) = self.byte() else { return Ok(false) };
        let written = if is_literal {
            window.push(low);
            1
        } else {
            let Some(high) = self.byte() else { return Ok(false) };
            let place = usize::from(low) | usize::from(high & 0xf0) << 4;
            let length = usize::from(high & 0x0f) + 3;
            let distance = (self.at + RING_BYTES - place - 1) % RING_BYTES + 1;
            window.repeat(distance, length);
            length
        };
        self.at = (self.at + written) % RING_BYTES;
        Ok(true)
    }
}

/// Method 3 of KWAJ: five prefix codes for the whole file.
struct Kwaj3<'b> {
    bits: Bits<'b>,
    /// Lengths behind a repetition and behind literals, runs of literals, distances, literals.
    codes: [Code; 5],
    after_literals: bool,
}

impl<'b> Kwaj3<'b> {
    fn new(data: &'b [u8]) -> io::Result<Self> {
        let mut bits = Bits::new(data, BitOrder::High);
        let mut kinds = [0; 6];
        for kind in &mut kinds {
            *kind = bits.number(4)?;
        }
        let mut codes: [Code; 5] = Default::default();
        for (index, symbols) in [16, 16, 32, 64, 256].into_iter().enumerate() {
            codes[index] = Code::new(&lengths(&mut bits, kinds[index], symbols)?)?;
        }
        Ok(Kwaj3 { bits, codes, after_literals: false })
    }
}

/// The lengths of a code, written in one of four ways.
fn lengths(bits: &mut Bits<'_>, kind: u32, symbols: usize) -> io::Result<Vec<u8>> {
    if kind == 0 {
        return Ok(vec![symbols.ilog2() as u8; symbols]);
    }
    let mut length = if kind == 3 { 0 } else { bits.number(4)? };
    let mut all = Vec::with_capacity(symbols);
    if kind != 3 {
        all.push(length as u8);
    }
    while all.len() < symbols {
        length = match kind {
            1 if bits.bit()? == 0 => length,
            1 if bits.bit()? == 0 => length + 1,
            2 => match bits.number(2)? {
                3 => bits.number(4)?,
                change => (length + change).wrapping_sub(1) & 0x1f,
            },
            _ => bits.number(4)?,
        };
        all.push(length as u8);
    }
    Ok(all)
}

impl Tokens for Kwaj3<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        let code = &self.codes[usize::from(self.after_literals)];
        let length = match code.symbol(&mut self.bits) {
            Ok(length) => usize::from(length),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        };
        if length > 0 {
            self.after_literals = false;
            let high = usize::from(self.codes[3].symbol(&mut self.bits)?);
            let distance = high << 6 | self.bits.number(6)? as usize;
            window.repeat(distance.max(1), length + 2);
            return Ok(true);
        }
        let run = self.codes[2].symbol(&mut self.bits)? + 1;
        self.after_literals = run != 32;
        for _ in 0..run {
            let byte = self.codes[4].symbol(&mut self.bits)?;
            window.push(byte as u8);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::DefectKind;
    use crate::formats::testing::{nasty, paths, tree};

    #[test]
    fn a_file_with_a_repetition() {
        // "abcabcabc": three literals, then six bytes from the ring's place 4080.
        let body = [&[0b0000_0111][..], b"abc", &[0xf0, 0xf3]].concat();
        let whole = [&b"SZDD\x88\xf0\x27\x33A"[..], b"t", &9u32.to_le_bytes(), &body].concat();
        let found = tree(&whole, "readme.tx_");
        assert_eq!(paths(&found), ["readme.tx_", "readme.tx_/readme.txt"]);
        assert_eq!(found.objects[1].text, "abcabcabc");
        nasty(&whole, "readme.tx_");
        // The ring of the other variant begins two bytes earlier.
        let body = [&[0b0000_0111][..], b"abc", &[0xee, 0xf3]].concat();
        let whole = [&b"SZ \x88\xf0\x27\x33\xd1"[..], &9u32.to_le_bytes(), &body].concat();
        assert_eq!(tree(&whole, "a").objects[1].text, "abcabcabc");
    }

    #[test]
    fn the_methods_of_kwaj() {
        let with = |method: u8, data: &[u8]| {
            let head = [&b"KWAJ\x88\xf0\x27\xd1"[..], &[method, 0, 20, 0, 8, 0], b"r.txt\0"];
            [&head.concat(), data].concat()
        };
        for (method, data) in [
            (0, b"hello".to_vec()),
            (1, b"hello".iter().map(|b| b ^ 0xff).collect()),
            (2, [&[0x1f][..], b"hello"].concat()),
        ] {
            let found = tree(&with(method, &data), "r.tx_");
            assert_eq!(paths(&found), ["r.tx_", "r.tx_/r.txt"], "{method}");
            assert_eq!(found.objects[1].text, "hello", "{method}");
        }
        // All codes of one length: a run of five literals.
        let mut bits = String::from("000000000000000000000000");
        bits.push_str("0000");
        bits.push_str("00100");
        for byte in b"hello" {
            bits.push_str(&format!("{byte:08b}"));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('0');
        }
        let data: Vec<u8> = (0..bits.len() / 8)
            .map(|i| u8::from_str_radix(&bits[8 * i..8 * i + 8], 2).unwrap())
            .collect();
        let whole = with(3, &data);
        let found = tree(&whole, "r.tx_");
        assert_eq!(found.objects[1].text, "hello", "{found:?}");
        nasty(&whole, "r.tx_");
        let found = tree(&with(4, b"CK"), "r.tx_");
        assert_eq!(found.objects[0].defects[0].kind, DefectKind::Unsupported);
    }
}
