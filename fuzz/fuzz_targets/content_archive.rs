//! Any bytes as an archive or compressed file: no panic, and an end within the limits.
//!
//! `cargo +nightly fuzz run content_archive`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Password, Root, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let passwords = [Password { word: "word".to_owned(), source: "body".to_owned() }];
    for magic in [
        &b""[..],
        b"PK\x03\x04",
        b"7z\xbc\xaf\x27\x1c",
        b"\x1f\x8b\x08",
        b"BZh9",
        b"\xfd7zXZ\x00",
        b"070701",
        b"\x60\xea\x22\0\x22\x0b\x01\x02",
        b"\0\0\x10\0\0\0\0**ACE**",
        b"SZDD\x88\xf0\x27\x33A",
        b"KWAJ\x88\xf0\x27\xd1\x03\0\x0e\0",
        b"ITSF\x03\0\0\0",
        b"PK\x03\x04\x14\0\0\0\x01\0\0\0\0\0",
        b"PK\x03\x04\x14\0\x06\0\x06\0\0\0\0\0",
        b"conectix",
    ] {
        let bytes = [magic, input].concat();
        let root = Root { name: "a", declared_type: "", bytes: &bytes };
        let tree = unpack(&[root], &Limits::default(), &passwords, &mut NoHost);
        let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
        assert!(!failed, "a decoder panicked");
    }
});
