//! Any bytes as rules, and any bytes under rules. Fuzz targets and tests ask the same.

use std::path::Path;

use gauntlet_ids::config::Settings;
use gauntlet_ids::inspect::{Buffer, Capture, Context, Inspector};
use gauntlet_ids::rule::matches::{DataReputation, Dataset, Match};
use gauntlet_ids::rule::{RuleSet, reader::Reader};

/// Nothing is known of datasets; the byte order is little endian.
pub(crate) struct Nothing;

impl Context for Nothing {
    fn dataset(&mut self, _: &Dataset, value: &[u8]) -> bool {
        value.len() > 3
    }

    fn reputation(&mut self, _: &DataReputation, _: &[u8]) -> bool {
        false
    }

    fn capture(&mut self, _: Capture, _: &[u8]) {}

    fn dce_little_endian(&self) -> Option<bool> {
        Some(true)
    }
}

/// Reads rules; lists beside them are not there.
pub(crate) fn read(rules: &[u8]) -> RuleSet {
    let mut reader = Reader::new(&Settings::stock());
    reader.classes("config classification: bad-unknown,Potentially Bad Traffic, 2\n");
    reader.read("a.rules", rules, Path::new("/nowhere"));
    reader.finish()
}

/// Reads any bytes as rules: each is loaded or told.
pub(crate) fn rules(input: &[u8]) {
    let set = read(input);
    let lines = set.rules.iter().map(|rule| rule.place.line);
    let loaded = lines.collect::<std::collections::BTreeSet<_>>().len();
    // A rule that another one replaces counts as read, too.
    assert!(loaded + set.problems.len() <= set.read_count);
    assert!(set.problems.iter().all(|problem| !problem.reason.is_empty()));
}

/// Inspects what is behind the first zero byte by the rule before it.
pub(crate) fn inspect(input: &[u8]) {
    let cut = input.iter().position(|&byte| byte == 0).unwrap_or(input.len());
    let (rule, bytes) = input.split_at(cut);
    let set = read(rule);
    let mut inspector = Inspector::default();
    for rule in &set.rules {
        let lists = rule.buffers.iter().map(|buffer| buffer.matches.as_slice());
        let all: Vec<&[Match]> = std::iter::once(rule.payload.as_slice()).chain(lists).collect();
        inspector.begin();
        for matches in all {
            for offset in [0, 7] {
                let buffer = Buffer { bytes, offset, is_start: offset == 0, is_end: offset == 0 };
                inspector.inspect(matches, &rule.base64, &buffer, &mut Nothing);
            }
        }
    }
}
