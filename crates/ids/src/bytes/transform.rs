//! Transforms of buffers before they are inspected.

use std::io::Read;

use md5::{Digest, Md5};

use super::base64::{Base64Mode, decode};
use super::pattern::{Flags, Pattern};

/// One transform.
#[derive(Debug, Clone)]
pub enum Transform {
    /// `dotprefix`: a dot before it.
    DotPrefix,
    /// `to_lowercase`
    ToLower,
    /// `to_uppercase`
    ToUpper,
    /// `strip_whitespace`
    StripWhitespace,
    /// `compress_whitespace`: of several white spaces the first stays.
    CompressWhitespace,
    /// `url_decode`
    UrlDecode,
    /// `to_md5`: 16 bytes.
    Md5,
    /// `to_sha1`: 20 bytes.
    Sha1,
    /// `to_sha256`: 32 bytes.
    Sha256,
    /// `xor` with a key.
    Xor(Vec<u8>),
    /// `pcrexform`: what its group matches; unchanged if it does not match.
    Pcre(Box<Pattern>),
    /// `from_base64`; unchanged if nothing can be decoded.
    FromBase64 {
        /// Which letters.
        mode: Base64Mode,
        /// Bytes from here.
        offset: u32,
        /// How many; 0 is all.
        bytes: u32,
    },
    /// `header_lowercase`: names of headers.
    HeaderLower,
    /// `strip_pseudo_headers`: lines that begin with a colon.
    StripPseudoHeaders,
    /// `gunzip`, up to so many bytes.
    Gunzip(u32),
    /// `zlib_deflate`: inflates, up to so many bytes.
    Inflate(u32),
    /// `domain`: the registered domain.
    Domain,
    /// `tld`: the public suffix.
    TopLevelDomain,
}

impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Transform::Pcre(a), Transform::Pcre(b)) => a.text == b.text,
            (Transform::Xor(a), Transform::Xor(b)) => a == b,
            (Transform::Gunzip(a), Transform::Gunzip(b))
            | (Transform::Inflate(a), Transform::Inflate(b)) => a == b,
            (
                Transform::FromBase64 { mode, offset, bytes },
                Transform::FromBase64 { mode: other_mode, offset: other_offset, bytes: other },
            ) => (mode, offset, bytes) == (other_mode, other_offset, other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Eq for Transform {}

fn is_white(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ')
}

impl Transform {
    /// Its keyword.
    pub fn name(&self) -> &'static str {
        match self {
            Transform::DotPrefix => "dotprefix",
            Transform::ToLower => "to_lowercase",
            Transform::ToUpper => "to_uppercase",
            Transform::StripWhitespace => "strip_whitespace",
            Transform::CompressWhitespace => "compress_whitespace",
            Transform::UrlDecode => "url_decode",
            Transform::Md5 => "to_md5",
            Transform::Sha1 => "to_sha1",
            Transform::Sha256 => "to_sha256",
            Transform::Xor(_) => "xor",
            Transform::Pcre(_) => "pcrexform",
            Transform::FromBase64 { .. } => "from_base64",
            Transform::HeaderLower => "header_lowercase",
            Transform::StripPseudoHeaders => "strip_pseudo_headers",
            Transform::Gunzip(_) => "gunzip",
            Transform::Inflate(_) => "zlib_deflate",
            Transform::Domain => "domain",
            Transform::TopLevelDomain => "tld",
        }
    }

    /// Whether these bytes can be in what it makes; a rule that asks for others is wrong.
    pub fn can_yield(&self, bytes: &[u8]) -> bool {
        match self {
            Transform::ToLower => !bytes.iter().any(u8::is_ascii_uppercase),
            Transform::ToUpper => !bytes.iter().any(u8::is_ascii_lowercase),
            Transform::StripWhitespace => !bytes.iter().any(|&byte| is_white(byte)),
            Transform::CompressWhitespace => {
                let two = |pair: &[u8]| pair.iter().all(|&byte| is_white(byte));
                !bytes.windows(2).any(two)
            }
            Transform::Md5 => bytes.len() <= 16,
            Transform::Sha1 => bytes.len() <= 20,
            Transform::Sha256 => bytes.len() <= 32,
            _ => true,
        }
    }

    /// Writes what it makes of `input` to `out`, which is emptied first.
    pub fn apply(&self, input: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match self {
            // Suricata transforms nothing where there is nothing.
            _ if input.is_empty() => {}
            Transform::DotPrefix => {
                out.push(b'.');
                out.extend_from_slice(input);
            }
            Transform::ToLower => out.extend(input.iter().map(u8::to_ascii_lowercase)),
            Transform::ToUpper => out.extend(input.iter().map(u8::to_ascii_uppercase)),
            Transform::StripWhitespace => {
                out.extend(input.iter().copied().filter(|&byte| !is_white(byte)));
            }
            Transform::CompressWhitespace => compress(input, out),
            Transform::UrlDecode => url_decode(input, out),
            Transform::Md5 => out.extend_from_slice(&Md5::digest(input)),
            Transform::Sha1 => {
                let sha1 = &ring::digest::SHA1_FOR_LEGACY_USE_ONLY;
                out.extend_from_slice(ring::digest::digest(sha1, input).as_ref());
            }
            Transform::Sha256 => {
                out.extend_from_slice(ring::digest::digest(&ring::digest::SHA256, input).as_ref());
            }
            Transform::Xor(key) => {
                out.extend(input.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
            }
            Transform::Pcre(pattern) => group(pattern, input, out),
            Transform::FromBase64 { mode, offset, bytes } => {
                from_base64(input, *mode, *offset, *bytes, out);
            }
            Transform::HeaderLower => header_lower(input, out),
            Transform::StripPseudoHeaders => {
                let lines = input.split_inclusive(|&byte| byte == b'\n');
                lines.filter(|line| !line.starts_with(b":")).for_each(|line| out.extend(line));
            }
            Transform::Gunzip(max) => {
                unpack(flate2::bufread::GzDecoder::new(input), *max, out);
            }
            Transform::Inflate(max) => {
                unpack(flate2::bufread::ZlibDecoder::new(input), *max, out);
            }
            Transform::Domain => {
                out.extend_from_slice(gauntlet_suffix::domain(input).unwrap_or_default());
            }
            Transform::TopLevelDomain => {
                let suffix = gauntlet_suffix::suffix(input);
                let suffix = suffix.filter(|suffix| suffix.domain_of(input).is_some());
                out.extend_from_slice(suffix.map_or(b"", |suffix| suffix.name));
            }
        }
    }
}

/// Applies all transforms in turn; the result is in `out`. `spare` is working memory.
pub fn apply_all(transforms: &[Transform], input: &[u8], out: &mut Vec<u8>, spare: &mut Vec<u8>) {
    let Some((first, rest)) = transforms.split_first() else {
        out.clear();
        out.extend_from_slice(input);
        return;
    };
    first.apply(input, out);
    for transform in rest {
        std::mem::swap(out, spare);
        transform.apply(spare, out);
    }
}

fn compress(input: &[u8], out: &mut Vec<u8>) {
    let mut after_space = false;
    for &byte in input {
        let white = is_white(byte);
        if !(white && after_space) {
            out.push(byte);
        }
        after_space = white;
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn url_decode(input: &[u8], out: &mut Vec<u8>) {
    let mut rest = input;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = (after.first().copied(), after.get(1).copied());
                let (high, low) = (digits.0.and_then(hex), digits.1.and_then(hex));
                if let (Some(high), Some(low)) = (high, low) {
                    out.push(high << 4 | low);
                    rest = after.get(2..).unwrap_or_default();
                    continue;
                }
                // The bytes up to and with the one that is no digit stay as they are.
                let kept = if high.is_some() { 2 } else { 1 }.min(after.len());
                out.push(b'%');
                out.extend_from_slice(after.get(..kept).unwrap_or_default());
                rest = after.get(kept..).unwrap_or_default();
            }
            _ => out.push(byte),
        }
    }
}

fn group(pattern: &Pattern, input: &[u8], out: &mut Vec<u8>) {
    let mut locations = pattern.locations();
    let found = pattern.find(input, 0, Some(&mut locations));
    let group = match found {
        Ok(Some(_)) => locations.get(1).and_then(|(start, end)| input.get(start..end)),
        _ => None,
    };
    out.extend_from_slice(group.unwrap_or(input));
}

fn from_base64(input: &[u8], mode: Base64Mode, offset: u32, bytes: u32, out: &mut Vec<u8>) {
    let part = match input.get(offset as usize..) {
        Some(part) if !part.is_empty() => part,
        _ => return out.extend_from_slice(input),
    };
    let part = match part.get(..bytes as usize) {
        Some(part) if bytes > 0 && part.len() < input.len() - offset as usize => part,
        _ if bytes > 0 => return out.extend_from_slice(input),
        _ => part,
    };
    decode(part, mode, out);
    if out.is_empty() {
        out.extend_from_slice(input);
    }
}

fn header_lower(input: &[u8], out: &mut Vec<u8>) {
    let mut in_value = false;
    for &byte in input {
        out.push(if in_value { byte } else { byte.to_ascii_lowercase() });
        in_value = match byte {
            b':' => true,
            b'\n' => false,
            _ => in_value,
        };
    }
}

fn unpack(mut reader: impl Read, max: u32, out: &mut Vec<u8>) {
    out.resize(max as usize, 0);
    let count = reader.read(out).unwrap_or(0);
    out.truncate(count);
}

/// `pcrexform` with this pattern, which must have one group.
pub fn pcre_transform(text: &str, limits: (u32, u32)) -> Result<Transform, String> {
    let pattern = Pattern::new(text, Flags::default(), limits)?;
    match pattern.group_count() {
        1 => Ok(Transform::Pcre(Box::new(pattern))),
        count => Err(format!("pcrexform needs one group, not {count}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(transform: &Transform, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        transform.apply(input, &mut out);
        out
    }

    #[test]
    fn transforms_make_what_they_should() {
        let pcre = pcre_transform("a(.*)z", (3500, 1500)).expect("valid");
        let table: &[(Transform, &[u8], &[u8])] = &[
            (Transform::DotPrefix, b"a.b", b".a.b"),
            (Transform::ToLower, b"aBc", b"abc"),
            (Transform::ToUpper, b"aBc", b"ABC"),
            (Transform::StripWhitespace, b" a \t b\r\n", b"ab"),
            (Transform::CompressWhitespace, b"a  b \n c", b"a b c"),
            (Transform::UrlDecode, b"a%41+%4", b"aA %4"),
            (Transform::UrlDecode, b"%zz%4x%%41", b"%zz%4x%%41"),
            (Transform::Xor(vec![1, 2]), b"aaa", b"`c`"),
            (pcre.clone(), b"xabcz", b"bc"),
            (pcre, b"none", b"none"),
            (Transform::HeaderLower, b"Host: A:B\r\nX-Y: C\r\n", b"host: A:B\r\nx-y: C\r\n"),
            (Transform::StripPseudoHeaders, b":a: b\r\nc: d\r\n", b"c: d\r\n"),
            (Transform::Domain, b"www.example.co.uk", b"example.co.uk"),
            (Transform::TopLevelDomain, b"www.example.co.uk", b"co.uk"),
            (Transform::Gunzip(10), b"no gzip", b""),
            (Transform::DotPrefix, b"", b""),
        ];
        for (transform, input, expected) in table {
            assert_eq!(of(transform, input), *expected, "{}", transform.name());
        }
        assert_eq!(of(&Transform::Md5, b"a")[..2], [0x0c, 0xc1]);
        assert_eq!(of(&Transform::Sha1, b"a")[..2], [0x86, 0xf7]);
        assert_eq!(of(&Transform::Sha256, b"a")[..2], [0xca, 0x97]);
    }

    #[test]
    fn base64_is_decoded_or_left() {
        let whole = Transform::FromBase64 { mode: Base64Mode::Rfc4648, offset: 0, bytes: 0 };
        assert_eq!(of(&whole, b"Zm9v"), b"foo");
        assert_eq!(of(&whole, b"!!"), b"!!");
        let part = Transform::FromBase64 { mode: Base64Mode::Rfc4648, offset: 2, bytes: 4 };
        assert_eq!(of(&part, b"xxZm9vZZ"), b"foo");
        assert_eq!(of(&part, b"xxZm9v"), b"xxZm9v", "fewer bytes than asked for");
    }
}
