//! One Received field: who handed the message to whom (RFC 5321 section 4.4, and what programs make
//! of it).

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::Relay;
use super::formats::{FORMATS, Format, Quirk};
use super::ip;
use super::pattern::{Kept, Pattern};
use crate::views::perl::{find_no_case, is_space, is_word, starts_no_case, trim};

/// What a field turned out to be.
#[derive(Debug)]
pub(super) enum Line {
    /// A hand-over by a known address.
    Relay(Box<Relay>),
    /// A local delivery or the like; it does not count.
    Ignored,
    /// A mail fetcher's: what was read before does not count.
    Fetched,
    /// A scanner's copy of the line before, with the envelope sender that belongs to that.
    Scanner(Option<Vec<u8>>),
    /// Not understood.
    Unknown,
}

/// What was found in a line so far.
#[derive(Debug, Default, Clone)]
struct Found {
    ip: Vec<u8>,
    helo: Vec<u8>,
    rdns: Vec<u8>,
    by: Vec<u8>,
    id: Vec<u8>,
    ident: Vec<u8>,
    envfrom: Option<Vec<u8>>,
    auth: Vec<u8>,
    looks_up: bool,
}

/// Outcome of a stage.
enum Stage {
    Done,
    Ignored,
    Fetched,
    Scanner,
    Next,
}

fn contains(line: &[u8], text: &str) -> bool {
    memchr::memmem::find(line, text.as_bytes()).is_some()
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Pattern> = LazyLock::new(|| Pattern::new($text));
        &*PATTERN
    }};
}

macro_rules! regex {
    ($text:expr) => {{
        static REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
        REGEX.as_ref()
    }};
}

/// Reads the value of a field.
pub(super) fn read(value: &[u8]) -> Line {
    let mut line = squeezed(value);
    if !starts_no_case(&line, b"from ") && !starts_no_case(&line, b"(from ") {
        return Line::Ignored;
    }
    if local_delivery(&line) || without_address(&line) {
        return Line::Ignored;
    }
    line.truncate(without_date(&line));
    if let Some(i) = memchr::memmem::find(&line, b")by ") {
        line.insert(i + 1, b' ');
    }
    let mut found = Found {
        id: word_after_id(&line),
        helo: helo_word(&line),
        by: by_word(&line),
        auth: authentication(&line),
        ..Found::default()
    };
    let stage = if let Some(rest) = line.strip_prefix(b"from ") {
        after_from(rest, &mut found)
    } else if let Some(rest) = line.strip_prefix(b"FROM ") {
        capitals(rest, &mut found)
    } else if let Some(rest) = line.strip_prefix(b"(from ") {
        in_parentheses(rest, &mut found)
    } else {
        Stage::Next
    };
    match stage {
        Stage::Done => {}
        Stage::Ignored => return Line::Ignored,
        Stage::Fetched => return Line::Fetched,
        Stage::Scanner => return Line::Scanner(found.envfrom.map(|f| clean_sender(&f))),
        Stage::Next => {
            if found.ip.is_empty()
                && let Some(address) = bracketed(&line)
            {
                found.ip = address.to_vec();
            }
            if found.ip.is_empty() || found.by.is_empty() {
                return Line::Unknown;
            }
        }
    }
    Line::Relay(Box::new(finish(found)))
}

/// White space squeezed, and semicolons at the end removed.
fn squeezed(value: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(value.len());
    for word in trim(value).split(|&b| is_space(b)).filter(|w| !w.is_empty()) {
        if !line.is_empty() {
            line.push(b' ');
        }
        line.extend_from_slice(word);
    }
    while line.last() == Some(&b';') {
        line.pop();
        if line.last() == Some(&b' ') {
            line.pop();
        }
    }
    line
}

fn local_delivery(line: &[u8]) -> bool {
    let text = b"with local for";
    memchr::memmem::find_iter(line, text).any(|i| {
        let before = i > 0 && is_word(line[i - 1]);
        !before && !line.get(i + text.len()).is_some_and(|&b| is_word(b))
    })
}

/// `from NAME by NAME;` where the first name is no address in brackets.
fn without_address(line: &[u8]) -> bool {
    if !starts_no_case(line, b"from ") {
        return false;
    }
    let rest = &line[5..];
    let name = rest.iter().take_while(|&&b| !is_space(b)).count();
    if name == 0 || !starts_no_case(&rest[name..], b" by ") {
        return false;
    }
    let by = &rest[name + 4..];
    let length = by.iter().take_while(|&&b| !is_space(b) && b != b';').count();
    let after = by[length..].strip_prefix(b" ").unwrap_or(&by[length..]);
    let literal = rest[..name].strip_prefix(b"[").and_then(|n| n.strip_suffix(b"]"));
    let digits = |n: &[u8]| !n.is_empty() && n.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    length > 0 && after.first() == Some(&b';') && !literal.is_some_and(digits)
}

/// The length of the line without the date at its end.
fn without_date(line: &[u8]) -> usize {
    let mut words = line.rsplitn(6, |&b| b == b' ');
    let zone = words.next().unwrap_or_default();
    let (time, year, month, day) = (words.next(), words.next(), words.next(), words.next());
    let (Some(time), Some(year), Some(month), Some(day)) = (time, year, month, day) else {
        return line.len();
    };
    let number = |w: &[u8]| !w.is_empty() && w.iter().all(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = time.split(|&b| b == b':').collect();
    let months: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let timed = matches!(parts.len(), 2 | 3) && parts.iter().all(|p| number(p));
    if zone.is_empty() || !timed || !number(year) || !months.contains(&month) {
        return line.len();
    }
    // The day may follow a semicolon directly, and a weekday may stand before it.
    let digits = day.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let tail = zone.len() + time.len() + year.len() + month.len() + 4;
    let mut start = line.len() - tail - digits;
    let joins = |i: usize| i > 0 && (line[i - 1] == b' ' || line[i - 1] == b';');
    if digits == 0 || !joins(start) {
        return line.len();
    }
    let weekdays: [&[u8]; 7] = [b"Mon", b"Tue", b"Thu", b"Wed", b"Fri", b"Sat", b"Sun"];
    if let Some(head) = line[..start].strip_suffix(b", ")
        && weekdays.iter().any(|d| head.ends_with(d))
        && joins(head.len() - 3)
    {
        start = head.len() - 3;
    }
    while joins(start) {
        start -= 1;
    }
    start
}

/// The message identifier: `id `, perhaps `<`, and three characters or more.
fn word_after_id(line: &[u8]) -> Vec<u8> {
    let found = memchr::memmem::find_iter(line, b" id ").find_map(|i| {
        let rest = &line[i + 4..];
        let rest = rest.strip_prefix(b"<").unwrap_or(rest);
        let end = |b: &u8| is_space(*b) || matches!(b, b'<' | b'>' | b';');
        let length = rest.iter().position(end).unwrap_or(rest.len());
        (length >= 3).then(|| rest[..length].to_vec())
    });
    found.unwrap_or_default()
}

fn helo_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-.^+_&:=?!@%*$\\/".contains(&b)
}

/// `helo=NAME`, or `HELO NAME`.
fn helo_word(line: &[u8]) -> Vec<u8> {
    let named = |word: &'static [u8]| {
        memchr::memmem::find_iter(line, word).find_map(|i| {
            let rest = &line[i + word.len()..];
            let length = rest.iter().take_while(|&&b| helo_byte(b)).count();
            let bounded = i == 0 || !is_word(line[i - 1]);
            (bounded && length > 0).then_some((i, &rest[..length]))
        })
    };
    let equals = named(b"helo=").map(|f| f.1);
    let words = [named(b"HELO "), named(b"EHLO ")].into_iter().flatten().min();
    equals.or(words.map(|f| f.1)).unwrap_or_default().to_vec()
}

fn by_word(line: &[u8]) -> Vec<u8> {
    let Some(i) = memchr::memmem::find(line, b" by ") else { return Vec::new() };
    let rest = &line[i + 4..];
    rest[..rest.iter().position(|&b| is_space(b)).unwrap_or(rest.len())].to_vec()
}

/// How the client authenticated, if the line says so.
fn authentication(line: &[u8]) -> Vec<u8> {
    let by = contains(line, " by ");
    let capture = |regex: Option<&Regex>, slot: usize| {
        let found = regex?.captures(line)?;
        Some(found.get(slot)?.as_bytes().to_vec())
    };
    if by && let Some(word) = authenticated_protocol(line) {
        return word.to_vec();
    }
    if contains(line, " by mx.google.com with ESMTPS id ")
        && regex!(r"(?-u) by mx\.google\.com with ESMTPS id [a-z0-9]{1,4}sm[0-9]{2,9}[a-z]{3}\.[0-9]{1,3}\.[0-9]{4}\.(?:[0-6][0-9]\.){4}[0-6][0-9]")
            .is_some_and(|r| r.is_match(line))
        && let Some(found) =
            regex!(r"(?-u)\(version=([^ ]+) cipher=([^)]+)\)").and_then(|r| r.captures(line))
    {
        return [b"GMail - transport=", &found[1], b" cipher=", &found[2]].concat();
    }
    if contains(line, "(AUTH: ")
        && let Some(word) = capture(
            regex!(
                r"(?-u)^from .*?(?:\]\)|\)\]) \(AUTH: (LOGIN|PLAIN|DIGEST-MD5|CRAM-MD5) \S+(?:, .*?)?\) by "
            ),
            1,
        )
    {
        return word;
    }
    if contains(line, "authenticated")
        && regex!(r"(?-u)^from .*?(?:\](?: \([^)]*\))?\)|\)\]) .*?\(.*?authenticated.*?\).*? by")
            .is_some_and(|r| r.is_match(line))
    {
        return b"Sendmail".to_vec();
    }
    if contains(line, "mail.gmx.")
        && let Some(found) = regex!(
            r"(?-u)from \S* \((?:HELO|EHLO) (?:\S*)\) \[([0-9A-Fa-fIPv.:]+)\] by (mail\.gmx\.(?:net|com)) \([^)]+\) with (ESMTP|SMTP)"
        )
        .and_then(|r| r.captures(line))
        && ip::address_at(&found[1], 0) == Some(found[1].len())
    {
        return [b"GMX (", &found[3], b" / ", &found[2], b")"].concat();
    }
    if contains(line, " (authenticated as ")
        && regex!(r"(?-u)\) by .+ \(\d{1,2}\.\d\.\d{3}(?:\.\d{1,3})?\) \(authenticated as .+\) id ")
            .is_some_and(|r| r.is_match(line))
    {
        return b"CriticalPath".to_vec();
    }
    if contains(line, ") (Authenticated sender: ")
        && let Some(name) =
            capture(regex!(r"(?-u)\) \(Authenticated sender: \S+\) by \S+ \(([^)]+)\) with "), 1)
    {
        return if name == b"Postfix" { name } else { [b"Postfix (", &*name, b")"].concat() };
    }
    let pro = ["HTTP", "SMTP", "XIMSS", "IMAP"];
    if contains(line, " (account ")
        && pro.iter().any(|p| contains(line, &format!("CommuniGate Pro {p}")))
    {
        return b"Communigate".to_vec();
    }
    if contains(line, " with Microsoft Exchange Server HTTP-DAV") {
        return b"HTTP-DAV".to_vec();
    }
    if by && let Some(word) = capture(regex!(r"(?i-u) \(via (HTTP.?)\)(?: |;|$)"), 1) {
        return word;
    }
    Vec::new()
}

/// The first ` with PROTOCOL` whose protocol says that the client authenticated (RFC 3848).
fn authenticated_protocol(line: &[u8]) -> Option<&[u8]> {
    let known: [&[u8]; 12] = [
        b"ESMTPA",
        b"ESMTPSA",
        b"LMTPA",
        b"LMTPSA",
        b"UTF8SMTPA",
        b"UTF8SMTPSA",
        b"UTF8LMTPA",
        b"UTF8LMTPSA",
        b"ASMTP",
        b"HTTP",
        b"HTTPS",
        b"HTTPU",
    ];
    let mut at = 0;
    while let Some(i) = find_no_case(&line[at..], b" with ").map(|i| at + i) {
        let rest = &line[i + 6..];
        let word =
            &rest[..rest.iter().position(|b| matches!(b, b' ' | b';')).unwrap_or(rest.len())];
        if known.iter().any(|k| k.eq_ignore_ascii_case(word)) {
            return Some(word);
        }
        at = i + 1;
    }
    None
}

/// The envelope sender: after `envelope-from` and the like, up to a word's end.
fn envelope_sender(line: &[u8]) -> Option<Vec<u8>> {
    find_no_case(line, b"return-path").or_else(|| find_no_case(line, b"envelope-"))?;
    let found = regex!(r"(?i-u)(?:return-path:? |envelope-(?:sender|from)[ =])(\S+)")?;
    let mut at = 0;
    while let Some(captures) = found.captures_at(line, at) {
        let word = captures.get(1)?;
        // The word ends where a word character and another meet.
        let edge = |i: usize| {
            let before = line.get(i.wrapping_sub(1)).is_some_and(|&b| is_word(b));
            before != line.get(i).is_some_and(|&b| is_word(b))
        };
        if let Some(end) = (word.start() + 1..=word.end()).rev().find(|&i| edge(i)) {
            return Some(line[word.start()..end].to_vec());
        }
        at = word.start();
    }
    None
}

/// Takes what a pattern kept.
fn take(found: &mut Found, kept: &Kept, line: &[u8]) {
    let places: [(u8, &mut Vec<u8>); 5] = [
        (b'h', &mut found.helo),
        (b'r', &mut found.rdns),
        (b'i', &mut found.ip),
        (b'b', &mut found.by),
        (b't', &mut found.ident),
    ];
    for (slot, place) in places {
        if let Some(text) = kept.text(slot, line) {
            *place = text.to_vec();
        }
    }
    if let Some(text) = kept.text(b's', line) {
        take_named(found, text);
    }
}

/// `helo=NAME` and `ident=NAME` in the text between parentheses.
fn take_named(found: &mut Found, text: &[u8]) {
    let value = |text: &[u8], name: &[u8], min: usize| {
        memchr::memmem::find_iter(text, name).find_map(|i| {
            let rest = &text[i + name.len()..];
            let length = rest.iter().take_while(|&&b| !is_space(b)).count();
            (length >= min).then(|| (rest[..length].to_vec(), i..i + name.len() + length))
        })
    };
    let mut rest = text.to_vec();
    if let Some((helo, place)) = value(&rest, b"helo=", 1) {
        found.helo = helo;
        rest.drain(place);
    }
    if let Some((ident, _)) = value(&rest, b"ident=", 0) {
        found.ident = ident;
    }
}

/// Tries a pattern alone.
fn fits(pattern: &Pattern, line: &[u8], found: &mut Found, kept: &mut Kept) -> bool {
    let fits = pattern.matches(line, kept);
    if fits {
        take(found, kept, line);
    }
    fits
}

/// Tries a table of formats in order.
fn table(formats: &[Format], line: &[u8], found: &mut Found, kept: &mut Kept) -> Stage {
    for format in formats {
        if !format.guard.is_empty() && !contains(line, format.guard) {
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

/// `IDENT:user@name` and `user@name`.
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
fn after_from(line: &[u8], found: &mut Found) -> Stage {
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
    // qmail-ldap looks like sendmail, but means its names otherwise.
    let ldap = contains(line, "(qmail-")
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
    if contains(line, " with BSMTP") && pattern!("{_+} by {_+} with BSMTP").matches(line, &mut kept)
    {
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
fn webmail(line: &[u8], found: &mut Found) -> bool {
    if contains(line, "Mail authenticated user ") && contains(line, " with HTTP") {
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
    if contains(line, "aol.com") && contains(line, "with HTTP (WebMailUI)") {
        let mut kept = Kept::new();
        let pattern = pattern!("{i} by {b+} ({_i}) with HTTP (WebMailUI)");
        return (0..line.len()).any(|i| fits(pattern, &line[i..], found, &mut kept));
    }
    false
}

/// Formats of programs that name themselves; the first that is named decides which.
fn programs(line: &[u8], found: &mut Found, kept: &mut Kept) -> Stage {
    let done = |fits: bool| if fits { Stage::Done } else { Stage::Next };
    if contains(line, " SMTPSVC") {
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
    if contains(line, "[XMail ") {
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
    if contains(line, "(ecelerity") {
        return done(
            fits(pattern!("([{i}:{d}] helo={h+}) by {b+} "), line, found, kept)
                || fits(pattern!("{_+} ([{i}:{d}]) by {b+} "), line, found, kept),
        );
    }
    if contains(line, "Exim") {
        return exim(line, found, kept);
    }
    if contains(line, " (Postfix) with") {
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
    if contains(line, "(Scalix SMTP Relay") {
        return done(fits(pattern!("{h+} ({? ?}{i}) by {b+}"), line, found, kept));
    }
    if contains(line, " (Lotus Domino ") {
        return done(fits(pattern!("{h+} ([{i}]) by {b+} (Lotus"), line, found, kept));
    }
    Stage::Next
}

/// Microsoft's servers of 2013 and later, when their version follows directly.
fn is_exchange(line: &[u8]) -> bool {
    (contains(line, " with Microsoft SMTP Server ") || contains(line, " with mapi id "))
        && regex!(
            r"(?-u) with (?:Microsoft SMTP Server|mapi id) (?:\([^)]+\) )?\d+\.\d+\.\d+\.\d+(?:$| )"
        )
        .is_some_and(|r| r.is_match(line))
}

fn exim(line: &[u8], found: &mut Found, kept: &mut Kept) -> Stage {
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
    // Pick up the pieces; with who received and an address it is enough.
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

/// `by NAME.hotmail.msn.com `.
fn hotmail(line: &[u8]) -> Option<&[u8]> {
    let domain = b".hotmail.msn.com";
    memchr::memmem::find(line, domain)?;
    memchr::memmem::find_iter(line, b"by ").find_map(|i| {
        let rest = &line[i + 3..];
        let length = rest.iter().take_while(|&&b| !is_space(b)).count();
        let fits = length > domain.len() && rest[..length].ends_with(domain);
        (fits && rest.get(length) == Some(&b' ')).then(|| &rest[..length])
    })
}

/// Whether the line is of qmail or one of its relatives, and not of sendmail.
fn is_qmail(line: &[u8], kept: &mut Kept) -> bool {
    if !contains(line, "SMTP") && !contains(line, "QMQP") {
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

fn qmail(line: &[u8], found: &mut Found, kept: &mut Kept) {
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
fn commented(line: &[u8], found: &mut Found, kept: &mut Kept) -> bool {
    let fits = pattern!("{i} ({c)+}) by {b+} with ").matches(line, kept)
        && kept.text(b'c', line).is_some_and(|c| c.len() > 1 && c[0].is_ascii_alphabetic());
    if fits {
        take(found, kept, line);
    }
    fits
}

/// Obtuse smtpd.
fn obtuse(line: &[u8], found: &mut Found, kept: &mut Kept) -> bool {
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

/// Hand-overs that do not count; else a guess at what the client called itself.
fn ignorable(line: &[u8], found: &mut Found, kept: &mut Kept) -> Stage {
    let formats = &*FORMATS;
    // A scanner of qmail repeats the line before it.
    let scanner = contains(line, ") with qmail-scanner")
        && regex!(r"(?-u)^\S+ by \S+ \(.{0,100}\) with qmail-scanner")
            .is_some_and(|r| r.is_match(line));
    let (early, late) = formats.ignored.split_at(14.min(formats.ignored.len()));
    if early.iter().any(|p| p.matches(line, kept)) || novell(line) {
        return Stage::Ignored;
    }
    if scanner {
        return Stage::Scanner;
    }
    if late.iter().any(|p| p.matches(line, kept)) || contains(line, "(LSMTP for") {
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
fn novell(line: &[u8]) -> bool {
    contains(line, " with Novell_GroupWise")
        && regex!(r"(?-u)^[^.]+ by \S+ with Novell_GroupWise").is_some_and(|r| r.is_match(line))
}

/// The line after `FROM `.
fn capitals(line: &[u8], found: &mut Found) -> Stage {
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
fn in_parentheses(line: &[u8], found: &mut Found) -> Stage {
    let mut kept = Kept::new();
    if fits(pattern!("{h*} [{i}]) by {b+} (NAVGW {.?}) with "), line, found, &mut kept) {
        return Stage::Done;
    }
    let queue = contains(line, "(jqueuemail) id ")
        && regex!(r"(?-u)^[^\s@]+@[^)]+\) by \S+\(jqueuemail\) id [^\s;]+")
            .is_some_and(|r| r.is_match(line));
    if pattern!("{_+}@localhost) by {_+} ").matches(line, &mut kept) || queue {
        return Stage::Ignored;
    }
    Stage::Next
}

/// The first address in brackets.
fn bracketed(line: &[u8]) -> Option<&[u8]> {
    memchr::memchr_iter(b'[', line).find_map(|i| {
        let end = ip::address_at(line, i + 1)?;
        (line.get(end) == Some(&b']')).then(|| &line[i + 1..end])
    })
}

fn clean(text: &mut [u8]) {
    for byte in text {
        if is_space(*byte) || b"\0#[]()<>|".contains(byte) {
            *byte = b'!';
        }
    }
}

fn clean_sender(sender: &[u8]) -> Vec<u8> {
    let start = sender.iter().position(|&b| !is_space(b)).unwrap_or(sender.len());
    let brackets = sender[start..].iter().take_while(|b| **b == b'<').count();
    let mut text = trim(&sender[start + brackets..]).to_vec();
    while text.last() == Some(&b'>') {
        text.pop();
    }
    clean(&mut text);
    text
}

/// Cleans what was found and makes a relay of it.
fn finish(mut found: Found) -> Relay {
    while found.rdns.last() == Some(&b'.') {
        found.rdns.pop();
    }
    if found.rdns.eq_ignore_ascii_case(b"unknown") || found.rdns.starts_with(b"[") {
        found.rdns.clear();
    }
    let mut address = found.ip.as_slice();
    if starts_no_case(address, b"ipv6:") {
        address = &address[5..];
    }
    address = address.strip_prefix(b"[").unwrap_or(address);
    address = address.strip_suffix(b"]").unwrap_or(address);
    let mapped = ip::parse(address).and_then(|a| match a {
        std::net::IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        std::net::IpAddr::V4(_) => None,
    });
    let dotted = memchr::memchr(b'.', address).is_some();
    found.ip = match mapped {
        Some(v4) if dotted => v4.to_string().into_bytes(),
        _ => address.to_vec(),
    };
    if found.by.last() == Some(&b';') {
        found.by.pop();
    }
    for text in [&mut found.ip, &mut found.rdns, &mut found.helo, &mut found.by, &mut found.ident] {
        clean(text);
    }
    let address = ip::parse(&found.ip);
    Relay {
        private: address.is_some_and(ip::is_private),
        no_reverse_dns: found.rdns.is_empty() && found.looks_up,
        rdns_not_in_headers: found.rdns.is_empty() && !found.looks_up,
        address,
        ip: found.ip,
        rdns: found.rdns,
        helo: found.helo,
        by: found.by,
        id: found.id,
        ident: found.ident,
        envfrom: found.envfrom.map(|f| clean_sender(&f)),
        auth: found.auth,
        internal: false,
        msa: false,
    }
}
