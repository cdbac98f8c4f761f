//! What a file is, by its first bytes: the texts of file(1) for common formats, `data` for others.
//!
//! Rules look for parts of these texts (`filemagic:"PE32 executable"`). Of each format the text
//! begins as that of libmagic 5.44; details behind it that few rules ask for are left out.

mod archive;
mod json;
mod program;
mod text;

/// So many bytes are waited for, unless the file is over before.
pub(crate) const BYTES_MIN: u64 = 512;

/// Bytes from a place on, if there are so many.
fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk::<N>().copied()
}

fn u16_le(bytes: &[u8], place: usize) -> Option<u16> {
    at(bytes, place).map(u16::from_le_bytes)
}

fn u32_le(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_le_bytes)
}

fn u32_be(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_be_bytes)
}

/// What file(1) says of a file that begins with these bytes.
pub(crate) fn describe(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "empty".into();
    }
    if bytes.len() == 1 {
        return "very short file (no magic)".into();
    }
    if let Some(found) = json::describe(bytes) {
        return found.into();
    }
    document(bytes)
        .or_else(|| picture(bytes))
        .or_else(|| sound_or_film(bytes))
        .or_else(|| program::describe(bytes))
        .or_else(|| archive::describe(bytes))
        .unwrap_or_else(|| text::describe(bytes))
}

fn document(bytes: &[u8]) -> Option<String> {
    if let Some(rest) = bytes.strip_prefix(b"%PDF-") {
        let version = match rest {
            [major, b'.', minor, ..] => format!("{}.{}", char::from(*major), char::from(*minor)),
            _ => return Some("PDF document".into()),
        };
        return Some(format!("PDF document, version {version}"));
    }
    if bytes.starts_with(&[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1]) {
        return Some("Composite Document File V2 Document, Little Endian".into());
    }
    if let Some(rest) = bytes.strip_prefix(b"{\\rtf") {
        let version = rest.first().map_or('1', |byte| char::from(*byte));
        return Some(format!("Rich Text Format data, version {version}"));
    }
    if let Some(rest) = bytes.strip_prefix(b"%!PS-Adobe-") {
        let end = rest.iter().take(8).position(|byte| byte.is_ascii_whitespace()).unwrap_or(3);
        let level = String::from_utf8_lossy(rest.get(..end).unwrap_or_default());
        return Some(format!("PostScript document text conforming DSC level {level}"));
    }
    let simple: &[(&[u8], &str)] = &[
        (b"%!", "PostScript document text"),
        (b"SQLite format 3\0", "SQLite 3.x database"),
        (b"L\0\0\0\x01\x14\x02\0\0\0\0\0\xc0\0\0\0", "MS Windows shortcut"),
        (b"ITSF\x03\0\0\0", "MS Windows HtmlHelp Data"),
        (b"-----BEGIN CERTIFICATE-----", "PEM certificate"),
        (b"-----BEGIN RSA PRIVATE", "PEM RSA private key"),
        (b"\xd4\xc3\xb2\xa1", "pcap capture file, microsecond ts (little-endian)"),
        (b"\xa1\xb2\xc3\xd4", "pcap capture file, microsecond ts (big-endian)"),
        (b"\x0a\x0d\x0d\x0a", "pcapng capture file"),
        (b"\xff\xfe\0\0", "Unicode text, UTF-32, little-endian"),
        (b"\0\0\xfe\xff", "Unicode text, UTF-32, big-endian"),
    ];
    begins(bytes, simple)
}

/// The text of the first of these beginnings.
fn begins(bytes: &[u8], table: &[(&[u8], &str)]) -> Option<String> {
    let found = table.iter().find(|(start, _)| bytes.starts_with(start));
    found.map(|(_, text)| (*text).to_owned())
}

fn picture(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some(png(bytes).unwrap_or_else(|| "PNG image data".into()));
    }
    if let Some(rest) = bytes.strip_prefix(b"GIF8") {
        let minor = rest.first().map_or('9', |byte| char::from(*byte));
        let size = u16_le(bytes, 6).zip(u16_le(bytes, 8));
        let size = size.map(|(width, height)| format!(", {width} x {height}"));
        return Some(format!("GIF image data, version 8{minor}a{}", size.unwrap_or_default()));
    }
    if bytes.len() > 3 && bytes.starts_with(&[0xff, 0xd8, 0xff]) {
        return Some(match at::<4>(bytes, 6).as_ref() {
            Some(b"JFIF") => {
                let version = at::<2>(bytes, 11).unwrap_or_default();
                format!("JPEG image data, JFIF standard {}.{:02}", version[0], version[1])
            }
            Some(b"Exif") => "JPEG image data, Exif standard".into(),
            _ => "JPEG image data".into(),
        });
    }
    if bytes.starts_with(b"BM") && u32_le(bytes, 14) == Some(40) {
        let (width, height) = (u32_le(bytes, 18)?, u32_le(bytes, 22)?);
        let depth = u16_le(bytes, 28)?;
        return Some(format!("PC bitmap, Windows 3.x format, {width} x {height} x {depth}"));
    }
    let simple: &[(&[u8], &str)] = &[
        (b"II*\0", "TIFF image data, little-endian"),
        (b"MM\0*", "TIFF image data, big-endian"),
        (b"8BPS\0\x01", "Adobe Photoshop Image"),
        (b"\0\0\x01\0", "MS Windows icon resource"),
    ];
    begins(bytes, simple)
}

fn png(bytes: &[u8]) -> Option<String> {
    let (width, height) = (u32_be(bytes, 16)?, u32_be(bytes, 20)?);
    let [depth, colour, _, _, interlace] = at(bytes, 24)?;
    let colour = match colour {
        0 => " grayscale",
        2 => "/color RGB",
        3 => " colormap",
        4 => " gray+alpha",
        6 => "/color RGBA",
        _ => "",
    };
    let interlace = if interlace == 0 { "non-interlaced" } else { "interlaced" };
    Some(format!("PNG image data, {width} x {height}, {depth}-bit{colour}, {interlace}"))
}

fn sound_or_film(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(b"RIFF") {
        let kind = match at::<4>(bytes, 8).as_ref() {
            Some(b"WAVE") => ", WAVE audio",
            Some(b"AVI ") => ", AVI",
            Some(b"WEBP") => ", Web/P image",
            Some(b"ACON") => ", animated cursor",
            _ => "",
        };
        return Some(format!("RIFF (little-endian) data{kind}"));
    }
    if let Some([b'F' | b'C' | b'Z', b'W', b'S', version]) = at(bytes, 0)
        && u32_le(bytes, 4).is_some_and(|length| length > 0)
        && !text::is_text(bytes)
    {
        let packed = match bytes.first() {
            Some(b'C') => " (compressed)",
            Some(b'Z') => " (lzma compressed)",
            _ => "",
        };
        return Some(format!("Macromedia Flash data{packed}, version {version}"));
    }
    if let (true, Some([major, minor])) = (bytes.starts_with(b"ID3"), at(bytes, 3)) {
        return Some(format!("Audio file with ID3 version 2.{major}.{minor}"));
    }
    if at(bytes, 4) == Some(*b"ftyp") {
        let brand = match at::<4>(bytes, 8).as_ref() {
            Some(b"qt  ") => ", Apple QuickTime movie",
            Some([b'm', b'p', b'4', _] | [b'i', b's', b'o', _]) => ", MP4 Base Media",
            Some([b'M', b'4', b'A', _]) => ", Apple iTunes ALAC/AAC-LC (.M4A) Audio",
            _ => "",
        };
        return Some(format!("ISO Media{brand}"));
    }
    if let Some(found) = mpeg_audio(bytes) {
        return Some(found.into());
    }
    let simple: &[(&[u8], &str)] = &[
        (b"OggS", "Ogg data"),
        (b"fLaC", "FLAC audio bitstream data"),
        (b"FLV\x01", "Macromedia Flash Video"),
        (b"\x1a\x45\xdf\xa3", "Matroska data"),
        (b"MThd", "Standard MIDI data"),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "Microsoft ASF"),
        (b"\0\0\x01\xba", "MPEG sequence, v2, program multiplex"),
    ];
    begins(bytes, simple)
}

/// A frame of MPEG audio (ISO 11172-3, section 2.4.1.3; with AAC ISO 13818-7, section 6.2): eleven
/// bits that are set, version and layer. Where text could begin so, the bit rate counts, too.
fn mpeg_audio(bytes: &[u8]) -> Option<&'static str> {
    let [0xff, kind] = at(bytes, 0)? else { return None };
    let has_rate = bytes.get(2).is_some_and(|byte| (0x10..0xf0).contains(byte));
    Some(match kind {
        0xfa | 0xfb if has_rate => "MPEG ADTS, layer III, v1",
        0xfc | 0xfd => "MPEG ADTS, layer II, v1",
        0xf2 | 0xf3 => "MPEG ADTS, layer III, v2",
        0xf4 | 0xf5 => "MPEG ADTS, layer II, v2",
        0xe2 | 0xe3 => "MPEG ADTS, layer III,  v2.5",
        0xf0 | 0xf1 => "MPEG ADTS, AAC, v4",
        0xf8 | 0xf9 => "MPEG ADTS, AAC, v2",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
