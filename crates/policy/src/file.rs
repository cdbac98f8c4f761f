//! The policy file: TOML, read whole or not at all, every mistake named by line.

use std::sync::Arc;

use gauntlet_mail::Direction;
use serde::Deserialize;
use toml::Spanned;

use crate::check::check;
use crate::condition::Condition;
use crate::finding::{Finding, PolicyError};
use crate::groups::Groups;
use crate::pattern::OneOrMany;
use crate::people::People;
use crate::removals::{NamesShape, RemovalShape};
use crate::rule::{ChangeTemplate, Rule};
use crate::suggestion::with_nearest;
use crate::web_rules::{WebQuota, WebQuotaShape, WebRule, WebRuleShape};
use gauntlet_verdict::{Change, Final, ReleasedBy};

/// An ordered list of rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// In the order they are tried.
    pub rules: Vec<Rule>,
    /// Those about web requests, in the order they are tried.
    pub web: Vec<WebRule>,
    /// What web rules ask for: how much a person may use of something.
    pub web_quotas: Vec<WebQuota>,
    /// Groups that the file itself defines.
    pub groups: Groups,
    /// Preferences of single users; empty until the node sets them.
    pub people: Arc<People>,
    /// Warnings that do not keep it from being used: unreachable rules and the like.
    pub warnings: Vec<Finding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileShape {
    #[serde(default)]
    group: Vec<GroupShape>,
    #[serde(default)]
    rule: Vec<Spanned<RuleShape>>,
    #[serde(default)]
    web_rule: Vec<Spanned<WebRuleShape>>,
    #[serde(default)]
    web_quota: Vec<Spanned<WebQuotaShape>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupShape {
    name: String,
    members: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleShape {
    name: String,
    #[serde(default)]
    direction: DirectionShape,
    #[serde(default)]
    enabled: Enabled,
    when: Option<Condition>,
    #[serde(rename = "do")]
    actions: OneOrMany<ActionShape>,
    release: Option<ReleasedBy>,
    stop: Option<bool>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Enabled(bool);

impl Default for Enabled {
    fn default() -> Self {
        Enabled(true)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum DirectionShape {
    Inbound,
    Outbound,
    #[default]
    Both,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionShape {
    Deliver,
    SpamFolder,
    Discard,
    DkimSign,
    Redirect(OneOrMany<String>),
    Hold(String),
    Quarantine(String),
    Reject(String),
    Defer(String),
    AddHeader(HeaderShape),
    RemoveHeader(String),
    TagSubject(String),
    StripAttachments(StripShape),
    Disclaimer(String),
    Copy(OneOrMany<String>),
    Notify(NotifyShape),
    Learn(LearnShape),
    Strip(RemovalShape),
    Disarm(RemovalShape),
    ConvertNames(NamesShape),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderShape {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StripShape {
    which: Option<crate::condition::AttachmentCondition>,
    note: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotifyShape {
    to: OneOrMany<String>,
    #[serde(default)]
    template: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum LearnShape {
    Spam,
    Ham,
}

impl AsRef<Policy> for Policy {
    fn as_ref(&self) -> &Policy {
        self
    }
}

impl Policy {
    /// The policy that comes with the program: 36 rules that a company can run unchanged.
    pub const DEFAULT: &'static str = include_str!("../../../rules/policy.toml");

    /// Reads a policy. `groups` are those the node knows beside the file's own.
    pub fn parse(text: &str, known: &Groups) -> Result<Self, PolicyError> {
        let file: FileShape = toml::from_str(text).map_err(|e| syntax_error(text, &e))?;
        let mut groups = known.clone();
        for group in file.group {
            groups.add(&group.name, group.members);
        }
        let mut rules = Vec::new();
        for shape in file.rule {
            let line = line_of(text, shape.span().start);
            if let Some(rule) = read_rule(shape.into_inner(), line)? {
                rules.push(rule);
            }
        }
        let mut web = Vec::new();
        for shape in file.web_rule {
            let line = line_of(text, shape.span().start);
            web.extend(shape.into_inner().read(line)?);
        }
        let quota = |shape: Spanned<WebQuotaShape>| {
            let line = line_of(text, shape.span().start);
            shape.into_inner().read(line)
        };
        let web_quotas: Vec<WebQuota> = file.web_quota.into_iter().map(quota).collect();
        let mut warnings = check(&rules, &groups)?;
        warnings.extend(crate::web_rules::check(&web, &web_quotas, &groups)?);
        Ok(Policy { rules, web, web_quotas, groups, people: Arc::default(), warnings })
    }

    /// The default policy, with these groups.
    ///
    /// # Panics
    /// Never in a built program: a test reads the default policy.
    pub fn default_policy(known: &Groups) -> Self {
        Self::parse(Self::DEFAULT, known).unwrap_or_else(|e| panic!("the default policy: {e}"))
    }
}

fn read_rule(shape: RuleShape, line: usize) -> Result<Option<Rule>, PolicyError> {
    if !shape.enabled.0 {
        return Ok(None);
    }
    let mut rule = Rule {
        directions: match shape.direction {
            DirectionShape::Inbound => vec![Direction::Inbound],
            DirectionShape::Outbound => vec![Direction::Outbound],
            DirectionShape::Both => vec![Direction::Inbound, Direction::Outbound],
        },
        name: shape.name,
        when: shape.when,
        changes: Vec::new(),
        end: None,
        release: shape.release,
        stop: false,
        line,
    };
    let actions = match shape.actions {
        OneOrMany::One(action) => vec![action],
        OneOrMany::Many(actions) => actions,
    };
    for action in actions {
        match read_action(action, &rule.name, rule.when.as_ref()) {
            Action::Change(change) => rule.changes.push(change),
            Action::End(end) => {
                if let Some(first) = &rule.end {
                    let message =
                        format!("both {} and {}; a rule ends one way", first.name(), end.name());
                    return Err(Finding::of(&rule, message).into());
                }
                rule.end = Some(end);
            }
        }
    }
    rule.stop = shape.stop.unwrap_or(rule.end.is_some());
    Ok(Some(rule))
}

enum Action {
    Change(ChangeTemplate),
    End(Final),
}

fn read_action(shape: ActionShape, rule: &str, when: Option<&Condition>) -> Action {
    let rule = rule.to_owned();
    let change = |change| Action::Change(ChangeTemplate::Fixed(change));
    match shape {
        ActionShape::Deliver => Action::End(Final::Deliver),
        ActionShape::SpamFolder => Action::End(Final::SpamFolder),
        ActionShape::Discard => Action::End(Final::Discard),
        ActionShape::Redirect(to) => Action::End(Final::Redirect { to: to.as_slice().to_vec() }),
        ActionShape::Hold(folder) => Action::End(Final::Hold { folder }),
        ActionShape::Quarantine(folder) => Action::End(Final::Quarantine { folder }),
        ActionShape::Reject(text) => Action::End(Final::Reject { text }),
        ActionShape::Defer(text) => Action::End(Final::Defer { text }),
        ActionShape::DkimSign => change(Change::DkimSign),
        ActionShape::AddHeader(h) => change(Change::AddHeader { name: h.name, value: h.value }),
        ActionShape::RemoveHeader(name) => change(Change::RemoveHeader { name }),
        ActionShape::TagSubject(tag) => change(Change::TagSubject { tag }),
        ActionShape::Disclaimer(text) => change(Change::Disclaimer { text }),
        ActionShape::Copy(to) => change(Change::Copy { to: to.as_slice().to_vec() }),
        ActionShape::Notify(n) => {
            change(Change::Notify { to: n.to.as_slice().to_vec(), template: n.template, rule })
        }
        ActionShape::Learn(l) => {
            change(Change::Learn { spam: matches!(l, LearnShape::Spam), rule })
        }
        ActionShape::Strip(shape) => Action::Change(shape.template(false, rule, when)),
        ActionShape::Disarm(shape) => Action::Change(shape.template(true, rule, when)),
        ActionShape::ConvertNames(shape) => Action::Change(shape.template(rule)),
        ActionShape::StripAttachments(s) => {
            Action::Change(ChangeTemplate::StripAttachments { which: s.which, note: s.note })
        }
    }
}

/// Line of a byte offset, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}

/// The key whose value begins at this offset.
fn key_before(text: &str, offset: usize) -> Option<&str> {
    let before = text.get(..offset)?.trim_end().strip_suffix('=')?.trim_end();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let key = before.rsplit(|c: char| !is_part(c)).next()?;
    (!key.is_empty()).then_some(key)
}

fn syntax_error(text: &str, error: &toml::de::Error) -> PolicyError {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    let message = match error.message() {
        // An action without its value: serde names the kinds of its own types.
        unit if unit.contains("unit variant, expected") => {
            "this action needs a value, e.g. { quarantine = \"FOLDER\" } or { reject = \"TEXT\" }"
                .to_owned()
        }
        value if value.ends_with("expected unit") => {
            let action = error.span().and_then(|span| key_before(text, span.start));
            let action = action.unwrap_or("ACTION");
            format!("this action has no value; write it as do = \"{action}\"")
        }
        other => with_nearest(other),
    };
    PolicyError::Syntax { line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_by_line() {
        let text = "[[rule]]\nname = \"a\"\nwhen = { clas = \"spam\" }\ndo = \"deliver\"\n";
        let error = Policy::parse(text, &Groups::default()).unwrap_err().to_string();
        assert!(error.starts_with("policy, line 3:"), "{error}");
        assert!(error.contains("did you mean `class`?"), "{error}");
        let text = "[[rule]]\nname = \"a\"\ndo = { discard = true }\n";
        let error = Policy::parse(text, &Groups::default()).unwrap_err().to_string();
        assert!(error.starts_with("policy, line 3: this action has no value"), "{error}");
        assert!(error.ends_with("write it as do = \"discard\""), "{error}");
        let text = "[[rule]]\nname = \"a\"\ndo = \"quarantine\"\n";
        let error = Policy::parse(text, &Groups::default()).unwrap_err().to_string();
        assert!(error.contains("{ quarantine = \"FOLDER\" }"), "{error}");
    }

    #[test]
    fn a_rule_says_who_releases_what_it_holds() {
        let parse = |rest: &str| {
            let text = format!("[[rule]]\nname = \"a\"\n{rest}\n");
            Policy::parse(&text, &Groups::default()).map_err(|e| e.to_string())
        };
        let said = |rest| parse(rest).unwrap().rules[0].release;
        assert_eq!(said("do = { quarantine = \"x\" }"), None);
        assert_eq!(said("do = { quarantine = \"x\" }\nrelease = \"user\""), Some(ReleasedBy::User));
        assert_eq!(said("do = { hold = \"x\" }\nrelease = \"admin\""), Some(ReleasedBy::Admin));
        for (rest, why) in [
            ("do = \"deliver\"\nrelease = \"user\"", "needs hold or quarantine"),
            ("do = { quarantine = \"malware\" }\nrelease = \"user\"", "administrators only"),
            ("do = { hold = \"unscannable\" }\nrelease = \"user\"", "administrators only"),
            ("do = { hold = \"x\" }\nrelease = \"anybody\"", "line 4"),
        ] {
            let error = parse(rest).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_rule_ends_one_way() {
        let text = "[[rule]]\nname = \"a\"\ndo = [\"deliver\", \"discard\"]\n";
        let error = Policy::parse(text, &Groups::default()).unwrap_err().to_string();
        assert!(error.contains("both deliver and discard"), "{error}");
    }
}
