//! What rules keep with a flow: bits, numbers, variables.

use super::line::Line;
use crate::detect::FlowState;
use crate::rule::RuleSet;

/// Bits that begin with these are no bits of rules among themselves, but said of the traffic.
const TRAFFIC: [(&str, &str); 2] = [("id", "traffic/id/"), ("label", "traffic/label/")];

/// Writes the objects `traffic` and `metadata`, if there is something in them.
pub(super) fn write(rules: &RuleSet, state: &FlowState, line: &mut Line) {
    if !state.has_variables() {
        return;
    }
    let name = |names: &'_ [String], number: u32| names.get(number as usize).cloned();
    let bits: Vec<String> = state.bits().filter_map(|bit| name(&rules.flowbits, bit)).collect();
    let of = |prefix: &'static str| bits.iter().filter_map(move |bit| bit.strip_prefix(prefix));
    let is_traffic = |bit: &str| TRAFFIC.iter().any(|(_, prefix)| bit.starts_with(prefix));
    if bits.iter().any(|bit| is_traffic(bit)) {
        line.object("traffic", |line| {
            for (key, prefix) in TRAFFIC {
                if of(prefix).next().is_some() {
                    line.strings(key, of(prefix));
                }
            }
        });
    }
    let own: Vec<&str> = bits.iter().map(String::as_str).filter(|bit| !is_traffic(bit)).collect();
    let numbers: Vec<_> = state.numbers().collect();
    let variables: Vec<_> = state.variables().collect();
    if bits.is_empty() && numbers.is_empty() && variables.is_empty() {
        return;
    }
    line.object("metadata", |line| {
        if !own.is_empty() {
            line.strings("flowbits", own);
        }
        if !numbers.is_empty() {
            line.object("flowints", |line| {
                for (number, value) in numbers {
                    if let Some(name) = name(&rules.variables, number) {
                        line.number(&name, value);
                    }
                }
            });
        }
        if !variables.is_empty() {
            line.objects("flowvars", variables, |line, (number, value)| {
                if let Some(name) = name(&rules.variables, number) {
                    line.printable(&name, value);
                }
            });
        }
    });
}
