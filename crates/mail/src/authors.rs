//! The authors of a message: the From fields (RFC 5322 section 3.6.2) in every interpretation
//! that mail programs make of them.
//!
//! A well-formed field has one reading. A malformed one (`<ann@a.example> <bob@b.example>`, quotes
//! or comments without end, encoded words for an address) names whom the program that reads it
//! says: who trusts an author, or asks a domain about it, has to take every one of them.

use std::collections::BTreeSet;

use crate::address::{Mailbox, ascii_domain, mailboxes};
use crate::header::{decode_words, find_encoded_word};

/// Bytes of one address that are taken, on each side of its `@` (RFC 5321 section 4.5.3.1.2: 255
/// octets).
const SIDE_BYTES_MAX: usize = 255;

/// Bytes of one field that are read.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The authors that the From fields of a message name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authors {
    /// Mailboxes in the usual reading, of all From fields, in order. An address may be empty or
    /// broken.
    pub mailboxes: Vec<Mailbox>,
    /// Addresses that are in none of `mailboxes`, and that some program may take for the author's;
    /// in lower case. Empty if the fields are well-formed.
    pub others: BTreeSet<String>,
    /// There were more authors than were requested, a field over 64 KB, or an address that no
    /// domain can be read from.
    pub incomplete: bool,
}

impl Authors {
    /// The authors that these From fields name, given as unfolded values; at most `max` mailboxes,
    /// and as many other addresses.
    pub fn read<'v>(values: impl IntoIterator<Item = &'v [u8]>, max: usize) -> Self {
        let mut authors = Authors::default();
        for value in values {
            authors.add(value, max);
        }
        let known: BTreeSet<String> =
            authors.mailboxes.iter().map(|m| m.address.to_lowercase()).collect();
        authors.others.retain(|address| !known.contains(address));
        authors.incomplete |= authors.others.len() > max;
        while authors.others.len() > max {
            authors.others.pop_last();
        }
        authors
    }

    fn add(&mut self, value: &[u8], max: usize) {
        self.incomplete |= value.len() > VALUE_BYTES_MAX;
        let value = value.get(..VALUE_BYTES_MAX).unwrap_or(value);
        // One more than there is room for, so that a field with too many is known.
        let room = max.saturating_sub(self.mailboxes.len());
        let mut found = mailboxes(value, room.saturating_add(1));
        self.incomplete |= found.len() > room;
        found.truncate(room);
        let is_broken = |m: &Mailbox| m.address.contains('@') && domain(m.domain()).is_none();
        if !is_well_formed(value) || found.iter().any(is_broken) {
            let interpretations = interpretations(value);
            self.incomplete |= interpretations.is_empty() && value.contains(&b'@');
            // One more than are kept, beside those that are in `mailboxes`.
            self.others.extend(interpretations.into_iter().take(2 * max + 1));
        }
        self.mailboxes.append(&mut found);
    }

    /// Mail programs may show different authors, or others than those that are read here.
    pub fn is_ambiguous(&self) -> bool {
        self.incomplete || !self.others.is_empty()
    }

    /// Every address that some program may take for an author's.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        let usual = self.mailboxes.iter().map(|m| m.address.as_str()).filter(|a| !a.is_empty());
        usual.chain(self.others.iter().map(String::as_str))
    }

    /// The domains of these addresses in ASCII and lower case, each once, in order. Those that are
    /// no domain are left out.
    pub fn domains(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let domains = self.addresses().filter_map(|address| domain(address.rsplit_once('@')?.1));
        domains.filter(|domain| known.insert(domain.clone())).collect()
    }
}

/// A domain as the DNS has it; none if it is none. Address literals are domains here.
fn domain(text: &str) -> Option<String> {
    let ascii = ascii_domain(text)?;
    let is_label = |label: &str| {
        let in_label = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(in_label)
    };
    let is_literal = ascii.starts_with('[') && ascii.ends_with(']');
    (ascii.len() <= SIDE_BYTES_MAX && (is_literal || ascii.split('.').all(is_label)))
        .then_some(ascii)
}

/// Whether all programs read the field alike: mailboxes as `words <address>` or as an address
/// alone, with nothing in them that could be another address.
fn is_well_formed(value: &[u8]) -> bool {
    let mut item = MailboxState::default();
    // Where the mailbox begins, and where a comment behind its address does.
    let (mut start, mut comment_start) = (0, None);
    let (mut quoted, mut escaped, mut comment) = (false, false, 0u32);
    for (at, &byte) in value.iter().enumerate() {
        // Escapes stand in names by ISO-2022 that are not encoded as they should be.
        if byte < b' ' && !matches!(byte, b'\t' | 0x1b) || byte == 127 {
            return false;
        }
        if std::mem::take(&mut escaped) {
            continue;
        }
        match byte {
            b'\\' if quoted || comment > 0 => escaped = true,
            b'"' if comment == 0 => {
                quoted = !quoted;
                item.quotes_in_brackets |= item.in_brackets;
            }
            b'(' if !quoted && item.in_brackets => return false,
            b'(' if !quoted => {
                if comment == 0 && item.at > 0 {
                    comment_start.get_or_insert(at);
                }
                (comment, item.comment_behind_at) = (comment + 1, item.at > 0);
            }
            b')' if !quoted && comment == 0 => return false,
            b')' if !quoted => comment -= 1,
            // Whoever looks for brackets alone would find these.
            b'<' if comment > 0 => return false,
            b'@' if quoted => item.at_in_quotes = true,
            _ if quoted || comment > 0 => {}
            b',' | b';' if !item.in_brackets => {
                let end = comment_start.take().unwrap_or(at);
                if !std::mem::take(&mut item).is_well_formed(&value[start..end]) {
                    return false;
                }
                start = at + 1;
            }
            b':' if !item.in_brackets && item.brackets == 0 && item.at == 0 => {
                item = MailboxState::default();
            }
            _ if !item.take(byte) => return false,
            _ => {}
        }
    }
    let end = comment_start.unwrap_or(value.len());
    // An encoded word may hold the sign that ends a mailbox.
    let split = start > 0 && !value.contains(&b'<') && hides_address(&value[..end]);
    !quoted && comment == 0 && item.is_well_formed(&value[start..end]) && !split
}

/// Encoded words of a mailbox without brackets show an address, or a part of one. In brackets
/// encoded words are malformed, and before them they are a name.
fn hides_address(mailbox: &[u8]) -> bool {
    if find_encoded_word(mailbox).is_none() {
        return false;
    }
    let plain = mailbox.iter().filter(|b| **b == b'@').count();
    let decoded = decode_words(mailbox).0;
    decoded.contains('<') || decoded.bytes().filter(|b| *b == b'@').count() > plain
}

/// What was seen of one mailbox, outside of quotes and comments.
#[derive(Default)]
struct MailboxState {
    in_brackets: bool,
    brackets: u32,
    /// `@` outside of brackets, and in them.
    at: u32,
    at_in_brackets: u32,
    at_in_quotes: bool,
    quotes_in_brackets: bool,
    comment_behind_at: bool,
}

impl MailboxState {
    /// Takes a byte; false if the mailbox cannot be well-formed with it.
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            b' ' | b'\t' if !self.in_brackets => {}
            _ if self.comment_behind_at && self.brackets == 0 => return false,
            b'<' if self.in_brackets => return false,
            b'<' => {
                self.in_brackets = true;
                self.brackets += 1;
            }
            b'>' if !self.in_brackets => return false,
            b'>' => self.in_brackets = false,
            b'@' if self.in_brackets => self.at_in_brackets += 1,
            b'@' => self.at += 1,
            // A route, several addresses, encoded words or white space in brackets.
            b' ' | b'\t' | b',' | b';' | b':' | b'=' | b'?' | b'[' if self.in_brackets => {
                return false;
            }
            _ => {}
        }
        true
    }

    /// Whether the mailbox is, whose bytes without a comment behind its address are these.
    fn is_well_formed(&self, bytes: &[u8]) -> bool {
        match self.brackets {
            0 => !self.at_in_quotes && self.at <= 1 && !hides_address(bytes),
            1 => {
                let quoted = self.quotes_in_brackets && self.at_in_quotes;
                !self.in_brackets && self.at == 0 && self.at_in_brackets <= 1 && !quoted
            }
            _ => false,
        }
    }
}

/// Every address in the field for a program that looks for `@`, with and without comments, with and
/// without encoded words decoded; in lower case.
fn interpretations(value: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let plain = crate::charset::guess(value);
    let decoded = decode_words(value).0;
    for text in [&*plain, &*decoded] {
        add_addresses(&without_gaps(text, false), &mut found);
        add_addresses(&without_gaps(text, true), &mut found);
    }
    found
}

/// The text without control characters and without white space around dots and `@` (RFC 5322
/// section 4.4 lets it stand there); with or without what is in parentheses.
fn without_gaps(text: &str, comments: bool) -> String {
    let (mut out, mut gap, mut depth) = (String::with_capacity(text.len()), false, 0u32);
    for c in text.chars() {
        match c {
            '(' if !comments => depth += 1,
            ')' if !comments && depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            ' ' | '\t' => gap = true,
            _ if c.is_control() => {}
            _ => {
                let joins = |c: char| matches!(c, '.' | '@' | '\u{3002}' | '\u{ff0e}' | '\u{ff61}');
                if gap && !joins(c) && !out.ends_with(joins) {
                    out.push(' ');
                }
                gap = false;
                out.push(c);
            }
        }
    }
    out
}

fn add_addresses(text: &str, found: &mut BTreeSet<String>) {
    let ends = |c: char| {
        c.is_ascii() && !(c.is_ascii_alphanumeric() || ".-_!#$%&'*+/=?^`{|}~".contains(c))
    };
    for (at, _) in text.match_indices('@') {
        let (before, after) = (&text[..at], &text[at + 1..]);
        let local = before.rfind(ends).map_or(before, |end| &before[end + 1..]);
        // A literal that is none: what is in its brackets may be taken for a domain.
        let after = after.strip_prefix('[').unwrap_or(after);
        let host = after.find(|c| ends(c) || "!#$%&'*+/=?^`{|}~".contains(c));
        let host = host.map_or(after, |end| &after[..end]).trim_matches('.');
        if local.len() > SIDE_BYTES_MAX || host.len() > SIDE_BYTES_MAX {
            continue;
        }
        if let Some(host) = domain(host) {
            found.insert(format!("{}@{host}", local.to_lowercase()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Authors {
        Authors::read([value.as_bytes()], 64)
    }

    #[test]
    fn a_well_formed_field_has_one_reading() {
        for (value, domains) in [
            ("ann@a.example", &["a.example"][..]),
            ("Ann <ann@a.example>", &["a.example"]),
            ("\"ann@b.example\" <ann@a.example>", &["a.example"]),
            ("\"Ann <ann@b.example>\" <ann@a.example>", &["a.example"]),
            ("=?utf-8?q?ann=40b.example?= <ann@a.example>", &["a.example"]),
            ("ann@a.example (Ann)", &["a.example"]),
            ("ann@a.example (ann@b.example)", &["a.example"]),
            ("=?utf-8?q?J=C3=BCrgen?= <ann@a.example>", &["a.example"]),
            ("=?utf-8?q?J=C3=BCrgen?= ann@a.example", &["a.example"]),
            ("ann@a.example (=?utf-8?q?J=C3=BCrgen?=)", &["a.example"]),
            ("ann@a.example (=?utf-8?q?ann=40b.example?=)", &["a.example"]),
            (
                "=?utf-8?q?ann=40c.example?= <ann@a.example>, =?utf-8?q?Bob?= bob@b.example",
                &["a.example", "b.example"],
            ),
            ("Ann <ann@A.example.>, bob@b.example", &["a.example", "b.example"]),
            ("friends: ann@a.example, Bob <bob@b.example>;", &["a.example", "b.example"]),
            ("Ann <ann@b\u{fc}cher.example>", &["xn--bcher-kva.example"]),
            ("<\"ann b\"@a.example>", &["a.example"]),
            ("Ann", &[]),
            ("", &[]),
        ] {
            let authors = read(value);
            assert_eq!(authors.domains(), domains, "{value}");
            assert!(authors.others.is_empty(), "{value}: {authors:?}");
            assert!(!authors.incomplete, "{value}");
        }
    }

    #[test]
    fn a_malformed_field_has_every_reading() {
        for value in [
            "<service@bank.example> <x@evil.example>",
            "<x@evil.example> <service@bank.example>",
            "service@bank.example <x@evil.example>",
            "service@bank.example (<x@evil.example>)",
            "service@bank.example (<x@evil.example>",
            "x@evil.example (\\) <service@bank.example>",
            "\" <service@bank.example>, <x@evil.example>",
            "x@evil.example \"<service@bank.example>\"",
            "\"<service@bank.example>\" x@evil.example",
            "\"service@bank.example\" x@evil.example",
            "<bank.example,x@evil.example> service@bank.example",
            "<service@bank.example,x@evil.example>",
            "<service@bank.example x@evil.example>",
            "<service@bank.example@evil.example>",
            "<@evil.example:service@bank.example>",
            "<\"service@bank.example\"@evil.example>",
            "x@evil.example <service@bank .example>",
            "x@evil.example, <service@bank.(c)example>",
            "x@evil.example <service@=?utf-8?q?bank.example?=>",
            "x@evil.example <service@[bank.example]>",
            "x@evil.example <service@bank.example:25>",
            "x@evil.example, <service@bank.example\u{1}>",
            "x@evil.example, <service@\u{1}bank.example>",
            "x@evil.example <mailto:service@bank.example>",
            "x@evil.example <service@bank\u{3002}example>",
            "=?utf-8?q?service=40bank.example?= x@evil.example",
            "=?utf-8?q?service=40bank.example?=, x@evil.example",
        ] {
            let domains = read(value).domains();
            for domain in ["bank.example", "evil.example"] {
                assert!(domains.iter().any(|d| d == domain), "{value:?}: {domains:?}");
            }
        }
        for value in [
            "=?utf-8?q?service=40bank.example?=",
            "\"service@bank.example\"",
            "service@bank.example\u{1}",
            "Bank <service@bank.example",
            "Bank service@bank.example>",
            "service@bank.example <>",
            "<service@bank.ex\u{ad}ample>",
            "<service@bank.example\u{200b}>",
            "<service@bank.example..>",
            "service@\u{ff42}ank.example",
        ] {
            assert_eq!(read(value).domains(), ["bank.example"], "{value:?}");
        }
    }

    #[test]
    fn an_encoded_word_before_the_at_hides_no_address() {
        for (value, hidden) in [
            // As S. Haddouche published it ("Mailsploit", 2017): the address that is shown ends
            // before the NUL.
            (
                "=?utf-8?b?cG90dXNAd2hpdGVob3VzZS5nb3Y=?==?utf-8?Q?=00?=\
                 =?utf-8?b?KHBvdHVzQHdoaXRlaG91c2UuZ292KQ==?=@evil.example",
                "whitehouse.gov",
            ),
            ("=?utf-8?b?c2VydmljZUBwYXlwYWwuY29t?=@evil.example", "paypal.com"),
            ("=?utf-8?b?c2VydmljZUBwYXlwYWwuY29tAA==?=@evil.example", "paypal.com"),
            ("=?utf-8?b?c2VydmljZUBwYXlwYWwuY29tCg==?=@evil.example", "paypal.com"),
            ("=?utf-8?q?service=40paypal.com=00?=@evil.example", "paypal.com"),
            ("service=?utf-8?q?=40paypal.com=0a?=@evil.example", "paypal.com"),
            ("=?utf-8?q?service=40paypal.com,?=@evil.example", "paypal.com"),
            ("=?utf-8?q?service=40paypal.com:?=@evil.example", "paypal.com"),
            ("Ann <ann@a.example>, =?utf-8?q?service=40paypal.com?=@evil.example", "paypal.com"),
        ] {
            for field in [value.to_owned(), format!("<{value}>")] {
                let authors = read(&field);
                assert!(authors.is_ambiguous(), "{field}: {authors:?}");
                let domains = authors.domains();
                assert!(domains.iter().any(|d| d == hidden), "{field}: {domains:?}");
                assert!(domains.iter().any(|d| d == "evil.example"), "{field}: {domains:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for value in ["ann@", "<@>", "<ann@:>,<bob@!!!>"] {
            assert_eq!(read(value).domains(), [""; 0], "{value}");
        }
        assert!(read("ann@!!!").domains().is_empty());
        let many = "a@b.example, ".repeat(65);
        assert!(read(&many).incomplete);
        assert_eq!(read(&many).mailboxes.len(), 64);
    }
}
