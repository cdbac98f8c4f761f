//! The files that a message carries: what is handed to unpacking, beside the text that is shown.

use std::borrow::Cow;

use crate::message::Message;
use crate::part::Part;

/// A file of a message, decoded.
#[derive(Debug, Clone)]
pub struct MessageFile<'m> {
    /// Index of its part in [`Message::parts`].
    pub part: u16,
    /// Its name, empty if it has none.
    pub name: Cow<'m, str>,
    /// The media type that the message says, `kind/subtype`; empty for a file inside a text.
    pub declared_type: String,
    /// Contents, with the transfer encoding undone.
    pub bytes: &'m [u8],
}

impl Message<'_> {
    /// Every part that is not shown as text, and every file inside a text (uuencode, yEnc, TNEF),
    /// in the order of the message. Parts of attached messages are among them.
    pub fn files(&self) -> Vec<MessageFile<'_>> {
        self.leaves(|part| !is_shown_text(part))
    }

    /// As [`Message::files`], with the text that is shown: all that the message has.
    pub fn all_files(&self) -> Vec<MessageFile<'_>> {
        self.leaves(|_| true)
    }

    fn leaves(&self, counts: impl Fn(&Part<'_>) -> bool) -> Vec<MessageFile<'_>> {
        let mut found = Vec::new();
        for (part, index) in self.parts().iter().zip(0u16..) {
            if !part.is_container && counts(part) && !part.body().is_empty() {
                found.push(MessageFile {
                    part: index,
                    name: part.file_name().map_or(Cow::Borrowed(""), Cow::Borrowed),
                    declared_type: part.content_type.essence(),
                    bytes: part.body(),
                });
            }
            for file in part.files() {
                let name =
                    file.names.first().map_or(Cow::Borrowed(""), |n| Cow::Borrowed(n.as_str()));
                let bytes = file.bytes(part.body());
                found.push(MessageFile { part: index, name, declared_type: String::new(), bytes });
            }
        }
        found
    }
}

/// Text in the message itself, which the views of the message have.
fn is_shown_text(part: &Part<'_>) -> bool {
    part.content_type.kind == "text" && !part.is_attachment()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_no_file() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n--x\n\
            Content-Type: image/png\n\n\x89PNG\n--x\nContent-Type: text/html; name=a.html\n\n<p>\n\
            --x\nContent-Type: message/rfc822\n\nSubject: in\nContent-Type: application/pdf\n\n%PDF\n\
            --x\n\nbegin 644 b.bin\n#04)#\n`\nend\n--x--\n";
        let message = Message::parse(raw);
        let named = |files: Vec<MessageFile<'_>>| -> Vec<(String, String)> {
            files.into_iter().map(|f| (f.name.into_owned(), f.declared_type)).collect()
        };
        let own = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
        assert_eq!(
            named(message.files()),
            [
                own("", "image/png"),
                own("a.html", "text/html"),
                own("", "application/pdf"),
                own("b.bin", "")
            ]
        );
        assert_eq!(named(message.all_files()).len(), 6);
    }
}
