//! Attachments: what they are called, what they say they are, and what they are.

use std::borrow::Cow;

use crate::file_kind::{FileKind, has_macros, is_encrypted, sniff};
use crate::message::Message;
use crate::part::Part;

/// A leaf of the message that mail programs show as a file.
#[derive(Debug, Clone)]
pub struct Attachment<'m> {
    /// Index of its part in [`Message::parts`].
    pub part: u16,
    /// The name the sender gave, if any.
    pub name: Option<&'m str>,
    /// The type the sender gave, `kind/subtype`.
    pub declared: String,
    /// The kind of file by its first bytes, whatever its name and declared type say.
    pub kind: FileKind,
    /// Decoded size in bytes.
    pub size: u64,
    body: &'m [u8],
}

impl Attachment<'_> {
    /// BLAKE3 hash of the decoded bytes.
    pub fn hash(&self) -> blake3::Hash {
        blake3::hash(self.body)
    }

    /// Whether its bytes need a password: [`is_encrypted`].
    pub fn is_encrypted(&self) -> bool {
        is_encrypted(self.body)
    }

    /// Whether its bytes carry macros: [`has_macros`].
    pub fn has_macros(&self) -> bool {
        has_macros(self.body)
    }

    /// What follows the last dot of the name, in lower case; empty without one.
    pub fn extension(&self) -> Cow<'static, str> {
        let name = self.name.unwrap_or_default();
        name.trim_end_matches(['.', ' '])
            .rsplit_once('.')
            .map_or(Cow::Borrowed(""), |(_, e)| Cow::Owned(e.to_lowercase()))
    }
}

/// An attachment's view of its part.
fn attachment<'m>(part: &'m Part<'_>, index: u16) -> Attachment<'m> {
    let body = if part.is_container { part.raw_body() } else { part.body() };
    Attachment {
        part: index,
        name: part.file_name(),
        declared: part.content_type.essence(),
        kind: sniff(body),
        size: body.len() as u64,
        body,
    }
}

impl Message<'_> {
    /// Every part that is not shown in line, in the order of the message.
    pub fn attachments(&self) -> Vec<Attachment<'_>> {
        let parts = self.parts().iter().zip(0u16..).filter(|(part, _)| part.is_attachment());
        parts.map(|(part, index)| attachment(part, index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_of_a_message() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n--x\n\
            Content-Type: application/pdf; name=\"Bill.PDF.exe\"\n\
            Content-Transfer-Encoding: base64\n\nTVqQAAM=\n--x--\n";
        let message = Message::parse(raw);
        let found = message.attachments();
        assert_eq!(found.len(), 1);
        let a = &found[0];
        assert_eq!(
            (a.part, a.name, a.declared.as_str()),
            (2, Some("Bill.PDF.exe"), "application/pdf")
        );
        assert_eq!((a.kind, a.size, &*a.extension()), (FileKind::WindowsProgram, 5, "exe"));
    }
}
