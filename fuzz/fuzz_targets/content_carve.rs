//! Any bytes behind a program, a picture and a disk's first sector: no panic, and an end within the
//! limits.
//!
//! `cargo +nightly fuzz run content_carve`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Root, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut sector = vec![0u8; 512];
    sector[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
    sector[11..24].copy_from_slice(&[0, 2, 1, 1, 0, 1, 16, 0, 64, 0, 0xf8, 1, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    for front in [&b"MZ\x90\0"[..], b"GIF89a\x01\0\x01\0\0\0\0", &sector] {
        let bytes = [front, input].concat();
        let root = Root { name: "a", declared_type: "", bytes: &bytes };
        let tree = unpack(&[root], &Limits::default(), &[], &mut NoHost);
        let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
        assert!(!failed, "a decoder panicked");
    }
});
