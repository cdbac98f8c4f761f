//! Work that is deferred until a meta needs its result.
//!
//! A sub-rule matters only through the metas that name it. Most metas are false whatever its result
//! is, so its pattern is not matched where it might match: the candidate is recorded, and matched
//! only if the lazy evaluator asks for it (see `crate::lazy_evaluator`).

use super::Location;

/// The deferred work of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Work {
    /// None: its count is known.
    #[default]
    Done,
    /// Candidates to match, a list linked backwards from this index.
    Texts(u32),
    /// An eval function, by its index.
    Eval(u32),
    /// A rule with tags, by its index.
    Template(u32),
    /// A `uri_detail` rule, by its index.
    UriDetail(u32),
    /// A meta, by its index.
    Meta(u32),
}

/// A text that a pattern may match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) location: Location,
    /// Index of the pattern among those of the view or header value.
    pub(crate) member: u32,
    /// No match begins before this byte of the text.
    pub(crate) start: u32,
    /// The candidate before it of the same rule.
    previous: Option<u32>,
}

/// The deferred work of one message.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Sub-rules are deferred; off where the count of every rule is wanted
    /// (`LoadOptions::subtests`).
    pub(crate) is_on: bool,
    /// For each rule its deferred work, and the bytes of text that it has still to search.
    slots: Vec<(Work, u32)>,
    candidates: Vec<Candidate>,
    /// Deferred rules, in the order in which they were deferred.
    pub(crate) rules: Vec<u32>,
}

impl Pending {
    /// Starts a message with a ruleset of `rules` rules.
    pub(super) fn begin(&mut self, rules: usize, is_on: bool) {
        self.is_on = is_on;
        for rule in self.rules.drain(..) {
            if let Some(slot) = self.slots.get_mut(rule as usize) {
                *slot = (Work::Done, 0);
            }
        }
        self.slots.resize(rules, (Work::Done, 0));
        self.candidates.clear();
    }

    /// The deferred work of a rule.
    pub(crate) fn work(&self, rule: u32) -> Work {
        self.slots.get(rule as usize).map_or(Work::Done, |slot| slot.0)
    }

    pub(crate) fn defer(&mut self, rule: u32, work: Work) {
        if let Some(slot) = self.slots.get_mut(rule as usize) {
            if slot.0 == Work::Done {
                self.rules.push(rule);
            }
            slot.0 = work;
        }
    }

    /// Bytes of text that a rule's pattern has still to search.
    pub(crate) fn bytes(&self, rule: u32) -> usize {
        self.slots.get(rule as usize).map_or(0, |slot| slot.1 as usize)
    }

    /// Defers matching a pattern on this text from `start` on, after the rule's earlier candidates.
    pub(super) fn defer_text(
        &mut self,
        rule: u32,
        text: &[u8],
        start: usize,
        (location, member): (Location, u32),
    ) {
        let start = u32::try_from(start).unwrap_or_default();
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        if let Some((_, bytes)) = self.slots.get_mut(rule as usize) {
            *bytes = bytes.saturating_add(length.saturating_sub(start));
        }
        let Ok(at) = u32::try_from(self.candidates.len()) else { return };
        let previous = match self.work(rule) {
            Work::Texts(previous) => Some(previous),
            _ => None,
        };
        self.candidates.push(Candidate { location, member, start, previous });
        self.defer(rule, Work::Texts(at));
    }

    /// Takes the deferred work of a rule, which then counts as done.
    pub(crate) fn take(&mut self, rule: u32) -> Work {
        self.slots.get_mut(rule as usize).map_or(Work::Done, |slot| std::mem::take(&mut slot.0))
    }

    /// Collects the candidates of a rule, of which `last` is the last, in order.
    pub(crate) fn candidates(&self, last: u32, out: &mut Vec<Candidate>) {
        out.clear();
        let mut next = Some(last);
        while let Some(candidate) = next.and_then(|at| self.candidates.get(at as usize)) {
            out.push(*candidate);
            next = candidate.previous;
        }
        out.reverse();
    }
}
