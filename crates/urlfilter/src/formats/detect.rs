//! Which format a file has, by its name where that is fixed, else by its first lines.

use std::net::IpAddr;

use super::{Format, csv};

/// Lines that are looked at.
const LINES_MAX: usize = 200;
/// One control character in so many bytes is no text: of random bytes one in ten is one.
const CONTROLS_SHARE: usize = 32;
/// A few damaged lines are told one by one.
const CONTROLS_MIN: usize = 16;

/// A format, and what it was known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detected {
    /// The format.
    pub format: Format,
    /// What says so.
    pub by: &'static str,
}

/// How files begin that may hold a list, but are none as they are.
const PACKED: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "it is compressed (gzip); unpack it first (gunzip)"),
    (b"BZh", "it is compressed (bzip2); unpack it first (bunzip2)"),
    (b"\xfd7zXZ\0", "it is compressed (xz); unpack it first (unxz)"),
    (b"\x28\xb5\x2f\xfd", "it is compressed (Zstandard); unpack it first (unzstd)"),
    (b"PK\x03\x04", "it is an archive (ZIP); unpack it first (unzip)"),
    (b"7z\xbc\xaf\x27\x1c", "it is an archive (7z); unpack it first"),
];

/// Why a file that begins so is no list: of what is no text, some lines could be taken for
/// expressions that fit all hosts. Text of two bytes a character is told by its own fault.
pub(crate) fn no_text(start: &[u8]) -> Option<&'static str> {
    if let Some((_, why)) = PACKED.iter().find(|(begins, _)| start.starts_with(begins)) {
        return Some(why);
    }
    let is_wide = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    let is_control = |byte: &&u8| **byte < b' ' && !matches!(**byte, b'\t' | b'\n' | b'\r' | 0x0c);
    let controls = start.iter().filter(is_control).count();
    let are_many = controls > CONTROLS_MIN && controls * CONTROLS_SHARE > start.len();
    (!is_wide && are_many).then_some("it is no text")
}

/// The format of a file by its name and its first bytes.
pub fn detect(file: &str, start: &[u8]) -> Detected {
    let name = file.rsplit('/').next().unwrap_or_default();
    let by_name = match name {
        "domains" => Some((Format::Domains, "the name `domains`")),
        "urls" => Some((Format::Urls, "the name `urls`")),
        "expressions" => Some((Format::Expressions, "the name `expressions`")),
        _ => None,
    };
    let text = String::from_utf8_lossy(start);
    let (format, by) = by_name.unwrap_or_else(|| by_lines(&text, name.ends_with(".acl")));
    Detected { format, by }
}

fn by_lines(text: &str, is_acl: bool) -> (Format, &'static str) {
    let lines = || text.lines().take(LINES_MAX).map(str::trim_end).filter(|line| !line.is_empty());
    if let Some(found) = lines().find_map(telling) {
        return found;
    }
    if lines().next().is_some_and(|line| csv::columns(line).is_some() && line.contains(',')) {
        return (Format::Csv, "names of columns");
    }
    // A last line that may be cut, and comments, say nothing.
    let values: Vec<&str> = lines().filter(|l| !l.starts_with(['#', ';'])).take(20).collect();
    let most = |test: &dyn Fn(&&&str) -> bool| {
        !values.is_empty() && values.iter().filter(test).count() * 2 > values.len()
    };
    if most(&|line| is_hosts(line)) {
        return (Format::Hosts, "lines of an address and hosts");
    }
    if most(&|line| is_csv(line)) {
        return (Format::Csv, "a host or URL before a comma");
    }
    if most(&|line| is_regex(line)) {
        return (Format::SquidRegexes, "regular expressions");
    }
    let dotted = values.iter().filter(|line| line.starts_with('.') && !line.contains('/')).count();
    // Squid's own name for such files, in which one line may be enough to tell.
    if dotted * 2 > values.len() || (is_acl && dotted > 0) {
        return (Format::SquidDomains, "domains with a leading dot");
    }
    (Format::Plain, "nothing else fits")
}

/// What one line alone says.
fn telling(line: &str) -> Option<(Format, &'static str)> {
    let lower = line.get(..line.len().min(9)).unwrap_or_default().to_ascii_lowercase();
    if lower.starts_with("[adblock") || line.starts_with("||") || line.starts_with("@@") {
        return Some((Format::AdBlock, "a rule of AdBlock"));
    }
    if lower.starts_with("$ttl") || lower.starts_with("$origin") {
        return Some((Format::Rpz, "a directive of a zone"));
    }
    let mut words = line.split_ascii_whitespace().skip(1);
    let is_record = words.by_ref().take(3).any(|word| word == "CNAME" || word == "SOA");
    (is_record && !line.starts_with('#')).then_some((Format::Rpz, "a record of a zone"))
}

fn is_hosts(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next().is_some_and(|word| word.parse::<IpAddr>().is_ok()) && words.next().is_some()
}

fn is_csv(line: &str) -> bool {
    let Some((first, _)) = line.split_once(',') else { return false };
    let first = first.trim_matches('"');
    first.contains('.') && !first.contains([' ', '(', '['])
}

fn is_regex(line: &str) -> bool {
    line.starts_with(['^', '('])
        || line.ends_with('$')
        // What no host has, and hardly a URL.
        || line.contains(['\\', '|'])
        || [".*", "[0-9", "[a-z", "[A-Z"].iter().any(|sign| line.contains(sign))
}
