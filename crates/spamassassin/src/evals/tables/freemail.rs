//! Freemail providers: the `freemail_*` settings.

use gauntlet_rules::hash::HashSet;
use gauntlet_rules::settings::Settings;

use super::addresses::{AddressList, address_list};
use super::glob::DomainGlob;

/// Freemail providers and limits.
#[derive(Debug, Default)]
pub(in crate::evals) struct Freemail {
    domains: HashSet<Box<[u8]>>,
    wildcards: Vec<DomainGlob>,
    welcome: HashSet<Box<[u8]>>,
    /// Number of different addresses from which on the body is not examined; 0 never.
    pub(in crate::evals) body_emails_max: usize,
    /// Number of different freemail addresses from which on the body is not examined; 0 never.
    pub(in crate::evals) body_freemails_max: usize,
    pub(in crate::evals) skip_when_over_max: bool,
    pub(in crate::evals) skip_bulk_envelope: bool,
    imports: Vec<AddressList>,
}

impl Freemail {
    pub(super) fn from_settings(settings: &Settings) -> Self {
        let words = |name| settings.words(name).map(str::to_ascii_lowercase);
        let is_word =
            |w: &String| w.bytes().all(|b| b.is_ascii_alphanumeric() || b".*?-".contains(&b));
        let (wildcards, domains): (Vec<String>, Vec<String>) =
            words("freemail_domains").filter(is_word).partition(|w| w.contains(['*', '?']));
        let bytes = |w: String| w.into_bytes().into_boxed_slice();
        let imports = ["welcomelist_auth", "def_welcomelist_auth"]
            .iter()
            .filter(|name| settings.number(&format!("freemail_import_{name}"), 0.0) != 0.0)
            .map(|name| address_list(settings, name));
        Freemail {
            domains: domains.into_iter().map(bytes).collect(),
            wildcards: wildcards.into_iter().map(|w| DomainGlob(bytes(w))).collect(),
            welcome: words("freemail_welcomelist").map(bytes).collect(),
            body_emails_max: settings.number("freemail_max_body_emails", 5.0) as usize,
            body_freemails_max: settings.number("freemail_max_body_freemails", 3.0) as usize,
            skip_when_over_max: settings.number("freemail_skip_when_over_max", 1.0) != 0.0,
            skip_bulk_envelope: settings.number("freemail_skip_bulk_envfrom", 1.0) != 0.0,
            imports: imports.collect(),
        }
    }

    /// Whether any domain is known at all.
    pub(in crate::evals) fn is_available(&self) -> bool {
        !self.domains.is_empty() || !self.wildcards.is_empty()
    }

    pub(in crate::evals) fn is_welcome(&self, address: &[u8], domain: &[u8]) -> bool {
        self.welcome.contains(address)
            || self.welcome.contains(domain)
            || self.imports.iter().any(|list| list.contains(address))
    }

    pub(in crate::evals) fn has_domain(&self, domain: &[u8]) -> bool {
        self.domains.contains(domain) || self.wildcards.iter().any(|w| w.matches(domain))
    }
}
