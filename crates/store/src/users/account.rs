//! User accounts and their roles.

use serde::{Deserialize, Serialize};

/// The permissions of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May do everything, and give roles to others.
    Administrator,
    /// See all messages; release and delete in the given folders (none given: in all).
    Reviewer,
    /// See, release and delete messages held for their own addresses.
    User,
}

impl Role {
    /// The roles, the one with most rights first.
    pub const ALL: [Role; 3] = [Role::Administrator, Role::Reviewer, Role::User];

    /// Name on the command line and pages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Administrator => "administrator",
            Role::Reviewer => "reviewer",
            Role::User => "user",
        }
    }
}

/// A name that is none of [`Role::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no role {0:?}; the roles are administrator, reviewer, user")]
pub struct UnknownRole(pub String);

impl std::str::FromStr for Role {
    type Err = UnknownRole;
    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        let found = Role::ALL.into_iter().find(|r| r.name() == name);
        found.ok_or_else(|| UnknownRole(name.to_owned()))
    }
}

/// A person or program that may sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Login name, compared without regard to case.
    pub login: String,
    /// Permissions of the user.
    pub role: Role,
    /// Folders of the quarantine that a reviewer may decide in; empty is all.
    pub folders: Vec<String>,
    /// Mail addresses of the user, whose held mail they may see.
    pub addresses: Vec<String>,
    /// The password is a one-time password, which must be changed first.
    pub must_change: bool,
    /// Time of creation, in Unix milliseconds.
    pub created_ms: i64,
}
