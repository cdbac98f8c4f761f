//! Filters of streams (ISO 32000-2 section 7.4): Flate, LZW, ASCII85, ASCIIHex, run lengths, with
//! predictors. Each reads what it can: what stands before an error is kept.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};

use super::value::{Dict, Value, hex, is_space};
use crate::unpack::Unpacker;

/// Filters of one stream; more are a trick.
pub(super) const FILTERS_MAX: usize = 8;
/// Bytes of a row that a predictor works on.
const ROW_BYTES_MAX: usize = 1 << 20;

/// Applies one filter; none if the name is no filter of bytes (pictures, encryption, unknown).
pub(super) fn apply(
    name: &[u8],
    params: Option<&Dict>,
    data: &[u8],
    unpacker: &mut Unpacker<'_>,
) -> Option<Vec<u8>> {
    let packed = data.len() as u64;
    let decoded = match name {
        b"FlateDecode" | b"Fl" => unpacker.read(&mut Inflate::new(data), packed, "stream"),
        b"LZWDecode" | b"LZW" => {
            let early = params.and_then(|p| p.get("EarlyChange")).and_then(Value::integer);
            unpacker.read(&mut Lzw::new(data, early != Some(0)), packed, "stream")
        }
        b"ASCII85Decode" | b"A85" => return Some(ascii85(data)),
        b"ASCIIHexDecode" | b"AHx" => {
            let end = memchr::memchr(b'>', data).unwrap_or(data.len());
            return Some(hex(&data[..end]).into_vec());
        }
        b"RunLengthDecode" | b"RL" => {
            unpacker.read(&mut Runs { data, left: 0, value: None }, packed, "stream")
        }
        _ => return None,
    };
    Some(match params {
        Some(params) => unpredict(params, decoded),
        None => decoded,
    })
}

/// Inflates; a zlib header is passed over and its checksum is not looked at. An error ends the
/// data without one, as readers do.
struct Inflate<'a> {
    data: &'a [u8],
    state: Decompress,
    ended: bool,
}

impl<'a> Inflate<'a> {
    fn new(data: &'a [u8]) -> Self {
        // Some writers put a line's end between `stream` and the data.
        let skipped = data.iter().take(4).take_while(|&&b| is_space(b)).count();
        let data = &data[skipped..];
        let zlib = matches!(data, [a, ..] if a & 15 == 8 && a >> 4 <= 7);
        let data = if zlib { data.get(2..).unwrap_or_default() } else { data };
        Inflate { data, state: Decompress::new(false), ended: false }
    }
}

impl Read for Inflate<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.ended {
                return Ok(0);
            }
            let (consumed, written) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(self.data, out, FlushDecompress::None);
            let consumed = (self.state.total_in() - consumed) as usize;
            let written = (self.state.total_out() - written) as usize;
            self.data = self.data.get(consumed..).unwrap_or_default();
            self.ended = !matches!(status, Ok(Status::Ok)) || (consumed == 0 && written == 0);
            if written > 0 {
                return Ok(written.min(out.len()));
            }
        }
    }
}

/// Lempel, Ziv and Welch with codes of 9 to 12 bits, the first bit highest.
struct Lzw<'a> {
    data: &'a [u8],
    bits: u32,
    count: u32,
    /// Prefix, last byte and length of each code's string.
    table: Vec<(u16, u8, u16)>,
    previous: Option<u16>,
    early: usize,
    pending: Vec<u8>,
    given: usize,
}

const CLEAR: u16 = 256;
const END: u16 = 257;

impl<'a> Lzw<'a> {
    fn new(data: &'a [u8], early: bool) -> Self {
        let mut lzw = Lzw {
            data,
            bits: 0,
            count: 0,
            table: Vec::new(),
            previous: None,
            early: usize::from(early),
            pending: Vec::new(),
            given: 0,
        };
        lzw.clear();
        lzw
    }

    fn clear(&mut self) {
        self.table.clear();
        self.table.extend((0..258_u16).map(|b| (0, (b & 0xff) as u8, 1)));
        self.previous = None;
    }

    fn code(&mut self) -> Option<u16> {
        let width = match self.table.len() + self.early {
            0..=511 => 9,
            512..=1023 => 10,
            1024..=2047 => 11,
            _ => 12,
        };
        while self.count < width {
            let (first, rest) = self.data.split_first()?;
            self.data = rest;
            self.bits = self.bits << 8 | u32::from(*first);
            self.count += 8;
        }
        self.count -= width;
        Some((self.bits >> self.count & ((1 << width) - 1)) as u16)
    }

    /// Puts the string of a code into `pending`.
    fn string(&mut self, code: u16) {
        let mut at = code;
        let length = self.table.get(usize::from(code)).map_or(0, |entry| entry.2);
        for _ in 0..length {
            let Some(&(prefix, byte, _)) = self.table.get(usize::from(at)) else { break };
            self.pending.push(byte);
            at = prefix;
        }
        self.pending.reverse();
    }

    fn step(&mut self) -> Option<()> {
        self.pending.clear();
        self.given = 0;
        let code = self.code()?;
        match code {
            CLEAR => self.clear(),
            END => return None,
            _ => {
                let known = usize::from(code) < self.table.len();
                match (known, self.previous) {
                    (true, _) => self.string(code),
                    (false, Some(previous)) => {
                        self.string(previous);
                        let first = *self.pending.first()?;
                        self.pending.push(first);
                    }
                    (false, None) => return None,
                }
                if let Some(previous) = self.previous
                    && self.table.len() < 4096
                {
                    let first = *self.pending.first()?;
                    let length = self.table.get(usize::from(previous))?.2;
                    self.table.push((previous, first, length.saturating_add(1)));
                }
                self.previous = Some(code).filter(|&c| usize::from(c) < self.table.len());
            }
        }
        Some(())
    }
}

impl Read for Lzw<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            if self.given >= self.pending.len() {
                if self.step().is_none() {
                    break;
                }
                continue;
            }
            let part = &self.pending[self.given..];
            let count = part.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&part[..count]);
            self.given += count;
            filled += count;
        }
        Ok(filled)
    }
}

/// Run lengths: up to 127 says how many bytes follow less one, 129 and more repeats one byte.
struct Runs<'a> {
    data: &'a [u8],
    left: usize,
    /// The byte that is repeated; none while bytes are copied.
    value: Option<u8>,
}

impl Read for Runs<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            if self.left == 0 {
                match self.data {
                    [128, ..] | [] => break,
                    [count @ 0..=127, rest @ ..] => {
                        (self.left, self.value) = (usize::from(*count) + 1, None);
                        self.data = rest;
                    }
                    [count, value, rest @ ..] => {
                        (self.left, self.value) = (257 - usize::from(*count), Some(*value));
                        self.data = rest;
                    }
                    [_] => break,
                }
            }
            let byte = match (self.value, self.data) {
                (Some(value), _) => value,
                (None, [first, rest @ ..]) => {
                    self.data = rest;
                    *first
                }
                (None, []) => break,
            };
            out[filled] = byte;
            filled += 1;
            self.left -= 1;
        }
        Ok(filled)
    }
}

/// Groups of five characters for four bytes; `z` for four zeros.
fn ascii85(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() * 4 / 5);
    let mut group = [0_u8; 5];
    let mut count = 0;
    let data = data.strip_prefix(b"<~").unwrap_or(data);
    for &b in data {
        match b {
            b'~' => break,
            b'z' if count == 0 => out.extend_from_slice(&[0; 4]),
            b'!'..=b'u' => {
                group[count] = b - b'!';
                count += 1;
                if count == 5 {
                    out.extend_from_slice(&base85(group).to_be_bytes());
                    count = 0;
                }
            }
            _ => {}
        }
    }
    if count > 1 {
        group[count..].fill(84);
        out.extend_from_slice(&base85(group).to_be_bytes()[..count - 1]);
    }
    out
}

fn base85(group: [u8; 5]) -> u32 {
    group.iter().fold(0_u32, |sum, &d| sum.wrapping_mul(85).wrapping_add(u32::from(d)))
}

/// Undoes a predictor: 2 is TIFF's, 10 and more are PNG's (section 7.4.4.4).
fn unpredict(params: &Dict, data: Vec<u8>) -> Vec<u8> {
    let number = |key: &str, default| params.get(key).and_then(Value::integer).unwrap_or(default);
    let predictor = number("Predictor", 1);
    let (colors, bits) = (number("Colors", 1).clamp(1, 32), number("BitsPerComponent", 8));
    let columns = number("Columns", 1).clamp(1, ROW_BYTES_MAX);
    let bits = bits.clamp(1, 16);
    let pixel = (colors * bits).div_ceil(8);
    let row = (colors * bits * columns).div_ceil(8).min(ROW_BYTES_MAX);
    match predictor {
        2 if bits == 8 => tiff(data, row, pixel),
        10.. => png(&data, row, pixel),
        _ => data,
    }
}

fn tiff(mut data: Vec<u8>, row: usize, pixel: usize) -> Vec<u8> {
    for line in data.chunks_mut(row) {
        for at in pixel..line.len() {
            line[at] = line[at].wrapping_add(line[at - pixel]);
        }
    }
    data
}

fn png(data: &[u8], row: usize, pixel: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut above = vec![0_u8; row];
    for line in data.chunks(row + 1) {
        let (&kind, line) = line.split_first().unwrap_or((&0, &[]));
        let mut now = vec![0_u8; row];
        for (at, &byte) in line.iter().enumerate() {
            let left = if at >= pixel { now[at - pixel] } else { 0 };
            let corner = if at >= pixel { above[at - pixel] } else { 0 };
            let add = match kind {
                1 => left,
                2 => above[at],
                3 => ((u16::from(left) + u16::from(above[at])) / 2) as u8,
                4 => paeth(left, above[at], corner),
                _ => 0,
            };
            now[at] = byte.wrapping_add(add);
        }
        out.extend_from_slice(&now[..line.len()]);
        above = now;
    }
    out
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let guess = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |b: u8| (guess - i16::from(b)).abs();
    if distance(left) <= distance(above) && distance(left) <= distance(corner) {
        left
    } else if distance(above) <= distance(corner) {
        above
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_filters() {
        assert_eq!(ascii85(b"<~87cURD_*#TDfTZ)~>"), b"Hello, world");
        assert_eq!(ascii85(b"zz~>"), [0; 8]);
        let mut out = Vec::new();
        Runs { data: &[2, 1, 2, 3, 254, 9, 128, 7], left: 0, value: None }
            .read_to_end(&mut out)
            .unwrap();
        assert_eq!(out, [1, 2, 3, 9, 9, 9]);
    }

    #[test]
    fn lzw_of_the_specification() {
        // Section 7.4.4.2, example 2.
        let data = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        let mut out = Vec::new();
        Lzw::new(&data, true).read_to_end(&mut out).unwrap();
        assert_eq!(out, [45, 45, 45, 45, 45, 65, 45, 45, 45, 66]);
    }

    #[test]
    fn predictors() {
        assert_eq!(png(&[1, 1, 1, 1, 2, 1, 1, 1], 3, 1), [1, 2, 3, 2, 3, 4]);
        assert_eq!(tiff(vec![1, 1, 1, 2, 1, 1], 3, 1), [1, 2, 3, 2, 3, 4]);
    }

    #[test]
    fn a_broken_flate_stream_gives_what_stands_before_the_break() {
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        let text: String = (0..400).map(|n| format!("{n} ")).collect();
        io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        let mut whole = encoder.finish().unwrap();
        let cut = whole.len() - 60;
        whole[cut..].fill(0xff);
        let mut out = Vec::new();
        Inflate::new(&whole).read_to_end(&mut out).unwrap();
        assert!(out.len() > 500 && text.as_bytes().starts_with(&out[..500]));
    }
}
