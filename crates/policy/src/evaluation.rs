//! Evaluating the conditions of rules for one recipient.

mod changes;
mod data;
mod fields;
mod objects;
mod removals;

use std::cell::OnceCell;

use gauntlet_mail::Direction;

use crate::condition::Condition;
use crate::file::Policy;
use crate::input::PolicyInput;
use crate::people::{RecipientClass, Senders};
use crate::rule::Rule;

/// The input as it is evaluated for one recipient.
pub(crate) struct Evaluation<'e> {
    pub(crate) input: &'e PolicyInput<'e>,
    pub(crate) recipient: &'e str,
    pub(crate) policy: &'e Policy,
    /// Bytes of the message.
    pub(crate) size: u64,
    /// The class as the recipient wants it seen.
    own: RecipientClass,
    /// Languages of the message, once a rule asks for them: the same for all its recipients.
    languages: &'e OnceCell<Vec<String>>,
}

/// A condition's answer with the value that decided it.
pub(crate) type Answer = (bool, String);

impl<'e> Evaluation<'e> {
    pub(crate) fn new(
        policy: &'e Policy,
        input: &'e PolicyInput<'e>,
        recipient: &'e str,
        size: u64,
        languages: &'e OnceCell<Vec<String>>,
    ) -> Self {
        let verdict = input.verdict;
        let mut own = RecipientClass { class: verdict.class, because: "" };
        // The authors are only needed where users have preferences.
        if !policy.people.wishes.is_empty() && input.envelope.direction == Direction::Inbound {
            let authors = input.message.authors();
            let senders = Senders { envelope: &input.envelope.mail_from, authors: &authors };
            let explicit = input.thresholds.is_explicit(verdict);
            own = policy.people.class(recipient, &senders, input.facts, verdict, explicit);
        }
        Evaluation { input, recipient, policy, size, own, languages }
    }
}

impl Evaluation<'_> {
    pub(crate) fn rule(&self, rule: &Rule) -> Answer {
        rule.when.as_ref().map_or((true, "always".into()), |when| self.table(when))
    }

    /// All fields of a table; the first that fails decides.
    pub(crate) fn table(&self, when: &Condition) -> Answer {
        let mut held = Vec::new();
        let checks: [fn(&Self, &Condition) -> Option<Answer>; 8] = [
            Self::verdict_fields,
            Self::envelope_fields,
            Self::message_fields,
            Self::attachment_fields,
            Self::object_fields,
            Self::network_fields,
            Self::data_fields,
            Self::nested,
        ];
        for check in checks {
            match check(self, when) {
                Some((false, because)) => return (false, because),
                Some((true, because)) => held.push(because),
                None => {}
            }
        }
        (true, if held.is_empty() { "always".into() } else { held.join("; ") })
    }

    fn nested(&self, when: &Condition) -> Option<Answer> {
        let mut all = All::default();
        for inner in when.all.iter().flatten() {
            let (fits, because) = self.table(inner);
            all.and(fits, || because);
        }
        if let Some(any) = &when.any {
            let answers: Vec<Answer> = any.iter().map(|c| self.table(c)).collect();
            match answers.iter().find(|a| a.0) {
                Some((_, because)) => all.and(true, || because.clone()),
                None => all.and(false, || "none of `any`".into()),
            }
        }
        if let Some(not) = &when.not {
            let (fits, because) = self.table(not);
            all.and(!fits, || format!("not ({because})"));
        }
        all.answer()
    }
}

/// Collects answers of which all must hold; keeps the first that does not.
#[derive(Default)]
struct All {
    held: Vec<String>,
    failed: Option<String>,
}

impl All {
    fn and(&mut self, fits: bool, because: impl FnOnce() -> String) {
        match (fits, &self.failed) {
            (_, Some(_)) => {}
            (true, None) => self.held.push(because()),
            (false, None) => self.failed = Some(because()),
        }
    }

    fn answer(self) -> Option<Answer> {
        match self.failed {
            Some(because) => Some((false, because)),
            None if self.held.is_empty() => None,
            None => Some((true, self.held.join("; "))),
        }
    }
}
