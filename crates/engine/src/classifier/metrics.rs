//! How good scores are: the measures of the TREC spam tracks (Cormack, "TREC 2007 Spam Track
//! Overview"), with intervals by the bootstrap.
//!
//! A score is any number that grows with the belief that a message is spam; above 0 means spam.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// A message's score and what it really was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// The filter's belief; above 0 is spam.
    pub score: f64,
    /// Its label in the corpus (the gold standard).
    pub spam: bool,
}

/// The measures, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of good messages.
    pub ham: u64,
    /// Number of unwanted messages.
    pub spam: u64,
    /// `(1-ROCA)%`: the share of pairs of a spam and a ham in which the spam scores lower, equal
    /// scores counting one half. 0 is perfect.
    pub one_minus_roca_percent: f64,
    /// Share of ham with a score above 0.
    pub ham_misclassified_percent: f64,
    /// Share of spam with a score of 0 or below.
    pub spam_misclassified_percent: f64,
    /// `lam%`: logistic average of both shares.
    pub lam_percent: f64,
    /// Share of spam above the lowest threshold that at most one in 100 ham reaches.
    pub caught_at_fp_1_percent: f64,
    /// Share of spam above the lowest threshold that at most one in 1,000 ham reaches.
    pub caught_at_fp_0_1_percent: f64,
    /// Share of spam above the lowest threshold that at most one in 10,000 ham reaches. With
    /// fewer than 10,000 ham this means: none does.
    pub caught_at_fp_0_01_percent: f64,
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// 2.5 % of resamples lie below.
    pub low: f64,
    /// 97.5 % of resamples lie below.
    pub high: f64,
}

/// A measure taken from [`Metrics`], by its key.
pub type Measure = (&'static str, fn(&Metrics) -> f64);

/// The measures that get an interval.
pub const MEASURES: [Measure; 7] = [
    ("one_minus_roca_percent", |m| m.one_minus_roca_percent),
    ("ham_misclassified_percent", |m| m.ham_misclassified_percent),
    ("spam_misclassified_percent", |m| m.spam_misclassified_percent),
    ("lam_percent", |m| m.lam_percent),
    ("caught_at_fp_1_percent", |m| m.caught_at_fp_1_percent),
    ("caught_at_fp_0_1_percent", |m| m.caught_at_fp_0_1_percent),
    ("caught_at_fp_0_01_percent", |m| m.caught_at_fp_0_01_percent),
];

/// Scores in falling order, to be measured again and again under resampling.
#[derive(Debug)]
pub struct Ranking {
    /// `(index of the message, score, spam)`.
    order: Vec<(u32, f64, bool)>,
}

impl Ranking {
    /// Sorts the scores. Not-a-number counts as 0: undecided.
    pub fn new(scored: &[Scored]) -> Self {
        let clean = |s: f64| if s.is_nan() { 0.0 } else { s };
        let mut order: Vec<(u32, f64, bool)> =
            scored.iter().zip(0u32..).map(|(s, i)| (i, clean(s.score), s.spam)).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ranking { order }
    }

    /// The measures of all messages, once each.
    pub fn metrics(&self) -> Metrics {
        self.weighted(&vec![1; self.order.len()])
    }

    /// The measures when message `i` occurs `times[i]` times.
    fn weighted(&self, times: &[u32]) -> Metrics {
        let weight =
            |e: &(u32, f64, bool)| u64::from(times.get(e.0 as usize).copied().unwrap_or(0));
        let total = |spam| self.order.iter().filter(|e| e.2 == spam).map(weight).sum::<u64>();
        let (ham, spam) = (total(false), total(true));
        let mut sweep = Sweep::new(ham);
        for tied in self.order.chunk_by(|a, b| a.1 == b.1) {
            let of = |spam| tied.iter().filter(|e| e.2 == spam).map(weight).sum::<u64>();
            sweep.tied(of(false), of(true), tied.first().is_some_and(|e| e.1 > 0.0));
        }
        let percent = |n: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * n as f64 / of as f64 };
        let pairs = ham as f64 * spam as f64;
        let ham_wrong = percent(sweep.ham_above_zero, ham);
        let spam_wrong = percent(spam - sweep.spam_above_zero, spam);
        Metrics {
            ham,
            spam,
            one_minus_roca_percent: if pairs > 0.0 { 100.0 * sweep.inverted / pairs } else { 0.0 },
            ham_misclassified_percent: ham_wrong,
            spam_misclassified_percent: spam_wrong,
            lam_percent: logistic_average(ham_wrong, spam_wrong),
            caught_at_fp_1_percent: percent(sweep.caught[0], spam),
            caught_at_fp_0_1_percent: percent(sweep.caught[1], spam),
            caught_at_fp_0_01_percent: percent(sweep.caught[2], spam),
        }
    }

    /// Points of the ROC curve from (0, 0) to (1, 1): share of ham and of spam at or above each
    /// score.
    pub fn roc(&self) -> Vec<(f64, f64)> {
        let total = |spam| self.order.iter().filter(|e| e.2 == spam).count().max(1) as f64;
        let (ham, spam) = (total(false), total(true));
        let (mut h, mut s) = (0.0, 0.0);
        let mut points = vec![(0.0, 0.0)];
        for tied in self.order.chunk_by(|a, b| a.1 == b.1) {
            h += tied.iter().filter(|e| !e.2).count() as f64;
            s += tied.iter().filter(|e| e.2).count() as f64;
            points.push((h / ham, s / spam));
        }
        points
    }
}

/// Counts gathered while walking down a ranking.
struct Sweep {
    ham_allowed: [u64; 3],
    caught: [u64; 3],
    ham_above: u64,
    spam_above: u64,
    ham_above_zero: u64,
    spam_above_zero: u64,
    /// Pairs in the wrong order, ties as one half.
    inverted: f64,
}

impl Sweep {
    fn new(ham: u64) -> Self {
        Sweep {
            ham_allowed: [ham / 100, ham / 1_000, ham / 10_000],
            caught: [0; 3],
            ham_above: 0,
            spam_above: 0,
            ham_above_zero: 0,
            spam_above_zero: 0,
            inverted: 0.0,
        }
    }

    /// Messages with one score.
    fn tied(&mut self, ham: u64, spam: u64, above_zero: bool) {
        self.inverted += spam as f64 * (self.ham_above as f64 + ham as f64 / 2.0);
        self.ham_above += ham;
        self.spam_above += spam;
        for (allowed, caught) in self.ham_allowed.iter().zip(&mut self.caught) {
            if self.ham_above <= *allowed {
                *caught = self.spam_above;
            }
        }
        if above_zero {
            self.ham_above_zero = self.ham_above;
            self.spam_above_zero = self.spam_above;
        }
    }
}

/// `lam%`: the mean of two shares on the logistic scale, both in per cent. Shares of 0 and 100 are
/// moved by a millionth of a per cent, since their logit is infinite.
fn logistic_average(a_percent: f64, b_percent: f64) -> f64 {
    let logit = |percent: f64| {
        let p = (percent / 100.0).clamp(1e-8, 1.0 - 1e-8);
        (p / (1.0 - p)).ln()
    };
    let mean = f64::midpoint(logit(a_percent), logit(b_percent));
    100.0 / (1.0 + (-mean).exp())
}

/// Bootstrap: the measures of `rounds` resamples of the messages, with replacement.
///
/// Every ranking is measured on the same resamples, so that differences between them are paired.
/// The rankings must be of the same messages. Result: one row a round, one column a ranking.
pub fn resample(rankings: &[&Ranking], rounds: u32, seed: u64) -> Vec<Vec<Metrics>> {
    let count = rankings.iter().map(|r| r.order.len()).max().unwrap_or(0);
    let bound = u32::try_from(count).unwrap_or(u32::MAX);
    let mut random = Random::new(seed);
    let mut times = vec![0u32; count];
    (0..rounds)
        .map(|_| {
            times.fill(0);
            for _ in 0..count {
                if let Some(t) = times.get_mut(random.below(bound) as usize) {
                    *t += 1;
                }
            }
            rankings.iter().map(|r| r.weighted(&times)).collect()
        })
        .collect()
}

/// The middle 95 % of values.
pub fn interval(values: impl Iterator<Item = f64>) -> Interval {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let i = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
        sorted.get(i).copied().unwrap_or(0.0)
    };
    Interval { low: at(0.025), high: at(0.975) }
}

/// Upper end of the one-sided 95 % interval of a share, `hits` of `count` seen, in per cent
/// (Clopper and Pearson, 1934). For no hits this is the rule of three: about 300 / `count`.
pub fn upper_bound_percent(hits: u64, count: u64) -> f64 {
    if count == 0 || hits >= count {
        return 100.0;
    }
    // The share p at which seeing `hits` or fewer has a probability of 5 %; it falls with p.
    let (mut low, mut high) = (hits as f64 / count as f64, 1.0);
    for _ in 0..60 {
        let p = f64::midpoint(low, high);
        if binomial_at_most(hits, count, p) > 0.05 { low = p } else { high = p }
    }
    100.0 * high
}

/// Probability of at most `hits` successes in `count` tries of probability `p`.
fn binomial_at_most(hits: u64, count: u64, p: f64) -> f64 {
    if p >= 1.0 {
        return 0.0;
    }
    let n = count as f64;
    let mut term = n * (-p).ln_1p();
    let mut sum = term.exp();
    for k in 0..hits {
        term += ((n - k as f64) / (k as f64 + 1.0)).ln() + (p / (1.0 - p)).ln();
        sum += term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(ham: &[f64], spam: &[f64]) -> Vec<Scored> {
        let of = |scores: &[f64], spam| {
            scores.iter().map(|&score| Scored { score, spam }).collect::<Vec<_>>()
        };
        [of(ham, false), of(spam, true)].concat()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn known_answers() {
        // Pairs in the wrong order: ham 3 over spam 1 and 2; ham 1 ties spam 1 (a half). 2.5 of 12.
        let m = Ranking::new(&scored(&[-2.0, -1.0, 1.0, 3.0], &[1.0, 2.0, 4.0])).metrics();
        assert_eq!((m.ham, m.spam), (4, 3));
        assert!(close(m.one_minus_roca_percent, 250.0 / 12.0), "{m:?}");
        assert!(close(m.ham_misclassified_percent, 50.0));
        assert!(close(m.spam_misclassified_percent, 0.0));
        // No ham may pass: only the spam above 3.
        assert!(close(m.caught_at_fp_0_01_percent, 100.0 / 3.0));
    }

    #[test]
    fn perfect_reversed_and_undecided() {
        let roca = |h: &[f64], s: &[f64]| Ranking::new(&scored(h, s)).metrics();
        assert!(close(roca(&[-1.0], &[1.0]).one_minus_roca_percent, 0.0));
        assert!(close(roca(&[1.0], &[-1.0]).one_minus_roca_percent, 100.0));
        assert!(close(roca(&[0.0, 0.0], &[0.0]).one_minus_roca_percent, 50.0));
        assert!(close(roca(&[f64::NAN], &[0.0]).one_minus_roca_percent, 50.0));
        assert!(close(roca(&[], &[1.0]).one_minus_roca_percent, 0.0));
    }

    #[test]
    fn the_threshold_lets_one_ham_in_a_hundred_pass() {
        let mut ham: Vec<f64> = (0..199).map(|i| -f64::from(i)).collect();
        ham.push(50.0);
        let m = Ranking::new(&scored(&ham, &[10.0, 20.0, 60.0, -5.0])).metrics();
        assert!(close(m.caught_at_fp_1_percent, 75.0), "two of 200 may pass: 50 and 0");
        assert!(close(m.caught_at_fp_0_1_percent, 25.0), "none may pass");
    }

    #[test]
    fn logistic_average_of_known_shares() {
        assert!(close(logistic_average(10.0, 10.0), 10.0));
        // logit 0.5 is 0 and logit 0.2 is -ln 4, whose mean is -ln 2: one third.
        assert!(close(logistic_average(50.0, 20.0), 100.0 / 3.0));
    }

    #[test]
    fn upper_bounds() {
        assert!((upper_bound_percent(0, 84) - 3.503).abs() < 0.001, "1 - 0.05^(1/84)");
        assert!((upper_bound_percent(0, 3_000) - 0.0998).abs() < 0.0001);
        assert!((upper_bound_percent(1, 10) - 39.416).abs() < 0.001, "tables of 1 in 10");
        assert!(close(upper_bound_percent(5, 5), 100.0));
        assert!(close(upper_bound_percent(0, 0), 100.0));
    }

    #[test]
    fn resamples_are_paired_and_repeat() {
        let better = Ranking::new(&scored(&[-1.0, -2.0, 0.5], &[1.0, 2.0, 3.0]));
        let worse = Ranking::new(&scored(&[-1.0, -2.0, 2.5], &[1.0, 2.0, 3.0]));
        let rounds = resample(&[&better, &worse], 200, 7);
        assert_eq!(rounds, resample(&[&better, &worse], 200, 7));
        let difference =
            |r: &Vec<Metrics>| r[1].one_minus_roca_percent - r[0].one_minus_roca_percent;
        assert!(rounds.iter().all(|r| difference(r) >= 0.0), "never worse on the same resample");
        let seen = interval(rounds.iter().map(difference));
        assert!(seen.low >= 0.0 && seen.high > seen.low);
    }

    #[test]
    fn the_roc_curve_ends_in_the_corners() {
        let roc = Ranking::new(&scored(&[-1.0, 2.0], &[1.0, 2.0])).roc();
        assert_eq!(roc, [(0.0, 0.0), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)]);
    }
}
