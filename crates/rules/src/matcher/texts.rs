//! Rules on the texts of a view: `body`, `rawbody`, `uri`, `full`.

use super::prefilter::Prefilter;
use super::{Location, Member, Tally};
use crate::pattern::frequency::TextKind;

/// All rules of one view.
#[derive(Debug)]
pub(crate) struct TextRules {
    members: Vec<Member>,
    /// What decides for each member whether it is tried, side by side in memory.
    summaries: Vec<MemberSummary>,
    prefilter: Prefilter,
    /// The members that are deferred without searching the text, and a prefilter for the others
    /// (whose numbers are beside it).
    unseen: Option<(Vec<u32>, Prefilter, Vec<u32>)>,
}

/// What decides whether a member is tried.
#[derive(Debug)]
pub(crate) struct MemberSummary {
    rule: u32,
    hits_max: u32,
    /// Fewest bytes of a match.
    min_len: u32,
    pub(crate) priority: i32,
    nosubject: bool,
    /// As [`Member::is_nice`]; a copy, so that skipping a rule does not load its `Member`.
    pub(crate) is_nice: bool,
    is_deferrable: bool,
}

impl MemberSummary {
    fn of(member: &Member) -> Self {
        MemberSummary {
            rule: member.rule,
            hits_max: member.hits_max,
            min_len: u32::try_from(member.pattern.min_len()).unwrap_or(u32::MAX),
            priority: member.priority,
            nosubject: member.nosubject,
            is_nice: member.is_nice,
            is_deferrable: member.is_deferrable,
        }
    }
}

impl TextRules {
    /// Rules on the same texts, of this kind.
    pub(crate) fn new(members: Vec<Member>, texts: TextKind) -> Self {
        let patterns = members.iter().map(|m| (&m.pattern, !m.is_deferrable));
        let prefilter = Prefilter::on(texts, patterns);
        let summaries = members.iter().map(MemberSummary::of).collect();
        TextRules { members, summaries, prefilter, unseen: None }
    }

    /// The same for one large text (`full`): deferrable members are deferred without searching it,
    /// because most are never asked for, and the whole message is the most expensive text to
    /// search.
    pub(crate) fn on_one_text(members: Vec<Member>) -> Self {
        let (waiting, others): (Vec<u32>, Vec<u32>) = (0u32..members.len() as u32)
            .partition(|at| members.get(*at as usize).is_some_and(|m| m.is_deferrable));
        let patterns = others.iter().filter_map(|at| members.get(*at as usize));
        let prefilter = Prefilter::on(TextKind::Raw, patterns.map(|m| (&m.pattern, true)));
        TextRules {
            unseen: Some((waiting, prefilter, others)),
            ..TextRules::new(members, TextKind::Raw)
        }
    }

    /// Evaluates the rules on one text.
    pub(crate) fn scan_one(&self, text: &[u8], location: Location, tally: &mut Tally) {
        let Some((waiting, prefilter, others)) = &self.unseen else {
            return self.scan(std::iter::once(text), |_| location, tally);
        };
        if !tally.pending.is_on {
            return self.scan(std::iter::once(text), |_| location, tally);
        }
        for at in waiting {
            if let Some(member) = self.members.get(*at as usize).filter(|m| !m.nosubject) {
                tally.pending.defer_text(member.rule, text, 0, (location, *at));
            }
        }
        let mut candidates = std::mem::take(&mut tally.candidates);
        prefilter.search(text, &mut tally.buffers, &mut candidates);
        for found in &candidates {
            let at = others.get(*found as usize).map_or(0, |at| *at as usize);
            let fits = |m: &&Member| !m.nosubject && m.pattern.min_len() <= text.len();
            if let Some(member) = self.members.get(at).filter(fits) {
                let start = prefilter.start(*found, text, &tally.buffers);
                member.apply(text, start, location, tally);
            }
        }
        tally.candidates = candidates;
    }

    /// Whether there is no rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Members whose pattern has no string or sequence, so that they are tried on every text.
    pub(crate) fn always(&self) -> impl Iterator<Item = &Member> {
        self.prefilter.without_strings().filter_map(|m| self.members.get(m as usize))
    }

    /// All rules of these texts, in the order of the prefilter's patterns.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Evaluates the rules on the texts in order; `location` gives that of the text of this number.
    pub(crate) fn scan<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        location: impl Fn(u32) -> Location,
        tally: &mut Tally,
    ) {
        self.scan_some(strings, location, |_, _| true, tally);
    }

    /// The same for the rules that are `chosen` for the text of a number.
    pub(crate) fn scan_some<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        location: impl Fn(u32) -> Location,
        chosen: impl Fn(&MemberSummary, u32) -> bool,
        tally: &mut Tally,
    ) {
        for (number, text) in (0u32..).zip(strings) {
            let mut candidates = std::mem::take(&mut tally.candidates);
            self.prefilter.search(text, &mut tally.buffers, &mut candidates);
            for &at in &candidates {
                let Some(summary) = self.summaries.get(at as usize) else { continue };
                let full = tally.count(summary.rule) >= f64::from(summary.hits_max);
                let too_short = text.len() < summary.min_len as usize;
                let is_subject = number == 0;
                if full || too_short || summary.nosubject && is_subject || !chosen(summary, number)
                {
                    continue;
                }
                let start = self.prefilter.start(at, text, &tally.buffers);
                let location = location(number);
                if summary.is_deferrable && tally.pending.is_on {
                    tally.pending.defer_text(summary.rule, text, start, (location, at));
                } else if let Some(member) = self.members.get(at as usize) {
                    member.apply(text, start, location, tally);
                }
            }
            tally.candidates = candidates;
        }
    }
}
