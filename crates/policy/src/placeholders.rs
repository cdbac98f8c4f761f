//! What stands in braces in the texts of a policy, and is filled in for each message.

use gauntlet_verdict::{Change, Final};

use crate::finding::Finding;
use crate::rule::{ChangeTemplate, Rule};

/// The names that are filled in ([`crate::evaluation`]).
pub(crate) const PLACEHOLDERS: [&str; 5] = ["id", "class", "score", "hits", "recipient"];

/// Names in braces that are none of [`PLACEHOLDERS`], in texts that are filled in: they go out as
/// they stand.
pub(crate) fn unknown(rules: &[Rule]) -> Vec<Finding> {
    let known: Vec<String> = PLACEHOLDERS.iter().map(|name| format!("{{{name}}}")).collect();
    let mut findings = Vec::new();
    for rule in rules {
        for name in texts(rule).flat_map(names) {
            if !PLACEHOLDERS.contains(&name) {
                let known = known.join(", ");
                let message =
                    format!("{{{name}}} is sent as it stands: what is filled in is {known}");
                findings.push(Finding::of(rule, message));
            }
        }
    }
    findings
}

/// The texts of a rule that are filled in.
fn texts(rule: &Rule) -> impl Iterator<Item = &str> {
    let end = match &rule.end {
        Some(Final::Reject { text } | Final::Defer { text }) => Some(text.as_str()),
        _ => None,
    };
    rule.changes.iter().filter_map(text_of).chain(end)
}

fn text_of(change: &ChangeTemplate) -> Option<&str> {
    match change {
        ChangeTemplate::Fixed(Change::AddHeader { value, .. }) => Some(value),
        ChangeTemplate::Fixed(Change::TagSubject { tag }) => Some(tag),
        ChangeTemplate::Fixed(Change::Notify { template, .. }) => Some(template),
        ChangeTemplate::StripAttachments { note, .. } => Some(note),
        _ => None,
    }
}

/// Words in braces: lower-case letters and underscores, as names of placeholders are.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name =
        |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).filter(is_name)
}

#[cfg(test)]
mod tests {
    use crate::file::Policy;
    use crate::groups::Groups;

    #[test]
    fn unknown_names_in_braces_are_warned_about() {
        let rule = |actions: &str| format!("[[rule]]\nname = \"r\"\ndo = {actions}\n");
        for (actions, expected) in [
            ("{ reject = \"No: {scroe}, {score}\" }", &["{scroe}"][..]),
            ("{ defer = \"Later {nope}\" }", &["{nope}"]),
            ("{ tag_subject = \"[{klass}]\" }", &["{klass}"]),
            ("{ add_header = { name = \"X\", value = \"{a}{b} {id}\" } }", &["{a}", "{b}"]),
            ("{ notify = { to = \"{recipient}\", template = \"{subject}\" } }", &["{subject}"]),
            ("{ strip_attachments = { note = \"Taken: {file_name}\" } }", &["{file_name}"]),
            ("{ reject = \"{id} {class} {score} {hits} {recipient} {} {A} { x } {1} {\" }", &[]),
        ] {
            let policy = Policy::parse(&rule(actions), &Groups::default()).unwrap();
            let found: Vec<&str> = policy
                .warnings
                .iter()
                .map(|f| f.message.split_once(" is sent").unwrap().0)
                .collect();
            assert_eq!(found, expected, "{actions}");
        }
    }
}
