//! Settings: every command of the files that configures views or eval functions.
//!
//! The parser keeps them unchanged, in order; each user reads its own through [`Settings`]. Old
//! names (`whitelist_from`) are kept under the new one (`welcomelist_from`), dashes as underscores,
//! names in lower case.

use std::collections::BTreeMap;

/// One setting line that survived the conditionals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingLine {
    /// Everything after the command, trimmed, comments removed.
    pub value: String,
    /// Position among all setting lines, so that `clear_x` can be ordered against `x`.
    pub order: u32,
    /// File and line of the command.
    pub at: crate::rule::Source,
}

/// All setting lines by command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    lines: BTreeMap<String, Vec<SettingLine>>,
    count: u32,
}

impl Settings {
    /// Adds a line; `name` is the canonical command.
    pub fn add(&mut self, name: &str, value: &str, at: crate::rule::Source) {
        let line = SettingLine { value: value.to_owned(), order: self.count, at };
        self.count += 1;
        self.lines.entry(name.to_owned()).or_default().push(line);
    }

    /// All lines of a command, in order.
    pub fn all(&self, name: &str) -> &[SettingLine] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every command that was set, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.keys().map(String::as_str)
    }

    /// The value of the last line of a command.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(|l| l.value.as_str())
    }

    /// A yes/no setting: `1`, `yes` or `0`, `no`.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        match self.last(name).map(str::to_ascii_lowercase).as_deref() {
            Some("1" | "yes") => true,
            Some("0" | "no") => false,
            _ => default,
        }
    }

    /// The last value as a number; `default` if there is none, or it is no number.
    pub fn number(&self, name: &str, default: f64) -> f64 {
        self.last(name).and_then(|v| v.parse().ok()).unwrap_or(default)
    }

    /// The words of all lines of a command, in order.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.all(name).iter().flat_map(|l| l.value.split_ascii_whitespace())
    }
}
