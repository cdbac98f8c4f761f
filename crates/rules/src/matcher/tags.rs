//! Tags: text that one rule captures as `(?<TAG>...)` and another uses as `%{TAG}`.

use std::ops::Range;

use super::{Member, Place, Tally};
use crate::pattern::Pattern;

/// Most values kept of one tag.
const VALUES_MAX: usize = 64;

/// Values by tag.
#[derive(Debug, Default)]
pub(crate) struct Tags(Vec<(String, Vec<Vec<u8>>)>);

impl Tags {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The values of a tag.
    pub(crate) fn values(&self, tag: &str) -> &[Vec<u8>] {
        self.0.iter().find(|(name, _)| name == tag).map_or(&[], |(_, values)| values)
    }

    /// Adds the groups that are named and not empty.
    pub(super) fn take(
        &mut self,
        names: &[(String, u32)],
        groups: &[Option<Range<usize>>],
        text: &[u8],
    ) {
        for (name, index) in names {
            let Some(Some(range)) = groups.get(*index as usize) else { continue };
            let Some(value) = text.get(range.clone()).filter(|v| !v.is_empty()) else { continue };
            let at = self.0.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                self.0.push((name.clone(), Vec::new()));
                self.0.len() - 1
            });
            let values = &mut self.0[at].1;
            if values.len() < VALUES_MAX && !values.iter().any(|v| v == value) {
                values.push(value.to_vec());
            }
        }
    }
}

/// Rules that use tags, by what they match.
#[derive(Debug)]
pub(crate) struct TemplateRule {
    pub(crate) member: Member,
    tags: Vec<String>,
    pub(crate) on: TemplateOn,
}

/// What a rule with tags matches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TemplateOn {
    Body,
    Rawbody,
    Full,
    Uri,
    Header(crate::rule::HeaderSelector, Option<String>),
}

impl TemplateRule {
    /// A rule whose pattern uses tags.
    pub(crate) fn new(member: Member, on: TemplateOn) -> Self {
        TemplateRule { tags: member.pattern.templates(), member, on }
    }

    /// Tries the rule on strings. It does not run while one of its tags has no value.
    pub(crate) fn scan<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        place: impl Fn(u32) -> Place,
        tally: &mut Tally,
    ) {
        let values: Vec<&[Vec<u8>]> = self.tags.iter().map(|t| tally.tags.values(t)).collect();
        if values.iter().any(|v| v.is_empty()) {
            return;
        }
        // A text without any of the values cannot match; that spares making the pattern.
        let lower: Vec<Vec<Vec<u8>>> =
            values.iter().map(|v| v.iter().map(|v| v.to_ascii_lowercase()).collect()).collect();
        let possible = |text: &[u8]| {
            let text = text.to_ascii_lowercase();
            let has = |v: &Vec<u8>| memchr::memmem::find(&text, v).is_some();
            lower.iter().all(|values| values.iter().any(has))
        };
        let mut ready: Option<Member> = None;
        for (number, text) in (0u32..).zip(strings) {
            let full = tally.count(self.member.rule) >= f64::from(self.member.hits_max);
            if full || (self.member.nosubject && number == 0) {
                continue;
            }
            if !self.member.negated && !possible(text) {
                continue;
            }
            if ready.is_none() {
                ready = self.filled(tally);
            }
            let Some(member) = &ready else { return };
            if member.negated {
                if !member.pattern.is_match(text) {
                    tally.hit(member.rule, 1, Place::None);
                }
            } else {
                member.apply(text, place(number), tally);
            }
        }
    }

    /// The member with the tags' values in its pattern.
    fn filled(&self, tally: &Tally) -> Option<Member> {
        let pattern: Pattern =
            self.member.pattern.with_tags(&|tag| tally.tags.values(tag).to_vec()).ok()?;
        Some(Member {
            rule: self.member.rule,
            pattern,
            hits_max: self.member.hits_max,
            nosubject: self.member.nosubject,
            negated: self.member.negated,
        })
    }
}
