//! The changes and ends of a rule that matched, with placeholders filled in.

use gauntlet_mail::{Direction, Part};
use gauntlet_verdict::{Change, Final};

use super::Evaluation;
use super::fields::{fits_attachment, has_file};
use crate::rule::{ChangeTemplate, NOTIFY_POSTMASTER, NOTIFY_RECIPIENT};

/// Stars of `X-Spam-Level` in the spam folder: one a point, from what Sieve's spamtest is set to
/// call spam.
const SPAM_LEVEL_MIN: f64 = 5.0;
/// Most stars, however many points.
const SPAM_LEVEL_MAX: f64 = 50.0;
/// Spam confidence level (SCL) from which Exchange files into the folder Junk Email: above its
/// threshold of 4.
const EXCHANGE_SPAM_LEVEL: &str = "6";

impl Evaluation<'_> {
    /// The change with its parts found and its placeholders filled in; none if there is nothing to
    /// do.
    pub(crate) fn change(&self, template: &ChangeTemplate) -> Option<Change> {
        match template {
            ChangeTemplate::Fixed(Change::AddHeader { name, value }) => {
                Some(Change::AddHeader { name: name.clone(), value: self.fill(value) })
            }
            ChangeTemplate::Fixed(Change::TagSubject { tag }) => {
                Some(Change::TagSubject { tag: self.fill(tag) })
            }
            ChangeTemplate::Fixed(Change::Notify { to, template, rule }) => {
                let to = to.iter().map(|address| self.notified(address)).collect();
                Some(Change::Notify { to, template: self.fill(template), rule: rule.clone() })
            }
            ChangeTemplate::Fixed(change) => Some(change.clone()),
            ChangeTemplate::Remove { disarms, which, removal } => {
                self.removal(*disarms, which, removal)
            }
            ChangeTemplate::ConvertNames { which, append, rule } => {
                self.converted_names(which, append, rule)
            }
            ChangeTemplate::StripAttachments { which, note } => {
                let parts = self.input.message.parts().iter().zip(0u16..);
                let fits = |p: &Part<'_>| {
                    has_file(p) && which.as_ref().is_none_or(|w| fits_attachment(p, w).is_some())
                };
                let parts: Vec<u16> = parts.filter(|(p, _)| fits(p)).map(|(_, i)| i).collect();
                let note = self.fill(note);
                (!parts.is_empty()).then_some(Change::StripAttachments { parts, note })
            }
        }
    }

    /// The address that `postmaster` (of our side's domain, RFC 5321 section 4.5.1) or
    /// `{recipient}` stands for.
    fn notified(&self, address: &str) -> String {
        let envelope = self.input.envelope;
        let ours = match envelope.direction {
            Direction::Inbound => self.recipient,
            Direction::Outbound => &envelope.mail_from,
        };
        match address {
            NOTIFY_RECIPIENT => self.recipient.to_owned(),
            NOTIFY_POSTMASTER => match ours.rsplit_once('@') {
                Some((_, domain)) => format!("{NOTIFY_POSTMASTER}@{domain}"),
                None => NOTIFY_POSTMASTER.to_owned(),
            },
            fixed => fixed.to_owned(),
        }
    }

    /// What marks a message for the spam folder: fields that mail servers file by, in place of
    /// those that it came with. A field that the policy itself adds is left to it.
    pub(crate) fn spam_folder_marks(&self, changes: &[Change]) -> Vec<Change> {
        let score = self.input.verdict.score.clamp(SPAM_LEVEL_MIN, SPAM_LEVEL_MAX);
        let stars = "*".repeat(score as usize);
        let marks = [
            ("X-Spam-Flag", "YES".to_owned()),
            ("X-Spam-Level", stars),
            ("X-MS-Exchange-Organization-SCL", EXCHANGE_SPAM_LEVEL.to_owned()),
        ];
        let is_set = |mark: &str| {
            let named = |c: &Change| matches!(c, Change::AddHeader { name, .. } if name.eq_ignore_ascii_case(mark));
            changes.iter().any(named)
        };
        let marks = marks.into_iter().filter(|(name, _)| !is_set(name));
        let mark = |(name, value): (&str, String)| {
            let name = name.to_owned();
            [Change::RemoveHeader { name: name.clone() }, Change::AddHeader { name, value }]
        };
        marks.flat_map(mark).collect()
    }

    pub(crate) fn fill_end(&self, end: &Final) -> Final {
        match end {
            Final::Reject { text } => Final::Reject { text: self.fill(text) },
            Final::Defer { text } => Final::Defer { text: self.fill(text) },
            other => other.clone(),
        }
    }

    /// `{id}`, `{class}`, `{score}`, `{hits}` and `{recipient}` in texts.
    pub(super) fn fill(&self, text: &str) -> String {
        if !text.contains('{') {
            return text.to_owned();
        }
        let verdict = self.input.verdict;
        let hits: Vec<&str> = verdict.hits.iter().map(|h| &*h.rule).take(20).collect();
        text.replace("{id}", self.input.id)
            .replace("{class}", verdict.class.name())
            .replace("{score}", &format!("{:.1}", verdict.score))
            .replace("{hits}", &hits.join(", "))
            .replace("{recipient}", self.recipient)
    }
}
