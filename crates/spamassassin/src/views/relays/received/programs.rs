//! The formats of mail programs' Received fields; the first that matches wins.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::super::formats::{FORMATS, Format, Quirk};
use super::super::ip;
use super::super::pattern::{Kept, Pattern};
use super::super::words::{Line, has};
use super::envelope_sender;
use super::found::{Found, take, take_named};
use crate::views::perl::{find, is_space};

/// Outcome of a stage.
pub(super) enum Stage {
    Done,
    Ignored,
    Fetched,
    Scanner,
    Next,
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Pattern> = LazyLock::new(|| Pattern::new($text));
        &*PATTERN
    }};
}

/// Tries a pattern alone.
fn fits(pattern: &Pattern, line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> bool {
    let fits = pattern.matches(line, kept);
    if fits {
        take(found, kept, line);
    }
    fits
}

/// Tries a table of formats in order.
fn table(formats: &[Format], line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> Stage {
    for format in formats {
        if !format.may_fit(line) {
            continue;
        }
        let meaning = format.meaning;
        if meaning.quirk == Quirk::Fetcher {
            return Stage::Fetched;
        }
        if !format.pattern.matches(line, kept) {
            continue;
        }
        let name = kept.text(b'r', line).unwrap_or_default();
        let inner = name.get(1..name.len().saturating_sub(1)).unwrap_or_default();
        let by = kept.text(b'b', line).unwrap_or_default();
        match meaning.quirk {
            Quirk::DottedName if memchr::memchr(b'.', inner).is_none() => continue,
            Quirk::Yahoo if !by.ends_with(b".yahoo.com") => continue,
            _ => {}
        }
        let before = found.rdns.clone();
        take(found, kept, line);
        found.looks_up |= meaning.looks_up;
        match meaning.quirk {
            Quirk::IdentInName => take_ident(found),
            Quirk::SoftDnsError if found.rdns == b"softdnserr" => {
                found.rdns = before;
                found.looks_up = false;
            }
            _ => {}
        }
        if meaning.name_is_helo {
            found.helo.clone_from(&found.rdns);
        }
        return Stage::Done;
    }
    Stage::Next
}

/// Takes an ident apart from the name: `IDENT:user@name` and `user@name`.
fn take_ident(found: &mut Found) {
    for prefix in [&b"IDENT:"[..], b""] {
        let Some(rest) = found.rdns.strip_prefix(prefix) else { continue };
        if let Some(at) = memchr::memchr(b'@', rest) {
            found.ident = rest[..at].to_vec();
            found.rdns = rest[at + 1..].to_vec();
        }
    }
}

/// The line after `from `.
pub(super) fn after_from(line: &Line<'_>, found: &mut Found) -> Stage {
    found.envfrom = envelope_sender(line);
    let mut kept = Kept::new();
    if webmail(line, found) {
        return Stage::Done;
    }
    match programs(line, found, &mut kept) {
        Stage::Next => {}
        stage => return stage,
    }
    let formats = &*FORMATS;
    // qmail-ldap's format is like sendmail's, with other meanings of the names.
    let ldap = has!(line, "(qmail-")
        && regex!(r"(?-u) by \S+ \(qmail-\S+\) with ").is_some_and(|r| r.is_match(line));
    for (i, format) in formats.early.iter().enumerate() {
        if i == 1 && ldap {
            continue;
        }
        if let Stage::Done = table(std::slice::from_ref(format), line, found, &mut kept) {
            return Stage::Done;
        }
    }
    if let Some(by) = hotmail(line) {
        found.by = by.to_vec();
        if let Some(end) = ip::address_at(line, 0).filter(|&e| line.get(e) == Some(&b' ')) {
            found.ip = line[..end].to_vec();
        }
        return Stage::Done;
    }
    if let Stage::Done = table(&formats.middle, line, found, &mut kept) {
        return Stage::Done;
    }
    if is_qmail(line, &mut kept) {
        qmail(line, found, &mut kept);
        return Stage::Done;
    }
    match table(&formats.late, line, found, &mut kept) {
        Stage::Next => {}
        stage => return stage,
    }
    if has!(line, " with BSMTP") && pattern!("{_+} by {_+} with BSMTP").matches(line, &mut kept) {
        return Stage::Ignored;
    }
    if let Stage::Done = table(&formats.last, line, found, &mut kept) {
        return Stage::Done;
    }
    if pattern!("{_+} ({_+}) by {_+} (Content Technologies ").matches(line, &mut kept) {
        return Stage::Ignored;
    }
    if let Stage::Done = table(&formats.rest, line, found, &mut kept) {
        if line.starts_with(b"X-Originating-IP:") {
            found.by.clear();
        }
        return Stage::Done;
    }
    if commented(line, found, &mut kept) || obtuse(line, found, &mut kept) {
        return Stage::Done;
    }
    ignorable(line, found, &mut kept)
}

/// Webmail: SquirrelMail and AOL.
fn webmail(line: &Line<'_>, found: &mut Found) -> bool {
    if has!(line, "Mail authenticated user ") && has!(line, " with HTTP") {
        let starts = (0..line.len()).filter(|&i| line[i].is_ascii_hexdigit() || line[i] == b':');
        for i in starts {
            let Some(end) = ip::address_at(line, i) else { continue };
            if matches!(line.get(end), Some(b'.' | b'-')) {
                continue;
            }
            let rest = &line[end..];
            let near =
                (10..=80).rev().filter(|&n| rest.get(n..).is_some_and(|r| r.starts_with(b"by ")));
            for n in near {
                let by = &rest[n + 3..];
                let length = by.iter().take_while(|&&b| !is_space(b)).count();
                if length > 0 && by[length..].starts_with(b" with HTTP") {
                    found.ip = line[i..end].to_vec();
                    found.by = by[..length].to_vec();
                    return true;
                }
            }
        }
    }
    if has!(line, "aol.com") && has!(line, "with HTTP (WebMailUI)") {
        let mut kept = Kept::new();
        let pattern = pattern!("{i} by {b+} ({_i}) with HTTP (WebMailUI)");
        return (0..line.len()).any(|i| fits(pattern, &line.starting_at(i), found, &mut kept));
    }
    false
}

/// Formats of programs that name themselves; the first program named decides.
fn programs(line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> Stage {
    let done = |fits: bool| if fits { Stage::Done } else { Stage::Next };
    if has!(line, " SMTPSVC") {
        if fits(pattern!("{h*} ([{i}]{_)*}) by {b+} with Microsoft SMTPSVC"), line, found, kept) {
            return Stage::Done;
        }
        let pickup = pattern!("mail pickup service by {_+} with Microsoft SMTPSVC{$}");
        return if pickup.matches(line, kept) { Stage::Ignored } else { Stage::Next };
    }
    if is_exchange(line) {
        let plain = fits(pattern!("{h+} ({?[?}{i}{?]?}) by {b+} "), line, found, kept)
            || fits(pattern!("{h+} ({?[?}{i}%{z+}) by {b+} "), line, found, kept);
        if plain {
            found.id.clear();
        }
        return done(plain);
    }
    if has!(line, "[XMail ") {
        let fits =
            fits(pattern!("{h+} ({i}:{d}) by {b+}{? ({_+})?} with [XMail"), line, found, kept)
                || fits(
                    pattern!("{h+} ([{i}]:{d}) by {b+}{? ({_+})?} with [XMail"),
                    line,
                    found,
                    kept,
                );
        if fits {
            let inner = |re: Option<&Regex>| Some(re?.captures(line)?.get(1)?.as_bytes().to_vec());
            if let Some(id) = inner(regex!(r"(?-u) id <(\S+)>")) {
                found.id = id;
            }
            if let Some(from) = inner(regex!(r"(?-u) from <(\S+)>")) {
                found.envfrom = Some(from);
            }
        }
        return done(fits);
    }
    if has!(line, "(ecelerity") {
        return done(
            fits(pattern!("([{i}:{d}] helo={h+}) by {b+} "), line, found, kept)
                || fits(pattern!("{_+} ([{i}:{d}]) by {b+} "), line, found, kept),
        );
    }
    if has!(line, "Exim") {
        return exim(line, found, kept);
    }
    if has!(line, " (Postfix) with") {
        let fits = fits(pattern!("{h+} ({r+} [{i}]) by {b+} "), line, found, kept)
            || fits(pattern!("{h+} ({r+}[{i}]) by {b+} "), line, found, kept);
        if fits {
            found.looks_up = true;
            if found.rdns == b"unknown" {
                found.rdns.clear();
            }
        }
        return done(fits);
    }
    if has!(line, "(Scalix SMTP Relay") {
        return done(fits(pattern!("{h+} ({? ?}{i}) by {b+}"), line, found, kept));
    }
    if has!(line, " (Lotus Domino ") {
        return done(fits(pattern!("{h+} ([{i}]) by {b+} (Lotus"), line, found, kept));
    }
    Stage::Next
}

/// Microsoft's servers of 2013 and later, when their version follows directly.
fn is_exchange(line: &Line<'_>) -> bool {
    (has!(line, " with Microsoft SMTP Server ") || has!(line, " with mapi id "))
        && regex!(
            r"(?-u) with (?:Microsoft SMTP Server|mapi id) (?:\([^)]+\) )?\d+\.\d+\.\d+\.\d+(?:$| )"
        )
        .is_some_and(|r| r.is_match(line))
}

fn exim(line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> Stage {
    if regex!(r"(?-u)\bwith local(?:-\S+)? ").is_some_and(|r| r.is_match(line)) {
        return Stage::Ignored;
    }
    let place =
        |line: &[u8], kept: &Kept, from: u8| kept.range(from).map(|r| r.end).unwrap_or(line.len());
    if pattern!("[{i}] ({.?}) by {b+} ").matches(line, kept) {
        take(found, kept, line);
        let from = place(line, kept, b'i') + 3;
        let to = kept.range(b'b').map_or(line.len(), |r| r.start.saturating_sub(5));
        take_named(found, line.get(from..to).unwrap_or_default());
        return Stage::Done;
    }
    if pattern!("{r+} ([{i}]{.?}) by {b+} ").matches(line, kept) {
        take(found, kept, line);
        found.helo.clone_from(&found.rdns);
        let from = place(line, kept, b'i') + 1;
        let to = kept.range(b'b').map_or(line.len(), |r| r.start.saturating_sub(5));
        take_named(found, line.get(from..to).unwrap_or_default());
        return Stage::Done;
    }
    if fits(pattern!("{r+} [{i}]{?:{d}?} by {b+} "), line, found, kept) {
        found.helo.clone_from(&found.rdns);
        return Stage::Done;
    }
    // The last resort: a receiving server and an address are enough.
    let inner = |re: Option<&Regex>| Some(re?.captures(line)?.get(1)?.as_bytes().to_vec());
    if let Some(name) = inner(regex!(r"(?-u)^(\S+) ")) {
        found.rdns = name;
    }
    if let Some(name) = inner(regex!(r"(?-u) \((\S+)\) ")) {
        found.helo = name;
    }
    let address = memchr::memmem::find_iter(line, b" [").find_map(|i| {
        let end = ip::address_at(line, i + 2)?;
        let rest = line[end..].strip_prefix(b".").unwrap_or(&line[end..]);
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        rest[digits..].starts_with(b"] ").then(|| line[i + 2..end].to_vec())
    });
    if let Some(address) = address {
        found.ip = address;
    }
    if let Some(by) = inner(regex!(r"(?-u)by (\S+) ")) {
        found.by = by;
        if !found.ip.is_empty() {
            return Stage::Done;
        }
    }
    Stage::Next
}

/// The receiver of `by NAME.hotmail.msn.com `, which Hotmail's servers wrote.
fn hotmail<'t>(line: &'t Line<'_>) -> Option<&'t [u8]> {
    let domain = b".hotmail.msn.com";
    find(line, domain)?;
    memchr::memmem::find_iter(line, b"by ").find_map(|i| {
        let rest = &line[i + 3..];
        let length = rest.iter().take_while(|&&b| !is_space(b)).count();
        let fits = length > domain.len() && rest[..length].ends_with(domain);
        (fits && rest.get(length) == Some(&b' ')).then(|| &rest[..length])
    })
}

/// Whether the line is of qmail or one of its relatives, and not of sendmail.
fn is_qmail(line: &Line<'_>, kept: &mut Kept) -> bool {
    if !has!(line, "SMTP") && !has!(line, "QMQP") {
        return false;
    }
    let head = pattern!(
        "{_+}{? ({HELO} {_*})?} ({?{_+}@?}{?[?}{_i}{?]?}){? (envelope-sender <{_+}>)?} by {b+}"
    );
    if !head.matches(line, kept) {
        return false;
    }
    let Some(end) = kept.range(b'b').map(|r| r.end) else { return false };
    let rest = &line[end..];
    memchr::memmem::find_iter(rest, b" with ").any(|i| {
        let comments = i == 0 || i >= 4 && rest.starts_with(b" (") && rest[i - 1] == b')';
        comments && names_protocol(&rest[i + 6..])
    })
}

/// `SMTP` or `QMQP` at the start or after a space, not followed by ` id `.
fn names_protocol(text: &[u8]) -> bool {
    let mut starts = std::iter::once(0).chain(memchr::memchr_iter(b' ', text).map(|i| i + 1));
    starts.any(|i| {
        let rest = &text[i..];
        (rest.starts_with(b"SMTP") || rest.starts_with(b"QMQP")) && !rest[4..].starts_with(b" id ")
    })
}

fn qmail(line: &Line<'_>, found: &mut Found, kept: &mut Kept) {
    let sender = "{? (envelope-sender <{_+}>)?} by {b+}";
    static PATTERNS: LazyLock<[Pattern; 4]> = LazyLock::new(|| {
        let heads = [
            "{r+} ({HELO} {h)*}) ({t*}@{?[?}{i}{?]?})",
            "{r+} ({HELO} {h)*}) ({?[?}{i}{?]?})",
            "{r+} ({t*}@{?[?}{i}{?]?})",
            "{r+} ({?[?}{i}{?]?})",
        ];
        heads.map(|h| Pattern::new(&format!("{h}{}", "{? (envelope-sender <{_+}>)?} by {b+}")))
    });
    debug_assert!(sender.len() > 1);
    for (i, pattern) in PATTERNS.iter().enumerate() {
        if !pattern.matches(line, kept) {
            continue;
        }
        let helo = kept.text(b'h', line).unwrap_or_default();
        if helo.iter().any(|b| matches!(b, b' ' | b'(')) {
            continue;
        }
        take(found, kept, line);
        if i >= 2 {
            found.helo.clone_from(&found.rdns);
        }
        break;
    }
    if found.rdns == b"unknown" {
        found.rdns.clear();
    } else {
        found.looks_up = true;
    }
}

/// `ADDRESS (comment) by NAME with `; the comment begins with a letter.
fn commented(line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> bool {
    let fits = pattern!("{i} ({c)+}) by {b+} with ").matches(line, kept)
        && kept.text(b'c', line).is_some_and(|c| c.len() > 1 && c[0].is_ascii_alphabetic());
    if fits {
        take(found, kept, line);
    }
    fits
}

/// Fields of Obtuse's smtpd, which says what a client claims to be.
fn obtuse(line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> bool {
    let fits = fits(
        pattern!("{r+}({i}){?, claiming to be \"{h+}\"?} via {_+} by {b+},"),
        line,
        found,
        kept,
    );
    if fits {
        found.helo = kept.text(b'h', line).unwrap_or_default().to_vec();
        found.looks_up |= found.rdns != b"UNKNOWN";
    }
    fits
}

/// Hand-overs that do not count; else a guess of the HELO name.
fn ignorable(line: &Line<'_>, found: &mut Found, kept: &mut Kept) -> Stage {
    let formats = &*FORMATS;
    // A scanner of qmail repeats the line before it.
    let scanner = has!(line, ") with qmail-scanner")
        && regex!(r"(?-u)^\S+ by \S+ \(.{0,100}\) with qmail-scanner")
            .is_some_and(|r| r.is_match(line));
    let (early, late) = formats.ignored.split_at(14.min(formats.ignored.len()));
    if early.iter().any(|p| p.matches(line, kept)) || novell(line) {
        return Stage::Ignored;
    }
    if scanner {
        return Stage::Scanner;
    }
    if late.iter().any(|p| p.matches(line, kept)) || has!(line, "(LSMTP for") {
        return Stage::Ignored;
    }
    if found.helo.is_empty() {
        let run = line.iter().take_while(|&&b| !is_space(b)).count();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
        let end = (1..=run).rev().find(|&i| line.get(i).is_some_and(|&b| !plain(b)));
        found.helo = line[..end.unwrap_or(0)].to_vec();
    }
    Stage::Next
}

/// `NAME by NAME with Novell_GroupWise`, the first name without a dot.
fn novell(line: &Line<'_>) -> bool {
    has!(line, " with Novell_GroupWise")
        && regex!(r"(?-u)^[^.]+ by \S+ with Novell_GroupWise").is_some_and(|r| r.is_match(line))
}

/// The line after `FROM `.
pub(super) fn capitals(line: &Line<'_>, found: &mut Found) -> Stage {
    let mut kept = Kept::new();
    let pattern =
        pattern!("{h+} ({r+} [{i}]) BY {b+} {?({_)+}) WITH SMTP ?}ID {n+}{? FOR <{_+}>?}{$}");
    if !fits(pattern, line, found, &mut kept) {
        return Stage::Next;
    }
    let id = kept.text(b'n', line).unwrap_or_default();
    let id = id.strip_prefix(b"<").filter(|i| !i.is_empty()).unwrap_or(id);
    found.id = id.strip_suffix(b">").filter(|i| !i.is_empty()).unwrap_or(id).to_vec();
    found.looks_up = true;
    if found.rdns == b"unverified" {
        found.rdns.clear();
    }
    Stage::Done
}

/// The line after `(from `.
pub(super) fn in_parentheses(line: &Line<'_>, found: &mut Found) -> Stage {
    let mut kept = Kept::new();
    if fits(pattern!("{h*} [{i}]) by {b+} (NAVGW {.?}) with "), line, found, &mut kept) {
        return Stage::Done;
    }
    let queue = has!(line, "(jqueuemail) id ")
        && regex!(r"(?-u)^[^\s@]+@[^)]+\) by \S+\(jqueuemail\) id [^\s;]+")
            .is_some_and(|r| r.is_match(line));
    if pattern!("{_+}@localhost) by {_+} ").matches(line, &mut kept) || queue {
        return Stage::Ignored;
    }
    Stage::Next
}

/// The first address in brackets.
pub(super) fn bracketed(line: &[u8]) -> Option<&[u8]> {
    memchr::memchr_iter(b'[', line).find_map(|i| {
        let end = ip::address_at(line, i + 1)?;
        (line.get(end) == Some(&b']')).then(|| &line[i + 1..end])
    })
}
