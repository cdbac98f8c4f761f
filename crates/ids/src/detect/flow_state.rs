//! What detection keeps with a flow.

use std::collections::{BTreeMap, BTreeSet};

use super::tag::Entry;
use super::threshold::{Counter, RuleId};

/// The most bits, numbers and variables of one flow, each.
const KEPT_MAX: usize = 1_024;

/// What rules decided for the rest of a flow. The first that decides wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FlowActions {
    /// Nothing.
    #[default]
    None,
    /// Packets are dropped and not inspected.
    Drop,
    /// Packets pass and are not inspected.
    Pass,
}

/// What detection keeps with a flow.
#[derive(Debug, Default)]
pub struct FlowState {
    /// What becomes of the rest.
    pub action: FlowActions,
    /// A rule with `bypass` matched: nothing more of it is looked at.
    pub bypassed: bool,
    /// Files of these directions are kept, to the server and to the client.
    pub stores: [bool; 2],
    /// Most flows have none.
    kept: Option<Box<Kept>>,
    /// A bit, number, variable or limit was ever set: rules that ask for bits are tried.
    pub(crate) has_variables: bool,
}

/// What rules have set, and what alerts have left.
#[derive(Debug, Default)]
struct Kept {
    tags: Vec<Entry>,
    thresholds: Vec<(RuleId, Counter)>,
    /// How many alerts were given the id of which transaction, because it was the only one.
    named: Vec<(u64, u32)>,
    bits: BTreeSet<u32>,
    numbers: BTreeMap<u32, u32>,
    variables: BTreeMap<u32, Vec<u8>>,
}

impl FlowState {
    /// Whether there may be bits, numbers or variables.
    pub fn has_variables(&self) -> bool {
        self.has_variables
    }

    /// Bits that are set, by their numbers ([`crate::rule::RuleSet::flowbits`]).
    pub fn bits(&self) -> impl Iterator<Item = u32> {
        self.kept.iter().flat_map(|kept| kept.bits.iter().copied())
    }

    /// Numbers and values of `flowint` ([`crate::rule::RuleSet::variables`]).
    pub fn numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.kept.iter().flat_map(|kept| kept.numbers.iter().map(|(n, value)| (*n, *value)))
    }

    /// Numbers and values of variables ([`crate::rule::RuleSet::variables`]).
    pub fn variables(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let all = self.kept.iter().flat_map(|kept| &kept.variables);
        all.map(|(number, value)| (*number, value.as_slice()))
    }

    fn kept(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }

    /// Tags of the flow, if it has any.
    pub(crate) fn tags(&mut self) -> Option<&mut Vec<Entry>> {
        self.kept.as_mut().map(|kept| &mut kept.tags).filter(|tags| !tags.is_empty())
    }

    /// Room for a tag.
    pub(crate) fn tags_to_add_to(&mut self) -> &mut Vec<Entry> {
        &mut self.kept().tags
    }

    /// Counters of limits on this flow.
    pub(crate) fn thresholds(&mut self) -> &mut Vec<(RuleId, Counter)> {
        &mut self.kept().thresholds
    }

    /// How many alerts were given the id of which transaction.
    pub(crate) fn named(&mut self) -> &mut Vec<(u64, u32)> {
        &mut self.kept().named
    }

    /// Whether a bit of `flowbits` is set.
    pub(crate) fn bit(&self, bit: u32) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.bits.contains(&bit))
    }

    pub(crate) fn set_bit(&mut self, bit: u32) {
        let kept = self.kept();
        if kept.bits.len() < KEPT_MAX {
            kept.bits.insert(bit);
            self.has_variables = true;
        }
    }

    pub(crate) fn clear_bit(&mut self, bit: u32) {
        if let Some(kept) = &mut self.kept {
            kept.bits.remove(&bit);
        }
    }

    /// The value of a `flowint`.
    pub(crate) fn number(&self, variable: u32) -> Option<u32> {
        self.kept.as_ref()?.numbers.get(&variable).copied()
    }

    pub(crate) fn set_number(&mut self, variable: u32, value: u32) {
        let numbers = &mut self.kept().numbers;
        if numbers.len() < KEPT_MAX || numbers.contains_key(&variable) {
            numbers.insert(variable, value);
            self.has_variables = true;
        }
    }

    /// The value of a `flowvar`.
    pub(crate) fn variable(&self, variable: u32) -> Option<&[u8]> {
        self.kept.as_ref()?.variables.get(&variable).map(Vec::as_slice)
    }

    pub(crate) fn set_variable(&mut self, variable: u32, value: &[u8]) {
        let variables = &mut self.kept().variables;
        if variables.len() < KEPT_MAX || variables.contains_key(&variable) {
            variables.insert(variable, value.to_vec());
            self.has_variables = true;
        }
    }
}
