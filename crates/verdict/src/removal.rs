//! What a policy takes out of a message, and where the original is.

use serde::{Deserialize, Serialize};

use crate::released_by::ReleasedBy;

/// Parts that are replaced by a note, or made harmless. The original message is in quarantine
/// before the changed one leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The parts, in the order of the message.
    pub parts: Vec<RemovedPart>,
    /// What the note says first; empty for the text that the program has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The policy rule that asks for it.
    pub rule: String,
    /// Folder of the quarantine that keeps the original.
    pub folder: String,
    /// Who may release the original.
    pub release: ReleasedBy,
    /// Where the original is; the node says so before the message is spooled.
    #[serde(default)]
    pub original: Original,
}

/// A part that is taken out or made harmless.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedPart {
    /// Index of the part.
    pub part: u16,
    /// Name of the file; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Media type by its bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// Decoded size in bytes.
    #[serde(default)]
    pub size: u64,
    /// SHA-256 of the decoded bytes, 64 hexadecimal digits; empty if it was not unpacked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// The object that the rule's condition names, and what was found in it; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Where an original message is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// Id of the quarantine's item; empty before the node gave it one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub item: String,
    /// Whom it is held for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Link by which its recipient releases it; empty if only an administrator may.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
}

/// A part with another file name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenamedPart {
    /// Index of the part.
    pub part: u16,
    /// Its name so far.
    pub from: String,
    /// Its name from now on.
    pub to: String,
}
