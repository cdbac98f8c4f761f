//! What is wrong with web rules that read.

use gauntlet_web::{WebAction, WebChange};

use super::condition::WebCondition;
use super::rule::{WEB_RULES_MAX, WebRule};
use crate::condition::CONDITION_DEPTH_MAX;
use crate::finding::{Finding, PolicyError};
use crate::groups::Groups;
use crate::pattern::OneOrMany;

/// Longest text on a page, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;
/// Longest time that a person who was warned may go on, in minutes: a day.
const WARN_MINUTES_MAX: u32 = 24 * 60;
/// Fields without which a request is another one, or none.
const NEEDED: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "content-type", "via"];
/// A slower response would hold a connection for hours.
const RATE_MIN: u64 = 1024;

/// Rejects contradictions and unknown names; returns warnings.
pub(crate) fn check(rules: &[WebRule], groups: &Groups) -> Result<Vec<Finding>, PolicyError> {
    let mut warnings = Vec::new();
    if let Some(rule) = rules.get(WEB_RULES_MAX) {
        return Err(finding(rule, format!("more than {WEB_RULES_MAX} web rules")).into());
    }
    for (i, rule) in rules.iter().enumerate() {
        if let Some(first) = rules[..i].iter().find(|r| r.name == rule.name) {
            let message = format!("the name is taken by the web rule at line {}", first.line);
            return Err(finding(rule, message).into());
        }
        if let Some(problem) = problem(rule, groups) {
            return Err(finding(rule, problem).into());
        }
        if let Some(before) = rules[..i].iter().find(|r| r.stop && r.when.is_none()) {
            let message =
                format!("never tried: {:?} (line {}) stops before it", before.name, before.line);
            warnings.push(finding(rule, message));
        }
    }
    Ok(warnings)
}

fn finding(rule: &WebRule, message: String) -> Finding {
    Finding::new(&rule.name, rule.line, message)
}

fn problem(rule: &WebRule, groups: &Groups) -> Option<String> {
    if rule.name.trim().is_empty() {
        return Some("a rule needs a name: it is what the log says".into());
    }
    let asks_response = rule.asks_response();
    match &rule.action {
        Some(WebAction::Redirect { to }) => {
            if asks_response {
                return Some("a redirect is decided before the response is here".into());
            }
            if !is_web_address(to) {
                return Some(format!("redirect: {to:?} is no http:// or https:// address"));
            }
        }
        Some(WebAction::Block { text } | WebAction::Warn { text, .. }) => {
            if let Some(problem) = text_problem(text) {
                return Some(problem);
            }
        }
        Some(WebAction::Allow) | None => {}
    }
    if let Some(WebAction::Warn { minutes, .. }) = rule.action
        && !(1..=WARN_MINUTES_MAX).contains(&minutes)
    {
        return Some(format!("warn: minutes are 1 to {WARN_MINUTES_MAX}"));
    }
    let change = rule.changes.iter().find_map(|change| change_problem(change, asks_response));
    change.or_else(|| condition_problem(rule.when.as_ref()?, groups))
}

/// Of a page's text: it stands in HTML and in plain text.
fn text_problem(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("the page needs a text that says why".into());
    }
    if text.chars().any(|c| c.is_control() && c != '\n') {
        return Some("the text has control characters".into());
    }
    (text.len() > TEXT_BYTES_MAX).then(|| format!("the text is over {TEXT_BYTES_MAX} bytes"))
}

fn is_web_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty()) && text.bytes().all(|b| b.is_ascii_graphic())
}

fn change_problem(change: &WebChange, asks_response: bool) -> Option<String> {
    match change {
        WebChange::Strip { .. } | WebChange::BypassTls if asks_response => {
            Some("strip and bypass_tls are decided before the response is here".into())
        }
        WebChange::Strip { fields } => {
            let is_name = |f: &&String| {
                !f.is_empty() && f.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            if let Some(wrong) = fields.iter().find(|f| !is_name(f)) {
                return Some(format!("strip: {wrong:?} is no header field name"));
            }
            let is_needed = |f: &&String| NEEDED.contains(&f.to_ascii_lowercase().as_str());
            let wrong = fields.iter().find(is_needed)?;
            Some(format!("strip: requests need {wrong:?}"))
        }
        WebChange::LimitRate { bytes_per_second } if *bytes_per_second < RATE_MIN => {
            Some(format!("limit_rate: {RATE_MIN} bytes a second at least"))
        }
        WebChange::LimitRate { .. } | WebChange::BypassTls => None,
    }
}

fn condition_problem(when: &WebCondition, groups: &Groups) -> Option<String> {
    if when.depth() > CONDITION_DEPTH_MAX {
        return Some(format!("conditions nest deeper than {CONDITION_DEPTH_MAX}"));
    }
    let asked = when.client.iter().filter_map(|c| c.group.as_ref()).flat_map(OneOrMany::as_slice);
    if let Some(group) = asked.into_iter().find(|g| !groups.has(g)) {
        return Some(format!(
            "no group {group:?}; define it with [[group]] or in the configuration"
        ));
    }
    for (name, list) in [("all", &when.all), ("any", &when.any)] {
        if list.as_ref().is_some_and(Vec::is_empty) {
            return Some(format!("`{name}` is an empty list"));
        }
    }
    when.inner().find_map(|inner| condition_problem(inner, groups))
}
