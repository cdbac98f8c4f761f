//! A URL of an item that is on a list of URLs.

use serde::{Deserialize, Serialize};

/// A URL and the entry of a list that counts for it, as the web path logs them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListedUrl {
    /// The list by its name.
    pub list: String,
    /// The entry's category.
    pub category: String,
    /// The entry: its kind and its pattern in canonical form, such as `domain evil.example`.
    pub pattern: String,
    /// The URL in canonical form; a long one is cut
    /// ([`gauntlet_mail::evidence::EVIDENCE_TEXT_BYTES_MAX`]).
    pub url: String,
}
