//! URIs as `uri` rules see them: those in the rendered text, and those in the attributes of HTML.
//!
//! Everything else uses the URLs of `gauntlet_mail`; the variants here exist because rules were
//! written for them.

mod canonical;
mod redirector;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Rendered, perl};
use crate::boundaries::Boundaries;
use gauntlet_rules::UriDetail;

pub(super) use redirector::{Redirector, Redirectors};

/// Longest form of a URI; longer ones are cut.
const URI_BYTES_MAX: usize = 8192;
/// Most different URIs of a message.
const URIS_MAX: usize = 20_000;

/// All URIs of a message as they were written.
#[derive(Debug, Default)]
pub struct Uris {
    /// Details by the URI as it was found.
    pub details: BTreeMap<Vec<u8>, UriDetail>,
    /// A form was too long and cut.
    pub truncated: bool,
}

impl Uris {
    /// Finds all URIs. `body` is the body view, `rendered` are the parts, `signatures` the values
    /// of DKIM fields.
    pub(super) fn find<'r>(
        body: &[Vec<u8>],
        rendered: impl Iterator<Item = &'r Rendered>,
        signatures: &[Cow<'_, [u8]>],
        boundaries: &Boundaries,
        redirectors: &Redirectors,
    ) -> Self {
        let mut uris = Uris::default();
        let mut found = Vec::new();
        body.iter().for_each(|text| text::find(text, boundaries, &mut found));
        for one in found {
            let known = uris.details.get(&one.uri).is_some_and(|d| d.is_parsed);
            if known {
                continue;
            }
            if let Some(detail) = uris.add(&one.uri, true, boundaries, redirectors) {
                detail.is_parsed = true;
            }
        }
        for html in rendered.filter_map(|part| part.html.as_ref()) {
            uris.truncated |= html.uri_truncated;
            for link in &html.uris {
                let target = link.uri.as_bytes();
                let Some(detail) = uris.add(&target, false, boundaries, redirectors) else {
                    continue;
                };
                // A URI known only as the target of an anchor counts as text.
                detail.is_parsed |= link.types.is_empty();
                for element in &link.types {
                    if !detail.elements.contains(element) {
                        detail.elements.push(element);
                    }
                }
                for text in &link.anchor_text {
                    let text = text.bytes();
                    if !detail.anchor_texts.contains(&text) {
                        detail.anchor_texts.push(text);
                    }
                }
            }
        }
        signatures.iter().for_each(|value| uris.add_signers(value, boundaries));
        uris
    }

    /// Adds the signing domains of a DKIM field (`d=`): hosts without a form that rules match.
    fn add_signers(&mut self, value: &[u8], boundaries: &Boundaries) {
        let mut from = 0;
        while let Some(at) = memchr::memchr(b'd', value.get(from..).unwrap_or_default()) {
            let at = from + at;
            from = at + 1;
            let is_inner =
                at > 0 && (value[at - 1].is_ascii_alphanumeric() || value[at - 1] == b'_');
            let rest = value[at + 1..].trim_ascii_start();
            let Some(rest) = rest.strip_prefix(b"=").filter(|_| !is_inner) else { continue };
            let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
            let domain: Vec<u8> =
                rest[..end].iter().copied().filter(|b| !perl::is_space(*b)).collect();
            if domain.is_empty() {
                continue;
            }
            from = value.len() - rest.len() + end;
            let uri = [b"domainkeys:".as_slice(), &domain].concat();
            let Some(host) = canonical::host_of(&uri, boundaries) else { continue };
            if self.details.len() >= URIS_MAX {
                return;
            }
            let detail = self.details.entry(uri).or_default();
            if detail.hosts.is_empty() {
                detail.hosts.push(host);
                detail.elements.extend(["domainkeys", "noclean", "nocanon"]);
            }
        }
    }

    fn add(
        &mut self,
        uri: &[u8],
        needs_host: bool,
        boundaries: &Boundaries,
        redirectors: &Redirectors,
    ) -> Option<&mut UriDetail> {
        if self.details.contains_key(uri) {
            // It was added before, from the same bytes.
            return self.details.get_mut(uri).filter(|d| !needs_host || !d.hosts.is_empty());
        }
        if self.details.len() >= URIS_MAX {
            return None;
        }
        let mut forms = canonical::forms(uri, boundaries, redirectors);
        for form in &mut forms {
            self.truncated |= form.len() > URI_BYTES_MAX;
            form.truncate(URI_BYTES_MAX);
        }
        let mut detail = UriDetail::default();
        for host in forms.iter().filter_map(|f| canonical::host_of(f, boundaries)) {
            if !detail.hosts.contains(&host) {
                detail.hosts.push(host);
            }
        }
        if needs_host && detail.hosts.is_empty() {
            return None;
        }
        if self.truncated {
            // Forms that were cut may be equal now.
            for form in forms {
                if !detail.forms.contains(&form) {
                    detail.forms.push(form);
                }
            }
        } else {
            detail.forms = forms;
        }
        Some(self.details.entry(uri.to_vec()).or_insert(detail))
    }

    /// Every form of every URI, sorted, each once.
    pub fn forms(&self) -> Vec<super::Uri> {
        let mut forms: Vec<&Vec<u8>> = self.details.values().flat_map(|d| &d.forms).collect();
        forms.sort_unstable();
        forms.dedup();
        forms.into_iter().map(|f| super::Uri { text: f.clone() }).collect()
    }
}
