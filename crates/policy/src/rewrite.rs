//! Making the changes of a disposition to the bytes of a message.
//!
//! Everything that is not changed stays byte for byte as it was, so that signatures over it still
//! verify. Nothing inside `multipart/signed` or `multipart/encrypted` is touched, except by
//! `strip`, `disarm` and `convert_names`, which say so in the header.

use std::ops::Range;

mod names;
mod removal;

use gauntlet_mail::{Message, Part, fields};
use gauntlet_verdict::Change;

use crate::pattern::Pattern;

pub use removal::{DisarmOutcome, DisarmedPart};

/// Characters of base64 in one line (RFC 2045 section 6.8).
const BASE64_LINE: usize = 76;

/// As [`apply_with`], where nothing was disarmed: what should have been is stripped.
pub fn apply(message: &Message<'_>, changes: &[Change]) -> Vec<u8> {
    apply_with(message, changes, &[])
}

/// Returns the message with these changes made, in order. Changes that are not about its bytes
/// (copy, notify, learn, sign) are left to the caller. `disarmed` has what became of the parts that
/// were to be disarmed; one that is not among them is stripped.
pub fn apply_with(message: &Message<'_>, changes: &[Change], disarmed: &[DisarmedPart]) -> Vec<u8> {
    let mut edits = Edits { message, top: Vec::new(), list: Vec::new(), replaced: Vec::new() };
    for change in changes {
        match change {
            Change::AddHeader { name, value } => edits.add_header(name, value),
            Change::RemoveHeader { name } => edits.remove_header(name),
            Change::TagSubject { tag } => edits.tag_subject(tag),
            Change::StripAttachments { parts, note } => edits.strip(parts, note),
            Change::Strip(removal) => edits.strip_parts(removal),
            Change::Disarm(removal) => edits.disarm_parts(removal, disarmed),
            Change::ConvertNames { parts, rule } => edits.convert_names(parts, rule),
            Change::Disclaimer { text } => edits.disclaimer(text),
            Change::Copy { .. }
            | Change::DkimSign
            | Change::Notify { .. }
            | Change::Learn { .. } => {}
        }
    }
    edits.finish()
}

/// Replacements of byte ranges, collected and then made in one pass.
struct Edits<'m> {
    message: &'m Message<'m>,
    /// New fields, put before all others.
    top: Vec<u8>,
    list: Vec<(Range<usize>, Vec<u8>)>,
    /// Where the bodies begin that were replaced.
    replaced: Vec<usize>,
}

impl Edits<'_> {
    fn line_end(&self) -> &'static str {
        let first = memchr::memchr(b'\n', self.message.raw());
        let bare = first.is_some_and(|i| i == 0 || self.message.raw()[i - 1] != b'\r');
        if bare { "\n" } else { "\r\n" }
    }

    fn add_header(&mut self, name: &str, value: &str) {
        let line = format!("{name}: {}{}", encode_word(value), self.line_end());
        self.top.extend_from_slice(line.as_bytes());
    }

    /// Takes out fields up to the empty line, also those behind a line or a limit at which the
    /// parser ends the header: other programs read on.
    fn remove_header(&mut self, name: &str) {
        let pattern = Pattern::from(name.to_owned());
        let mut at = 0;
        for field in fields::fields(self.message.raw()) {
            let range = at..at + field.len();
            at = range.end;
            let found = fields::name(field);
            if !found.is_empty() && pattern.matches(&String::from_utf8_lossy(found)) {
                self.list.push((range, Vec::new()));
            }
        }
    }

    fn tag_subject(&mut self, tag: &str) {
        let Some(subject) = self.message.header("subject") else {
            return self.add_header("Subject", tag);
        };
        if subject.decoded().starts_with(tag) {
            return;
        }
        let at = subject.value_offset(self.message.raw());
        self.list.push((at..at, format!(" {}", encode_word(tag)).into_bytes()));
    }

    fn strip(&mut self, parts: &[u16], note: &str) {
        for &index in parts {
            let Some(part) = self.message.parts().get(usize::from(index)) else { continue };
            if self.is_sealed(part) {
                continue;
            }
            // What is inside an encoded message goes with it.
            let around = part.within.and_then(|i| self.message.parts().get(usize::from(i)));
            let part = around.unwrap_or(part);
            let name = part.file_name().unwrap_or("attachment").replace(['\r', '\n'], " ");
            self.replace_content(part, "text/plain", &format!("{note}\n\n({name})\n"));
        }
    }

    fn disclaimer(&mut self, text: &str) {
        for kind in ["plain", "html"] {
            let leaf = self.message.parts().iter().find(|p| {
                let shown = p.within.is_none() && !p.is_attachment();
                p.content_type.is("text", kind) && shown && !self.is_sealed(p)
            });
            let Some(part) = leaf else { continue };
            let Some(body) = part.text() else { continue };
            let changed = if kind == "html" {
                append_html(body, text)
            } else {
                format!("{body}\n-- \n{text}\n")
            };
            self.replace_content(part, &format!("text/{kind}"), &changed);
        }
    }

    /// Whether the part is the root of, or inside, something signed or encrypted.
    fn is_sealed(&self, part: &Part<'_>) -> bool {
        let sealed = |p: &Part<'_>| {
            p.content_type.is("multipart", "signed") || p.content_type.is("multipart", "encrypted")
        };
        let parts = self.message.parts();
        let mut next = Some(part);
        while let Some(at) = next {
            if sealed(at) {
                return true;
            }
            next = at.parent.and_then(|i| parts.get(usize::from(i)));
        }
        false
    }

    /// Replaces a part's body, and the fields that describe it, by UTF-8 text in base64. Its other
    /// fields stay where they are, for other changes. A part is replaced once.
    fn replace_content(&mut self, part: &Part<'_>, kind: &str, text: &str) {
        let fields = format!("Content-Type: {kind}; charset=utf-8{}", self.line_end());
        self.replace(part, &[], &fields, canonical(text).as_bytes());
    }

    /// Replaces a part's body by these bytes in base64, and by whole `fields` those that describe
    /// it, except those named in `kept`. A part is replaced once: says whether it was now.
    fn replace(&mut self, part: &Part<'_>, kept: &[&str], fields: &str, bytes: &[u8]) -> bool {
        if self.replaced.contains(&part.body_range.start) {
            return false;
        }
        self.replaced.push(part.body_range.start);
        let (raw, end) = (self.message.raw(), self.line_end());
        let fields = format!("{fields}Content-Transfer-Encoding: base64{end}");
        let fields_end = self.replace_fields(part, kept, &fields);
        let mut block = Vec::new();
        // Between the fields and a body is an empty line; where there was no body there is none.
        if !raw[fields_end..part.body_range.start].ends_with(b"\n") {
            block.extend_from_slice(end.as_bytes());
        }
        let encoded = base64_simd::STANDARD.encode_to_string(bytes);
        for line in encoded.as_bytes().chunks(BASE64_LINE) {
            block.extend_from_slice(line);
            block.extend_from_slice(end.as_bytes());
        }
        self.list.push((part.body_range.clone(), block));
        true
    }

    /// Puts whole fields behind those of a part, and takes out all `Content-` fields but those in
    /// `kept`. Says where its fields end.
    fn replace_fields(&mut self, part: &Part<'_>, kept: &[&str], fields: &str) -> usize {
        let (raw, end) = (self.message.raw(), self.line_end());
        let mut fields_end = part.header_range.start;
        for header in &part.headers {
            let value_end = header.value_offset(raw) + header.raw_value.len();
            fields_end =
                memchr::memchr(b'\n', &raw[value_end..]).map_or(raw.len(), |i| value_end + i + 1);
            let describes = header.name.to_ascii_lowercase().starts_with(b"content-");
            if describes && !kept.iter().any(|name| header.is(name)) {
                self.list.push((header.offset..fields_end, Vec::new()));
            }
        }
        let unfinished = fields_end > part.header_range.start && raw[fields_end - 1] != b'\n';
        let before = if unfinished { end } else { "" };
        self.list.push((fields_end..fields_end, format!("{before}{fields}").into_bytes()));
        fields_end
    }

    /// Makes the edits. Of two that overlap, the one that begins first (then the longer) is made;
    /// what is put in at a place stands before what is replaced there.
    fn finish(mut self) -> Vec<u8> {
        let raw = self.message.raw();
        self.list.sort_by_key(|(range, _)| {
            (range.start, !range.is_empty(), std::cmp::Reverse(range.end))
        });
        let mut out = Vec::with_capacity(raw.len() + self.top.len() + 1024);
        // An mbox line stays first.
        let start = match raw.starts_with(b"From ") {
            true => memchr::memchr(b'\n', raw).map_or(0, |i| i + 1),
            false => 0,
        };
        out.extend_from_slice(&raw[..start]);
        out.extend_from_slice(&self.top);
        let mut at = start;
        for (range, bytes) in self.list {
            if range.start < at {
                continue;
            }
            out.extend_from_slice(&raw[at..range.start]);
            out.extend_from_slice(&bytes);
            at = range.end;
        }
        out.extend_from_slice(&raw[at..]);
        out
    }
}

/// The text with CR LF at the end of each line, as it is encoded (RFC 2046, section 4.1.1).
fn canonical(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// An encoded word (RFC 2047) where the text is not plain ASCII; folded by words of 45 bytes.
fn encode_word(text: &str) -> String {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return text.to_owned();
    }
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let cut = (0..=rest.len().min(45)).rev().find(|&i| rest.is_char_boundary(i)).unwrap_or(0);
        let (word, tail) = rest.split_at(cut.max(1));
        words.push(format!("=?utf-8?B?{}?=", base64_simd::STANDARD.encode_to_string(word)));
        rest = tail;
    }
    words.join(" ")
}

/// Puts the text, escaped, before `</body>`, or at the end.
fn append_html(html: &str, text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('\n', "<br>");
    let block = format!("<hr><p>{escaped}</p>");
    let at = html.to_ascii_lowercase().rfind("</body>").unwrap_or(html.len());
    format!("{}{block}{}", &html[..at], &html[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &[u8] = b"From: a@b\r\nX-Old: 1\r\n two\r\nSubject: hi\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nhello\r\n--x\r\n\
        Content-Type: application/x-msdownload; name=a.exe\r\n\r\nMZ\r\n--x--\r\n";

    fn changed(changes: &[Change]) -> String {
        String::from_utf8(apply(&Message::parse(MAIL), changes)).unwrap()
    }

    #[test]
    fn nothing_to_do_changes_nothing() {
        assert_eq!(changed(&[]).as_bytes(), MAIL);
    }

    #[test]
    fn headers_and_subject() {
        let out = changed(&[
            Change::AddHeader { name: "X-Spam".into(), value: "yes".into() },
            Change::RemoveHeader { name: "x-old".into() },
            Change::TagSubject { tag: "[Späm]".into() },
        ]);
        assert!(out.starts_with("X-Spam: yes\r\nFrom: a@b\r\nSubject: =?utf-8?B?"), "{out}");
        assert_eq!(Message::parse(out.as_bytes()).subject(), "[Späm] hi");
        assert!(!out.contains("two"));
    }

    #[test]
    fn a_field_is_removed_however_it_is_written() {
        let remove = [Change::RemoveHeader { name: "x-gauntlet-*".into() }];
        for forged in [
            "X-Gauntlet-Class: ham\r\n",
            "x-gauntlet-class : ham\r\n",
            "X-Gauntlet-Class\t: ham\r\n",
            "X-Gauntlet-Class\r\n : ham\r\n",
            "X-Gauntlet-Class: ham\r\n\tvery\r\n",
            "X-Gauntlet-G\u{e9}: ham\r\n",
            "X-Gauntlet-\u{0}: ham\r\n",
        ] {
            // Behind lines that are no fields the parser sees a body, and others a header.
            for before in ["", "Subject: x\r\n", "broken\r\nbroken\r\n", "broken\r\nTo: x\r\n"] {
                let raw = format!("From: a@b\r\n{before}{forged}Date: x\r\n\r\n{forged}");
                let out = apply(&Message::parse(raw.as_bytes()), &remove);
                let text = String::from_utf8(out).unwrap();
                let expected = format!("From: a@b\r\n{before}Date: x\r\n\r\n{forged}");
                assert_eq!(text, expected, "{before:?} {forged:?}");
            }
        }
        let many = "To: x\r\n".repeat(5_000);
        let raw = format!("From: a@b\r\n{many}X-Gauntlet-Class: ham\r\n\r\nbody\r\n");
        let out = apply(&Message::parse(raw.as_bytes()), &remove);
        assert_eq!(String::from_utf8(out).unwrap(), format!("From: a@b\r\n{many}\r\nbody\r\n"));
    }

    #[test]
    fn a_disclaimer_leaves_room_for_other_changes() {
        let changes = [
            Change::Disclaimer { text: "small print".into() },
            Change::RemoveHeader { name: "X-Old".into() },
            Change::TagSubject { tag: "[seen]".into() },
            Change::AddHeader { name: "X-New".into(), value: "1".into() },
            Change::Disclaimer { text: "more of it".into() },
        ];
        let plain = "Content-type: text/plain; charset=us-ascii\r\n";
        for (fields, rest) in [
            ("X-Old: 1\r\nSubject: hi\r\n", "\r\nlunch?\r\n"),
            (&*format!("{plain}Subject: hi\r\nX-Old: 1\r\n"), "\r\nlunch?\r\n"),
            (&*format!("Subject: hi\r\nX-Old: 1\r\n{plain}"), "\r\nlunch?\r\n"),
            ("Subject: hi\r\nX-Old: 1\r\n", "\r\n"),
            ("X-Old: 1\r\nSubject: hi\r\n", ""),
            ("X-Old: 1\r\nSubject: hi", ""),
        ] {
            let raw = format!("{fields}{rest}");
            let out = apply(&Message::parse(raw.as_bytes()), &changes);
            let text = String::from_utf8_lossy(&out).into_owned();
            let message = Message::parse(&out);
            assert_eq!(message.subject(), "[seen] hi", "{raw}: {text}");
            assert!(text.starts_with("X-New: 1\r\n") && !text.contains("X-Old"), "{raw}: {text}");
            assert_eq!(text.to_lowercase().matches("content-type").count(), 1, "{raw}: {text}");
            let body = message.parts()[0].text().unwrap();
            assert!(body.contains("small print") && !body.contains("more"), "{raw}: {body}");
            assert_eq!(body.contains("lunch?"), rest.contains("lunch?"), "{raw}: {body}");
        }
    }

    #[test]
    fn stripped_attachment_leaves_a_note() {
        let out = changed(&[Change::StripAttachments { parts: vec![2], note: "removed".into() }]);
        let message = Message::parse(out.as_bytes());
        assert_eq!(message.parts()[2].text(), Some("removed\r\n\r\n(a.exe)\r\n"));
        assert_eq!(message.parts()[1].text(), Some("hello"));
        assert!(!out.contains("MZ"));
    }

    #[test]
    fn what_is_inside_an_encoded_message_goes_with_it() {
        let inner = "Content-Type: application/x-msdownload; name=a.exe\r\n\r\nMZ\r\n";
        let inner = base64_simd::STANDARD.encode_to_string(inner);
        let raw = format!(
            "Subject: hi\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nhello\r\n--x\r\n\
             Content-Type: message/rfc822; name=b.eml\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{inner}\r\n--x--\r\n"
        );
        let message = Message::parse(raw.as_bytes());
        assert_eq!(message.parts()[3].file_name(), Some("a.exe"));
        let strip = Change::StripAttachments { parts: vec![3], note: "removed".into() };
        let out = apply(&message, &[strip]);
        let message = Message::parse(&out);
        assert_eq!(message.parts().len(), 3);
        assert_eq!(message.parts()[2].text(), Some("removed\r\n\r\n(b.eml)\r\n"));
        assert_eq!(message.parts()[1].text(), Some("hello"));
    }

    #[test]
    fn disclaimer_goes_into_the_text() {
        let out = changed(&[Change::Disclaimer { text: "Ltd".into() }]);
        let message = Message::parse(out.as_bytes());
        assert_eq!(message.parts()[1].text(), Some("hello\r\n-- \r\nLtd\r\n"));
        assert!(append_html("<body>x</BODY></html>", "a<b").contains("<p>a&lt;b</p></BODY>"));
    }
}
