//! One rule of a policy, as it was read.

use gauntlet_mail::Direction;
use gauntlet_verdict::{Change, Final, ReleasedBy, Removal};

use crate::condition::{AttachmentCondition, Condition};
use crate::objects::ObjectCondition;

/// In `notify`: the postmaster of our side's domain.
pub(crate) const NOTIFY_POSTMASTER: &str = "postmaster";
/// In `notify`: the recipient that is decided about.
pub(crate) const NOTIFY_RECIPIENT: &str = "{recipient}";
/// Most rules in one policy.
pub const RULES_MAX: usize = 1_000;

/// One rule: a name, conditions, and what is done when they hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Unique name, logged with every disposition it made.
    pub name: String,
    /// Directions it applies to.
    pub directions: Vec<Direction>,
    /// When it matches; none matches always.
    pub when: Option<Condition>,
    /// Changes of the message, in the order in which they are made.
    pub changes: Vec<ChangeTemplate>,
    /// The end of the way, if the rule decides it.
    pub end: Option<Final>,
    /// Who may release what the rule holds, if it says so.
    pub release: Option<ReleasedBy>,
    /// No further rule is tried after a match.
    pub stop: bool,
    /// Line in the file, from 1.
    pub line: usize,
}

/// A change as written; [`ChangeTemplate::StripAttachments`] finds its parts in the message.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeTemplate {
    /// Nothing to find out; only placeholders in texts are filled in.
    Fixed(Change),
    /// Strips the attachments that fit.
    StripAttachments {
        /// Which; all if none.
        which: Option<AttachmentCondition>,
        /// What the note says.
        note: String,
    },
    /// Strips or disarms the files that fit.
    Remove {
        /// They are made harmless, not taken out.
        disarms: bool,
        /// Which: those that fit one of these, all files if there is none.
        which: Vec<ObjectCondition>,
        /// All but the parts.
        removal: Removal,
    },
    /// Appends to the names of the files that fit.
    ConvertNames {
        /// The attachments that it is about.
        which: AttachmentCondition,
        /// What is appended, with its dot.
        append: String,
        /// The rule that says so.
        rule: String,
    },
}
