//! Answers metas, and of what was put off as little as that takes.
//!
//! Metas stand in an order in which each comes after what it needs. A meta that scores is looked at
//! until it is certain whether it is true; of the rules it waits for, the cheapest is answered first. A
//! meta that is itself a sub-rule is put off like any other. The result is that of answering every
//! rule: bounds are never wrong, and when a meta is true all that it names is answered, so that its
//! evidence is complete.

use std::borrow::Cow;

use crate::bounds::Bounds;
use crate::evals::EvalContext;
use crate::matcher::pending::{Candidate, Work};
use crate::matcher::{Place, Tally};
use crate::program::Program;
use crate::views::Views;

/// Cost of an eval, in the units of [`Demand::cost`].
const EVAL_COST: usize = 2_000;
/// Cost of a rule with tags: its pattern may have to be made.
const TEMPLATE_COST: usize = 20_000;
/// Cost of a rule on the details of URIs.
const URI_DETAIL_COST: usize = 1_000;
/// Cost of a meta.
const META_COST: usize = 1_000;
/// Bytes of text that a simple pattern is searched through at the cost of one unit.
const BYTES_PER_UNIT: usize = 4;

/// One message while its metas are answered.
pub(crate) struct Demand<'a, 'm, 'e> {
    program: &'a Program,
    views: &'a Views<'m>,
    evals: &'a EvalContext<'e>,
    tally: &'a mut Tally,
    /// What is certain of each rule's count; nothing else than 0 between messages.
    known: Vec<Bounds>,
    /// Header values that were asked for, by group.
    headers: Vec<(u32, Option<Cow<'a, [u8]>>)>,
    due: Vec<bool>,
}

impl<'a, 'm, 'e> Demand<'a, 'm, 'e> {
    /// Everything that is not put off has been tried.
    pub(crate) fn new(
        program: &'a Program,
        views: &'a Views<'m>,
        evals: &'a EvalContext<'e>,
        tally: &'a mut Tally,
    ) -> Self {
        let (due, known) = (std::mem::take(&mut tally.due), std::mem::take(&mut tally.known));
        Demand { program, views, evals, tally, known, headers: Vec::new(), due }
    }

    /// Answers the metas that what was found or put off can have changed.
    pub(crate) fn run(mut self) {
        let metas = &self.program.metas;
        self.due.clear();
        self.due.resize(metas.programs.len(), false);
        self.begin_known();
        for rule in self.tally.fired.iter().chain(&self.tally.pending.rules) {
            metas.mark_due(*rule, &mut self.due);
        }
        metas.always.iter().for_each(|place| self.due[*place as usize] = true);
        // Metas whose value never becomes known.
        let mut blocked: Vec<u32> = Vec::new();
        for (place, meta) in metas.programs.iter().enumerate() {
            let is_blocked = meta.guarded
                && !blocked.is_empty()
                && meta.operands.iter().any(|r| blocked.contains(r));
            if is_blocked {
                blocked.push(meta.rule);
            } else if self.due[place] {
                self.meta(place, &mut blocked);
            }
        }
        for rule in self.tally.fired.iter().chain(&self.tally.pending.rules) {
            if let Some(known) = self.known.get_mut(*rule as usize) {
                *known = Bounds::NEVER;
            }
        }
        (self.tally.due, self.tally.known) = (self.due, self.known);
    }

    /// Notes what is certain before the first meta: counts of what was tried, bounds of what was put
    /// off.
    fn begin_known(&mut self) {
        self.known.resize(self.tally.counts.len(), Bounds::NEVER);
        for rule in &self.tally.fired {
            let count = self.tally.count(*rule);
            if let Some(known) = self.known.get_mut(*rule as usize) {
                *known = Bounds::exactly(count);
            }
        }
        for rule in &self.tally.pending.rules {
            if let Some(known) = self.known.get_mut(*rule as usize) {
                *known = Bounds::between(0.0, self.program.prospect(*rule).hits_max);
            }
        }
    }

    fn know(&mut self, rule: u32, bounds: Bounds) {
        if let Some(known) = self.known.get_mut(rule as usize) {
            *known = bounds;
        }
    }

    /// Answers one meta, or puts it off.
    fn meta(&mut self, place: usize, blocked: &mut Vec<u32>) {
        let metas = &self.program.metas;
        let meta = &metas.programs[place];
        let can_wait = self.tally.pending.is_on && meta.can_wait;
        if can_wait {
            let bounds = self.bounds_of(place);
            if bounds.exact().is_none() {
                // A negative value counts as one hit.
                let high = if bounds.low < 0.0 { bounds.high.max(1.0) } else { bounds.high };
                let low = bounds.low.max(0.0);
                self.know(meta.rule, Bounds { low, high, truth: bounds.truth });
                self.tally.pending.put_off(meta.rule, Work::Meta(place as u32));
                return metas.mark_due(meta.rule, &mut self.due);
            }
        }
        let value =
            if meta.at_once { self.value_at_once(place) } else { self.value(place, can_wait) };
        if value != 0.0 && meta.silent {
            blocked.push(meta.rule);
        } else if value != 0.0 {
            self.tally.set(meta.rule, value);
            self.know(meta.rule, Bounds::exactly(self.tally.count(meta.rule)));
            metas.mark_due(meta.rule, &mut self.due);
        }
    }

    /// The value after all that the meta names is answered.
    fn value_at_once(&mut self, place: usize) -> f64 {
        let meta = &self.program.metas.programs[place];
        meta.operands.iter().for_each(|rule| self.answer(*rule));
        let counts = &self.tally.counts;
        let value = meta.expr.value(&|r| counts.get(*r as usize).copied().unwrap_or(0.0));
        value.unwrap_or(0.0)
    }

    /// The value; answers what it waits for, the cheapest first, until the value is certain. If it is
    /// not `exact`, it is enough to know that the value is 0; all operands of a meta that is true are
    /// answered.
    fn value(&mut self, place: usize, exact: bool) -> f64 {
        let meta = &self.program.metas.programs[place];
        loop {
            let bounds = self.bounds_of(place);
            if let Some(value) = bounds.exact()
                && (exact || value == 0.0)
            {
                return value;
            }
            let is_true = !exact && bounds.truth == Some(true);
            let waiting =
                meta.operands.iter().filter(|r| self.tally.pending.work(**r) != Work::Done);
            let next = waiting.copied().min_by_key(|rule| self.cost(*rule));
            match next {
                Some(rule) if !is_true => self.answer(rule),
                _ => return self.value_at_once(place),
            }
        }
    }

    fn bounds_of(&self, place: usize) -> Bounds {
        let known = |rule: &u32| self.known.get(*rule as usize).copied().unwrap_or(Bounds::NEVER);
        self.program.metas.programs[place].flat.bounds(&known)
    }

    /// Roughly what answering a rule costs, in nanoseconds: patterns cost by their length and by how
    /// much text there is for them.
    fn cost(&self, rule: u32) -> usize {
        match self.tally.pending.work(rule) {
            Work::Done => 0,
            Work::Texts(_) => {
                let prospect = self.program.prospect(rule);
                let bytes = self.tally.pending.bytes(rule) / BYTES_PER_UNIT;
                prospect.length.saturating_add(bytes.saturating_mul(prospect.tries_per_byte))
            }
            Work::Eval(_) => EVAL_COST,
            Work::Template(_) => TEMPLATE_COST,
            Work::UriDetail(_) => URI_DETAIL_COST,
            Work::Meta(_) => META_COST,
        }
    }

    /// Does what is left to do for a rule.
    fn answer(&mut self, rule: u32) {
        match self.tally.pending.take(rule) {
            Work::Done => return,
            Work::Texts(last) => {
                for candidate in self.tally.pending.candidates(last) {
                    self.try_candidate(candidate);
                }
            }
            Work::Eval(at) => self.program.run_eval(at, self.evals, self.tally),
            Work::Template(at) => self.program.run_template(at, self.evals, self.tally),
            Work::UriDetail(at) => self.program.run_uri_detail(at, self.views, self.tally),
            Work::Meta(place) => {
                let value = self.value(place as usize, true);
                if value != 0.0 {
                    self.tally.set(rule, value);
                }
            }
        }
        self.know(rule, Bounds::exactly(self.tally.count(rule)));
    }

    fn try_candidate(&mut self, candidate: Candidate) {
        let Place::Header(group) = candidate.place else {
            return self.program.try_text(candidate, self.views, self.tally);
        };
        let at = self.headers.iter().position(|(known, _)| *known == group);
        let at = at.unwrap_or_else(|| {
            let selector = self.program.headers.selector(group);
            self.headers.push((group, selector.and_then(|s| self.views.header(s))));
            self.headers.len() - 1
        });
        if let Some((_, Some(value))) = self.headers.get(at) {
            self.program.headers.try_candidate(candidate, value, self.tally);
        }
    }
}
