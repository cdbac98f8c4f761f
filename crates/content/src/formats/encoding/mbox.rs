//! Mailboxes (RFC 4155): messages that each begin with a line `From `.

use memchr::memmem;

use crate::host::Child;
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Messages of one mailbox that are read.
const MESSAGES_MAX: usize = 10_000;

/// Adds every message. Lines that begin with `>From ` stay as they are: no file depends on them.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let starts = memmem::find_iter(bytes, b"\nFrom ").map(|at| at + 1);
    let mut starts: Vec<usize> = std::iter::once(0).chain(starts).take(MESSAGES_MAX + 1).collect();
    if starts.len() > MESSAGES_MAX {
        unpacker.defect(DefectKind::TooManyObjects, "messages of a mailbox");
        starts.truncate(MESSAGES_MAX);
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    for (number, (&start, end)) in starts.iter().zip(ends).enumerate() {
        if unpacker.is_over() {
            return;
        }
        let message = &bytes[start..end];
        let body = memchr::memchr(b'\n', message).map_or(&[][..], |line| &message[line + 1..]);
        let child = Child {
            name: format!("message-{}.eml", number + 1),
            declared_type: "message/rfc822".to_owned(),
        };
        unpacker.child(child, body);
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, paths, tree};

    #[test]
    fn every_message_is_an_object() {
        let text =
            b"From a@b.example Mon Nov 23 10:00:00 2026\nFrom: a@b.example\nSubject: one\n\nx\n\
            From b@c.example Mon Nov 23 10:00:01 2026\nFrom: b@c.example\nSubject: two\n\ny\n";
        let found = tree(text, "box");
        assert_eq!(paths(&found), ["box", "box/message-1.eml", "box/message-2.eml"]);
        nasty(text, "box");
    }
}
