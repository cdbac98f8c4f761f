//! Tags: text that one rule captures as `(?<TAG>...)` and another uses as `%{TAG}`.

use std::borrow::Cow;
use std::ops::Range;

use super::prefilter::Prefilter;
use super::{Location, Member, Tally};
use crate::document::Document;
use crate::pattern::Pattern;

/// Most values kept of one tag.
const VALUES_MAX: usize = 64;

/// What rules captured of this message, by the name of the tag.
#[derive(Debug, Default)]
pub(crate) struct Tags(Vec<Tag>);

/// What one rule captured for a tag.
#[derive(Debug)]
struct Tag {
    name: String,
    /// The rule that captured it.
    rule: u32,
    /// The rule's turn: if several rules capture a tag, the last one counts.
    turn: u8,
    values: Vec<Vec<u8>>,
}

impl Tags {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The values of a tag.
    pub(crate) fn values(&self, tag: &str) -> &[Vec<u8>] {
        let of_tag = self.0.iter().filter(|t| t.name == tag);
        of_tag.max_by_key(|t| (t.turn, t.rule)).map_or(&[], |t| &t.values)
    }

    /// Adds the groups of a rule's match that are named and not empty.
    pub(super) fn take(
        &mut self,
        rule: u32,
        location: Location,
        names: &[(String, u32)],
        groups: &[Option<Range<usize>>],
        text: &[u8],
    ) {
        for (name, index) in names.iter().filter(|(name, _)| is_tag(name)) {
            let Some(Some(range)) = groups.get(*index as usize) else { continue };
            let Some(value) = text.get(range.clone()).filter(|v| !v.is_empty()) else { continue };
            let known = self.0.iter().position(|t| t.rule == rule && t.name == *name);
            let at = known.unwrap_or_else(|| {
                let (name, turn) = (name.clone(), turn(location));
                self.0.push(Tag { name, rule, turn, values: Vec::new() });
                self.0.len() - 1
            });
            let values = &mut self.0[at].values;
            if values.len() < VALUES_MAX && !values.iter().any(|v| v == value) {
                values.push(value.to_vec());
            }
        }
    }
}

/// Whether a group of this name sets a tag: capitals, digits and single `_`.
fn is_tag(name: &str) -> bool {
    let is_word =
        |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('_').all(is_word)
}

/// SpamAssassin's order of the kinds of rules.
fn turn(location: Location) -> u8 {
    match location {
        Location::Header(_) | Location::None | Location::Template(_) => 0,
        Location::Body(_) => 1,
        Location::Uri(_) => 2,
        Location::Part(_) => 3,
        Location::Rawbody(_) => 4,
        Location::Full => 5,
    }
}

/// The values of a tag: a standard tag of the document, else what a rule captured.
fn values<'t>(tags: &'t Tags, name: &str, document: &dyn Document) -> Cow<'t, [Vec<u8>]> {
    match document.tag(name) {
        Some(values) => Cow::Owned(values),
        None => Cow::Borrowed(tags.values(name)),
    }
}

/// A rule whose pattern uses tags.
#[derive(Debug)]
pub(crate) struct TemplateRule {
    pub(crate) member: Member,
    tags: Vec<String>,
    /// Prefilter of the pattern without its tags.
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

    /// Whether every tag that the rule uses has a value: without them it cannot fire.
    pub(crate) fn has_values(&self, document: &dyn Document, tally: &Tally) -> bool {
        self.tags.iter().all(|tag| !values(&tally.tags, tag, document).is_empty())
    }

    /// Matches the rule on strings. It is not run while one of its tags has no value.
    pub(crate) fn scan<'t>(
        &self,
        strings: impl Iterator<Item = &'t [u8]>,
        location: impl Fn(u32) -> Location,
        document: &dyn Document,
        tally: &mut Tally,
    ) {
        let mut known: Vec<(&str, Vec<Vec<u8>>)> = Vec::with_capacity(self.tags.len());
        for tag in &self.tags {
            let values = values(&tally.tags, tag, document);
            if values.is_empty() {
                return;
            }
            known.push((tag, values.into_owned()));
        }
        let mut ready: Option<Member> = None;
        for (number, text) in (0u32..).zip(strings) {
            let full = tally.count(self.member.rule) >= f64::from(self.member.hits_max);
            if full || (self.member.nosubject && number == 0) {
                continue;
            }
            if !self.member.negated && !self.is_possible(text, &known, tally) {
                continue;
            }
            if ready.is_none() {
                ready = self.filled(&known);
            }
            let Some(member) = &ready else { return };
            if member.negated {
                if !member.pattern.is_match(text) {
                    tally.hit(member.rule, 1, Location::None);
                }
            } else {
                member.apply(text, 0, location(number), tally);
            }
        }
    }

    /// Whether the text has what the pattern needs, and one of the values of each tag: compiling
    /// the pattern costs more than searching for them.
    fn is_possible(&self, text: &[u8], known: &[(&str, Vec<Vec<u8>>)], tally: &mut Tally) -> bool {
        let mut candidates = std::mem::take(&mut tally.candidates);
        self.prefilter.search(text, &mut tally.buffers, &mut candidates);
        let has_strings = !candidates.is_empty();
        tally.candidates = candidates;
        if !has_strings {
            return false;
        }
        let text = text.to_ascii_lowercase();
        let has = |v: &Vec<u8>| memchr::memmem::find(&text, &v.to_ascii_lowercase()).is_some();
        known.iter().all(|(_, values)| values.iter().any(has))
    }

    /// The member with the tags' values in its pattern.
    fn filled(&self, known: &[(&str, Vec<Vec<u8>>)]) -> Option<Member> {
        let values = |tag: &str| {
            known.iter().find(|(name, _)| *name == tag).map_or(Vec::new(), |(_, v)| v.clone())
        };
        let pattern: Pattern = self.member.pattern.with_tags(&values).ok()?;
        Some(Member {
            rule: self.member.rule,
            pattern,
            hits_max: self.member.hits_max,
            nosubject: self.member.nosubject,
            is_nice: self.member.is_nice,
            negated: self.member.negated,
            priority: self.member.priority,
            is_deferrable: self.member.is_deferrable,
            // The pattern is compiled for this message only.
            has_dfa_check: false,
        })
    }
}
