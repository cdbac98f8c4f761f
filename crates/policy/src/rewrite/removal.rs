//! Stripping parts and putting disarmed ones in their place.

use std::fmt::Write;

use gauntlet_verdict::{Removal, RemovedPart};

use super::names::named_fields;
use super::{Edits, canonical};

/// Fields of a part that stay when its content is disarmed.
const KEPT: [&str; 5] = [
    "content-type",
    "content-disposition",
    "content-id",
    "content-description",
    "content-location",
];
/// The first sentence of a note for which the rule has no text.
const DEFAULT_NOTE: &str = "An attachment was removed from this message.";

/// What became of a part that was to be disarmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisarmedPart {
    /// Index of the part.
    pub part: u16,
    /// What became of it.
    pub outcome: DisarmOutcome,
}

/// What became of a file that was to be disarmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisarmOutcome {
    /// Nothing in it is active.
    Clean,
    /// Active content was taken out.
    Changed {
        /// Contents of the file afterwards.
        bytes: Vec<u8>,
        /// Its extension from now on, with its dot, if that says what it is: `.docx` for `.docm`.
        extension: Option<&'static str>,
        /// Its media type from now on, if another.
        media_type: Option<&'static str>,
        /// What was taken out: `vba_macros`.
        removed: Vec<String>,
    },
    /// It cannot be disarmed, and why: it is stripped.
    Refused(String),
}

impl Edits<'_> {
    pub(super) fn strip_parts(&mut self, removal: &Removal) {
        for removed in &removal.parts {
            self.strip_part(removal, removed, "");
        }
    }

    pub(super) fn disarm_parts(&mut self, removal: &Removal, disarmed: &[DisarmedPart]) {
        for removed in &removal.parts {
            let done = disarmed.iter().find(|d| d.part == removed.part).map(|d| &d.outcome);
            match done {
                Some(DisarmOutcome::Clean) => {}
                Some(DisarmOutcome::Changed { bytes, extension, media_type, removed: what }) => {
                    let types = (*extension, *media_type);
                    self.put_disarmed(removal, removed, bytes, types, what);
                }
                Some(DisarmOutcome::Refused(why)) => self.strip_part(removal, removed, why),
                None => self.strip_part(removal, removed, "it could not be disarmed here"),
            }
        }
    }

    /// Puts the note in the place of a part. `why` says why it was not disarmed, if it was to be.
    fn strip_part(&mut self, removal: &Removal, removed: &RemovedPart, why: &str) {
        let message = self.message;
        let Some(part) = message.parts().get(usize::from(removed.part)) else { return };
        // What is inside an encoded message goes with it.
        let around = part.within.and_then(|i| message.parts().get(usize::from(i)));
        let part = around.unwrap_or(part);
        let end = self.line_end();
        let fields =
            format!("Content-Type: text/plain; charset=utf-8{end}Content-Disposition: inline{end}");
        let note = canonical(&note(removal, removed, why));
        if !self.replace(part, &[], &fields, note.as_bytes()) {
            return;
        }
        let mut value = format!("{}, by rule {}", shown(removed), removal.rule);
        if !why.is_empty() {
            let _ = write!(value, ": {why}");
        }
        value.push_str(self.broken_signature(part));
        self.say("X-Gauntlet-Removed", &value);
    }

    fn put_disarmed(
        &mut self,
        removal: &Removal,
        removed: &RemovedPart,
        bytes: &[u8],
        (extension, media_type): (Option<&str>, Option<&str>),
        what: &[String],
    ) {
        let message = self.message;
        let Some(part) = message.parts().get(usize::from(removed.part)) else { return };
        if part.within.is_some() || !part.files().is_empty() {
            let why = "it lies in an encoded message or a text and cannot be disarmed there";
            return self.strip_part(removal, removed, why);
        }
        let end = self.line_end();
        let is_page = part.content_type.is("text", "html");
        let done = match (extension, media_type) {
            (Some(extension), Some(media_type)) => {
                let name = with_extension(&removed.name, extension);
                let fields = named_fields(media_type, &name, end);
                self.replace(part, &["content-id"], &fields, bytes)
            }
            // Its bytes are UTF-8 now.
            _ if is_page && !part.is_attachment() => {
                let fields = format!("Content-Type: text/html; charset=utf-8{end}");
                self.replace(part, &KEPT[1..], &fields, bytes)
            }
            _ => self.replace(part, &KEPT, "", bytes),
        };
        if done {
            let (name, item) = (named(removed), &removal.original.item);
            let broken = self.broken_signature(part);
            let mut value =
                format!("{name}: {} removed, by rule {}", what.join(", "), removal.rule);
            if !item.is_empty() {
                let _ = write!(value, "; original {item}");
            }
            value.push_str(broken);
            self.say("X-Gauntlet-Disarmed", &value);
        }
    }
}

/// The name with another extension.
pub(super) fn with_extension(name: &str, extension: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{}{extension}", if stem.is_empty() { "unnamed" } else { stem })
}

fn named(removed: &RemovedPart) -> &str {
    if removed.name.is_empty() { "unnamed" } else { &removed.name }
}

/// Name, type, size and hash in one line.
fn shown(removed: &RemovedPart) -> String {
    let RemovedPart { media_type, size, sha256, .. } = removed;
    let mut text = format!("{} ({media_type}, {size} bytes", named(removed));
    if !sha256.is_empty() {
        let _ = write!(text, ", SHA-256 {sha256}");
    }
    text.push(')');
    text
}

/// What stands in the place of a part.
fn note(removal: &Removal, removed: &RemovedPart, why: &str) -> String {
    let first = if removal.note.is_empty() { DEFAULT_NOTE } else { &removal.note };
    let RemovedPart { media_type, size, sha256, why: found, .. } = removed;
    let mut text = format!(
        "{first}\n\nName:    {}\nType:    {media_type}\nSize:    {size} bytes\n",
        named(removed)
    );
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<8} {value}");
        }
    };
    line("SHA-256:", sha256);
    line("Rule:", &removal.rule);
    line("Found:", found);
    line("Why:", why);
    let original = &removal.original;
    if !original.item.is_empty() {
        let _ = write!(text, "\nThe original message is kept under {}.\n", original.item);
        let _ = match original.link.as_str() {
            "" => writeln!(text, "Ask your administrator for it."),
            link => writeln!(text, "This link sends it to you:\n{link}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::Message;
    use gauntlet_verdict::{Change, Original, ReleasedBy};

    use super::super::{apply, apply_with};
    use super::*;

    const MAIL: &str = "From: a@b\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n\
        hello\r\n--x\r\nContent-Type: application/vnd.ms-word.document.macroEnabled.12;\r\n\
        \x20name=\"a.docm\"\r\nContent-Transfer-Encoding: base64\r\n\r\nUEsDBA==\r\n--x--\r\n";

    fn removal(part: u16) -> Removal {
        Removal {
            parts: vec![RemovedPart {
                part,
                name: "a.docm".into(),
                media_type: "application/x".into(),
                size: 4,
                sha256: "ab".repeat(32),
                why: "a.docm/vbaProject.bin (x, vba_macros)".into(),
            }],
            note: String::new(),
            rule: "no\nmacros".into(),
            folder: "stripped".into(),
            release: ReleasedBy::User,
            original: Original {
                item: "1ABC".into(),
                recipients: Vec::new(),
                link: "https://mail.example.com/link/x".into(),
            },
        }
    }

    #[test]
    fn a_note_says_what_and_why_and_where_the_original_is() {
        let out = apply(&Message::parse(MAIL.as_bytes()), &[Change::Strip(removal(2))]);
        let message = Message::parse(&out);
        let text = message.parts()[2].text().unwrap();
        for part in
            ["a.docm", "4 bytes", "abab", "vba_macros", "kept under 1ABC", "/link/x", "Rule:"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let field = message.header("X-Gauntlet-Removed").unwrap().decoded();
        assert!(field.starts_with("a.docm (application/x, 4 bytes, SHA-256 abab"), "{field}");
        assert!(field.ends_with("by rule no_macros"), "{field}");
        assert_eq!(message.parts()[1].text(), Some("hello"));
        assert!(!String::from_utf8_lossy(&out).contains("UEsDBA"));
    }

    #[test]
    fn a_disarmed_part_gets_its_new_name_and_one_that_cannot_be_is_stripped() {
        let message = Message::parse(MAIL.as_bytes());
        let change = [Change::Disarm(removal(2))];
        let done = |outcome| apply_with(&message, &change, &[DisarmedPart { part: 2, outcome }]);
        let out = done(DisarmOutcome::Changed {
            bytes: b"new".to_vec(),
            extension: Some(".docx"),
            media_type: Some("application/y"),
            removed: vec!["vba_macros".into()],
        });
        let changed = Message::parse(&out);
        let part = &changed.parts()[2];
        assert_eq!((part.file_name(), part.body()), (Some("a.docx"), &b"new"[..]));
        assert_eq!(part.content_type.essence(), "application/y");
        let field = changed.header("X-Gauntlet-Disarmed").unwrap().decoded();
        assert_eq!(field, "a.docm: vba_macros removed, by rule no_macros; original 1ABC");
        let plain = DisarmOutcome::Changed {
            bytes: b"new".to_vec(),
            extension: None,
            media_type: None,
            removed: vec!["java_script".into()],
        };
        let out = done(plain);
        let changed = Message::parse(&out);
        assert_eq!(changed.parts()[2].file_name(), Some("a.docm"));
        assert_eq!(changed.parts()[2].body(), b"new");
        let out = done(DisarmOutcome::Refused("too large".into()));
        let changed = Message::parse(&out);
        assert!(changed.parts()[2].text().unwrap().contains("Why:     too large"));
        assert_eq!(done(DisarmOutcome::Clean), MAIL.as_bytes());
        let out = apply(&message, &change);
        assert!(Message::parse(&out).header("X-Gauntlet-Removed").is_some());
    }

    #[test]
    fn a_signed_part_is_stripped_and_the_header_says_so() {
        let raw = "From: a@b\r\nContent-Type: multipart/signed; boundary=x\r\n\r\n--x\r\n\
            Content-Type: application/pdf; name=a.pdf\r\n\r\n%PDF\r\n--x\r\n\
            Content-Type: application/pgp-signature\r\n\r\nsig\r\n--x--\r\n";
        let out = apply(&Message::parse(raw.as_bytes()), &[Change::Strip(removal(1))]);
        let message = Message::parse(&out);
        let field = message.header("X-Gauntlet-Removed").unwrap().decoded();
        assert!(field.ends_with("does not verify any more"), "{field}");
        assert!(message.parts()[1].text().unwrap().contains("a.docm"));
        assert_eq!(message.parts()[2].body(), b"sig");
    }

    #[test]
    fn extensions_are_replaced() {
        assert_eq!(with_extension("a.b.docm", ".docx"), "a.b.docx");
        assert_eq!(with_extension("", ".docx"), "unnamed.docx");
    }
}
