//! Tags: text that one rule captures as `(?<TAG>...)` and another uses as `%{TAG}`.

use std::ops::Range;

use super::prefilter::Prefilter;
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
    /// Looks for what the rest of the pattern needs.
    prefilter: Prefilter,
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
        let prefilter = Prefilter::new(std::iter::once(&member.pattern));
        TemplateRule { tags: member.pattern.templates(), prefilter, member, on }
    }

    /// Tries the rule on strings. It does not run while one of its tags has no value.
    pub(crate) fn scan<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        place: impl Fn(u32) -> Place,
        tally: &mut Tally,
    ) {
        if self.tags.iter().any(|tag| tally.tags.values(tag).is_empty()) {
            return;
        }
        let mut ready: Option<Member> = None;
        for (number, text) in (0u32..).zip(strings) {
            let full = tally.count(self.member.rule) >= f64::from(self.member.hits_max);
            if full || (self.member.nosubject && number == 0) {
                continue;
            }
            if !self.member.negated && !self.is_possible(text, tally) {
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

    /// Whether the text has what the pattern needs, and one of each tag's values: making the pattern
    /// costs more than looking for them.
    fn is_possible(&self, text: &[u8], tally: &mut Tally) -> bool {
        let mut candidates = std::mem::take(&mut tally.candidates);
        self.prefilter.search(text, &mut tally.buffers, &mut candidates);
        let has_strings = !candidates.is_empty();
        tally.candidates = candidates;
        if !has_strings {
            return false;
        }
        let text = text.to_ascii_lowercase();
        let has = |v: &Vec<u8>| memchr::memmem::find(&text, &v.to_ascii_lowercase()).is_some();
        self.tags.iter().all(|tag| tally.tags.values(tag).iter().any(has))
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
