//! Sets of bytes in patterns: `[...]`, `[:alpha:]`, `\w`.

use super::parse::{Flags, Parser, Refusal, wrong};
use super::syntax::ByteSet;

impl Parser<'_> {
    /// What follows a `[`.
    pub(super) fn set(&mut self, flags: &Flags) -> Result<ByteSet, Refusal> {
        let negated = self.take(b"^");
        let mut set = ByteSet::default();
        let mut first = true;
        loop {
            let Some(byte) = self.peek() else { return wrong("a [ without its ]") };
            if byte == b']' && !first {
                self.at += 1;
                break;
            }
            first = false;
            if flags.spaced_sets && matches!(byte, b' ' | b'\t') {
                self.at += 1;
                continue;
            }
            match self.set_item(flags)? {
                Item::Class(class) => {
                    set = set.union(&class);
                    if self.is_range() {
                        return wrong("a range in [] begins with a class");
                    }
                }
                Item::Byte(low) if self.is_range() => {
                    self.at += 1;
                    let Item::Byte(high) = self.set_item(flags)? else {
                        return wrong("a range in [] ends with a class");
                    };
                    if low > high {
                        return wrong("a range in [] runs backwards");
                    }
                    for byte in low..=high.min(255) {
                        set.insert(byte as u8);
                    }
                }
                Item::Byte(byte) => {
                    if let Ok(byte) = u8::try_from(byte) {
                        set.insert(byte);
                    }
                }
            }
        }
        if flags.caseless {
            set = set.fold_case();
        }
        Ok(if negated { set.negate() } else { set })
    }

    /// Whether a `-` follows that makes a range.
    fn is_range(&self) -> bool {
        self.peek() == Some(b'-') && !matches!(self.text.get(self.at + 1), None | Some(b']'))
    }

    fn set_item(&mut self, flags: &Flags) -> Result<Item, Refusal> {
        let Some(byte) = self.peek() else { return wrong("a [ without its ]") };
        if byte == b'['
            && let Some(class) = self.posix_class(flags)?
        {
            return Ok(Item::Class(class));
        }
        self.at += 1;
        if byte != b'\\' {
            return Ok(Item::Byte(u32::from(byte)));
        }
        let Some(next) = self.peek() else { return wrong("it ends in a backslash") };
        if let Some(class) = class_escape(next, flags.latin) {
            self.at += 1;
            return Ok(Item::Class(class));
        }
        match next {
            b'b' => {
                self.at += 1;
                Ok(Item::Byte(8))
            }
            b'1'..=b'7' => Ok(self
                .octal()
                .map_or(Item::Class(ByteSet::default()), |b| Item::Byte(u32::from(b)))),
            b'p' | b'P' => Ok(Item::Class(self.property(&Flags::default())?)),
            b'N' => Ok(self.code_point()?.map_or(Item::Byte(256), |b| Item::Byte(u32::from(b)))),
            // A character above U+00FF: larger than any byte, so that ranges up to it work.
            _ => Ok(self.byte_escape()?.map_or(Item::Byte(256), |b| Item::Byte(u32::from(b)))),
        }
    }

    /// `[:alpha:]` at this place.
    fn posix_class(&mut self, flags: &Flags) -> Result<Option<ByteSet>, Refusal> {
        let rest = &self.text[self.at..];
        for mark in [b".", b"="] {
            if rest.get(1..2) == Some(mark.as_slice())
                && memchr::memmem::find(&rest[2..], &[mark[0], b']']).is_some()
            {
                return wrong("[. .] and [= =] are reserved in Perl");
            }
        }
        let Some(inner) = rest.strip_prefix(b"[:") else { return Ok(None) };
        let Some(end) = memchr::memmem::find(inner, b":]") else { return Ok(None) };
        let name = &inner[..end];
        let (negated, name) = match name.strip_prefix(b"^") {
            Some(name) => (true, name),
            None => (false, name),
        };
        if name.is_empty() || !name.iter().all(u8::is_ascii_alphabetic) {
            return Ok(None);
        }
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
            _ => return wrong(format!("no class [:{}:]", String::from_utf8_lossy(name))),
        };
        self.at += 2 + end + 2;
        let mut set = ByteSet::from_bytes((0..=255).filter(|b| is(*b)));
        if flags.latin {
            // In any case, capitals are all letters that have a case.
            let is_cased = flags.caseless && matches!(name, b"upper" | b"lower");
            set = set.union(&latin_class(if is_cased { b"alpha" } else { name }));
        }
        Ok(Some(if negated { set.negate() } else { set }))
    }
}

enum Item {
    /// A character; 256 stands for all above U+00FF.
    Byte(u32),
    Class(ByteSet),
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// What a class takes of the bytes above 127 under `(?u)`, where these are the characters of Latin-1 (as Perl 5.36
/// says of each).
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

/// Classes that are one letter after a backslash, the same inside and outside of sets; `latin` is [`Flags::latin`].
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
