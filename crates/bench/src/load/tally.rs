//! What came of the messages.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::corpus::Label;
use super::health::Health;
use super::wire::{Failure, Outcome};
use crate::histogram::latency_histogram;

/// Seconds of which samples are kept.
const SAMPLES_MAX: usize = 86_400;
/// Different errors that are kept.
const ERRORS_MAX: usize = 8;

/// Counts of some connections.
#[derive(Debug)]
pub(super) struct Tally {
    latency: Histogram<u64>,
    outcomes: BTreeMap<(Label, Outcome), u64>,
    samples: Vec<u64>,
    errors: BTreeMap<String, u64>,
    late: u64,
    dropped: u64,
    /// Answers to messages of the warm-up.
    warm: u64,
}

impl Tally {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Tally {
            latency: latency_histogram()?,
            outcomes: BTreeMap::new(),
            samples: Vec::new(),
            errors: BTreeMap::new(),
            late: 0,
            dropped: 0,
            warm: 0,
        })
    }

    /// A message ended in so many seconds after the start; `late` if the time was over by then.
    pub(super) fn record(
        &mut self,
        label: Label,
        result: &Result<Outcome, Failure>,
        latency: Duration,
        second: u64,
        late: bool,
    ) {
        let outcome = match result {
            Ok(outcome) => *outcome,
            Err(failure) => {
                self.dropped += u64::from(failure.is_clients());
                let text = failure.to_string();
                if self.errors.len() < ERRORS_MAX || self.errors.contains_key(&text) {
                    *self.errors.entry(text).or_default() += 1;
                }
                Outcome::Failed
            }
        };
        *self.outcomes.entry((label, outcome)).or_default() += 1;
        // What came after the end was begun in time: its latency counts, its rate does not.
        if outcome != Outcome::Failed {
            self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
            self.late += u64::from(late);
            let second = usize::try_from(second).unwrap_or(usize::MAX);
            if !late && second < SAMPLES_MAX {
                self.samples.resize(self.samples.len().max(second + 1), 0);
                if let Some(sample) = self.samples.get_mut(second) {
                    *sample += 1;
                }
            }
        }
    }

    /// A message of the warm-up was answered: it cost the server time, and counts for nothing else.
    pub(super) fn warm_up(&mut self) {
        self.warm += 1;
    }

    pub(super) fn add(&mut self, other: Tally) -> anyhow::Result<()> {
        self.latency.add(other.latency)?;
        for (key, count) in other.outcomes {
            *self.outcomes.entry(key).or_default() += count;
        }
        self.samples.resize(self.samples.len().max(other.samples.len()), 0);
        self.samples.iter_mut().zip(other.samples).for_each(|(a, b)| *a += b);
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
        self.late += other.late;
        self.dropped += other.dropped;
        self.warm += other.warm;
        Ok(())
    }

    pub(super) fn tried(&self) -> u64 {
        self.outcomes.values().sum()
    }

    fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes.iter().filter(|(key, _)| key.1 == outcome).map(|(_, count)| count).sum()
    }

    /// The commonest error, if nothing else came.
    pub(super) fn only_failures(&self) -> Option<String> {
        if self.tried() == 0 || self.count(Outcome::Failed) < self.tried() {
            return None;
        }
        self.errors.iter().max_by_key(|(_, count)| **count).map(|(error, _)| error.clone())
    }

    pub(super) fn measured(self, seconds: f64, unsent: u64, health: Health) -> Measured {
        let answered = self.tried() - self.count(Outcome::Failed);
        let rate = answered.saturating_sub(self.late) as f64 / seconds;
        let outcomes = self.outcomes.iter().map(|((label, outcome), count)| LabelOutcome {
            label: *label,
            outcome: *outcome,
            messages: *count,
        });
        Measured {
            messages_per_second: rate,
            seconds,
            answered,
            answered_in_all: answered + self.warm,
            failed: self.count(Outcome::Failed),
            unsent,
            dropped_by_client: self.dropped,
            outcomes: outcomes.collect(),
            errors: self.errors,
            latency: Latency::of(&self.latency),
            samples: self.samples,
            health,
            histogram: self.latency,
        }
    }
}

/// Messages of a label with an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LabelOutcome {
    /// Label of these messages in the corpus.
    pub label: Label,
    /// What the server made of them.
    pub outcome: Outcome,
    /// Number of messages with this outcome.
    pub messages: u64,
}

/// Distribution of answer times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Mean of all answers.
    pub mean_us: f64,
    /// Half of the answers came within it.
    pub p50_us: f64,
    /// Nine of ten answers came within it.
    pub p90_us: f64,
    /// All but 1 % of the answers came within it.
    pub p99_us: f64,
    /// All but 0.1 % of the answers came within it.
    pub p999_us: f64,
    /// Microseconds of the slowest answer.
    pub max_us: f64,
}

impl Latency {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Latency {
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Messages answered within the time, a second.
    pub messages_per_second: f64,
    /// Seconds of the run, without its warm-up.
    pub seconds: f64,
    /// Messages answered, those included whose answer came after the end.
    pub answered: u64,
    /// The same with those of the warm-up: what a server's CPU time was spent on.
    pub answered_in_all: u64,
    /// Messages without an answer.
    pub failed: u64,
    /// Open loop: messages that were due and could not be begun, as all connections were busy.
    pub unsent: u64,
    /// Failed for want of ports, descriptors or memory on the client's side.
    pub dropped_by_client: u64,
    /// What the server made of them.
    pub outcomes: Vec<LabelOutcome>,
    /// Errors with how often each came.
    pub errors: BTreeMap<String, u64>,
    /// Latency: open loop from when a message was due, closed loop from when it was begun.
    pub latency: Latency,
    /// Answers in each second.
    pub samples: Vec<u64>,
    /// CPU and timers of the client during the run.
    pub health: Health,
    /// All latencies in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
}
