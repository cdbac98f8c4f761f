//! Evidence: what rules show of a message when they hit.

use gauntlet_mail::{Evidence, View};

use super::Program;
use crate::document::{Document, Texts};
use crate::matcher::tags::TemplateOn;
use crate::matcher::{Found, Location};
use crate::rule::HeaderSelector;

impl Program {
    /// The evidence of a rule's first hit.
    pub(crate) fn evidence(
        &self,
        rule: u32,
        at: Found,
        document: &dyn Document,
    ) -> Option<Evidence> {
        let (texts, number) = match at.location {
            Location::Body(number) => (Texts::Body, number),
            Location::Rawbody(number) => (Texts::Rawbody, number),
            Location::Full => (Texts::Full, 0),
            Location::Uri(number) => (Texts::Uris, number),
            Location::Header(group) => {
                let selector = self.headers.selector(group)?;
                // A rule may fire because the field is missing.
                let value = document.header(selector).unwrap_or_default();
                let (start, found) = at.quoted(&value).unwrap_or_default();
                let found = Evidence::new(View::Header, 0, start, found);
                return Some(found.named(&selector.to_string()));
            }
            Location::Part(part) => {
                let rule = self.mime.iter().find(|m| m.member().rule == rule)?;
                let values = document.mime_headers(rule.selector());
                let value = values.get(usize::from(part))?.as_deref()?;
                let range = rule.member().pattern.find(value, 0).ok()??;
                let found = Evidence::new(View::Header, part, range.start, value.get(range)?);
                return Some(found.named(&rule.selector().to_string()));
            }
            Location::Template(number) => {
                let TemplateOn::Header(selector, _) = &self.templates.get(number as usize)?.on
                else {
                    return None;
                };
                let value = document.header(selector)?;
                let (start, found) = at.quoted(&value)?;
                let found = Evidence::new(View::Header, 0, start, found);
                return Some(found.named(&selector.to_string()));
            }
            Location::None => return self.evidence_without_location(rule, document),
        };
        let (start, found) = at.quoted(document.text(texts, number)?)?;
        Some(document.evidence(texts, number, start, found))
    }

    /// The evidence of a hit without a location: an eval, a negated pattern.
    fn evidence_without_location(&self, rule: u32, document: &dyn Document) -> Option<Evidence> {
        let index = self.eval_indexes.binary_search_by_key(&rule, |entry| entry.0).ok();
        let eval = index.and_then(|at| self.evals.get(self.eval_indexes.get(at)?.1 as usize));
        if let Some(found) = eval {
            return Some(document.call_evidence(found.function.number));
        }
        if let Some(found) = self.uri_details.iter().find(|u| u.rule == rule) {
            return Some(Evidence::new(View::Url, 0, 0, found.first(document)?));
        }
        let of_header = |selector: &HeaderSelector| {
            let value = document.header(selector).unwrap_or_default();
            Some(Evidence::new(View::Header, 0, 0, &value).named(&selector.to_string()))
        };
        if let Some(found) = self.mime.iter().find(|m| m.member().rule == rule) {
            return of_header(found.selector());
        }
        match &self.templates.iter().find(|t| t.member.rule == rule)?.on {
            TemplateOn::Header(selector, _) => of_header(selector),
            _ => None,
        }
    }
}
