//! Running the gauntlet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use gauntlet_mail::{Defect, DefectKind, Envelope, Facts, Message};

use crate::counterfactual;
use crate::filter::{Findings, Item};
use crate::filters;
use crate::fusion::{self, Signals};
use crate::readings;
use crate::snapshot::{FailAction, Snapshot};
use crate::unscannable;
use gauntlet_verdict::{Class, FilterCost, Verdict};

/// Buffers of one scan thread, reused from item to item.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Of the filter [`crate::filters::rules::Rules`].
    pub(crate) rules: gauntlet_rules::RulesScratch,
    /// Of the filter [`crate::filters::spamassassin::SpamAssassin`].
    pub(crate) spamassassin: gauntlet_spamassassin::RulesScratch,
    /// Of the filter [`crate::filters::classifier::Classifier`].
    pub(crate) classifier: crate::classifier::ClassifierScratch,
    pub(crate) words: filters::words::Counts,
}

impl Scratch {
    /// What is known already of the text of the item that is scanned next; none forgets what was given
    /// before. Verdicts are the same with it and without.
    pub fn give(&mut self, text: Option<(Arc<str>, gauntlet_spamassassin::TextViews)>) {
        self.spamassassin.give(text);
    }
}

/// Runs the item through every filter of the snapshot.
///
/// A filter that panics, or finds more than [`Snapshot::hits_max`] hits, is a `filter_failed` defect
/// in the verdict; what it had found until then is dropped, and the class is as
/// [`Snapshot::on_failure`] says (design invariant 6). Of a message that is another one for whoever drops
/// NULs or takes a bare CR for the end of a line, each reading is scanned and the worst verdict returned.
pub fn scan(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Verdict {
    let verdict = scan_one(message, envelope, facts, snapshot, scratch);
    readings::worst(message, envelope, facts, snapshot, scratch, verdict)
}

/// Scans the bytes as they are.
pub(crate) fn scan_one(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Verdict {
    let item = Item { message, envelope, facts, snapshot };
    let (findings, failed, costs) = run_filters(&item, scratch);
    verdict(message, findings, failed, snapshot, costs)
}

/// What the filters of the snapshot find, before it is weighed. For fitting weights and thresholds.
pub fn weigh(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Signals {
    let item = Item { message, envelope, facts, snapshot };
    signals(&run_filters(&item, scratch).0, &|_| true)
}

/// Findings, whether a filter failed, and what each cost.
fn run_filters(item: &Item<'_>, scratch: &mut Scratch) -> (Findings, bool, Vec<FilterCost>) {
    let snapshot = item.snapshot;
    let mut findings = Findings::default();
    let mut failed = false;
    scratch.classifier.forget();
    let mut costs = Vec::with_capacity(snapshot.filters.len());
    for (filter, name) in snapshot.filters.iter().zip(&snapshot.filter_names) {
        let start = Instant::now();
        let before = Marks::of(&findings);
        let run = || filter.run(item, scratch, &mut findings);
        let ended = catch_unwind(AssertUnwindSafe(run));
        if ended.is_err() || findings.hits.len() > snapshot.hits_max {
            // The buffers may be in any state, and so may what the filter found.
            *scratch = Scratch::default();
            before.restore(&mut findings);
            findings.defects.push(Defect::new(DefectKind::FilterFailed, 0).detail(name));
            failed = true;
        }
        let micros = start.elapsed().as_secs_f32() * 1e6;
        costs.push(FilterCost { filter: name.clone(), micros });
    }
    (findings, failed, costs)
}

fn verdict(
    message: &Message<'_>,
    mut findings: Findings,
    failed: bool,
    snapshot: &Snapshot,
    costs: Vec<FilterCost>,
) -> Verdict {
    findings.hits.sort_by(|a, b| a.rule.cmp(&b.rule));
    let mut defects = message.defects();
    defects.append(&mut findings.defects);
    let signals = signals(&findings, &|_| true);
    let judged = fusion::judge(&signals, snapshot);
    // A rule that gave up has failed as a filter does.
    let failed = failed || defects.iter().any(|d| d.kind == DefectKind::RuleBudget);
    let failed = failed && snapshot.on_failure == FailAction::Unscannable;
    let class = unscannable::class(judged.class, failed, &defects);
    let counterfactuals = match class {
        Class::Unscannable => Vec::new(),
        class => counterfactual::find(&findings, snapshot, class),
    };
    Verdict {
        class,
        score: signals.rule_points,
        probability: judged.probability,
        explicit: judged.explicit,
        hits: findings.hits,
        defects,
        counterfactuals,
        costs,
        ruleset: snapshot.version.clone(),
        sub: findings.sub,
    }
}

/// What is weighed, from the hits whose rule `counts`.
pub(crate) fn signals(findings: &Findings, counts: &dyn Fn(&Arc<str>) -> bool) -> Signals {
    let hits = || findings.hits.iter().filter(|h| counts(&h.rule));
    let speaks = |list: &[Arc<str>], rule: &Arc<str>| list.iter().any(|r| Arc::ptr_eq(r, rule));
    let certain = findings.certain.iter().filter(|c| counts(&c.1)).map(|c| c.0);
    Signals {
        rule_points: rounded(hits().map(|h| h.score).sum()),
        strongest: hits().map(|h| h.score).fold(0.0, f64::max),
        phishing_points: rounded(
            hits().filter(|h| speaks(&findings.phishing, &h.rule)).map(|h| h.score).sum(),
        ),
        bulk: findings.bulk.iter().any(counts),
        certain: fusion::certain(certain),
        classifier: findings.classifier,
        signatures: findings.signatures,
    }
}

/// To a thousandth, so that sums do not show binary fractions; the sum of nothing is 0, not -0.
pub(crate) fn rounded(score: f64) -> f64 {
    (score * 1000.0).round() / 1000.0 + 0.0
}

/// How much had been found before a filter ran.
struct Marks {
    hits: usize,
    defects: usize,
    certain: usize,
    phishing: usize,
    bulk: usize,
    sub: usize,
    odds: (Option<f64>, Option<f64>),
}

impl Marks {
    fn of(findings: &Findings) -> Self {
        Marks {
            hits: findings.hits.len(),
            defects: findings.defects.len(),
            certain: findings.certain.len(),
            phishing: findings.phishing.len(),
            bulk: findings.bulk.len(),
            sub: findings.sub.len(),
            odds: (findings.classifier, findings.signatures),
        }
    }

    fn restore(&self, findings: &mut Findings) {
        findings.hits.truncate(self.hits);
        findings.defects.truncate(self.defects);
        findings.certain.truncate(self.certain);
        findings.phishing.truncate(self.phishing);
        findings.bulk.truncate(self.bulk);
        findings.sub.truncate(self.sub);
        (findings.classifier, findings.signatures) = self.odds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::rulebook::{Rule, RuleBook};
    use gauntlet_mail::{Evidence, View};

    #[derive(Debug)]
    struct Points(Rule);
    impl Filter for Points {
        fn name(&self) -> &'static str {
            "points"
        }
        fn run(&self, _: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
            findings.add(&self.0, Evidence::new(View::Raw, 0, 0, b"x"));
        }
    }

    #[derive(Debug)]
    struct Endless(bool);
    impl Filter for Endless {
        fn name(&self) -> &'static str {
            "endless"
        }
        fn run(&self, _: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
            for i in 0..100_000 {
                let name = format!("R{i}").into();
                findings.hit(&name, 1.0, &"".into(), Evidence::new(View::Raw, 0, 0, b"x"));
            }
            assert!(!self.0, "this filter is broken");
        }
    }

    fn snapshot(filters: Vec<Box<dyn Filter>>) -> Snapshot {
        Snapshot::empty().with_filters(filters)
    }

    fn judge(snapshot: &Snapshot) -> Verdict {
        let message = Message::parse(b"From: a@b.example\n\nhello\n");
        let mut scratch = Scratch::default();
        scan(&message, &Envelope::default(), &Facts::default(), snapshot, &mut scratch)
    }

    #[test]
    fn a_filter_that_fails_never_passes_silently() {
        for panics in [true, false] {
            let rule = RuleBook::default().points("SEVEN", 7.0, "seven");
            let filters: Vec<Box<dyn Filter>> =
                vec![Box::new(Endless(panics)), Box::new(Points(rule))];
            let mut snapshot = snapshot(filters);
            let verdict = judge(&snapshot);
            assert_eq!(verdict.class, Class::Unscannable);
            assert_eq!(verdict.score, 7.0, "the others still count");
            let failed: Vec<_> =
                verdict.defects.iter().filter(|d| d.kind == DefectKind::FilterFailed).collect();
            assert_eq!(failed[0].detail, "endless");
            snapshot.on_failure = FailAction::Ignore;
            assert_eq!(judge(&snapshot).class, Class::Spam);
        }
    }

    #[test]
    fn what_would_have_changed_the_class() {
        let mut book = RuleBook::default();
        let rules = [("FIVE", 5.0), ("ONE", 1.0), ("ODD", 0.5)];
        let filters = rules.map(|(name, points)| {
            Box::new(Points(book.points(name, points, ""))) as Box<dyn Filter>
        });
        let verdict = judge(&snapshot(filters.into_iter().collect()));
        assert_eq!((verdict.class, verdict.score), (Class::Spam, 6.5));
        let found: Vec<_> =
            verdict.counterfactuals.iter().map(|c| (&*c.without[0], c.class)).collect();
        assert_eq!(found, [("FIVE", Class::Ham), ("ONE", Class::Suspect)]);
    }
}
