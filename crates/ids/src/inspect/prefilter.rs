//! Candidates among rules, by their fast patterns: all are searched at once.

use std::collections::BTreeMap;

use super::grams::{Length, Table};
use super::tiny::{Tiny, Wanted};
use crate::rule::FastPattern;

/// Patterns that end before this place are looked for in the beginning alone.
const HEAD_BYTES_MAX: u32 = 256;

/// Searches many fast patterns at once in one kind of buffer. Rules are numbers of the caller,
/// rising in evaluation order.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Bytes of all patterns: in small letters, and as they are written where the case counts.
    texts: Vec<u8>,
    patterns: Vec<Pattern>,
    users: Vec<User>,
    tables: Vec<Search>,
    /// Patterns of one to three bytes, if they are few.
    tiny: Tiny,
    /// Rules whose pattern is empty or must not be there: always candidates.
    always: Vec<u32>,
}

/// A part of the texts: its beginning and length.
type Text = (u32, u32);

/// A table, and how many bytes from the beginning its patterns lie in.
#[derive(Debug)]
struct Search {
    table: Table,
    within: usize,
}

/// A pattern without its case, and who has it.
#[derive(Debug)]
struct Pattern {
    text: Text,
    /// Its first user, and the one behind the last.
    users: (u32, u32),
}

/// A rule with a pattern.
#[derive(Debug)]
struct User {
    rule: u32,
    /// The bytes with their case, if that counts.
    exact: Option<Text>,
    /// It does not begin before this place.
    offset: u32,
    /// It ends at this place or before; 0 is anywhere.
    depth: u32,
    ends_with: bool,
}

/// Working memory; one a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// By rule: the search in which it was found last.
    seen: Vec<u32>,
    search: u32,
    /// Room for candidates, to be used again.
    pub(crate) room: Vec<u32>,
}

impl Scratch {
    fn begin(&mut self) {
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.seen.clear();
            self.search = 1;
        }
    }

    /// Whether it is the first time in this search.
    fn is_new(&mut self, rule: u32) -> bool {
        let place = rule as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, 0);
        }
        match self.seen.get_mut(place) {
            Some(seen) if *seen != self.search => {
                *seen = self.search;
                true
            }
            _ => false,
        }
    }

    /// Whether the rule was found in this search.
    fn has_seen(&self, rule: u32) -> bool {
        self.seen.get(rule as usize) == Some(&self.search)
    }
}

impl Matcher {
    /// A matcher for these rules.
    pub fn new(patterns: &[(u32, &FastPattern)]) -> Self {
        let mut matcher = Self::default();
        let mut by_text: BTreeMap<Vec<u8>, Vec<(u32, &FastPattern)>> = BTreeMap::new();
        for (rule, pattern) in patterns {
            if pattern.bytes.is_empty() || pattern.negated {
                matcher.always.push(*rule);
                continue;
            }
            by_text.entry(pattern.bytes.to_ascii_lowercase()).or_default().push((*rule, pattern));
        }
        let mut tables: BTreeMap<(Length, bool), (Vec<u32>, u32)> = BTreeMap::new();
        let is_tiny = |text: &&Vec<u8>| text.len() <= Length::TINY_MAX;
        let are_few = by_text.keys().filter(is_tiny).count() <= Tiny::PATTERNS_MAX;
        let mut tiny = Vec::new();
        for (number, (text, users)) in (0u32..).zip(&by_text) {
            let is_head = users.iter().all(|(_, p)| (1..=HEAD_BYTES_MAX).contains(&p.depth));
            let depth = users.iter().map(|(_, p)| p.depth).max().unwrap_or_default();
            match Length::of(text.len()) {
                Some(length) if length != Length::Tiny || !are_few => {
                    let (numbers, within) = tables.entry((length, is_head)).or_default();
                    numbers.push(number);
                    *within = if is_head { depth.max(*within) } else { u32::MAX };
                }
                _ => {
                    let any_case = users.iter().any(|(_, pattern)| pattern.nocase);
                    let exact = users.iter().map(|(_, pattern)| pattern.bytes.as_slice());
                    let exact = exact.filter(|_| !any_case).collect();
                    let within = is_head.then_some(depth as usize);
                    tiny.push(Wanted { number, text, exact, within });
                }
            }
            let text = matcher.keep(text);
            let first = matcher.count();
            for (rule, pattern) in users {
                let exact = (!pattern.nocase).then(|| matcher.keep(&pattern.bytes));
                matcher.users.push(User {
                    rule: *rule,
                    exact,
                    offset: pattern.offset,
                    depth: pattern.depth,
                    ends_with: pattern.ends_with,
                });
            }
            let users = (first, matcher.count());
            matcher.patterns.push(Pattern { text, users });
        }
        matcher.tiny = Tiny::new(tiny);
        for ((length, _), (numbers, within)) in tables {
            let text = |number: u32| matcher.patterns.get(number as usize).map(|p| p.text);
            let numbers = numbers.iter().filter_map(|n| Some((*n, matcher.text(text(*n)?))));
            let table = Table::new(length, numbers);
            matcher.tables.push(Search { table, within: within as usize });
        }
        matcher.texts.shrink_to_fit();
        matcher.users.shrink_to_fit();
        matcher.patterns.shrink_to_fit();
        matcher
    }

    fn keep(&mut self, text: &[u8]) -> Text {
        let start = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.extend_from_slice(text);
        (start, u32::try_from(text.len()).unwrap_or(u32::MAX))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.users.len()).unwrap_or(u32::MAX)
    }

    fn text(&self, (start, len): Text) -> &[u8] {
        let start = start as usize;
        self.texts.get(start..start + len as usize).unwrap_or_default()
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.always.is_empty()
    }

    /// Appends the rules whose pattern is in the buffer to `out`, once each, in any order.
    pub fn candidates(&self, bytes: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        if self.is_empty() {
            return;
        }
        out.extend_from_slice(&self.always);
        scratch.begin();
        self.tiny
            .search(bytes, &mut |pattern, start| self.compare(pattern, start, bytes, scratch, out));
        let mut found = |pattern: u32, start: usize| {
            self.compare(pattern, start, bytes, scratch, out);
        };
        for search in &self.tables {
            let part = bytes.get(..search.within).unwrap_or(bytes);
            search.table.search(part, &mut found);
        }
    }

    /// Adds the rules of a pattern, if it lies here as they want it. Whether all its rules were
    /// found by now, so that it need not be looked for any more.
    fn compare(
        &self,
        pattern: u32,
        start: usize,
        bytes: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) -> bool {
        let Some(pattern) = self.patterns.get(pattern as usize) else { return true };
        let end = start + pattern.text.1 as usize;
        let Some(found) = bytes.get(start..end) else { return false };
        if !found.eq_ignore_ascii_case(self.text(pattern.text)) {
            return false;
        }
        let mut are_all_found = true;
        let (first, last) = (pattern.users.0 as usize, pattern.users.1 as usize);
        for user in self.users.get(first..last).unwrap_or_default() {
            let fits = start >= user.offset as usize
                && (user.depth == 0 || end <= user.depth as usize)
                && (!user.ends_with || end == bytes.len())
                && user.exact.is_none_or(|exact| self.text(exact) == found);
            if fits && scratch.is_new(user.rule) {
                out.push(user.rule);
            }
            are_all_found &= fits || scratch.has_seen(user.rule);
        }
        are_all_found
    }
}
