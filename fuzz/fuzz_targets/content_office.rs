//! Any bytes as a document of Office: no panic, and an end within the limits.
//!
//! `cargo +nightly fuzz run content_office`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Password, Root, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let passwords = [Password { word: "word".to_owned(), source: "body".to_owned() }];
    for magic in [
        &b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"[..],
        b"{\\rtf1",
        b"\x4c\0\0\0\x01\x14\x02\0",
        b"ID;P\n",
        b"<w:wordDocument xmlns:w='http://schemas.microsoft.com/office/word/2003/wordml'>",
        b"<d:document xmlns:d='urn:oasis:names:tc:opendocument:xmlns:office:1.0'>",
        b"<w:wordDocument xmlns:w='http://schemas.microsoft.com/office/word/2003/wordml'><w:fldData>",
        b"ActiveMime",
        b"=",
    ] {
        let bytes = [magic, input].concat();
        let root = Root { name: "a.xls", declared_type: "", bytes: &bytes };
        let tree = unpack(&[root], &Limits::default(), &passwords, &mut NoHost);
        let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
        assert!(!failed, "a decoder panicked");
    }
});
