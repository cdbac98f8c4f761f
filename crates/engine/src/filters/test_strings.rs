//! The two harmless strings that are treated as harmful by convention, so that a filter can be
//! tested: GTUBE for spam, EICAR for malware.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `GTUBE` | 1000 | the text holds the spam test string: class spam |
//! | `EICAR` | 1000 | the anti-virus test file, attached or beginning a text: class malware |
//!
//! GTUBE counts in the message as it came, in the Subject, in the source of texts, in what they
//! show (through tags, references, white space and invisible characters) and in attachments.
//!
//! EICAR counts in bytes and in what the charset of a text makes of them, and in files by uuencode,
//! yEnc and TNEF.
//!
//! Limits: the bytes of attachments are searched as they are once their transfer encoding is
//! undone. Archives are not opened here, so a compressed test file is not seen (a stored one is). A
//! text that quotes the EICAR string after other text only mentions it, and does not count.

use std::ops::Range;

use gauntlet_mail::{Evidence, Message, Part, View};
use memchr::memmem::Finder;

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;
use gauntlet_verdict::Class;

/// The strings are put together here, so that no scanner takes this program for what they stand
/// for.
const GTUBE: [&str; 4] =
    ["XJS*C4JDBQADN1.", "NSBN3*2IDNEN*", "GTUBE-STANDARD-ANTI-UBE-TEST", "-EMAIL*C.34X"];
const EICAR: [&str; 4] =
    ["X5O!P%@AP[4\\PZX54(P^)7CC)7}", "$EICAR-STANDARD-", "ANTIVIRUS-TEST-FILE!", "$H+H*"];

/// U+FEFF in UTF-8, which editors put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Looks for GTUBE and EICAR.
#[derive(Debug)]
pub struct TestStrings {
    gtube: Rule,
    eicar: Rule,
    find_gtube: Finder<'static>,
    find_eicar: Finder<'static>,
}

impl TestStrings {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        TestStrings {
            gtube: registry.rule(
                "GTUBE",
                1000.0,
                "Contains the GTUBE test string",
                RuleEffect::ForceClass(Class::Spam),
            ),
            eicar: registry.rule(
                "EICAR",
                1000.0,
                "Contains the EICAR test file",
                RuleEffect::ForceClass(Class::Malware),
            ),
            find_gtube: Finder::new(GTUBE.concat().as_bytes()).into_owned(),
            find_eicar: Finder::new(EICAR.concat().as_bytes()).into_owned(),
        }
    }
}

impl Filter for TestStrings {
    fn name(&self) -> &'static str {
        "test_strings"
    }

    fn judges_files(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        self.gtube_in_header(item.message, findings);
        for (part, i) in item.message.parts().iter().zip(0u16..) {
            if part.is_container {
                continue;
            }
            self.gtube_in_part(part, i, findings);
            self.eicar_in_part(part, i, findings);
        }
    }
}

impl TestStrings {
    /// In the bytes of a part and of the files inside it, and in its text, which its charset may
    /// have written in other bytes.
    fn eicar_in_part(&self, part: &Part<'_>, i: u16, findings: &mut Findings) {
        let body = part.body();
        let in_files = part.files().iter().map(|file| (file.bytes(body), true));
        let text = part.text().filter(|text| !std::ptr::eq(text.as_ptr(), body.as_ptr()));
        let is_file = part.is_attachment();
        let all = [(body, is_file)].into_iter();
        let all = all.chain(text.map(|text| (text.as_bytes(), is_file))).chain(in_files);
        for (bytes, is_file) in all {
            let Some(at) = self.find_eicar.find(bytes) else { continue };
            let before = bytes[..at].strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes[..at]);
            if is_file || before.trim_ascii().is_empty() {
                let found = &bytes[at..at + self.find_eicar.needle().len()];
                return findings.add(&self.eicar, Evidence::new(View::Body, i, at, found));
            }
        }
    }

    /// In the decoded Subject, and anywhere in the raw message.
    fn gtube_in_header(&self, message: &Message<'_>, findings: &mut Findings) {
        let needle = self.find_gtube.needle();
        if let Some(field) = message.header("subject")
            && let Some(range) = self.visible_gtube(&field.decoded())
        {
            let at = Evidence::new(View::Header, 0, range.start, needle).named("Subject");
            findings.add(&self.gtube, at);
        }
        if let Some(at) = self.find_gtube.find(message.raw()) {
            findings.add(&self.gtube, Evidence::new(View::Raw, 0, at, needle));
        }
    }

    /// In the source of a text, in what it shows, and in the bytes of whatever the part is.
    fn gtube_in_part(&self, part: &Part<'_>, i: u16, findings: &mut Findings) {
        let needle = self.find_gtube.needle();
        if let Some(text) = part.text()
            && let Some(at) = self.find_gtube.find(text.as_bytes())
        {
            return findings.add(&self.gtube, Evidence::new(View::Html, i, at, needle));
        }
        let shown = part.shown_text().and_then(|text| Some((text, self.visible_gtube(text)?)));
        if let Some((text, range)) = shown {
            let found = text.get(range.clone()).unwrap_or_default();
            let at = Evidence::new(View::Text, i, range.start, found.as_bytes());
            return findings.add(&self.gtube, at);
        }
        if let Some(at) = self.find_gtube.find(part.body()) {
            findings.add(&self.gtube, Evidence::new(View::Body, i, at, needle));
        }
    }

    /// Where GTUBE stands in a text whatever white space and invisible characters are between its
    /// characters.
    fn visible_gtube(&self, text: &str) -> Option<Range<usize>> {
        // Most texts have no four stars, which it has whatever is between.
        memchr::memchr_iter(b'*', text.as_bytes()).nth(3)?;
        let graphic = |(_, c): &(usize, char)| c.is_ascii_graphic();
        let (offsets, characters): (Vec<usize>, Vec<u8>) =
            text.char_indices().filter(graphic).map(|(i, c)| (i, c as u8)).unzip();
        let at = self.find_gtube.find(&characters)?;
        let end = at + self.find_gtube.needle().len();
        Some(offsets[at]..offsets[end - 1] + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    fn filter() -> TestStrings {
        TestStrings::new(&mut RuleRegistry::default())
    }

    #[test]
    fn gtube_in_text() {
        let mail = |text: &str| format!("From: a@b.example\nSubject: x\n\nHello\n\n{text}\n");
        assert_eq!(hits(&filter(), &mail(&GTUBE.concat())), ["GTUBE"]);
        assert!(hits(&filter(), &mail("GTUBE is a test string")).is_empty());
    }

    #[test]
    fn eicar_in_an_attachment_or_as_the_text() {
        let eicar = EICAR.concat();
        assert_eq!(hits(&filter(), &format!("Subject: x\n\n{eicar}\n")), ["EICAR"]);
        let quoted = format!("Subject: x\n\nThe test file is\n{eicar}\n");
        assert!(hits(&filter(), &quoted).is_empty());
        let attached = format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nsee there\n--b\n\
             Content-Disposition: attachment; filename=x.com\n\n{eicar}\n--b--\n"
        );
        assert_eq!(hits(&filter(), &attached), ["EICAR"]);
    }
}
