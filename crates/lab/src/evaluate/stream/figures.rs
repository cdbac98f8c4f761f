//! Figures of a stream: by block, by half and of all, by class and by the filter's own score.

use gauntlet_engine::classifier::metrics::{
    Interval, Metrics, Ranking, Scored, interval, resample,
};
use serde::Serialize;

use super::protocol::{Outcome, Protocol};

/// How the figures are made.
pub(crate) struct Settings {
    /// Messages of a block.
    pub(crate) block: usize,
    /// Resamples for the intervals of ranks; 0 leaves them out.
    pub(crate) bootstrap: u32,
    pub(crate) seed: u64,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Share {
    pub(crate) count: u64,
    pub(crate) of: u64,
    pub(crate) percent: f64,
    /// 95 % interval in per cent (Wilson, 1927).
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Normal quantile of a two-sided interval of 95 %.
const SIDES_95: f64 = 1.959_964;

impl Share {
    fn of(count: u64, of: u64) -> Self {
        if of == 0 {
            return Share::default();
        }
        let (n, z) = (of as f64, SIDES_95);
        let p = count as f64 / n;
        let middle = p + z * z / (2.0 * n);
        let width = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        let scale = 100.0 / (1.0 + z * z / n);
        let (low, high) = (scale * (middle - width), scale * (middle + width));
        Share { count, of, percent: 100.0 * p, low: low.max(0.0), high: high.min(100.0) }
    }
}

/// Share of the spam above the score that a share of the good mail reaches.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct AtRate {
    pub(crate) percent: f64,
    /// 95 %, by bootstrap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<Interval>,
}

/// What became of some consecutive messages.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Part {
    /// Position of the first message among those that were judged, from 1.
    pub(crate) from: usize,
    /// Position of the last.
    pub(crate) to: usize,
    /// Messages whose label the filter had before the last was judged.
    pub(crate) known: usize,
    /// Spam called spam, phishing or malware.
    pub(crate) caught: Share,
    /// Good mail called so.
    pub(crate) false_positives: Share,
    /// Spam called suspect at least.
    pub(crate) caught_or_suspect: Share,
    /// Good mail called suspect at least.
    pub(crate) ham_suspect: Share,
    /// By the score: caught where 1 % of the good mail would be called spam.
    pub(crate) by_score_at_1_percent: AtRate,
    /// Caught where 5 % would.
    pub(crate) by_score_at_5_percent: AtRate,
    /// Pairs of good and bad mail that the score has in the wrong order, in per cent.
    pub(crate) one_minus_roca_percent: f64,
}

/// A filter's way through the stream.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    pub(crate) filter: String,
    /// Version and settings of the filter, as it names them.
    pub(crate) about: String,
    /// How the filter got labels, in words.
    pub(crate) told: String,
    pub(crate) protocol: Protocol,
    pub(crate) blocks: Vec<Part>,
    pub(crate) first_half: Part,
    pub(crate) second_half: Part,
    pub(crate) all: Part,
}

impl Run {
    pub(crate) fn new(
        (filter, about): (String, String),
        protocol: &Protocol,
        judged: &[Outcome],
        settings: &Settings,
    ) -> Self {
        let quick = Settings { bootstrap: 0, ..*settings };
        let blocks = (0..judged.len()).step_by(settings.block.max(1)).map(|from| {
            let to = (from + settings.block).min(judged.len());
            part(judged, from, to, &quick)
        });
        let half = judged.len() / 2;
        Run {
            filter,
            about,
            told: protocol.name(),
            protocol: *protocol,
            blocks: blocks.collect(),
            first_half: part(judged, 0, half, settings),
            second_half: part(judged, half, judged.len(), settings),
            all: part(judged, 0, judged.len(), settings),
        }
    }

    /// `gauntlet, told 10 %`.
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.filter, self.told)
    }
}

fn part(judged: &[Outcome], from: usize, to: usize, settings: &Settings) -> Part {
    let some = judged.get(from..to).unwrap_or_default();
    let count = |spam: bool, is: &dyn Fn(&Outcome) -> bool| {
        some.iter().filter(|o| o.spam == spam && is(o)).count() as u64
    };
    let (ham, spam) = (count(false, &|_| true), count(true, &|_| true));
    let scored: Vec<Scored> =
        some.iter().map(|o| Scored { score: o.score, spam: o.spam }).collect();
    let ranking = Ranking::new(&scored);
    let rounds = resample(&[&ranking], settings.bootstrap, settings.seed);
    let at = |measure: fn(&Metrics) -> f64| {
        let resampled = rounds.iter().filter_map(|round| round.first()).map(measure);
        let interval = (settings.bootstrap > 0).then(|| interval(resampled));
        AtRate { percent: measure(&ranking.metrics()), interval }
    };
    // The measures of TREC have no 5 %: it is read from the curve.
    let roc = ranking.roc();
    let caught_at = |ham: f64| roc.iter().filter(|p| p.0 <= ham).map(|p| p.1).fold(0.0, f64::max);
    Part {
        from: from + 1,
        to,
        known: some.last().map_or(0, |o| o.known),
        caught: Share::of(count(true, &|o| o.called), spam),
        false_positives: Share::of(count(false, &|o| o.called), ham),
        caught_or_suspect: Share::of(count(true, &|o| o.suspect), spam),
        ham_suspect: Share::of(count(false, &|o| o.suspect), ham),
        by_score_at_1_percent: at(|m| m.caught_at_fp_1_percent),
        by_score_at_5_percent: AtRate { percent: 100.0 * caught_at(0.05), interval: None },
        one_minus_roca_percent: ranking.metrics().one_minus_roca_percent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::stream::protocol::LabelScope;

    #[test]
    fn intervals_hold_the_share() {
        let none = Share::of(0, 40);
        assert!(none.low == 0.0 && (none.high - 8.76).abs() < 0.01, "{none:?}");
        let half = Share::of(20, 40);
        assert!((half.low - 35.2).abs() < 0.1 && (half.high - 64.8).abs() < 0.1, "{half:?}");
        assert_eq!(Share::of(0, 0), Share::default());
    }

    #[test]
    fn halves_and_blocks() {
        let outcome = |i: usize| Outcome {
            spam: i.is_multiple_of(2),
            called: i >= 10 && i.is_multiple_of(2),
            suspect: i >= 10,
            score: if i.is_multiple_of(2) { 1.0 } else { 0.0 },
            known: i,
        };
        let judged: Vec<Outcome> = (0..20).map(outcome).collect();
        let protocol =
            Protocol { told: LabelScope::Any, share: 1.0, delay: 0, beforehand: 0, seed: 1 };
        let settings = Settings { block: 10, bootstrap: 20, seed: 1 };
        let run = Run::new(("x".into(), String::new()), &protocol, &judged, &settings);
        assert_eq!((run.blocks.len(), run.blocks[1].from, run.blocks[1].to), (2, 11, 20));
        assert_eq!((run.first_half.caught.count, run.second_half.caught.count), (0, 5));
        assert_eq!(run.second_half.ham_suspect.count, 5);
        assert_eq!(run.all.by_score_at_1_percent.percent, 100.0);
        assert_eq!(run.all.by_score_at_5_percent.percent, 100.0);
        assert_eq!(run.all.one_minus_roca_percent, 0.0);
    }
}
