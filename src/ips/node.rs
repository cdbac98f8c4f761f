//! What `gauntlet serve` and the process that inspects packets for it say to each other.

use gauntlet_ids::detect::Program;
use serde_json::{Value, json};

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

/// Counters by rule for packets ([`super::gate::RuleCount::json`]) in Prometheus' text format; none
/// without rules.
pub(crate) fn policy_metrics(rules: &[Value], unrecorded: u64) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for (name, help, key) in [
        (
            "policy_decisions_total",
            "flows that a rule let in, or packets that it refused first",
            "decisions",
        ),
        ("policy_refused_total", "packets that a rule refused", "refused"),
    ] {
        let name = format!("gauntlet_ips_{name}");
        text.push_str(&format!("# HELP {name} Packets: {help}.\n# TYPE {name} counter\n"));
        for rule in rules {
            let label = |key: &str| {
                let value = rule[key].as_str().unwrap_or_default();
                value.replace('\\', "\\\\").replace('"', "\\\"")
            };
            let (rule, action, count) = (label("rule"), label("action"), rule[key].as_u64());
            let count = count.unwrap_or(0);
            text.push_str(&format!("{name}{{rule=\"{rule}\",action=\"{action}\"}} {count}\n"));
        }
    }
    let name = "gauntlet_ips_policy_unrecorded_total";
    text.push_str(&format!(
        "# HELP {name} Packets: decisions without a record, beyond the limit.\n\
         # TYPE {name} counter\n{name} {unrecorded}\n"
    ));
    text
}
