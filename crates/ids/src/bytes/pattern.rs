//! `pcre`: patterns of PCRE2 with Suricata's flags and limits.

use pcre2::bytes::{CaptureLocations, Regex, RegexBuilder};

/// Flags of PCRE2 itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// `A`: matches begin at the start.
    pub anchored: bool,
    /// `E`: `$` is the very end.
    pub dollar_end_only: bool,
    /// `G`: quantifiers take as little as they can.
    pub ungreedy: bool,
    /// `i`
    pub caseless: bool,
    /// `m`
    pub multi_line: bool,
    /// `s`
    pub dot_all: bool,
    /// `x`
    pub extended: bool,
}

/// Where a group of a pattern is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// Variable of the flow by number.
    Flow(u32),
    /// Variable of the packet by number (logged by EVE).
    Packet(u32),
    /// A key and its value are both captured (`pkt:key,pkt:value`), the key first.
    PacketKey,
    /// Its value.
    PacketValue,
    /// Logged with the alert, by the variable's number.
    Alert(u32),
}

/// A compiled pattern with its flags and captures.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Between the slashes.
    pub text: String,
    /// Flags of PCRE2.
    pub flags: Flags,
    /// `R`: it begins behind the last match.
    pub relative: bool,
    /// It must not match.
    pub negated: bool,
    /// A match that follows is relative to it: its next places are tried too.
    pub has_next: bool,
    /// Where its groups are kept, the first group first.
    pub captures: Vec<Capture>,
    regex: Regex,
}

/// What a pattern found: the whole match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Pattern {
    /// Compiles a pattern; `limits` are PCRE2's limits of backtracking and of its depth. The error
    /// is PCRE2's message, with the place in `text`.
    pub fn new(text: &str, flags: Flags, limits: (u32, u32)) -> Result<Self, String> {
        let regex = RegexBuilder::new()
            .jit_if_available(true)
            .build(&source(text, flags, limits))
            .map_err(|error| complaint(text, flags, limits, &error))?;
        Ok(Self {
            text: text.to_owned(),
            flags,
            relative: false,
            negated: false,
            has_next: false,
            captures: Vec::new(),
            regex,
        })
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.regex.captures_len().saturating_sub(1)
    }

    /// Working memory for its groups.
    pub fn locations(&self) -> CaptureLocations {
        self.regex.capture_locations()
    }

    /// The leftmost match from `from` on; `Err` if a limit was reached.
    pub fn find(
        &self,
        bytes: &[u8],
        from: usize,
        locations: Option<&mut CaptureLocations>,
    ) -> Result<Option<Found>, LimitReached> {
        if from > bytes.len() {
            return Ok(None);
        }
        let found = match locations {
            Some(locations) => self.regex.captures_read_at(locations, bytes, from),
            None => self.regex.find_at(bytes, from),
        };
        let found = found.map_err(|_| LimitReached)?;
        Ok(found.map(|found| Found { start: found.start(), end: found.end() }))
    }
}

/// The match was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a limit of the pattern's backtracking was reached")]
pub struct LimitReached;

/// What is wrong with a pattern, and where: PCRE2 counts from the beginning of [`source`].
fn complaint(text: &str, flags: Flags, limits: (u32, u32), error: &pcre2::Error) -> String {
    let told = error.to_string();
    let Some(offset) = error.offset() else { return format!("pattern {text:?}: {told}") };
    let own = own_offset(text, flags, offset.saturating_sub(before(flags, limits).len()));
    let told = told.replacen(&format!("offset {offset}"), &format!("offset {own}"), 1);
    format!("pattern {text:?}: {told}")
}

/// The place in the rule's text of one in what PCRE2 gets for it.
fn own_offset(text: &str, flags: Flags, offset: usize) -> usize {
    if !flags.dollar_end_only {
        return offset.min(text.len());
    }
    let mut ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
    let is_there = |end: &usize| end_only(text.get(..*end).unwrap_or(text)).len() >= offset;
    if offset == 0 { 0 } else { ends.find(is_there).unwrap_or(text.len()) }
}

/// What is written before a pattern: limits and flags.
fn before(flags: Flags, (matches, depth): (u32, u32)) -> String {
    let mut out = format!("(*LIMIT_MATCH={matches})(*LIMIT_DEPTH={depth})");
    let letters = [
        (flags.caseless, 'i'),
        (flags.multi_line, 'm'),
        (flags.dot_all, 's'),
        (flags.extended, 'x'),
        (flags.ungreedy, 'U'),
    ];
    let set: String = letters.iter().filter(|(is_set, _)| *is_set).map(|(_, l)| l).collect();
    if !set.is_empty() {
        out.push_str("(?");
        out.push_str(&set);
        out.push(')');
    }
    if flags.anchored {
        out.push_str("\\A(?:");
    }
    out
}

/// The pattern as PCRE2 gets it.
fn source(text: &str, flags: Flags, limits: (u32, u32)) -> String {
    let mut out = before(flags, limits);
    let text = if flags.dollar_end_only { end_only(text) } else { text.to_owned() };
    out.push_str(&text);
    if flags.anchored {
        // A comment of an extended pattern must not hide the bracket.
        out.push_str(if flags.extended { "\n)" } else { ")" });
    }
    out
}

/// Writes `$` outside classes as `\z`.
fn end_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut escaped, mut in_class) = (false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '$' if !in_class => {
                out.push_str("\\z");
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, flags: Flags, bytes: &[u8]) -> Option<(usize, usize)> {
        let pattern = Pattern::new(text, flags, (3500, 1500)).expect("it compiles");
        let found = pattern.find(bytes, 0, None).expect("within limits");
        found.map(|found| (found.start, found.end))
    }

    #[test]
    fn flags_hold() {
        let none = Flags::default();
        assert_eq!(find("B+", Flags { caseless: true, ..none }, b"abbc"), Some((1, 3)));
        assert_eq!(find("b+", Flags { ungreedy: true, ..none }, b"abbc"), Some((1, 2)));
        assert_eq!(find("b", Flags { anchored: true, ..none }, b"ab"), None);
        assert_eq!(find("a|b", Flags { anchored: true, ..none }, b"xb"), None);
        assert_eq!(find("b$", none, b"ab\n"), Some((1, 2)));
        assert_eq!(find("b$", Flags { dollar_end_only: true, ..none }, b"ab\n"), None);
        assert_eq!(find("[$]b\\$", Flags { dollar_end_only: true, ..none }, b"$b$"), Some((0, 3)));
        let extended = Flags { extended: true, anchored: true, ..none };
        assert_eq!(find("a b # end", extended, b"ab"), Some((0, 2)));
        assert_eq!(find("^b", Flags { multi_line: true, ..none }, b"a\nb"), Some((2, 3)));
        assert_eq!(find("\\xff", none, b"a\xff"), Some((1, 2)));
    }

    #[test]
    fn catastrophic_patterns_are_given_up() {
        let pattern = Pattern::new("^(a+)+$", Flags::default(), (3500, 1500)).expect("compiles");
        let text = [b'a'; 64].into_iter().chain(*b"b").collect::<Vec<u8>>();
        let found = pattern.find(&text, 0, None);
        assert!(matches!(found, Err(LimitReached) | Ok(None)), "{found:?}");
    }

    #[test]
    fn bad_patterns_are_told() {
        let told = |text, flags| Pattern::new(text, flags, (3500, 1500)).expect_err("refused");
        let all = Flags { anchored: true, dollar_end_only: true, caseless: true, ..none() };
        for (text, flags, place) in [
            ("(", none(), "offset 1:"),
            ("a$b$[", none(), "offset 5:"),
            ("a$b$[", all, "offset 5:"),
            ("a$b)", Flags { dollar_end_only: true, ..none() }, "offset 3:"),
            ("a)b", none(), "offset 1:"),
        ] {
            let told = told(text, flags);
            assert!(told.contains(place), "{told}");
        }
    }

    fn none() -> Flags {
        Flags::default()
    }
}
