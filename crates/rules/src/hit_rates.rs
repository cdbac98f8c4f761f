//! How often rules hit of late: hints in which order rules decide soonest. They change no verdict
//! ([`crate::Ruleset::ordered_by`]).
//!
//! As a text:
//!
//! ```text
//! messages 1200
//! hit DRUGS_ERECTILE 310
//! hit URI_HEX 84
//! ```
//!
//! `#` begins a comment. Limits: [`BYTES_MAX`], [`RULES_MAX`].

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Bytes of a text.
pub const BYTES_MAX: usize = 4 << 20;
/// Rules in it.
pub const RULES_MAX: usize = 50_000;
/// Bytes of a rule's name.
const NAME_BYTES_MAX: usize = 128;
/// As many messages without hits are taken for granted, so that a few say little.
const PRIOR_MESSAGES: f64 = 20.0;

/// Steps of a rate that are told apart.
const ROUGH_STEPS: f64 = 32.0;

/// Why a text holds none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HitRatesError {
    /// The text is too long, or has too many rules.
    #[error("hit rates: {what}: {most} at most")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// A line is none of the format.
    #[error("hit rates, line {line}: write `messages COUNT`, then `hit RULE COUNT`")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
}

/// Messages, and how many of them each rule hit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HitRates {
    messages: u64,
    hits: BTreeMap<String, u64>,
}

impl HitRates {
    /// Of counts. Names that no rule can have are left out.
    pub fn new(messages: u64, hits: impl IntoIterator<Item = (String, u64)>) -> Self {
        let hits = hits.into_iter().filter(|(name, _)| is_name(name)).take(RULES_MAX).collect();
        HitRates { messages, hits }
    }

    /// Counts a message.
    pub fn add<'r>(&mut self, rules: impl IntoIterator<Item = &'r str>) {
        self.messages += 1;
        for rule in rules {
            if let Some(hits) = self.hits.get_mut(rule) {
                *hits += 1;
            } else if self.hits.len() < RULES_MAX && is_name(rule) {
                self.hits.insert(rule.to_owned(), 1);
            }
        }
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &HitRates) {
        self.messages = self.messages.saturating_add(other.messages);
        for (rule, hits) in &other.hits {
            if self.hits.len() < RULES_MAX || self.hits.contains_key(rule) {
                let sum = self.hits.entry(rule.clone()).or_default();
                *sum = sum.saturating_add(*hits);
            }
        }
    }

    /// Messages that were counted.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Share of messages that a rule hits, 0 to 1.
    pub fn rate(&self, rule: &str) -> f64 {
        let hits = self.hits.get(rule).copied().unwrap_or(0).min(self.messages);
        hits as f64 / (self.messages as f64 + PRIOR_MESSAGES)
    }

    /// The same in steps, so that counts that differ a little give one order; never 0.
    pub(crate) fn rough(&self, rule: &str) -> f64 {
        ((self.rate(rule) * ROUGH_STEPS).round() / ROUGH_STEPS).max(0.5 / ROUGH_STEPS)
    }

    /// Names the order that they give: rules that hit more than rarely, by their rough rates.
    pub(crate) fn mark(&self) -> String {
        // FNV-1a: the same in each build.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for rule in self.hits.keys().filter(|rule| self.rough(rule) >= 1.0 / ROUGH_STEPS) {
            add(rule.as_bytes());
            add(&self.rough(rule).to_le_bytes());
        }
        format!("{hash:016x}")
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The first line that is none of the format, or what there is too much of.
    pub fn parse(text: &str) -> Result<Self, HitRatesError> {
        if text.len() > BYTES_MAX {
            return Err(HitRatesError::TooMany { what: "bytes", most: BYTES_MAX });
        }
        let mut rates = HitRates::default();
        for (at, line) in text.lines().enumerate() {
            let wrong = || HitRatesError::Line { line: at + 1 };
            let count = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
            match *words.as_slice() {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["messages", number] => rates.messages = count(number)?,
                ["hit", rule, number] if is_name(rule) => {
                    rates.hits.insert(rule.to_owned(), count(number)?);
                }
                _ => return Err(wrong()),
            }
            if rates.hits.len() > RULES_MAX {
                return Err(HitRatesError::TooMany { what: "rules", most: RULES_MAX });
            }
        }
        Ok(rates)
    }
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain)
}

/// The text of them, rules in the order of their names.
impl fmt::Display for HitRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("messages {}\n", self.messages);
        for (rule, hits) in &self.hits {
            writeln!(text, "hit {rule} {hits}")?;
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_read_again() {
        let mut rates = HitRates::default();
        (0..60).for_each(|_| rates.add(["A", "B"]));
        (0..20).for_each(|_| rates.add(["A", "no name", ""]));
        let text = rates.to_string();
        assert_eq!(text, "messages 80\nhit A 80\nhit B 60\n");
        assert_eq!(HitRates::parse(&text).unwrap(), rates);
        assert_eq!((rates.rate("A"), rates.rate("B"), rates.rate("C")), (0.8, 0.6, 0.0));
        let mut twice = rates.clone();
        twice.merge(&rates);
        assert_eq!((twice.messages(), twice.rate("B")), (160, 120.0 / 180.0));
    }

    #[test]
    fn other_texts_are_refused_by_their_line() {
        for (text, line) in [
            ("x", 1),
            ("messages 1\nhit A", 2),
            ("messages -1", 1),
            ("hit A 99999999999999999999", 1),
            ("# fine\n\nhit A-B 1", 3),
            ("hit A 1 2", 1),
        ] {
            assert_eq!(HitRates::parse(text), Err(HitRatesError::Line { line }), "{text:?}");
        }
        let many: String = (0..=RULES_MAX).map(|n| format!("hit R{n} 1\n")).collect();
        assert!(matches!(HitRates::parse(&many), Err(HitRatesError::TooMany { .. })));
        let long = " ".repeat(BYTES_MAX + 1);
        assert!(matches!(HitRates::parse(&long), Err(HitRatesError::TooMany { .. })));
        // More hits than messages, as nobody counts: a rate is a share all the same.
        assert!(HitRates::parse("hit A 7").unwrap().rate("A") <= 1.0);
    }
}
