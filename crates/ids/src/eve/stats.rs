//! Records of counters (`stats`).

use std::collections::BTreeMap;

use gauntlet_packet::Time;

use super::head::timestamp;
use super::line::Line;
use super::settings::Options;
use crate::pipeline::Counter;
use crate::rule::RuleSet;

/// Counters by the parts of their names.
#[derive(Default)]
struct Tree {
    value: Option<u64>,
    below: BTreeMap<String, Tree>,
}

impl Tree {
    fn add(&mut self, name: &str, value: u64) {
        match name.split_once('.') {
            Some((head, rest)) => self.below.entry(head.to_owned()).or_default().add(rest, value),
            None => self.below.entry(name.to_owned()).or_default().value = Some(value),
        }
    }

    fn write(&self, rules: &RuleSet, line: &mut Line) {
        for (name, tree) in &self.below {
            match tree.value {
                None if name == "detect" => line.object(name, |line| {
                    engine(rules, line);
                    tree.write(rules, line);
                }),
                Some(value) if tree.below.is_empty() => line.number(name, value),
                _ => line.object(name, |line| tree.write(rules, line)),
            }
        }
    }
}

/// The record of all counters, at the time of the last packet.
pub(super) fn stats(options: &Options, counters: &[Counter], rules: &RuleSet, now: Time) -> Line {
    let zeros = options.flag("null-values", true);
    let mut tree = Tree::default();
    for counter in counters.iter().filter(|counter| zeros || counter.value > 0) {
        tree.add(&counter.name, counter.value);
    }
    let mut line = Line::new();
    line.string("timestamp", &timestamp(now));
    line.string("event_type", "stats");
    line.object("stats", |line| {
        line.number("uptime", 0);
        if options.flag("totals", true) {
            tree.write(rules, line);
        }
    });
    line
}

/// How many rules there are, those that were not understood, and those left out on purpose.
fn engine(rules: &RuleSet, line: &mut Line) {
    let skipped = rules.problems.iter().filter(|problem| problem.is_skip).count();
    line.objects("engines", [()], |line, ()| {
        line.number("id", 0);
        line.number("rules_loaded", (rules.read_count - rules.problems.len()) as u64);
        line.number("rules_failed", (rules.problems.len() - skipped) as u64);
        line.number("rules_skipped", skipped as u64);
    });
}
