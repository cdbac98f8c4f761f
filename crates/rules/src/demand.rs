//! Answers metas, and of what was put off as little as that takes.
//!
//! Metas stand in an order in which each comes after what it needs. A meta that scores is looked at
//! until it is certain whether it is true; of the rules it waits for, the cheapest is answered first. A
//! meta that is itself a sub-rule is put off like any other. The result is that of answering every
//! rule: bounds are never wrong, and when a meta is true all that it names is answered, so that its
//! evidence is complete.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::bounds::Bounds;
use crate::document::Document;
use crate::matcher::pending::{Candidate, Work};
use crate::matcher::{Place, Tally};
use crate::meta::Due;
use crate::program::Program;
use crate::stages::Bounds as Limits;

/// Cost of an eval, in the units of [`Demand::cost`].
const EVAL_COST: usize = 2_000;
/// Cost of a rule with tags: its pattern may have to be made.
const TEMPLATE_COST: usize = 20_000;
/// Cost of a rule on the details of URIs.
const URI_DETAIL_COST: usize = 1_000;
/// Cost of a meta.
const META_COST: usize = 1_000;
/// What costs less is answered at once, also where the scan may end early.
const OPEN_COST_MIN: usize = 3_000;
/// Bytes of text that a simple pattern is searched through at the cost of one unit.
const BYTES_PER_UNIT: usize = 4;

/// One message while its metas are answered.
pub(crate) struct Demand<'a> {
    program: &'a Program,
    document: &'a dyn Document,
    tally: &'a mut Tally,
    /// Whether each rule fires, if that is certain; close together, for most metas are certainly false by that.
    /// None fires between messages.
    truths: Vec<Option<bool>>,
    /// What is certain of the value of each meta that was put off.
    known: Vec<Bounds>,
    /// Header values that were asked for, by group.
    headers: Vec<(u32, Option<Cow<'a, [u8]>>)>,
    due: Due,
    /// Texts that a rule waits to be tried on.
    candidates: Vec<Candidate>,
    /// Metas with points that were put off because the scan may end before they are needed.
    open: Vec<Open>,
    /// By place of a meta that was put off, the cost of the dearest rule that it waits for; empty unless
    /// the scan may end early.
    meta_costs: Vec<u32>,
}

/// A meta with points that is kept open; the greatest gives most points for its cost.
struct Open {
    rule: u32,
    place: u32,
    points: f64,
    /// Of the cheapest rule that it waits for.
    cost: usize,
}

impl Open {
    fn worth(&self) -> f64 {
        self.points.abs() / self.cost as f64
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth().total_cmp(&other.worth()).then(self.rule.cmp(&other.rule))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

impl<'a> Demand<'a> {
    /// Everything that is not put off has been tried.
    pub(crate) fn new(
        program: &'a Program,
        document: &'a dyn Document,
        tally: &'a mut Tally,
    ) -> Self {
        let (due, known) = (std::mem::take(&mut tally.due), std::mem::take(&mut tally.known));
        let truths = std::mem::take(&mut tally.truths);
        Demand {
            program,
            document,
            tally,
            known,
            truths,
            headers: Vec::new(),
            due,
            candidates: Vec::new(),
            open: Vec::new(),
            meta_costs: Vec::new(),
        }
    }

    /// Answers the metas that what was found or put off can have changed. With `limits` it ends as soon
    /// as those that are left cannot change the class; the answer says whether it did.
    pub(crate) fn run(mut self, limits: Option<&Limits>) -> bool {
        let metas = &self.program.metas;
        self.due.clear(metas.programs.len());
        self.begin_truths();
        if limits.is_some() {
            self.meta_costs.resize(metas.programs.len(), 0);
        }
        for rule in self.tally.fired.iter().chain(&self.tally.pending.rules) {
            metas.mark_due(*rule, &mut self.due);
        }
        metas.always.iter().for_each(|place| self.due.mark(*place));
        // Metas whose value never becomes known.
        let mut blocked: Vec<u32> = Vec::new();
        let mut next = 0;
        while let Some(place) = self.next_place(next, &blocked) {
            next = place + 1;
            let is_blocked = !blocked.is_empty() && {
                let meta = &metas.programs[place];
                meta.guarded && meta.operands.iter().any(|r| blocked.contains(r))
            };
            if is_blocked {
                blocked.push(metas.programs[place].rule);
            } else if self.due.has(place) {
                self.meta(place, limits, &mut blocked);
            }
        }
        let is_decided = limits.is_some_and(|limits| self.pursue(limits));
        for rule in self.tally.fired.iter().chain(&self.tally.pending.rules) {
            set(&mut self.truths, *rule, Some(false));
        }
        (self.tally.due, self.tally.known, self.tally.truths) = (self.due, self.known, self.truths);
        is_decided
    }

    /// The first meta at or behind this place that is to be looked at: one that is due, or that one
    /// whose value never becomes known may block.
    fn next_place(&self, from: usize, blocked: &[u32]) -> Option<usize> {
        let due = self.due.next(from);
        if blocked.is_empty() {
            return due;
        }
        let guarded = &self.program.metas.guarded;
        let guarded = guarded.get(guarded.partition_point(|place| (*place as usize) < from));
        due.into_iter().chain(guarded.map(|place| *place as usize)).min()
    }

    /// Answers the metas that are open, those with most points for their cost first, until what is left
    /// cannot change the class; the answer says whether it cannot.
    fn pursue(&mut self, limits: &Limits) -> bool {
        let mut open = BinaryHeap::from(std::mem::take(&mut self.open));
        // Those that another meta needed are answered, and are in the score.
        open.retain(|meta| self.is_waiting(meta.rule));
        let score = limits.score(self.tally);
        let (mut least, mut most) = (score, score);
        for meta in &open {
            least += meta.points.min(0.0);
            most += meta.points.max(0.0);
        }
        while !open.is_empty() && !limits.decides(least, most) {
            let Some(mut meta) = open.pop() else { break };
            if self.is_waiting(meta.rule) {
                if let (Some(cost), _) = self.narrow(meta.place as usize, meta.cost) {
                    meta.cost = cost;
                    open.push(meta);
                    continue;
                }
                self.answer(meta.rule);
            }
            if self.tally.count(meta.rule) > 0.0 {
                least += meta.points.max(0.0);
                most += meta.points.min(0.0);
            } else {
                least -= meta.points.min(0.0);
                most -= meta.points.max(0.0);
            }
        }
        !open.is_empty()
    }

    fn is_waiting(&self, rule: u32) -> bool {
        self.tally.pending.work(rule) != Work::Done
    }

    /// Answers what a meta waits for as long as that costs no more than this, and it is not known
    /// whether it is true. Then the cost of the next rule, none if there is nothing left to know, and
    /// what is certain.
    fn narrow(&mut self, place: usize, cost_max: usize) -> (Option<usize>, Bounds) {
        loop {
            let bounds = self.bounds_of(place);
            let next = if bounds.truth.is_none() { self.next(place) } else { None };
            match next {
                Some((rule, cost)) if cost <= cost_max => self.answer(rule),
                next => return (next.map(|next| next.1), bounds),
            }
        }
    }

    /// The cheapest rule that a meta waits for, and what it costs.
    fn next(&self, place: usize) -> Option<(u32, usize)> {
        let operands = self.program.metas.programs[place].operands.iter();
        let waiting = operands.filter(|rule| self.is_waiting(**rule));
        waiting.map(|rule| (*rule, self.cost(*rule))).min_by_key(|next| next.1)
    }

    /// Notes what is certain before the first meta: what was tried fires or does not, what was put off may.
    fn begin_truths(&mut self) {
        self.known.resize(self.tally.counts.len(), Bounds::NEVER);
        self.truths.resize(self.tally.counts.len(), Some(false));
        for rule in &self.tally.fired {
            set(&mut self.truths, *rule, Some(true));
        }
        for rule in &self.tally.pending.rules {
            set(&mut self.truths, *rule, None);
        }
    }

    /// Notes that a rule's count is certain.
    fn know(&mut self, rule: u32) {
        set(&mut self.truths, rule, Some(self.tally.count(rule) != 0.0));
    }

    fn truth(&self, rule: u32) -> Option<bool> {
        self.truths.get(rule as usize).copied().unwrap_or(Some(false))
    }

    /// What is certain of a rule's count.
    fn known(&self, rule: u32) -> Bounds {
        if self.truth(rule) == Some(false) {
            return Bounds::NEVER;
        }
        match self.tally.pending.work(rule) {
            Work::Done => Bounds::exactly(self.tally.count(rule)),
            Work::Meta(_) => self.known.get(rule as usize).copied().unwrap_or(Bounds::NEVER),
            _ => Bounds::between(0.0, self.program.prospect(rule).hits_max),
        }
    }

    /// Answers one meta, or puts it off; with limits one that scores too, unless its answer is cheap.
    fn meta(&mut self, place: usize, limits: Option<&Limits>, blocked: &mut Vec<u32>) {
        let metas = &self.program.metas;
        if metas.is_ruled_out(place, &self.truths) {
            return;
        }
        let meta = &metas.programs[place];
        let can_wait = self.tally.pending.is_on && meta.can_wait;
        if !meta.at_once && self.truth_of(place) == Some(false) {
            return;
        }
        if let Some(limits) = limits.filter(|_| !meta.at_once && !meta.can_wait) {
            let (next, bounds) = self.narrow(place, OPEN_COST_MIN);
            if let Some(cost) = next {
                let points = limits.points(meta.rule);
                self.open.push(Open { rule: meta.rule, place: place as u32, points, cost });
                return self.put_off(place, bounds);
            }
            if bounds.truth == Some(false) {
                return;
            }
        } else if can_wait {
            let bounds = self.bounds_of(place);
            if bounds.exact().is_none() {
                return self.put_off(place, bounds);
            }
        }
        let value =
            if meta.at_once { self.value_at_once(place) } else { self.value(place, can_wait) };
        if value != 0.0 && meta.silent {
            blocked.push(meta.rule);
        } else if value != 0.0 {
            self.tally.set(meta.rule, value);
            self.know(meta.rule);
            metas.mark_due(meta.rule, &mut self.due);
        }
    }

    /// Puts a meta off of which this is certain.
    fn put_off(&mut self, place: usize, bounds: Bounds) {
        let meta = &self.program.metas.programs[place];
        let rule = meta.rule;
        if !self.meta_costs.is_empty() {
            let dearest = meta.operands.iter().map(|rule| self.cost(*rule)).max();
            self.meta_costs[place] = u32::try_from(dearest.unwrap_or_default()).unwrap_or(u32::MAX);
        }
        // A negative value counts as one hit.
        let high = if bounds.low < 0.0 { bounds.high.max(1.0) } else { bounds.high };
        let low = bounds.low.max(0.0);
        if let Some(known) = self.known.get_mut(rule as usize) {
            *known = Bounds { low, high, truth: bounds.truth };
        }
        set(&mut self.truths, rule, bounds.truth);
        self.tally.pending.put_off(rule, Work::Meta(place as u32));
        self.program.metas.mark_due(rule, &mut self.due);
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
        loop {
            match self.truth_of(place) {
                Some(false) => return 0.0,
                Some(true) if !exact => return self.value_at_once(place),
                Some(true) => {
                    if let Some(value) = self.bounds_of(place).exact() {
                        return value;
                    }
                }
                // A value that is certain is certainly true or false.
                None => {}
            }
            match self.next(place) {
                Some((rule, _)) => self.answer(rule),
                None => return self.value_at_once(place),
            }
        }
    }

    fn truth_of(&self, place: usize) -> Option<bool> {
        let meta = &self.program.metas.programs[place];
        meta.flat.truth(&|rule| self.truth(*rule), &|rule| self.known(*rule))
    }

    fn bounds_of(&self, place: usize) -> Bounds {
        let meta = &self.program.metas.programs[place];
        meta.flat.bounds(&|rule| self.truth(*rule), &|rule| self.known(*rule))
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
            Work::Meta(place) => {
                META_COST + self.meta_costs.get(place as usize).map_or(0, |c| *c as usize)
            }
        }
    }

    /// Does what is left to do for a rule.
    fn answer(&mut self, rule: u32) {
        match self.tally.pending.take(rule) {
            Work::Done => return,
            Work::Texts(last) => {
                let mut candidates = std::mem::take(&mut self.candidates);
                self.tally.pending.candidates(last, &mut candidates);
                candidates.iter().for_each(|candidate| self.try_candidate(*candidate));
                self.candidates = candidates;
            }
            Work::Eval(at) => self.program.run_eval(at, self.document, self.tally),
            Work::Template(at) => self.program.run_template(at, self.document, self.tally),
            Work::UriDetail(at) => self.program.run_uri_detail(at, self.document, self.tally),
            Work::Meta(place) => {
                // Of a meta that scores and is true, all operands are shown.
                let exact = self.program.metas.programs[place as usize].can_wait;
                let value = self.value(place as usize, exact);
                if value != 0.0 {
                    self.tally.set(rule, value);
                }
            }
        }
        self.know(rule);
    }

    fn try_candidate(&mut self, candidate: Candidate) {
        let Place::Header(group) = candidate.place else {
            return self.program.try_text(candidate, self.document, self.tally);
        };
        let at = self.headers.iter().position(|(known, _)| *known == group);
        let at = at.unwrap_or_else(|| {
            let selector = self.program.headers.selector(group);
            self.headers.push((group, selector.and_then(|s| self.document.header(s))));
            self.headers.len() - 1
        });
        if let Some((_, Some(value))) = self.headers.get(at) {
            self.program.headers.try_candidate(candidate, value, self.tally);
        }
    }
}

fn set(truths: &mut [Option<bool>], rule: u32, truth: Option<bool>) {
    if let Some(slot) = truths.get_mut(rule as usize) {
        *slot = truth;
    }
}
