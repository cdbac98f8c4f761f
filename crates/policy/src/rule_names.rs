//! Rules that conditions ask for by name, and that there are not.

use crate::condition::Condition;
use crate::file::Policy;
use crate::finding::Finding;
use crate::pattern::{OneOrMany, Pattern};
use crate::suggestion::nearest;

impl Policy {
    /// Whether a condition asks which rules hit.
    pub fn asks_for_hits(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.when).any(|when| !hits(when).is_empty())
    }

    /// Conditions `hit` that none of these names of rules can meet, so that they never hold.
    pub fn unknown_rules(&self, names: &[String]) -> Vec<Finding> {
        let mut found = Vec::new();
        for rule in &self.rules {
            for pattern in rule.when.iter().flat_map(hits) {
                // Any rule is no slip of the pen.
                if pattern.as_str() == "*" || names.iter().any(|name| pattern.matches(name)) {
                    continue;
                }
                let mut message = format!("hit = {:?}: no rule has this name", pattern.as_str());
                let near = nearest(pattern.as_str(), names.iter().map(|n| n.to_lowercase()));
                let near = near.and_then(|near| names.iter().find(|n| n.to_lowercase() == near));
                if let Some(name) = near {
                    message.push_str(&format!("; did you mean {name:?}?"));
                }
                found.push(Finding::of(rule, message));
            }
        }
        found
    }
}

/// The patterns over names of rules in a condition and in those inside it.
fn hits(when: &Condition) -> Vec<&Pattern> {
    let own = when.hit.iter().flat_map(OneOrMany::as_slice);
    own.chain(when.inner().flat_map(hits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::Groups;

    #[test]
    fn names_that_no_rule_has_are_found_with_the_nearest() {
        let rule = |name: &str, when: &str| {
            format!("[[rule]]\nname = \"{name}\"\nwhen = {{ {when} }}\ndo = \"discard\"\n")
        };
        let text = rule("a", "hit = [\"HTML_ONLY\", \"html_only\", \"HTML_*\", \"*\"]")
            + &rule("b", "not = { hit = \"HTML_ONLI\" }")
            + &rule("c", "any = [{ hit = [\"DATE_PAST\", \"HEADER_TWO_FORM\"] }, { tls = true }]")
            + &rule("d", "class = \"spam\"");
        let policy = Policy::parse(&text, &Groups::default()).unwrap();
        let names = ["DATE_PAST".to_owned(), "HTML_ONLY".to_owned()];
        let found: Vec<String> = policy
            .unknown_rules(&names)
            .iter()
            .map(|f| format!("{}: {}", f.rule, f.message))
            .collect();
        assert_eq!(
            found,
            [
                "b: hit = \"html_onli\": no rule has this name; did you mean \"HTML_ONLY\"?",
                "c: hit = \"header_two_form\": no rule has this name",
            ]
        );
        assert!(policy.asks_for_hits());
        let other = Policy::parse(&rule("d", "class = \"spam\""), &Groups::default()).unwrap();
        assert!(!other.asks_for_hits());
    }
}
