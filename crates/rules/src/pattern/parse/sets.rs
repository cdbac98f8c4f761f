//! Sets of bytes in brackets: `[...]`.

use super::classes::{class_escape, posix_class};
use super::{Flags, ParseError, Parser, invalid};
use crate::pattern::syntax::ByteSet;

impl Parser<'_> {
    /// What follows a `[`.
    pub(super) fn set(&mut self, flags: &Flags) -> Result<ByteSet, ParseError> {
        let negated = self.take(b"^");
        let mut set = ByteSet::default();
        let mut first = true;
        loop {
            let Some(byte) = self.peek() else { return invalid("a [ without its ]") };
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
                        return invalid("a range in [] begins with a class");
                    }
                }
                Item::Byte(low) if self.is_range() => {
                    self.at += 1;
                    let Item::Byte(high) = self.set_item(flags)? else {
                        return invalid("a range in [] ends with a class");
                    };
                    if low > high {
                        return invalid("a range in [] runs backwards");
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

    /// Whether a `-` follows that forms a range.
    fn is_range(&self) -> bool {
        self.peek() == Some(b'-') && !matches!(self.text.get(self.at + 1), None | Some(b']'))
    }

    fn set_item(&mut self, flags: &Flags) -> Result<Item, ParseError> {
        let Some(byte) = self.peek() else { return invalid("a [ without its ]") };
        if byte == b'['
            && let Some(class) = self.posix_class(flags)?
        {
            return Ok(Item::Class(class));
        }
        self.at += 1;
        if byte != b'\\' {
            return Ok(Item::Byte(u32::from(byte)));
        }
        let Some(next) = self.peek() else { return invalid("it ends in a backslash") };
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

    /// `[:alpha:]` at this position.
    fn posix_class(&mut self, flags: &Flags) -> Result<Option<ByteSet>, ParseError> {
        let rest = &self.text[self.at..];
        for mark in [b".", b"="] {
            if rest.get(1..2) == Some(mark.as_slice())
                && memchr::memmem::find(&rest[2..], &[mark[0], b']']).is_some()
            {
                return invalid("[. .] and [= =] are reserved in Perl");
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
        let Some(set) = posix_class(name, flags) else {
            return invalid(format!("no class [:{}:]", String::from_utf8_lossy(name)));
        };
        self.at += 2 + end + 2;
        Ok(Some(if negated { set.negate() } else { set }))
    }
}

enum Item {
    /// A character; 256 stands for all above U+00FF.
    Byte(u32),
    Class(ByteSet),
}
