//! What `gauntlet serve` and the process that inspects packets for it say to each other.

use gauntlet_ids::detect::Program;
use serde_json::json;

/// Said by the node: rules and lists are to be read anew. Its end of the connection closes: the
/// process ends.
pub(crate) const RELOAD: u8 = b'H';

/// What the record of rules contains, and no other.
pub(crate) const REPORT_RULES: &str = "\"event_type\":\"rules\"";

/// The type of the record of what rules cost.
pub(crate) const RULE_COSTS: &str = "rule_costs";

/// What records that are the node's contain.
const OF_NODE: [&str; 4] = [
    "\"event_type\":\"alert\"",
    "\"event_type\":\"gauntlet\"",
    "\"event_type\":\"stats\"",
    "\"event_type\":\"rule_costs\"",
];

/// Whether a record is handed to the node.
pub(crate) fn is_for_node(line: &str) -> bool {
    OF_NODE.iter().any(|part| line.contains(part))
}

/// The record of the rules in use: pairs of number and message.
pub(crate) fn rules(program: &Program) -> String {
    let rules = program.rules.rules.iter();
    let rules: Vec<[String; 2]> = rules
        .map(|rule| [format!("{}:{}:{}", rule.gid, rule.sid, rule.rev), rule.message.clone()])
        .collect();
    format!("{}\n", json!({ "event_type": "rules", "rules": rules }))
}
