//! What is wrong with a policy that reads: contradictions, unknown groups, rules that never run.

use crate::bounds;
use crate::condition::{CONDITION_DEPTH_MAX, Condition};
use crate::finding::{Finding, PolicyError};
use crate::groups::Groups;
use crate::objects::ObjectCondition;
use crate::placeholders;
use crate::removals::{self, is_folder_name};
use crate::rule::{ChangeTemplate, NOTIFY_POSTMASTER, NOTIFY_RECIPIENT, RULES_MAX, Rule};
use gauntlet_smtp::address::is_mailbox;
use gauntlet_verdict::{ADMIN_ONLY_FOLDERS, Change, Final, ReleasedBy};

/// Addresses of one notification.
const NOTIFY_ADDRESSES_MAX: usize = 20;
/// Longest text of a notification, in bytes.
const NOTIFY_TEMPLATE_BYTES_MAX: usize = 4_000;

/// Rejects contradictions and unknown names; returns warnings.
pub(crate) fn check(rules: &[Rule], groups: &Groups) -> Result<Vec<Finding>, PolicyError> {
    if let Some(rule) = rules.get(RULES_MAX) {
        return Err(Finding::of(rule, format!("more than {RULES_MAX} rules")).into());
    }
    for (i, rule) in rules.iter().enumerate() {
        if let Some(first) = rules[..i].iter().find(|r| r.name == rule.name) {
            let message = format!("the name is taken by the rule at line {}", first.line);
            return Err(Finding::of(rule, message).into());
        }
        check_rule(rule, groups)?;
    }
    let mut warnings = unreachable_rules(rules);
    warnings.extend(placeholders::unknown(rules));
    Ok(warnings)
}

fn check_rule(rule: &Rule, groups: &Groups) -> Result<(), PolicyError> {
    let wrong = |message: String| Err(Finding::of(rule, message).into());
    if rule.name.trim().is_empty() {
        return wrong("a rule needs a name: it is what the log says".into());
    }
    if let Some(Final::Hold { folder } | Final::Quarantine { folder }) = &rule.end
        && !is_folder_name(folder)
    {
        return wrong(format!(
            "{folder:?} is no folder name: use letters, digits, '-' and '_', at most 64"
        ));
    }
    if let Some(problem) = rule.release.and_then(|release| release_problem(rule, release)) {
        return wrong(problem);
    }
    if let Some(Final::Reject { text } | Final::Defer { text }) = &rule.end
        && let Some(problem) = one_line(text, 400)
    {
        return wrong(format!("the reply text {problem}"));
    }
    if let Some(Final::Redirect { to }) = &rule.end
        && let Some(problem) = recipients_problem("redirect", to)
    {
        return wrong(problem);
    }
    for change in &rule.changes {
        if let Some(problem) = change_problem(change) {
            return wrong(problem);
        }
    }
    match &rule.when {
        Some(when) if when.depth() > CONDITION_DEPTH_MAX => {
            wrong(format!("conditions nest deeper than {CONDITION_DEPTH_MAX}"))
        }
        Some(when) => {
            let problem = condition_problem(when, groups).or_else(|| {
                let field = bounds::contradiction(when)?;
                Some(format!("its conditions contradict each other: they leave no {field}"))
            });
            problem.map_or(Ok(()), wrong)
        }
        None => Ok(()),
    }
}

/// What is wrong with what a rule says about releasing.
fn release_problem(rule: &Rule, release: ReleasedBy) -> Option<String> {
    let Some(Final::Hold { folder } | Final::Quarantine { folder }) = &rule.end else {
        let hint = "needs hold or quarantine in `do`: only held mail is released";
        return Some(format!("release = {:?} {hint}", release.name()));
    };
    let admin_only = ADMIN_ONLY_FOLDERS.contains(&folder.as_str());
    (release == ReleasedBy::User && admin_only).then(|| {
        format!("mail in folder {folder:?} is released by administrators only; remove `release`")
    })
}

/// Texts that go onto the wire must be one printable line, or they inject lines of their own.
fn one_line(text: &str, bytes_max: usize) -> Option<String> {
    if text.chars().any(char::is_control) {
        return Some("has control characters; write one line".into());
    }
    (text.len() > bytes_max).then(|| format!("is over {bytes_max} bytes"))
}

fn change_problem(change: &ChangeTemplate) -> Option<String> {
    let change = match change {
        ChangeTemplate::Fixed(change) => change,
        other => return removals::problem(other),
    };
    let field = |name: &str| {
        let fine = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        (!fine).then(|| format!("{name:?} is no header field name"))
    };
    match change {
        Change::AddHeader { name, value } => {
            field(name).or_else(|| one_line(value, 900).map(|p| format!("the value of {name} {p}")))
        }
        Change::RemoveHeader { name } => field(name),
        Change::TagSubject { tag } => one_line(tag, 64).map(|p| format!("the subject tag {p}")),
        Change::Copy { to } => recipients_problem("copy", to),
        Change::Notify { to, template, .. } => notify_problem(to, template),
        _ => None,
    }
}

/// Mail goes to well-formed mailboxes only (RFC 5321 section 4.1.2): it would be lost with none,
/// and another text could bring SMTP commands of its own.
fn recipients_problem(action: &str, to: &[String]) -> Option<String> {
    if to.is_empty() {
        return Some(format!("{action}: name at least one address, or the message is lost"));
    }
    let wrong = to.iter().find(|address| !is_mailbox(address.as_bytes()))?;
    Some(format!("{action}: {wrong:?} is no address; several are a list, [\"a@b\", \"c@d\"]"))
}

/// Notifications go to addresses that the policy names, never to one that the message names: its
/// sender may be forged.
fn notify_problem(to: &[String], template: &str) -> Option<String> {
    let is_known = |a: &String| {
        let fixed = !a.contains('{') && is_mailbox(a.as_bytes());
        fixed || matches!(a.as_str(), NOTIFY_POSTMASTER | NOTIFY_RECIPIENT)
    };
    if let Some(other) = to.iter().find(|a| !is_known(a)) {
        return Some(format!(
            "notify: {other:?} is none of an address, {NOTIFY_POSTMASTER:?} and {NOTIFY_RECIPIENT:?}"
        ));
    }
    if to.is_empty() || to.len() > NOTIFY_ADDRESSES_MAX {
        return Some(format!("notify: name 1 to {NOTIFY_ADDRESSES_MAX} addresses in `to`"));
    }
    if template.chars().any(|c| c.is_control() && c != '\n') {
        return Some("notify: the template has control characters other than line ends".into());
    }
    (template.len() > NOTIFY_TEMPLATE_BYTES_MAX)
        .then(|| format!("notify: the template is over {NOTIFY_TEMPLATE_BYTES_MAX} bytes"))
}

/// The first thing in a condition that can never hold or names what does not exist.
fn condition_problem(when: &Condition, groups: &Groups) -> Option<String> {
    if let (Some(min), Some(below)) = (when.score_min, when.score_below)
        && min >= below
    {
        return Some(format!("score_min {min} and score_below {below} leave no score"));
    }
    if let (Some(min), Some(below)) = (when.size_min, when.size_below)
        && min >= below
    {
        return Some(format!("size_min {} and size_below {} leave no size", min.0, below.0));
    }
    if when.probability_min.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
        return Some("probability_min is a probability, between 0 and 1".into());
    }
    let named = [&when.sender_group, &when.recipient_group];
    let unknown = named.into_iter().flatten().flat_map(|g| g.as_slice()).find(|g| !groups.has(g));
    if let Some(group) = unknown {
        return Some(format!(
            "no group {group:?}; define it with [[group]] or in the configuration"
        ));
    }
    if let Some(problem) = when.object.as_ref().and_then(ObjectCondition::problem) {
        return Some(problem);
    }
    for (name, list) in [("all", &when.all), ("any", &when.any)] {
        if list.as_ref().is_some_and(Vec::is_empty) {
            return Some(format!("`{name}` is an empty list"));
        }
    }
    when.inner().find_map(|c| condition_problem(c, groups))
}

/// Rules behind one that stops and matches wherever they do.
fn unreachable_rules(rules: &[Rule]) -> Vec<Finding> {
    let (mut findings, always) = (Vec::new(), Condition::default());
    for (i, rule) in rules.iter().enumerate() {
        let when = rule.when.as_ref().unwrap_or(&always);
        let blocker = rules[..i].iter().find(|earlier| {
            earlier.stop
                && rule.directions.iter().all(|d| earlier.directions.contains(d))
                && bounds::covers(earlier.when.as_ref().unwrap_or(&always), when)
        });
        if let Some(blocker) = blocker {
            let message =
                format!("never tried: {:?} (line {}) stops before it", blocker.name, blocker.line);
            findings.push(Finding::of(rule, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::file::Policy;
    use crate::groups::Groups;

    fn problem(text: &str) -> String {
        Policy::parse(text, &Groups::default()).unwrap_err().to_string()
    }

    #[test]
    fn contradictions_and_unknown_groups() {
        let rule =
            |when: &str| format!("[[rule]]\nname = \"r\"\nwhen = {{ {when} }}\ndo = \"discard\"");
        assert!(problem(&rule("score_min = 5, score_below = 5")).contains("leave no score"));
        assert!(problem(&rule("recipient_group = \"sales\"")).contains("no group \"sales\""));
        assert!(problem(&rule("any = []")).contains("empty list"));
        let both = "class = \"spam\", not = { class = [\"spam\", \"phishing\"] }";
        assert!(problem(&rule(both)).contains("they leave no class"), "{}", problem(&rule(both)));
        let nested = "not = {".repeat(20) + "score_min = 1" + &"}".repeat(20);
        assert!(problem(&rule(&nested)).contains("nest deeper"));
        let reply = "[[rule]]\nname = \"r\"\ndo = { reject = \"a\\r\\n250 ok\" }";
        assert!(problem(reply).contains("control characters"));
    }

    #[test]
    fn mail_is_sent_to_well_formed_addresses_only() {
        for action in ["redirect", "copy"] {
            let rule = |to: &str| format!("[[rule]]\nname = \"r\"\ndo = {{ {action} = {to} }}");
            for odd in [
                "\"\"",
                "\"notanaddress\"",
                "\"a b@x.test\"",
                "\"ann@ours.test, bob@ours.test\"",
                "[\"ann@ours.test\", \"bob\"]",
                "\"x@ours.test>\\r\\nRCPT TO:<evil@ours.test\"",
            ] {
                let said = problem(&rule(odd));
                assert!(said.contains("is no address"), "{odd}: {said}");
            }
            assert!(problem(&rule("[]")).contains("at least one address"));
            for fine in ["\"ann@ours.test\"", "[\"ann@ours.test\", \"bob@[192.0.2.1]\"]"] {
                Policy::parse(&rule(fine), &Groups::default()).unwrap();
            }
        }
        let notify = "[[rule]]\nname = \"r\"\ndo = { notify = { to = \"a b@x.test\" } }";
        assert!(problem(notify).contains("notify"), "{}", problem(notify));
    }

    #[test]
    fn unreachable_rules_are_named() {
        let text = "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n\
            [[rule]]\nname = \"late\"\nwhen = { class = \"spam\" }\ndo = \"discard\"\n";
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        assert_eq!(policy.warnings.len(), 1);
        assert_eq!((policy.warnings[0].line, policy.warnings[0].rule.as_str()), (4, "late"));
        let rule = |name: &str, when: &str| {
            format!("[[rule]]\nname = \"{name}\"\nwhen = {{ {when} }}\ndo = \"deliver\"\n")
        };
        let text = rule("bad", "class = [\"spam\", \"phishing\"]")
            + &rule("loud", "class = \"spam\", score_min = 20");
        let policy = Policy::parse(&text, &Groups::default()).unwrap();
        assert_eq!(policy.warnings[0].message, "never tried: \"bad\" (line 1) stops before it");
    }
}
