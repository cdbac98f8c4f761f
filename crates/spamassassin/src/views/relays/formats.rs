//! The formats of Received fields that name the client's address, in the order in which they are
//! tried, and those of hand-overs without one. The lines begin after `from `.
//!
//! Slots: `h` the client's HELO name, `r` its name by reverse DNS, `i` its address, `b` the
//! receiving server, `t` the answer of ident, `s` text that contains `helo=` and `ident=`.

use std::sync::LazyLock;

use super::pattern::Pattern;
use super::words::{Line, Pairs, Word};

/// Meaning of a format's fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Meaning {
    /// The program looks names up: none given means that there is none.
    pub(super) looks_up: bool,
    /// The name by reverse DNS is also the HELO name.
    pub(super) name_is_helo: bool,
    /// The name may have an ident before an at sign, and is the client's HELO if `softdnserr`.
    pub(super) quirk: Quirk,
}

/// Special handling of one format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Quirk {
    /// Read by the pattern alone.
    #[default]
    None,
    /// An ident precedes the name.
    IdentInName,
    /// `softdnserr` as a name means that DNS gave no answer.
    SoftDnsError,
    /// The name must hold a dot.
    DottedName,
    /// A mail fetcher: earlier hops do not count.
    Fetcher,
    /// Only if the receiver is one of Yahoo's.
    Yahoo,
}

/// A format: words that must occur, its pattern, and its meaning.
pub(super) struct Format {
    /// Text that the line must contain, as a quick test.
    guard: Word,
    /// Of that text and of those in the pattern.
    pairs: Pairs,
    pub(super) pattern: Pattern,
    pub(super) meaning: Meaning,
}

const PLAIN: Meaning = Meaning { looks_up: false, name_is_helo: false, quirk: Quirk::None };
const DNS: Meaning = Meaning { looks_up: true, ..PLAIN };
const SAME: Meaning = Meaning { name_is_helo: true, ..DNS };

const fn quirk(looks_up: bool, quirk: Quirk) -> Meaning {
    Meaning { looks_up, name_is_helo: false, quirk }
}

type Row = (&'static str, &'static str, Meaning);

/// Tried before qmail's formats.
const EARLY: &[Row] = &[
    ("with HTTP", "{i} ([{_i}]) by {b+}", PLAIN),
    ("", "{h+} ({r+} [{i}]{.*}) by {b+} (", quirk(true, Quirk::IdentInName)),
    ("", "{h+} ({r+} [{i}]) by {b+} with {_+} (", DNS),
    ("helo=", "{r+} ([{i}] helo={h+}) by {b+} with ", PLAIN),
    ("(<unknown", "{h+} (<unknown{_*}>[{i}]) by {b+} ", PLAIN),
    ("", "{h+} ({r+}[{i}]) by {b+} ", quirk(true, Quirk::DottedName)),
    ("@[", "{h+} ({t*}@[{i}]{.*}) by {b+} (", DNS),
];

/// Between Hotmail's and qmail's formats.
const MIDDLE: &[Row] = &[
    ("(qpsmtpd/", "{r+} ({HELO} {h*}) ({i}) by {b+} (qpsmtpd/{_+}) with {SMTP}", PLAIN),
    ("(LHLO", "{r+} (LHLO {h*}) ({i}) by {b+} with LMTP", PLAIN),
    ("LO ", "{r+} ({HELO} {h*}) [{i}] by {b+} ({_)+}) with {SMTP}", PLAIN),
    ("via smtpd", "{h+} ([{i}]) by {b+} via smtpd (for {_+}) with SMTP(", PLAIN),
];

/// Tried after qmail's formats, which are more special.
const LATE: &[Row] = &[
    ("via HTTP", "[{i}] by {b+} via HTTP{$}", PLAIN),
    ("( [", "{_+} ( [{i}]){.?} by {b+} ", PLAIN),
    ("", "({h+} [{i}]) by {b+} ", PLAIN),
    ("", "[{i}] by {b+} ", PLAIN),
    ("", "({?[?}{i}{?]?}) by {b+} ", PLAIN),
    ("", "{h+} [{i}] by {b+} [{_i}] with ", DNS),
    ("[(", "{h+} [({i})] by {b+} ({_i}) ", PLAIN),
    ("([", "{h+} ([{i}]) by {b+} (", DNS),
    ("", "{h+} ({r+} [{i}]){.?} by {b+}{b}", quirk(true, Quirk::SoftDnsError)),
    ("([", "{h+} ([{i}{?.{d}?}{?:{d}?}]){.?} by {b+} ", DNS),
    ("with POP3", "", quirk(false, Quirk::Fetcher)),
    ("with IMAP", "", quirk(false, Quirk::Fetcher)),
    ("LO ", "{r+} ({HELO} {h)*}) ({t*}@{?[?}{i}{?]?}){.*} by {b+} ", DNS),
    ("LO ", "{r+} ({HELO} {h)*}) ({?[?}{i}{?]?}){.*} by {b+} ", DNS),
    ("", "{r+} ({t*}@{?[?}{i}{?]?}){.*} by {b+} ", SAME),
    ("", "{r+} ({?[?}{i}{?]?}){.*} by {b+} ", SAME),
    ("via smap", "{r+}({i}) by {b+} via smap ", DNS),
    ("via smap", "{r+}({i}, {HELO} {h*}) by {b+} via smap ", DNS),
    ("(SMTPL", "{i} by {b+} (SMTPL{b}", PLAIN),
    ("(InterScan", "{i} by {b+} (InterScan{b}", PLAIN),
];

/// Formats after the first that are no hand-over by TCP.
const LAST: &[Row] = &[
    ("LO ", "{r+} ({HELO} {h*}) ({t+}@{i}{.?}) by {b+} with ", DNS),
    ("LO ", "{r+} ({HELO} {h*}) ({i}{.?}) by {b+} with ", DNS),
    ("LO ", "[{i}] (account {_+} {HELO} {h*}) by {b+} (", PLAIN),
    ("LO ", "[{i}] ({HELO} {h*}) by {b+} (", PLAIN),
    ("(CommuniGate Pro", "{r+} ([{i}] verified) by {b+} (", SAME),
];

/// The rest, after a program that names no address.
const REST: &[Row] = &[
    ("] [", "{h+} ([{i}] [{_+}]) by {b+} with ", PLAIN),
    ("", "{i} by {b+} with ", PLAIN),
    ("", "{h+} ({r+}[{i}]) by {b+} ", DNS),
    ("LO ", "[{i}]{_+} ({HELO} {h*}) by {b+} ", PLAIN),
    ("LO ", "{i} ({HELO} {h*}) by {b+} ", PLAIN),
    ("", "{h+} [{i}] by {b+} ", PLAIN),
    ("", "{r+}({i}) by {b+} ", PLAIN),
    ("", "[{i}] ({s)+}) by {b+} ", PLAIN),
    ("with login", "{h+} ({_+}@{i} with login) by {b+} with SMTP", quirk(false, Quirk::Yahoo)),
    ("X-Originating-IP:", "X-Originating-IP: {i}{$}", PLAIN),
];

/// Local deliveries, and hand-overs of programs that record no address: not counted as relays.
const IGNORED: &[&str] = &[
    "{_+}@{local}) by {_+} (",
    "{_+} {_+} by {_+} with local-smtp ",
    "{_+} {_+} by {_+} with local-esmtp ",
    "127.0.0.1 (AVG SMTP {_+} [{_+}])",
    "{_+}@{_+} by {_+} ",
    "Unknown/Local (",
    "{local} ({?{_+}@?}{local})",
    "{local} ({?{_+}@?}{local}[",
    "{_+} ({?{_+}@?}{local}) ",
    "{_+} ({_+}@{_+} [{local}]) ",
    "(AUTH: {_+}) by {_+} with ",
    "localhost (localhost [[UNIX: localhost]]) by ",
    "{_+}.amazon.com by {_+}.amazon.com with ESMTP (peer crosscheck: ",
    "no.name.available by {_+} via smtpd (for ",
    "{_+} by {_+} with local",
    "{_+} ([unix socket]) by {_+} (Cyrus v{_+}) with LMTPA",
    "{_+} by {_+} with",
    "{_+} by {_+} via",
    "{_+} by {_+} for",
    "{_+} by {_+} (",
    "{_+} with {_+} by{b}",
    "{_+} via {_+} by{b}",
    "{_+} for {_+} by{b}",
    "{_+} (unverified) by{b}",
    "{_+} (unknown) by {_+} (SG) with {b}",
    "{_+} ({_+} [local]) by {_+} (OpenSMTPD) with {b}",
    "([{local}]) with MailEnable ",
    "facebook.com ({_)+}) by facebook.com with Thrift id {_+}{$}",
    "{_+} named {_+} by gmailapi.google.com with HTTPREST{$}",
    "{_+} id {_+}{$}",
    "[<{.?} (Jetsend",
];

/// All tables, their patterns parsed once.
pub(super) struct Formats {
    pub(super) early: Vec<Format>,
    pub(super) middle: Vec<Format>,
    pub(super) late: Vec<Format>,
    pub(super) last: Vec<Format>,
    pub(super) rest: Vec<Format>,
    pub(super) ignored: Vec<Pattern>,
}

impl Format {
    fn new(row: &Row) -> Self {
        let (guard, pattern) = (Word::new(row.0), Pattern::new(row.1));
        let pairs = pattern.pairs().and(&Pairs::of(row.0.as_bytes()));
        Format { guard, pairs, pattern, meaning: row.2 }
    }

    /// Whether it is worth trying on a line.
    pub(super) fn may_fit(&self, line: &Line<'_>) -> bool {
        line.may_have(&self.pairs) && line.has(&self.guard)
    }
}

fn compiled(rows: &[Row]) -> Vec<Format> {
    rows.iter().map(Format::new).collect()
}

/// Made at the first Received field; the tables never change.
pub(super) static FORMATS: LazyLock<Formats> = LazyLock::new(|| Formats {
    early: compiled(EARLY),
    middle: compiled(MIDDLE),
    late: compiled(LATE),
    last: compiled(LAST),
    rest: compiled(REST),
    ignored: IGNORED.iter().map(|p| Pattern::new(p)).collect(),
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_known() {
        let tables = [&FORMATS.early, &FORMATS.middle, &FORMATS.late, &FORMATS.last, &FORMATS.rest];
        for format in tables.into_iter().flatten() {
            assert!(!format.pattern.has_unknown());
        }
        assert!(!FORMATS.ignored.iter().any(Pattern::has_unknown));
    }
}
