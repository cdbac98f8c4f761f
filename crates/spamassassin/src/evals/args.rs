//! The arguments of a call of an eval function.

use gauntlet_rules::pattern::Pattern;
use gauntlet_rules::rule::EvalKind;

use super::text::leading_number;

/// The arguments of a call, and what kind of rule makes it.
#[derive(Debug)]
pub(super) struct Args {
    pub(super) words: Vec<String>,
    /// The words as numbers.
    pub(super) numbers: Vec<f64>,
    /// The second word as a comparison.
    pub(super) comparison: Option<Comparison>,
    /// The argument that is a pattern, for functions that take one.
    pub(super) pattern: Option<Pattern>,
    pub(super) kind: EvalKind,
}

impl Args {
    /// No arguments, for functions that call each other.
    pub(super) const NONE: &'static Args = &Args {
        words: Vec::new(),
        numbers: Vec::new(),
        comparison: None,
        pattern: None,
        kind: EvalKind::Header,
    };

    pub(super) fn new(words: Vec<String>, pattern: Option<Pattern>, kind: EvalKind) -> Self {
        let numbers = words.iter().map(|word| leading_number(word)).collect();
        let comparison = words.get(1).and_then(|word| Comparison::parse(word));
        Args { words, numbers, comparison, pattern, kind }
    }

    pub(super) fn word(&self, i: usize) -> Option<&str> {
        self.words.get(i).map(String::as_str)
    }

    /// A number as Perl converts it: 0 if the argument is missing or no number.
    pub(super) fn number(&self, i: usize) -> f64 {
        self.numbers.get(i).copied().unwrap_or_default()
    }

    /// A bound; `None` if the argument is missing or `undef`.
    pub(super) fn bound(&self, i: usize) -> Option<f64> {
        self.word(i).filter(|w| *w != "undef").map(|_| self.number(i))
    }
}

/// A comparison with a number, as rules write it: `!= 0`, `< 384`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Comparison {
    /// Which of less, equal and greater holds.
    holds: [bool; 3],
    number: f64,
}

impl Comparison {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let operators = [
            ("<=", [true, true, false]),
            (">=", [false, true, true]),
            ("!=", [true, false, true]),
            ("==", [false, true, false]),
            ("<", [true, false, false]),
            (">", [false, false, true]),
        ];
        let (operator, holds) = operators.iter().find(|(op, _)| text.starts_with(op))?;
        let number: String = text[operator.len()..].split_whitespace().collect();
        Some(Comparison { holds: *holds, number: number.parse().ok()? })
    }

    pub(super) fn holds(self, value: f64) -> bool {
        let place = match value.total_cmp(&self.number) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Greater => 2,
        };
        self.holds[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        let holds =
            |text: &str, value: f64| Comparison::parse(text).is_some_and(|c| c.holds(value));
        assert!(holds("!= 0", 1.0) && !holds("!= 0", 0.0));
        assert!(holds("< 384", 383.0) && !holds("< 384", 384.0));
        assert!(holds(">= - 1", -1.0) && !holds("x", 0.0));
    }
}
