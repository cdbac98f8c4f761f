//! Classes of bytes: `[:alpha:]`, `\w`.

use super::Flags;
use crate::pattern::syntax::ByteSet;

/// The class `[:name:]`; `None` if Perl has no such class.
pub(super) fn posix_class(name: &[u8], flags: &Flags) -> Option<ByteSet> {
    let is: fn(u8) -> bool = match name {
        b"alpha" => |b| b.is_ascii_alphabetic(),
        b"digit" => |b| b.is_ascii_digit(),
        b"alnum" => |b| b.is_ascii_alphanumeric(),
        b"upper" => |b| b.is_ascii_uppercase(),
        b"lower" => |b| b.is_ascii_lowercase(),
        b"space" => is_space,
        b"blank" => |b| matches!(b, b' ' | b'\t'),
        b"punct" => |b| b.is_ascii_punctuation(),
        b"print" => |b| (32..127).contains(&b),
        b"graph" => |b| b.is_ascii_graphic(),
        b"cntrl" => |b| b.is_ascii_control(),
        b"xdigit" => |b| b.is_ascii_hexdigit(),
        b"word" => is_word,
        b"ascii" => |b| b.is_ascii(),
        _ => return None,
    };
    let mut set = ByteSet::from_bytes((0..=255).filter(|b| is(*b)));
    if flags.latin {
        // Case-insensitively, `upper` and `lower` are all characters that have a case.
        let is_cased = flags.caseless && matches!(name, b"upper" | b"lower");
        set = set.union(&latin_class(if is_cased { b"alpha" } else { name }));
    }
    Some(set)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The bytes above 127 that a class has under `(?u)`, where they are the characters of Latin-1 (as
/// in Perl 5.36).
fn latin_class(name: &[u8]) -> ByteSet {
    let is_sign = |b: &u8| matches!(b, 0xd7 | 0xf7);
    let letters = || [0xaa, 0xb5, 0xba].into_iter().chain((0xc0..=0xff).filter(|b| !is_sign(b)));
    match name {
        b"alpha" | b"alnum" | b"word" => ByteSet::from_bytes(letters()),
        b"upper" => ByteSet::from_bytes(letters().filter(|b| (0xc0..0xdf).contains(b))),
        b"lower" => ByteSet::from_bytes(letters().filter(|b| !(0xc0..0xdf).contains(b))),
        b"space" => ByteSet::from_bytes([0x85, 0xa0]),
        b"blank" => ByteSet::of(0xa0),
        b"punct" => ByteSet::from_bytes([0xa1, 0xa7, 0xab, 0xb6, 0xb7, 0xbb, 0xbf]),
        b"graph" => ByteSet::from_bytes(0xa1..=0xff),
        b"print" => ByteSet::from_bytes(0xa0..=0xff),
        b"cntrl" => ByteSet::from_bytes(0x80..=0x9f),
        _ => ByteSet::default(),
    }
}

/// Classes written as one letter after a backslash, the same inside and outside of sets; `latin` is
/// [`Flags::latin`].
pub(super) fn class_escape(byte: u8, latin: bool) -> Option<ByteSet> {
    let high = |name| if latin { latin_class(name) } else { ByteSet::default() };
    let set = match byte.to_ascii_lowercase() {
        b'd' => ByteSet::from_bytes(b'0'..=b'9'),
        b'w' => ByteSet::from_bytes((0..=255).filter(|b| is_word(*b))).union(&high(b"word")),
        b's' => ByteSet::from_bytes((0..=255).filter(|b| is_space(*b))).union(&high(b"space")),
        b'h' => ByteSet::from_bytes([b' ', b'\t', 0xa0]),
        b'v' => ByteSet::from_bytes([b'\n', 0x0b, 0x0c, b'\r', 0x85]),
        _ => return None,
    };
    Some(if byte.is_ascii_uppercase() { set.negate() } else { set })
}
