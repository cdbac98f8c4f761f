//! Addresses in header fields (RFC 5322 section 3.4), read tolerantly.

use std::borrow::Cow;

use crate::header::decode_words;

/// One mailbox: a display name, and an address that may be broken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mailbox {
    /// Display name, decoded, without quotes; empty if there is none.
    pub name: String,
    /// The address between the angle brackets, or the bare one; case kept, comments removed.
    pub address: String,
}

impl Mailbox {
    /// What is before the last `@`; everything when there is none.
    pub fn local_part(&self) -> &str {
        self.address.rsplit_once('@').map_or(&self.address, |(local, _)| local)
    }

    /// What is after the last `@`, as written; empty when there is none.
    pub fn domain(&self) -> &str {
        self.address.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

/// Reads the mailboxes of an unfolded field value; groups are flattened. At most `max` are kept.
pub fn mailboxes(value: &[u8], max: usize) -> Vec<Mailbox> {
    let mut found = Vec::new();
    for item in split_items(value) {
        if found.len() >= max {
            break;
        }
        let mailbox = mailbox(item);
        if !mailbox.address.is_empty() || !mailbox.name.is_empty() {
            found.push(mailbox);
        }
    }
    found
}

/// Splits at commas and semicolons that are outside quotes, comments and angle brackets; the name
/// of a group (up to its colon) is dropped. Most callers want the first item alone: the others are
/// not looked for before they are asked for.
fn split_items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let value = rest.take()?;
        let (mut start, mut scan) = (0, Scanner::default());
        // Kept, not looked for at each colon: a field of colons would take time by the square of
        // its length.
        let mut at_seen = false;
        for (i, &byte) in value.iter().enumerate() {
            at_seen |= byte == b'@';
            if !scan.plain(byte) {
                continue;
            }
            match byte {
                b',' | b';' if scan.angle == 0 => {
                    rest = value.get(i + 1..);
                    return value.get(start..i);
                }
                b':' if scan.angle == 0 && !at_seen => start = i + 1,
                _ => {}
            }
        }
        value.get(start..)
    })
}

/// Tracks quotes, comments, escapes and angle brackets.
#[derive(Default)]
struct Scanner {
    quoted: bool,
    escaped: bool,
    comment: u32,
    angle: u32,
}

impl Scanner {
    /// Takes the next byte; true if it stands outside quotes and comments.
    fn plain(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.escaped) {
            return false;
        }
        match byte {
            b'\\' if self.quoted || self.comment > 0 => self.escaped = true,
            b'"' if self.comment == 0 => self.quoted = !self.quoted,
            b'(' if !self.quoted => self.comment += 1,
            b')' if !self.quoted && self.comment > 0 => self.comment -= 1,
            _ if self.quoted || self.comment > 0 => {}
            _ => {
                match byte {
                    b'<' => self.angle = 1,
                    b'>' => self.angle = 0,
                    _ => {}
                }
                return true;
            }
        }
        false
    }
}

/// Reads one mailbox: `Name <address>`, `address (Name)` or a bare address.
fn mailbox(item: &[u8]) -> Mailbox {
    let mut scan = Scanner::default();
    let (mut open, mut close) = (None, None);
    for (i, &byte) in item.iter().enumerate() {
        if scan.plain(byte) {
            match byte {
                b'<' => (open, close) = (Some(i), None),
                b'>' if open.is_some() && close.is_none() => close = Some(i),
                _ => {}
            }
        }
    }
    // An unbalanced quote or comment hides the brackets: take the last pair then. In balanced ones
    // a pair is text: `service@bank.example (<x@evil.example>)` is the bank's.
    let unbalanced = scan.quoted || scan.comment > 0;
    let open = open.or_else(|| memchr::memrchr(b'<', item).filter(|_| unbalanced));
    if let Some(open) = open {
        let end = close.or_else(|| memchr::memrchr(b'>', item).filter(|&c| c > open));
        let address = &item[open + 1..end.unwrap_or(item.len())];
        return Mailbox { name: display_name(&item[..open]), address: text(address.trim_ascii()) };
    }
    let (bare, comment) = strip_comment(item);
    if memchr::memchr(b'@', &bare).is_some() {
        Mailbox { name: display_name(&comment), address: text(bare.trim_ascii()) }
    } else {
        Mailbox { name: display_name(item), address: String::new() }
    }
}

/// Takes comments out; returns the rest and the content of the comments.
fn strip_comment(item: &[u8]) -> (Cow<'_, [u8]>, Vec<u8>) {
    if memchr::memchr(b'(', item).is_none() {
        return (Cow::Borrowed(item), Vec::new());
    }
    let (mut bare, mut comment, mut depth) = (Vec::new(), Vec::new(), 0u32);
    for &byte in item {
        match byte {
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            _ if depth > 0 => comment.push(byte),
            _ => bare.push(byte),
        }
    }
    (Cow::Owned(bare), comment)
}

fn display_name(bytes: &[u8]) -> String {
    let bytes = bytes.trim_ascii();
    let inner = match bytes {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    };
    let unescaped: Vec<u8> = if inner.contains(&b'\\') {
        let mut escaped = false;
        inner
            .iter()
            .copied()
            .filter(|&b| {
                escaped = b == b'\\' && !escaped;
                !escaped
            })
            .collect()
    } else {
        inner.to_vec()
    };
    decode_words(&unescaped).0.trim().to_owned()
}

fn text(bytes: &[u8]) -> String {
    crate::charset::guess(bytes).into_owned()
}

/// A domain in ASCII and lower case (RFC 5890), without a final dot; none if it cannot be written
/// so.
pub fn ascii_domain(domain: &str) -> Option<String> {
    let domain = domain.trim().trim_end_matches('.');
    if domain.is_ascii() {
        return Some(domain.to_ascii_lowercase());
    }
    let ascii = idna::domain_to_ascii_cow(domain.as_bytes(), idna::AsciiDenyList::EMPTY).ok()?;
    Some(ascii.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Vec<(String, String)> {
        mailboxes(value.as_bytes(), 100).into_iter().map(|m| (m.name, m.address)).collect()
    }

    fn pair(name: &str, address: &str) -> (String, String) {
        (name.into(), address.into())
    }

    #[test]
    fn shapes_of_mailboxes() {
        assert_eq!(read("a@b.c"), [pair("", "a@b.c")]);
        assert_eq!(read("\"Doe, J\" <j@d.e>, x@y"), [pair("Doe, J", "j@d.e"), pair("", "x@y")]);
        assert_eq!(read("j@d.e (Jo)"), [pair("Jo", "j@d.e")]);
        assert_eq!(read("Team: a@b, c@d;"), [pair("", "a@b"), pair("", "c@d")]);
        assert_eq!(read("=?utf-8?q?J=C3=A9?= <j@d>"), [pair("Jé", "j@d")]);
        assert_eq!(read("\"broken <j@d.e>"), [pair("\"broken", "j@d.e")]);
        assert_eq!(read("just words"), [pair("just words", "")]);
        let commented = pair("<x@evil.example>", "service@bank.example");
        assert_eq!(read("service@bank.example (<x@evil.example>)"), [commented]);
        assert_eq!(read("a@b:c@d:e, f: g@h"), [pair("", "a@b:c@d:e"), pair("", "g@h")]);
        assert_eq!(read(""), []);
    }
}
