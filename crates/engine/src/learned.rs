//! What a site has learned, as scans use it.

use std::sync::Arc;

use crate::signatures::KnownSignatures;
use crate::site_model::good_mail::GoodMail;
use crate::site_model::{SiteMail, SiteModel};

/// What a site has learned from corrections, probe accounts and known authors.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    /// Weights on top of the shipped classifier.
    pub site: Option<Arc<SiteModel>>,
    /// Known good and bad mail.
    pub signatures: Option<Arc<KnownSignatures>>,
    /// Good mail that nobody corrected, for the thresholds.
    pub good_mail: Option<Arc<GoodMail>>,
}

impl Learned {
    /// Names it in versions; empty if nothing was learned.
    pub(crate) fn version(&self) -> String {
        let site = self.site.as_ref().map_or("", |s| s.version());
        let signatures = self.signatures.as_ref().map_or("", |s| s.version());
        let good_mail = self.good_mail.as_ref().map_or("", |g| g.version());
        let named = match good_mail {
            "" if site.is_empty() && signatures.is_empty() => return String::new(),
            "" => format!("{site} {signatures}"),
            good_mail => format!("{site} {signatures} {good_mail}"),
        };
        let hex = blake3::hash(named.as_bytes()).to_hex();
        format!("+{}", &hex[..2 * VERSION_BYTES])
    }

    /// What says where the classes begin here.
    pub(crate) fn site_mail(&self) -> SiteMail<'_> {
        SiteMail { site: self.site.as_deref(), good_mail: self.good_mail.as_deref() }
    }
}

/// Bytes of the hash that make a version: 48 bits are enough to distinguish versions.
pub(crate) const VERSION_BYTES: usize = 6;
