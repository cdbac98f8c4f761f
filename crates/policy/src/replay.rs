//! Replaying logged mail under another policy.
//!
//! Of most such mail only its line of the log is left: envelope, facts, verdict, sender, subject,
//! size, and what was done. A rule that asks for more (attachments, links, other fields, rates)
//! has its answer of that day where it stands unchanged in the policy that decided then; else the
//! outcome is not known, and is never guessed.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::condition::Condition;
use crate::evaluation::Evaluation;
use crate::file::Policy;
use crate::input::PolicyInput;
use crate::rule::{ChangeTemplate, Rule};
use crate::three_valued;
use gauntlet_verdict::{Change, Disposition, Final};

/// What a policy would have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// The policy decides so.
    Decided(Disposition),
    /// The rule of this name asks for something that was not kept.
    Unknown {
        /// Name of the rule that cannot be decided.
        rule: String,
    },
}

/// What is known of a message that was decided on before.
#[derive(Debug, Clone, Copy)]
pub struct PastDecision<'a> {
    /// The message itself, or one made of the fields that the log keeps; envelope, facts and
    /// verdict of that day. Rates are not used: they are not kept.
    pub input: PolicyInput<'a>,
    /// Bytes that the message had.
    pub size: u64,
    /// `input.message` is the message itself.
    pub is_complete: bool,
    /// What the policy of that time decided.
    pub disposition: &'a Disposition,
}

/// Two policies, compared once, so that each message is quick.
#[derive(Debug)]
pub struct Replay<'p> {
    policy: &'p Policy,
    before: &'p Policy,
    /// Place in `before` of each rule that stands unchanged in both, by its name.
    unchanged: HashMap<&'p str, usize>,
}

impl<'p> Replay<'p> {
    /// Replays `policy` over mail that `before` decided on.
    pub fn new(policy: &'p Policy, before: &'p Policy) -> Self {
        let same = |a: &Rule, b: &Rule| a.directions == b.directions && a.when == b.when;
        let positions = before.rules.iter().enumerate().filter(|(_, old)| {
            let now = policy.rules.iter().find(|r| r.name == old.name);
            policy.groups == before.groups && now.is_some_and(|now| same(now, old))
        });
        let unchanged = positions.map(|(position, rule)| (rule.name.as_str(), position)).collect();
        Replay { policy, before, unchanged }
    }

    /// What the policy would have done for the recipient of the disposition.
    pub fn decide(&self, past: &PastDecision<'_>) -> Replayed {
        let recipient = &past.disposition.recipient;
        let languages = OnceCell::new();
        let eval =
            Evaluation::new(self.policy, &past.input, recipient, past.size, &languages, true);
        let (mut end, mut release): (Option<Final>, _) = (None, None);
        let (mut changes, mut rules) = (Vec::new(), Vec::new());
        for rule in &self.policy.rules {
            if !rule.directions.contains(&past.input.envelope.direction) {
                continue;
            }
            let matched = match &rule.when {
                None => Some(true),
                Some(when) => {
                    eval.known(when, past.is_complete).or_else(|| self.recorded(rule, past))
                }
            };
            match matched {
                None => return Replayed::Unknown { rule: rule.name.clone() },
                Some(false) => continue,
                Some(true) => {}
            }
            rules.push(rule.name.clone());
            changes.extend(rule.changes.iter().filter_map(|c| change(&eval, c, past)));
            if let (None, Some(first)) = (&end, &rule.end) {
                (end, release) = (Some(eval.fill_end(first)), rule.release);
            }
            if rule.stop {
                break;
            }
        }
        let end = end.unwrap_or(Final::Deliver);
        Replayed::Decided(Disposition {
            recipient: recipient.clone(),
            end,
            changes,
            rules,
            release,
        })
    }

    /// The answer that an unchanged rule gave that day; none if it was not tried then.
    fn recorded(&self, rule: &Rule, past: &PastDecision<'_>) -> Option<bool> {
        let position = *self.unchanged.get(rule.name.as_str())?;
        let matched = |r: &Rule| past.disposition.rules.contains(&r.name);
        let stopped = self.before.rules.iter().position(|r| r.stop && matched(r));
        let tried = stopped.is_none_or(|stop| position <= stop);
        tried.then(|| matched(rule))
    }
}

/// The change, where it is known: attachments to be stripped are found in a whole
/// message, or as they were found that day.
fn change(
    eval: &Evaluation<'_>,
    template: &ChangeTemplate,
    past: &PastDecision<'_>,
) -> Option<Change> {
    match template {
        ChangeTemplate::StripAttachments { .. } if !past.is_complete => {
            let stripped = |c: &&Change| matches!(c, Change::StripAttachments { .. });
            past.disposition.changes.iter().find(stripped).cloned()
        }
        ChangeTemplate::Remove { disarms, removal, .. } if !past.is_complete => {
            let same = |c: &&Change| match c {
                Change::Strip(then) => !disarms && then.rule == removal.rule,
                Change::Disarm(then) => *disarms && then.rule == removal.rule,
                _ => false,
            };
            past.disposition.changes.iter().find(same).cloned()
        }
        ChangeTemplate::ConvertNames { .. } if !past.is_complete => {
            let converted = |c: &&Change| matches!(c, Change::ConvertNames { .. });
            past.disposition.changes.iter().find(converted).cloned()
        }
        _ => eval.change(template),
    }
}

impl Evaluation<'_> {
    /// Whether a condition holds; none if that depends on something that was not kept.
    fn known(&self, when: &Condition, is_complete: bool) -> Option<bool> {
        let asks_message = when.header.is_some()
            || when.url_host.is_some()
            || when.language.is_some()
            || when.attachment.is_some()
            || when.object.is_some()
            || when.attachments_min.is_some();
        let nested = when.all.is_some() || when.any.is_some() || when.not.is_some();
        // The log has what was found, if that day's policy asked for it.
        let asks_data = when.dlp.is_some() && self.input.verdict.data_loss.is_none();
        let asks = when.rate.is_some() || asks_data || (asks_message && !is_complete);
        if !asks && !nested {
            return Some(self.table(when).0);
        }
        let dlp = when.dlp.clone().filter(|_| !asks_data);
        let rest = Condition { rate: None, dlp, all: None, any: None, not: None, ..when.clone() };
        let rest = match is_complete {
            true => rest,
            false => Condition {
                header: None,
                url_host: None,
                language: None,
                attachment: None,
                object: None,
                attachments_min: None,
                ..rest
            },
        };
        let mut answers = vec![Some(self.table(&rest).0)];
        answers.extend(when.all.iter().flatten().map(|c| self.known(c, is_complete)));
        let any = |any: &Vec<Condition>| {
            three_valued::any(any.iter().map(|c| self.known(c, is_complete)))
        };
        answers.extend(when.any.as_ref().map(any));
        let not = |not: &Condition| three_valued::not(self.known(not, is_complete));
        answers.extend(when.not.as_deref().map(not));
        if asks {
            answers.push(None);
        }
        three_valued::all(answers)
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::{Envelope, Facts, Message};
    use gauntlet_verdict::{Class, Thresholds, Verdict};

    use super::*;
    use crate::groups::Groups;
    use crate::input::Rates;

    const BEFORE: &str = r#"
        [[rule]]
        name = "Programs"
        when.attachment.name = "*.exe"
        do = { quarantine = "programs" }
        [[rule]]
        name = "Spam"
        when.class = "spam"
        do = { quarantine = "spam" }
        [[rule]]
        name = "Large"
        when.size_min = "1MB"
        do = { hold = "large" }
    "#;

    /// What `text` does with a message of this class that `BEFORE` gave `rules` and `end`.
    fn replay(text: &str, class: Class, rules: &[&str], end: Final) -> Replayed {
        let before = Policy::parse(BEFORE, &Groups::default()).unwrap();
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        let disposition = Disposition {
            recipient: "you@example.org".into(),
            end,
            changes: Vec::new(),
            rules: rules.iter().map(|r| (*r).to_owned()).collect(),
            release: None,
        };
        let message = Message::parse(b"From: a@b\r\nSubject: hello\r\n\r\n");
        let envelope = Envelope { rcpt_to: vec!["you@example.org".into()], ..Default::default() };
        let verdict = Verdict { class, ..Verdict::default() };
        let input = PolicyInput {
            id: "ref1",
            message: &message,
            envelope: &envelope,
            facts: &Facts::default(),
            verdict: &verdict,
            thresholds: &Thresholds::default(),
            rates: &Rates::default(),
        };
        let past =
            PastDecision { input, size: 2 << 20, is_complete: false, disposition: &disposition };
        Replay::new(&policy, &before).decide(&past)
    }

    fn end_of(replayed: &Replayed) -> &str {
        match replayed {
            Replayed::Decided(d) => d.end.name(),
            Replayed::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn an_unchanged_policy_does_the_same() {
        let quarantine = Final::Quarantine { folder: "spam".into() };
        let same = replay(BEFORE, Class::Spam, &["Spam"], quarantine.clone());
        assert!(matches!(&same, Replayed::Decided(d) if d.end == quarantine), "{same:?}");
        let large = replay(BEFORE, Class::Ham, &["Large"], Final::Hold { folder: "large".into() });
        assert_eq!(end_of(&large), "hold", "its size was logged");
    }

    #[test]
    fn a_changed_rule_about_lost_contents_is_unknown_only_where_it_matters() {
        let text = BEFORE.replace("*.exe", "*.scr");
        let lost = replay(&text, Class::Spam, &["Spam"], Final::Deliver);
        assert_eq!(lost, Replayed::Unknown { rule: "Programs".into() });
        let narrow =
            text.replace("when.attachment.name", "when.class = \"malware\"\n when.attachment.name");
        let output = replay(&narrow, Class::Spam, &["Spam"], Final::Deliver);
        assert_eq!(end_of(&output), "quarantine", "the class alone says no");
    }

    #[test]
    fn a_rule_that_was_not_tried_that_day_has_no_answer() {
        let text = "[[rule]]\nname = \"Large\"\nwhen.size_min = \"1MB\"\ndo = { hold = \"large\" }\n\
            [[rule]]\nname = \"Programs\"\nwhen.attachment.name = \"*.exe\"\ndo = \"discard\"";
        assert_eq!(end_of(&replay(text, Class::Ham, &["Programs"], Final::Discard)), "hold");
        let moved =
            "[[rule]]\nname = \"Programs\"\nwhen.attachment.name = \"*.exe\"\ndo = \"discard\"";
        assert_eq!(end_of(&replay(moved, Class::Ham, &["Programs"], Final::Deliver)), "discard");
        assert_eq!(end_of(&replay(moved, Class::Ham, &["Spam"], Final::Deliver)), "deliver");
    }

    #[test]
    fn nested_conditions_are_three_valued() {
        let any = "[[rule]]\nname = \"n\"\nwhen.any = [{ class = \"spam\" }, { url_host = \"*.example\" }]\ndo = \"discard\"";
        assert_eq!(end_of(&replay(any, Class::Spam, &[], Final::Deliver)), "discard");
        assert_eq!(end_of(&replay(any, Class::Ham, &[], Final::Deliver)), "unknown");
        let not =
            "[[rule]]\nname = \"n\"\nwhen.not = { url_host = \"*.example\" }\ndo = \"discard\"";
        assert_eq!(end_of(&replay(not, Class::Ham, &[], Final::Deliver)), "unknown");
    }
}
