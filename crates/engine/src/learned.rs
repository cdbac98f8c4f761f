//! What a site has learned, as scans use it.

use std::sync::Arc;

use crate::signatures::KnownSignatures;
use crate::site_model::SiteModel;

/// What a site has learned from corrections and probe accounts.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    /// Weights on top of the shipped classifier.
    pub site: Option<Arc<SiteModel>>,
    /// Known good and bad mail.
    pub signatures: Option<Arc<KnownSignatures>>,
}

impl Learned {
    /// Names it in versions; empty if nothing was learned.
    pub(crate) fn version(&self) -> String {
        let site = self.site.as_ref().map_or("", |s| s.version());
        let signatures = self.signatures.as_ref().map_or("", |s| s.version());
        if site.is_empty() && signatures.is_empty() {
            return String::new();
        }
        let hex = blake3::hash(format!("{site} {signatures}").as_bytes()).to_hex();
        format!("+{}", &hex[..2 * VERSION_BYTES])
    }
}

/// Bytes of the hash that make a version: 48 bits are enough to distinguish versions.
pub(crate) const VERSION_BYTES: usize = 6;
