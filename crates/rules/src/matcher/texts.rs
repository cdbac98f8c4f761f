//! Rules on strings: `body`, `rawbody`, `uri`, `full`.

use super::prefilter::Prefilter;
use super::{Member, Place, Tally};

/// All rules of one view.
#[derive(Debug)]
pub(crate) struct TextRules {
    members: Vec<Member>,
    prefilter: Prefilter,
}

impl TextRules {
    /// Rules that see the same strings.
    pub(crate) fn new(members: Vec<Member>) -> Self {
        let prefilter = Prefilter::new(members.iter().map(|m| &m.pattern));
        TextRules { members, prefilter }
    }

    /// Whether there is no rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Patterns that no string of theirs speaks for, so that they are tried on every text.
    pub(crate) fn always(&self) -> impl Iterator<Item = &Member> {
        self.prefilter.without_strings().filter_map(|m| self.members.get(m as usize))
    }

    /// Every member.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Tries the rules on the strings in order; `place` names the string of this number.
    pub(crate) fn scan<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        place: impl Fn(u32) -> Place,
        tally: &mut Tally,
    ) {
        self.scan_some(strings, place, |_| true, tally);
    }

    /// The same for the rules that are chosen.
    pub(crate) fn scan_some<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        place: impl Fn(u32) -> Place,
        chosen: impl Fn(&Member) -> bool,
        tally: &mut Tally,
    ) {
        for (number, text) in (0u32..).zip(strings) {
            let mut candidates = std::mem::take(&mut tally.candidates);
            self.prefilter.search(text, &mut tally.buffers, &mut candidates);
            for member in &candidates {
                let at = *member;
                let Some(member) = self.members.get(at as usize) else { continue };
                let full = tally.count(member.rule) >= f64::from(member.hits_max);
                let too_short = text.len() < member.pattern.min_len();
                let is_subject = number == 0;
                if !(full || too_short || member.nosubject && is_subject) && chosen(member) {
                    if member.can_wait && tally.pending.is_on {
                        tally.pending.put_off_text(member.rule, place(number), at);
                    } else {
                        member.apply(text, place(number), tally);
                    }
                }
            }
            tally.candidates = candidates;
        }
    }
}
