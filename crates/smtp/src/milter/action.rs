//! What the filter replies: changes of the message and the final reply.

use super::Session;
use super::packet::{packet, text};

/// Most data of a body packet that is sent (`MILTER_CHUNK_SIZE`).
pub(super) const CHUNK_BYTES: usize = 65_535;

/// A change before the final [`Reply`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Inserts a header field (`SMFIR_INSHEADER`).
    InsertHeader {
        /// Position in the header, from 0.
        index: u32,
        /// Name of the field.
        name: String,
        /// Value with the space after the colon; LF or CRLF where it is folded.
        value: Vec<u8>,
    },
    /// Replaces a field's value, or removes the field.
    ChangeHeader {
        /// Position among the fields of this name, from 1.
        index: u32,
        /// Name of the field.
        name: String,
        /// The new value, as in [`Action::InsertHeader`]; none removes the field.
        value: Option<Vec<u8>>,
    },
    /// Replaces the body, or a part of it (`SMFIR_REPLBODY`).
    ReplaceBody(Vec<u8>),
    /// Adds an envelope recipient.
    AddRecipient(String),
    /// Removes an envelope recipient.
    DeleteRecipient(String),
    /// The MTA holds the message in its queue; the text is the reason.
    Quarantine(String),
}

/// The final reply for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Accept it, with the changes.
    Accept,
    /// Accept it and drop it without notice to the sender.
    Discard,
    /// Reject or defer it (`SMFIR_REPLYCODE`): code (4xx or 5xx), enhanced status code, text.
    ReplyCode(u16, (u8, u8, u8), String),
}

/// The changes that the MTA permits (`SMFIF_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed(pub(super) u32);

impl Allowed {
    const ADD_HEADERS: u32 = 0x1;
    const CHANGE_BODY: u32 = 0x2;
    const ADD_RECIPIENTS: u32 = 0x4;
    const DELETE_RECIPIENTS: u32 = 0x8;
    const CHANGE_HEADERS: u32 = 0x10;
    const QUARANTINE: u32 = 0x20;
    pub(super) const ALL: u32 = 0x3f;

    /// The MTA permits this action.
    pub fn allows(self, action: &Action) -> bool {
        let bit = match action {
            Action::InsertHeader { .. } => Self::ADD_HEADERS,
            Action::ChangeHeader { .. } => Self::CHANGE_HEADERS,
            Action::ReplaceBody(_) => Self::CHANGE_BODY,
            Action::AddRecipient(_) => Self::ADD_RECIPIENTS,
            Action::DeleteRecipient(_) => Self::DELETE_RECIPIENTS,
            Action::Quarantine(_) => Self::QUARANTINE,
        };
        self.0 & bit != 0
    }
}

impl Session {
    /// A value as the MTA expects it: lines end with LF, leading space only if that was negotiated.
    fn value(&self, value: &[u8]) -> Vec<u8> {
        let bare = value.iter().filter(|b| **b != b'\r').map(|b| if *b == 0 { b' ' } else { *b });
        let bare: Vec<u8> = bare.collect();
        let bare = bare.strip_suffix(b"\n").unwrap_or(&bare);
        let kept = if self.keeps_leading_space() { bare } else { bare.trim_ascii_start() };
        kept.to_vec()
    }

    /// Tells the MTA that scanning continues, so that it extends its timeout.
    pub fn progress(&self, out: &mut Vec<u8>) {
        packet(b'p', &[], out);
    }

    /// Writes a change. Writes nothing if the MTA does not permit it; see [`Session::allowed`].
    pub fn act(&self, action: &Action, out: &mut Vec<u8>) {
        if !self.allowed().allows(action) {
            return;
        }
        match action {
            Action::InsertHeader { index, name, value } => {
                let (index, value) = (index.to_be_bytes(), self.value(value));
                packet(b'i', &[&index, name.as_bytes(), b"\0", &value, b"\0"], out);
            }
            Action::ChangeHeader { index, name, value } => {
                let index = index.to_be_bytes();
                let value = value.as_ref().map(|v| self.value(v)).unwrap_or_default();
                packet(b'm', &[&index, name.as_bytes(), b"\0", &value, b"\0"], out);
            }
            Action::ReplaceBody(body) if body.is_empty() => packet(b'b', &[], out),
            Action::ReplaceBody(body) => {
                body.chunks(CHUNK_BYTES).for_each(|chunk| packet(b'b', &[chunk], out));
            }
            Action::AddRecipient(to) => packet(b'+', &[b"<", to.as_bytes(), b">\0"], out),
            Action::DeleteRecipient(to) => packet(b'-', &[b"<", to.as_bytes(), b">\0"], out),
            Action::Quarantine(why) => packet(b'q', &[text(why.as_bytes()).as_bytes(), b"\0"], out),
        }
    }

    /// Writes the final reply.
    pub fn reply(&self, reply: &Reply, out: &mut Vec<u8>) {
        match reply {
            Reply::Accept => packet(b'a', &[], out),
            Reply::Discard => packet(b'd', &[], out),
            Reply::ReplyCode(code, (class, subject, detail), why) => {
                // Sendmail takes the text as a format string; Postfix undoes the doubled `%`.
                let why = text(why.as_bytes()).replace('%', "%%");
                let line = format!("{code} {class}.{subject}.{detail} {why}\0");
                packet(b'y', &[line.as_bytes()], out);
            }
        }
    }
}
