//! What is wrong with a policy: errors that keep it from being used, and warnings.

use crate::rule::Rule;

/// A policy that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PolicyError {
    /// Not TOML, or a field that is unknown or of the wrong type.
    #[error("policy, line {line}: {message}")]
    Syntax {
        /// Line of the policy's text, from 1.
        line: usize,
        /// What is wrong and what would be right.
        message: String,
    },
    /// It reads, but cannot mean what it says.
    #[error("policy, line {}: rule {:?}: {}", .0.line, .0.rule, .0.message)]
    Meaning(Finding),
}

/// An error or a warning about one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule that it is about.
    pub rule: String,
    /// Line of the rule, from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    pub(crate) fn of(rule: &Rule, message: String) -> Self {
        Self::new(&rule.name, rule.line, message)
    }

    pub(crate) fn new(rule: &str, line: usize, message: String) -> Self {
        Finding { rule: rule.to_owned(), line, message }
    }
}

impl From<Finding> for PolicyError {
    fn from(finding: Finding) -> Self {
        PolicyError::Meaning(finding)
    }
}
