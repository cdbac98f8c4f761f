//! The order in which kinds of rules are evaluated, and when a scan may end early.
//!
//! Results do not depend on the order, so the stages that decide most points per microsecond come
//! first. With [`ScoreBounds`] a scan ends as soon as no remaining rule can move the score across a
//! threshold: the class is then final.

use crate::hit_rates::HitRates;
use crate::matcher::Tally;
use crate::matcher::pending::Work;
use crate::meta::Metas;
use crate::options::Profile;
use crate::rule::{Rule, Test};

/// Tolerance for the rounding of scores, in points.
const ROUNDING: f64 = 1e-3;

/// A stage of a scan: rules on the same view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Headers,
    Body,
    Rawbody,
    Uri,
    Full,
    Mime,
    UriDetails,
    Evals,
    /// Rules with tags, which other rules capture.
    Templates,
    Metas,
}

impl Stage {
    /// Stages that depend on no other stage.
    const FREE: [Stage; 8] = [
        Stage::Headers,
        Stage::Body,
        Stage::Rawbody,
        Stage::Uri,
        Stage::Full,
        Stage::Mime,
        Stage::UriDetails,
        Stage::Evals,
    ];

    /// The stage in which a rule is evaluated, or a later one.
    fn of(rule: &Rule) -> Stage {
        if rule.test.pattern().is_some_and(|pattern| pattern.contains("%{")) {
            return Stage::Templates;
        }
        match &rule.test {
            Test::Header { .. } | Test::Exists { .. } | Test::Empty => Stage::Headers,
            Test::Body { .. } => Stage::Body,
            Test::Rawbody { .. } => Stage::Rawbody,
            Test::Uri { .. } => Stage::Uri,
            Test::Full { .. } => Stage::Full,
            Test::MimeHeader { .. } => Stage::Mime,
            Test::UriDetail { .. } => Stage::UriDetails,
            Test::Eval { .. } | Test::AskDns { .. } => Stage::Evals,
            Test::Meta { .. } => Stage::Metas,
        }
    }

    /// Rough cost of the stage for a message with SpamAssassin's stock rules, in microseconds.
    fn cost_us(self) -> f64 {
        match self {
            Stage::Headers => 120.0,
            Stage::Body => 500.0,
            Stage::Rawbody => 80.0,
            Stage::Uri => 90.0,
            Stage::Full | Stage::UriDetails => 30.0,
            Stage::Mime => 20.0,
            Stage::Evals => 200.0,
            Stage::Templates | Stage::Metas => 10.0,
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// The set of stages that were run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompletedStages(u16);

impl CompletedStages {
    pub(crate) fn add(&mut self, stage: Stage) {
        self.0 |= stage.bit();
    }

    fn has(self, stage: Stage) -> bool {
        self.0 & stage.bit() != 0
    }
}

/// The points of a rule; 0 for sub-rules.
fn points(rule: &Rule, profile: Profile) -> f64 {
    if rule.is_sub() { 0.0 } else { rule.scores[profile.score_set()] }
}

/// How often a rule's points are added at most.
fn times_max(rule: &Rule) -> f64 {
    if matches!(rule.test, Test::Meta { .. } | Test::Eval { .. }) || !rule.has_flag("multiple") {
        return 1.0;
    }
    rule.flag_value("maxhits").and_then(|v| v.parse().ok()).unwrap_or(f64::INFINITY)
}

/// The stages ordered by points per microsecond.
pub(crate) fn order(rules: &[Rule], metas: &Metas, profile: Profile) -> Vec<Stage> {
    order_by(rules, metas, profile, None)
}

/// How much more the points of a rule weigh that hits every message: what is certain to come
/// moves the score, and what may come only its bounds.
const HIT_WEIGHT: f64 = 20.0;

/// The same; with hit rates the points of rules that hit often weigh more.
pub(crate) fn order_by(
    rules: &[Rule],
    metas: &Metas,
    profile: Profile,
    rates: Option<&HitRates>,
) -> Vec<Stage> {
    let mut weights = [0.0; Stage::FREE.len()];
    let mut add = |rule: &Rule, points: f64| {
        if let Some(at) = Stage::FREE.iter().position(|stage| *stage == Stage::of(rule)) {
            weights[at] += points.abs();
        }
    };
    let points = |rule: &Rule, profile: Profile| {
        let rate = rates.map_or(0.0, |rates| rates.rate(&rule.name));
        points(rule, profile) * (1.0 + HIT_WEIGHT * rate)
    };
    rules.iter().for_each(|rule| add(rule, points(rule, profile)));
    for (meta, leaves) in metas.leaves() {
        let share = rules.get(meta as usize).map_or(0.0, |rule| points(rule, profile));
        let leaves = leaves.unwrap_or_default();
        for leaf in leaves.iter().filter_map(|leaf| rules.get(*leaf as usize)) {
            add(leaf, share / leaves.len() as f64);
        }
    }
    let worth = |stage: &Stage| {
        let at = Stage::FREE.iter().position(|free| free == stage).unwrap_or_default();
        weights[at] / stage.cost_us()
    };
    let mut order = Stage::FREE.to_vec();
    order.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    order.extend([Stage::Templates, Stage::Metas]);
    order
}

/// A pseudo-random order of the free stages, for tests that the order does not matter.
pub(crate) fn shuffle(order: &mut [Stage], seed: u64) {
    let free = order.len().min(Stage::FREE.len());
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for at in (1..free).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
}

/// Bounds of the final score, from the rules that are not evaluated yet.
#[derive(Debug)]
pub(crate) struct ScoreBounds {
    /// Scores at which the class changes.
    thresholds: Vec<f64>,
    /// By rule: its stage, its points, and whether they are added for every hit.
    rules: Vec<(Stage, f64, bool)>,
    /// Least and most points of the rules of a stage, without metas.
    stages: Vec<(Stage, f64, f64)>,
    /// Metas with points, the largest first, and rules of which one must have fired.
    metas: Vec<(f64, Option<Vec<u32>>)>,
    /// By rule: how often it hit of late; empty if that is not known.
    rates: Vec<f64>,
}

/// To which side of a threshold a score is likely to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    /// At or above it.
    Above,
    /// Below it.
    Below,
    /// Nobody knows.
    Either,
}

impl ScoreBounds {
    pub(crate) fn new(
        rules: &[Rule],
        metas: &Metas,
        profile: Profile,
        thresholds: &[f64],
        rates: Option<&HitRates>,
    ) -> ScoreBounds {
        let mut stages: Vec<(Stage, f64, f64)> =
            Stage::FREE.iter().chain([&Stage::Templates]).map(|s| (*s, 0.0, 0.0)).collect();
        for rule in rules {
            let points = points(rule, profile);
            if let Some(stage) = stages.iter_mut().find(|s| s.0 == Stage::of(rule))
                && points != 0.0
            {
                let most = points * times_max(rule);
                stage.1 += most.min(0.0);
                stage.2 += most.max(0.0);
            }
        }
        let of_meta = |(meta, leaves): (u32, Option<Vec<u32>>)| {
            let points = rules.get(meta as usize).map_or(0.0, |rule| points(rule, profile));
            (points != 0.0).then_some((points, leaves))
        };
        let by_rule = |rule: &Rule| {
            let by_hit = !matches!(rule.test, Test::Meta { .. } | Test::Eval { .. });
            (Stage::of(rule), points(rule, profile), by_hit)
        };
        let mut with_points: Vec<_> = metas.leaves().into_iter().filter_map(of_meta).collect();
        with_points.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        ScoreBounds {
            thresholds: thresholds.to_vec(),
            rules: rules.iter().map(by_rule).collect(),
            stages,
            metas: with_points,
            rates: rates.map_or_else(Vec::new, |rates| {
                rules.iter().map(|rule| rates.rough(&rule.name)).collect()
            }),
        }
    }

    /// Whether no remaining rule can change the class. Deferred rules count as remaining.
    pub(crate) fn decided(&self, done: CompletedStages, tally: &Tally) -> bool {
        let score = self.score(tally);
        let (mut least, mut most) = (score, score);
        for (_, low, high) in self.stages.iter().filter(|s| !done.has(s.0)) {
            least += low;
            most += high;
        }
        // Metas only widen the interval: usually there is no need to add them.
        if !self.decides(least, most) {
            return false;
        }
        let is_possible = |leaf: &u32| {
            let stage = self.rules.get(*leaf as usize).map_or(Stage::Metas, |rule| rule.0);
            !done.has(stage) || tally.count(*leaf) > 0.0 || tally.pending.work(*leaf) != Work::Done
        };
        for (points, leaves) in &self.metas {
            if leaves.as_ref().is_none_or(|leaves| leaves.iter().any(is_possible)) {
                least += points.min(0.0);
                most += points.max(0.0);
                if !self.decides(least, most) {
                    return false;
                }
            }
        }
        true
    }

    /// The points of all rules that fired so far.
    pub(crate) fn score(&self, tally: &Tally) -> f64 {
        let points = tally.fired.iter().filter_map(|rule| {
            let (_, points, by_hit) = self.rules.get(*rule as usize)?;
            Some(points * if *by_hit { tally.count(*rule) } else { 1.0 })
        });
        points.sum()
    }

    /// The points of a rule's first hit.
    pub(crate) fn points(&self, rule: u32) -> f64 {
        self.rules.get(rule as usize).map_or(0.0, |rule| rule.1)
    }

    /// How often a rule hit of late.
    pub(crate) fn rate(&self, rule: u32) -> f64 {
        self.rates.get(rule as usize).copied().unwrap_or(0.0)
    }

    /// To which side of the threshold that lies between them the expected score is.
    pub(crate) fn towards(&self, (least, most): (f64, f64), expected: f64) -> Towards {
        let between = self.thresholds.iter().find(|at| (least >= **at) != (most >= **at));
        match between {
            Some(at) if !self.rates.is_empty() && expected >= *at => Towards::Above,
            Some(_) if !self.rates.is_empty() => Towards::Below,
            _ => Towards::Either,
        }
    }

    /// What the answer of a rule with these points is likely to be worth for a decision to that
    /// side: by a hit one end of the score's range moves, without one the other.
    pub(crate) fn benefit(&self, rule: u32, points: f64, towards: Towards) -> f64 {
        let rate = self.rate(rule);
        let helps = match towards {
            Towards::Either => return points.abs(),
            Towards::Above => points > 0.0,
            Towards::Below => points < 0.0,
        };
        points.abs() * if helps { rate } else { 1.0 - rate }
    }

    /// Whether all scores from `least` to `most` are on the same side of every threshold.
    pub(crate) fn decides(&self, least: f64, most: f64) -> bool {
        let (least, most) = (least - ROUNDING, most + ROUNDING);
        self.thresholds.iter().all(|at| (least >= *at) == (most >= *at))
    }
}
