//! What is wrong with web rules that read.

use gauntlet_web::{WebAction, WebChange};

use super::condition::WebCondition;
use super::never;
use super::quota::{QUOTAS_MAX, WebQuota};
use super::rule::{WEB_RULES_MAX, WebRule};
use crate::condition::CONDITION_DEPTH_MAX;
use crate::finding::{Finding, PolicyError};
use crate::groups::Groups;
use crate::pattern::OneOrMany;
use crate::suggestion::nearest;

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
pub(crate) fn check(
    rules: &[WebRule],
    quotas: &[WebQuota],
    groups: &Groups,
) -> Result<Vec<Finding>, PolicyError> {
    let mut warnings = check_quotas(rules, quotas, groups)?;
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
        let never = rule.when.iter().flat_map(never::of);
        warnings.extend(never.map(|message| finding(rule, message)));
        if let Some(before) = rules[..i].iter().find(|r| r.stop && r.when.is_none()) {
            let message =
                format!("never tried: {:?} (line {}) stops before it", before.name, before.line);
            warnings.push(finding(rule, message));
        }
    }
    Ok(warnings)
}

/// The same for quotas, and for rules that ask for them.
fn check_quotas(
    rules: &[WebRule],
    quotas: &[WebQuota],
    groups: &Groups,
) -> Result<Vec<Finding>, PolicyError> {
    let found = |quota: &WebQuota, message| Finding::new(&quota.name, quota.line, message);
    let mut warnings = Vec::new();
    if let Some(quota) = quotas.get(QUOTAS_MAX) {
        return Err(found(quota, format!("more than {QUOTAS_MAX} quotas")).into());
    }
    for (i, quota) in quotas.iter().enumerate() {
        if quotas[..i].iter().any(|other| other.name == quota.name) {
            return Err(found(quota, "two quotas have this name".into()).into());
        }
        if let Some(problem) = quota_problem(quota, groups) {
            return Err(found(quota, problem).into());
        }
        let never = quota.when.iter().flat_map(never::of);
        warnings.extend(never.map(|message| found(quota, message)));
    }
    let mut asked = Vec::new();
    for rule in rules {
        let before = asked.len();
        rule.when.iter().for_each(|when| quotas_of(when, &mut asked));
        for name in asked.iter().skip(before) {
            if !quotas.iter().any(|quota| quota.name == *name) {
                let names = quotas.iter().map(|quota| quota.name.clone());
                let hint = nearest(name, names).map(|n| format!("; did you mean {n:?}?"));
                let hint = hint.unwrap_or_else(|| "; define it with [[web_quota]]".to_owned());
                return Err(finding(rule, format!("no quota {name:?}{hint}")).into());
            }
        }
    }
    let unasked = quotas.iter().filter(|quota| !asked.contains(&quota.name.as_str()));
    let message = "it is counted, but no web rule asks for it (when = { quota = \"NAME\" })";
    warnings.extend(unasked.map(|quota| found(quota, message.to_owned())));
    Ok(warnings)
}

/// Names of quotas that a condition asks for.
fn quotas_of<'a>(when: &'a WebCondition, names: &mut Vec<&'a str>) {
    names.extend(when.quota.iter().flat_map(OneOrMany::as_slice).map(String::as_str));
    when.inner().for_each(|inner| quotas_of(inner, names));
}

fn quota_problem(quota: &WebQuota, groups: &Groups) -> Option<String> {
    if quota.name.trim().is_empty() || quota.name.chars().any(char::is_control) {
        return Some("a quota needs a name: rules and pages have it".into());
    }
    if quota.minutes.is_none() && quota.bytes.is_none() {
        return Some("it limits nothing; say minutes, bytes, or both".into());
    }
    let most = quota.period.seconds() / 60;
    if quota.minutes.is_some_and(|minutes| minutes == 0 || i64::from(minutes) > most) {
        let period = quota.period;
        let rest = "to block everything, write a rule without a quota";
        return Some(format!("minutes are 1 to {most} (period: {period}); {rest}"));
    }
    if quota.bytes == Some(0) {
        return Some("bytes = 0 lets nothing pass; write a rule that blocks".into());
    }
    // Zones of the world are from 12 hours behind to 14 ahead.
    if !(-12 * 60..=14 * 60).contains(&quota.utc_offset_minutes) {
        return Some("utc_offset_minutes are -720 to 840".into());
    }
    let when = quota.when.as_ref()?;
    if when.asks_response() {
        return Some("requests are counted before their response is here".into());
    }
    if when.asks_quota() {
        return Some("a quota cannot ask for a quota".into());
    }
    condition_problem(when, groups)
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
