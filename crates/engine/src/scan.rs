//! Scanning one message: running the filters, and making the verdict.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use gauntlet_mail::{Defect, DefectKind, Envelope, Facts, Message};

use crate::counterfactual;
use crate::filter::{Filter, Findings, Item};
use crate::filters::url_lists;
use crate::fusion::{self, Signals};
use crate::learned::Learned;
use crate::object_texts;
use crate::parser_differentials::{alternatives, structure};
use crate::scratch::Scratch;
use crate::snapshot::{FailAction, Snapshot};
use crate::unscannable;
use gauntlet_verdict::{Class, FilterCost, Verdict};

/// Runs the item through every filter of the snapshot.
///
/// A filter that panics, or finds more than [`Snapshot::hits_max`] hits, is a `filter_failed`
/// defect in the verdict; what it had found until then is dropped, and the class is as
/// [`Snapshot::on_failure`] says (design invariant 6). Of a message that reads differently to
/// programs that drop NULs or takes a bare CR for the end of a line, each reading is scanned and
/// the worst verdict returned.
pub fn scan(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Verdict {
    let verdict = scan_one(message, envelope, facts, snapshot, scratch);
    worst(message, envelope, facts, snapshot, scratch, verdict)
}

/// Scans the bytes as they are.
fn scan_one(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Verdict {
    let item = Item { message, envelope, facts, learned: &snapshot.learned };
    let ran = run_filters(&item, snapshot, scratch, |_| true);
    verdict(message.defects().to_vec(), ran, facts.content.all_readings, snapshot)
}

/// The worst verdict over the other interpretations of a message that was judged as it is.
fn worst(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
    verdict: Verdict,
) -> Verdict {
    let others = alternatives(message.raw(), &verdict.defects);
    if others.is_empty() {
        return verdict;
    }
    let mut worst = verdict;
    let (original, mut differs) = (structure(message), false);
    for raw in others {
        let reading = Message::parse_with(&raw, message.limits());
        differs |= structure(&reading) != original;
        scratch.give(None);
        let mut other = scan_one(&reading, envelope, facts, snapshot, scratch);
        // A rule of the policy may ask for a list that does not change the class.
        let mut listed = std::mem::take(&mut worst.url_lists);
        differs |= !url_lists::merge(&mut listed, std::mem::take(&mut other.url_lists));
        if other.class.severity() > worst.class.severity() {
            worst = other;
        }
        worst.url_lists = listed;
    }
    if differs {
        // The policy sees one of the shapes only.
        let kind = DefectKind::SeveralReadings;
        if worst.class.severity() < Class::Unscannable.severity() {
            worst.counterfactuals = counterfactual::without_defects(&[kind], worst.class);
            worst.class = Class::Unscannable;
        } else if worst.class == Class::Unscannable {
            for change in &mut worst.counterfactuals {
                change.without.push(kind.name().into());
            }
        }
        worst.defects.push(Defect::new(kind, 0));
    }
    worst
}

/// What the filters of the snapshot find, before it is weighed. For fitting weights and thresholds.
pub fn weigh(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Signals {
    let item = Item { message, envelope, facts, learned: &snapshot.learned };
    Signals::of(&run_filters(&item, snapshot, scratch, |_| true).findings, &|_| true)
}

/// The log odds that an item is unwanted, by everything but what the site has learned.
pub fn log_odds_as_shipped(
    message: &Message<'_>,
    envelope: &Envelope,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> f64 {
    let learned = Learned::default();
    let item = Item { message, envelope, facts, learned: &learned };
    let signals = Signals::of(&run_filters(&item, snapshot, scratch, |_| true).findings, &|_| true);
    let odds = snapshot.fusion.as_ref().and_then(|weights| fusion::log_odds(&signals, weights));
    odds.unwrap_or(0.0)
}

/// What the filters of a snapshot found in an item.
pub(crate) struct Ran {
    findings: Findings,
    /// A filter panicked, or found more than is kept.
    failed: bool,
    costs: Vec<FilterCost>,
}

/// Runs those filters of the snapshot that `wanted` says.
pub(crate) fn run_filters(
    item: &Item<'_>,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
    wanted: impl Fn(&dyn Filter) -> bool,
) -> Ran {
    let mut findings = Findings::default();
    let mut failed = false;
    scratch.classifier.forget();
    let mut costs = Vec::with_capacity(snapshot.filters.len());
    let all = snapshot.filters.iter().zip(&snapshot.filter_names);
    for (filter, name) in all.filter(|(filter, _)| wanted(&***filter)) {
        let start = Instant::now();
        let before = Checkpoint::of(&findings);
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
    failed |= run_on_objects(item, snapshot, scratch, &mut findings, &mut costs);
    Ran { findings, failed, costs }
}

/// The filters that read text, on the texts of the message's files; whether one failed.
fn run_on_objects(
    item: &Item<'_>,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
    findings: &mut Findings,
    costs: &mut Vec<FilterCost>,
) -> bool {
    if item.facts.content.is_empty() {
        return false;
    }
    let start = Instant::now();
    let before = Checkpoint::of(findings);
    let run = || object_texts::judge(item, &snapshot.filters, scratch, findings);
    let failed = catch_unwind(AssertUnwindSafe(run)).is_err();
    if failed {
        *scratch = Scratch::default();
        before.restore(findings);
        findings.defects.push(Defect::new(DefectKind::FilterFailed, 0).detail("object texts"));
    }
    let micros = start.elapsed().as_secs_f32() * 1e6;
    costs.push(FilterCost { filter: "object texts".into(), micros });
    failed
}

/// The verdict on an item with these defects of its own.
pub(crate) fn verdict(
    mut defects: Vec<Defect>,
    ran: Ran,
    all_readings: bool,
    snapshot: &Snapshot,
) -> Verdict {
    let Ran { mut findings, failed, costs } = ran;
    findings.hits.sort_by(|a, b| a.rule.cmp(&b.rule));
    defects.append(&mut findings.defects);
    let signals = Signals::of(&findings, &|_| true);
    let judged = fusion::classify(&signals, snapshot.fusion.as_ref(), &snapshot.thresholds);
    // A rule that gave up has failed as a filter does.
    let failed = failed || defects.iter().any(|d| d.kind == DefectKind::RuleBudget);
    let failed = failed && snapshot.on_failure == FailAction::Unscannable;
    let class = unscannable::class(judged.class, failed, all_readings, &defects);
    let counterfactuals = match class {
        Class::Unscannable => {
            let causes = unscannable::causes(failed, all_readings, &defects);
            counterfactual::without_defects(&causes, judged.class)
        }
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
        data_loss: None,
        url_lists: findings.url_lists,
        stranger_odds: stranger_odds(&signals, findings.known_author, snapshot),
    }
}

/// See [`Verdict::stranger_odds`].
fn stranger_odds(signals: &Signals, known: Option<f64>, snapshot: &Snapshot) -> Option<f64> {
    let known = known.unwrap_or(0.0);
    let stranger = Signals {
        // What was learned for such mail may be this author's own, and says nothing of other good
        // mail; what was learned against it is what other good mail has to bear as well.
        site: signals.site.map(|site| (site - known).max(0.0)),
        signatures: signals.signatures.map(|odds| odds.max(0.0)),
        ..*signals
    };
    fusion::log_odds(&stranger, snapshot.fusion.as_ref()?)
}

/// How much had been found before a filter ran.
struct Checkpoint {
    hits: usize,
    defects: usize,
    forced_classes: usize,
    phishing: usize,
    bulk: usize,
    sub: usize,
    url_lists: usize,
    odds: [Option<f64>; 4],
}

impl Checkpoint {
    fn of(findings: &Findings) -> Self {
        Checkpoint {
            hits: findings.hits.len(),
            defects: findings.defects.len(),
            forced_classes: findings.forced_classes.len(),
            phishing: findings.phishing.len(),
            bulk: findings.bulk.len(),
            sub: findings.sub.len(),
            url_lists: findings.url_lists.len(),
            odds: [findings.classifier, findings.signatures, findings.site, findings.known_author],
        }
    }

    fn restore(&self, findings: &mut Findings) {
        findings.hits.truncate(self.hits);
        findings.defects.truncate(self.defects);
        findings.forced_classes.truncate(self.forced_classes);
        findings.phishing.truncate(self.phishing);
        findings.bulk.truncate(self.bulk);
        findings.sub.truncate(self.sub);
        findings.url_lists.truncate(self.url_lists);
        [findings.classifier, findings.signatures, findings.site, findings.known_author] =
            self.odds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::rule_registry::{Rule, RuleRegistry};
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
            let rule = RuleRegistry::default().points("SEVEN", 7.0, "seven");
            let filters: Vec<Box<dyn Filter>> =
                vec![Box::new(Endless(panics)), Box::new(Points(rule))];
            let mut snapshot = snapshot(filters);
            let verdict = judge(&snapshot);
            assert_eq!(verdict.class, Class::Unscannable);
            assert_eq!(verdict.score, 7.0, "the others still count");
            let failed: Vec<_> =
                verdict.defects.iter().filter(|d| d.kind == DefectKind::FilterFailed).collect();
            assert_eq!(failed[0].detail, "endless");
            let changes: Vec<_> =
                verdict.counterfactuals.iter().map(|c| (&*c.without[0], c.class)).collect();
            assert_eq!(changes, [("filter_failed", Class::Spam)]);
            snapshot.on_failure = FailAction::Ignore;
            assert_eq!(judge(&snapshot).class, Class::Spam);
        }
    }

    #[test]
    fn an_unscannable_item_says_which_defects_made_it_so() {
        let body = "Content-Type: message/external-body; access-type=x-none\n\nhello\n";
        let judge = |head: &str| {
            let raw = format!("From: a@b.example\n{head}{body}");
            let message = Message::parse(raw.as_bytes());
            let (envelope, facts) = (Envelope::default(), Facts::default());
            scan(&message, &envelope, &facts, &snapshot(Vec::new()), &mut Scratch::default())
        };
        let verdict = judge("");
        let kinds: Vec<_> = verdict.defects.iter().map(|d| d.kind).collect();
        assert!(kinds.contains(&DefectKind::NoMessageId), "{kinds:?}");
        let changes = |verdict: &Verdict| -> Vec<(String, Class)> {
            verdict.counterfactuals.iter().map(|c| (c.without.join(" "), c.class)).collect()
        };
        assert_eq!(verdict.class, Class::Unscannable);
        assert_eq!(changes(&verdict), [("external_body".to_owned(), Class::Ham)]);
        let both = judge("Subject: x\rA: b\n");
        assert_eq!(both.class, Class::Unscannable);
        let changes = changes(&both);
        let (without, class) = (&changes[0].0, changes[0].1);
        assert!(without.contains("external_body"), "{without}");
        assert!(without.ends_with("several_readings"), "{without}");
        assert_eq!((changes.len(), class), (1, Class::Ham));
    }

    #[test]
    fn what_would_have_changed_the_class() {
        let mut registry = RuleRegistry::default();
        let rules = [("FIVE", 5.0), ("ONE", 1.0), ("ODD", 0.5)];
        let filters = rules.map(|(name, points)| {
            Box::new(Points(registry.points(name, points, ""))) as Box<dyn Filter>
        });
        let verdict = judge(&snapshot(filters.into_iter().collect()));
        assert_eq!((verdict.class, verdict.score), (Class::Spam, 6.5));
        let found: Vec<_> =
            verdict.counterfactuals.iter().map(|c| (&*c.without[0], c.class)).collect();
        assert_eq!(found, [("FIVE", Class::Ham), ("ONE", Class::Suspect)]);
    }
}
