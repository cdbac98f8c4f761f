//! Percent-encoded bytes, as servers decode them.

use super::bestfit::lookalike;
use super::settings::{InvalidEncoding, Settings};

/// What a `%` and what follows become.
enum Step {
    /// A byte, and how many bytes behind the `%` belong to it.
    Byte(u8, usize),
    /// Nothing: the `%` goes.
    Gone,
    /// The text ends here.
    End,
}

/// A path: decoded, slashes in order, UTF-8 flattened, `.` and `..` resolved.
pub(super) fn path(settings: &Settings, bytes: &[u8]) -> Vec<u8> {
    let mut decoded = decode_path(settings, bytes);
    if settings.bestfit {
        decoded = super::utf8::flatten(&decoded, settings.bestfit_replacement);
    }
    super::dots::remove(&decoded)
}

/// A query, a host or a part of an authority: decoded.
pub(super) fn text(settings: &Settings, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => match escape(settings, after) {
                Step::Byte(0, _) if settings.encoded_nul_ends => break,
                Step::Byte(byte, len) => {
                    out.push(byte);
                    rest = after.get(len..).unwrap_or_default();
                }
                Step::Gone => {}
                Step::End => break,
            },
            b'+' if settings.plus_is_space => out.push(b' '),
            0 if settings.nul_ends => break,
            byte => out.push(byte),
        }
    }
    out
}

fn decode_path(settings: &Settings, bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let byte = match byte {
            b'%' => match path_escape(settings, after) {
                Step::Byte(byte, len) => {
                    rest = after.get(len..).unwrap_or_default();
                    byte
                }
                Step::Gone => continue,
                Step::End => break,
            },
            0 if settings.nul_ends => break,
            byte => byte,
        };
        let byte = match byte {
            b'\\' if settings.backslash_is_slash => b'/',
            byte if settings.lowercase => byte.to_ascii_lowercase(),
            byte => byte,
        };
        if byte == b'/' && settings.compress_slashes && out.last() == Some(&b'/') {
            continue;
        }
        out.push(byte);
    }
    out
}

/// What follows a `%` in a path: separators may have to stay encoded.
fn path_escape(settings: &Settings, after: &[u8]) -> Step {
    match escape(settings, after) {
        Step::Byte(0, len) if len > 0 && settings.encoded_nul_ends => Step::End,
        Step::Byte(byte, 2) if is_separator(settings, byte) && !settings.decode_slashes => {
            Step::Byte(b'%', 0)
        }
        step => step,
    }
}

fn is_separator(settings: &Settings, byte: u8) -> bool {
    byte == b'/' || (settings.backslash_is_slash && byte == b'\\')
}

/// What follows a `%`.
fn escape(settings: &Settings, after: &[u8]) -> Step {
    let (digits, skip) = match after.first() {
        Some(b'u' | b'U') if !settings.decode_u => return Step::Byte(b'%', 0),
        Some(b'u' | b'U') => (after.get(1..5), 1),
        _ => (after.get(..2), 0),
    };
    match digits {
        Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {
            Step::Byte(value(settings, digits), skip + digits.len())
        }
        digits => match (settings.invalid_encoding, digits) {
            (InvalidEncoding::Remove, _) => Step::Gone,
            (InvalidEncoding::Decode, Some(digits)) => {
                Step::Byte(value(settings, digits), skip + digits.len())
            }
            _ => Step::Byte(b'%', 0),
        },
    }
}

/// Of two digits the byte, of four the byte that looks like the character.
fn value(settings: &Settings, digits: &[u8]) -> u8 {
    match digits {
        [a, b, c, d] => {
            let (high, low) = (byte_of(*a, *b), byte_of(*c, *d));
            if high == 0 {
                return low;
            }
            let character = u32::from(high) << 8 | u32::from(low);
            lookalike(character).unwrap_or(settings.bestfit_replacement)
        }
        [a, b] => byte_of(*a, *b),
        _ => 0,
    }
}

/// Servers that decode what is not hexadecimal compute on.
fn byte_of(high: u8, low: u8) -> u8 {
    let digit = |byte: u8| {
        if byte >= b'A' {
            (byte & 0xdf).wrapping_sub(b'A').wrapping_add(10)
        } else {
            byte.wrapping_sub(b'0')
        }
    };
    digit(high).wrapping_mul(16).wrapping_add(digit(low))
}
