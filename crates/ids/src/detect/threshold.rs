//! Limits on alerts: `threshold`, `detection_filter`, `rate_filter`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use gauntlet_packet::Time;

use super::lock;
use crate::rule::Action;
use crate::rule::matches::{Threshold, ThresholdKind, Track};

/// The most counters that are kept at a time; beyond it, alerts that need another one are
/// counted as if they came for the first time.
const COUNTERS_MAX: usize = 262_144;

/// What a limit says of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing happens, as if it had not matched.
    Nothing,
    /// Alert, and the rule's action.
    Alert,
    /// The rule's action without an alert.
    Silent,
}

/// The rule that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RuleId {
    pub(crate) gid: u32,
    pub(crate) sid: u32,
    pub(crate) rev: u32,
}

/// Where and when it matched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occasion {
    pub(crate) time: Time,
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: Option<IpAddr>,
}

/// Matches of one rule, counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    since: Time,
    count: u32,
    /// Of backoff: the count of the next alert.
    next: u32,
    /// Of rate_filter: since when the new action holds.
    replaced: Option<Time>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    rule: RuleId,
    track: Track,
    addresses: [Option<IpAddr>; 2],
}

/// Counters of all rules by what they are counted by; those by flow are kept in the flow. Clones
/// share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thresholds {
    counters: Arc<Mutex<HashMap<Key, Counter>>>,
}

impl Thresholds {
    /// Counts a match. `of_flow` are the counters of the flow, if there is one. `action` is
    /// replaced by a rate filter that holds.
    pub(crate) fn check(
        &mut self,
        limit: &Threshold,
        rule: RuleId,
        at: &Occasion,
        of_flow: Option<&mut Vec<(RuleId, Counter)>>,
        action: &mut Action,
    ) -> (Said, bool) {
        if limit.track == Track::Flow {
            let Some(counters) = of_flow else { return (Said::Nothing, false) };
            return match counters.iter_mut().find(|(other, _)| *other == rule) {
                Some((_, counter)) => counter.update(limit, at.time, action),
                None => {
                    let (counter, said) = Counter::first(limit, at.time);
                    counters.push((rule, counter));
                    (said, false)
                }
            };
        }
        if limit.count == 1 && limit.kind == ThresholdKind::Threshold {
            return (Said::Alert, false);
        }
        let key = Key { rule, track: limit.track, addresses: addresses(limit.track, at) };
        let mut counters = lock(&self.counters);
        if let Some(counter) = counters.get_mut(&key) {
            return counter.update(limit, at.time, action);
        }
        let (counter, said) = Counter::first(limit, at.time);
        if counters.len() >= COUNTERS_MAX {
            counters.retain(|_, counter| at.time <= later(counter.since, limit.seconds));
        }
        if counters.len() < COUNTERS_MAX {
            counters.insert(key, counter);
        }
        (said, false)
    }
}

impl Counter {
    fn first(limit: &Threshold, now: Time) -> (Self, Said) {
        let mut counter = Self { since: now, count: 1, next: limit.count, replaced: None };
        let said = match limit.kind {
            ThresholdKind::Limit | ThresholdKind::Rate => Said::Alert,
            ThresholdKind::Threshold | ThresholdKind::Both if limit.count == 1 => Said::Alert,
            ThresholdKind::Backoff if limit.count == 1 => {
                counter.next = counter.next.saturating_mul(limit.multiplier);
                Said::Alert
            }
            _ => Said::Nothing,
        };
        (counter, said)
    }

    /// Counts one more; whether a rate filter has replaced the action.
    fn update(&mut self, limit: &Threshold, now: Time, action: &mut Action) -> (Said, bool) {
        let within = now <= later(self.since, limit.seconds);
        match limit.kind {
            ThresholdKind::Rate => return (Said::Alert, self.rate(limit, now, within, action)),
            ThresholdKind::Backoff => return (self.backoff(limit), false),
            _ => {}
        }
        if !within {
            self.since = now;
            self.count = 1;
            let alert = match limit.kind {
                ThresholdKind::Limit => true,
                ThresholdKind::Both => limit.count == 1,
                _ => false,
            };
            return (if alert { Said::Alert } else { Said::Nothing }, false);
        }
        self.count = self.count.saturating_add(1);
        let said = match limit.kind {
            ThresholdKind::Limit if self.count <= limit.count => Said::Alert,
            ThresholdKind::Limit => Said::Silent,
            ThresholdKind::Threshold if self.count >= limit.count => {
                self.count = 0;
                Said::Alert
            }
            ThresholdKind::Both if self.count == limit.count => Said::Alert,
            ThresholdKind::Both if self.count > limit.count => Said::Silent,
            ThresholdKind::DetectionFilter if self.count > limit.count => Said::Alert,
            _ => Said::Nothing,
        };
        (said, false)
    }

    fn backoff(&mut self, limit: &Threshold) -> Said {
        if self.count == u32::MAX {
            return Said::Silent;
        }
        self.count += 1;
        if self.count != self.next {
            return Said::Silent;
        }
        self.next = self.next.saturating_mul(limit.multiplier);
        Said::Alert
    }

    fn rate(&mut self, limit: &Threshold, now: Time, within: bool, action: &mut Action) -> bool {
        let mut replace = false;
        if let Some(since) = self.replaced {
            if now.seconds - since.seconds > i64::from(limit.timeout_seconds) {
                self.replaced = None;
            } else {
                replace = true;
            }
        } else if within {
            self.count = self.count.saturating_add(1);
            if self.count > limit.count {
                self.replaced = Some(now);
                replace = true;
            }
        } else {
            self.since = now;
            self.count = 1;
        }
        if let (true, Some(new)) = (replace, limit.new_action) {
            *action = new;
        }
        replace && limit.new_action.is_some()
    }
}

fn later(time: Time, seconds: u32) -> Time {
    Time { seconds: time.seconds + i64::from(seconds), micros: time.micros }
}

fn addresses(track: Track, at: &Occasion) -> [Option<IpAddr>; 2] {
    match track {
        Track::Source => [at.source, None],
        Track::Destination => [at.destination, None],
        Track::Pair => pair(at.source, at.destination),
        _ => [None, None],
    }
}

/// Both addresses, the lower one first.
pub(crate) fn pair(one: Option<IpAddr>, other: Option<IpAddr>) -> [Option<IpAddr>; 2] {
    if one < other { [one, other] } else { [other, one] }
}
