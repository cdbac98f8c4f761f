//! What a site has learned, as scans use it.

use std::sync::Arc;

use crate::signatures::fingerprint::Found;
use crate::signatures::{KnownSignatures, Resemblance};
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
    /// Known mail that channels publish; what the site itself knows of a part of a message counts
    /// before it.
    pub published: Vec<Arc<KnownSignatures>>,
}

impl Learned {
    /// Names it in versions; empty if nothing was learned.
    pub(crate) fn version(&self) -> String {
        let site = self.site.as_ref().map_or("", |s| s.version());
        let signatures = self.signatures.as_ref().map_or("", |s| s.version());
        let good_mail = self.good_mail.as_ref().map_or("", |g| g.version());
        let published: Vec<&str> = self.published.iter().map(|p| p.version()).collect();
        let mut named = match good_mail {
            "" if site.is_empty() && signatures.is_empty() && published.is_empty() => {
                return String::new();
            }
            "" => format!("{site} {signatures}"),
            good_mail => format!("{site} {signatures} {good_mail}"),
        };
        published.iter().for_each(|version| named.extend([" published ", version]));
        let hex = blake3::hash(named.as_bytes()).to_hex();
        format!("+{}", &hex[..2 * VERSION_BYTES])
    }

    /// What of a message is known, given the day on which it was received.
    pub(crate) fn resembles(&self, found: &[Found], today: u16) -> Vec<Resemblance> {
        let mut all = self.signatures.as_ref().map_or(Vec::new(), |s| s.resembles(found, today));
        for like in self.published.iter().flat_map(|p| p.resembles(found, today)) {
            if !all.iter().any(|known| (known.kind, known.part) == (like.kind, like.part)) {
                all.push(like);
            }
        }
        all
    }

    /// What says where the classes begin here.
    pub(crate) fn site_mail(&self) -> SiteMail<'_> {
        SiteMail { site: self.site.as_deref(), good_mail: self.good_mail.as_deref() }
    }
}

/// Bytes of the hash that make a version: 48 bits are enough to distinguish versions.
pub(crate) const VERSION_BYTES: usize = 6;
