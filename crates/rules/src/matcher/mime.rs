//! `mimeheader` rules: a field of any part.

use std::borrow::Cow;

use super::headers::PREFILTER_MIN;
use super::prefilter::Prefilter;
use super::{Location, Member, Tally};
use crate::document::Document;
use crate::rule::{HeaderSelector, Rule};

/// Most hits of a rule with `tflags multiple` and without `maxhits`.
const HITS_DEFAULT_MAX: u32 = 1_000;

/// A `mimeheader` rule: it reads header fields of MIME parts.
#[derive(Debug)]
pub(crate) struct MimeRule {
    member: Member,
    selector: HeaderSelector,
    if_unset: Vec<u8>,
    /// First and last part that is matched, from 1.
    range: (usize, usize),
    /// All parts' values are matched as one string.
    concat: bool,
    /// The pattern matches the text that replaces a missing value.
    on_missing: bool,
}

/// All rules, those on the same field side by side, so that its values are made once and one
/// prefilter serves the group.
#[derive(Debug, Default)]
pub(crate) struct MimeRules {
    rules: Vec<MimeRule>,
    groups: Vec<Group>,
}

/// Rules on the same field.
#[derive(Debug)]
struct Group {
    /// Their range in [`MimeRules::rules`].
    rules: std::ops::Range<usize>,
    prefilter: Option<Prefilter>,
    /// Indexes of those that may fire where no value matches.
    always: Vec<usize>,
}

impl MimeRules {
    pub(crate) fn new(mut rules: Vec<MimeRule>) -> Self {
        rules.sort_by(|a, b| a.selector.cmp(&b.selector));
        let mut groups = Vec::new();
        let mut start = 0;
        for same in rules.chunk_by(|a, b| a.selector == b.selector) {
            let prefilter = (same.len() >= PREFILTER_MIN)
                .then(|| Prefilter::new(same.iter().map(|rule| &rule.member.pattern)));
            let always = (start..).zip(same).filter(|(_, rule)| rule.may_fire_without_match());
            let always = always.map(|(index, _)| index).collect();
            groups.push(Group { rules: start..start + same.len(), prefilter, always });
            start += same.len();
        }
        MimeRules { rules, groups }
    }

    /// The rules, sorted by selector.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, MimeRule> {
        self.rules.iter()
    }

    /// Runs the rules; those with one selector share its values.
    pub(crate) fn scan(&self, document: &dyn Document, tally: &mut Tally) {
        for group in &self.groups {
            let rules = self.rules.get(group.rules.clone()).unwrap_or_default();
            let Some(first) = rules.first() else { continue };
            let values = document.mime_headers(&first.selector);
            // Most rules cannot fire; they lie far apart in memory and are not loaded.
            let always = group.always.iter().filter_map(|index| self.rules.get(*index));
            let Some(prefilter) = &group.prefilter else {
                let scan = |rule: &MimeRule| rule.scan(&values, &|_| true, tally);
                match values.iter().any(Option::is_some) {
                    true => rules.iter().for_each(scan),
                    false => always.for_each(scan),
                }
                continue;
            };
            let mut candidates = std::mem::take(&mut tally.candidates);
            // For each value, which rules may match it.
            let mut may_match = vec![false; rules.len() * values.len()];
            for (value, flags) in values.iter().zip(may_match.chunks_mut(rules.len())) {
                let Some(value) = value else { continue };
                prefilter.search(value, &mut tally.buffers, &mut candidates);
                for number in &candidates {
                    if let Some(slot) = flags.get_mut(*number as usize) {
                        *slot = true;
                    }
                }
            }
            tally.candidates = candidates;
            if !may_match.contains(&true) {
                always.for_each(|rule| rule.scan(&values, &|_| false, tally));
                continue;
            }
            for (number, rule) in rules.iter().enumerate() {
                let may = |part: usize| may_match.get(part * rules.len() + number) == Some(&true);
                rule.scan(&values, &may, tally);
            }
        }
    }
}

impl MimeRule {
    /// A rule with its flags.
    pub(crate) fn new(
        rule: &Rule,
        mut member: Member,
        selector: &HeaderSelector,
        if_unset: &str,
    ) -> Self {
        member.hits_max = member.hits_max.min(HITS_DEFAULT_MAX);
        let on_missing = member.pattern.min_len() <= if_unset.len()
            && member.pattern.is_match(if_unset.as_bytes());
        MimeRule {
            on_missing,
            member,
            selector: selector.clone(),
            if_unset: if_unset.as_bytes().to_vec(),
            range: rule.flag_value("range").map_or((0, HITS_DEFAULT_MAX as usize), part_range),
            concat: rule.has_flag("concat"),
        }
    }

    /// Whether the rule may fire where its pattern matches no value.
    fn may_fire_without_match(&self) -> bool {
        self.on_missing || self.concat || self.member.negated
    }

    /// The pattern, with what all matching rules have in common.
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// The header value that the rule matches.
    pub(crate) fn selector(&self) -> &HeaderSelector {
        &self.selector
    }

    /// Evaluates the rule on the values of all parts; `may_match` says whether it can match that of
    /// a part.
    fn scan(
        &self,
        values: &[Option<Cow<'_, [u8]>>],
        may_match: &dyn Fn(usize) -> bool,
        tally: &mut Tally,
    ) {
        let mut joined = Vec::new();
        let mut found = false;
        for (number, value) in (1usize..).zip(values) {
            if number < self.range.0 || number > self.range.1 {
                continue;
            }
            let is_possible = if value.is_some() { may_match(number - 1) } else { self.on_missing };
            let value = value.as_deref().unwrap_or(&self.if_unset);
            if self.concat {
                joined.extend_from_slice(value);
                if !joined.ends_with(b"\n") {
                    joined.push(b'\n');
                }
                continue;
            }
            if !is_possible {
                continue;
            }
            let part = u16::try_from(number - 1).unwrap_or(u16::MAX);
            found |= self.value(value, Location::Part(part), tally);
            if found {
                break;
            }
        }
        if self.concat {
            found = self.value(&joined, Location::Part(0), tally);
        }
        if self.member.negated && !found {
            tally.hit(self.member.rule, 1, Location::None);
        }
    }

    /// Whether the pattern matches; counts hits unless it is negated (then the first match is
    /// enough to know that the rule does not fire on this part).
    fn value(&self, value: &[u8], location: Location, tally: &mut Tally) -> bool {
        if self.member.negated {
            // As in SpamAssassin, a match ends the search in this part, not in the others.
            return false;
        }
        let before = tally.count(self.member.rule);
        self.member.apply(value, 0, location, tally);
        tally.count(self.member.rule) > before
    }
}

/// `2`, `2-`, `-3` or `2-3`.
fn part_range(text: &str) -> (usize, usize) {
    let number = |t: &str, default| t.parse().unwrap_or(default);
    match text.split_once('-') {
        Some((low, high)) => (number(low, 0), number(high, HITS_DEFAULT_MAX as usize)),
        None => (number(text, 0), number(text, HITS_DEFAULT_MAX as usize)),
    }
}
