//! One rule of a policy, as it was read.

use gauntlet_mail::Direction;
use gauntlet_verdict::{Change, Final, ReleasedBy};

use crate::condition::{AttachmentCondition, Condition};

/// In `notify`: the postmaster of our side's domain.
pub(crate) const NOTIFY_POSTMASTER: &str = "postmaster";
/// In `notify`: the recipient that is decided about.
pub(crate) const NOTIFY_RECIPIENT: &str = "{recipient}";
/// Most rules in one policy.
pub const RULES_MAX: usize = 1_000;

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Unique name, logged with every disposition it made.
    pub name: String,
    /// Directions it applies to.
    pub directions: Vec<Direction>,
    /// When it matches; none matches always.
    pub when: Option<Condition>,
    /// Changes, in order.
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
}
