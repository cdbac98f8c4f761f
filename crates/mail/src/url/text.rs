//! Finding URLs in text, as mail readers make them clickable, and a little beyond.
//!
//! Linear in the text: every byte is looked at a bounded number of times.

use std::ops::Range;

use memchr::{memchr, memchr2};

use super::UrlSource;
use crate::public_suffix;

/// Longest host name looked for.
const HOST_BYTES_MAX: usize = 253;

/// A location in a text that reads as a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Byte range in the text.
    pub range: Range<usize>,
    /// [`UrlSource::Text`], [`UrlSource::Schemeless`] or [`UrlSource::BareHost`].
    pub source: UrlSource,
}

/// Finds URLs in `text`, in order, without overlaps.
pub fn find(text: &str) -> impl Iterator<Item = Found> {
    let mut finder = Finder { text, at: 0, done: 0 };
    std::iter::from_fn(move || finder.next())
}

struct Finder<'a> {
    text: &'a str,
    /// Where to look on.
    at: usize,
    /// Nothing before this belongs to a further URL.
    done: usize,
}

impl Finder<'_> {
    fn next(&mut self) -> Option<Found> {
        let bytes = self.text.as_bytes();
        while let Some(i) = memchr2(b':', b'.', bytes.get(self.at..)?).map(|i| self.at + i) {
            self.at = i + 1;
            let found = if bytes[i] == b':' { self.schemed(i) } else { self.schemeless(i) };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// `http://...` whose colon is at `colon`, or `mailto:...`.
    fn schemed(&mut self, colon: usize) -> Option<Found> {
        let bytes = self.text.as_bytes();
        let after = bytes.get(colon + 1..)?;
        let word = &bytes[self.done..colon];
        let ends_with = |scheme: &&str| {
            word.len() >= scheme.len()
                && word[word.len() - scheme.len()..].eq_ignore_ascii_case(scheme.as_bytes())
        };
        let slashes = after.starts_with(b"//") || after.starts_with(b"\\\\");
        let schemes: &[&str] = if slashes {
            &["https", "http", "ftp", "hxxps", "hxxp", "h**ps", "h**p"]
        } else {
            &["mailto"]
        };
        let scheme = schemes.iter().find(|s| ends_with(s))?;
        let body = colon + 1 + if slashes { 2 } else { 0 };
        let end = url_end(self.text, body);
        if end <= body {
            return None;
        }
        let range = colon - scheme.len()..end;
        (self.at, self.done) = (end, end);
        Some(Found { range, source: UrlSource::Text })
    }

    /// A host without scheme around the dot at `dot`.
    fn schemeless(&mut self, dot: usize) -> Option<Found> {
        let bytes = self.text.as_bytes();
        if dot <= self.done
            || !bytes[dot - 1].is_ascii_alphanumeric()
            || !bytes.get(dot + 1).is_some_and(u8::is_ascii_alphanumeric)
        {
            return None;
        }
        let low = self.done.max(dot.saturating_sub(HOST_BYTES_MAX));
        let run = bytes[low..dot].iter().rev().take_while(|b| is_host_byte(**b)).count();
        let start = dot - run;
        let end = dot + bytes[dot..].iter().take_while(|b| is_host_byte(**b)).count();
        // Whatever this is, its other dots are not looked at again.
        (self.at, self.done) = (end, end);
        let host = trim_host(&self.text[start..end]);
        let start = start + host.start;
        let host = &self.text[start..start + host.len()];
        let host_end = start + host.len();
        let before = self.text[..start].chars().next_back();
        let part_of_more =
            |c: char| matches!(c, '@' | '/' | '\\' | '%' | '&' | '~') || c.is_alphanumeric();
        if before.is_some_and(part_of_more) || bytes.get(host_end) == Some(&b'@') {
            return None;
        }
        let source = classify_host(host, bytes.get(host_end..)?)?;
        let end = match source {
            UrlSource::BareHost => host_end,
            _ => url_end(self.text, start).max(host_end),
        };
        (self.at, self.done) = (end, end);
        Some(Found { range: start..end, source })
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// Dots, hyphens and underscores at the ends are punctuation.
fn trim_host(run: &str) -> Range<usize> {
    let invalid = |c: char| matches!(c, '.' | '-' | '_');
    let start = run.len() - run.trim_start_matches(invalid).len();
    start..run.trim_end_matches(invalid).len().max(start)
}

/// Whether a host name in text is meant as one.
fn classify_host(host: &str, after: &[u8]) -> Option<UrlSource> {
    let top = host.rsplit('.').next()?;
    let labels_fit = host.split('.').all(|l| (1..=63).contains(&l.len()));
    if !labels_fit || !top.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return None;
    }
    let lower = host.to_ascii_lowercase();
    let suffix = public_suffix::suffix(lower.as_bytes()).filter(|suffix| suffix.is_known)?;
    if suffix.name.len() == lower.len() {
        return None;
    }
    // The name proper holds no underscore, though hosts below it may.
    let domain = suffix.domain_of(lower.as_bytes())?;
    if domain.contains(&b'_') {
        return None;
    }
    let file_like = FILE_EXTENSION_TLDS.contains(&&*top.to_ascii_lowercase());
    let path_follows = match after {
        [b'/', ..] => true,
        // `main.cc:42` is a location in a file.
        [b':', digit, ..] => digit.is_ascii_digit() && !file_like,
        _ => false,
    };
    if lower.starts_with("www.") || path_follows {
        return Some(UrlSource::Schemeless);
    }
    // A sentence whose space is missing ("end.So it"), an abbreviation or a file name.
    let is_all_caps = host.bytes().all(|b| !b.is_ascii_lowercase());
    let capital = top.starts_with(|c: char| c.is_ascii_uppercase());
    let first = lower.split('.').next().unwrap_or_default();
    let is_word = (capital && !is_all_caps) || file_like || first.len() < 2;
    (!is_word).then_some(UrlSource::BareHost)
}

/// Top-level domains that in text are more often the ending of a file's name, a word, or a field of
/// a program's structure.
#[rustfmt::skip]
const FILE_EXTENSION_TLDS: &[&str] = &[
    "ai", "al", "am", "app", "as", "at", "bat", "bb", "be", "box", "by", "cab", "call", "cc",
    "channel", "data", "dev", "do", "events", "fit", "host", "hot", "id", "in", "inc", "int", "is",
    "it", "md", "me", "mov", "my", "na", "name", "network", "no", "open", "page", "phone", "pl", "pm",
    "ps", "py", "read", "rip", "rs", "run", "sh", "show", "so", "st", "target", "to", "us", "zip",
];

/// Where the URL ends whose host begins at or after `from`: at white space, a delimiter, or
/// punctuation that belongs to the sentence around it.
fn url_end(text: &str, from: usize) -> usize {
    let stops = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '<' | '>' | '"' | '`' | '{' | '}' | '|' | '^')
            // General punctuation, CJK and full-width punctuation, replacement character.
            || matches!(c, '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffff}')
            || matches!(c, '\u{ab}' | '\u{bb}')
    };
    let rest = &text[from..];
    let rest = &rest[..rest.find(stops).unwrap_or(rest.len())];
    from + without_punctuation(rest.as_bytes())
}

/// The length of a URL without the punctuation at its end that is not part of it. A closing bracket
/// stays when the URL opened one before it; where the first one opens is looked up once, so that a
/// long row of brackets costs no more than its length.
fn without_punctuation(url: &[u8]) -> usize {
    let opens = |bracket| memchr(bracket, url).unwrap_or(url.len());
    let (round, square) = (opens(b'('), opens(b'['));
    let mut end = url.len();
    while let Some(last) = end.checked_sub(1) {
        let drop = match url[last] {
            b'.' | b',' | b';' | b':' | b'!' | b'?' | b'\'' | b'*' | b'_' | b'~' | b'(' | b'[' => {
                true
            }
            b')' => round >= last,
            b']' => square >= last,
            _ => false,
        };
        if !drop {
            break;
        }
        end = last;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(text: &str) -> Vec<&str> {
        find(text).map(|f| &text[f.range]).collect()
    }

    #[test]
    fn with_scheme() {
        assert_eq!(
            urls("see http://a.example/x, or (https://b.example/y)."),
            ["http://a.example/x", "https://b.example/y"]
        );
        assert_eq!(urls("<http://a.example/x_(y)>"), ["http://a.example/x_(y)"]);
        assert_eq!(urls("xhttp://a.example\"b"), ["http://a.example"]);
        assert_eq!(urls("hxxp://evil[.]example/p ok"), ["hxxp://evil[.]example/p"]);
        assert_eq!(urls("http:\\\\a.example\\x"), ["http:\\\\a.example\\x"]);
        assert_eq!(urls("点http://a.example/路。下"), ["http://a.example/路"]);
        assert_eq!(urls("mailto:joe@a.example"), ["mailto:joe@a.example"]);
        assert_eq!(urls("http:// nothing, foo://bar ::"), [""; 0]);
    }

    #[test]
    fn without_scheme() {
        assert_eq!(
            urls("www.example.com/a?b. And example.org/x; EXAMPLE.COM"),
            ["www.example.com/a?b", "example.org/x", "EXAMPLE.COM"]
        );
        assert_eq!(urls("go to shop.example.co.uk!"), ["shop.example.co.uk"]);
        assert_eq!(urls("joe@example.com a.b@example.com e.g. i.e. 3.14 v1.2.3"), [""; 0]);
        assert_eq!(urls("the end.So it goes. main.py readme.md lib.rs a.out co.uk"), [""; 0]);
        assert_eq!(urls("impl.cc:433 user_x.org node.name eth0.network"), [""; 0]);
        assert_eq!(urls("path/example.com/x a...b"), [""; 0]);
        assert_eq!(urls("..example.com.."), ["example.com"]);
    }
}
