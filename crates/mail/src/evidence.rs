//! A rule that fired, and where in the item.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest quotation kept in one piece of evidence, in bytes; longer ones are cut at a character.
pub const EVIDENCE_TEXT_BYTES_MAX: usize = 120;
/// Most pieces of evidence kept for one hit; `count` still counts all.
pub const EVIDENCE_PER_HIT_MAX: usize = 8;

/// The text that an offset counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The SMTP envelope; `name` says which value.
    Envelope,
    /// A header field's decoded value; `name` is the field.
    Header,
    /// Decoded text of a part: for HTML the rendered text.
    Text,
    /// The HTML source of a part, decoded to UTF-8.
    Html,
    /// A URL as found; the offset counts in the part's text or HTML.
    Url,
    /// An attachment's name or type.
    Attachment,
    /// The decoded bytes of a part.
    Body,
    /// The message as it came.
    Raw,
    /// A file of the message or one inside it; `name` is its path, such as `a.zip/b.exe`.
    Object,
    /// A fact from the network; `name` says which.
    Facts,
    /// SpamAssassin's `body` view of the message (offset in the joined lines).
    SaBody,
    /// SpamAssassin's `rawbody` view: text parts decoded, their markup kept.
    SaRawbody,
    /// An operand of a meta rule; `name` is the operand.
    Meta,
    /// A feature of the classifier; `name` says which.
    Feature,
}

/// One place that made a rule fire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The text that `offset` counts in.
    pub view: View,
    /// Field, operand, fact or feature, where the view needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Index of the part in [`crate::Message::parts`]; 0 is the root.
    pub part: u16,
    /// Byte offset in the view.
    pub offset: u32,
    /// Length in bytes of what matched (the quotation may be shorter).
    pub length: u32,
    /// What matched, at most [`EVIDENCE_TEXT_BYTES_MAX`] bytes, invalid UTF-8 replaced.
    pub text: String,
}

impl Evidence {
    /// Evidence of `matched`, which begins at `offset` of `view` in `part`.
    pub fn new(view: View, part: u16, offset: usize, matched: &[u8]) -> Self {
        Evidence {
            view,
            name: None,
            part,
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            length: u32::try_from(matched.len()).unwrap_or(u32::MAX),
            text: quote(matched),
        }
    }

    /// The same, naming the field, operand or fact.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }
}

/// A quotation of at most [`EVIDENCE_TEXT_BYTES_MAX`] bytes, cut at a character.
pub fn quote(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(EVIDENCE_TEXT_BYTES_MAX + 3)];
    let mut text = String::from_utf8_lossy(cut).into_owned();
    if text.len() > EVIDENCE_TEXT_BYTES_MAX {
        let end = (0..=EVIDENCE_TEXT_BYTES_MAX).rev().find(|&i| text.is_char_boundary(i));
        text.truncate(end.unwrap_or(0));
    }
    text
}

/// A rule that fired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The rule's name, e.g. `URL_TEXT_MISMATCH`.
    pub rule: Arc<str>,
    /// Points that the hit adds to the score (all its matches together).
    pub score: f64,
    /// How often it matched; 1 for rules that do not count.
    pub count: u32,
    /// One sentence for administrators and users.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Arc<str>,
    /// Where; at most [`EVIDENCE_PER_HIT_MAX`].
    pub evidence: Vec<Evidence>,
}
