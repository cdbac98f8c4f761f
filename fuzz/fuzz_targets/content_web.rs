//! Any bytes as a page, a calendar, a script or a shortcut, by the first byte: no panic, and an
//! end within the limits.
//!
//! `cargo +nightly fuzz run content_web`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Password, Root, unpack};
use libfuzzer_sys::fuzz_target;

/// Names by whose ending text is read.
const NAMES: [&str; 10] = [
    "a.html",
    "a.svg",
    "a.ics",
    "a.vcf",
    "a.js",
    "a.vbe",
    "a.ps1",
    "a.url",
    "a.iqy",
    "a.search-ms",
];

fuzz_target!(|input: &[u8]| {
    let passwords = [Password { word: "word".to_owned(), source: "body".to_owned() }];
    let Some((first, bytes)) = input.split_first() else { return };

    let root = Root { name: NAMES[usize::from(*first) % NAMES.len()], declared_type: "", bytes };
    let tree = unpack(&[root], &Limits::default(), &passwords, &mut NoHost);
    let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
    assert!(!failed, "a decoder panicked");
});
