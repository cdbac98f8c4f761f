//! The matcher: runs compiled rules on the views of a message.

mod gram_bitmap;
pub(crate) mod headers;
pub(crate) mod mime;
pub(crate) mod pending;
mod prefilter;
mod self_check;
mod shift_and;
mod strings;
pub(crate) mod tags;
pub(crate) mod texts;
pub(crate) mod uri_detail;

use gauntlet_mail::{Defect, DefectKind};

use crate::bounds::Bounds;
use crate::meta::DueSet;
use crate::pattern::scratch::Scratches;
use crate::pattern::{Pattern, PatternError};
use crate::rule::Rule;
use pending::Pending;
pub(crate) use prefilter::Buffers;
use tags::Tags;

/// A pattern and the rule it belongs to.
#[derive(Debug)]
pub(crate) struct Member {
    /// Index of the rule in the ruleset.
    pub(crate) rule: u32,
    pub(crate) pattern: Pattern,
    /// Most hits that count: 1 unless the rule has `tflags multiple`.
    pub(crate) hits_max: u32,
    /// The first string (the subject) is not for this rule.
    pub(crate) nosubject: bool,
    /// The rule is a sign of ham (`tflags nice`).
    pub(crate) is_nice: bool,
    /// Written with `!~`: the rule hits where the pattern does not match.
    pub(crate) negated: bool,
    /// The rule's priority: lower ones run earlier.
    pub(crate) priority: i32,
    /// Its evaluation may be deferred until a meta needs it: it is a sub-rule that sets no tags.
    pub(crate) is_deferrable: bool,
    /// The lazy DFA is asked first whether the pattern can match.
    pub(crate) has_dfa_check: bool,
}

impl Member {
    /// A member for the rule at `index` of the ruleset; `negated` if it was written with `!~`.
    pub(crate) fn new(index: usize, rule: &Rule, pattern: Pattern, negated: bool) -> Self {
        let multiple = rule.has_flag("multiple") && !negated;
        let most = rule.flag_value("maxhits").and_then(|v| v.parse().ok());
        Member {
            rule: index as u32,
            is_deferrable: rule.is_sub() && pattern.names().is_empty(),
            has_dfa_check: pattern.templates().is_empty() && pattern.has_dfa_check(),
            pattern,
            hits_max: if multiple { most.unwrap_or(u32::MAX) } else { 1 },
            nosubject: rule.has_flag("nosubject"),
            is_nice: rule.has_flag("nice"),
            negated,
            priority: rule.priority,
        }
    }

    /// Adds this member's matches in `text`, which may come after others, to the tally. None begins
    /// before `start`.
    pub(crate) fn try_text(
        &self,
        text: &[u8],
        start: usize,
        location: Location,
        tally: &mut Tally,
    ) {
        if tally.count(self.rule) < f64::from(self.hits_max) {
            self.apply(text, start, location, tally);
        }
    }

    /// Adds this member's matches in `text` to the tally. None begins before `start`.
    fn apply(&self, text: &[u8], start: usize, location: Location, tally: &mut Tally) {
        tally.timed(self.rule, |tally| self.apply_untimed(text, start, location, tally));
    }

    fn apply_untimed(&self, text: &[u8], start: usize, location: Location, tally: &mut Tally) {
        let pattern = &self.pattern;
        let mut scratch = tally.scratches.of(self.rule, pattern);
        if self.has_dfa_check && !pattern.may_match(text, scratch.as_deref_mut()) {
            return;
        }
        let simple = self.hits_max == 1 && pattern.names().is_empty();
        if simple {
            match pattern.find_with(text, start, scratch) {
                Ok(Some(found)) => tally.hits_at(self.rule, 1, location, &found),
                Ok(None) => {}
                Err(error) => tally.record_budget_exceeded(self.rule, &error),
            }
            return;
        }
        if let Err(error) = self.apply_each(text, start, location, tally) {
            tally.record_budget_exceeded(self.rule, &error);
        }
    }

    /// Counts every match, as `while (/re/g)` does, and takes the groups that set tags.
    fn apply_each(
        &self,
        text: &[u8],
        start: usize,
        location: Location,
        tally: &mut Tally,
    ) -> Result<(), PatternError> {
        let left = f64::from(self.hits_max) - tally.count(self.rule);
        if self.pattern.names().is_empty()
            && let Some((times, first)) = self.pattern.count(text, start, left as u32)
        {
            tally.hits_at(self.rule, times, location, &first);
            return Ok(());
        }
        let mut from = start;
        let mut was_empty = false;
        while tally.count(self.rule) < f64::from(self.hits_max) {
            let found = match was_empty {
                false => {
                    let scratch = tally.scratches.of(self.rule, &self.pattern);
                    self.pattern.find_with(text, from, scratch)?
                }
                true => self.pattern.find_after_empty(text, from)?,
            };
            let Some(found) = found else { break };
            tally.hits_at(self.rule, 1, location, &found);
            let scratch = tally.scratches.of(self.rule, &self.pattern);
            if !self.pattern.names().is_empty()
                && let Some(groups) = self.pattern.captures_with(text, found.start, scratch)?
            {
                tally.tags.take(self.rule, location, self.pattern.names(), &groups, text);
            }
            was_empty = found.is_empty();
            from = found.end;
        }
        Ok(())
    }
}

/// In which text of which view a rule hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// Text of this number in the `body` view.
    Body(u32),
    /// Text of this number in the `rawbody` view.
    Rawbody(u32),
    /// The message as it came.
    Full,
    /// Text of this number in the `uri` view.
    Uri(u32),
    /// A header value: group of selectors, see [`headers::HeaderRules`].
    Header(u32),
    /// A header of a part.
    Part(u16),
    /// The header value of this rule with tags.
    Template(u32),
    /// No location: an eval, a negated match in a part or a meta.
    None,
}

/// Where a rule hit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) location: Location,
    /// Byte range of the match in the text of that location; `None` is the whole text.
    pub(crate) span: Option<(u32, u32)>,
}

impl Found {
    /// A hit without a location.
    pub(crate) const NOWHERE: Found = Found { location: Location::None, span: None };

    /// The matched bytes and their offset in the location's text.
    pub(crate) fn quoted<'t>(&self, text: &'t [u8]) -> Option<(usize, &'t [u8])> {
        let (start, end) = self.span.map_or((0, text.len()), |s| (s.0 as usize, s.1 as usize));
        Some((start, text.get(start..end)?))
    }
}

/// The state of one message's scan: hits so far and deferred work.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Hits of each rule, by its index.
    pub(crate) counts: Vec<f64>,
    /// Rules with hits, in the order in which they fired.
    pub(crate) fired: Vec<u32>,
    /// Where each rule in `fired` hit first.
    pub(crate) locations: Vec<Found>,
    pub(crate) tags: Tags,
    pub(crate) defects: Vec<Defect>,
    pub(crate) buffers: Buffers,
    pub(crate) candidates: Vec<u32>,
    /// Taken from the ruleset's pool for this message.
    pub(crate) scratches: Scratches,
    pub(crate) due: DueSet,
    /// Kept for [`crate::lazy_evaluator::LazyEvaluator`], so that they are allocated once.
    pub(crate) known: Vec<Bounds>,
    pub(crate) truths: Vec<Option<bool>>,
    /// Sub-rules that run only if a `meta` asks for their value.
    pub(crate) pending: Pending,
    /// Whether a function had edited the body when the `body` rules ran.
    pub(crate) is_body_edited: bool,
    /// For each rule, number of evaluations and nanoseconds; `None` unless costs are measured.
    pub(crate) costs: Option<Vec<(u64, u64)>>,
    /// Rules that exceeded their match budget.
    pub(crate) budget_exceeded: Vec<u32>,
}

impl Tally {
    /// Starts a message with a ruleset of `rules` rules; with `defer`, sub-rules wait until a meta
    /// needs them.
    pub(crate) fn begin(&mut self, scratches: Scratches, rules: usize, defer: bool) {
        self.scratches = scratches;
        self.pending.begin(rules, defer);
        // Only the rules that fired are reset: few do.
        for rule in self.fired.drain(..) {
            if let Some(count) = self.counts.get_mut(rule as usize) {
                *count = 0.0;
            }
        }
        self.counts.resize(rules, 0.0);
        self.locations.clear();
        self.tags.clear();
        self.defects.clear();
        self.budget_exceeded.clear();
    }

    /// The rule's count so far.
    pub(crate) fn count(&self, rule: u32) -> f64 {
        self.counts.get(rule as usize).copied().unwrap_or(0.0)
    }

    /// Adds hits of a rule whose evidence is the whole text of the location.
    pub(crate) fn hit(&mut self, rule: u32, times: u32, location: Location) {
        self.add(rule, times, Found { location, span: None });
    }

    /// Adds hits of a rule; the first matched this range of the location's text.
    fn hits_at(
        &mut self,
        rule: u32,
        times: u32,
        location: Location,
        range: &std::ops::Range<usize>,
    ) {
        let at = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        self.add(rule, times, Found { location, span: Some((at(range.start), at(range.end))) });
    }

    fn add(&mut self, rule: u32, times: u32, found: Found) {
        let Some(count) = self.counts.get_mut(rule as usize) else { return };
        if *count == 0.0 {
            self.fired.push(rule);
            self.locations.push(found);
        }
        *count += f64::from(times);
    }

    /// Sets the value of a meta that fires.
    pub(crate) fn set(&mut self, rule: u32, value: f64) {
        if let Some(count) = self.counts.get_mut(rule as usize) {
            // SpamAssassin counts a negative value as one hit.
            *count = if value <= 0.0 { 1.0 } else { value };
            self.fired.push(rule);
            self.locations.push(Found::NOWHERE);
        }
    }

    /// Runs `work` for a rule and adds its time to the rule's costs, if costs are measured.
    pub(crate) fn timed(&mut self, rule: u32, work: impl FnOnce(&mut Self)) {
        if self.costs.is_none() {
            return work(self);
        }
        let start = std::time::Instant::now();
        work(self);
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some(costs) = &mut self.costs {
            let at = rule as usize;
            if costs.len() <= at {
                costs.resize(at + 1, (0, 0));
            }
            costs[at].0 += 1;
            costs[at].1 += nanos;
        }
    }

    /// Records that a rule exceeded its match budget.
    fn record_budget_exceeded(&mut self, rule: u32, _error: &PatternError) {
        if !self.budget_exceeded.contains(&rule) {
            self.budget_exceeded.push(rule);
        }
    }

    /// Defects for the rules that exceeded their match budget, with their names.
    pub(crate) fn budget_defects(&self, rules: &[Rule]) -> Vec<Defect> {
        let name = |r: &u32| rules.get(*r as usize).map_or("", |r| &r.name);
        let defect = |r| Defect::new(DefectKind::RuleBudget, 0).detail(name(r));
        self.budget_exceeded.iter().map(defect).collect()
    }
}
