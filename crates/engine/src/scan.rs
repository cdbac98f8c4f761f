//! Running the gauntlet.

use std::time::Instant;

use gauntlet_mail::{Envelope, Facts, Message};

use crate::filter::{Findings, Item};
use crate::snapshot::Snapshot;
use crate::verdict::{Class, FilterCost, Verdict};

/// Buffers of one scan thread, reused from item to item.
#[derive(Debug, Default)]
pub struct Scratch {}

/// Runs the item through every filter of the snapshot.
pub fn scan(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Verdict {
    let item = Item { message, envelope, facts, snapshot };
    let mut findings = Findings::default();
    let mut costs = Vec::with_capacity(snapshot.filters.len());
    for filter in &snapshot.filters {
        let start = Instant::now();
        filter.run(&item, scratch, &mut findings);
        let micros = start.elapsed().as_secs_f32() * 1e6;
        costs.push(FilterCost { filter: filter.name().into(), micros });
    }
    findings.hits.sort_by(|a, b| a.rule.cmp(&b.rule));
    let score = rounded(findings.hits.iter().map(|h| h.score).sum());
    let mut defects = message.defects();
    defects.append(&mut findings.defects);
    let class = findings.certain.iter().map(|c| c.0).max().unwrap_or(by_score(score, snapshot));
    Verdict {
        class,
        score,
        probability: None,
        hits: findings.hits,
        defects,
        counterfactuals: Vec::new(),
        costs,
        ruleset: snapshot.version.clone(),
    }
}

/// To a thousandth, so that sums do not show binary fractions; the sum of nothing is 0, not -0.
fn rounded(score: f64) -> f64 {
    (score * 1000.0).round() / 1000.0 + 0.0
}

fn by_score(score: f64, snapshot: &Snapshot) -> Class {
    match score {
        s if s >= snapshot.thresholds.spam => Class::Spam,
        s if s >= snapshot.thresholds.suspect => Class::Suspect,
        _ => Class::Ham,
    }
}
