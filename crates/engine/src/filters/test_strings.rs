//! The two harmless strings that everybody agreed to treat as harmful, so that a filter can be
//! tested: GTUBE for spam, EICAR for malware.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `GTUBE` | 1000 | the text holds the spam test string: class spam |
//! | `EICAR` | 1000 | an attachment holds the anti-virus test file, or a text begins with it: class malware |
//!
//! Limits: the bytes of attachments are searched as they are once their transfer encoding is undone.
//! Archives are not opened here, so a compressed test file is not seen (a stored one is). A text that
//! quotes the EICAR string after other text is somebody writing about it, and does not count.

use gauntlet_mail::{Evidence, View};
use memchr::memmem::Finder;

use crate::filter::{Filter, Findings, Item};
use crate::rulebook::{Lean, Rule, RuleBook};
use crate::scan::Scratch;
use crate::verdict::Class;

/// The strings are put together here, so that no scanner takes this program for what they stand for.
const GTUBE: [&str; 4] =
    ["XJS*C4JDBQADN1.", "NSBN3*2IDNEN*", "GTUBE-STANDARD-ANTI-UBE-TEST", "-EMAIL*C.34X"];
const EICAR: [&str; 4] =
    ["X5O!P%@AP[4\\PZX54(P^)7CC)7}", "$EICAR-STANDARD-", "ANTIVIRUS-TEST-FILE!", "$H+H*"];

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
    pub fn new(book: &mut RuleBook) -> Self {
        TestStrings {
            gtube: book.rule(
                "GTUBE",
                1000.0,
                "The text holds the test string for spam filters",
                Lean::Certain(Class::Spam),
            ),
            eicar: book.rule(
                "EICAR",
                1000.0,
                "Holds the test file for anti-virus programs",
                Lean::Certain(Class::Malware),
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

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        for (part, i) in item.message.parts().iter().zip(0u16..) {
            if part.is_container {
                continue;
            }
            if let Some(text) = part.text()
                && let Some(at) = self.find_gtube.find(text.as_bytes())
            {
                let found = &text.as_bytes()[at..at + self.find_gtube.needle().len()];
                findings.add(&self.gtube, Evidence::new(View::Html, i, at, found));
            }
            let body = part.body();
            let Some(at) = self.find_eicar.find(body) else { continue };
            let at_start = body[..at].trim_ascii().is_empty();
            if part.is_attachment() || at_start {
                let found = &body[at..at + self.find_eicar.needle().len()];
                findings.add(&self.eicar, Evidence::new(View::Body, i, at, found));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    fn filter() -> TestStrings {
        TestStrings::new(&mut RuleBook::default())
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
