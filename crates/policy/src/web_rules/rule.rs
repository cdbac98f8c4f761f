//! One rule about web requests, as it was read.

use gauntlet_web::{WebAction, WebChange};
use serde::Deserialize;

use super::condition::WebCondition;
use crate::bytes::Bytes;
use crate::finding::{Finding, PolicyError};
use crate::pattern::OneOrMany;

/// Most rules about web requests in one policy.
pub const WEB_RULES_MAX: usize = 1_000;
/// For how long a person who was warned may go on, in minutes, unless the rule says so.
const WARN_MINUTES: u32 = 10;

/// One rule: a name, conditions, and what is done when they hold.
#[derive(Debug, Clone, PartialEq)]
pub struct WebRule {
    /// Unique name, logged with every request that it matched.
    pub name: String,
    /// When it matches; none matches always.
    pub when: Option<WebCondition>,
    /// How the request ends, if the rule decides it.
    pub action: Option<WebAction>,
    /// What is changed.
    pub changes: Vec<WebChange>,
    /// No further rule is tried after a match.
    pub stop: bool,
    /// Line in the file, from 1.
    pub line: usize,
}

impl WebRule {
    /// It is tried with the response.
    pub fn asks_response(&self) -> bool {
        self.when.as_ref().is_some_and(WebCondition::asks_response)
    }

    /// What it matches is allowed, unseen, or not asked about any further.
    pub(crate) fn lets_through(&self) -> bool {
        let ends = self.action.is_none() && self.stop;
        let allows = matches!(self.action, Some(WebAction::Allow));
        ends || allows || self.changes.contains(&WebChange::BypassTls)
    }
}

/// A rule as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebRuleShape {
    name: String,
    #[serde(default = "enabled")]
    enabled: bool,
    when: Option<WebCondition>,
    #[serde(rename = "do")]
    actions: OneOrMany<ActionShape>,
    stop: Option<bool>,
}

fn enabled() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionShape {
    Allow,
    Log,
    BypassTls,
    Block(String),
    Warn(WarnShape),
    Redirect(String),
    LimitRate(Bytes),
    Strip(OneOrMany<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WarnShape {
    text: String,
    #[serde(default = "warn_minutes")]
    minutes: u32,
}

fn warn_minutes() -> u32 {
    WARN_MINUTES
}

impl WebRuleShape {
    /// The rule, unless it is off.
    ///
    /// # Errors
    /// It ends in two ways.
    pub(crate) fn read(self, line: usize) -> Result<Option<WebRule>, PolicyError> {
        if !self.enabled {
            return Ok(None);
        }
        let (mut action, mut changes) = (None::<WebAction>, Vec::new());
        let actions = match self.actions {
            OneOrMany::One(action) => vec![action],
            OneOrMany::Many(actions) => actions,
        };
        for shape in actions {
            let end = match shape {
                // That a rule matched is in the log in any case.
                ActionShape::Log => continue,
                ActionShape::BypassTls => {
                    changes.push(WebChange::BypassTls);
                    continue;
                }
                ActionShape::LimitRate(Bytes(bytes_per_second)) => {
                    changes.push(WebChange::LimitRate { bytes_per_second });
                    continue;
                }
                ActionShape::Strip(fields) => {
                    changes.push(WebChange::Strip { fields: fields.as_slice().to_vec() });
                    continue;
                }
                ActionShape::Allow => WebAction::Allow,
                ActionShape::Block(text) => WebAction::Block { text },
                ActionShape::Redirect(to) => WebAction::Redirect { to },
                ActionShape::Warn(WarnShape { text, minutes }) => WebAction::Warn { text, minutes },
            };
            if let Some(first) = &action {
                let message =
                    format!("both {} and {}; a rule ends one way", first.name(), end.name());
                return Err(Finding::new(&self.name, line, message).into());
            }
            action = Some(end);
        }
        let stop = self.stop.unwrap_or(action.is_some());
        Ok(Some(WebRule { name: self.name, when: self.when, action, changes, stop, line }))
    }
}
