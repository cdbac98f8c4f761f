//! Rules on strings: `body`, `rawbody`, `uri`, `full`.

use super::prefilter::Prefilter;
use super::{Member, Place, Tally};
use crate::pattern::literal::Texts;

/// All rules of one view.
#[derive(Debug)]
pub(crate) struct TextRules {
    members: Vec<Member>,
    /// What is asked of each member before it is tried, side by side.
    briefs: Vec<Brief>,
    prefilter: Prefilter,
    /// The members that wait without a look at the text, and a prefilter for the others (whose
    /// numbers stand beside it).
    unseen: Option<(Vec<u32>, Prefilter, Vec<u32>)>,
}

/// What says whether a member is tried now.
#[derive(Debug)]
struct Brief {
    rule: u32,
    hits_max: u32,
    /// Fewest bytes of a match.
    min_len: u32,
    priority: i32,
    nosubject: bool,
    can_wait: bool,
}

impl Brief {
    fn of(member: &Member) -> Self {
        Brief {
            rule: member.rule,
            hits_max: member.hits_max,
            min_len: u32::try_from(member.pattern.min_len()).unwrap_or(u32::MAX),
            priority: member.priority,
            nosubject: member.nosubject,
            can_wait: member.can_wait,
        }
    }
}

impl TextRules {
    /// Rules that see the same strings, of this kind.
    pub(crate) fn new(members: Vec<Member>, texts: Texts) -> Self {
        let patterns = members.iter().map(|m| (&m.pattern, !m.can_wait));
        let prefilter = Prefilter::on(texts, patterns);
        let briefs = members.iter().map(Brief::of).collect();
        TextRules { members, briefs, prefilter, unseen: None }
    }

    /// The same for one large text: members that can wait are put off without a look at it.
    pub(crate) fn on_one_text(members: Vec<Member>) -> Self {
        let (waiting, others): (Vec<u32>, Vec<u32>) = (0u32..members.len() as u32)
            .partition(|at| members.get(*at as usize).is_some_and(|m| m.can_wait));
        let patterns = others.iter().filter_map(|at| members.get(*at as usize));
        let prefilter = Prefilter::on(Texts::Raw, patterns.map(|m| (&m.pattern, true)));
        TextRules {
            unseen: Some((waiting, prefilter, others)),
            ..TextRules::new(members, Texts::Raw)
        }
    }

    /// Tries the rules on one text.
    pub(crate) fn scan_one(&self, text: &[u8], place: Place, tally: &mut Tally) {
        let Some((waiting, prefilter, others)) = &self.unseen else {
            return self.scan(std::iter::once(text), |_| place, tally);
        };
        if !tally.pending.is_on {
            return self.scan(std::iter::once(text), |_| place, tally);
        }
        for at in waiting {
            if let Some(member) = self.members.get(*at as usize).filter(|m| !m.nosubject) {
                tally.pending.put_off_text(member.rule, text, 0, (place, *at));
            }
        }
        let mut candidates = std::mem::take(&mut tally.candidates);
        prefilter.search(text, &mut tally.buffers, &mut candidates);
        for found in &candidates {
            let at = others.get(*found as usize).map_or(0, |at| *at as usize);
            let fits = |m: &&Member| !m.nosubject && m.pattern.min_len() <= text.len();
            if let Some(member) = self.members.get(at).filter(fits) {
                let start = prefilter.start(*found, text, &tally.buffers);
                member.apply(text, start, place, tally);
            }
        }
        tally.candidates = candidates;
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

    /// The same for the rules that are chosen by their priority.
    pub(crate) fn scan_some<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        place: impl Fn(u32) -> Place,
        chosen: impl Fn(i32) -> bool,
        tally: &mut Tally,
    ) {
        for (number, text) in (0u32..).zip(strings) {
            let mut candidates = std::mem::take(&mut tally.candidates);
            self.prefilter.search(text, &mut tally.buffers, &mut candidates);
            for &at in &candidates {
                let Some(brief) = self.briefs.get(at as usize) else { continue };
                let full = tally.count(brief.rule) >= f64::from(brief.hits_max);
                let too_short = text.len() < brief.min_len as usize;
                let is_subject = number == 0;
                if full || too_short || brief.nosubject && is_subject || !chosen(brief.priority) {
                    continue;
                }
                let start = self.prefilter.start(at, text, &tally.buffers);
                let place = place(number);
                if brief.can_wait && tally.pending.is_on {
                    tally.pending.put_off_text(brief.rule, text, start, (place, at));
                } else if let Some(member) = self.members.get(at as usize) {
                    member.apply(text, start, place, tally);
                }
            }
            tally.candidates = candidates;
        }
    }
}
