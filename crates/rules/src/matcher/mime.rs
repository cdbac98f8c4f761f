//! `mimeheader` rules: a field of any part.

use std::borrow::Cow;

use super::{Member, Place, Tally};
use crate::rule::{HeaderSelector, Rule};
use crate::views::Views;

/// Most hits of a rule with `tflags multiple` that says no number.
const HITS_DEFAULT_MAX: u32 = 1_000;

/// One `mimeheader` rule.
#[derive(Debug)]
pub(crate) struct MimeRule {
    member: Member,
    selector: HeaderSelector,
    if_unset: Vec<u8>,
    /// First and last part that is looked at, from 1.
    range: (usize, usize),
    /// All parts' values are matched as one string.
    concat: bool,
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
        MimeRule {
            member,
            selector: selector.clone(),
            if_unset: if_unset.as_bytes().to_vec(),
            range: rule.flag_value("range").map_or((0, HITS_DEFAULT_MAX as usize), part_range),
            concat: rule.has_flag("concat"),
        }
    }

    /// The rule's pattern.
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// The value that is asked for.
    pub(crate) fn selector(&self) -> &HeaderSelector {
        &self.selector
    }

    /// Tries the rule on all parts' values.
    fn scan(&self, values: &[Option<Cow<'_, [u8]>>], tally: &mut Tally) {
        let mut joined = Vec::new();
        let mut found = false;
        for (number, value) in (1usize..).zip(values) {
            if number < self.range.0 || number > self.range.1 {
                continue;
            }
            let value = value.as_deref().unwrap_or(&self.if_unset);
            if self.concat {
                joined.extend_from_slice(value);
                if !joined.ends_with(b"\n") {
                    joined.push(b'\n');
                }
                continue;
            }
            let part = u16::try_from(number - 1).unwrap_or(u16::MAX);
            found |= self.value(value, Place::Part(part), tally);
            if found {
                break;
            }
        }
        if self.concat {
            found = self.value(&joined, Place::Part(0), tally);
        }
        if self.member.negated && !found {
            tally.hit(self.member.rule, 1, Place::None);
        }
    }

    /// Whether the pattern matches; counts hits unless it is negated (then the first match is enough
    /// to know that the rule does not fire on this part).
    fn value(&self, value: &[u8], place: Place, tally: &mut Tally) -> bool {
        if self.member.negated {
            // As in SpamAssassin a match ends the look at this part, not at the others.
            return false;
        }
        let before = tally.count(self.member.rule);
        self.member.apply(value, place, tally);
        tally.count(self.member.rule) > before
    }
}

/// Tries all rules; those that ask for the same field stand together, so that its values are made once.
pub(crate) fn scan(rules: &[MimeRule], views: &Views<'_>, tally: &mut Tally) {
    for group in rules.chunk_by(|a, b| a.selector == b.selector) {
        let Some(first) = group.first() else { continue };
        let values = views.mime_headers(&first.selector);
        group.iter().for_each(|rule| rule.scan(&values, tally));
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
