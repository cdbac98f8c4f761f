//! Evaluates metas, and of the deferred rules only those whose results they need.
//!
//! Metas are ordered so that each comes after its operands. A meta with points is evaluated until
//! its truth is certain; of the deferred rules that it depends on, the cheapest is evaluated first.
//! A meta that is itself a sub-rule is deferred like any other. The result equals that of
//! evaluating every rule: bounds are never wrong, and when a meta is true all its operands are
//! evaluated, so that its evidence is complete.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::bounds::Bounds;
use crate::document::Document;
use crate::matcher::pending::{Candidate, Work};
use crate::matcher::{Location, Tally};
use crate::meta::DueSet;
use crate::program::Program;
use crate::stages::ScoreBounds;

/// Cost of an eval function, in the units of [`LazyEvaluator::cost`]. Orders of magnitude suffice:
/// costs decide what is evaluated first, never a result.
const EVAL_COST: usize = 2_000;
/// Cost of a rule with tags, whose pattern may have to be compiled.
const TEMPLATE_COST: usize = 20_000;
/// Cost of a `uri_detail` rule.
const URI_DETAIL_COST: usize = 1_000;
/// Cost of a meta.
const META_COST: usize = 1_000;
/// Cheaper rules are evaluated at once, also if the scan may end early.
const OPEN_COST_MIN: usize = 3_000;
/// Bytes of text that a simple pattern searches at the cost of one unit.
const BYTES_PER_UNIT: usize = 4;

/// Evaluation of the metas of one message.
pub(crate) struct LazyEvaluator<'a> {
    program: &'a Program,
    document: &'a dyn Document,
    tally: &'a mut Tally,
    /// Whether each rule fires, if that is certain. A byte each, because most metas are ruled out
    /// by these alone. All are `Some(false)` between messages.
    truths: Vec<Option<bool>>,
    /// Bounds of the value of each deferred meta, by rule.
    known: Vec<Bounds>,
    /// Header values that were needed, by group.
    headers: Vec<(u32, Option<Cow<'a, [u8]>>)>,
    due: DueSet,
    /// Buffer for the candidates of a rule.
    candidates: Vec<Candidate>,
    /// Metas with points that were deferred because the scan may end before they are needed.
    open: Vec<Open>,
    /// For each deferred meta, by its index, the cost of the most expensive rule that it depends
    /// on; empty unless the scan may end early.
    meta_costs: Vec<u32>,
}

/// A deferred meta with points; the greatest has most points for its cost.
struct Open {
    rule: u32,
    index: u32,
    points: f64,
    /// What its answer is likely to be worth for the decision, in points.
    benefit: f64,
    /// Cost of the cheapest rule that it depends on.
    cost: usize,
}

impl Open {
    fn worth(&self) -> f64 {
        self.benefit / self.cost as f64
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

impl<'a> LazyEvaluator<'a> {
    /// To be made when everything that is not deferred has been evaluated.
    pub(crate) fn new(
        program: &'a Program,
        document: &'a dyn Document,
        tally: &'a mut Tally,
    ) -> Self {
        let (due, known) = (std::mem::take(&mut tally.due), std::mem::take(&mut tally.known));
        let truths = std::mem::take(&mut tally.truths);
        LazyEvaluator {
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

    /// Evaluates the metas that hits and deferred rules can have made true. With `limits` it ends
    /// as soon as the remaining metas cannot change the class, and then returns true.
    pub(crate) fn run(mut self, limits: Option<&ScoreBounds>) -> bool {
        let metas = &self.program.metas;
        self.due.clear(metas.programs.len());
        self.begin_truths();
        if limits.is_some() {
            self.meta_costs.resize(metas.programs.len(), 0);
        }
        for rule in self.tally.fired.iter().chain(&self.tally.pending.rules) {
            metas.mark_due(*rule, &mut self.due);
        }
        metas.always.iter().for_each(|index| self.due.mark(*index));
        // As in SpamAssassin, what depends on a true meta of score 0 is never evaluated.
        let mut blocked: Vec<u32> = Vec::new();
        let mut next = 0;
        while let Some(index) = self.next_index(next, &blocked) {
            next = index + 1;
            let is_blocked = !blocked.is_empty() && {
                let meta = &metas.programs[index];
                meta.guarded && meta.operands.iter().any(|r| blocked.contains(r))
            };
            if is_blocked {
                blocked.push(metas.programs[index].rule);
            } else if self.due.has(index) {
                self.meta(index, limits, &mut blocked);
            }
        }
        let is_decided = limits.is_some_and(|limits| self.evaluate_open(limits));
        for rule in self.tally.fired.iter().chain(&self.tally.pending.rules) {
            set(&mut self.truths, *rule, Some(false));
        }
        (self.tally.due, self.tally.known, self.tally.truths) = (self.due, self.known, self.truths);
        is_decided
    }

    /// The first meta from this index on that must be considered: one that is due, or one that a
    /// meta with unknown value may block.
    fn next_index(&self, from: usize, blocked: &[u32]) -> Option<usize> {
        let due = self.due.next(from);
        if blocked.is_empty() {
            return due;
        }
        let guarded = &self.program.metas.guarded;
        let guarded = guarded.get(guarded.partition_point(|index| (*index as usize) < from));
        due.into_iter().chain(guarded.map(|index| *index as usize)).min()
    }

    /// Evaluates the open metas, those with most points for their cost first, until the rest cannot
    /// change the class; returns whether any is left.
    fn evaluate_open(&mut self, limits: &ScoreBounds) -> bool {
        let mut open = std::mem::take(&mut self.open);
        // Those that another meta needed have been evaluated and are in the score.
        open.retain(|meta| self.is_waiting(meta.rule));
        let score = limits.score(self.tally);
        let (mut least, mut most, mut expected) = (score, score, score);
        for meta in &open {
            least += meta.points.min(0.0);
            most += meta.points.max(0.0);
            expected += meta.points * limits.rate(meta.rule);
        }
        let towards = limits.towards((least, most), expected);
        for meta in &mut open {
            meta.benefit = limits.benefit(meta.rule, meta.points, towards);
        }
        let mut open = BinaryHeap::from(open);
        while !open.is_empty() && !limits.decides(least, most) {
            let Some(mut meta) = open.pop() else { break };
            if self.is_waiting(meta.rule) {
                if let (Some(cost), _) = self.narrow(meta.index as usize, meta.cost) {
                    meta.cost = cost;
                    open.push(meta);
                    continue;
                }
                self.evaluate(meta.rule);
            }
            // Its points are certain now: the end of the range that had not counted them moves.
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

    /// Evaluates the rules that a meta depends on, as long as the next costs at most `cost_max` and
    /// the meta's truth is unknown. Returns the cost of the next rule (`None` if nothing more is
    /// needed) and the bounds.
    fn narrow(&mut self, index: usize, cost_max: usize) -> (Option<usize>, Bounds) {
        loop {
            let bounds = self.bounds_of(index);
            let next = if bounds.truth.is_none() { self.next(index) } else { None };
            match next {
                Some((rule, cost)) if cost <= cost_max => self.evaluate(rule),
                next => return (next.map(|next| next.1), bounds),
            }
        }
    }

    /// The cheapest deferred rule that a meta depends on, and its cost.
    fn next(&self, index: usize) -> Option<(u32, usize)> {
        let operands = self.program.metas.programs[index].operands.iter();
        let waiting = operands.filter(|rule| self.is_waiting(**rule));
        waiting.map(|rule| (*rule, self.cost(*rule))).min_by_key(|next| next.1)
    }

    /// Initializes the truths: rules that were evaluated fire or not, deferred ones are unknown.
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

    /// Records the truth of a rule whose count is now certain.
    fn know(&mut self, rule: u32) {
        set(&mut self.truths, rule, Some(self.tally.count(rule) != 0.0));
    }

    fn truth(&self, rule: u32) -> Option<bool> {
        self.truths.get(rule as usize).copied().unwrap_or(Some(false))
    }

    /// Bounds of a rule's count.
    fn known(&self, rule: u32) -> Bounds {
        if self.truth(rule) == Some(false) {
            return Bounds::NEVER;
        }
        match self.tally.pending.work(rule) {
            Work::Done => Bounds::exactly(self.tally.count(rule)),
            Work::Meta(_) => self.known.get(rule as usize).copied().unwrap_or(Bounds::NEVER),
            _ => Bounds::between(0.0, self.program.estimate(rule).hits_max),
        }
    }

    /// Evaluates one meta or defers it; with limits also one with points, unless that is cheap.
    fn meta(&mut self, index: usize, limits: Option<&ScoreBounds>, blocked: &mut Vec<u32>) {
        let metas = &self.program.metas;
        if metas.is_ruled_out(index, &self.truths) {
            return;
        }
        let meta = &metas.programs[index];
        let is_deferrable = self.tally.pending.is_on && meta.is_deferrable;
        if !meta.at_once && self.truth_of(index) == Some(false) {
            return;
        }
        // With limits the scan may end before this meta matters: what is expensive about it waits.
        if let Some(limits) = limits.filter(|_| !meta.at_once && !meta.is_deferrable) {
            let (next, bounds) = self.narrow(index, OPEN_COST_MIN);
            if let Some(cost) = next {
                let points = limits.points(meta.rule);
                let (rule, index, benefit) = (meta.rule, index as u32, points.abs());
                self.open.push(Open { rule, index, points, benefit, cost });
                return self.defer(index as usize, bounds);
            }
            if bounds.truth == Some(false) {
                return;
            }
        } else if is_deferrable {
            let bounds = self.bounds_of(index);
            if bounds.exact().is_none() {
                return self.defer(index, bounds);
            }
        }
        let value =
            if meta.at_once { self.value_at_once(index) } else { self.value(index, is_deferrable) };
        if value != 0.0 && meta.silent {
            blocked.push(meta.rule);
        } else if value != 0.0 {
            self.tally.set(meta.rule, value);
            self.know(meta.rule);
            metas.mark_due(meta.rule, &mut self.due);
        }
    }

    /// Defers a meta with these bounds.
    fn defer(&mut self, index: usize, bounds: Bounds) {
        let meta = &self.program.metas.programs[index];
        let rule = meta.rule;
        if !self.meta_costs.is_empty() {
            let most_expensive = meta.operands.iter().map(|rule| self.cost(*rule)).max();
            self.meta_costs[index] =
                u32::try_from(most_expensive.unwrap_or_default()).unwrap_or(u32::MAX);
        }
        // A negative value counts as one hit.
        let high = if bounds.low < 0.0 { bounds.high.max(1.0) } else { bounds.high };
        let low = bounds.low.max(0.0);
        if let Some(known) = self.known.get_mut(rule as usize) {
            *known = Bounds { low, high, truth: bounds.truth };
        }
        set(&mut self.truths, rule, bounds.truth);
        self.tally.pending.defer(rule, Work::Meta(index as u32));
        self.program.metas.mark_due(rule, &mut self.due);
    }

    /// The value of a meta after all its operands are evaluated.
    fn value_at_once(&mut self, index: usize) -> f64 {
        let meta = &self.program.metas.programs[index];
        meta.operands.iter().for_each(|rule| self.evaluate(*rule));
        let counts = &self.tally.counts;
        let value = meta.expr.value(&|r| counts.get(*r as usize).copied().unwrap_or(0.0));
        value.unwrap_or(0.0)
    }

    /// The value of a meta. Evaluates its deferred operands, the cheapest first, until the value is
    /// certain. Unless `exact`, it suffices to know that the value is 0; if it is not, all operands
    /// are evaluated.
    fn value(&mut self, index: usize, exact: bool) -> f64 {
        loop {
            match self.truth_of(index) {
                Some(false) => return 0.0,
                Some(true) if !exact => return self.value_at_once(index),
                Some(true) => {
                    if let Some(value) = self.bounds_of(index).exact() {
                        return value;
                    }
                }
                // An exact value always has a truth.
                None => {}
            }
            match self.next(index) {
                Some((rule, _)) => self.evaluate(rule),
                None => return self.value_at_once(index),
            }
        }
    }

    fn truth_of(&self, index: usize) -> Option<bool> {
        let meta = &self.program.metas.programs[index];
        meta.flat.truth(&|rule| self.truth(*rule), &|rule| self.known(*rule))
    }

    fn bounds_of(&self, index: usize) -> Bounds {
        let meta = &self.program.metas.programs[index];
        meta.flat.bounds(&|rule| self.truth(*rule), &|rule| self.known(*rule))
    }

    /// Roughly the cost of evaluating a rule, in nanoseconds: for patterns by their length and the
    /// text that they have still to search.
    fn cost(&self, rule: u32) -> usize {
        match self.tally.pending.work(rule) {
            Work::Done => 0,
            Work::Texts(_) => {
                let estimate = self.program.estimate(rule);
                let bytes = self.tally.pending.bytes(rule) / BYTES_PER_UNIT;
                estimate.length.saturating_add(bytes.saturating_mul(estimate.tries_per_byte))
            }
            Work::Eval(_) => EVAL_COST,
            Work::Template(_) => TEMPLATE_COST,
            Work::UriDetail(_) => URI_DETAIL_COST,
            Work::Meta(index) => {
                META_COST + self.meta_costs.get(index as usize).map_or(0, |c| *c as usize)
            }
        }
    }

    /// Does the deferred work of a rule.
    fn evaluate(&mut self, rule: u32) {
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
            Work::Meta(index) => {
                // A true meta with points shows all its operands as evidence.
                let exact = self.program.metas.programs[index as usize].is_deferrable;
                let value = self.value(index as usize, exact);
                if value != 0.0 {
                    self.tally.set(rule, value);
                }
            }
        }
        self.know(rule);
    }

    fn try_candidate(&mut self, candidate: Candidate) {
        let Location::Header(group) = candidate.location else {
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

#[cfg(test)]
mod tests {
    use gauntlet_mail::{Envelope, Message};

    use crate::native::{NativeDocument, NoFunctions};
    use crate::options::LoadOptions;
    use crate::ruleset::{Outcome, RulesScratch, Ruleset};

    const WORDS: [&str; 6] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];

    /// Sub-rules of several kinds, and metas of every operator over them and each other.
    fn rules(seed: usize) -> String {
        let kinds = ["body", "rawbody", "full"];
        let mut text = String::new();
        for (n, word) in WORDS.iter().enumerate() {
            text += &format!("{} __R{n} /{word}/\n", kinds[(n + seed) % kinds.len()]);
        }
        text +=
            "tflags __R1 multiple\nheader __R6 Subject =~ /alpha/\nheader __R7 Subject !~ /beta/\n";
        let operators = ["&&", "||", "+", "-", ">=", "==", "*", "<"];
        for n in 0..24 {
            let (a, b) = ((n * 5 + seed) % 8, (n * 3 + seed / 2) % 8);
            let operator = operators[(n + seed) % operators.len()];
            let (not, sub) = (["", "!"][n % 2], ["", "__"][n % 3 / 2]);
            let before = if n >= 3 && n % 4 == 3 { "+ __M2" } else { "" };
            text += &format!("meta {sub}M{n} {not}__R{a} {operator} (__R{b} {before})\n");
            if sub.is_empty() {
                text += &format!("score M{n} {}\n", [0.5, 1.25, -0.75][n % 3]);
            }
        }
        text
    }

    fn scan(rules: &str, subtests: bool, early_at: Option<f64>, raw: &str) -> Outcome {
        let options = LoadOptions { subtests, ..LoadOptions::default() };
        let (mut ruleset, _) =
            Ruleset::from_bytes(rules.as_bytes(), &options, &mut NoFunctions).expect("good rules");
        if let Some(threshold) = early_at {
            ruleset = ruleset.stop_early_at(&[threshold]);
        }
        let (message, envelope) = (Message::parse(raw.as_bytes()), Envelope::default());
        ruleset.scan(&NativeDocument::new(&message, &envelope), &mut RulesScratch::default())
    }

    fn message(bits: usize) -> String {
        let chosen = |from: usize| {
            let words = WORDS.iter().enumerate();
            let words = words.filter(|(n, _)| bits >> (from + n) & 1 == 1).map(|(_, word)| *word);
            words.collect::<Vec<_>>().join(" ")
        };
        format!("Subject: {}\n\n{} {}\n", chosen(0), chosen(3), chosen(6))
    }

    /// With `subtests` every rule is evaluated; without, sub-rules wait until a meta needs them.
    #[test]
    fn what_is_deferred_changes_no_hit_and_no_evidence() {
        let (mut hits, mut messages) = (0, 0);
        for seed in 0..8 {
            let rules = rules(seed);
            for bits in (0..1usize << 12).step_by(37) {
                let raw = message(bits);
                let (all, needed) =
                    (scan(&rules, true, None, &raw), scan(&rules, false, None, &raw));
                assert_eq!((all.score, &all.hits), (needed.score, &needed.hits), "{rules}\n{raw}");
                assert!(needed.sub.is_empty() && !needed.stopped_early);
                hits += all.hits.len();
                messages += 1;
            }
        }
        assert!(hits > messages, "{hits} hits in {messages} messages: the rules are put to use");
    }

    #[test]
    fn a_scan_that_ends_early_is_on_the_same_side_of_the_threshold() {
        let (rules, mut early) = (rules(3), 0);
        // A long text, so that looking for what is left of it costs more than a bound.
        let rest = "nothing of note\n".repeat(4_000);
        for bits in (0..1usize << 12).step_by(97) {
            let raw = message(bits) + &rest;
            let whole = scan(&rules, false, None, &raw);
            for threshold in [0.5, 2.0, 5.0] {
                let cut = scan(&rules, false, Some(threshold), &raw);
                assert_eq!(cut.score >= threshold, whole.score >= threshold, "{threshold}\n{raw}");
                early += usize::from(cut.stopped_early);
            }
        }
        assert!(early > 0, "some scan ends early");
    }
}
