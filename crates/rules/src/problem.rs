//! Problems found while reading.

use std::sync::Arc;

use crate::rule::Source;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is lost (a rule that needs the network, a setting without effect).
    Note,
    /// Probably a mistake; the rest is loaded.
    Warning,
    /// The line or rule is left out.
    Error,
}

impl Severity {
    /// `note`, `warning` or `error`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One problem, where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether the line or rule is left out (an error) or read all the same.
    pub severity: Severity,
    /// File and line of the command.
    pub at: Source,
    /// The rule it concerns, if one.
    pub rule: Option<Arc<str>>,
    /// What is wrong, and how to fix it if that is not obvious.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: ", self.at, self.severity.name())?;
        if let Some(rule) = &self.rule {
            write!(f, "{rule}: ")?;
        }
        f.write_str(&self.message)
    }
}
