//! What judges: rule files, and what the policy asks data loss prevention for.

use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::scan::data_loss::DataLossPrevention;

use super::{Findings, Status};
use crate::judge;
use crate::policy::warnings;

/// Name of this check.
const CHECK: &str = "data loss";

/// Every name that a condition `dlp` of the policy in force has is one of a detector, a family or a
/// dictionary. Nothing is said of a policy without such conditions.
pub(super) fn conditions(config: &Config, found: &mut Findings) {
    let policy = match policy_source::load(config) {
        Ok(policy) => policy,
        // A node does not start with it: its own message says more.
        Err(_) => return,
    };
    let conditions = policy.data_conditions().count();
    if conditions == 0 {
        return;
    }
    let known = match DataLossPrevention::names_of(&config.dlp) {
        Ok(known) => known,
        Err(error) => return found.add(Status::Error, CHECK, error.to_string()),
    };
    let never = known.never_found(&policy);
    for what in &never {
        found.add(Status::Warning, CHECK, format!("policy, line {}: {what}", what.line));
    }
    if never.is_empty() {
        let text = format!("all names of {conditions} conditions of the policy are known");
        found.add(Status::Ok, CHECK, text);
    }
}

/// No rule of the policy in force does nothing.
pub(super) fn policy(config: &Config, found: &mut Findings) {
    const CHECK: &str = "policy";
    // A node does not start with one that cannot be read: its own message says more.
    let Ok(policy) = policy_source::load(config) else { return };
    let warnings = warnings::of(&policy, config);
    for warning in &warnings {
        let text = warnings::line(warning);
        let text = text.trim_start_matches("policy, ");
        found.add(Status::Warning, CHECK, text.to_owned());
    }
    if warnings.is_empty() {
        let (rules, web) = (policy.rules.len(), policy.web.len());
        found.add(Status::Ok, CHECK, format!("no faults in {rules} rules, {web} web rules"));
    }
}

/// Rule files, lists and models that the configuration names can be read, and have no faults.
/// Nothing is said of a configuration without rule files.
pub(super) fn rules(config: &Config, found: &mut Findings) {
    const CHECK: &str = "rules";
    if config.rules.paths.is_empty() {
        return;
    }
    let problems = judge::file_problems(config);
    for error in &problems.errors {
        found.add(Status::Error, CHECK, format!("{error:#}: the node does not start"));
    }
    // Those of malware engines are told with the engine.
    let faults: Vec<_> =
        problems.warnings.iter().filter_map(|fault| fault.strip_prefix("rules: ")).collect();
    for fault in &faults {
        found.add(Status::Warning, CHECK, (*fault).to_owned());
    }
    if problems.errors.is_empty() && faults.is_empty() {
        found.add(Status::Ok, CHECK, "the files of rules.paths have no faults".to_owned());
    }
}
