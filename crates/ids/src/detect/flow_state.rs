//! What detection keeps with a flow.

use std::collections::{BTreeMap, BTreeSet};

use super::tags::Entry;
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
    pub(crate) tags: Vec<Entry>,
    pub(crate) thresholds: Vec<(RuleId, Counter)>,
    bits: BTreeSet<u32>,
    numbers: BTreeMap<u32, u32>,
    variables: BTreeMap<u32, Vec<u8>>,
    /// A bit, number, variable or limit was ever set: rules that ask for bits are tried.
    pub(crate) has_variables: bool,
}

impl FlowState {
    /// Whether there may be bits, numbers or variables.
    pub fn has_variables(&self) -> bool {
        self.has_variables
    }

    /// Bits that are set, by their numbers ([`crate::rule::RuleSet::flowbits`]).
    pub fn bits(&self) -> impl Iterator<Item = u32> {
        self.bits.iter().copied()
    }

    /// Numbers and values of `flowint` ([`crate::rule::RuleSet::variables`]).
    pub fn numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.numbers.iter().map(|(number, value)| (*number, *value))
    }

    /// Numbers and values of variables ([`crate::rule::RuleSet::variables`]).
    pub fn variables(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.variables.iter().map(|(number, value)| (*number, value.as_slice()))
    }

    /// Whether a bit of `flowbits` is set.
    pub(crate) fn bit(&self, bit: u32) -> bool {
        self.bits.contains(&bit)
    }

    pub(crate) fn set_bit(&mut self, bit: u32) {
        if self.bits.len() < KEPT_MAX {
            self.bits.insert(bit);
            self.has_variables = true;
        }
    }

    pub(crate) fn clear_bit(&mut self, bit: u32) {
        self.bits.remove(&bit);
    }

    /// The value of a `flowint`.
    pub(crate) fn number(&self, variable: u32) -> Option<u32> {
        self.numbers.get(&variable).copied()
    }

    pub(crate) fn set_number(&mut self, variable: u32, value: u32) {
        if self.numbers.len() < KEPT_MAX || self.numbers.contains_key(&variable) {
            self.numbers.insert(variable, value);
            self.has_variables = true;
        }
    }

    /// The value of a `flowvar`.
    pub(crate) fn variable(&self, variable: u32) -> Option<&[u8]> {
        self.variables.get(&variable).map(Vec::as_slice)
    }

    pub(crate) fn set_variable(&mut self, variable: u32, value: &[u8]) {
        if self.variables.len() < KEPT_MAX || self.variables.contains_key(&variable) {
            self.variables.insert(variable, value.to_vec());
            self.has_variables = true;
        }
    }
}
