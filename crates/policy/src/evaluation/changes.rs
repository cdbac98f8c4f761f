//! The changes and ends of a rule that matched, with placeholders filled in.

use gauntlet_mail::Part;
use gauntlet_verdict::{Change, Final};

use super::Evaluation;
use super::fields::{fits_attachment, has_file};
use crate::rule::ChangeTemplate;

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
            ChangeTemplate::Fixed(change) => Some(change.clone()),
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

    pub(crate) fn fill_end(&self, end: &Final) -> Final {
        match end {
            Final::Reject { text } => Final::Reject { text: self.fill(text) },
            Final::Defer { text } => Final::Defer { text: self.fill(text) },
            other => other.clone(),
        }
    }

    /// `{id}`, `{class}`, `{score}`, `{hits}` and `{recipient}` in texts.
    fn fill(&self, text: &str) -> String {
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
