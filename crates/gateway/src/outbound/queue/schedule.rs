//! When a message is tried again, given up, and when that is reported to its sender: pure rules,
//! without a clock.

use gauntlet_engine::random::SPLIT_MIX_STEP;
use gauntlet_store::Outcome;

use crate::config::SenderSettings;
use crate::outbound::queued_message::News;

/// The rules of one generation of settings.
#[derive(Debug, Clone, Copy)]
pub struct Schedule<'s> {
    settings: &'s SenderSettings,
}

impl<'s> Schedule<'s> {
    /// As the settings have it.
    pub fn of(settings: &'s SenderSettings) -> Self {
        Schedule { settings }
    }

    /// What an attempt comes to: one that failed for now is final once the message is too old.
    /// Times are Unix milliseconds.
    pub fn outcome(&self, attempt: Option<Outcome>, received_ms: i64, now_ms: i64) -> Outcome {
        let expires = milliseconds(self.settings.expire_seconds);
        match attempt {
            Some(outcome) => outcome,
            None if now_ms.saturating_sub(received_ms) >= expires => Outcome::Failed,
            None => Outcome::Queued,
        }
    }

    /// What may be reported to the sender. That mail is late is said by the first attempt after the
    /// time, so that nothing but the time of the attempt before need be remembered.
    /// `next_hop_reports`: the next hop reports the delivery itself (DSN).
    pub fn news(
        &self,
        outcome: Outcome,
        next_hop_reports: bool,
        received_ms: i64,
        attempt_before_ms: i64,
        now_ms: i64,
    ) -> Option<News> {
        let late = milliseconds(self.settings.delay_report_seconds);
        let age = |at: i64| at.saturating_sub(received_ms);
        match outcome {
            Outcome::Failed => Some(News::Failed),
            Outcome::Delivered if !next_hop_reports => Some(News::Delivered),
            Outcome::Queued if late > 0 && age(attempt_before_ms) < late && age(now_ms) >= late => {
                Some(News::Delayed)
            }
            _ => None,
        }
    }

    /// When the attempt after so many is due, Unix milliseconds: the schedule, within a tenth more
    /// or less so that a backlog spreads.
    pub fn next_attempt(&self, id: u64, attempts: u32, now_ms: i64) -> i64 {
        let retries = &self.settings.retry_seconds;
        let index = (attempts as usize).saturating_sub(1).min(retries.len().saturating_sub(1));
        let seconds = retries.get(index).copied().unwrap_or(60);
        now_ms.saturating_add(jittered_ms(seconds, id ^ u64::from(attempts)))
    }
}

fn milliseconds(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

/// `seconds` in milliseconds, up to a tenth more or less, by the bits of `seed`.
fn jittered_ms(seconds: u64, seed: u64) -> i64 {
    let mixed = seed.wrapping_mul(SPLIT_MIX_STEP) >> 40;
    let ms = seconds.saturating_mul(1_000);
    let jitter = ms / 5 * (mixed % 1_001) / 1_000;
    i64::try_from(ms - ms / 10 + jitter).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::random::Random;

    #[test]
    fn jitter_stays_within_a_tenth_and_spreads() {
        let all: Vec<i64> = (0..1_000).map(|seed| jittered_ms(60, seed)).collect();
        assert!(all.iter().all(|ms| (54_000..=66_000).contains(ms)));
        let distinct: BTreeSet<&i64> = all.iter().collect();
        assert!(distinct.len() > 300, "{}", distinct.len());
    }

    /// A message of a simulated world.
    struct Message {
        received: i64,
        hosts: [usize; 2],
        attempts: Vec<i64>,
        news: Vec<News>,
        end: Option<(i64, Outcome)>,
    }

    /// Hosts that are away at random times for random spans, messages that come over two days, each
    /// with a first host and a spare. Time jumps from event to event: nine days take milliseconds.
    fn simulate(seed: u64, settings: &SenderSettings) -> Vec<Message> {
        const HOUR: i64 = 3_600_000;
        let random = Random::seeded(seed);
        let below = |n: i64| i64::try_from(random.below(n.unsigned_abs())).unwrap();
        let away: Vec<Vec<(i64, i64)>> = (0..4)
            .map(|_| {
                let span = |_| {
                    let (from, long) = (below(200 * HOUR), below(1 + below(150 * HOUR)));
                    (from, from + long)
                };
                (0..below(4)).map(span).collect()
            })
            .collect();
        let mut messages: Vec<Message> = (0..200)
            .map(|_| Message {
                received: below(48 * HOUR),
                hosts: [below(4), below(4)].map(|n| usize::try_from(n).unwrap()),
                attempts: Vec::new(),
                news: Vec::new(),
                end: None,
            })
            .collect();
        let schedule = Schedule::of(settings);
        let mut events: BTreeMap<(i64, usize), ()> =
            messages.iter().enumerate().map(|(n, m)| ((m.received, n), ())).collect();
        while let Some(((now, number), ())) = events.pop_first() {
            let message = &mut messages[number];
            let is_there =
                |host: &&usize| !away[**host].iter().any(|(a, b)| (a..b).contains(&&now));
            // Failover: the first of its hosts that is there.
            let taken = message.hosts.iter().find(is_there).map(|_| Outcome::Delivered);
            let outcome = schedule.outcome(taken, message.received, now);
            let before = message.attempts.last().copied().unwrap_or(message.received);
            message.attempts.push(now);
            message.news.extend(schedule.news(outcome, true, message.received, before, now));
            if outcome.is_final() {
                message.end = Some((now, outcome));
            } else {
                let attempts = u32::try_from(message.attempts.len()).unwrap();
                let due = schedule.next_attempt(number as u64 ^ seed, attempts, now);
                assert!(due > now, "seed {seed}: time goes on");
                events.insert((due, number), ());
            }
        }
        // A spare that was there all the time leaves no message waiting.
        for message in &messages {
            if message.hosts.iter().any(|host| away[*host].is_empty()) {
                assert_eq!(message.attempts.len(), 1, "seed {seed}");
            }
        }
        messages
    }

    #[test]
    fn every_message_ends_in_time_and_is_reported_once() {
        let settings = SenderSettings::default();
        let (expire, late) = (5 * 86_400_000, 4 * 3_600_000);
        let longest = 14_400_000 / 10 * 11;
        let seeds = std::env::var("GAUNTLET_SEED").ok().and_then(|s| s.parse().ok());
        let seeds = seeds.map_or(1..=50, |seed: u64| seed..=seed);
        let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
        for seed in seeds {
            eprintln!("seed {seed}");
            for message in simulate(seed, &settings) {
                let (at, outcome) = message.end.expect("an end");
                *ends.entry(outcome.name()).or_default() += 1;
                let age = at - message.received;
                assert!(age < expire + longest, "seed {seed}: {age} ms");
                // An attempt after the time that works is a delivery.
                assert!(outcome != Outcome::Failed || age >= expire, "seed {seed}: {age} ms");
                let said = |news| message.news.iter().filter(|n| **n == news).count();
                assert_eq!(said(News::Failed), usize::from(outcome == Outcome::Failed));
                // Late, and not ended by the attempt that would have said so.
                let waited =
                    message.attempts.iter().any(|a| a - message.received >= late && *a < at);
                assert_eq!(said(News::Delayed), usize::from(waited), "seed {seed}");
                for (n, pair) in message.attempts.windows(2).enumerate() {
                    let wanted = settings.retry_seconds[n.min(6)].cast_signed() * 1_000;
                    let gap = pair[1] - pair[0];
                    assert!((gap - wanted).abs() <= wanted / 10, "seed {seed}: {gap} for {wanted}");
                }
            }
        }
        eprintln!("{ends:?}");
        assert!(ends.len() == 2 || std::env::var_os("GAUNTLET_SEED").is_some(), "{ends:?}");
    }
}
