//! What is done with a message, for one recipient.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::released_by::ReleasedBy;
use crate::removal::{Removal, RenamedPart};

/// The final action on a message for one recipient. Exactly one is logged for each accepted
/// recipient (design invariant 3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Final {
    /// To the next hop.
    Deliver,
    /// To the next hop, marked for the recipient's spam folder by header fields (among the
    /// changes); in a Maildir of our own into its spam folder.
    SpamFolder,
    /// To other recipients instead.
    Redirect {
        /// Addresses that get it.
        to: Vec<String>,
    },
    /// Kept for a reviewer.
    Hold {
        /// Folder of the quarantine.
        folder: String,
    },
    /// Kept; the recipient may see and release it.
    Quarantine {
        /// Folder of the quarantine.
        folder: String,
    },
    /// Refused with a 5xx that carries a reference code.
    Reject {
        /// Text after the code, bland.
        text: String,
    },
    /// Refused for now with a 4xx.
    Defer {
        /// Text after the code.
        text: String,
    },
    /// Accepted with 250, then dropped: neither delivered nor kept.
    Discard,
}

impl Final {
    /// All names ([`Final::name`]).
    pub const NAMES: [&str; 8] =
        ["deliver", "spam_folder", "redirect", "hold", "quarantine", "reject", "defer", "discard"];

    /// Name in logs and pages: `deliver`, `spam_folder`, ...
    pub fn name(&self) -> &'static str {
        match self {
            Final::Deliver => "deliver",
            Final::SpamFolder => "spam_folder",
            Final::Redirect { .. } => "redirect",
            Final::Hold { .. } => "hold",
            Final::Quarantine { .. } => "quarantine",
            Final::Reject { .. } => "reject",
            Final::Defer { .. } => "defer",
            Final::Discard => "discard",
        }
    }
}

/// For display: `quarantine:spam`, `redirect:a@example.org`, `deliver`.
impl fmt::Display for Final {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Final::Hold { folder } | Final::Quarantine { folder } => {
                write!(f, "{}:{folder}", self.name())
            }
            Final::Redirect { to } => write!(f, "redirect:{}", to.join(",")),
            other => f.write_str(other.name()),
        }
    }
}

/// Folders whose mail is never released by its recipients, whatever is set for them.
pub const ADMIN_ONLY_FOLDERS: [&str; 3] = ["phishing", "malware", "unscannable"];

/// A change made to the message on its way, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// Adds a header field at the top.
    AddHeader {
        /// Field name without the colon.
        name: String,
        /// Value as one line, without CR and LF.
        value: String,
    },
    /// Removes every field of this name.
    RemoveHeader {
        /// Field name; `*` stands for any run of characters.
        name: String,
    },
    /// Puts a tag before the subject.
    TagSubject {
        /// What stands before the subject, e.g. `[SPAM]`.
        tag: String,
    },
    /// Replaces attachments by a note.
    StripAttachments {
        /// Indices of the parts.
        parts: Vec<u16>,
        /// What the note says.
        note: String,
    },
    /// Replaces parts by a note; the original is kept.
    Strip(Removal),
    /// Takes macros, scripts and the like out of parts; the original is kept.
    Disarm(Removal),
    /// Gives parts other file names.
    ConvertNames {
        /// Which parts, and what they are called then.
        parts: Vec<RenamedPart>,
        /// The policy rule that asks for it.
        rule: String,
    },
    /// Adds text at the end of the first text part of each alternative.
    Disclaimer {
        /// The text; escaped where the part is HTML.
        text: String,
    },
    /// Sends a copy as well.
    Copy {
        /// Addresses that get it.
        to: Vec<String>,
    },
    /// Signs with the DKIM key of the sender's domain.
    DkimSign,
    /// Sends a message about this one, once, when it is durable or refused.
    Notify {
        /// Addresses that get it.
        to: Vec<String>,
        /// What it says before the facts about the message; empty for the facts alone.
        template: String,
        /// The policy rule that asks for it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        rule: String,
    },
    /// Makes the message a correction that the site model learns from.
    Learn {
        /// As spam, else as ham.
        spam: bool,
        /// The policy rule that says so.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        rule: String,
    },
}

impl Change {
    /// What is taken out of the message, if something is.
    pub fn removal(&self) -> Option<&Removal> {
        match self {
            Change::Strip(removal) | Change::Disarm(removal) => Some(removal),
            _ => None,
        }
    }

    /// The same, to say where the original is.
    pub fn removal_mut(&mut self) -> Option<&mut Removal> {
        match self {
            Change::Strip(removal) | Change::Disarm(removal) => Some(removal),
            _ => None,
        }
    }
}

/// A policy rule that was tried, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Name of the policy's rule.
    pub rule: String,
    /// Whether its conditions held for this recipient.
    pub matched: bool,
    /// The condition that decided, with the value it saw.
    pub because: String,
}

/// What is done for one recipient, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disposition {
    /// The recipient, as accepted.
    pub recipient: String,
    /// The end of its way.
    #[serde(flatten)]
    pub end: Final,
    /// Changes on the way, in order.
    pub changes: Vec<Change>,
    /// The policy rules that matched, in order; before them why the class was another for this
    /// recipient, such as `the recipient blocks the sender`.
    pub rules: Vec<String>,
    /// Who may release it, where the rule that holds it says so (`release = "user"`). None leaves
    /// it to the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleasedBy>,
}

impl Disposition {
    /// Who may release it according to the rule that holds it: what the rule says, else
    /// [`ReleasedBy::Admin`] for `hold`, which keeps mail for a reviewer. None leaves it to the
    /// folder.
    pub fn released_by(&self) -> Option<ReleasedBy> {
        match self.end {
            Final::Hold { .. } => Some(self.release.unwrap_or(ReleasedBy::Admin)),
            _ => self.release,
        }
    }
}
