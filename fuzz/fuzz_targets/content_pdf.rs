//! Any bytes as a PDF: no panic, and an end within the limits.
//!
//! `cargo +nightly fuzz run content_pdf`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Password, Root, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let passwords = [Password { word: "word".to_owned(), source: "body".to_owned() }];
    let bytes = [b"%PDF-1.7\n", input].concat();

    let root = Root { name: "a.pdf", declared_type: "", bytes: &bytes };
    let tree = unpack(&[root], &Limits::default(), &passwords, &mut NoHost);
    let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
    assert!(!failed, "a decoder panicked");
});
