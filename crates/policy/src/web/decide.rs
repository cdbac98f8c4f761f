//! Trying the web rules: one disposition, and why.

use gauntlet_verdict::Trace;
use gauntlet_web::{WebAction, WebDisposition, WebItem};
use serde::Serialize;

use super::evaluation::Evaluation;
use crate::file::Policy;
use crate::web_rules::{QuotaUse, WebQuota};

/// What web rules are tried on.
#[derive(Debug, Clone, Copy)]
pub struct WebInput<'a> {
    /// The request, with its response if that is here.
    pub item: &'a WebItem<'a>,
    /// Names of rules whose warning this client has answered, and may go on.
    pub continued: &'a [String],
    /// What this person has used of quotas, by their names; of others nothing.
    pub used: &'a [(String, QuotaUse)],
}

/// A disposition with the way it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebExplanation {
    /// What would be done.
    pub disposition: WebDisposition,
    /// Every rule that was tried.
    pub trace: Vec<Trace>,
}

impl Policy {
    /// What is done with a request. Without a rule that decides, it is allowed.
    pub fn decide_web(&self, input: &WebInput<'_>) -> WebDisposition {
        self.try_web(input, None)
    }

    /// The same with every rule that was tried and what decided it.
    pub fn explain_web(&self, input: &WebInput<'_>) -> WebExplanation {
        let mut trace = Vec::new();
        let disposition = self.try_web(input, Some(&mut trace));
        WebExplanation { disposition, trace }
    }

    /// Quotas that a request counts for, in their order.
    pub fn quotas_of(&self, item: &WebItem<'_>) -> Vec<&WebQuota> {
        let eval = Evaluation { item, used: &[], policy: self, path: None, explains: false };
        self.web_quotas.iter().filter(|quota| eval.counts(quota)).collect()
    }

    /// Quotas for which this rule matches: those that it asks for, that the request counts for, and
    /// that are used up.
    pub fn used_up(&self, rule: &str, input: &WebInput<'_>) -> Vec<(&WebQuota, QuotaUse)> {
        let rule = self.web.iter().find(|r| r.name == rule);
        let Some(when) = rule.and_then(|rule| rule.when.as_ref()) else { return Vec::new() };
        let (item, used) = (input.item, input.used);
        let eval = Evaluation { item, used, policy: self, path: None, explains: false };
        let asked = self.web_quotas.iter().filter(|quota| when.names_quota(&quota.name));
        asked.filter_map(|quota| Some((quota, eval.used_up(quota)?))).collect()
    }

    fn try_web(&self, input: &WebInput<'_>, mut trace: Option<&mut Vec<Trace>>) -> WebDisposition {
        let mut disposition = WebDisposition::default();
        let explains = trace.is_some();
        let (item, used) = (input.item, input.used);
        let eval = Evaluation { item, used, policy: self, path: None, explains };
        let other_paths = item.url.other_paths_for_look_up();
        for rule in &self.web {
            if rule.asks_response() && input.item.response.is_none() {
                disposition.asks_response |= disposition.decided_by.is_none();
                if let Some(trace) = trace.as_deref_mut() {
                    let because = "is tried with the response".to_owned();
                    trace.push(Trace { rule: rule.name.clone(), matched: false, because });
                }
                continue;
            }
            let (matched, because) = eval.rule(rule, &other_paths);
            if let Some(trace) = trace.as_deref_mut() {
                trace.push(Trace { rule: rule.name.clone(), matched, because });
            }
            if !matched {
                continue;
            }
            disposition.rules.push(rule.name.clone());
            disposition.changes.extend(rule.changes.iter().cloned());
            if let (None, Some(action)) = (&disposition.decided_by, &rule.action) {
                let is_answered = matches!(action, WebAction::Warn { .. })
                    && input.continued.contains(&rule.name);
                disposition.decided_by = Some(rule.name.clone());
                disposition.action = if is_answered { WebAction::Allow } else { action.clone() };
            }
            if rule.stop {
                break;
            }
        }
        disposition
    }
}
