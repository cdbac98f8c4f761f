//! Candidates among rules, by their fast patterns: all are searched at once (A. Aho, M. Corasick,
//! "Efficient string matching", 1975).

use std::collections::BTreeMap;

use aho_corasick::automaton::{Automaton, OverlappingState};
use aho_corasick::{Anchored, Input, MatchKind, nfa::contiguous::NFA};

use crate::rule::FastPattern;

/// Searches many fast patterns at once in one kind of buffer. Rules are numbers of the caller,
/// rising in evaluation order.
#[derive(Debug, Default)]
pub struct Matcher {
    automaton: Option<NFA>,
    /// By the number of a pattern in the automaton: who has it.
    users: Vec<Vec<User>>,
    /// Rules whose pattern is empty or must not be there: always candidates.
    always: Vec<u32>,
}

/// A rule with a pattern.
#[derive(Debug)]
struct User {
    rule: u32,
    /// The bytes with their case, if that counts.
    exact: Option<Vec<u8>>,
    /// It does not begin before this place.
    offset: usize,
    /// It ends at this place or before; 0 is anywhere.
    depth: usize,
    ends_with: bool,
}

/// Working memory; one a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// By rule: the search in which it was found last.
    seen: Vec<u32>,
    search: u32,
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
}

impl Matcher {
    /// A matcher for these rules.
    pub fn new(patterns: &[(u32, &FastPattern)]) -> Self {
        let mut matcher = Self::default();
        let mut numbers: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (rule, pattern) in patterns {
            if pattern.bytes.is_empty() || pattern.negated {
                matcher.always.push(*rule);
                continue;
            }
            let next = numbers.len();
            let number = *numbers.entry(pattern.bytes.to_ascii_lowercase()).or_insert(next);
            if number == matcher.users.len() {
                matcher.users.push(Vec::new());
            }
            let user = User {
                rule: *rule,
                exact: (!pattern.nocase).then(|| pattern.bytes.clone()),
                offset: pattern.offset as usize,
                depth: pattern.depth as usize,
                ends_with: pattern.ends_with,
            };
            if let Some(users) = matcher.users.get_mut(number) {
                users.push(user);
            }
        }
        let mut ordered: Vec<_> = numbers.into_iter().collect();
        ordered.sort_by_key(|(_, number)| *number);
        if !ordered.is_empty() {
            let bytes = ordered.iter().map(|(bytes, _)| bytes);
            let builder = NFA::builder()
                .ascii_case_insensitive(true)
                .match_kind(MatchKind::Standard)
                .build(bytes);
            matcher.automaton = builder.ok();
            if matcher.automaton.is_none() {
                // Too many for the automaton's numbers: everything is a candidate.
                let users = matcher.users.iter().flatten();
                matcher.always.extend(users.map(|user| user.rule));
            }
        }
        matcher
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.always.is_empty()
    }

    /// Appends the rules whose pattern is in the buffer to `out`, once each, in their order.
    pub fn candidates(&self, bytes: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        if self.is_empty() {
            return;
        }
        let before = out.len();
        self.find(bytes, scratch, out);
        if let Some(found) = out.get_mut(before..) {
            found.sort_unstable();
        }
    }

    fn find(&self, bytes: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        scratch.begin();
        for rule in &self.always {
            if scratch.is_new(*rule) {
                out.push(*rule);
            }
        }
        let Some(automaton) = &self.automaton else { return };
        let input = Input::new(bytes).anchored(Anchored::No);
        let mut state = OverlappingState::start();
        loop {
            if automaton.try_find_overlapping(&input, &mut state).is_err() {
                return;
            }
            let Some(found) = state.get_match() else { return };
            let Some(users) = self.users.get(found.pattern().as_usize()) else { continue };
            for user in users {
                if user.fits(bytes, found.start(), found.end()) && scratch.is_new(user.rule) {
                    out.push(user.rule);
                }
            }
        }
    }
}

impl User {
    fn fits(&self, bytes: &[u8], start: usize, end: usize) -> bool {
        start >= self.offset
            && (self.depth == 0 || end <= self.depth)
            && (!self.ends_with || end == bytes.len())
            && self.exact.as_ref().is_none_or(|exact| bytes.get(start..end) == Some(exact))
    }
}
