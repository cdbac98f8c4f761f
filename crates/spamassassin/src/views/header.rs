//! Header values as `header` rules select them: `Name:modifier:...` and the pseudo headers (`ALL`,
//! `ToCc`, `MESSAGEID`, `EnvelopeFrom`, relays).

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;

use super::mime::{FIELDS_MAX, Field, Node};
use super::perl::{self, is_space};
use super::relays::ip;
use super::{Views, address, header_text};
use crate::boundaries::is_host_name;
use gauntlet_rules::rule::HeaderSelector;

/// Most bytes of the `ALL` view.
const ALL_BYTES_MAX: usize = 65536;
/// Most bytes of a host name before its top-level domain.
const HOST_BYTES_MAX: usize = 251;

/// A value, borrowed if it is part of the message.
type Value<'v> = Cow<'v, [u8]>;

/// Which part of a field a rule reads: `:raw`, `:addr`, `:name` and so on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    raw: bool,
    address: bool,
    name: bool,
    host: bool,
    domain: bool,
    ip: bool,
    reversed: bool,
    first: bool,
    last: bool,
}

impl Wanted {
    pub(super) const FIRST_ADDRESS: Wanted = Wanted {
        raw: false,
        address: true,
        name: false,
        host: false,
        domain: false,
        ip: false,
        reversed: false,
        first: true,
        last: false,
    };

    fn of(selector: &HeaderSelector) -> Self {
        let mut wanted = Wanted::default();
        selector.modifiers.iter().for_each(|modifier| wanted.add(modifier));
        wanted
    }

    /// The field's name and the modifiers of a selector as it is written.
    pub(crate) fn parse(selector: &str) -> (&str, Self) {
        let mut wanted = Wanted::default();
        let selector = selector.strip_suffix(':').unwrap_or(selector);
        let name = field_name(selector);
        if let Some(modifiers) = selector.get(name.len() + 1..) {
            modifiers.split(':').for_each(|modifier| wanted.add(modifier));
        }
        (name, wanted)
    }

    fn add(&mut self, modifier: &str) {
        let is = |name: &str| modifier.eq_ignore_ascii_case(name);
        self.raw |= is("raw");
        self.address |= is("addr");
        self.name |= is("name");
        self.host |= is("host") || is("domain");
        self.domain |= is("domain");
        self.ip |= is("ip") || is("revip");
        self.reversed |= is("revip");
        self.first |= is("first");
        self.last |= is("last");
    }

    /// Whether a part of the field is extracted.
    pub(crate) fn is_extract(&self) -> bool {
        self.address || self.name || self.host || self.ip
    }
}

/// The name at the beginning of a selector, before its modifiers.
pub(crate) fn field_name(selector: &str) -> &str {
    // Selectors are so short that memchr is no faster than a loop.
    let end = selector.bytes().position(|b| b == b':');
    &selector[..end.unwrap_or(selector.len())]
}

/// A raw value unfolded: a line end and the white space after it become a space.
fn unfolded(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let blank = rest[end + 1..].iter().take_while(|&&b| is_space(b)).count();
        let (line, after) = rest.split_at(end + 1);
        if blank == 0 {
            out.extend_from_slice(line);
        } else {
            out.extend_from_slice(line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]));
            out.push(b' ');
        }
        rest = &after[blank..];
    }
    out.extend_from_slice(rest);
    out
}

/// All values that a selector names, in order.
pub(super) fn values<'v>(views: &'v Views<'_>, selector: &HeaderSelector) -> Vec<Value<'v>> {
    values_of(views, &selector.name, Wanted::of(selector))
}

/// The same for a name and modifiers.
pub(super) fn values_of<'v>(views: &'v Views<'_>, name: &str, wanted: Wanted) -> Vec<Value<'v>> {
    let mut found = selected(views, name, &wanted);
    if name.starts_with("ALL") && found.1 {
        return found.0;
    }
    let values = &mut found.0;
    if wanted.first {
        values.truncate(1);
    } else if wanted.last {
        values.drain(..values.len().saturating_sub(1));
    }
    if wanted.address || wanted.name {
        *values = addresses(views, values, &wanted);
    }
    if wanted.host {
        *values = hosts(views, values, &wanted);
    } else if wanted.ip {
        *values = addresses_of_hosts(values, wanted.reversed);
    }
    found.0
}

/// The names of a message's fields, by a hash of them: most fields that rules name are in no
/// message.
#[derive(Debug)]
pub(super) struct Names {
    there: [bool; 256],
    /// The hash of each field's name, in order.
    hashes: Vec<u8>,
}

impl Names {
    pub(super) fn of(fields: &[Field<'_>]) -> Self {
        let mut there = [false; 256];
        let hashes: Vec<u8> =
            fields.iter().map(|field| gauntlet_rules::document::name_hash(&field.name)).collect();
        hashes.iter().for_each(|hash| there[usize::from(*hash)] = true);
        Names { there, hashes }
    }

    /// Whether a field may have a name of this hash.
    pub(super) fn may_have(&self, hash: u8) -> bool {
        self.there[usize::from(hash)]
    }

    /// Indexes of the fields that may have a name of this hash.
    pub(super) fn places(&self, hash: u8) -> impl DoubleEndedIterator<Item = usize> {
        let hashes = if self.may_have(hash) { self.hashes.as_slice() } else { &[] };
        memchr::memchr_iter(hash, hashes)
    }
}

/// The values before modifiers are applied, and whether they are final.
fn selected<'v>(views: &'v Views<'_>, name: &str, wanted: &Wanted) -> (Vec<Value<'v>>, bool) {
    let text = |text: &'v [u8]| vec![Cow::Borrowed(text)];
    if let Some((start, end)) = relay_range(views, name) {
        let all = if wanted.raw { raw_fields(views) } else { decoded_lines(views) };
        return (between_relays(all, start, end), true);
    }
    match name {
        "ALL" if wanted.raw => return (raw_fields(views), true),
        "ALL" => return (all_fields(views), true),
        "MESSAGEID" => {
            let fields =
                ["X-Message-Id", "Resent-Message-Id", "X-Original-Message-ID", "Message-Id"];
            return (fields.iter().flat_map(|f| lines_of(views, f, wanted.raw)).collect(), false);
        }
        _ => {}
    }
    if gauntlet_rules::document::is_field_name(name) {
        return (plain(views, name, wanted), false);
    }
    if let Some(relays) = relays_text(views, name) {
        return (text(relays), false);
    }
    let values = match name.to_ascii_lowercase().as_str() {
        "envelopefrom" => views.envelope_from().map(text).unwrap_or_default(),
        "tocc" => ["To", "Cc"].iter().flat_map(|f| lines_of(views, f, wanted.raw)).collect(),
        _ => {
            let values = plain(views, name, wanted);
            if values.is_empty() {
                views.metadata(name).map(Cow::Owned).into_iter().collect()
            } else {
                values
            }
        }
    };
    (values, false)
}

/// The fields of a name.
fn plain<'v>(views: &'v Views<'_>, name: &str, wanted: &Wanted) -> Vec<Value<'v>> {
    let fields = views.fields(name);
    if wanted.raw || wanted.address || wanted.name {
        fields.map(|f| Cow::Borrowed(f.raw())).collect()
    } else {
        fields.map(|f| Cow::Borrowed(f.line())).collect()
    }
}

/// Values with line ends; raw ones unfolded.
fn lines_of<'v>(views: &'v Views<'_>, name: &str, raw: bool) -> Vec<Value<'v>> {
    let fields = views.fields(name);
    let value = |f: &'v Field<'_>| match raw {
        true => Cow::Owned(unfolded(f.raw())),
        false => Cow::Borrowed(f.line()),
    };
    fields.map(value).collect()
}

/// `Name: value` of every field.
fn all_fields<'v>(views: &'v Views<'_>) -> Vec<Value<'v>> {
    fields_text(views.mime().root(), false).into_iter().map(Cow::Owned).collect()
}

/// The same in one text.
pub(super) fn all_fields_text(node: &Node<'_>) -> Vec<u8> {
    let length = |f: &Field<'_>| f.name.len() + 2 + f.line().len();
    let bytes = node.fields.iter().map(length).sum();
    if bytes > ALL_BYTES_MAX {
        return fields_text(node, false).concat();
    }
    let mut text = Vec::with_capacity(bytes);
    for field in &node.fields {
        text.extend_from_slice(&field.name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(field.line());
    }
    text
}

/// `Name: value` of every field of a part. Beyond the limit fields are left out, name by name in
/// the order of first appearance.
pub(super) fn fields_text(node: &Node<'_>, raw: bool) -> Vec<Vec<u8>> {
    let text = |f: &Field<'_>| match raw {
        true => [&f.name[..], b": ", &unfolded(f.raw())].concat(),
        false => [&f.name[..], b": ", f.line()].concat(),
    };
    let all: Vec<Vec<u8>> = node.fields.iter().map(text).collect();
    if all.iter().map(Vec::len).sum::<usize>() <= ALL_BYTES_MAX {
        return all;
    }
    let mut keep = vec![false; all.len()];
    let (mut size, mut done) = (0, vec![false; all.len()]);
    'names: for i in 0..all.len() {
        if done[i] {
            continue;
        }
        for j in i..all.len() {
            if !done[j] && node.fields[j].name.eq_ignore_ascii_case(&node.fields[i].name) {
                done[j] = true;
                size += all[j].len();
                if size > ALL_BYTES_MAX {
                    break 'names;
                }
                keep[j] = true;
            }
        }
    }
    all.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(text, _)| text).collect()
}

/// The raw header, cut into fields with their continuation lines.
fn raw_fields<'v>(views: &'v Views<'_>) -> Vec<Value<'v>> {
    let header = views.mime().pristine_header();
    let places = raw_places(header);
    places.filter_map(|place| header.get(place)).map(Cow::Borrowed).collect()
}

/// The same in one text.
pub(super) fn raw_fields_text(header: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(header.len());
    for field in raw_places(header).filter_map(|place| header.get(place)) {
        text.extend_from_slice(field);
    }
    text
}

/// Where the fields of a header are.
fn raw_places(header: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let fields = std::iter::from_fn(move || {
        while let Some(rest) = header.get(start..).filter(|rest| !rest.is_empty()) {
            let mut end = 1;
            let found = loop {
                let Some(next) = rest.get(end..).and_then(|t| memchr::memchr(b'\n', t)) else {
                    break None;
                };
                end += next + 1;
                if !matches!(rest.get(end), Some(b' ' | b'\t')) {
                    break Some(end);
                }
            };
            let begins = !matches!(rest[0], b' ' | b'\t');
            if let Some(end) = found.filter(|_| begins) {
                start += end;
                return Some(start - end..start);
            }
            start += memchr::memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
        }
        None
    });
    fields.take(FIELDS_MAX)
}

fn decoded_lines<'v>(views: &'v Views<'_>) -> Vec<Value<'v>> {
    perl::lines(views.all_fields()).map(Cow::Borrowed).collect()
}

/// The relays of a pseudo header, as text; `None` for other names.
pub(super) fn relays_text<'v>(views: &'v Views<'_>, name: &str) -> Option<&'v [u8]> {
    let (head, which) = name.split_at_checked("X-Spam-Relays-".len())?;
    if !head.eq_ignore_ascii_case("X-Spam-Relays-") {
        return None;
    }
    let relays = views.relays();
    let texts = [
        ("Trusted", &relays.trusted_text),
        ("Untrusted", &relays.untrusted_text),
        ("Internal", &relays.internal_text),
        ("External", &relays.external_text),
    ];
    let found = texts.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(which));
    found.map(|(_, text)| text.as_slice())
}

/// The range of Received fields of a pseudo header's lines; `None` for other names.
fn relay_range(views: &Views<'_>, name: &str) -> Option<(Option<i32>, Option<i32>)> {
    let relays = || views.relays();
    match name.strip_prefix("ALL-")? {
        "TRUSTED" => Some((None, Some(relays().last_trusted_index + 1))),
        "INTERNAL" => Some((None, Some(relays().last_internal_index + 1))),
        "UNTRUSTED" => Some((Some(relays().last_trusted_index + 1), None)),
        "EXTERNAL" => Some((Some(relays().last_internal_index + 1), None)),
        _ => None,
    }
}

/// The decoded lines of such a pseudo header in one text, which is a part of `ALL`; `None` for
/// other names.
pub(super) fn relay_lines<'v>(views: &'v Views<'_>, name: &str) -> Option<&'v [u8]> {
    let (start, end) = relay_range(views, name)?;
    Some(text_between_relays(views.all_fields(), start, end))
}

/// The result of [`between_relays`] for a text's lines, in one.
fn text_between_relays(text: &[u8], start: Option<i32>, end: Option<i32>) -> &[u8] {
    let (mut index, mut from, mut to) = (-1, 0, 0);
    let mut line_start = 0;
    for line in perl::lines(text) {
        let line_end = line_start + line.len();
        index += i32::from(perl::starts_no_case(line, b"received:"));
        if end.is_some_and(|end| end < index || end < 0) {
            break;
        }
        if start.is_none_or(|start| start <= index) {
            from = if to == 0 { line_start } else { from };
            to = line_end;
        }
        if end == Some(index) {
            break;
        }
        line_start = line_end;
    }
    &text[from..to]
}

/// The lines from one Received field to another, both included.
fn between_relays(lines: Vec<Value<'_>>, start: Option<i32>, end: Option<i32>) -> Vec<Value<'_>> {
    if end.is_some_and(|e| e < 0) {
        return Vec::new();
    }
    let mut index = -1;
    let mut out = Vec::new();
    for line in lines {
        index += i32::from(perl::starts_no_case(&line, b"received:"));
        if start.is_none_or(|s| s <= index) && end.is_none_or(|e| index < e) {
            out.push(line);
        } else if end == Some(index) {
            out.push(line);
            break;
        }
    }
    out
}

fn addresses<'v>(views: &'v Views<'_>, values: &[Value<'v>], wanted: &Wanted) -> Vec<Value<'v>> {
    let mut out = Vec::new();
    for value in values {
        let kept = match value {
            Cow::Borrowed(value) => views.addresses.of(value),
            Cow::Owned(value) => Cow::Owned(address::parse(value)),
        };
        match kept {
            Cow::Borrowed(entries) if wanted.address => {
                let found = entries.iter().filter_map(|entry| entry.address.as_deref());
                out.extend(found.map(Cow::Borrowed));
            }
            Cow::Owned(entries) if wanted.address => {
                out.extend(entries.into_iter().filter_map(|entry| entry.address).map(Cow::Owned));
            }
            entries => {
                let phrases = entries.iter().filter_map(|entry| entry.phrase.as_deref());
                let name = |phrase: &[u8]| match wanted.raw {
                    true => phrase.to_vec(),
                    false => display_name(phrase),
                };
                out.extend(phrases.map(|phrase| Cow::Owned(name(phrase))));
            }
        }
    }
    out
}

/// A display name decoded, white space squeezed, single quotes around it removed.
fn display_name(phrase: &[u8]) -> Vec<u8> {
    let decoded = header_text::decode(phrase, b"");
    let words: Vec<&[u8]> = decoded.split(|&b| is_space(b)).filter(|w| !w.is_empty()).collect();
    if words.is_empty() {
        return decoded;
    }
    let name = words.join(&b' ');
    match name.strip_prefix(b"'").and_then(|n| n.strip_suffix(b"'")) {
        Some(inner) => inner.to_vec(),
        None => name,
    }
}

fn hosts<'v>(views: &Views<'_>, values: &[Value<'v>], wanted: &Wanted) -> Vec<Value<'v>> {
    let mut out = Vec::new();
    for value in values {
        let host = if wanted.address { after_at(value) } else { host_in(views, value) };
        let Some(host) = host.filter(|h| !h.is_empty() && *h != b"0") else { continue };
        out.push(Cow::Owned(if wanted.domain {
            views.boundaries().trim(host)
        } else {
            host.to_vec()
        }));
    }
    out
}

/// Non-space after the last `@` of a line that has some.
fn after_at(value: &[u8]) -> Option<&[u8]> {
    memchr::memrchr_iter(b'@', value).find_map(|at| {
        let rest = &value[at + 1..];
        let length = rest.iter().take_while(|&&b| !is_space(b)).count();
        (length > 0).then(|| &rest[..length])
    })
}

/// The first name with a known top-level domain: after the last `@` before one, else anywhere.
fn host_in<'t>(views: &Views<'_>, value: &'t [u8]) -> Option<&'t [u8]> {
    let valid = |host: &&[u8]| is_host_name(&host.to_ascii_lowercase());
    let after_at = memchr::memrchr_iter(b'@', value).find_map(|at| host_at(views, value, at + 1));
    if let Some(host) = after_at.filter(valid) {
        return Some(host);
    }
    let mut i = 0;
    while i < value.len() {
        match host_at(views, value, i) {
            Some(host) if valid(&host) => return Some(host),
            Some(host) => i += host.len(),
            None => i += 1,
        }
    }
    None
}

/// The longest name with a known top-level domain at `i`.
fn host_at<'t>(views: &Views<'_>, value: &'t [u8], i: usize) -> Option<&'t [u8]> {
    let joins = |b: &u8| matches!(b, b'.' | b'_' | b'-');
    if is_space(*value.get(i)?) || i > 0 && joins(&value[i - 1]) {
        return None;
    }
    let rest = &value[i..];
    let run = rest.iter().take_while(|&&b| !is_space(b)).count();
    memchr::memrchr_iter(b'.', &rest[..run])
        .filter(|&dot| (1..=HOST_BYTES_MAX).contains(&dot))
        .find_map(|dot| {
            let label = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
            let length = rest[dot + 1..].iter().take_while(|b| label(b)).count();
            let end = dot + 1 + length;
            let goes_on = rest.get(end) == Some(&b'.')
                && rest.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
            let ends = !goes_on && !rest.get(end).is_some_and(joins);
            let top = rest[dot + 1..end].to_ascii_lowercase();
            (ends && views.boundaries().is_top(&top)).then(|| &rest[..end])
        })
}

fn addresses_of_hosts<'v>(values: &[Value<'v>], reversed: bool) -> Vec<Value<'v>> {
    let found = values.iter().filter_map(|value| {
        let text = ip::first_address(value)?;
        if !reversed {
            return Some(Cow::Owned(text.to_vec()));
        }
        let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
        Some(Cow::Owned(ip::reversed(address).into_bytes()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfolding_by_lines_is_unfolding_byte_by_byte() {
        fn slowly(raw: &[u8]) -> Vec<u8> {
            let (mut out, mut i) = (Vec::new(), 0);
            while i < raw.len() {
                let end = match &raw[i..] {
                    [b'\r', b'\n', ..] => 2,
                    [b'\n', ..] => 1,
                    _ => 0,
                };
                let blank = raw[i + end..].iter().take_while(|&&b| is_space(b)).count();
                if end > 0 && blank > 0 {
                    out.push(b' ');
                    i += end + blank;
                } else {
                    out.push(raw[i]);
                    i += 1;
                }
            }
            out
        }
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let mut raw = Vec::new();
            for _ in 0..7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                raw.push(b"\r\n\n \tab\x0b"[(seed >> 16) as usize % 8]);
            }
            assert_eq!(unfolded(&raw), slowly(&raw), "{raw:?}");
        }
    }

    #[test]
    fn lines_between_relays_are_one_part_of_the_text() {
        for text in ["", "A: 1\n", "A: 1\nReceived: 2\nB: 3\nreceived: 4\nReceived: 5\nC: 6\n"] {
            for bound in (-1..5).map(Some).chain([None]) {
                for (start, end) in [(bound, None), (None, bound)] {
                    let lines = perl::lines(text.as_bytes()).map(Cow::Borrowed).collect();
                    let slowly = between_relays(lines, start, end).concat();
                    let found = text_between_relays(text.as_bytes(), start, end);
                    assert_eq!(found, slowly, "{text:?} {start:?} {end:?}");
                }
            }
        }
    }

    #[test]
    fn folds_and_names() {
        assert_eq!(unfolded(b" a\n\tb\r\n  c\n"), b" a b c\n");
        assert_eq!(display_name(b"'A  B' "), b"A B");
        assert_eq!(display_name(b"=?utf-8?Q?=C3=A9?= x"), "é x".as_bytes());
        assert_eq!(after_at(b"a@b c@d.e f"), Some(&b"d.e"[..]));
    }
}
