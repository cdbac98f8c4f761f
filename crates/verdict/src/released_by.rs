//! Who may release held mail.

use serde::{Deserialize, Serialize};

/// Who may release a held message. Ordered: [`ReleasedBy::Admin`] is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleasedBy {
    /// Its recipient, to themselves.
    User,
    /// Reviewers of the folder and administrators only.
    Admin,
}

impl ReleasedBy {
    /// Name in settings, policies and the API: `user`, `admin`.
    pub fn name(self) -> &'static str {
        match self {
            ReleasedBy::User => "user",
            ReleasedBy::Admin => "admin",
        }
    }
}
