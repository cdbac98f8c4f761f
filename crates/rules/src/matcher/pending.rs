//! Work that is put off until a meta needs its answer.
//!
//! A sub-rule matters only through the metas that name it. Most metas are false whatever it says, so
//! its pattern is not tried where it might match: the place is kept, and looked at when an answer is
//! asked for (see `crate::demand`).

use super::Place;

/// What is left to do for a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Work {
    /// Nothing: its count is known.
    #[default]
    Done,
    /// Texts to try it on, from this place in the list backwards.
    Texts(u32),
    /// An eval, by its place.
    Eval(u32),
    /// A rule with tags, by its place.
    Template(u32),
    /// A rule on the details of URIs, by its place.
    UriDetail(u32),
    /// A meta, by its place.
    Meta(u32),
}

/// A text that a pattern may match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) place: Place,
    /// Place of the pattern among those of the view or header value.
    pub(crate) member: u32,
    /// No match begins before this place of the text.
    pub(crate) start: u32,
    /// The candidate before it of the same rule.
    previous: Option<u32>,
}

/// What is put off in one message.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Sub-rules are put off.
    pub(crate) is_on: bool,
    /// By rule what is left to do, and bytes of the texts that wait to be searched.
    slots: Vec<(Work, u32)>,
    candidates: Vec<Candidate>,
    /// Rules that were put off, in this order.
    pub(crate) rules: Vec<u32>,
}

impl Pending {
    /// Begins a message over `rules` rules.
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

    /// What is left to do for a rule.
    pub(crate) fn work(&self, rule: u32) -> Work {
        self.slots.get(rule as usize).map_or(Work::Done, |slot| slot.0)
    }

    /// Puts a rule off.
    pub(crate) fn put_off(&mut self, rule: u32, work: Work) {
        if let Some(slot) = self.slots.get_mut(rule as usize) {
            if slot.0 == Work::Done {
                self.rules.push(rule);
            }
            slot.0 = work;
        }
    }

    /// How many bytes of text a rule's pattern waits to be tried on.
    pub(crate) fn bytes(&self, rule: u32) -> usize {
        self.slots.get(rule as usize).map_or(0, |slot| slot.1 as usize)
    }

    /// Puts off trying a pattern on this text at a place, from `start` on, after those that wait already.
    pub(super) fn put_off_text(
        &mut self,
        rule: u32,
        text: &[u8],
        start: usize,
        (place, member): (Place, u32),
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
        self.candidates.push(Candidate { place, member, start, previous });
        self.put_off(rule, Work::Texts(at));
    }

    /// Takes what is left to do for a rule, which then counts as done.
    pub(crate) fn take(&mut self, rule: u32) -> Work {
        self.slots.get_mut(rule as usize).map_or(Work::Done, |slot| std::mem::take(&mut slot.0))
    }

    /// Puts the candidates of a rule, of which `last` is the last, into `out`, in order.
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
