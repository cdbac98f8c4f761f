//! Running rules against views.

pub(crate) mod headers;
pub(crate) mod mime;
pub(crate) mod pending;
mod places;
mod prefilter;
mod rows;
mod strings;
pub(crate) mod tags;
pub(crate) mod texts;
pub(crate) mod uri_detail;

use gauntlet_mail::{Defect, DefectKind};

use crate::bounds::Bounds;
use crate::meta::Due;
use crate::pattern::scratch::Scratches;
use crate::pattern::{Pattern, PatternError};
use crate::rule::Rule;
use pending::Pending;
pub(crate) use prefilter::Buffers;
use tags::Tags;

/// A pattern and the rule it belongs to.
#[derive(Debug)]
pub(crate) struct Member {
    /// Place among the rules.
    pub(crate) rule: u32,
    pub(crate) pattern: Pattern,
    /// Most hits that count: 1 unless the rule has `tflags multiple`.
    pub(crate) hits_max: u32,
    /// The first string (the subject) is not for this rule.
    pub(crate) nosubject: bool,
    /// Written with `!~`.
    pub(crate) negated: bool,
    /// The rule's priority: lower ones run earlier.
    pub(crate) priority: i32,
    /// Its answer may wait until a meta needs it: it is a sub-rule that sets no tags.
    pub(crate) can_wait: bool,
    /// It pays to ask first whether the pattern can match.
    pub(crate) has_sieve: bool,
}

impl Member {
    /// A member for this rule, whose pattern may be negated.
    pub(crate) fn new(place: usize, rule: &Rule, pattern: Pattern, negated: bool) -> Self {
        let multiple = rule.has_flag("multiple") && !negated;
        let most = rule.flag_value("maxhits").and_then(|v| v.parse().ok());
        Member {
            rule: place as u32,
            can_wait: rule.is_sub() && pattern.names().is_empty(),
            has_sieve: pattern.templates().is_empty() && pattern.has_sieve(),
            pattern,
            hits_max: if multiple { most.unwrap_or(u32::MAX) } else { 1 },
            nosubject: rule.has_flag("nosubject"),
            negated,
            priority: rule.priority,
        }
    }

    /// Adds this member's matches in `text`, which may come after others, to the tally. None begins
    /// before `start`.
    pub(crate) fn try_text(&self, text: &[u8], start: usize, place: Place, tally: &mut Tally) {
        if tally.count(self.rule) < f64::from(self.hits_max) {
            self.apply(text, start, place, tally);
        }
    }

    /// Adds this member's matches in `text` to the tally. None begins before `start`.
    fn apply(&self, text: &[u8], start: usize, place: Place, tally: &mut Tally) {
        tally.timed(self.rule, |tally| self.apply_untimed(text, start, place, tally));
    }

    fn apply_untimed(&self, text: &[u8], start: usize, place: Place, tally: &mut Tally) {
        let pattern = &self.pattern;
        let mut scratch = tally.scratches.of(self.rule, pattern);
        if self.has_sieve && !pattern.may_match(text, scratch.as_deref_mut()) {
            return;
        }
        let simple = self.hits_max == 1 && pattern.names().is_empty();
        if simple {
            match pattern.find_with(text, start, scratch) {
                Ok(Some(found)) => tally.hits_at(self.rule, 1, place, &found),
                Ok(None) => {}
                Err(error) => tally.spent(self.rule, &error),
            }
            return;
        }
        if let Err(error) = self.apply_each(text, start, place, tally) {
            tally.spent(self.rule, &error);
        }
    }

    /// Counts every match, as `while (/re/g)` does, and takes the groups that set tags.
    fn apply_each(
        &self,
        text: &[u8],
        start: usize,
        place: Place,
        tally: &mut Tally,
    ) -> Result<(), PatternError> {
        let left = f64::from(self.hits_max) - tally.count(self.rule);
        if self.pattern.names().is_empty()
            && let Some((times, first)) = self.pattern.count(text, start, left as u32)
        {
            tally.hits_at(self.rule, times, place, &first);
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
            tally.hits_at(self.rule, 1, place, &found);
            let scratch = tally.scratches.of(self.rule, &self.pattern);
            if !self.pattern.names().is_empty()
                && let Some(groups) = self.pattern.captures_with(text, found.start, scratch)?
            {
                tally.tags.take(self.rule, place, self.pattern.names(), &groups, text);
            }
            was_empty = found.is_empty();
            from = found.end;
        }
        Ok(())
    }
}

/// Where in this text the prefilter lets the pattern be tried, if it does.
pub(crate) fn first_start(pattern: &Pattern, text: &[u8]) -> Option<usize> {
    let (mut found, mut buffers) = (Vec::new(), Buffers::default());
    let filter = prefilter::Prefilter::new(std::iter::once(pattern));
    filter.search(text, &mut buffers, &mut found);
    found.first().map(|pattern| filter.start(*pattern, text, &buffers))
}

/// In which string of which view something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// String of the `body` view.
    Body(u32),
    /// String of the `rawbody` view.
    Rawbody(u32),
    /// The message as it came.
    Full,
    /// Place in the `uri` view.
    Uri(u32),
    /// A header value: group of selectors, see [`headers::HeaderRules`].
    Header(u32),
    /// A header of a part.
    Part(u16),
    /// The header value of this rule with tags.
    Template(u32),
    /// No place: an eval, a negated match in a part or a meta.
    None,
}

/// Where a rule fired first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) place: Place,
    /// First byte of the match in that place's text, and the one after its last; none is the whole text.
    pub(crate) span: Option<(u32, u32)>,
}

impl Found {
    /// At no place.
    pub(crate) const NOWHERE: Found = Found { place: Place::None, span: None };

    /// What matched, in the place's text.
    pub(crate) fn quoted<'t>(&self, text: &'t [u8]) -> Option<(usize, &'t [u8])> {
        let (start, end) = self.span.map_or((0, text.len()), |s| (s.0 as usize, s.1 as usize));
        Some((start, text.get(start..end)?))
    }
}

/// What was found so far in one message.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Count of each rule.
    pub(crate) counts: Vec<f64>,
    /// Rules with a count, in the order they fired.
    pub(crate) fired: Vec<u32>,
    /// Where each rule in `fired` fired first.
    pub(crate) places: Vec<Found>,
    pub(crate) tags: Tags,
    pub(crate) defects: Vec<Defect>,
    pub(crate) buffers: Buffers,
    pub(crate) candidates: Vec<u32>,
    /// Lent by the set of rules for this message.
    pub(crate) scratches: Scratches,
    pub(crate) due: Due,
    /// See [`crate::demand::Demand`].
    pub(crate) known: Vec<Bounds>,
    pub(crate) truths: Vec<Option<bool>>,
    /// What was put off.
    pub(crate) pending: Pending,
    /// Whether the body had been edited when its rules looked at it.
    pub(crate) is_body_edited: bool,
    /// For each rule, tries and nanoseconds; none unless costs are wanted.
    pub(crate) costs: Option<Vec<(u64, u64)>>,
    /// Names for defects.
    pub(crate) spent: Vec<u32>,
}

impl Tally {
    /// Begins a message over the `rules` rules of a set; with `put_off`, sub-rules wait until a meta
    /// needs them.
    pub(crate) fn begin(&mut self, scratches: Scratches, rules: usize, put_off: bool) {
        self.scratches = scratches;
        self.pending.begin(rules, put_off);
        // Few of the rules fire.
        for rule in self.fired.drain(..) {
            if let Some(count) = self.counts.get_mut(rule as usize) {
                *count = 0.0;
            }
        }
        self.counts.resize(rules, 0.0);
        self.places.clear();
        self.tags.clear();
        self.defects.clear();
        self.spent.clear();
    }

    /// The rule's count so far.
    pub(crate) fn count(&self, rule: u32) -> f64 {
        self.counts.get(rule as usize).copied().unwrap_or(0.0)
    }

    /// Adds hits of a rule at a place as a whole.
    pub(crate) fn hit(&mut self, rule: u32, times: u32, place: Place) {
        self.add(rule, times, Found { place, span: None });
    }

    /// Adds hits of a rule, of which the first matched this part of the place's text.
    fn hits_at(&mut self, rule: u32, times: u32, place: Place, range: &std::ops::Range<usize>) {
        let at = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        self.add(rule, times, Found { place, span: Some((at(range.start), at(range.end))) });
    }

    fn add(&mut self, rule: u32, times: u32, found: Found) {
        let Some(count) = self.counts.get_mut(rule as usize) else { return };
        if *count == 0.0 {
            self.fired.push(rule);
            self.places.push(found);
        }
        *count += f64::from(times);
    }

    /// Sets the value of a meta that fires.
    pub(crate) fn set(&mut self, rule: u32, value: f64) {
        if let Some(count) = self.counts.get_mut(rule as usize) {
            // SpamAssassin counts a negative value as one hit.
            *count = if value <= 0.0 { 1.0 } else { value };
            self.fired.push(rule);
            self.places.push(Found::NOWHERE);
        }
    }

    /// Runs `work` for a rule, and keeps its cost if that is wanted.
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

    /// Notes a rule that ran out of its budget.
    fn spent(&mut self, rule: u32, _error: &PatternError) {
        if !self.spent.contains(&rule) {
            self.spent.push(rule);
        }
    }

    /// Defects of rules that ran out of their budget, with their names.
    pub(crate) fn budget_defects(&self, rules: &[Rule]) -> Vec<Defect> {
        let name = |r: &u32| rules.get(*r as usize).map_or("", |r| &r.name);
        let defect = |r| Defect::new(DefectKind::RuleBudget, 0).detail(name(r));
        self.spent.iter().map(defect).collect()
    }
}
