//! Scripts that AutoIt compiles into a program: the script and the files that it installs, of
//! versions 3.0 to 3.2 ("EA05") and later ("EA06"), as free decompilers describe them.

use std::io;

use memchr::memmem;

use crate::formats::archive::lz::{BitOrder, Bits, LzReader, Tokens, Window};
use crate::formats::numbers::{slice, u32_at};
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

const MAGIC: &[u8] = b"\xa3\x48\x4b\xbe\x98\x6c\x4a\xa9\x99\x4c\x53\x0a\x86\xd6\x48\x7dAU3!EA0";
/// Files of one program.
const FILES_MAX: usize = 4_096;
/// Characters of a name.
const NAME_MAX: u32 = 1_024;
/// Two times of a file.
const TIMES_BYTES: usize = 16;

/// What differs between the versions: numbers that fields are masked with, and seeds.
struct Version {
    signature: u32,
    name: (u32, u32),
    path: (u32, u32),
    size: u32,
    seed: u32,
    /// Bytes of a character.
    width: usize,
    /// The bit before a repetition.
    repeats: u32,
    keys: fn(u32) -> Box<dyn FnMut() -> u8>,
}

const EA05: Version = Version {
    signature: 0xceb0_6dff,
    name: (0x29bc, 0xa25e),
    path: (0x29ac, 0xf25e),
    size: 0x45aa,
    seed: 0x22af,
    width: 1,
    repeats: 1,
    keys: twister,
};

const EA06: Version = Version {
    signature: 0x52ca_436b,
    name: (0xadbc, 0xb33f),
    path: (0xf820, 0xf479),
    size: 0x87bc,
    seed: 0x2477,
    width: 2,
    repeats: 0,
    keys: fibonacci,
};

/// Whether a file is a compiled script without a program.
pub(super) fn is_script(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Adds the script and its files; whether there are any.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> bool {
    let Some(at) = memmem::find(bytes, MAGIC) else { return false };
    let at = at + MAGIC.len();
    let version = match bytes.get(at) {
        Some(b'5') => EA05,
        Some(b'6') => EA06,
        _ => return false,
    };
    unpacker.property(PropertyKind::Script, "autoit");
    let checksum = slice(bytes, at + 1, 16);
    // Of the newer version the password's hash is no part of the key.
    let sum = checksum.iter().map(|b| u32::from(*b)).sum::<u32>();
    let sum = if version.width == 1 { sum } else { 0 };
    let mut at = at + 1 + checksum.len();
    for _ in 0..FILES_MAX {
        if unpacker.is_over() || u32_at(bytes, at) != Some(version.signature) {
            return true;
        }
        match file(bytes, at + 4, &version, sum, unpacker) {
            Some(end) => at = end,
            None => {
                unpacker.defect(DefectKind::Truncated, "a compiled script");
                return true;
            }
        }
    }
    unpacker.defect(DefectKind::TooManyObjects, "files of a compiled script");
    true
}

/// Adds a file; where the next one begins.
fn file(
    bytes: &[u8],
    at: usize,
    version: &Version,
    sum: u32,
    unpacker: &mut Unpacker<'_>,
) -> Option<usize> {
    let (kind, at) = string(bytes, at, version.name, version)?;
    let (path, at) = string(bytes, at, version.path, version)?;
    let is_packed = *bytes.get(at)? != 0;
    let packed = (u32_at(bytes, at + 1)? ^ version.size) as usize;
    let at = at + 13 + TIMES_BYTES;
    let body = bytes.get(at..)?;
    let body = &body[..packed.min(body.len())];
    let is_script = kind.starts_with('>');
    let name = if is_script { "script.au3" } else { path.as_str() };
    if body.len() < packed {
        unpacker.defect(DefectKind::Truncated, name);
    }
    let mut keys = (version.keys)(version.seed.wrapping_add(sum));
    let plain: Vec<u8> = body.iter().map(|byte| byte ^ keys()).collect();
    let file = match plain.first_chunk::<8>() {
        Some([b'E', b'A', b'0', b'5' | b'6', size @ ..]) if is_packed => {
            let tokens = Packed { bits: Bits::new(&plain[8..], BitOrder::High), version };
            let size = u64::from(u32::from_be_bytes(*size));
            unpacker.read(&mut LzReader::new(tokens, size, 0), packed as u64, name)
        }
        _ => unpacker.read(&mut &plain[..], packed as u64, name),
    };
    if is_script && version.width == 2 {
        unpacker.text(&words(&file));
    }
    unpacker.child(Child::named(name), &file);
    Some(at + body.len())
}

/// A string, masked, and where it ends.
fn string(
    bytes: &[u8],
    at: usize,
    (mask, seed): (u32, u32),
    version: &Version,
) -> Option<(String, usize)> {
    let count = u32_at(bytes, at)? ^ mask;
    if count > NAME_MAX {
        return None;
    }
    let length = count as usize * version.width;
    let masked = bytes.get(at + 4..at + 4 + length)?;
    let mut keys = (version.keys)(count.wrapping_add(seed));
    let plain: Vec<u8> = masked.iter().map(|byte| byte ^ keys()).collect();
    let string = if version.width == 2 { text::utf16_le(&plain) } else { text::file_name(&plain) };
    Some((string, at + 4 + length))
}

/// The words and strings of a script of the newer version, which is made of tokens.
fn words(script: &[u8]) -> String {
    let mut out = String::new();
    let mut at = 4;
    while let Some(&token) = script.get(at) {
        at += 1;
        match token {
            0..=0x0f => at += 4,
            0x10..=0x2f => at += 8,
            0x30..=0x3f => {
                let Some(count) = u32_at(script, at) else { break };
                let body = slice(script, at + 4, (count as usize).saturating_mul(2));
                at = at.saturating_add(4).saturating_add((count as usize).saturating_mul(2));
                let [low, high, ..] = count.to_le_bytes();
                let plain: Vec<u8> = body
                    .chunks(2)
                    .flat_map(|c| [c[0] ^ low, c.get(1).unwrap_or(&0) ^ high])
                    .collect();
                out.push_str(&text::utf16_le(&plain));
                out.push(' ');
            }
            0x7f => out.push('\n'),
            _ => {}
        }
    }
    out
}

/// Reads compressed data: literal bytes, and repetitions of earlier output.
struct Packed<'b> {
    bits: Bits<'b>,
    version: &'b Version,
}

impl Packed<'_> {
    /// Numbers of growing width; all ones lead to the next.
    fn length(&mut self) -> io::Result<usize> {
        let mut base = 0;
        for (bits, next) in [(2, 3), (3, 10), (5, 41), (8, 296)] {
            let number = self.bits.number(bits)?;
            if number + 1 < 1 << bits {
                return Ok(base + number as usize + 3);
            }
            base = next;
        }
        loop {
            let number = self.bits.number(8)? as usize;
            if number < 255 {
                return Ok(base + number + 3);
            }
            base += 255;
        }
    }
}

impl Tokens for Packed<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        if self.bits.bit()? == self.version.repeats {
            let distance = self.bits.number(15)? as usize;
            let length = self.length()?;
            window.repeat(distance, length);
        } else {
            window.push(self.bits.number(8)? as u8);
        }
        Ok(true)
    }
}

/// The Mersenne Twister (Matsumoto and Nishimura 1998); of each number one byte.
fn twister(seed: u32) -> Box<dyn FnMut() -> u8> {
    const SIZE: usize = 624;
    let mut state = vec![seed; SIZE];
    for index in 1..SIZE {
        let last = state[index - 1];
        let mixed = 0x6c07_8965u32.wrapping_mul(last ^ last >> 30);
        state[index] = mixed.wrapping_add(index as u32);
    }
    let mut next = SIZE;
    Box::new(move || {
        if next == SIZE {
            next = 0;
            for index in 0..SIZE {
                let y = state[index] & 1 << 31 | state[(index + 1) % SIZE] & !(1 << 31);
                let odd = if y & 1 == 0 { 0 } else { 0x9908_b0df };
                state[index] = state[(index + 397) % SIZE] ^ y >> 1 ^ odd;
            }
        }
        let mut y = state[next];
        next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^= y >> 18;
        (y >> 1) as u8
    })
}

/// A lagged generator of 17 numbers; of every second number the highest bits.
fn fibonacci(mut seed: u32) -> Box<dyn FnMut() -> u8> {
    const SIZE: usize = 17;
    let mut state = [0u32; SIZE];
    for number in &mut state {
        seed = 1u32.wrapping_sub(seed.wrapping_mul(0x53a9_b4fb));
        *number = seed;
    }
    let (mut a, mut b) = (0, 10);
    let mut roll = move || {
        let rolled = state[a].rotate_left(9).wrapping_add(state[b].rotate_left(13));
        state[a] = rolled;
        a = a.checked_sub(1).unwrap_or(SIZE - 1);
        b = b.checked_sub(1).unwrap_or(SIZE - 1);
        rolled
    };
    for _ in 0..9 {
        roll();
    }
    Box::new(move || {
        roll();
        (roll() >> 24) as u8
    })
}

#[cfg(test)]
mod tests;
