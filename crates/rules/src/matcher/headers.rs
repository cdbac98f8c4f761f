//! `header` rules, grouped by the header value they match, so that each value is made once.

use std::collections::BTreeMap;

use super::pending::Candidate;
use super::prefilter::Prefilter;
use super::{Location, Member, Tally};
use crate::document::{self, Document};
use crate::pattern::frequency::TextKind;
use crate::rule::HeaderSelector;

/// Groups with fewer patterns are matched without a prefilter: trying them costs less.
pub(super) const PREFILTER_MIN: usize = 4;

/// All `header` rules, grouped by what they read: a value is made once for its whole group.
#[derive(Debug, Default)]
pub(crate) struct HeaderRules {
    groups: Vec<Group>,
    /// For each group, the hash of the field name if nothing needs to be done when the message
    /// lacks that field. Most fields that rules name are in no message; checking one byte per group
    /// avoids loading the groups, which lie far apart in memory.
    skipped_without: Vec<Option<u8>>,
}

/// Rules on the same header value.
#[derive(Debug)]
struct Group {
    selector: HeaderSelector,
    members: Vec<HeaderMember>,
    /// Members written with `!~`.
    negated: Vec<u32>,
    /// `exists:` rules on this value.
    exists: Vec<u32>,
    prefilter: Option<Prefilter>,
    /// Members that match the empty value, which stands for a missing field.
    on_missing: Vec<u32>,
    /// Hash of the field name; `None` if the value may exist without such a field (pseudo headers).
    name_hash: Option<u8>,
}

#[derive(Debug)]
struct HeaderMember {
    member: Member,
    if_unset: Option<Vec<u8>>,
}

/// Collects rules by selector.
#[derive(Debug, Default)]
pub(crate) struct HeaderRulesBuilder {
    groups: BTreeMap<HeaderSelector, (Vec<HeaderMember>, Vec<u32>)>,
}

impl HeaderRulesBuilder {
    /// Adds a pattern on a value.
    pub(crate) fn pattern(
        &mut self,
        selector: &HeaderSelector,
        member: Member,
        if_unset: Option<&str>,
    ) {
        let if_unset = if_unset.map(|t| t.as_bytes().to_vec());
        self.group(selector).0.push(HeaderMember { member, if_unset });
    }

    /// Adds an `exists:` rule.
    pub(crate) fn exists(&mut self, selector: &HeaderSelector, rule: usize) {
        self.group(selector).1.push(rule as u32);
    }

    fn group(&mut self, selector: &HeaderSelector) -> &mut (Vec<HeaderMember>, Vec<u32>) {
        let mut key = selector.clone();
        // Field names are case-insensitive, those of pseudo headers are not.
        if !is_pseudo(&key.name) {
            key.name = key.name.to_ascii_lowercase();
        }
        self.groups.entry(key).or_default()
    }

    /// Makes the groups; those with few patterns get no prefilter.
    pub(crate) fn build(self) -> HeaderRules {
        let groups = self.groups.into_iter().map(|(selector, (members, exists))| {
            let prefilter = (members.len() >= PREFILTER_MIN).then(|| {
                let patterns = members.iter().map(|m| (&m.member.pattern, !m.member.is_deferrable));
                Prefilter::on(texts(&selector), patterns)
            });
            let on_missing = (0u32..)
                .zip(&members)
                .filter(|(_, m)| {
                    let text = m.if_unset.as_deref().unwrap_or_default();
                    m.member.pattern.is_match(text) != m.member.negated
                })
                .map(|(i, _)| i)
                .collect();
            let name_hash = document::is_field_name(&selector.name)
                .then(|| document::name_hash(selector.name.as_bytes()));
            let negated = (0u32..).zip(&members).filter(|(_, m)| m.member.negated);
            let negated = negated.map(|(i, _)| i).collect();
            Group { selector, members, negated, exists, prefilter, on_missing, name_hash }
        });
        let groups: Vec<Group> = groups.collect();
        let hash = |g: &Group| g.name_hash.filter(|_| g.on_missing.is_empty());
        HeaderRules { skipped_without: groups.iter().map(hash).collect(), groups }
    }
}

/// Which frequency table fits the values of this selector.
fn texts(selector: &HeaderSelector) -> TextKind {
    match selector.name.as_str() {
        name if name.starts_with("X-Spam-Relays-") => TextKind::Relays,
        name if name.starts_with("ALL") => TextKind::Fields,
        _ => TextKind::Mail,
    }
}

/// Names of pseudo headers, which are case-sensitive.
fn is_pseudo(name: &str) -> bool {
    matches!(name, "ALL" | "ToCc" | "EnvelopeFrom" | "MESSAGEID")
        || name.starts_with("ALL-")
        || name.starts_with("X-Spam-")
}

impl HeaderRules {
    /// Runs every group whose field the message may have, and those that need no field.
    pub(crate) fn scan(&self, document: &dyn Document, tally: &mut Tally) {
        for (number, without) in (0u32..).zip(&self.skipped_without) {
            if without.is_some_and(|hash| !document.may_have_field(hash)) {
                continue;
            }
            let Some(group) = self.groups.get(number as usize) else { continue };
            // The hash is one byte: two names may share it, so that only its absence is certain.
            if group.name_hash.is_some_and(|hash| !document.may_have_field(hash)) {
                group.scan_missing(Location::Header(number), tally);
                continue;
            }
            match document.header(&group.selector) {
                Some(value) => group.scan(&value, Location::Header(number), tally),
                None => group.scan_missing(Location::Header(number), tally),
            }
        }
    }

    /// The selector of a group.
    pub(crate) fn selector(&self, group: u32) -> Option<&HeaderSelector> {
        self.groups.get(group as usize).map(|g| &g.selector)
    }

    /// Evaluates a deferred rule on the header value that it was a candidate for.
    pub(crate) fn try_candidate(&self, candidate: Candidate, value: &[u8], tally: &mut Tally) {
        let Location::Header(group) = candidate.location else { return };
        let group = self.groups.get(group as usize);
        if let Some(found) = group.and_then(|g| g.members.get(candidate.member as usize)) {
            let start = Some(candidate.start as usize);
            found.member.try_value(value, start, candidate.location, tally);
        }
    }

    /// Every pattern with its rule.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.groups.iter().flat_map(|g| g.members.iter().map(|m| &m.member))
    }
}

impl Group {
    fn scan(&self, value: &[u8], location: Location, tally: &mut Tally) {
        self.exists.iter().for_each(|rule| tally.hit(*rule, 1, location));
        let Some(prefilter) = &self.prefilter else {
            for (number, m) in (0u32..).zip(&self.members) {
                m.member.try_or_defer(value, Some(0), (location, number), tally);
            }
            return;
        };
        let mut candidates = std::mem::take(&mut tally.candidates);
        prefilter.search(value, &mut tally.buffers, &mut candidates);
        // In the order of the members: negated ones, which fire without a match, and those that may
        // match.
        let mut negated = self.negated.iter().copied().peekable();
        for number in &candidates {
            while let Some(before) = negated.next_if(|negated| negated < number) {
                self.try_member(before, value, None, location, tally);
            }
            negated.next_if_eq(number);
            let start = prefilter.start(*number, value, &tally.buffers);
            self.try_member(*number, value, Some(start), location, tally);
        }
        negated.for_each(|number| self.try_member(number, value, None, location, tally));
        tally.candidates = candidates;
    }

    /// Evaluates a member or defers it. No match begins before `start`; with `None` there is no
    /// match.
    fn try_member(
        &self,
        number: u32,
        value: &[u8],
        start: Option<usize>,
        location: Location,
        tally: &mut Tally,
    ) {
        if let Some(member) = self.members.get(number as usize) {
            member.member.try_or_defer(value, start, (location, number), tally);
        }
    }

    fn scan_missing(&self, location: Location, tally: &mut Tally) {
        for number in &self.on_missing {
            if let Some(member) = self.members.get(*number as usize) {
                let text = member.if_unset.as_deref().unwrap_or_default();
                member.member.try_value(text, Some(0), location, tally);
            }
        }
    }
}

impl Member {
    /// Matches the pattern on a header value, or defers that. No match begins before `start`; with
    /// `None` there is no match.
    fn try_or_defer(
        &self,
        value: &[u8],
        start: Option<usize>,
        at: (Location, u32),
        tally: &mut Tally,
    ) {
        match start {
            Some(start) if self.is_deferrable && tally.pending.is_on => {
                tally.pending.defer_text(self.rule, value, start, at);
            }
            _ => self.try_value(value, start, at.0, tally),
        }
    }

    /// Matches the pattern on a header value; `start` as in [`Member::try_or_defer`].
    fn try_value(&self, value: &[u8], start: Option<usize>, location: Location, tally: &mut Tally) {
        if self.negated {
            let scratch = tally.scratches.of(self.rule, &self.pattern);
            match start.map_or(Ok(None), |_| self.pattern.find_with(value, 0, scratch)) {
                Ok(None) => tally.hit(self.rule, 1, location),
                Ok(Some(_)) => {}
                Err(error) => tally.record_budget_exceeded(self.rule, &error),
            }
        } else if let Some(start) = start {
            self.apply(value, start, location, tally);
        }
    }
}
