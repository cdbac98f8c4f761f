//! What the policy asks data loss prevention for.

use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::scan::data_loss::DataLossPrevention;

use super::{Findings, Status};

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
