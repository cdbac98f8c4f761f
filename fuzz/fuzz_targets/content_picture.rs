//! Any bytes as a picture, by the first byte: no panic, and an end within the limits.
//!
//! `cargo +nightly fuzz run content_picture`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Password, Root, unpack};
use libfuzzer_sys::fuzz_target;

/// First bytes of the formats of pictures.
const STARTS: [&[u8]; 6] =
    [b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP", b"II*\0"];

fuzz_target!(|input: &[u8]| {
    let passwords = [Password { word: "word".to_owned(), source: "body".to_owned() }];
    let Some((first, rest)) = input.split_first() else { return };
    let bytes = [STARTS[usize::from(first % 6)], rest].concat();

    let root = Root { name: "a", declared_type: "", bytes: &bytes };
    let tree = unpack(&[root], &Limits::default(), &passwords, &mut NoHost);
    let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
    assert!(!failed, "a decoder panicked");
});
