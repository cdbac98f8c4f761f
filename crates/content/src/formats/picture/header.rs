//! What the header of a picture says: format and size, without decoding anything.
//!
//! PNG (W3C PNG section 11.2.2), JPEG (ITU T.81 annex B), GIF89a, BMP, WebP (RFC 9649), TIFF 6.0
//! and Windows icons.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    Gif,
    Bitmap,
    WebP,
    Tiff,
    Icon,
}

/// The header of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: Format,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// Pixels of a side below which no code fits: the smallest has 21 modules.
const SIDE_MIN: u32 = 21;
/// Segments of a JPEG and entries of a TIFF directory that are looked at.
const PARTS_MAX: usize = 4_096;

impl Header {
    /// Whether the picture is large enough for a code.
    pub(crate) fn may_hold_code(&self) -> bool {
        self.width >= SIDE_MIN && self.height >= SIDE_MIN
    }

    pub(crate) fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// Reads the header; none if it is cut or no picture's.
pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
    let (format, (width, height)) = match bytes {
        [0x89, b'P', b'N', b'G', ..] => (Format::Png, (be32(bytes, 16)?, be32(bytes, 20)?)),
        [0xff, 0xd8, ..] => (Format::Jpeg, jpeg(bytes)?),
        [b'G', b'I', b'F', b'8', ..] => (Format::Gif, (le16(bytes, 6)?, le16(bytes, 8)?)),
        [b'B', b'M', ..] => (Format::Bitmap, bitmap(bytes)?),
        [b'R', b'I', b'F', b'F', ..] => (Format::WebP, webp(bytes)?),
        [b'I', b'I', ..] => (Format::Tiff, tiff(bytes, le16, le32)?),
        [b'M', b'M', ..] => (Format::Tiff, tiff(bytes, be16, be32)?),
        [0, 0, 1 | 2, 0, ..] => (Format::Icon, icon(bytes)?),
        _ => return None,
    };
    Some(Header { format, width, height })
}

/// The first frame header (SOF0 to SOF15 but DHT, JPG and DAC); junk between segments is passed
/// over, as decoders do.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    for _ in 0..PARTS_MAX {
        at += bytes.get(at..)?.iter().position(|&b| b == 0xff)?;
        while bytes.get(at) == Some(&0xff) {
            at += 1;
        }
        let marker = *bytes.get(at)?;
        at += 1;
        match marker {
            0 | 1 | 0xd0..=0xd8 => {}
            0xc4 | 0xc8 | 0xcc => at += usize::try_from(be16(bytes, at)?).ok()?,
            0xc0..=0xcf => return Some((be16(bytes, at + 5)?, be16(bytes, at + 3)?)),
            _ => at += usize::try_from(be16(bytes, at)?).ok()?,
        }
    }
    None
}

/// The header of OS/2 has 16 bits for each side, all others 32; a negative height is one from the
/// top.
fn bitmap(bytes: &[u8]) -> Option<(u32, u32)> {
    if le32(bytes, 14)? == 12 {
        return Some((le16(bytes, 18)?, le16(bytes, 20)?));
    }
    let side = |at| Some(le32(bytes, at)?.cast_signed().unsigned_abs());
    Some((side(18)?, side(22)?))
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let le24 = |at: usize| Some(le16(bytes, at)? | u32::from(*bytes.get(at + 2)?) << 16);
    match bytes.get(12..16)? {
        b"VP8X" => Some((le24(24)? + 1, le24(27)? + 1)),
        b"VP8L" => {
            let bits = le32(bytes, 21)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => Some((le16(bytes, 26)? & 0x3fff, le16(bytes, 28)? & 0x3fff)),
        _ => None,
    }
}

/// Tags 256 and 257 of the first directory, as SHORT (3) or LONG (4).
fn tiff(
    bytes: &[u8],
    half: fn(&[u8], usize) -> Option<u32>,
    word: fn(&[u8], usize) -> Option<u32>,
) -> Option<(u32, u32)> {
    let directory = usize::try_from(word(bytes, 4)?).ok()?;
    let count = usize::try_from(half(bytes, directory)?).ok()?.min(PARTS_MAX);
    let (mut width, mut height) = (None, None);
    for index in 0..count {
        let at = directory.checked_add(2 + 12 * index)?;
        let Some(tag) = half(bytes, at) else { break };
        let value = if half(bytes, at + 2) == Some(3) { half } else { word }(bytes, at + 8);
        match tag {
            256 => width = value,
            257 => height = value,
            _ => {}
        }
    }
    Some((width?, height?))
}

/// The largest picture of an icon; 0 says 256.
fn icon(bytes: &[u8]) -> Option<(u32, u32)> {
    let count = usize::try_from(le16(bytes, 4)?).ok()?.min(PARTS_MAX);
    let side = |b: u8| if b == 0 { 256 } else { u32::from(b) };
    let sizes = (0..count).map_while(|index| {
        let at = 6 + 16 * index;
        Some((side(*bytes.get(at)?), side(*bytes.get(at + 1)?)))
    });
    sizes.max()
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
