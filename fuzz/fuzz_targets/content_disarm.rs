//! Any bytes as documents and pages to be disarmed: no panic, and what is called harmless stays so
//! when it is disarmed again.
//!
//! `cargo +nightly fuzz run content_disarm`

#![no_main]

use gauntlet_content::{Limits, Root};
use gauntlet_content::disarm::{Disarmed, disarm};
use libfuzzer_sys::fuzz_target;

/// Names, and what the bytes begin with; without a name a page that is shown.
const FILES: [(&str, &[u8]); 8] = [
    ("", b""),
    ("a.docm", b"PK\x03\x04"),
    ("a.pdf", b"%PDF-1.7\n"),
    ("a.rtf", b"{\\rtf1"),
    ("a.csv", b"a;=b|'c'!d\n"),
    ("a.doc", b"<w:wordDocument xmlns:w='http://schemas.microsoft.com/office/word/2003/wordml'>"),
    ("a.xls", b"<Workbook xmlns='urn:schemas-microsoft-com:office:spreadsheet'>"),
    ("a.xml", b"<p:package xmlns:p='http://schemas.microsoft.com/office/2006/xmlPackage'>"),
];

fuzz_target!(|input: &[u8]| {
    let limits = Limits::default();
    for (name, magic) in FILES {
        let (bytes, is_page) = ([magic, input].concat(), name.is_empty());
        let file = Root { name, declared_type: "", bytes: &bytes };
        if let Disarmed::Changed(harmless) = disarm(&file, is_page, &limits) {
            let again = disarm(&Root { bytes: &harmless.bytes, ..file }, is_page, &limits);
            assert!(!matches!(again, Disarmed::Refused(_)), "{again:?}");
        }
    }
});
