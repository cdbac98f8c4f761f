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
    /// Answers say what decided them; else their texts are empty, and nothing is formatted.
    explains: bool,
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
        explains: bool,
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
        Evaluation { input, recipient, policy, size, own, explains, languages }
    }
}

impl Evaluation<'_> {
    /// Why the class is another for this recipient; empty if it is not.
    pub(crate) fn own_reason(&self) -> &'static str {
        self.own.because
    }

    pub(crate) fn rule(&self, rule: &Rule) -> Answer {
        match &rule.when {
            Some(when) => self.table(when),
            None => (true, self.text(|| "always".to_owned())),
        }
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
                Some((true, because)) if self.explains => held.push(because),
                Some((true, _)) | None => {}
            }
        }
        let because = || match held.is_empty() {
            true => "always".to_owned(),
            false => held.join("; "),
        };
        (true, self.text(because))
    }

    /// The text of an answer, if somebody reads it.
    fn text(&self, because: impl FnOnce() -> String) -> String {
        if self.explains { because() } else { String::new() }
    }

    fn all(&self) -> All {
        All::new(self.explains)
    }

    fn nested(&self, when: &Condition) -> Option<Answer> {
        let mut all = self.all();
        for inner in when.all.iter().flatten() {
            let (fits, because) = self.table(inner);
            all.and(fits, || because);
        }
        if let Some(any) = &when.any {
            match any.iter().map(|c| self.table(c)).find(|answer| answer.0) {
                Some((_, because)) => all.and(true, || because),
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
pub(crate) struct All {
    explains: bool,
    is_asked: bool,
    held: Vec<String>,
    failed: Option<String>,
}

impl All {
    pub(crate) fn new(explains: bool) -> Self {
        All { explains, ..All::default() }
    }

    pub(crate) fn and(&mut self, fits: bool, because: impl FnOnce() -> String) {
        self.is_asked = true;
        if self.failed.is_some() {
            return;
        }
        let because = if self.explains { because() } else { String::new() };
        match fits {
            true if self.explains => self.held.push(because),
            true => {}
            false => self.failed = Some(because),
        }
    }

    pub(crate) fn answer(self) -> Option<Answer> {
        match self.failed {
            Some(because) => Some((false, because)),
            None if !self.is_asked => None,
            None => Some((true, self.held.join("; "))),
        }
    }
}
